"""EnvBatch and Timestep: the seed's dicts and tuples, over columns."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - timesteps cross process borders

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.data import EnvBatch, Timestep, TimestepBatch, tree_map
from dicore.errors import SchemaError


@given(st.dictionaries(st.integers(0, 1000), st.integers(-5, 5), min_size=1))
def test_it_is_the_mapping_that_was_stacked(actions: dict[int, int]) -> None:
    batch = EnvBatch.of({env_id: {"action": action} for env_id, action in actions.items()})
    assert {env_id: int(value["action"]) for env_id, value in batch.items()} == actions
    assert list(batch) == list(actions)
    assert batch.value["action"].tolist() == list(actions.values())
    assert EnvBatch.of(batch) is batch


def test_an_unknown_env_id_is_a_key_error() -> None:
    batch = EnvBatch(np.array([2, 5]), np.zeros((2, 3), np.float32))
    assert 5 in batch
    with pytest.raises(KeyError):
        batch[3]


@pytest.mark.parametrize("wrong", [None, np.zeros(2), [0, 1]])
def test_what_is_no_mapping_is_told_so(wrong: object) -> None:
    with pytest.raises(SchemaError, match=r"from env id to value, got (NoneType|ndarray|list)"):
        EnvBatch.of(wrong)  # type: ignore[arg-type]


def test_values_for_the_same_environments() -> None:
    batch = EnvBatch(np.array([2, 5]), np.zeros((2, 3), np.float32))
    other = batch.with_value({"action": np.array([1, 0])})
    assert other[5] == {"action": 0}


def test_timestep_is_a_tuple_of_four_with_two_facts_beside() -> None:
    step = Timestep(np.ones(2), 1.0, True, {"k": 1}, truncated=True)
    obs, reward, done, info = step
    assert len(step) == 4
    assert step.obs is step[0] is obs
    assert (reward, done, info) == (1.0, True, {"k": 1})
    assert step.truncated
    assert not step.terminated
    assert Timestep(0, 0.0, True, {}).terminated


def test_timestep_pickles_with_its_facts() -> None:
    step = pickle.loads(pickle.dumps(Timestep(1, 2.0, True, {}, truncated=True)))
    assert (tuple(step), step.truncated, step.terminated) == ((1, 2.0, True, {}), True, False)


def test_stacked_timesteps_give_their_rows_back() -> None:
    steps = {
        3: Timestep(np.array([1.0, 2.0], np.float32), 0.5, True, {"a": 1}, truncated=True),
        7: Timestep(np.array([3.0, 4.0], np.float32), -1.0, False, {"abnormal": True}),
    }
    batch = EnvBatch.of(steps)
    stacked = batch.value
    assert isinstance(stacked, TimestepBatch)
    assert stacked.done.tolist() == [True, False]
    assert stacked.terminated.tolist() == [False, False]
    assert stacked.reward.dtype == np.float32
    assert stacked.abnormal is not None
    assert stacked.abnormal.tolist() == [False, True]
    row = batch[3]
    assert row.obs.tolist() == [1, 2]
    assert (row.done, row.truncated, row.info) == (True, True, {"a": 1})


FLAGS = [(True, False), (False, True), (True, True), (False, False)]


@pytest.mark.parametrize(("truncated", "terminated"), FLAGS)
def test_the_flags_survive_every_way_a_timestep_is_rebuilt(
    truncated: bool, terminated: bool
) -> None:
    step = Timestep(
        np.ones(2), 1.0, truncated or terminated, {"k": np.zeros(1)},
        truncated=truncated, terminated=terminated,
    )  # fmt: skip
    again = [
        step._replace(reward=0.0),
        Timestep._make(step),
        pickle.loads(pickle.dumps(step)),
        copy.deepcopy(step),
        tree_map(lambda leaf: leaf, step),
        tree_map(lambda leaf: leaf, {"of": [step]})["of"][0],
        EnvBatch.stack({0: step})[0],
    ]
    assert [(each.truncated, each.terminated) for each in again] == [(truncated, terminated)] * 7
    assert again[0].reward == 0.0
    changed = step._replace(truncated=False, terminated=True)
    assert (changed.truncated, changed.terminated) == (False, True)
    made = Timestep._make([0, 0.0, True, {}])
    assert (made.truncated, made.terminated) == (False, True)
