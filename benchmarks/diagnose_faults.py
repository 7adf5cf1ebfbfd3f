"""Plants faults in configs of presets and tells what `dicore diagnose` says of their runs.

python -m benchmarks.diagnose_faults                # all: some ten minutes on one core
python -m benchmarks.diagnose_faults no_target ppo  # those whose name contains one of the words
python -m benchmarks.diagnose_faults --runs FOLDER  # keeps the runs, and reads those that exist

Each fault is a short training of a preset with one wrong option; the rule that names it has to come
first. Healthy presets, trained as briefly, have to give no finding. Writes
benchmarks/results/diagnose_faults.md if all were run, and exits with 1 if fewer than 12 faults are
named first or a healthy run is not silent.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from dicore.console import chatter
from dicore.run.folder import RunFolder
from dicore.run.launch import launch
from dicore_tools.diagnosis.evidence import read_evidence
from dicore_tools.diagnosis.table import Diagnosis, diagnose

RESULTS = Path(__file__).parent / "results" / "diagnose_faults.md"
NAMED_FIRST = 12
ENDLESS = ["env.stop_value=1e9", "pipeline.final_eval=false"]
DQN, PPO, SAC = ("cartpole_dqn", 2_500), ("cartpole_ppo", 8_000), ("pendulum_sac", 1_500)
SMALL_SAC = ["policy.learn.batch_size=64", "policy.eval.evaluator.eval_freq=500"]


class Drifting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds a number that grows by 0.02 per step, over all episodes, to the position."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._steps = 0
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(self, **options: Any) -> Any:
        """Resets the environment; the number goes on."""
        obs, info = self.env.reset(**options)
        return self._moved(obs), info

    def step(self, action: Any) -> Any:
        """Steps."""
        obs, *rest = self.env.step(action)
        self._steps += 1
        return self._moved(obs), *rest

    def _moved(self, obs: Any) -> Any:
        return obs + np.array([0.02 * self._steps, 0, 0, 0], np.float32)


def make_drifting() -> Any:
    """Returns CartPole whose observations drift."""
    return Drifting(gymnasium.make("CartPole-v1"))


def make_rich() -> Any:
    """Returns CartPole whose rewards are 10,000."""
    return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), rich)


def rich(reward: Any) -> float:
    """Returns the reward times 10,000."""
    return 1e4 * float(reward)


gymnasium.register("DriftingCartPole-v0", make_drifting)
gymnasium.register("RichCartPole-v0", make_rich)


class Case(NamedTuple):
    """A training: preset, env steps, options; and the rule that names its fault."""

    base: tuple[str, int]
    options: Sequence[str]
    rule: str = ""


def wrapped(**options: object) -> str:
    """Returns the override that puts one wrapper around the environment."""
    return f"env.env_wrapper={json.dumps([options])}"


FAULTS = {
    "discount_too_small": Case(DQN, ["policy.discount_factor=0.5"], "short_horizon"),
    "learning_rate_x100_dqn": Case(DQN, ["policy.learn.learning_rate=0.4"], "learning_rate_high"),
    "learning_rate_x100_ppo": Case(PPO, ["policy.learn.learning_rate=0.3"], "learning_rate_high"),
    "learning_rate_tiny": Case(DQN, ["policy.learn.learning_rate=4e-7"], "learning_rate_low"),
    "no_target": Case(
        DQN, ["policy.learn.target_update_freq=1", "policy.learn.target_theta=1.0"], "no_target"
    ),
    "target_frozen": Case(SAC, [*SMALL_SAC, "policy.learn.target_theta=1e-6"], "frozen_target"),
    "rewards_clipped_to_zero": Case(
        DQN, [wrapped(type="clip_reward", min_reward=0.0, max_reward=0.0)], "constant_rewards"
    ),
    "observations_x10000": Case(
        DQN, [wrapped(type="static_obs_norm", std=1e-4)], "observation_scale"
    ),
    "observations_x10000_ppo": Case(
        PPO, [wrapped(type="static_obs_norm", std=1e-4)], "observation_scale"
    ),
    "exploration_ended_at_once": Case(
        DQN, ["policy.other.eps.decay=1", "policy.other.eps.end=0.0"], "exploration_ended"
    ),
    "exploration_never_ends": Case(
        DQN, ["policy.other.eps.decay=1000000"], "exploration_goes_on"
    ),
    "entropy_weight_huge": Case(PPO, ["policy.learn.entropy_weight=10"], "entropy_dominates"),
    "entropy_weight_zero": Case(
        SAC, [*SMALL_SAC, "policy.learn.auto_alpha=false", "policy.learn.alpha=1e-6"],
        "entropy_collapsed",
    ),
    "replay_ratio_too_high": Case(
        ("cartpole_dqn", 384),
        ["policy.collect.random_collect_size=128", "policy.learn.update_per_collect=2000"],
        "replay_ratio_high",
    ),
    "epochs_too_many": Case(
        ("cartpole_ppo", 3_000), ["policy.learn.epoch_per_collect=200"], "replay_ratio_high"
    ),
    "clip_ratio_huge": Case(
        PPO, ["policy.learn.clip_ratio=0.99", "policy.learn.learning_rate=0.02"], "kl_spikes"
    ),
    "clip_ratio_tiny": Case(PPO, ["policy.learn.clip_ratio=1e-4"], "mostly_clipped"),
    "rewards_x10000": Case(DQN, ["env.env_id=RichCartPole-v0"], "reward_scale"),
    "observations_drift": Case(
        DQN, ["env.env_id=DriftingCartPole-v0", wrapped(type="obs_norm")], "normalisation_drifts"
    ),
    "grad_clip_tiny": Case(DQN, ["policy.learn.max_grad_norm=1e-5"], "gradients_clipped"),
    "buffer_too_small": Case(
        DQN, ["policy.other.replay_buffer.replay_buffer_size=256"], "buffer_small"
    ),
    "ends_ignored": Case(DQN, ["policy.learn.ignore_done=true"], "ends_ignored"),
    "warm_up_as_long_as_the_budget": Case(
        DQN, ["policy.collect.random_collect_size=2400"], "hardly_any_updates"
    ),
    "one_episode_per_evaluation": Case(
        ("pendulum_sac", 1_500),
        [*SMALL_SAC, "policy.eval.evaluator.eval_freq=100", "env.evaluator_env_num=1",
         "env.n_evaluator_episode=1", "policy.learn.update_per_step=0.5"],
        "evaluation_noise",
    ),
}  # fmt: skip
"""Options that are wrong, by name."""

HEALTHY = {
    "cartpole_dqn": Case(("cartpole_dqn", 3_000), []),
    "cartpole_ppo": Case(("cartpole_ppo", 10_000), []),
    "cartpole_a2c": Case(("cartpole_a2c", 15_000), []),
    "cartpole_c51": Case(("cartpole_c51", 2_000), []),
    "cartpole_qrdqn": Case(("cartpole_qrdqn", 2_000), []),
    "cartpole_dueling": Case(("cartpole_dueling", 2_500), []),
    "cartpole_impala": Case(("cartpole_impala", 10_000), []),
    "cartpole_pqn": Case(("cartpole_pqn", 10_000), []),
    "acrobot_ppo": Case(("acrobot_ppo", 10_000), []),
    "pendulum_ppo": Case(("pendulum_ppo", 12_000), []),
    "pendulum_sac": Case(("pendulum_sac", 1_500), []),
    "pendulum_td3": Case(("pendulum_td3", 2_000), []),
}
"""Presets as they are."""


def run_case(name: str, case: Case, folder: Path, seed: int = 0) -> Diagnosis:
    """Trains, unless the run exists, and returns its diagnosis."""
    where = folder / name
    preset, steps = case.base
    if not (where / "ckpt" / "final").is_dir():
        with chatter("quiet"):
            launch(
                preset, exp_name=str(where), exist="overwrite", seed=seed, max_env_step=steps,
                overrides=[*ENDLESS, *case.options],
            )  # fmt: skip
    return diagnose(read_evidence(RunFolder.open(where)))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the cases and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names of cases")
    parser.add_argument("--runs", type=Path, help="folder of the runs")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    given = parser.parse_args(argv)
    rows, wrong, first = [], 0, 0
    chosen = [
        (name, case)
        for name, case in (*FAULTS.items(), *((f"healthy_{n}", c) for n, c in HEALTHY.items()))
        if not given.words or any(word in name for word in given.words)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        for name, case in chosen:
            begun = time.monotonic()
            found = run_case(name, case, given.runs or Path(temporary), given.seed)
            rules = [each.rule for each in found.findings]
            right = rules[:1] == [case.rule] if case.rule else not rules
            first += right and bool(case.rule)
            wrong += not right and not case.rule
            what = found.findings[0].what if rules else ""
            rows.append((name, case.rule or "silent", ", ".join(rules) or "silent", right, what))
            seconds = time.monotonic() - begun
            mark = "ok   " if right else "WRONG"
            print(f"{mark} {name}: {rows[-1][2]}   ({seconds:.0f} s)  {what}", flush=True)
    faults = sum(bool(case.rule) for _, case in chosen)
    summary = f"{first} of {faults} faults are named first; {wrong} healthy runs are not silent"
    print(summary)
    if not given.words and not given.seed:
        RESULTS.write_text(page(rows, summary), encoding="utf-8")
    return int(bool(wrong) or (not given.words and first < NAMED_FIRST))


def page(rows: Sequence[tuple[str, str, str, bool, str]], summary: str) -> str:
    """Returns the table of the results."""
    lines = [
        "# Planted faults and what `dicore diagnose` says of them\n",
        f"{summary}. The thresholds of the rules were chosen by these runs, of seed 0;"
        " `python -m benchmarks.diagnose_faults --seed 1` tries them on others.\n",
        "| run | expected | findings, the first one first | evidence of the first | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, expected, found, right, what in rows:
        lines.append(f"| {name} | {expected} | {found} | {what} | {'yes' if right else 'no'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
