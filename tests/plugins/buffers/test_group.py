"""FEATURES E20: several buffers of one training, `agent` and `demo` with shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import ReplayUnderflowError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import AdvancedReplayBuffer, BufferGroup, NaiveReplayBuffer
from dicore_registry import default


def naive(count: int, start: int = 0) -> NaiveReplayBuffer:
    buffer = NaiveReplayBuffer({"replay_buffer_size": 1000}, rng=np.random.default_rng(start))
    buffer.push(numbered_rows(count, start))
    return buffer


def advanced(count: int, start: int = 0) -> AdvancedReplayBuffer:
    buffer = AdvancedReplayBuffer({"kernels": "numpy"}, rng=np.random.default_rng(start))
    buffer.push(numbered_rows(count, start))
    return buffer


def test_every_batch_has_the_shares() -> None:
    group = BufferGroup({"demo": naive(40, 500), "agent": naive(300)}, {"demo": 0.25})
    assert group.shares == {"demo": 0.25, "agent": 0.75}
    for size in (1, 2, 3, 64, 101):
        batch = group.sample_batch(size)
        demos = int((batch["action"] >= 500).sum())
        assert len(batch) == size
        assert demos == group.counts(size)["demo"]
        assert abs(demos - size / 4) <= 0.5
        assert np.array_equal(batch["obs"][:, 0], batch["action"])
    assert len(group.sample(8)) == 8


def test_a_share_falls_linearly_to_nothing() -> None:
    group = BufferGroup({"agent": naive(300), "demo": naive(40, 500)}, {"demo": 0.5}, {"demo": 100})
    found = []
    for iteration in (0, 50, 90, 100, 1000):
        batch = group.sample_batch(20, iteration)
        found.append(int((batch["action"] >= 500).sum()))
        assert sum(group.shares.values()) == pytest.approx(1)
    assert found == [10, 5, 1, 0, 0]
    assert group.count() == 300, "what is no longer drawn from limits nothing"


def test_the_share_of_the_agent_falls_for_nobody() -> None:
    buffers = {"agent": naive(30), "demo": naive(30, 500)}
    with pytest.raises(UsageError, match=r"agent\.share_updates: it gets what others lose"):
        BufferGroup(buffers, {"demo": 0.5}, {"agent": 10})


def test_a_share_that_falls_may_begin_with_the_whole_batch() -> None:
    buffers = {"agent": naive(30), "demo": naive(30, 500)}
    group = BufferGroup(buffers, {"demo": 1.0}, {"demo": 10})
    assert (group.sample_batch(8, 0)["action"] >= 500).all()
    assert (group.sample_batch(8, 10)["action"] < 500).all()
    with pytest.raises(UsageError, match="leaves nothing"):
        BufferGroup(buffers, {"demo": 1.0})


def test_new_samples_go_to_the_agent() -> None:
    group = BufferGroup({"agent": naive(10), "demo": naive(20, 500)})
    group.push(numbered_rows(90, 10), 100)
    assert (group.buffers["agent"].count(), group.buffers["demo"].count()) == (100, 20)
    assert (group.count(), group.push_count) == (40, 100)  # half of 41 is more than 20
    group.sample_batch(40)
    with pytest.raises(ReplayUnderflowError, match=r"buffer .demo.: .*asked 21, have 20"):
        group.sample_batch(42)
    group.clear()
    assert (group.count(), group.buffers["demo"].count()) == (0, 20)


def test_what_was_saved_to_a_file_is_loaded(tmp_path: Path) -> None:
    group = BufferGroup({"agent": advanced(20), "demo": naive(20, 500)})
    group.save_data(tmp_path / "data")
    other = BufferGroup({"agent": advanced(3), "demo": naive(4)})
    other.load_data(tmp_path / "data")
    one, two = (each.sample_batch(8) for each in (group, other))
    assert one["action"].tolist() == two["action"].tolist()


def test_priorities_reach_the_buffers_that_they_belong_to() -> None:
    group = BufferGroup({"agent": advanced(20), "demo": advanced(20, 500), "old": naive(20, 900)})
    batch = group.sample_batch(9)
    assert batch["IS"][6:].tolist() == [1, 1, 1]
    assert batch["replay_unique_id"][6:].tolist() == [-1, -1, -1]
    ids = {key: batch[key] for key in ("replay_unique_id", "replay_buffer_idx")}
    group.update({**ids, "priority": batch["action"].astype(np.float32)})
    for name, first in (("agent", 0), ("demo", 500)):
        buffer = group.buffers[name]
        assert buffer.check_valid() == (True, "")
        drawn = batch["action"][:3] if name == "agent" else batch["action"][3:6]
        slots = drawn - first
        np.testing.assert_allclose(buffer.state_dict()["priority"][slots], drawn + 1e-5)


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="must be named 'agent'"):
        BufferGroup({"mine": naive(1), "demo": naive(1)})
    with pytest.raises(UsageError, match="leaves nothing"):
        BufferGroup({"agent": naive(1), "a": naive(1), "b": naive(1)}, {"a": 0.5, "b": 0.5})
    other = NaiveReplayBuffer({})
    other.push(Batch({"x": np.zeros(9)}))
    with pytest.raises(SchemaError, match=r"different columns: .*'reward', 'x'"):
        BufferGroup({"agent": naive(9), "demo": other}).sample_batch(4)
    with pytest.raises(UsageError, match="the state has the buffers agent"):
        BufferGroup({"agent": naive(1), "demo": naive(1)}).load_state_dict({"agent": {}})


@pytest.mark.parametrize("shares", [{"dem": 0.3}, {"demo": -0.3}])
def test_shares_of_no_buffer_or_below_zero(shares: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected shares from 0 to 1 of agent, demo"):
        BufferGroup({"agent": naive(1), "demo": naive(1)}, shares)


def test_as_many_are_counted_as_can_be_drawn() -> None:
    """Of 50, 9 in 50 are 10 if the sum with the buffers before it is rounded up."""
    buffers = {"old": naive(21), "demo": naive(9), "rest": naive(53), "agent": naive(54)}
    group = BufferGroup(buffers, {"old": 0.17, "demo": 0.18, "rest": 0.12})
    assert group.counts(50)["demo"] == 10
    assert group.count() == 49
    assert len(group.sample_batch(49)) == 49


def test_sizes_that_make_no_sense() -> None:
    group = BufferGroup({"agent": naive(4), "demo": naive(4)})
    with pytest.raises(UsageError, match="batch_size must be >= 1, got 0"):
        group.sample_batch(0)
    with pytest.raises(UsageError, match="a value for each sample"):
        group.update({"priority": [1.0] * 3, "replay_unique_id": [1]})


@pytest.mark.parametrize("entry", default().entries("buffer"), ids=lambda each: each.name)
def test_every_buffer_can_have_a_share(entry: Any) -> None:
    section = default().load(entry)(share=0.25)
    buffers = {"agent": NaiveReplayBuffer({"replay_buffer_size": 9}), "demo": section.build(None)}
    assert BufferGroup(buffers, {"demo": section.share}).shares == {"agent": 0.75, "demo": 0.25}
    getattr(buffers["demo"], "close", lambda: None)()


def test_a_training_takes_from_both_and_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the config, the pipeline and a checkpoint; each buffer has its own settings."""
    monkeypatch.chdir(tmp_path)
    data = Path("demo.data")

    def train(name: str, *more: str, **options: Any) -> Any:
        return launch(
            env="cartpole", policy="dqn", exp_name=name, seed=3,
            overrides=[
                "pipeline.logger=[]", "policy.learn.batch_size=16", "policy.collect.n_sample=32",
                "policy.collect.random_collect_size=0", "policy.nstep=1",
                "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
                "policy.eval.evaluator.eval_freq=100000",
                "policy.eval.evaluator.max_episode_steps=9",
                "policy.learn.update_per_collect=8",
                *more,
            ],
            **options,
        )  # fmt: skip

    saved: list[Any] = []
    with monkeypatch.context() as patch:
        build = BufferGroup.of.__func__  # type: ignore[attr-defined]
        patch.setattr(
            BufferGroup, "of", classmethod(lambda *a: saved.append(build(*a)) or saved[-1])
        )
        source = naive_of_cartpole()
        source.save_data(data)
        two = [
            "replay_buffer.agent.type=advanced", "replay_buffer.demo.type=naive",
            "replay_buffer.demo.replay_buffer_size=70", "replay_buffer.demo.share=0.25",
            f"replay_buffer.demo.load_data={data.resolve()}",
        ]  # fmt: skip
        train("whole", *two, max_env_step=256)
        (group,) = saved
        assert group.buffers["demo"].replay_buffer_size == 70
        assert group.buffers["demo"].count() == source.count() > 30
        assert group.buffers["agent"].count() == 256
        assert group.shares == {"agent": 0.75, "demo": 0.25}
    train("part", *two, max_env_step=128)
    launch(resume="part", max_env_step=256)
    results = [final_weights(name) for name in ("whole", "part")]
    assert np.array_equal(*results)


def naive_of_cartpole() -> NaiveReplayBuffer:
    """Samples as DQN stores them."""
    collected: list[Any] = []
    push = NaiveReplayBuffer.push

    class Taken(NaiveReplayBuffer):
        def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
            collected.append(data)
            return push(self, data, cur_collector_envstep)

    from dicore import register
    from dicore_registry import Registry, using

    with using(Registry()):
        register("buffer", "taken")(Taken)
        launch(
            env="cartpole", policy="dqn", exp_name="source", max_env_step=60,
            overrides=["pipeline.logger=[]", "policy.collect.n_sample=60", "replay_buffer=taken",
                       "policy.nstep=1"],
        )  # fmt: skip
    buffer = NaiveReplayBuffer({"replay_buffer_size": 60})
    for each in collected:
        buffer.push(each)
    return buffer


def final_weights(name: str) -> Any:
    from dicore.run import read_state

    state = read_state(Path(name) / "ckpt" / "final")
    model = state["learner"]["policy"] if "policy" in state["learner"] else state["learner"]
    leaves: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            leaves.append(np.asarray(value, np.float64).ravel())

    walk(model)
    return np.concatenate(leaves)
