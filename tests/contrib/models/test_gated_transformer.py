"""Gated transformers: sequences equal steps, the window, ends of episodes, attention by loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces

from dicore.errors import ConfigError
from dicore_contrib import GatedTransformer, GRUGate, GTrXLDQN, GTrXLVAC
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import policy_of

T, B, M, D = 9, 4, 3, 8
FORM: dict[str, Any] = {"layers": 2, "heads": 2, "memory_len": M}


def made(**form: Any) -> GatedTransformer:
    torch.manual_seed(0)
    layer = GatedTransformer(5, D, **{**FORM, **form})
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # no bias hides what flows
    return layer


def by_steps(model: Any, x: torch.Tensor, state: Any, end: torch.Tensor) -> Any:
    outputs, ended = [], []
    for now, over in zip(x, end, strict=True):
        output, state = model(now, state)
        outputs.append(output)
        ended.append(state[over])
        state = state * ~over.unsqueeze(1)
    return torch.stack(outputs), state, torch.cat(ended)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_sequence_equals_its_steps(share: float, layers: int) -> None:
    layer, x, end = made(layers=layers), torch.randn(T, B, 5), torch.rand(T, B) < share
    _, before = by_steps(layer, torch.randn(2, B, 5), None, torch.zeros(2, B).bool())[:2]
    for state in (None, before):
        found = layer.unroll(x, state, end)
        output, last, ended = by_steps(layer, x, state, end)
        torch.testing.assert_close(found.output, output)
        torch.testing.assert_close(found.state, last)
        torch.testing.assert_close(found.ended, ended)
        assert found.state.shape == (B, layer.state_size)


def test_a_step_sees_as_many_steps_as_it_remembers_in_each_layer() -> None:
    layer, x = made(), torch.randn(T, 1, 5, requires_grad=True)
    layer.unroll(x).output[-1].sum().backward()
    assert x.grad is not None
    seen = (x.grad[:, 0].abs().sum(1) > 0).tolist()
    assert seen == [False] * (T - 1 - 2 * M) + [True] * (2 * M + 1)


def test_nothing_is_seen_after_the_end_of_an_episode() -> None:
    layer, x = made(), torch.randn(T, B, 5, requires_grad=True)
    end = torch.zeros(T, B)
    end[-3, 0] = 1
    layer.unroll(x, None, end).output[-1].sum().backward()
    assert x.grad is not None
    assert (x.grad[:-2, 0] == 0).all()
    assert (x.grad[-3, 1] != 0).any()


def test_attention_is_that_of_loops() -> None:
    """By the formula of Transformer-XL: content and distance, each with a bias of its own."""
    layer, x = made(layers=1), torch.randn(T, 1, 5)
    block: Any = layer.layers[0]
    block.by_content.data.normal_()
    block.by_position.data.normal_()
    inputs = layer.embed(x)[:, 0]
    normed, width = block.norm(inputs), D // 2
    wanted = torch.zeros(T, D)
    for head in range(2):
        part = slice(head * width, (head + 1) * width)
        query = block.query(normed)[:, part]
        key, value = (each[:, part] for each in block.key_value(normed).chunk(2, -1))
        position = block.position(layer.encodings)[:, part]
        for t in range(T):
            steps = range(max(0, t - M), t + 1)
            scores = [
                (query[t] + block.by_content[head]) @ key[s]
                + (query[t] + block.by_position[head]) @ position[t - s]
                for s in steps
            ]
            weights = (torch.stack(scores) / width**0.5).softmax(0)
            wanted[t, part] = weights @ value[list(steps)]
    y = block.gate(inputs, torch.relu(block.out(wanted)))
    z = block.mlp_gate(y, torch.relu(block.mlp(block.mlp_norm(y))))
    torch.testing.assert_close(layer.unroll(x).output[:, 0], z)


def test_a_gate_is_that_of_the_paper_and_lets_its_input_pass_at_first() -> None:
    torch.manual_seed(0)
    gate, x, y = GRUGate(4, 1.5), torch.randn(3, 4), torch.randn(3, 4)
    reset = torch.sigmoid(gate.of_output(y)[:, :4] + gate.of_input(x)[:, :4])
    new = torch.tanh(gate.of_output(y)[:, 8:] + gate.of_reset(reset * x))
    update = torch.sigmoid(gate.of_output(y)[:, 4:8] + gate.of_input(x)[:, 4:] - 1.5)
    torch.testing.assert_close(gate(x, y), (1 - update) * x + update * new)
    torch.testing.assert_close(GRUGate(4, 50.0)(x, y), x)


@pytest.mark.parametrize(
    ("policy", "steps", "options"),
    [
        ("r2d2", 512, ["policy.model.type=gtrxl_dqn", "policy.collect.unroll_len=8",
                       "policy.collect.burn_in=4", "policy.nstep=1",
                       "policy.learn.batch_size=8", "policy.learn.update_per_collect=4"]),
        ("ppo", 64, ["policy.model.type=gtrxl_vac", "policy.collect.unroll_len=8",
                     "policy.collect.n_sample=16", "policy.learn.batch_size=8"]),
    ],
)  # fmt: skip
def test_a_resumed_run_equals_an_uninterrupted_one(
    policy: str, steps: int, options: list[str], tmp_path: Path
) -> None:
    options = [*options, "policy.model.memory_len=4", "policy.model.rnn_hidden_size=8"]
    one, two = same_after_resume(policy, "cartpole_pomdp", options, tmp_path, steps)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_networks_take_its_options() -> None:
    q = GTrXLDQN(obs_shape=3, action_shape=[2, 3], rnn_hidden_size=12, heads=3, memory_len=5)
    assert q.state_size == 5 * (12 + 1)
    assert [each.shape for each in q(torch.randn(4, 3))["logit"]] == [(4, 2), (4, 3)]
    actor = GTrXLVAC(3, 2, continuous=True, layers=2, rnn_hidden_size=8, memory_len=5)
    output = actor.unroll(torch.randn(6, 4, 3))
    assert (output["mean"].shape, output["hidden"].shape) == ((6, 4, 2), (4, 5 * 17))


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("policy.model.rnn_hidden_size=10", "multiple of 4"),
        ("policy.model.rnn=gru", "rnn"),
        ("policy.model.share_encoder=false", "share"),
        ("policy.collect.unroll_len=1", "unroll_len"),
    ],
)
def test_what_it_does_not_do_is_refused(option: str, problem: str) -> None:
    options = ["policy.model.type=gtrxl_vac", "policy.collect.unroll_len=8", option]
    with pytest.raises(ConfigError, match=problem):
        policy_of("ppo", spaces.Discrete(2), *options)
