"""A replay buffer with full data on disk and meta data in memory.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import math
import uuid
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.errors import ClosedError, UsageError
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers.advanced.limits import checked_stamps, too_few_left
from dicore_plugins.buffers.base import ReplayBuffer, Samples, check_draw, stored
from dicore_plugins.buffers.file.config import FileConfig
from dicore_plugins.buffers.file.folder import BodyFolder
from dicore_plugins.buffers.file.records import Place, packed, write_head
from dicore_plugins.buffers.memory import Fact, check_room
from dicore_plugins.buffers.priority_tree import checked_priorities, ids_of

__all__ = ["FileBuffer", "FileReplayBuffer", "write_body"]


@dataclass
class _Item:
    """The meta data of a sample.

    Attributes:
        holds: Number of draws of its meta data that were not released.
        gone: It was removed from the buffer.
    """

    place: Place
    number: int
    meta: dict[str, Any] = field(default_factory=dict)
    use: int = 0
    collect_iter: int = -1
    holds: int = 0
    gone: bool = False


class FileReplayBuffer(ReplayBuffer):
    """First-in first-out buffer of samples in files; implements `IBuffer`.

    A sample (full data) is written to a file when it is pushed, and read when it is drawn; only its
    meta data stay in memory: where it is, `priority`, `use`, `collect_iter`. When the meta data
    leave (overwritten, used up, stale, cleared, closed), the file goes too. Each body has a
    checksum. `close` deletes all files. Drawn samples have the columns `replay_unique_id` and `use`
    int64 [B] beside theirs; a draw whose file is missing or was changed raises `ReplayError`.

    Large samples can also be written by the process that made them: `write_body(folder, data)`
    returns meta data, which are pushed like a sample. `sample_meta` draws meta data, whose bodies
    are read by `load`, and stay until `release`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.

    Attributes:
        push_count: Number of samples pushed so far.
        removed: Number of samples removed so far, by reason: `full`, `use`, `stale`.

    Raises:
        UsageError: the folder has files of an earlier buffer, see `existing`.
        RunLockedError: another buffer uses the folder.
    """

    config_class = FileConfig
    state_kind = ("ids", "files")
    state_entries = ("columns", "ids", "use", "collect_iter", "priority", "push_count", "removed")

    def __init__(
        self,
        cfg: FileConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(cfg, rng=rng)
        self._items: list[_Item] = []
        self._handed: dict[int, _Item] = {}
        self.removed = {"full": 0, "use": 0, "stale": 0}
        self._folder = BodyFolder(
            self._cfg.folder,
            self._cfg.samples_per_file,
            self._cfg.existing,
            background=self._cfg.enable_track_used_data,
        )
        self._finalizer = weakref.finalize(self, self._folder.close)
        for number, place in sorted(self._folder.found, key=lambda each: each[1]):
            number = max(number, self.push_count)  # noqa: PLW2901 - write_body knows no ids
            self._items.append(_Item(place, number))
            self._push_count = number + 1
        if self._items:
            self._schema.check(Batch.from_rows([self._folder.read(self._items[0].place)]))
        self._drop_surplus()

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._folder.path

    @property
    def dropped(self) -> int:
        """Number of files whose last record was cut off, of those loaded (`existing=load`)."""
        return self._folder.dropped

    def count(self) -> int:
        """Number of stored samples."""
        return len(self._items)

    # ---- writing

    def push(self, data: Samples, cur_collector_envstep: int | None = None) -> range | Refused:
        """Stores samples, or meta data of bodies that `write_body` wrote; returns their ids.

        Raises:
            SchemaError: the data are not samples, or keys, dtypes or shapes differ from the first
                push.
            ReplayCapacityError: the disk is full; nothing is stored.
            UsageError: a body is not in the folder of the buffer.
        """
        with self._lock:
            self._check_open()
            metas = _metas(data)
            if metas is None:
                return super().push(data, cur_collector_envstep)
            return self._once(self._adopt, metas, None)

    def _push(self, samples: Batch, env_step: int | None) -> range:
        first = self.push_count
        self._schema.check(samples)
        self._write(samples)
        self._drop_surplus()
        return range(first, self.push_count)

    def _write(self, samples: Batch) -> None:
        unknown = np.full(len(samples), -1)
        stamps = checked_stamps(samples.get("collect_iter", unknown), len(samples)).tolist()
        columns = tree_map(stored, samples.columns)
        skip = max(0, len(samples) - self.replay_buffer_size)  # would be removed at once
        new: list[_Item] = []
        try:
            for row, body in enumerate(Batch(columns, len(samples)).rows()):
                if row < skip:
                    continue
                number = self.push_count + row
                item = _Item(self._folder.write(body, number), number)
                item.collect_iter = stamps[row]
                new.append(item)
        except BaseException:
            for item in new:
                self._folder.release(item.place)
            raise
        self.removed["full"] += skip
        self._items += new
        self._push_count += len(samples)

    def _adopt(self, metas: Iterable[Mapping[str, Any]], env_step: int | None) -> range:
        """Stores the meta data of bodies that are in the folder."""
        first = self.push_count
        bodies = [(self._folder.take(meta["file_path"]), meta) for meta in metas]
        if len({path.name for path, _ in bodies}) < len(bodies):
            raise UsageError("push: two of the samples have the same file_path")
        for body in [self._folder.peek(path) for path, _ in bodies]:
            self._schema.check(Batch.from_rows([body]))
        given = [meta.get("collect_iter", -1) for _, meta in bodies]
        stamps = checked_stamps(given, len(bodies)).tolist()
        for (path, meta), stamp in zip(bodies, stamps, strict=True):
            item = _Item(self._folder.adopt(path), self.push_count)
            item.meta = {key: each for key, each in meta.items() if key != "file_path"}
            item.collect_iter = stamp
            self._items.append(item)
            self._push_count += 1
        self._drop_surplus()
        return range(first, self.push_count)

    def _drop_surplus(self) -> None:
        surplus = len(self._items) - self.replay_buffer_size
        if surplus > 0:
            self._remove(self._items[:surplus], "full")

    def _remove(self, items: Sequence[_Item], reason: str | None) -> None:
        if not items:
            return
        gone = {item.number for item in items}
        self._items = [item for item in self._items if item.number not in gone]
        for item in items:
            item.gone = True
            if not item.holds:
                self._folder.release(item.place)
        if reason is not None:
            self.removed[reason] += len(items)

    def update(self, info: Mapping[str, Any]) -> None:
        """Stores priorities in the meta data; draws stay uniform.

        Raises:
            ReplayPriorityError: a priority is negative or not finite; nothing is changed.
            UsageError: there are not as many ids as priorities.
        """
        if "priority" not in info or "replay_unique_id" not in info:
            return
        ids = ids_of(info["replay_unique_id"])
        priority = checked_priorities(info["priority"], len(ids))
        with self._lock:
            by_number = {item.number: item for item in self._items}
            for number, value in zip(ids.tolist(), priority.tolist(), strict=True):
                if number in by_number:
                    by_number[number].meta["priority"] = value

    def clear(self) -> None:
        """Removes all samples and their files; ids continue to rise."""
        with self._lock:
            self._check_open()
            self._remove(self._items, None)
            self._schema.clear()

    def close(self) -> None:
        """Deletes all files, also of samples that were handed out, and waits for it.

        With `existing=load` the files stay.
        """
        with self._lock:
            self._items = []
            self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise ClosedError("the file buffer is closed")

    # ---- reading

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch | Refused:
        items = self._draw(size, train_iter, part, replace=replace)
        if isinstance(items, Refused):
            return items
        bodies = {item.number: item for item in items}
        read = {number: self._folder.read(item.place) for number, item in bodies.items()}
        self._count(items)
        batch = Batch.from_rows([read[item.number] for item in items])
        batch.columns["replay_unique_id"] = np.array([item.number for item in items], np.int64)
        batch.columns["use"] = np.array([item.use for item in items], np.int64)
        return batch

    def sample_meta(
        self, batch_size: int, cur_learner_iter: int = 0, replace: bool = False
    ) -> list[dict[str, Any]] | Refused:
        """Draws B samples, and returns their meta data; their files stay until `release`.

        Returns:
            Dicts with `file_path`, `replay_unique_id`, `use`, `collect_iter`, and what was pushed.
        """
        with self._lock:
            items = self._draw(batch_size, cur_learner_iter, None, replace=replace)
            if isinstance(items, Refused):
                return items
            for item in items:
                item.holds += 1
                self._handed[item.number] = item
            self._count(items)
            return [self._described(item) for item in items]

    def _described(self, item: _Item) -> dict[str, Any]:
        return {
            **item.meta,
            "file_path": str(self._folder.file_of(item.place)),
            "replay_unique_id": item.number,
            "use": item.use,
            "collect_iter": item.collect_iter,
        }

    def load(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the body (full data) of meta data that `sample_meta` returned.

        Raises:
            UsageError: they are not such meta data, or were released.
        """
        with self._lock:
            return self._folder.read(self._held(meta).place)

    def release(self, metas: Iterable[Mapping[str, Any]]) -> None:
        """Ends the use of meta data that `sample_meta` returned, each once.

        Raises:
            UsageError: they are not such meta data, or were released; nothing is changed.
        """
        with self._lock:
            items = [self._held(meta) for meta in metas]
            times = Counter(item.number for item in items)
            if any(times[item.number] > item.holds for item in items):
                raise UsageError("release: some meta data are there more often than drawn")
            for item in items:
                item.holds -= 1
                if not item.holds:
                    del self._handed[item.number]
                    if item.gone:
                        self._folder.release(item.place)

    def _held(self, meta: Mapping[str, Any]) -> _Item:
        self._check_open()
        item = self._handed.get(meta.get("replay_unique_id", -1))
        if item is None:
            raise UsageError("expected meta data of sample_meta that were not released")
        return item

    def _draw(
        self, size: int, train_iter: int, sample_range: slice | None, *, replace: bool
    ) -> list[_Item] | Refused:
        self._check_open()
        limit = train_iter - self._cfg.max_staleness
        if limit > -math.inf:
            stale = [item for item in self._items if 0 <= item.collect_iter <= limit]
            self._remove(stale, "stale")
        found = self._items if sample_range is None else self._items[sample_range]
        refused = too_few_left(size, len(found), self._cfg, replace=replace)
        if refused is not None:
            return refused
        check_draw(size, len(found), "samples", replace=replace)
        return [found[each] for each in self._rng.integers(0, len(found), size).tolist()]

    def _count(self, items: Sequence[_Item]) -> None:
        """Counts a draw; removes the samples that are used up."""
        for item in items:
            item.use += 1
        spent = {item.number: item for item in items if item.use >= self._cfg.max_use}
        self._remove([*spent.values()], "use")

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns samples, which are read for it, meta data and the state of the random generator.

        The samples must fit into memory; for more, keep the files (`existing=load`).
        """
        return super().state_dict()

    def _saved(self) -> StateDict:
        items = self._items
        bodies = [self._folder.read(item.place) for item in items]
        priority = [item.meta.get("priority", np.nan) for item in items]
        return {
            "columns": Batch.from_rows(bodies).columns if bodies else {},
            "ids": np.array([item.number for item in items], np.int64),
            "use": np.array([item.use for item in items], np.int64),
            "collect_iter": np.array([item.collect_iter for item in items], np.int64),
            "priority": np.array(priority, np.float64),
            "push_count": self.push_count,
            "removed": dict(self.removed),
        }

    def _load(self, state: State) -> None:
        """Restores the samples, which are written to files."""
        ids = np.asarray(state["ids"]).tolist()
        check_room(len(ids), self.replay_buffer_size, "samples")
        self.clear()
        if ids:
            samples = Batch(tree_map(np.asarray, dict(state["columns"])))
            self._schema.check(samples)
            self._write(samples)
        facts = zip(
            self._items,
            ids,
            *(np.asarray(state[key]).tolist() for key in ("use", "collect_iter", "priority")),
            strict=True,
        )
        for item, number, use, collect_iter, priority in facts:
            item.number, item.use, item.collect_iter = number, use, collect_iter
            if not math.isnan(priority):
                item.meta["priority"] = priority
        self._push_count = int(state["push_count"])
        self.removed.update(state["removed"])

    def _facts(self) -> Iterator[Fact]:
        yield from super()._facts()
        ids = [item.number for item in self._items]
        yield all(a < b for a, b in pairwise([*ids, self.push_count])), "ids do not rise"
        waiting = [item for item in self._handed.values() if item.gone]
        yield self._folder.check_valid([item.place for item in (*self._items, *waiting)])


def write_body(folder: str | Path, data: Mapping[str, Tree], **meta: Any) -> dict[str, Any]:
    """Writes a sample to the folder of a file buffer, from any process.

    Args:
        folder: `FileReplayBuffer.folder`.
        data: The sample (full data).
        **meta: Facts to keep in memory: `priority`, `collect_iter`, ….

    Returns:
        Meta data with `file_path`, to push to the buffer.
    """
    path = Path(folder) / f"new_{uuid.uuid4().hex}.records"
    with path.open("xb") as file:
        write_head(file)
        file.write(packed(tree_map(stored, dict(data)), 0))
    return {**meta, "file_path": str(path)}


def _metas(data: Any) -> list[Mapping[str, Any]] | None:
    """Returns pushed meta data as a list; None: the data are samples."""
    if isinstance(data, Batch):
        return None
    rows = [data] if isinstance(data, Mapping) else data
    if not isinstance(rows, Sequence) or not rows:
        return None
    found = ["file_path" in each for each in rows if isinstance(each, Mapping)]
    if len(found) == len(rows) and any(found):
        if not all(found):
            raise UsageError("push: some samples have file_path and some have not")
        return [*rows]
    return None


FileBuffer = FileReplayBuffer
"""Alias of the class."""
