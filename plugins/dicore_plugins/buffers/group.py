"""Several buffers of one training, from all of which each batch is drawn.

Shapes: B samples drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Batch, State, StateDict
from dicore.data.tree import is_tensor
from dicore.errors import ReplayUnderflowError, SchemaError, UsageError
from dicore.interfaces.buffer import Refused
from dicore.run.checkpoint_store import read_state, write_state
from dicore_plugins.buffers.memory import verdict

__all__ = ["BufferGroup", "share_problems"]

AGENT = "agent"
"""Name of the buffer into which collected samples are pushed."""

_FACTS: dict[str, tuple[Any, float]] = {
    "replay_unique_id": (np.int64, -1), "replay_buffer_idx": (np.int64, -1),
    "use": (np.int64, 0), "staleness": (np.int64, 0),
    "priority": (np.float32, 0), "IS": (np.float32, 1),
}  # fmt: skip
"""Columns that prioritized buffers add, with the values of samples from other buffers."""


class BufferGroup:
    """Buffers by name; each batch has a fixed share from each of them, in their order.

    Collected samples are pushed into `agent`; the others keep what they have. Samples of a buffer
    without priorities have the weight `IS` 1 and the id -1.

    Args:
        buffers: Buffers (`IBuffer`) by name, one of which is `agent`.
        shares: Fraction of a batch by name; buffers without share the rest equally.
        updates: By name, the gradient updates in which a share falls linearly to 0; `agent` gets
            what others lose.

    Raises:
        UsageError: there is no `agent`, a share is negative or of an unknown buffer, or the shares
            are not below 1 in sum.
    """

    def __init__(
        self,
        buffers: Mapping[str, Any],
        shares: Mapping[str, float | None] | None = None,
        updates: Mapping[str, int] | None = None,
    ) -> None:
        shares = shares or {}
        for name, share in shares.items():
            if name not in buffers or (share is not None and share < 0):
                raise UsageError(
                    f"share {share} of the buffer '{name}'; expected shares from 0 to 1 of"
                    f" {', '.join(buffers)}"
                )
        given = {name: shares.get(name) for name in buffers}
        self._updates, self._iteration = updates or {}, 0
        for problem in share_problems(given, self._updates.keys()):
            raise UsageError(problem)
        self.buffers = dict(buffers)
        rest = 1 - sum(share or 0 for share in given.values())
        open_ = sum(share is None for share in given.values())
        self._shares = {
            name: rest / open_ if share is None else share for name, share in given.items()
        }
        self._agent = self.buffers[AGENT]

    @classmethod
    def of(cls, section: Any, ctx: Any) -> BufferGroup:
        """Returns the buffers of a config section, see `NamedConfig`."""
        names = section.keys()
        updates = {name: section[name].get("share_updates") for name in names}
        falling = {name: count for name, count in updates.items() if count is not None}
        shares = {name: section[name].get("share") for name in names}
        return cls(section.build(ctx), shares, falling)

    @property
    def shares(self) -> dict[str, float]:
        """Fraction of a batch from each buffer at the latest draw."""
        found = dict(self._shares)
        for name, length in self._updates.items():
            left = max(1 - self._iteration / length, 0.0)
            found[AGENT] += found[name] * (1 - left)
            found[name] *= left
        return found

    @property
    def replay_buffer_size(self) -> int:
        """Capacity of `agent`."""
        return int(self._agent.replay_buffer_size)

    @property
    def push_count(self) -> int:
        """Number of samples pushed into `agent` so far."""
        return int(self._agent.push_count)

    def count(self) -> int:
        """Size of the largest batch that can be drawn without `replace`, at most `agent` holds."""
        have = {name: int(buffer.count()) for name, buffer in self.buffers.items()}
        shares = self.shares
        size = min([have[AGENT], *(int(have[n] / shares[n]) for n in have if shares[n])])
        while any(count > have[name] for name, count in self.counts(size).items()):
            size -= 1  # a part may be rounded up
        return size

    def counts(self, batch_size: int) -> dict[str, int]:
        """Returns how many samples of a batch come from each buffer; they sum up to B."""
        ends = np.rint(np.cumsum([0.0, *self.shares.values()]) * batch_size).astype(int)
        return {
            name: int(stop - start)
            for name, (start, stop) in zip(self.buffers, pairwise(ends), strict=True)
        }

    def push(self, data: Any, cur_collector_envstep: int | None = None) -> Any:
        """Stores samples in `agent`; see `IBuffer`."""
        return self._agent.push(data, cur_collector_envstep)

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch | Refused:
        """Draws B samples, those of the first buffer first; see `IBuffer`.

        Raises:
            ReplayUnderflowError: a buffer has fewer samples than its share of B.
            SchemaError: the buffers have different columns.
            UsageError: B is not positive.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size}")
        self._iteration = cur_learner_iter
        parts: list[Batch] = []
        for name, count in self.counts(batch_size).items():
            if not count:
                continue
            try:
                part = self.buffers[name].sample_batch(
                    count, cur_learner_iter, sample_range, replace, reuse=reuse
                )
            except ReplayUnderflowError as error:
                raise ReplayUnderflowError(
                    f"buffer '{name}': {error.message}", hint=error.hint, context=error.context
                ) from error
            if isinstance(part, Refused):
                return Refused(f"buffer '{name}': {part.reason}")
            parts.append(part)
        return _joined(parts)

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> Any:
        """Draws like `sample_batch`; returns the samples as a list of dicts."""
        batch = self.sample_batch(batch_size, cur_learner_iter, sample_range, replace)
        return batch if isinstance(batch, Refused) else batch.rows()

    def update(self, info: Mapping[str, Any]) -> None:
        """Passes each buffer the priorities of its own samples of the last batch.

        Raises:
            UsageError: there are not as many ids as priorities.
        """
        if "priority" not in info:
            return
        lengths = {key: len(each) for key, each in info.items()}
        if len({*lengths.values()}) > 1:
            raise UsageError(f"update: expected a value for each sample, got {lengths}")
        start = 0
        for name, count in self.counts(len(info["priority"])).items():
            own = {key: each[start : start + count] for key, each in info.items()}
            start += count
            ids = own.get("replay_unique_id")
            if count and ids is not None and ids[0] != -1:
                self.buffers[name].update(own)

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether each buffer is valid, or what is wrong with which."""
        able = {n: each for n, each in self.buffers.items() if hasattr(each, "check_valid")}
        found = {name: buffer.check_valid() for name, buffer in able.items()}
        return verdict((valid, f"buffer '{name}': {why}") for name, (valid, why) in found.items())

    def clear(self) -> None:
        """Removes the samples of `agent`."""
        self._agent.clear()

    def close(self) -> None:
        """Closes the buffers that can be closed."""
        for buffer in self.buffers.values():
            getattr(buffer, "close", lambda: None)()

    def state_dict(self) -> StateDict:
        """Returns the state of each buffer by name."""
        return {name: buffer.state_dict() for name, buffer in self.buffers.items()}

    def load_state_dict(self, state: State) -> None:
        """Restores the buffers.

        Raises:
            UsageError: the state is that of other buffers.
        """
        if state.keys() != self.buffers.keys():
            raise UsageError(
                f"the state has the buffers {', '.join(state)}; expected {', '.join(self.buffers)}"
            )
        for name, buffer in self.buffers.items():
            buffer.load_state_dict(state[name])

    def save_data(self, file: str | Path) -> None:
        """Writes the state of all atomically to `file`, a folder of arrays and a manifest."""
        write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote."""
        self.load_state_dict(read_state(Path(file)))


def share_problems(
    shares: Mapping[str, float | None], falling: Collection[str] = ()
) -> Iterator[str]:
    """Yields what is wrong with the shares of several buffers, and with which of them fall."""
    if AGENT in falling:
        yield f"{AGENT}.share_updates: it gets what others lose; set share_updates of another one"
    if AGENT not in shares:
        yield f"one of several buffers must be named '{AGENT}'; it gets the collected samples"
    given = sum(share for share in shares.values() if share is not None)
    if None in shares.values() and (given > 1 or (given == 1 and not falling)):
        yield f"the shares sum up to {given:g}, which leaves nothing for the buffers without one"
    elif None not in shares.values() and abs(given - 1) > 1e-6:
        yield f"the shares of all buffers sum up to {given:g}; expected 1"


def _joined(parts: list[Batch]) -> Batch:
    """Concatenates batches, with the facts that some lack."""
    known = {key for part in parts for key in part.columns if key in _FACTS}
    for part in parts:
        for key in known - part.columns.keys():
            dtype, value = _FACTS[key]
            part.columns[key] = np.full(len(part), value, dtype)
    first = parts[0].columns.keys()
    for part in parts[1:]:
        if part.columns.keys() != first:
            raise SchemaError(
                f"the buffers have different columns: {sorted(part.columns.keys() ^ first)} are"
                " not in all of them",
                hint="fill all buffers with samples of the same policy",
            )
    return Batch.concat([_arrays(part) for part in parts])


def _arrays(part: Batch) -> Batch:
    """Returns a batch whose columns are all tensors if one of them is."""
    mixed = any(is_tensor(each) for each in part.columns.values())
    return part.to_torch() if mixed else part
