"""COLLAQ: what an agent earns alone, and what the others add."""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete

from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.models.collaq import CollaQNet
from dicore_agents.policies.memory import as_steps
from dicore_plugins.export import GreedyModule
from tests.agents.policies.recall import MortalRecall
from tests.agents.policies.remembering import Collaborating, by_steps, made, played

SMALL = {"hidden_size_list": [32, 32], "others": [[1, 2]]}


class TestContract(Collaborating):
    model: ClassVar[dict[str, Any]] = {"others": [[1, 2], [2, 3]], "hidden_size_list": [8]}


class TestMemory(Collaborating):
    model: ClassVar[dict[str, Any]] = {**TestContract.model, "rnn": "gru"}
    collect: ClassVar[dict[str, int]] = {"unroll_len": 3, "burn_in": 1}


class Meeting:
    """One step of two agents, each with a number -1 or 1, who meet or do not.

    An agent sees its number and, where they meet, that of the other. It is paid for action 1 if its
    number is 1; where they meet, if the numbers are equal.
    """

    agent_ids = ("one", "other")
    observation_space = Dict(obs=Box(-1, 1, (2, 2), np.float32))
    action_space = MultiDiscrete([2, 2])

    @staticmethod
    def rows() -> tuple[Batch, Any]:
        """Returns all states with all joint actions, and the right actions [B, 2]."""
        cases = np.array([*product((-1, 1), (-1, 1), (0, 1), (0, 1), (0, 1))])
        own, meets, action = cases[:, :2], cases[:, 2:3], cases[:, 3:]
        right = (np.where(meets, own * own[:, ::-1], own) > 0).astype(np.int64)
        obs = {"obs": np.stack([own, own[:, ::-1] * meets], 2).astype(np.float32)}
        reward = (action == right).sum(1).astype(np.float32)
        columns = {"obs": obs, "action": action, "reward": reward, "next_obs": obs}
        return Batch({**columns, "done": np.ones(len(cases), np.float32)}, len(cases)), right


def learned(**options: Any) -> tuple[Any, Batch, Any]:
    rows, right = Meeting.rows()
    learn = {"learning_rate": 0.005, "batch_size": 32, **options}
    policy = made("collaq", Meeting(), model=SMALL, learn=learn)
    for _ in range(250):
        policy.learn_mode.forward(rows)
    return policy, rows.to_torch(), right


def test_what_others_add_is_nothing_without_them() -> None:
    """Without that loss, the parts share what an agent earns in any way."""
    policy, rows, right = learned()
    free, _, _ = learned(mara_weight=0.0)
    model = policy.get_attribute("model")
    with torch.no_grad():
        assert np.array_equal(model.q(rows["obs"]).argmax(-1).numpy(), right)
        assert model.collab_alone(rows["obs"]).abs().max() < 0.05
        meets = rows["obs"]["obs"][:, 0, 1] != 0
        alone = {"obs": rows["obs"]["obs"][~meets]}
        torch.testing.assert_close(model.alone.q(alone) + model.collab_alone(alone), model.q(alone))
        assert free.get_attribute("model").collab_alone(rows["obs"]).abs().max() > 0.1


def test_the_loss_is_that_of_qmix_and_the_squares_of_what_nobody_adds() -> None:
    found = []
    for weight in (0.0, 2.0):
        policy = made("collaq", Meeting(), model=SMALL, learn={"mara_weight": weight})
        rows = Meeting.rows()[0].to_torch()
        with torch.no_grad():
            q = policy.get_attribute("model").collab_alone(rows["obs"])
            found.append(policy._team_loss(rows, None)[0])
    chosen = q.gather(2, rows["action"].long().unsqueeze(2))
    torch.testing.assert_close(found[1] - found[0], 2 * chosen.square().mean())


def test_attention_weighs_the_others() -> None:
    """In any order; one of the same numbers as another counts as that one."""
    torch.manual_seed(0)
    net = CollaQNet({"state_shape": 4}, [(1, 3), (3, 5)], 8, obs_shape=6, action_shape=3, agents=2)
    rows = torch.randn(5, 2, 6)
    swapped = rows[..., [0, 3, 4, 1, 2, 5]]
    torch.testing.assert_close(net.q({"obs": rows}), net.q({"obs": swapped}))
    twice = rows[..., [0, 1, 2, 1, 2, 5]]
    single = CollaQNet({"state_shape": 4}, [(1, 3)], 8, obs_shape=4, action_shape=3, agents=2)
    single.attention.load_state_dict(net.attention.state_dict())  # type: ignore[union-attr]
    one, two = single._attended(twice[..., [0, 1, 2, 5]]), net._attended(twice)
    torch.testing.assert_close(one, two)
    other = rows.clone()
    other[..., 1] += 1
    assert not torch.allclose(net.q({"obs": rows}), net.q({"obs": other}))
    torch.testing.assert_close(net.collab_alone({"obs": rows}), net.collab_alone({"obs": other}))


def test_attention_is_a_graph_of_any_number_of_rows() -> None:
    policy = made("collaq", Meeting(), model=SMALL)
    seen = Meeting.rows()[0]["obs"]["obs"]
    module, batch = GreedyModule.of(policy), torch.export.Dim("batch", min=1)
    given: Any = ({"obs": torch.from_numpy(seen[:3])},)
    graph = torch.export.export(module, given, dynamic_shapes=({"obs": {0: batch}},)).module()
    acted = policy.eval_mode.forward(EnvBatch(np.arange(len(seen)), {"obs": seen})).value["action"]
    assert np.array_equal(graph({"obs": torch.from_numpy(seen)}).numpy(), acted)


def test_agents_that_do_not_act_are_not_learned_from() -> None:
    found = []
    for seen in (np.nan, 7.0):
        model = {**SMALL, "rnn": "gru", "rnn_hidden_size": 4}
        policy = made("collaq", MortalRecall(), model=model, collect={"unroll_len": 3})
        block, tail, _ = played(policy, MortalRecall, 14)
        samples = policy.collect_mode.get_train_sample(block, tail)
        for key in ("obs", "next_obs"):
            samples[key]["obs"][samples[key]["alive"] == 0] = seen
        assert torch.isfinite(policy.learn_mode.forward(samples)["total_loss"])
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


def test_sequences_remember_what_single_steps_do() -> None:
    """Of all three: with the others, alone, and with the others away."""
    model = {**SMALL, "rnn": "lstm", "rnn_hidden_size": 4}
    policy = made("collaq", MortalRecall(), model=model, nstep=2, collect={"unroll_len": 3})
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail).to_torch()
    net = policy.get_attribute("model")
    steps = as_steps(batch, net, net, policy.get_attribute("cfg"))
    assert steps["obs"]["memory"].shape[-1] == 12
    for index in range(len(batch)):
        now, _ = by_steps(policy, batch, index)
        for t in range(3):
            torch.testing.assert_close(steps["obs"]["memory"][t * len(batch) + index], now[t])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, "name the numbers that tell of other agents, of the 2"),
        ({"others": [[1, 3]]}, r"name the numbers .*; got \[\[1, 3\]\]"),
        ({"others": [[0, 1], [1, 2]]}, "all 2 numbers that an agent sees tell of others"),
        ({"others": [[0, 1], [0, 1]]}, r"others: \[0, 1\] is empty, or in another part"),
        ({"others": [[1, 1]]}, r"others: \[1, 1\] is empty"),
        ({"others": [[0, 1], [1, 3]]}, "attention needs as many numbers of each"),
    ],
)
def test_others_that_make_no_sense_are_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made("collaq", Meeting(), model=model)


def test_the_environment_says_how_many_numbers_there_are() -> None:
    seen = Dict(obs=Box(-1, 1, (2, 2, 3), np.float32))
    env: Any = Meeting()
    env.observation_space = seen
    policy = made("collaq", env, model={"others": [[1, 3], [4, 6]]})
    assert policy.get_attribute("model").own.tolist() == [True, False, False, True, False, False]
    assert EnvSpec.of(env).agents == ("one", "other")
