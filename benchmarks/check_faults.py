"""Plants faults in copies of the sources and tells which rows of the check find them.

python -m benchmarks.check_faults               # all faults: some twenty minutes on two cores
python -m benchmarks.check_faults gae_sign      # one of them

A copy of the packages, in which one fault is planted by changing a line, is trained by
`dicore benchmark benchmarks/check.toml --check`. Writes benchmarks/results/check_faults.md and
exits with 1 if a fault is found by no row.
"""

# ruff: noqa: E501 - lines of the sources, and what replaces them
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/check_faults.md"
SOURCES = (".", "registry", "plugins", "plugins/dist", "plugins/compat", "plugins/agents",
           "plugins/tools", "contrib_envs")  # fmt: skip
PLUGINS, AGENTS = "plugins/dicore_plugins", "plugins/agents/dicore_agents"
VALUE, CONTINUOUS = f"{PLUGINS}/policies/value", f"{PLUGINS}/policies/continuous"


@dataclass(frozen=True)
class Fault:
    """A fault of the sources.

    Args:
        text: What it is.
        rows: Patterns of the rows whose code it touches.
        edits: By file, pairs of a text that occurs once and what replaces it.
    """

    text: str
    rows: tuple[str, ...]
    edits: Mapping[str, Sequence[tuple[str, str]]]


FAULTS = {
    "gae_sign": Fault(
        "GAE subtracts the value of the next state",
        ("*_ppo", "*_a2c"),
        {
            f"{PLUGINS}/functional/kernels.py": [
                ("after = reward[t, n] + discount * next_value[t, n]\n            out[t, n] = (reward",
                 "after = reward[t, n] - discount * next_value[t, n]\n            out[t, n] = (reward"),
            ],
            f"{PLUGINS}/functional/advantage.py": [
                ("advantage = reward + discount * (1 - done.astype(reward.dtype)) * next_value - value",
                 "advantage = reward - discount * (1 - done.astype(reward.dtype)) * next_value - value"),
            ],
        },
    ),
    "gae_advantage_sign": Fault(
        "advantages have the wrong sign",
        ("*_ppo", "*_a2c"),
        {
            f"{PLUGINS}/policies/actor_critic/base.py": [
                ("return gae(reward, value, next_value, over, end, gamma=gamma, gae_lambda=gae_lambda)",
                 "return -gae(reward, value, next_value, over, end, gamma=gamma, gae_lambda=gae_lambda)"),
            ],
        },
    ),
    "no_target": Fault(
        "targets are computed by the network that learns",
        ("*_dqn", "*_c51", "*_rainbow", "*_sac", "*_td3", "*_qmix", "*_cql"),
        {
            f"{VALUE}/dqn.py": [
                ('q_values(self._target_model, batch["next_obs"])', 'q_values(self._model, batch["next_obs"])'),
            ],
            f"{VALUE}/distributional.py": [
                ("self._outputs(self._target_model, next_obs", "self._outputs(self._model, next_obs"),
            ],
            f"{CONTINUOUS}/sac.py": [("self._target_model.q(", "self._model.q(")],
            f"{CONTINUOUS}/td3.py": [
                ("self._target_model.q(", "self._model.q("),
                ("self._target_model.policy(", "self._model.policy("),
            ],
            f"{AGENTS}/policies/value/base.py": [
                ('later = self._values(self._target_model, batch["next_obs"])',
                 'later = self._values(self._model, batch["next_obs"])'),
            ],
            f"{AGENTS}/policies/value/mixed.py": [
                ("self._target_model.total(later", "self._model.total(later"),
            ],
        },
    ),
    "gamma": Fault(
        "the discount factor is smaller by 0.01",
        ("*",),
        {
            f"{PLUGINS}/functional/td.py": [
                ('    value_gamma = batch.get("value_gamma")\n    reward = discounted_sum',
                 '    gamma = gamma - 0.01\n    value_gamma = batch.get("value_gamma")\n    reward = discounted_sum'),
            ],
            f"{PLUGINS}/functional/samples.py": [
                ("[gamma**steps for", "[(gamma - 0.01) ** steps for"),
            ],
            f"{PLUGINS}/policies/actor_critic/base.py": [
                ("gamma, gae_lambda = self._cfg.discount_factor, self._lambda",
                 "gamma, gae_lambda = self._cfg.discount_factor - 0.01, self._lambda"),
            ],
            f"{PLUGINS}/policies/actor_critic/impala.py": [
                ("gamma=self._cfg.discount_factor,", "gamma=self._cfg.discount_factor - 0.01,"),
            ],
            f"{AGENTS}/policies/value/base.py": [
                ('"value_gamma", cfg.discount_factor**cfg.nstep', '"value_gamma", (cfg.discount_factor - 0.01) ** cfg.nstep'),
            ],
        },
    ),
    "reward_plus": Fault(
        "collected rewards are larger by 0.1",
        ("*_dqn", "*_c51", "*_rainbow", "*_ppo", "*_a2c", "*_impala", "*_sac", "*_td3", "*_qmix"),
        {
            f"{PLUGINS}/policies/base.py": [
                ('"reward": timestep.reward,', '"reward": timestep.reward + 0.1,'),
            ],
        },
    ),
    "reward_late": Fault(
        "the reward of a step is that of the step before",
        ("*_dqn", "*_c51", "*_rainbow", "*_ppo", "*_a2c", "*_impala", "*_sac", "*_td3", "*_qmix"),
        {
            f"{PLUGINS}/policies/base.py": [
                ('"reward": timestep.reward,', '"reward": _before(self, timestep.reward),'),
                ("\n\nclass Policy:", "\n\n" + '''
def _before(policy, reward):
    earlier = getattr(policy, "_earlier", None)
    policy._earlier = reward.copy()
    return reward * 0 if earlier is None or earlier.shape != reward.shape else earlier
'''.strip() + "\n\n\nclass Policy:"),
            ],
        },
    ),
}  # fmt: skip


def planted(fault: Fault, folder: Path) -> None:
    """Copies the packages into a folder, with a fault.

    Raises:
        SystemExit: a text to replace does not occur once.
    """
    skip = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "tests", "docs", "runs")
    for name in ("dicore", "registry", "plugins", "contrib_envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    for name, edits in fault.edits.items():
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in edits:
            if text.count(old) != 1:
                raise SystemExit(f"{name}: {old!r} occurs {text.count(old)} times; mend the fault")
            text = text.replace(old, new)
        (folder / name).write_text(text, encoding="utf-8")


def check(fault: Fault, folder: Path, runs: Path, jobs: int) -> tuple[int, str]:
    """Runs the check with the sources of a folder; returns its exit code and what it printed."""
    only = [word for pattern in fault.rows for word in ("--only", pattern)]
    path = os.pathsep.join(str(folder / name) for name in SOURCES)
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from dicore.cli import main; sys.exit(main())", "benchmark", "benchmarks/check.toml", "--check",
         "--runs", str(runs), "--jobs", str(jobs), *only],
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def outside(printed: str) -> dict[str, list[str]]:
    """Returns the measures outside of their intervals by row, from what a check printed."""
    lines = printed.partition("MEASURE")[2].splitlines()[1:]
    found: dict[str, list[str]] = {}
    for line in lines:
        match = re.fullmatch(r"(\S+) +(\S+) +(\S+) +(\S+) +(\S+)", line.strip())
        if match:
            found.setdefault(match[1], []).append(
                f"{match[2]} {match[3]} ({match[4]} to {match[5]})"
            )
    return found


def told(name: str, fault: Fault, rows: Sequence[str], found: Mapping[str, list[str]]) -> str:
    """Returns the section of a fault."""
    lines = [f"## {name}: {fault.text}", "", "| Row | Outside |", "| --- | --- |"]
    lines += [f"| `{row}` | {'; '.join(found.get(row, ())) or 'not found'} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", default=list(FAULTS), metavar="FAULT")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs/check_faults")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    from dicore_tools.results.plan import read_plan

    plan, sections, missed = read_plan(ROOT / "benchmarks/check.toml"), {}, []
    for name in given.faults:
        fault, folder = FAULTS[name], given.runs / name / "sources"
        shutil.rmtree(folder, ignore_errors=True)
        planted(fault, folder)
        code, printed = check(fault, folder, given.runs / name, given.jobs)
        if code not in (0, 1):
            raise SystemExit(f"{name}: the check ended with {code}\n{printed}")
        found = outside(printed)
        missed += [name] * (not found)
        rows = [
            row.name
            for row in plan.rows
            if any(fnmatchcase(row.name, pattern) for pattern in fault.rows)
        ]
        sections[name] = told(name, fault, rows, found)
        print(sections[name], flush=True)
    if list(given.faults) == list(FAULTS):
        text = "\n".join(["# Planted faults and the check\n", *sections.values()])
        RESULTS.write_text(text, encoding="utf-8")
    if missed:
        raise SystemExit(f"found by no row: {', '.join(missed)}")


if __name__ == "__main__":
    main()
