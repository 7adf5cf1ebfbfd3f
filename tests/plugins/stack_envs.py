"""Environments of small images, and the same training data with copied and with shared frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import FrameStackObservation

from dicore.data import Batch, tree_paths
from dicore.run.random import seed_everything
from dicore_plugins.env_wrappers.frame_stack import LazyFrameStack

DEPTH, SIDE = 4, 6


class Frames(gymnasium.Env[Any, Any]):
    """Random frames in episodes of 1 to 9 steps, half of which are truncated."""

    def __init__(self, form: str = "image") -> None:
        self.form = form
        image = Box(0, 255, (SIDE, SIDE), np.uint8)
        self.observation_space: Any = image
        if form == "dict":
            self.observation_space = Dict({"image": image, "place": Box(-9, 9, (3,), np.float32)})
        self.action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 10))
        self.cut = self.left % 2 == 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over = self.left == 0
        return self._show(), float(action), over and not self.cut, over and self.cut, {}

    def _show(self) -> Any:
        image = self.np_random.integers(0, 256, (SIDE, SIDE), np.uint8)
        if self.form == "image":
            return image
        return {"image": image, "place": self.np_random.uniform(-9, 9, 3).astype(np.float32)}


class CopiedStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Stacks one part of a dict observation by copying."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        inner = env.observation_space
        image = Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
        self.observation_space = Dict({**inner.spaces, "image": image})

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self.frames = [obs["image"]] * DEPTH
        return {**obs, "image": np.array(self.frames)}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, *rest = self.env.step(action)
        self.frames = [*self.frames[1:], obs["image"]]
        return ({**obs, "image": np.array(self.frames)}, *rest)  # type: ignore[return-value]


def lazy(form: str = "image") -> Any:
    return LazyFrameStack(Frames(form), DEPTH, ["image"] if form == "dict" else None)


def copied(form: str = "image") -> Any:
    return (
        FrameStackObservation(Frames(form), DEPTH) if form == "image" else CopiedStack(Frames(form))
    )


def policy(form: str, nstep: int) -> Any:
    """Returns a small DQN that reads all parts of the observations as one vector."""
    import torch

    from dicore_plugins.models import DQN
    from dicore_plugins.policies.value.dqn import DQNPolicy
    from dicore_plugins.policies.value.dqn_config import DQNConfig

    class Flat(DQN):
        def q(self, obs: Any) -> Any:
            parts = obs.values() if isinstance(obs, dict) else [obs]
            return super().q(torch.cat([leaf.flatten(1).float() for leaf in parts], 1))

        def act_numpy(self) -> Any:
            return None

    width = DEPTH * SIDE * SIDE + (0 if form == "image" else 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return DQNPolicy(DQNConfig(nstep=nstep), Flat(width, 3, (16,)))


def collector(
    make: Callable[..., Any], form: str = "image", nstep: int = 1, manager: Any = None
) -> Any:
    """Returns a collector of three environments."""
    from dicore_plugins.collectors.sample.collector import SampleCollector
    from dicore_plugins.env_managers import BaseEnvManager

    seed_everything(0)
    envs = (manager or BaseEnvManager)([partial(make, form)] * 3)
    envs.seed(0)
    return SampleCollector(None, envs, policy(form, nstep).collect_mode)


def leaves(batch: Batch) -> dict[str, Any]:
    """Returns the columns of samples as arrays, by path."""
    return {path: np.asarray(leaf) for path, leaf in tree_paths(batch.columns).items()}


def assert_equal(one: Batch, other: Batch) -> None:
    """Checks that two batches are equal, bit for bit."""
    mine, theirs = leaves(one), leaves(other)
    assert mine.keys() == theirs.keys()
    for path, column in mine.items():
        assert column.dtype == theirs[path].dtype, path
        np.testing.assert_array_equal(column, theirs[path], err_msg=path)
