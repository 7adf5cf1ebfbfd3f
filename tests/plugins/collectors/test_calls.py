"""What one call of the sample collector leaves to the next: memory, rows, episodes, policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch, EnvBatch
from dicore.errors import EnvError, SchemaError, UsageError
from dicore.testing.compare import copied, difference
from dicore.testing.fakes import DelayedEnvManager, FakeCollectMode, FakeManager, Script
from dicore_plugins.collectors import Block, SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.functional.samples import nstep_samples, sequences, transitions

from .toy_envs import Journal

LONG = Script(length=lambda env_id, episode: 100)


def mode_of(samples: Callable[..., Any] | None = None, name: int = 0, **facts: Any) -> Any:
    made = FakeCollectMode(name, facts=facts).mode
    return made if samples is None else made._replace(get_train_sample=samples)


def bridging(nstep: int) -> Any:
    return mode_of(lambda block, tail: nstep_samples(block, nstep, 0.5, tail), sample_len=nstep)


def cutting(length: int, stride: int) -> Any:
    return mode_of(
        lambda block, tail: sequences(block, length, stride, tail),
        sample_len=length,
        sample_stride=stride,
    )


def steps(data: Batch, env_id: int = 0) -> list[int]:
    return [int(step) for env, _, step in data["obs"].reshape(-1, 3) if env == env_id]


class Versions:
    """A collect mode whose actions are its version."""

    version = 0

    def mode(self, **facts: Any) -> Any:
        return mode_of(**facts)._replace(forward=self._act)

    def _act(self, obs: Any, **_: Any) -> Any:
        return obs.with_value({"action": np.full(len(obs), self.version)})


class Failing(FakeManager):
    """Raises at one of its steps."""

    fails_at = -1

    def step(self, actions: Any) -> Any:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise RuntimeError("it fails")
        return super().step(actions)


@pytest.mark.parametrize("nstep", [1, 3])
def test_memory_is_used_again_without_harm_to_the_samples(nstep: int) -> None:
    """Also if the policy returns views, keeps rows for the next call, and needs several blocks."""
    script = Script(abnormal=frozenset({(1, 0, 3), (0, 1, 2)}))
    one, two = (SampleCollector({}, FakeManager(2, script), bridging(nstep)) for _ in range(2))
    for _ in range(4):
        found = one.collect_batch(n_sample=8, reuse=True)
        assert not difference(found.columns, two.collect_batch(n_sample=8).columns)


def test_an_interrupted_call_goes_on_with_fewer_samples() -> None:
    collector = SampleCollector({}, FakeManager(1, LONG), cutting(3, 3))
    left = iter([False] * 5 + [True])
    assert not len(collector.collect_batch(n_sample=5, should_stop=lambda: next(left)))
    found = [collector.collect_batch(n_sample=1) for _ in range(3)]
    assert [steps(each) for each in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_episodes_are_whole_after_another_policy_collected_steps() -> None:
    collector = SampleCollector({}, FakeManager(1), mode_of())
    collector.collect_batch(n_sample=2)
    collector.reset_policy(mode_of(name=2))
    assert steps(collector.collect_batch(n_episode=1)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("unit", ["n_sample", "n_episode"])
def test_rows_before_an_error_are_forgotten(unit: str) -> None:
    manager = Failing(1, Script(length=lambda env_id, episode: 3))
    manager.fails_at = 5
    collector = SampleCollector({}, manager, bridging(2))
    with pytest.raises(RuntimeError, match="it fails"):
        collector.collect_batch(**{unit: 8})
    data = collector.collect_batch(**{unit: 8})
    for obs, after, end in zip(data["obs"], data["next_obs"], data["end"], strict=True):
        assert after.tolist() == [*obs[:2], obs[2] + (1 if end else 2)]
    assert unit == "n_sample" or steps(data) == [0, 1, 2] * 8


def test_actions_in_another_order_reach_their_environments() -> None:
    def backwards(obs: Any, **_: Any) -> Any:
        return {int(each): {"action": np.int64(each)} for each in obs.env_id[::-1]}

    for wrap in (lambda each: each, DelayedEnvManager):
        manager = wrap(FakeManager(3))
        collector = SampleCollector({}, manager, mode_of()._replace(forward=backwards))
        data = collector.collect_batch(n_sample=9)
        assert (data["action"] == data["obs"][:, 0]).all()
        assert (data["next_obs"][:, 0] == data["obs"][:, 0]).all()


def test_actions_for_other_environments_are_refused() -> None:
    def too_few(obs: Any, **_: Any) -> Any:
        return {0: {"action": np.int64(0)}}

    collector = SampleCollector({}, FakeManager(3), mode_of()._replace(forward=too_few))
    with pytest.raises(SchemaError, match=r"observations of envs \[0, 1, 2\] .* for \[0\]"):
        collector.collect_batch(n_sample=3)


def test_a_manager_that_is_not_in_step_is_told_so() -> None:
    class Part(FakeManager):
        @property
        def ready_obs(self) -> Any:
            ready = super().ready_obs
            return EnvBatch(ready.env_id[1:], ready.value[1:])

    collector = SampleCollector({}, Part(3), mode_of())
    with pytest.raises(EnvError, match=r"of 3 environments, \[1, 2\] are ready"):
        collector.collect_batch(n_sample=3)


@pytest.mark.parametrize("on_policy", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_on_policy_samples_of_slow_environments_are_of_the_present_policy(
    on_policy: bool, seed: int
) -> None:
    """Actions that an older version chose and that are under way give no samples."""
    policy = Versions()
    manager = DelayedEnvManager(FakeManager(4), seed)
    collector = SampleCollector({}, manager, policy.mode(on_policy=on_policy))
    stale = 0
    for version in range(8):
        policy.version = version
        stale += int((collector.collect_batch(n_sample=8)["action"] != version).sum())
    assert bool(stale) != on_policy
    assert collector.envstep == sum(manager.steps)


@pytest.mark.parametrize("like", [False, True])
def test_a_policy_is_swapped_while_environments_are_slow(like: bool) -> None:
    """Its outputs have other columns; steps under way give no samples, but are counted."""
    manager = DelayedEnvManager(FakeManager(3), 1)
    first = mode_of()
    collector = SampleCollector({}, manager, first)
    while not manager.pending:
        collector.collect_batch(n_sample=4)
    second = mode_of(name=1, **({"like": first} if like else {}))._replace(
        forward=lambda obs, **_: obs.with_value(
            {"action": np.ones(len(obs), np.int64), "logit": np.ones((len(obs), 2))}
        )
    )
    collector.reset_policy(second)
    data = collector.collect_batch(n_sample=30)
    assert set(data["action"].tolist()) <= ({0, 1} if like else {1})  # samples left over
    assert collector.envstep == sum(manager.steps)
    for env_id in range(3):
        rows = data["obs"][data["env_id"] == env_id]
        order = rows[:, 1] * 5 + rows[:, 2]
        assert (np.diff(order)[2:] == 1).all(), "but for the gap, no step is missing"


def test_slow_environments_lose_no_sample() -> None:
    """More steps than wanted are made; their samples open the next call."""
    collector = SampleCollector({}, DelayedEnvManager(FakeManager(4), 2), mode_of())
    data = Batch.concat([collector.collect_batch(n_sample=size) for size in (1, 2, 5, 1, 11, 20)])
    assert len(data) == 40
    for env_id in range(4):
        rows = data["obs"][data["env_id"] == env_id]
        assert (rows[:, 1] * 5 + rows[:, 2]).tolist() == list(range(len(rows)))


def test_columns_that_appear_later_are_refused() -> None:
    plain, calls = mode_of(), iter(range(99))

    def more(*args: Any) -> Any:
        columns = plain.process_transition(*args)
        return {**columns, "value": columns["reward"]} if next(calls) == 2 else columns

    collector = SampleCollector({}, FakeManager(2), plain._replace(process_transition=more))
    with pytest.raises(SchemaError, match=r"columns changed to .*value"):
        collector.collect_batch(n_sample=8)


def test_tensors_with_a_gradient_are_stored() -> None:
    plain = mode_of()

    def valued(obs: Any, output: Any, timestep: Any) -> Any:
        value = torch.ones(len(obs), requires_grad=True) * 2
        return {**plain.process_transition(obs, output, timestep), "value": value}

    for manager in (FakeManager(2), DelayedEnvManager(FakeManager(2))):
        collector = SampleCollector({}, manager, plain._replace(process_transition=valued))
        data = collector.collect_batch(n_sample=6)
        assert data["value"].tolist() == [2.0] * 6


def test_a_policy_that_makes_no_samples_is_named() -> None:
    nothing = mode_of(lambda block, tail: Batch({}, 0))
    for given in ({"n_sample": 4}, {"n_episode": 40}, {"n_episode": 1}):
        for manager in (FakeManager(2), DelayedEnvManager(FakeManager(2))):
            collector = SampleCollector({}, manager, nothing)
            with pytest.raises(UsageError, match=r"FakeCollectMode: .*SampleCollector"):
                collector.collect_batch(**given)  # type: ignore[arg-type]


def test_a_policy_that_keeps_few_samples_is_borne() -> None:
    """One in forty; many blocks in a row give none."""

    def few(block: Batch, tail: Any) -> Any:
        made = transitions(block, tail)
        return made[np.flatnonzero(made["obs"][:, 2] % 40 == 7)]

    for manager in (FakeManager(1, LONG), DelayedEnvManager(FakeManager(2, LONG))):
        data = SampleCollector({}, manager, mode_of(few)).collect_batch(n_sample=5)
        assert set(data["obs"][:, 2].tolist()) <= {7, 47, 87}
        assert len(data) == 5


def test_abnormal_steps_are_not_the_policys_fault() -> None:
    script = Script(
        length=lambda env_id, episode: 100,
        abnormal=frozenset((0, episode, 3) for episode in range(9)),
    )
    collector = SampleCollector({}, FakeManager(1, script), cutting(5, 5))
    found = steps(collector.collect_batch(n_sample=1))
    assert np.diff(found).tolist() == [1, 1, 1, 1]


def test_nothing_but_abnormal_steps_ends_with_an_error() -> None:
    class Broken(FakeManager):
        def _advance(self, ids: Any, actions: Any) -> Any:
            timestep = super()._advance(ids, actions)
            timestep.abnormal = np.ones(len(ids), np.bool_)
            return timestep

    with pytest.raises(UsageError, match="no samples"):
        SampleCollector({}, Broken(2), mode_of()).collect_batch(n_sample=4)


def test_episodes_shorter_than_a_sample_give_none() -> None:
    lengths = Script(length=lambda env_id, episode: 3 + episode % 3)
    collector = SampleCollector({}, FakeManager(1, lengths), cutting(4, 4))
    assert steps(collector.collect_batch(n_episode=3)) == [0, 1, 2, 3] * 2
    collector = SampleCollector({}, FakeManager(1, lengths), bridging(9))
    assert steps(collector.collect_batch(n_episode=2)) == [*range(3), *range(4)]
    collector = SampleCollector({}, FakeManager(1, lengths), cutting(5, 5))
    assert steps(collector.collect_batch(n_episode=2)) == [0, 1, 2, 3, 4]  # 3 and 4, 5 and 3
    collector = SampleCollector({}, FakeManager(1, lengths), cutting(6, 6))
    with pytest.raises(UsageError, match="no samples of many rows"):
        collector.collect_batch(n_episode=2)


def test_a_counted_step_is_not_taken_back_by_a_later_call() -> None:
    """The rows of an episode that goes on over several calls were counted when they were made."""
    script = Script(length=lambda env_id, episode: 50, abnormal=frozenset({(0, 0, 30)}))
    manager = DelayedEnvManager(FakeManager(2, script))
    collector = SampleCollector({}, manager, mode_of(sample_len="episode"))
    seen = [0]
    for _ in range(12):
        left = iter([False] * 5 + [True])
        collector.collect_batch(n_sample=90, should_stop=lambda: next(left))  # noqa: B023
        seen.append(collector.envstep)
    assert seen == sorted(seen)


@pytest.mark.parametrize("unit", ["n_sample", "n_episode"])
def test_a_state_is_not_written_to(unit: str) -> None:
    manager = DelayedEnvManager(FakeManager(3))
    collector = SampleCollector({}, manager, bridging(3))
    collector.collect_batch(**{unit: 7})
    collector._episodes[:] = 1  # as in a call that was interrupted
    state = collector.state_dict()
    before = copied(state)
    collector.collect_batch(**{unit: 7})
    assert not difference(state, before)
    manager.load_state_dict(manager.state_dict())
    collector.load_state_dict(state)
    collector.collect_batch(**{unit: 7})
    assert not difference(state, before)


def test_the_state_of_another_number_of_environments_keeps_the_counters() -> None:
    collector = SampleCollector({}, FakeManager(3), bridging(3))
    collector.collect_batch(n_sample=6)
    other = SampleCollector({}, FakeManager(2), bridging(3))
    other.load_state_dict(collector.state_dict())
    assert other.envstep == collector.envstep
    assert steps(other.collect_batch(n_sample=8), 1) == [0, 1, 2, 3]


def test_samples_may_keep_time_and_environment_apart() -> None:
    def whole(block: Batch, tail: Any) -> Batch:
        return Batch({key: each for key, each in block.items() if key != "valid"}, len(block))

    collector = SampleCollector({}, FakeManager(2), mode_of(whole))
    data = collector.collect_batch(n_sample=6)
    assert data["obs"].shape == (6, 2, 3)
    assert collector.trajectory_end_idx.tolist() == [4, 5]


def test_whole_episodes_of_a_manager_that_begins_no_more() -> None:
    journals: list[list[Any]] = [[], []]
    manager = BaseEnvManager(
        [lambda i=i: Journal(journals[i]) for i in range(2)], {"auto_reset": False}
    )
    manager.seed(0)
    collector = SampleCollector({}, manager, mode_of()._replace(
        forward=lambda obs, **_: obs.with_value({"action": np.zeros(len(obs), np.int64)})
    ))  # fmt: skip
    data = collector.collect_batch(n_episode=4)
    assert len(data) == sum(map(len, journals)) == collector.envstep
    collector.close()


@pytest.mark.parametrize("lockstep", [True, False])
def test_observations_that_a_policy_changes_tell_no_next_obs(lockstep: bool) -> None:
    """They would be mixed with raw ones at the ends of blocks and episodes."""
    mode = mode_of(transitions)

    def plain(obs: Any, output: Any, timestep: Any) -> Any:
        return {"obs": obs, "action": output["action"], "done": timestep.terminated}

    def scaled(obs: Any, output: Any, timestep: Any) -> Any:
        return {**plain(obs, output, timestep), "obs": obs / 10}

    def both(obs: Any, output: Any, timestep: Any) -> Any:
        return {**scaled(obs, output, timestep), "next_obs": timestep.obs / 10}

    def same(obs: Any, output: Any, timestep: Any) -> Any:
        return {**plain(obs, output, timestep), "obs": obs.astype(np.float64)}

    def collect(fn: Any) -> Any:
        manager = FakeManager(2) if lockstep else DelayedEnvManager(FakeManager(2), seed=0)
        if lockstep:
            manager.capabilities = frozenset({"lockstep"})
        collector = SampleCollector({}, manager, mode._replace(process_transition=fn))
        return collector.collect_batch(n_sample=8)

    with pytest.raises(SchemaError, match="changes obs") as told:
        collect(scaled)
    assert "next_obs" in told.value.hint
    assert collect(both)["next_obs"].max() < 1
    assert len(collect(same)) == 8


@pytest.mark.parametrize("later", [np.float32([0.5, 2.7]), np.zeros((2, 2), np.int64), 7])
def test_a_column_is_not_cast_or_repeated(later: Any) -> None:
    block = Block(2)
    block.reserve(3)
    block.write(0, {"reward": np.array([1, 2])})
    block.write(1, {"reward": np.array([3, 4], np.int32)})
    with pytest.raises(SchemaError, match=r"expected int64\[2\]"):
        block.write(2, {"reward": later})


@pytest.mark.parametrize(
    "later",
    [
        {"obs": {"obs": np.float32([0.5, 2.7])}},
        {"obs": {"obs": np.array([5, 6]), "state": np.array([1, 2])}},
        {"obs": np.array([5, 6])},
        {"seen": {"obs": np.array([5, 6])}},
    ],
)
def test_columns_in_dicts_are_the_same_in_each_row(later: Any) -> None:
    block = Block(2)
    block.reserve(4)
    for number, kind in enumerate((np.int64, np.int64, np.int32)):
        seen = {"obs": np.array([number, 7], kind)}
        block.write(number, {"obs": seen, "reward": np.float64([number, 1])})
    block.rows[:] = 3
    batch, _ = block.together(3, 6, np.zeros(2))
    assert batch["obs"]["obs"].tolist() == [[0, 7], [1, 7], [2, 7]]
    assert batch["reward"].tolist() == [[0, 1], [1, 1], [2, 1]]
    with pytest.raises(SchemaError, match="columns changed"):
        block.write(3, {"reward": np.zeros(2), **later})
