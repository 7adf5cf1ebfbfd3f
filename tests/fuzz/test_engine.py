"""Each thing that a parser must not do is found."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - what a parser must not do
from collections.abc import Callable

import pytest

from dicore.errors import UsageError
from tests.fuzz import engine

GOOD = json.dumps({"a": [1, 2, {"b": 30}], "c": "text"}).encode()


def refusing(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Reads, and refuses all that cannot be read."""

    def careful(data: bytes) -> object:
        try:
            return read(data)
        except Exception as error:
            raise UsageError("wrong") from error

    return careful


def careless(data: bytes) -> object:
    return len(data) if data == GOOD else bytes(80 << 20)


def unpickling(data: bytes) -> object:
    return data if data.startswith(b"{") else pickle.loads(pickle.dumps(print))


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (json.loads, "Error"),
        (refusing(careless), "allocates"),
        (refusing(unpickling), "runs"),
    ],
)
def test_what_a_parser_must_not_do_fails(read: Callable[[bytes], object], found: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=found):
        engine.fuzz(GOOD, read, 200)


def test_a_hang_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_LONGEST_S", -1.0)
    with pytest.raises(pytest.fail.Exception, match="takes"):
        engine.fuzz(GOOD, refusing(json.loads), 1)


def test_a_parser_that_refuses_what_it_cannot_read_passes() -> None:
    engine.fuzz(GOOD, refusing(json.loads), 200)


def test_the_same_seed_damages_alike() -> None:
    assert engine.damaged(GOOD, 3) == engine.damaged(GOOD, 3)
    assert len({engine.damaged(GOOD, seed) for seed in range(100)}) > 80
