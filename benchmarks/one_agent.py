"""P29: what the contract of several agents costs those of one: nothing.

Trainings on CartPole, one process for each, in turns: with `dicore-agents`, and with the package
denied, so that none of its files is read. Both end with the same parameters, which is checked, and
make as many function calls per env step, which no other load on the machine changes. Beside them
the same task as a team of one agent, by the algorithm of teams with the same settings, which pays
for its axis. Env steps per second of processor time, after the imports.

python -m benchmarks.one_agent
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.measure import ROUNDS, compare, emit

TRAIN = """
import cProfile, json, pstats, sys, tempfile, time
import torch
from dicore.run.launch import launch
from dicore_plugins.collectors import SampleCollector
torch.set_num_threads(1)
config, steps = json.loads(sys.argv[1]), int(sys.argv[2])
def train(steps):
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        outcome = launch(config, seed=0, exp_name=folder + "/run", max_env_step=steps)
        return time.process_time() - start, outcome.policy.learn_mode.state_dict()["model"]
train(2048)
spent, model = train(steps)
profile, collect = cProfile.Profile(), SampleCollector.collect_batch
def noted(self, *args, **more):
    profile.enable()
    return collect(self, *args, **more)
SampleCollector.collect_batch = noted
train(8192)
profile.disable()
size = sum(float(each.double().abs().sum()) for each in model.values())
print("FOUND", steps / spent, pstats.Stats(profile).total_calls / 8192, size)
"""
ENV = {"type": "cartpole", "collector_env_num": 8, "stop_value": float("inf")}
TEAM = {**ENV, "env_wrapper": ["one_as_agents"]}


class Case(NamedTuple):
    """A training: the algorithm of teams, env steps, settings of both, and the same network."""

    team: str
    env_steps: int
    learn: dict[str, int]
    n_sample: int
    model: dict[str, Any]


CASES = {
    "ppo": Case("ippo", 60_000, {"batch_size": 64, "epoch_per_collect": 4}, 1024, {}),
    "dqn": Case("independent_q", 20_000, {"batch_size": 64, "update_per_collect": 4}, 32,
                {"encoder_hidden_size_list": [64, 64]}),
}  # fmt: skip


def config_of(policy: str, case: Case, env: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Returns the config of a training without evaluations, as JSON."""
    parts = {
        "type": policy, "learn": case.learn, "collect": {"n_sample": case.n_sample},
        "model": dict(model), "eval": {"evaluator": {"eval_freq": 10**9}},
    }  # fmt: skip
    return json.dumps(
        {"env": dict(env), "policy": parts, "pipeline": {"final_eval": False, "logger": ["csv"]}}
    )


def found(words: list[str], deny: str) -> list[float]:
    """Returns env steps per second, calls per env step, and the sum of the parameters' sizes."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "DICORE_PLUGINS_DENY": deny}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", TRAIN, *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env=environ, cwd=folder,
        )  # fmt: skip
    for line in done.stdout.splitlines():
        if line.startswith("FOUND"):
            return [float(each) for each in line.split()[1:]]
    raise SystemExit(done.stdout[-2000:])


def main() -> None:
    """Trains in turns, and prints rates and ratios."""
    for name, case in CASES.items():
        plain = [config_of(name, case, ENV, case.model), str(case.env_steps)]
        team = [config_of(case.team, case, TEAM, {}), str(case.env_steps)]
        contenders = [("dicore", plain, ""), ("without", plain, "dicore-agents"),
                      (case.team, team, "")]  # fmt: skip
        rates: dict[str, list[float]] = {label: [] for label, _, _ in contenders}
        calls: dict[str, list[float]] = {label: [] for label, _, _ in contenders}
        for _ in range(ROUNDS):
            sizes = {}
            for label, words, deny in contenders:
                rate, count, sizes[label] = found(words, deny)
                rates[label].append(rate)
                calls[label].append(1 / count)
            assert sizes["dicore"] == sizes["without"], sizes
            contenders.append(contenders.pop(0))  # each comes first in turn
        for label, values in rates.items():
            emit(f"P29 {name} {label}", values, "env steps/s")
        compare(f"P29 {name}", rates["dicore"], rates["without"], "without the package", 0.99)
        compare(f"P29 {name} calls", calls["dicore"], calls["without"], "without", 0.99)
        ratios = [a / b for a, b in zip(rates[case.team], rates["dicore"], strict=True)]
        emit(f"P29 {case.team} as a team of one / {name}", ratios, "x")


if __name__ == "__main__":
    main()
