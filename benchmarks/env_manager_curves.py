"""Env steps per second over the number of environments, beside the vector envs of other frameworks.

python -m benchmarks.env_manager_curves            # writes benchmarks/results/env_managers.*
python -m benchmarks.env_manager_curves --quick    # N = 1 and 8, a cheap env; prints only

Two environments: `cheap` (a CartPole without physics: float32 [4], episodes of 200 steps) and
`images` (uint8 [4, 84, 84]). All contenders step with the same actions. Those with a process for
each environment stop at 64 environments. Rates are medians; contenders take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from benchmarks.measure import commit, machine, missing

RESULTS = Path(__file__).parent / "results"
NUMBERS = (1, 8, 64, 256, 1024)
MOST_PROCESSES = 64
ROUNDS, ROUND_S = 3, 0.4
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#000000")
Step = Callable[[], object]
Made = tuple[Step, Callable[[], object]]
"""A function that steps all environments once, and one that closes them."""


class Env(gymnasium.Env[Any, Any]):
    """Costs next to nothing, so that what is measured is what is around it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.observation_space = Box(0, 255, shape, dtype)
        self.action_space = Discrete(2)
        self._frames = [np.full(shape, value, dtype) for value in range(4)]
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._step = 0
        return self._frames[0], {}

    def step(self, action: Any) -> Any:
        self._step += 1
        return self._frames[self._step % 4], 1.0, self._step >= 200, False, {}


def cheap() -> Env:
    return Env((4,), np.float32)


def images() -> Env:
    return Env((4, 84, 84), np.uint8)


ENVS: dict[str, Callable[[], Env]] = {"cheap": cheap, "images": images}


def dicore_manager(name: str, make: Callable[[], Any], count: int) -> Made:
    import dicore_registry
    from dicore.data import EnvBatch
    from dicore.testing.component import Component

    registry = dicore_registry.default()
    component = Component(registry.find("env_manager", name), registry)
    manager = component.build({}, env_fn=[make] * count)
    manager.seed(0)
    manager.launch()
    actions = np.ones(count, np.int64)

    def step() -> None:
        ready = manager.ready_obs
        manager.step_into(EnvBatch(ready.env_id, {"action": actions}))

    return step, manager.close


def bare_loop(name: str, make: Callable[[], Any], count: int) -> Made:
    envs = [make() for _ in range(count)]
    obs = [env.reset(seed=0)[0] for env in envs]

    def step() -> None:
        for i, env in enumerate(envs):
            obs[i], _, terminated, truncated, _ = env.step(1)
            if terminated or truncated:
                obs[i], _ = env.reset(seed=0)

    return step, lambda: None


def gymnasium_vector(name: str, make: Callable[[], Any], count: int) -> Made:
    env = getattr(gymnasium.vector, name)([make] * count)
    env.reset(seed=0)
    actions = np.ones(count, np.int64)
    return lambda: env.step(actions), env.close


def sb3_vec_env(name: str, make: Callable[[], Any], count: int) -> Made:
    from stable_baselines3.common import vec_env

    env = getattr(vec_env, name)([make] * count)
    env.reset()
    actions = np.ones(count, np.int64)
    return lambda: env.step(actions), env.close


CONTENDERS: dict[str, tuple[Callable[..., Made], str, bool]] = {
    "dicore base": (dicore_manager, "base", False),
    "dicore sync_subprocess": (dicore_manager, "sync_subprocess", False),
    "bare loop": (bare_loop, "", False),
    "Gymnasium Sync": (gymnasium_vector, "SyncVectorEnv", False),
    "Gymnasium Async": (gymnasium_vector, "AsyncVectorEnv", True),
    "SB3 Dummy": (sb3_vec_env, "DummyVecEnv", False),
    "SB3 Subproc": (sb3_vec_env, "SubprocVecEnv", True),
}
"""What makes each, its name there, and whether it has a process for each environment."""


def rates(env: str, count: int, *, quick: bool) -> dict[str, float]:
    """Returns env steps per second of each contender with this number of environments."""
    made: dict[str, Made] = {}
    try:
        for label, (maker, name, processes) in CONTENDERS.items():
            if processes and (quick or count > MOST_PROCESSES):
                continue
            try:
                made[label] = maker(name, ENVS[env], count)
            except ImportError:
                missing("curves", label)
        found: dict[str, list[float]] = {label: [] for label in made}
        for _ in range(1 if quick else ROUNDS):
            for label, (step, _) in made.items():
                found[label].append(count * _rate(step, 0.02 if quick else ROUND_S))
    finally:
        for _, close in made.values():
            close()
    return {label: statistics.median(values) for label, values in found.items()}


def _rate(step: Step, seconds: float) -> float:
    """Returns calls per second."""
    step()
    calls, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        step()
        calls += 1
    return calls / spent


def main() -> None:
    quick = "--quick" in sys.argv
    numbers, envs = (NUMBERS[:2], ["cheap"]) if quick else (NUMBERS, list(ENVS))
    found: list[dict[str, Any]] = []
    for env in envs:
        for count in numbers:
            for label, rate in rates(env, count, quick=quick).items():
                line = {"env": env, "envs": count, "contender": label,
                        "env_steps_per_s": float(f"{rate:.4g}")}  # fmt: skip
                found.append(line)
                print(json.dumps({**line, "commit": commit(), "machine": machine()}), flush=True)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        lines = "\n".join(map(json.dumps, found))
        (RESULTS / "env_managers.jsonl").write_text(f"{lines}\n", encoding="utf-8")
        (RESULTS / "env_managers.md").write_text(tables(found), encoding="utf-8")
        for env in envs:
            (RESULTS / f"env_managers_{env}.svg").write_text(picture(found, env), encoding="utf-8")


def tables(found: list[dict[str, Any]]) -> str:
    """Returns one Markdown table per environment."""
    load = os.getloadavg()[0]
    text = f"# Env steps per second\n\n{__doc__}\n{machine()}, commit {commit()}, load {load:.1f}\n"
    for env in ENVS:
        numbers = sorted({each["envs"] for each in found})
        text += f"\n## {env}\n\n![](env_managers_{env}.svg)\n\n"
        text += f"| | {' | '.join(f'N = {number}' for number in numbers)} |\n"
        text += "|---" * (len(numbers) + 1) + "|\n"
        for label in CONTENDERS:
            by_number = {each["envs"]: each["env_steps_per_s"] for each in found
                         if each["env"] == env and each["contender"] == label}  # fmt: skip
            cells = [f"{by_number[n]:,.0f}" if n in by_number else "" for n in numbers]
            text += f"| {label} | {' | '.join(cells)} |\n"
    return text


def picture(found: list[dict[str, Any]], env: str) -> str:
    """Returns the curves of one environment as an SVG, both axes logarithmic."""
    points = [each for each in found if each["env"] == env]
    low, high = (fn(np.log10([each["env_steps_per_s"] for each in points])) for fn in (min, max))
    low, high = np.floor(low * 2) / 2, np.ceil(high * 2) / 2

    def x(count: float) -> float:
        return 80 + 400 * float(np.log2(count)) / float(np.log2(NUMBERS[-1]))

    def y(rate: float) -> float:
        return 320 - 290 * (float(np.log10(rate)) - low) / (high - low)

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="680" height="370"'
             ' font-family="sans-serif" font-size="12">',
             '<rect width="680" height="370" fill="white"/>']  # fmt: skip
    middle = 'text-anchor="middle"'
    parts += [f'<text x="{x(count):.0f}" y="340" {middle}>{count}</text>' for count in NUMBERS]
    for tick in np.arange(low, high + 0.1, 0.5):
        at, value = y(10**tick), f"{10**tick:,.0f}"
        parts.append(f'<line x1="80" x2="480" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
                     f'<text x="74" y="{at:.1f}" text-anchor="end">{value}</text>')  # fmt: skip
    parts.append('<text x="280" y="360" text-anchor="middle">environments</text>'
                 f'<text x="80" y="20">env steps/s, env "{env}"</text>')  # fmt: skip
    for number, label in enumerate(CONTENDERS):
        color = COLORS[number % len(COLORS)]
        curve = [each for each in points if each["contender"] == label]
        if not curve:
            continue
        path = " ".join(f"{x(each['envs']):.1f},{y(each['env_steps_per_s']):.1f}" for each in curve)
        dash = "" if label.startswith("dicore") else ' stroke-dasharray="5 3"'
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
        )
        parts.append(f'<text x="495" y="{45 + 20 * number}" fill="{color}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
