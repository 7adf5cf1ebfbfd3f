"""Wrappers that select discrete actions by their logits and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.errors import ActionError, NonFiniteError, UsageError
from dicore_plugins.models import model_wrap
from tests.plugins.model_wrappers.test_wrap import LIBRARIES, Given

SAMPLERS = [
    "argmax_sample", "multinomial_sample", "eps_greedy_sample", "eps_greedy_multinomial_sample",
]  # fmt: skip
INF, NAN = np.inf, np.nan


@LIBRARIES
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(
    ("output", "mask", "error", "message"),
    [
        ({"logit": [1, -INF, -INF]}, [0, 1, 1], ActionError, "row 1: no action is left"),
        ({"logit": [-INF, -INF, -INF]}, None, ActionError, "row 1: no action is left"),
        ({"logit": [1, NAN, 0]}, None, NonFiniteError, "row 1: the network returned nan"),
        ({"logit": [1, NAN, 0]}, [1, 1, 0], NonFiniteError, "row 1: the network returned nan"),
        ({"logit": [1, INF, 0]}, None, NonFiniteError, "row 1: the network returned inf"),
        ({"prob": [1, 0, 0]}, [0, 1, 1], ActionError, "row 1: the weights of all actions"),
        ({"prob": [NAN, 0, 1]}, None, ActionError, "row 1: the weights of all actions"),
        ({"prob": [1, INF, 0]}, None, ActionError, "row 1: the weights of all actions"),
        ({"prob": [1, 1, -0.5]}, None, ActionError, "row 1: the weights .* at least -0.5"),
    ],
)
def test_no_action_is_selected_where_none_is_left(
    name: str, like: Any, output: dict[str, Any], mask: Any, error: Any, message: str
) -> None:
    if "prob" in output and name != "multinomial_sample":
        return
    good = [0.2, 0.3, 0.5]
    given = {key: like(np.array([good, row], np.float32)) for key, row in output.items()}
    given.setdefault("logit", like(np.zeros((2, 3), np.float32)))
    if mask is not None:
        given["action_mask"] = like(np.array([[1, 1, 1], mask]))
    with pytest.raises(error, match=message):
        model_wrap(Given(**given), name)()


@LIBRARIES
@pytest.mark.parametrize("name", SAMPLERS)
def test_an_action_whose_logit_forbids_it_is_never_selected(name: str, like: Any) -> None:
    logit = like(np.tile(np.array([-INF, 0.5, -INF, 3.0], np.float32), (400, 1)))
    mask = like(np.tile([1, 1, 1, 0], (400, 1)))
    options = {"eps": 0.0} if "eps" in name else {}
    model = Given(logit=logit, action_mask=mask)
    assert set(model_wrap(model, name)(**options)["action"].tolist()) == {1}
    if "multinomial" in name:  # alpha 0: uniformly, but among what is left
        assert set(model_wrap(model, name)(alpha=0.0, **options)["action"].tolist()) == {1}


@LIBRARIES
@pytest.mark.parametrize("eps", [0.0, 0.4, 1.0])
def test_eps_greedy_multinomial_mixes_both(like: Any, eps: float) -> None:
    row = np.array([0.0, 1.0, -1.0], np.float32)
    head = like(np.tile(row, (10_000, 1)))
    wrap = model_wrap(
        Given(logit=[head, head]), "eps_greedy_multinomial_sample", alpha=2.0,
        rng=np.random.default_rng(1),
    )  # fmt: skip
    action = np.asarray(wrap(eps=eps)["action"])
    p = (1 - eps) * np.exp(2 * row) / np.exp(2 * row).sum() + eps / 3
    for head_actions in action.T:
        counts = np.bincount(head_actions, minlength=3)
        assert (abs(counts - 10_000 * p) < 3.5 * np.sqrt(10_000 * p * (1 - p)) + 1e-9).all()
    assert (action[:, 0] != action[:, 1]).any()
    with pytest.raises(UsageError, match=r"in \[0, 1\]"):
        wrap(eps=2.0)


@LIBRARIES
def test_eps_greedy_multinomial_obeys_masks(like: Any) -> None:
    logit = like(np.tile(np.array([[9.0, 1.0, 8.0, 0.5]], np.float32), (10_000, 1)))
    mask = like(np.tile(np.array([[0, 1, 0, 1]], np.int8), (10_000, 1)))
    wrap = model_wrap(Given(logit=logit, action_mask=mask), "eps_greedy_multinomial_sample")
    assert set(np.asarray(wrap(eps=0.5)["action"]).tolist()) == {1, 3}
