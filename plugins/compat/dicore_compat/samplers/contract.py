"""The contract of samplers (`ISampler`): they return data and change none of what they got."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.testing.compare import copied, difference
from dicore.testing.suite import Suite, expect
from dicore_compat.samplers.memory import Memory
from dicore_compat.samplers.units import Compose, get_last_chunk, get_memory_params

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["SamplerContract"]

_WORKERS, _STEPS, _CHUNKS = 4, 5, 3


class SamplerContract(Suite):
    """It takes the memory, the entries of a memory, or a chunk, and leaves them as they are."""

    def make(self) -> Any:
        """Returns the unit, a function of data and info."""
        section = self.registered.example()
        return lambda data, info: section.build(None, data=data, info=info)

    def test_returns_data(self) -> None:
        """It returns something for the memory or for a chunk."""
        expect(_first(self.make()) is not None, "it returns None")

    def test_changes_nothing(self) -> None:
        """Memory, chunk and their arrays are the same after a call."""
        memory = _memory()
        chunk = Compose([get_memory_params, get_last_chunk])(memory)
        before = copied(memory.state_dict()), copied(chunk)
        _first(self.make(), memory, chunk)
        wrong = difference(copied(memory.state_dict()), before[0])
        expect(not wrong, f"it changes the memory: {wrong}")
        wrong = difference(copied(chunk), before[1])
        expect(not wrong, f"it changes the chunk: {wrong}")

    def test_repeats_with_the_same_random_numbers(self) -> None:
        """The same data and generator give the same batches."""
        first, again = (_plain(_first(self.make())) for _ in range(2))
        wrong = difference(first, again)
        expect(not wrong, f"it differs from call to call: {wrong}")


def _memory() -> Memory:
    rng = np.random.default_rng(0)
    memory = Memory(_STEPS, _CHUNKS)
    for _ in range(_CHUNKS + 1):
        size = (_WORKERS, _STEPS + 1)
        memory.store(
            {
                "/observations": rng.normal(size=(*size, 3)).astype(np.float32),
                "/masks": (rng.random((*size, 1)) > 0.2).astype(np.float32),
                "/rewards": rng.normal(size=(*size, 1)).astype(np.float32),
                "/agents/agent/actions": rng.integers(0, 2, (*size, 1)),
                "/agents/agent/hidden_state": rng.normal(size=(*size, 2)).astype(np.float32),
                "/agents/agent/artifacts/values": rng.normal(size=(*size, 1)).astype(np.float32),
            }
        )
    return memory


def _first(unit: Any, memory: Any = None, chunk: object = None) -> Any:
    """Applies a unit to the first of what it takes: a chunk, the entries, or the memory.

    Raises:
        Exception: it takes none of them; that of the memory.
    """
    memory = _memory() if memory is None else memory
    info = {"rng": np.random.default_rng(1), "agent_name": "agent", "batch_size": 8}
    buffer = get_memory_params(memory, info)
    chunk = get_last_chunk(buffer, info) if chunk is None else chunk
    for data in (chunk, buffer):
        try:
            return _drawn(unit(data, {**info, "rng": np.random.default_rng(1)}))
        except Exception:  # noqa: S112 - it may take another kind of data
            continue
    return _drawn(unit(memory, {**info, "rng": np.random.default_rng(1)}))


def _drawn(found: Tree) -> object:
    return list(found) if isinstance(found, Iterator) else found


def _plain(found: Tree) -> object:
    if isinstance(found, list):
        return [_plain(each) for each in found]
    if isinstance(found, Memory):
        return found.state_dict()
    return {k: np.asarray(v) for k, v in found.items()} if isinstance(found, Mapping) else found
