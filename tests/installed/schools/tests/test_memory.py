"""On-policy blocks of images: no second copy of the frames, and the same memory every time."""

from __future__ import annotations

import tracemalloc
from typing import Any

import gymnasium
import numpy as np
from schools_rl.config import PPOConfig

from dicore.config import compile_section
from dicore.run import BuildContext, seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager

ENVS, STEPS = 4, 64


class Frames(gymnasium.Env):
    """Shows frames of one colour."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros((4, 84, 84), np.uint8), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full((4, 84, 84), self.t, np.uint8), 1.0, False, self.t == 50, {}


def test_a_block_of_frames_is_stored_once() -> None:
    seed_everything(0)
    manager = BaseEnvManager([Frames] * ENVS)
    manager.seed(0)
    model = {"type": "actor_critic", "obs_shape": (4, 84, 84), "action_shape": 3, "hidden": [8]}
    learn = {"batch_size": 32, "update_per_collect": 1}
    options = {"type": "school_ppo", "model": model, "learn": learn}
    policy = compile_section(PPOConfig, options).build(BuildContext())
    collector = SampleCollector({"n_sample": ENVS * STEPS}, manager, policy.collect_mode)
    frames = ENVS * STEPS * 4 * 84 * 84
    collector.collect_batch(n_sample=ENVS, reuse=True)  # what stays allocated anyway
    tracemalloc.start()
    try:
        places = set()
        for _ in range(3):
            batch = collector.collect_batch(n_sample=ENVS * STEPS, reuse=True)
            assert "next_obs" not in batch
            assert batch["obs"].shape == (ENVS * STEPS, 4, 84, 84)
            places.add(batch["obs"].ctypes.data)
            policy.learn_mode.forward(batch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        collector.close()
    assert len(places) == 1
    assert peak <= 1.15 * frames
