"""The policy's memory of running episodes (hidden states, …) is saved with the collector."""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.interfaces.policy import CollectMode
from dicore.testing.fakes import FakeCollectMode, FakeManager
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.collectors.block import Block


class Counting:
    """A collect mode that counts the steps of each running episode."""

    def __init__(self) -> None:
        self.steps = np.zeros(2, np.int64)
        fake = FakeCollectMode().mode
        self.mode = CollectMode(
            self.forward, fake.process_transition, fake.get_train_sample, self.reset,
            self.get_attribute, self.set_attribute, dict, lambda state: None,
        )  # fmt: skip
        self.forward_fake = fake.forward

    def forward(self, obs: Any, **kwargs: Any) -> Any:
        self.steps[list(obs)] += 1
        return self.forward_fake(obs, **kwargs)

    def reset(self, ids: Any = None) -> None:
        self.steps[slice(None) if ids is None else list(ids)] = 0

    def get_attribute(self, name: str) -> Any:
        if name == "collect_state":
            return {"steps": self.steps.copy()}
        raise AttributeError(name)

    def set_attribute(self, name: str, value: Any) -> None:
        assert name == "collect_state"
        self.steps = value["steps"].copy()


def test_the_policys_memory_of_running_episodes_is_saved_with_them() -> None:
    one, other = Counting(), Counting()
    collector = SampleCollector({"n_sample": 6}, FakeManager(2), one.mode)
    collector.collect_batch()
    manager = FakeManager(2)
    twin = SampleCollector({"n_sample": 6}, manager, other.mode)
    twin.load_state_dict(collector.state_dict())
    assert other.steps.tolist() == one.steps.tolist() == [3, 3]
    manager.brought_back = False  # type: ignore[attr-defined]
    twin.load_state_dict(collector.state_dict())
    assert other.steps.tolist() == [0, 0]


def test_the_state_of_a_block_has_nothing_but_its_rows() -> None:
    """Runs that end alike have equal checkpoints, whatever was in their memory before."""
    states = []
    for before in (5, 7):
        block = Block(2)
        block.reserve(4)
        for _ in range(4):
            block.write_some(np.arange(2), {"obs": np.full((2, 3), before)}, np.ones(2, np.bool_))
        block.clear()
        for env_id in ([0, 1], [0], [0]):
            columns = {"obs": np.ones((len(env_id), 3), np.int64)}
            block.write_some(np.array(env_id), columns, np.zeros(len(env_id), np.bool_))
        states.append(block.state_dict())
    one, other = states
    assert one is not None
    assert other is not None
    assert one["columns"]["obs"][:, 1, 0].tolist() == [1, 0, 0]
    assert one["columns"]["obs"].tolist() == other["columns"]["obs"].tolist()
    assert not one["end"].any()
    again = Block.from_state(one)
    more = np.array([0, 1])
    again.write_some(more, {"obs": np.full((2, 3), 2)}, np.zeros(2, np.bool_))
    whole, _ = again.of_env(1, 2, np.ones((1, 3)))
    assert whole["obs"][:, 0, 0].tolist() == [1, 2]
    assert whole["valid"].all()
