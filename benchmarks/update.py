"""P12: one double-DQN update with sampling, compared with SB3 (plain DQN) and a bare loop.

python benchmarks/update.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

from benchmarks.buffer import rows
from benchmarks.measure import contest, missing
from dicore.data import Batch
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig
from dicore_plugins.learners.base.config import BaseLearnerConfig
from dicore_plugins.learners.base.learner import BaseLearner
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.policies.value.dqn import DQNPolicy
from dicore_plugins.policies.value.dqn_config import DQNConfig

CAPACITY, BATCH, GAMMA = 20_000, 64, 0.97


def dicore_update() -> Callable[[], object]:
    """Returns an update by buffer, learner (without hooks) and policy."""
    buffer = NaiveReplayBuffer(
        NaiveConfig(replay_buffer_size=CAPACITY), rng=np.random.default_rng(0)
    )
    buffer.push(Batch(rows(CAPACITY)))
    policy = DQNPolicy(DQNConfig(model=DQNModelConfig(type="dqn", obs_shape=4, action_shape=2)))
    learner = BaseLearner(BaseLearnerConfig(hook=[]), policy.learn_mode)
    return lambda: learner.train(buffer.sample_batch(BATCH, reuse=True))


def bare_loop() -> Callable[[], object]:
    """Returns a straightforward update: torch modules, fused Adam, NumPy columns, double DQN."""
    columns, rng = rows(CAPACITY), np.random.default_rng(0)
    q = nn.Sequential(
        nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 2),
    )  # fmt: skip
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3, fused=True)
    updates = 0

    def update() -> torch.Tensor:
        nonlocal updates
        slots = rng.integers(0, CAPACITY, BATCH)
        b = {key: torch.from_numpy(column[slots]) for key, column in columns.items()}
        with torch.no_grad():
            choice = q(b["next_obs"]).argmax(1, keepdim=True)
            value = target(b["next_obs"]).gather(1, choice).squeeze(1)
            y = b["reward"] + GAMMA * (1 - b["done"]) * value
        taken = q(b["obs"]).gather(1, b["action"].unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(taken, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        updates += 1
        if updates % 100 == 0:
            target.load_state_dict(q.state_dict())
        return loss

    return update


def sb3_update() -> Callable[[], object] | None:
    try:
        from gymnasium import make
        from stable_baselines3 import DQN
        from stable_baselines3.common.logger import Logger
    except ImportError:
        missing("P12", "stable-baselines3")
        return None
    model = DQN(
        "MlpPolicy", make("CartPole-v1"), buffer_size=CAPACITY, batch_size=BATCH, gamma=GAMMA,
        target_update_interval=100, policy_kwargs={"net_arch": [128, 128, 64]}, device="cpu",
    )  # fmt: skip
    model.set_logger(Logger(None, []))
    data = rows(CAPACITY)
    for i in range(CAPACITY):
        model.replay_buffer.add(
            data["obs"][i], data["next_obs"][i], data["action"][i], data["reward"][i],
            data["done"][i], [{}],
        )  # fmt: skip
    return lambda: model.train(gradient_steps=1, batch_size=BATCH)


def main() -> None:
    torch.set_num_threads(1)
    contenders = {"dicore": dicore_update(), "bare fused loop": bare_loop()}
    peer = sb3_update()
    if peer is not None:
        contenders["SB3"] = peer
    contest("P12", contenders, 1, "updates/s", against={"SB3": 1.7, "bare fused loop": 1.1})


if __name__ == "__main__":
    main()
