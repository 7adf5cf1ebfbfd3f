"""The random policy: legal and uniform actions of every space, and samples like another's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dicore.data import EnvBatch
from dicore.errors import ActionError, ModeError, SchemaError, UsageError
from dicore.interfaces.policy import CollectMode
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy, RandomPolicy
from tests.plugins.env_managers.toy_envs import ActEnv, manager_of

SPACES = {
    "discrete": Discrete(3, start=2),
    "multi": MultiDiscrete([2, 5], start=[-1, 3]),
    "binary": MultiBinary(3),
    "box": Box(-2.0, 3.0, (2,), np.float32),
    "unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "whole": Box(-1, 1, (2,), np.int64),
}


def obs(count: int) -> EnvBatch[Any]:
    return EnvBatch(np.arange(count), np.zeros((count, 4), np.float32))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("mode", ["collect_mode", "eval_mode"])
def test_actions_are_legal_and_of_every_kind(space: Any, mode: str) -> None:
    policy = RandomPolicy(action_space=space, rng=np.random.default_rng(0))
    actions = getattr(policy, mode).forward(obs(500)).value["action"]
    assert len(actions) == 500
    cast = (lambda each: each) if actions.ndim == 1 else (lambda each: each.astype(space.dtype))
    assert all(space.contains(cast(each)) for each in actions)
    flat = actions.reshape(500, -1)
    assert all(len(np.unique(flat[:, i])) >= 2 for i in range(flat.shape[1]))
    if isinstance(space, Discrete):
        assert np.bincount(actions)[2:].min() > 120
    if space is SPACES["whole"]:
        assert (np.unique(actions[:, 0], return_counts=True)[1] > 120).all(), "drawn evenly"


@pytest.mark.parametrize("nested", [gymnasium.spaces.Dict, gymnasium.spaces.Tuple])
def test_nested_actions_are_drawn_part_by_part(nested: Any) -> None:
    """As the manager's own `random_action`; they are collected and buffered too."""
    parts = {"turn": Discrete(3, start=1), "push": Box(-1, 1, (2,), np.float32)}
    space = nested(parts if nested is gymnasium.spaces.Dict else tuple(parts.values()))
    env = ActEnv(space, length=4)
    manager = manager_of(env)
    policy = RandomPolicy(action_space=space)
    collector = SampleCollector({}, manager, policy.collect_mode)
    buffer = NaiveReplayBuffer({"replay_buffer_size": 20})
    for _ in range(2):
        buffer.push(collector.collect_batch(n_sample=6))
    assert all(space.contains(action) for action in env.actions)
    assert len(buffer.sample(5)) == 5
    collector.close()


def test_it_has_every_field_of_collecting_and_no_learning() -> None:
    policy = RandomPolicy(action_space=Discrete(2))
    mode = policy.collect_mode
    assert isinstance(mode, CollectMode)
    assert all(callable(each) for each in mode)
    mode.load_state_dict(mode.state_dict())
    assert mode.get_attribute("n_sample") == 8
    with pytest.raises(ModeError, match="learn_mode"):
        _ = policy.learn_mode


@pytest.mark.parametrize("space", [None, gymnasium.spaces.Text(3)])
def test_a_space_it_cannot_draw_from_is_refused(space: Any) -> None:
    with pytest.raises(UsageError):
        RandomPolicy(action_space=space).collect_mode.forward(obs(2))


@pytest.mark.parametrize("nstep", [1, 3])
def test_warm_up_data_has_the_columns_of_training(nstep: int) -> None:
    """The warm-up of the documents, then the policy itself, into one buffer."""
    policy = DQNPolicy({"nstep": nstep}, model=DQN(4, 2, (8,)))
    manager = BaseEnvManager([lambda: gymnasium.make("CartPole-v1")] * 3)
    random = RandomPolicy(action_space=manager.action_space, like=policy.collect_mode)
    collector = SampleCollector({}, manager, random.collect_mode)
    buffer = NaiveReplayBuffer({"replay_buffer_size": 200})
    first = collector.collect_batch(n_sample=50)
    buffer.push(first)
    collector.reset_policy(policy.collect_mode)
    second = collector.collect_batch(n_sample=50, policy_kwargs={"eps": 0.5})
    buffer.push(second)
    assert list(first.keys()) == list(second.keys())
    assert ("value_gamma" in first) == (nstep > 1)
    assert buffer.count() == 100
    collector.close()


def test_samples_like_those_of_a_hand_made_mode() -> None:
    """A mode that cannot tell its nstep makes single steps."""
    like = SimpleNamespace(process_transition=lambda *_: {}, get_train_sample=lambda each: each)
    policy = RandomPolicy(action_space=Discrete(2), like=like)
    assert policy.collect_mode.get_attribute("nstep") == 1


def masked(count: int, mask: Any) -> EnvBatch[Any]:
    return EnvBatch(np.arange(count), {"x": np.zeros((count, 4)), "action_mask": mask})


def test_masks_are_obeyed() -> None:
    """C21: only allowed actions are sampled, evenly."""
    rng = np.random.default_rng(0)
    mask = rng.random((600, 5)) < 0.4
    mask[:, 2] |= ~mask.any(1)
    policy = RandomPolicy(action_space=Discrete(5, start=3), rng=rng)
    actions = policy.collect_mode.forward(masked(600, mask.astype(np.int8))).value["action"]
    assert mask[np.arange(600), actions - 3].all()
    even = RandomPolicy(action_space=Discrete(3), rng=rng).collect_mode.forward(
        masked(900, np.tile([1, 0, 1], (900, 1)))
    )
    assert np.bincount(even.value["action"], minlength=3).tolist() == pytest.approx(
        [450, 0, 450], abs=60
    )


def test_each_head_has_its_mask() -> None:
    space = MultiDiscrete([2, 3], start=[1, -1])
    policy = RandomPolicy(action_space=space, rng=np.random.default_rng(0))
    masks = [np.tile([0, 1], (50, 1)), np.tile([1, 0, 1], (50, 1))]
    actions = policy.collect_mode.forward(masked(50, masks)).value["action"]
    assert actions.dtype == np.int64
    assert set(actions[:, 0]) == {2}
    assert set(actions[:, 1]) == {-1, 1}


HYBRID = Dict({"action_type": Discrete(4, start=1), "action_args": Box(-1, 1, (2,), np.float32)})
TEAM = Dict({"hunter": Discrete(4, start=1), "prey": HYBRID})
ODD = np.tile([0, 1, 0, 1], (50, 1))
ALL = np.ones((50, 4))


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (HYBRID, {"action_mask": ODD}),
        (HYBRID, {"action_mask": {"action_type": ODD}}),
        (TEAM, {"hunter": {"x": ALL, "action_mask": ODD}, "prey": {"action_mask": ODD}}),
        (TEAM, {"obs": {"hunter": {"action_mask": ODD}, "prey": {"x": ALL}}, "alive": ALL}),
        (TEAM, {"hunter": ALL, "prey": {"action_mask": ODD}}),
    ],
)
def test_parts_of_a_dict_have_their_masks(space: Any, obs: Any) -> None:
    """Those of agents with different spaces, and that of the type of a hybrid action."""
    policy = RandomPolicy(action_space=space, rng=np.random.default_rng(0))
    action = policy.collect_mode.forward(EnvBatch(np.arange(50), obs)).value["action"]
    agents = obs.get("obs", obs)
    drawn = {"": action} if space is HYBRID else action
    for name, each in drawn.items():
        seen = agents.get(name, {"action_mask": ODD} if not name else {})
        masked_here = isinstance(seen, dict) and "action_mask" in seen
        types = each["action_type"] if isinstance(each, dict) else each
        assert set(types.tolist()) == ({2, 4} if masked_here else {1, 2, 3, 4}), name


@pytest.mark.parametrize(
    ("space", "mask", "error"),
    [
        (Discrete(2), [[1, 0], [0, 0]], ActionError),
        (Discrete(2), [[1, 0, 1], [1, 1, 1]], SchemaError),
        (MultiDiscrete([2, 2]), [np.ones((2, 2))], UsageError),
        (SPACES["box"], np.ones((2, 2)), UsageError),
    ],
)
def test_a_mask_that_does_not_fit_is_an_error(space: Any, mask: Any, error: Any) -> None:
    policy = RandomPolicy(action_space=space, rng=np.random.default_rng(0))
    given = mask if isinstance(mask, list) and space.__class__ is MultiDiscrete else np.array(mask)
    with pytest.raises(error):
        policy.collect_mode.forward(masked(2, given))
