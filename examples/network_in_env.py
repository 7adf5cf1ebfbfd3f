"""Environments with a network inside: each worker process has its own copy of a frozen encoder.

python examples/network_in_env.py
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from dicore_plugins.env_managers import SyncSubprocessManager


class Encoded(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Replaces observations by the output of a frozen network.

    Args:
        env: The environment; float observations of one dimension.
        size: Length of the new observation.
    """

    def __init__(self, env: Any, size: int = 16) -> None:
        super().__init__(env)
        torch.set_num_threads(1)  # the workers share the cores
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same weights in every worker; load a file instead
            self.encoder = torch.nn.Linear(env.observation_space.shape[0], size)
        self.encoder.requires_grad_(False)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def observation(self, observation: Any) -> Any:
        """Returns the encoded observation, float32 [size]."""
        return self.encoder(torch.from_numpy(observation)).numpy()


def make() -> Any:
    """Called in the worker: the network is not sent to it."""
    return Encoded(gymnasium.make("CartPole-v1"))


def main(context: str = "spawn") -> Any:
    """Steps 4 environments; returns the last observations, float32 [4, 16]."""
    manager = SyncSubprocessManager([make] * 4, {"context": context})
    try:
        manager.seed(0)
        manager.launch()
        for _ in range(20):
            timesteps = manager.step(manager.random_action())
        return timesteps.value.obs
    finally:
        manager.close()


if __name__ == "__main__":
    print(main().shape)
