"""Wrappers that select hybrid actions, several items, or by a teacher."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ActionError, NonFiniteError, UsageError
from dicore_plugins.models import DQN, model_wrap
from tests.plugins.model_wrappers.test_wrap import LIBRARIES, Given

HYBRID = [
    "hybrid_argmax_sample",
    "hybrid_deterministic_argmax_sample",
    "hybrid_eps_greedy_sample",
    "hybrid_eps_greedy_multinomial_sample",
    "hybrid_reparam_multinomial_sample",
]


def hybrid_output(like: Any, rows: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sizes = {"logit": 3, "action_args": 2, "mean": 2, "log_std": 2}
    return {
        key: like(rng.standard_normal((rows, size)).astype(np.float32))
        for key, size in sizes.items()
    }


@LIBRARIES
@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_actions_have_both_parts(name: str, like: Any) -> None:
    given = hybrid_output(like)
    output = model_wrap(Given(**given), name)()
    kind, args = output["action"]["action_type"], output["action"]["action_args"]
    assert type(kind) is type(args) is type(given["logit"])
    assert kind.shape == (4,)
    assert args.shape == (4, 2)
    assert all(output[key] is each for key, each in given.items())
    if "reparam" in name:
        noise = np.asarray(args - given["mean"]) / np.exp(np.asarray(given["log_std"]))
        assert 0.1 < float(abs(noise).max()) < 4
    else:
        assert args is given["mean" if "deterministic" in name else "action_args"]


@pytest.mark.parametrize(("name", "eps"), [(HYBRID[2], 0.0), (HYBRID[0], None), (HYBRID[1], None)])
def test_hybrid_types_are_greedy(name: str, eps: float | None) -> None:
    given = hybrid_output(np.asarray, 50)
    kwargs = {} if eps is None else {"eps": eps}
    kind = model_wrap(Given(**given), name)(**kwargs)["action"]["action_type"]
    assert np.array_equal(kind, given["logit"].argmax(1))


@pytest.mark.parametrize("name", [HYBRID[2], HYBRID[3]])
def test_hybrid_types_are_explored(name: str) -> None:
    given = {key: each.repeat(1_000, 0) for key, each in hybrid_output(np.asarray, 1).items()}
    wrap = model_wrap(Given(**given), name, rng=np.random.default_rng(0))
    counts = np.bincount(wrap(eps=1.0)["action"]["action_type"])
    assert (abs(counts - 333) < 60).all()


@LIBRARIES
@pytest.mark.parametrize("name", HYBRID)
def test_a_masked_type_is_never_chosen(name: str, like: Any) -> None:
    given = hybrid_output(lambda each: like(each.repeat(2_500, 0)))
    mask = like(np.tile(np.array([[0, 1, 1]], np.int8), (10_000, 1)))
    kwargs = {"eps": 0.5} if "eps" in name else {}
    kind = model_wrap(Given(**given, action_mask=mask), name)(**kwargs)["action"]["action_type"]
    assert 0 not in np.asarray(kind).tolist()


@pytest.mark.parametrize("name", HYBRID)
def test_missing_arguments_are_named(name: str) -> None:
    given = {"logit": np.zeros((2, 3), np.float32)}
    with pytest.raises(UsageError, match=r"needs the output '\w+'.*the model returns logit$"):
        model_wrap(Given(**given), name)()


def test_the_arguments_of_a_reparameterized_action_have_their_gradient() -> None:
    given = {key: each.requires_grad_() for key, each in hybrid_output(torch.from_numpy).items()}
    wrap = model_wrap(Given(**given), "hybrid_reparam_multinomial_sample")
    wrap()["action"]["action_args"].sum().backward()
    assert (given["mean"].grad == 1).all()
    assert given["log_std"].grad is not None


# ---- several items


@LIBRARIES
@pytest.mark.parametrize("name", ["combination_argmax_sample", "combination_multinomial_sample"])
def test_items_are_distinct_and_allowed(name: str, like: Any) -> None:
    rng = np.random.default_rng(0)
    logit = like(rng.standard_normal((2_000, 6)).astype(np.float32))
    mask = np.ones((2_000, 6), np.int8)
    mask[:, 4] = 0
    wrap = model_wrap(Given(logit=logit, action_mask=like(mask)), name, shot_number=3)
    output = wrap()
    action = np.asarray(output["action"])
    assert type(output["action"]) is type(logit)
    assert action.shape == (2_000, 3)
    assert all(len(set(row)) == 3 for row in action.tolist())
    assert 4 not in action
    assert output["logit"] is logit
    assert wrap(shot_number=5)["action"].shape == (2_000, 5)
    with pytest.raises(ActionError, match="cannot select 6 distinct items: an observation has 5"):
        wrap(shot_number=6)
    with pytest.raises(UsageError, match="shot_number must be >= 1"):
        model_wrap(Given(logit=logit), name, shot_number=0)


def test_the_largest_items_come_first() -> None:
    logit = np.array([[0.1, 0.9, 0.5], [3.0, 1.0, 2.0]], np.float32)
    wrap = model_wrap(Given(logit=logit), "combination_argmax_sample", shot_number=2)
    assert wrap()["action"].tolist() == [[1, 2], [0, 2]]


def test_items_are_drawn_without_replacement() -> None:
    """The probability of the pair (a, b) is p_a p_b / (1 - p_a)."""
    row = np.array([1.0, 0.0, -1.0])
    logit = np.tile(row.astype(np.float32), (20_000, 1))
    wrap = model_wrap(
        Given(logit=logit), "combination_multinomial_sample", shot_number=2,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    action = wrap()["action"]
    p = np.exp(row) / np.exp(row).sum()
    for a in range(3):
        for b in range(3):
            share = 0.0 if a == b else p[a] * p[b] / (1 - p[a])
            found = ((action[:, 0] == a) & (action[:, 1] == b)).mean()
            assert abs(found - share) < 0.012


# ---- teacher


def test_a_teacher_is_frozen() -> None:
    model = DQN(4, 2)
    teacher, obs = model_wrap(model, "teacher"), torch.randn(3, 4)
    before = teacher(obs)["logit"]
    assert not before.requires_grad
    assert not any(each.requires_grad for each in teacher.parameters())
    assert all(each.requires_grad for each in model.parameters())
    with torch.no_grad():
        for each in model.parameters():
            each.add_(1.0)
    assert torch.equal(teacher(obs)["logit"], before)
    teacher.load_state_dict(model.state_dict())
    assert torch.equal(teacher(obs)["logit"], model(obs)["logit"].detach())


INF, NAN = np.inf, np.nan


@LIBRARIES
@pytest.mark.parametrize(
    "name", [*HYBRID, "action_noise", "deterministic_sample", "reparam_sample"]
)
@pytest.mark.parametrize("value", [NAN, INF])
def test_continuous_actions_are_finite(name: str, like: Any, value: float) -> None:
    given = hybrid_output(np.asarray)
    given["mean"][2] = given["action_args"][2] = value
    with pytest.raises(NonFiniteError, match="row 2: the network returned"):
        model_wrap(Given(**{key: like(each) for key, each in given.items()}), name)()
