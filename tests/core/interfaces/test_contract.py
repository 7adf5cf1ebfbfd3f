"""A class that derives from a role's Protocol implements all of it."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.interfaces.buffer import IDataset
from dicore.interfaces.collector import ISerialCollector
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.interfaces.middleware import IMiddleware
from dicore.interfaces.policy import IPolicy


@pytest.mark.parametrize(
    ("contract", "given", "lacks"),
    [
        (ISerialCollector, ["collect", "reset_env"], "close, collect_batch, load_state_dict"),
        (ISerialEvaluator, ["should_eval"], "close, eval, load_state_dict"),
        (IPolicy, ["learn_mode", "command_mode"], "collect_mode, eval_mode"),
        (IDataset, ["take"], "__len__"),
        (IMiddleware, [], "__call__"),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_half_a_class_is_refused_when_built(
    contract: type[Any], given: list[str], lacks: str
) -> None:
    half = type("Half", (contract,), {name: lambda self, *_, **__: None for name in given})
    with pytest.raises(TypeError, match="abstract class Half") as caught:
        half()
    assert lacks in str(caught.value).replace("'", "")  # Python 3.12 quotes the names


def test_a_whole_class_is_built_and_fits() -> None:
    class Whole(IDataset):
        def __len__(self) -> int:
            return 3

        def take(self, index: Any) -> Any:
            return index

    assert len(Whole()) == 3
    assert isinstance(Whole(), IDataset)
    assert not isinstance(object(), IDataset)
