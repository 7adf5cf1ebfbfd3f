"""The prioritized buffer draws in proportion and corrects for it."""

from __future__ import annotations

import numpy as np
from schools_rl.config import PrioritizedConfig

from dicore.run import seed_everything
from dicore.testing.buffer import numbered_rows


def buffer(capacity: int = 8, **options: float):
    seed_everything(0)
    return PrioritizedConfig(replay_buffer_size=capacity, **options).build(None)


def test_samples_are_drawn_in_proportion_to_their_priority() -> None:
    made = buffer(alpha=1.0, beta=1.0)
    ids = made.push(numbered_rows(8))
    priority = np.arange(1, 9, dtype=np.float32)
    made.update({"replay_unique_id": np.array(ids), "priority": priority})
    drawn = np.concatenate([made.sample_batch(8)["action"] for _ in range(4000)])
    share = np.bincount(drawn, minlength=8) / len(drawn)
    assert np.abs(share - priority / priority.sum()).max() < 0.003
    batch = made.sample_batch(8)
    wanted = 1 / priority[batch["action"]]
    assert np.allclose(batch["IS"], wanted / wanted.max(), rtol=1e-4)


def test_priorities_belong_to_samples_and_not_to_slots() -> None:
    made = buffer(capacity=4, alpha=1.0)
    first = made.push(numbered_rows(4))
    made.push(numbered_rows(2, 4))  # overwrites samples 0 and 1
    big = np.array([1e6, 1e6, 1e-6, 1e-6])
    made.update({"replay_unique_id": np.array(first), "priority": big})
    drawn = made.sample_batch(200, replace=True)["action"]
    assert set(drawn.tolist()) == {4, 5}, "those of overwritten samples are ignored"
