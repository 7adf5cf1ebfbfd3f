"""What an environment of several agents keeps, beside what every environment does.

    assert dicore.testing.env.failures_of(MyEnv) == {}
    assert dicore_agents.failures_of_agents(MyEnv) == {}

Shapes: A agents, n actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dicore.interfaces.env import EnvSpec

__all__ = ["failures_of_agents"]


def failures_of_agents(
    make: Callable[[], Any], *, episodes: int = 5, steps: int = 200, seed: int = 0
) -> dict[str, str]:
    """Plays with random actions that are allowed, and returns what is wrong.

    Args:
        make: Makes an environment.
        episodes: Episodes to play.
        steps: Steps of an episode, at most.
        seed: Seed of the first episode, and of the actions.

    Returns:
        What is wrong, by the name of the check: `form` of spaces and names; `start`: somebody acts;
        `alive`: 0 or 1; `mask`: who acts has an action; `dead`: who does not act earns nothing;
        `end`: after a truncation, those stay alive that would have acted; empty: nothing is wrong.
    """
    env = make()
    found: dict[str, str] = {}
    try:
        wrong = _form(EnvSpec.of(env))
        if wrong:
            return {"form": wrong}
        rng = np.random.default_rng(seed)
        for episode in range(episodes):
            for name, why in _played(env, seed + episode, steps, rng):
                found.setdefault(name, f"{why}, in the episode with seed {seed + episode}")
    finally:
        env.close()
    return found


def _form(spec: EnvSpec) -> str:
    """Returns what is wrong with names and spaces."""
    names, parts = spec.agents, dict(getattr(spec.observation, "spaces", None) or {})
    if not names:
        return "agent_ids is missing: list the names of the agents"
    if len({*names}) < len(names):
        return f"agent_ids has a name twice: {', '.join(names)}"
    count = len(names)
    if "obs" not in parts:
        return f"expected observations Dict(obs: Box({count}, ...)), got {spec.observation}"
    for name in ("obs", "alive", "action_mask"):
        shape = tuple(getattr(parts.get(name), "shape", None) or (count,))
        if shape[0] != count:
            return f"{name} has {shape[0]} rows for {count} agents"
    shape = tuple(spec.action.shape or ())
    if shape[:1] != (count,):
        return f"actions have the shape {[*shape]}; expected a row for each of {count} agents"
    if spec.reward_shape not in ((), (count,)):
        return f"rewards have the shape {[*spec.reward_shape]}; expected [] or [{count}]"
    return ""


def _played(env: Any, seed: int, steps: int, rng: Any) -> Iterator[tuple[str, str]]:
    """Plays an episode; yields what is wrong, by the name of the check."""
    obs, _ = env.reset(seed=seed)
    if "alive" in obs and not np.any(obs["alive"]):
        yield "start", "nobody acts after the reset"
    for step in range(steps):
        yield from _seen(obs, f"step {step}")
        acted = np.asarray(obs.get("alive", 1))
        action = _allowed(env.action_space, obs.get("action_mask"), rng)
        obs, reward, terminated, truncated, _ = env.step(action)
        paid = np.asarray(reward)
        if paid.ndim == 1 and np.any(paid[np.broadcast_to(acted == 0, paid.shape)]):
            yield "dead", f"step {step} pays {paid.tolist()}, and alive was {acted.tolist()}"
        if not terminated and truncated and not np.any(obs.get("alive", 1)):
            yield "end", f"step {step} is truncated, but nobody would have acted next"
        if terminated or truncated:
            return


def _seen(obs: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with `alive` and masks of one observation."""
    alive = np.asarray(obs.get("alive", 1))
    if not np.isin(alive, (0, 1)).all():
        yield "alive", f"alive is {alive.tolist()} before {where}; expected 0 or 1"
    mask = obs.get("action_mask")
    if mask is not None:
        stuck = (np.asarray(mask) == 0).all(1) & (alive != 0)
        if stuck.any():
            yield "mask", f"agent {int(stuck.argmax())} may do nothing before {where}"


def _allowed(space: Any, mask: Any, rng: Any) -> Any:
    """Draws an action of each agent: int64 [A] of those allowed, or float32 [A, ...]."""
    if mask is None:
        space.seed(int(rng.integers(2**31)))
        return space.sample()
    noise = np.where(np.asarray(mask) != 0, rng.random(np.shape(mask)), -1.0)
    start = np.asarray(getattr(space, "start", 0))
    return noise.argmax(1) + start
