"""FEATURES B4: whatever numbers a learn mode returns are kept, and what is no number is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.hooks import LogShowHook
from dicore_plugins.learners import BaseLearner
from dicore_plugins.learners.base.config import BaseLearnerConfig
from dicore_plugins.learners.base.log_buffer import LogBuffer
from tests.plugins.learners.test_base import mode


def filled(*values: Any, name: str = "x") -> LogBuffer:
    buffer = LogBuffer()
    buffer.names = (name,)
    for value in values:
        buffer.add({name: value, "priority": torch.ones(3)})
    return buffer


NUMBERS = {
    "float": 2.0,
    "int": 2,
    "bool": True,
    "double": np.float64(2),
    "single": np.float32(2),
    "whole": np.int64(2),
    "array": np.array([1.0, 3.0]),
    "list": [1, 3],
    "tensor": torch.tensor(2.0),
    "tensor_1d": torch.tensor([1.0, 3.0]),
    "half": torch.tensor(2.0, dtype=torch.float16),
    "brain": torch.tensor(2.0, dtype=torch.bfloat16),
    "long": torch.tensor([1, 3]),
}


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("other", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_every_form_and_mixed(value: Any, other: Any) -> None:
    one, two = (1.0 if each is True else 2.0 for each in (value, other))
    assert filled(value, value, other).means() == {"x": pytest.approx((2 * one + two) / 3)}
    assert filled(value, other).columns()["x"].tolist() == [one, two]


@pytest.mark.parametrize("value", ["text", {"a": 1}, [[1], [1, 2]]])
def test_what_is_no_number_is_named(value: Any) -> None:
    buffer = filled(value, name="entropy")
    with pytest.raises(SchemaError, match=f"'entropy' is a {type(value).__name__}"):
        buffer.columns()
    assert buffer.state_dict() == {}


def test_updates_that_tell_nothing_do_not_count() -> None:
    assert filled(1.0, None, 3.0).columns()["x"].tolist() == [1.0, 3.0]
    assert filled(None).means() == {}


def test_scalars_are_variables_and_of_histograms_the_last_counts() -> None:
    buffer = LogBuffer()
    buffer.names = ("total_loss", "[histogram]q")
    for step in (1.0, 3.0):
        buffer.add({
            "total_loss": step,
            "[scalars]norm": {"conv": torch.tensor(step), "head": 2 * step},
            "[histogram]q": np.array([step, 0.0]),
        })  # fmt: skip
    assert buffer.means() == {"total_loss": 2.0, "norm/conv": 2.0, "norm/head": 4.0}
    assert buffer.histograms["q"].tolist() == [3.0, 0.0]
    restored = LogBuffer()
    restored.names = ("total_loss",)
    restored.load_state_dict(buffer.state_dict())
    assert restored.means() == buffer.means()
    buffer.clear()
    assert buffer.means() == buffer.histograms == {}


def test_both_forms_reach_the_logs() -> None:
    told: list[Any] = []
    log = SimpleNamespace(
        log_scalars=lambda scalars, **when: told.append((scalars, when)),
        log_histogram=lambda tag, values, **when: told.append((tag, list(values), when)),
        log_text=lambda *_, **__: None,
    )

    def forward(_: Any) -> Any:
        return {"total_loss": 1.0, "[scalars]norm": {"head": 2.0}, "[histogram]q": [3.0, 4.0]}

    engine = BaseLearner(
        BaseLearnerConfig(hook=[]), mode()._replace(forward=forward), run=SimpleNamespace(log=log)
    )
    engine.register_hook(LogShowHook(freq=2))
    for _ in range(2):
        engine.train([], envstep=9)
    when = {"env_step": 9, "train_iter": 2}
    scalars = {"learner/total_loss": 1.0, "learner/norm/head": 2.0}
    assert told == [(scalars, when), ("learner/q", [3.0, 4.0], when)]


def test_scalars_that_are_no_dict_are_named() -> None:
    with pytest.raises(SchemaError, match=r"'\[scalars\]q' is a float, not a dict of numbers"):
        LogBuffer().add({"[scalars]q": 1.0})
