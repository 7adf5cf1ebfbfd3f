"""Policies of two agents, and samples for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.data import Batch
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything

ROWS = 12
SEEN: dict[str, Any] = {"obs": Box(-1, 1, (2, 3), np.float32)}
MORTAL: dict[str, Any] = {**SEEN, "alive": MultiBinary(2)}
BOX = Box(np.full((2, 2), -3, np.float32), np.array([[1, 3], [3, 5]], np.float32))
CHOICE = MultiDiscrete([3, 3])
ALL = [("maddpg", BOX), ("matd3", BOX), ("masac", BOX), ("maddpg", CHOICE), ("masac", CHOICE)]
NAMES = ["maddpg", "matd3", "masac", "discrete maddpg", "discrete masac"]


def team(actions: Any, parts: dict[str, Any] = SEEN, **more: Any) -> EnvSpec:
    return EnvSpec(Dict(parts), actions, agents=("one", "other"), **more)


def made(name: str, spec: EnvSpec, model: dict[str, Any] | None = None, **options: Any) -> Any:
    small = {"hidden_size_list": [8], "critic_hidden_size_list": [8], **(model or {})}
    cfg = {"type": name, "model": small, **options}
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": cfg})
    policy = bind(compiled, spec).cfg.policy
    seed_everything(0)
    return policy.build(BuildContext(spec))


def rows(spec: EnvSpec, seed: int = 0, **more: Any) -> Batch:
    """Samples of both kinds of actions; of mortal agents a third is dead."""
    rng, agents = np.random.default_rng(seed), len(spec.agents)

    def seen() -> Any:
        parts = {"obs": rng.normal(size=(ROWS, agents, 3)).astype(np.float32)}
        if "alive" in spec.observation.spaces:  # type: ignore[attr-defined] # a Dict
            parts["alive"] = (rng.random((ROWS, agents)) < 0.7).astype(np.int8)
        return parts

    action = np.stack([spec.action.sample() for _ in range(ROWS)])
    if action.dtype == np.float32:
        action = rng.uniform(spec.action.low, spec.action.high, action.shape).astype(np.float32)
    else:
        action = rng.integers(0, 3, action.shape)
    columns = {
        "obs": seen(),
        "action": action,
        "reward": rng.normal(size=(ROWS, agents)).astype(np.float32),
        "next_obs": seen(),
        "done": (rng.random(ROWS) < 0.3).astype(np.float32),
    }
    return Batch({**columns, **more}, ROWS)


def parameters(policy: Any) -> dict[str, Any]:
    return {name: each.clone() for name, each in policy.get_attribute("model").state_dict().items()}
