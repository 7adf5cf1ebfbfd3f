"""P35: five seeds that train together (`--together`), compared with one seed alone.

CPU time of one thread, which other processes do not stop. `updates`: the gradient updates only;
`training`: whole runs without evaluations; `run`: whole runs as the preset has them. A ratio of 5
says that nothing is gained over one seed after the other.

python -m benchmarks.together                 # updates: a minute
python -m benchmarks.together updates runs    # whole runs too: ten minutes more
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.measure import ROUNDS, at_most, emit
from dicore.config import bind
from dicore.data import Batch
from dicore.run.env_factory import spec_of
from dicore.run.launch import TrainRequest, compile_request, launch
from dicore.run.random import seeded
from dicore_plugins.pipelines.training import Parts
from dicore_tools.multi_seed.series import run_series
from dicore_tools.together.supported import joint_learner

SEEDS, TARGET = 5, 2.0
BIG = [
    "policy.model.actor_hidden_size_list=[256,256]",
    "policy.model.critic_hidden_size_list=[256,256]",
    "policy.learn.batch_size=256",
]
UPDATES: dict[str, tuple[str, list[str], int]] = {
    "cartpole dqn": ("cartpole_dqn", [], 5),
    "cartpole ppo": ("cartpole_ppo", [], 1),
    "pendulum ppo": ("pendulum_ppo", [], 1),
    "pendulum sac 256x256": ("pendulum_sac", BIG, 3),
}
"""Preset, overrides, and calls of the learn mode in one timing."""
RUNS: dict[str, tuple[str, list[str], int]] = {
    "cartpole dqn": ("cartpole_dqn", [], 1_200),
    "cartpole ppo": ("cartpole_ppo", [], 12_288),
    "pendulum sac 256x256": ("pendulum_sac", BIG, 160),
}
"""Preset, overrides, and env steps."""
SILENT = ["policy.eval.evaluator.eval_freq=1000000", "pipeline.final_eval=false"]


def policies(preset: str, overrides: list[str], count: int) -> list[Any]:
    """Returns the policies of as many seeds."""
    found = []
    for seed in range(count):
        request = TrainRequest(config=preset, seed=seed, overrides=overrides)
        compiled = compile_request(request)
        compiled = bind(compiled, spec_of(compiled.env, seed))
        with seeded(seed):
            found.append(Parts(compiled.cfg).policy)
    return found


def samples(policy: Any, rng: np.random.Generator) -> Batch:
    """Returns what an update of a policy takes, of random numbers."""
    cfg = policy.learn_mode.get_attribute("cfg")
    size = cfg.collect.n_sample if cfg.on_policy else cfg.learn.batch_size
    shape = cfg.model.obs_shape
    width = shape if isinstance(shape, int) else shape[0]
    normal = lambda *shape: rng.standard_normal((size, *shape), np.float32)  # noqa: E731
    columns: dict[str, Any] = {"obs": normal(width), "reward": normal(), "done": 0 * normal()}
    if cfg.get("action_low") is None:
        columns["action"] = rng.integers(0, cfg.model.action_shape, size)
    else:
        columns["action"] = columns["raw_action"] = normal(cfg.model.action_shape)
    names = ("value", "advantage", "target", "log_prob") if cfg.on_policy else ()
    columns |= {name: normal() for name in names}
    if not cfg.on_policy:
        columns["next_obs"] = normal(width)
    return Batch(columns, size)


def seconds(work: Callable[[], object], calls: int = 1) -> float:
    """Returns the CPU seconds of a call."""
    start = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - start) / calls


def paired(name: str, one: Callable[[], object], five: Callable[[], object], calls: int) -> None:
    """Prints the time of one seed, and the ratio of five to one, round by round."""
    one(), five()
    times, ratios = [], []
    for _ in range(ROUNDS):
        alone = seconds(one, calls)
        times.append(alone * 1e3)
        ratios.append(seconds(five, calls) / alone)
    emit(f"P35 {name}: one seed", times, "ms")
    at_most(f"P35 {name}: {SEEDS} seeds / one", ratios, "x", TARGET)


def updates() -> None:
    """Measures calls of the learn mode."""
    for name, (preset, overrides, calls) in UPDATES.items():
        (alone,), every = policies(preset, overrides, 1), policies(preset, overrides, SEEDS)
        joint = joint_learner([each.learn_mode for each in every])
        rng = np.random.default_rng(0)
        batches = [samples(each, rng) for each in every]
        paired(
            f"updates, {name}",
            lambda alone=alone, batch=batches[0]: alone.learn_mode.forward(batch),
            lambda joint=joint, batches=batches: joint.update(batches, [{}] * SEEDS),
            calls,
        )


def runs() -> None:
    """Measures whole runs."""
    for name, (preset, overrides, steps) in RUNS.items():
        for what, more in (("training", SILENT), ("run", [])):
            request = TrainRequest(
                config=preset,
                max_env_step=steps,
                overrides=["env.stop_value=inf", "pipeline.logger=[]", *overrides, *more],
            )
            with tempfile.TemporaryDirectory() as folder:
                paired(
                    f"{what}, {name}",
                    lambda request=request, folder=folder: launch(
                        replace(request, seed=0, exp_name=f"{folder}/one")
                    ),
                    lambda request=request, folder=folder: run_series(
                        replace(request, exp_name=f"{folder}/five"), range(SEEDS), together=True
                    ),
                    1,
                )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    parts = {"updates": updates, "runs": runs}
    for part in sys.argv[1:] or ["updates"]:
        if part not in parts:
            raise SystemExit(f"{part}: expected {' or '.join(parts)}\n\n{__doc__}")
        parts[part]()
