"""Ring storage: preallocated columns, overwritten circularly, and usage counters.

Shapes: N samples pushed, B drawn, C the capacity, `...` one sample.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.data.tree import is_tensor
from dicore.errors import ReplayCapacityError, SchemaError

if TYPE_CHECKING:
    from dicore_plugins.buffers.frame_store import FrameStore
    from dicore_plugins.buffers.memory import Fact, Form, RowLayout
    from dicore_plugins.buffers.storage import Storage
    from dicore_plugins.frames import Chunk

IntArray = npt.NDArray[np.int64]

MUCH = 256 << 20
"""Bytes of a ring from which on the available memory is checked."""


class RecycledBatch(Batch):
    """A batch whose memory each draw overwrites; its tensor views are created once."""

    __slots__ = ("_sequences", "_tensors")

    def __init__(self, columns: dict[str, Tree], length: int) -> None:
        super().__init__(columns, length)
        self._tensors: Batch | None = None
        self._sequences: RecycledBatch | None = None

    def to_torch(self) -> Batch:
        """Returns the same views on every call."""
        if self._tensors is None:
            import torch

            with torch.inference_mode(False):  # they are for every later draw
                self._tensors = super().to_torch()
        return self._tensors

    def sequences(self, length: int, *, time_major: bool = False) -> RecycledBatch:
        """Returns the same batch of sequences [B, L, ...] on every call, in the same memory."""
        if self._sequences is None:
            shaped = as_sequences(self.columns, length, time_major=time_major)
            self._sequences = RecycledBatch(shaped, len(self) // length)
        return self._sequences


def as_sequences(
    columns: dict[str, Tree], length: int, *, time_major: bool = False
) -> dict[str, Tree]:
    """Returns columns of steps [B * L, ...] as views [B, L, ...].

    Args:
        columns: The steps, sequence after sequence.
        length: L.
        time_major: The steps are [L * B, ...]: the first ones of all sequences, then the second.
    """

    def shaped(leaf: Tree) -> Tree:
        if not time_major:
            return leaf.reshape(len(leaf) // length, length, *leaf.shape[1:])
        return leaf.reshape(length, len(leaf) // length, *leaf.shape[1:]).swapaxes(0, 1)

    found: dict[str, Tree] = tree_map(shaped, columns)
    return found


class Schema:
    """Keys, dtypes and shapes of the samples of a buffer: those of the first ones.

    Attributes:
        paths: Dotted paths of the columns.
        forms: Shape [...] and dtype of each, as it is stored.
        spec: Structure of the columns; None: there were no samples yet.
        sample_bytes: Bytes of a sample.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forgets them."""
        self.paths: list[str] = []
        self.forms: list[Form] = []
        self.spec: Tree = None
        self.sample_bytes = 0

    @property
    def known(self) -> bool:
        """Whether there were samples."""
        return self.spec is not None

    def check(self, batch: Batch) -> bool:
        """Notes the form of the first samples; compares that of others with it.

        Returns:
            Whether there are columns of double precision, whose range is checked.

        Raises:
            SchemaError: they have other keys, dtypes or shapes, or are no numbers.
        """
        paths, leaves, spec = optree.tree_flatten_with_path(batch.columns)
        names = [".".join(map(str, path)) for path in paths]
        arrays = [_shaped(leaf) for leaf in leaves]
        wide = any(array.dtype == np.float64 for array in arrays)
        if wide:
            from dicore_plugins.buffers.memory import check_range

            check_range(names, arrays)
        if any(array.shape[:1] != (len(batch),) for array in arrays):
            found = {name: len(array) for name, array in zip(names, arrays, strict=True)}
            raise SchemaError(f"a batch of {len(batch)} samples has columns of lengths {found}")
        if self.spec is None:
            if not _are_numbers(batch.columns, arrays):
                from dicore_plugins.buffers.memory import check_numbers

                check_numbers(batch.columns, names, arrays)
            single = np.dtype(np.float32)
            self.forms = [
                (array.shape[1:], single if array.dtype == np.float64 else array.dtype)
                for array in arrays
            ]
            self.sample_bytes = _bytes_of(self.forms)
            self.paths, self.spec = names, spec
        elif spec != self.spec:
            missing, unknown = set(self.paths) - set(names), set(names) - set(self.paths)
            raise SchemaError(
                "pushed columns differ from the stored ones:"
                f" missing {sorted(missing)}, unknown {sorted(unknown)}",
                hint="make all samples in one way; for a warm-up by"
                " RandomPolicy(like=policy.collect_mode)",
            )
        for name, array, (shape, dtype) in zip(names, arrays, self.forms, strict=True):
            fits = array.dtype == dtype or (array.dtype == np.float64 and dtype == np.float32)
            if array.shape[1:] != shape or not fits:
                raise SchemaError(
                    f"column '{name}': expected {dtype}{list(shape)} as stored,"
                    f" got {array.dtype}{list(array.shape[1:])}"
                )
        return wide

    def tree(self, leaves: list[Tree]) -> dict[str, Tree]:
        """Returns columns with these leaves."""
        tree: dict[str, Tree] = optree.tree_unflatten(self.spec, leaves)
        return tree


Recycled = tuple[list[RecycledBatch], list[Tree]]
"""Batches, and the columns that they are slices of."""


class _Recycling(threading.local):
    """Recycled memory of one thread, by (sample count, batch size): buffers, newest last."""

    def __init__(self) -> None:
        self.pools: dict[tuple[int, int], list[Recycled]] = {}


class Ring:
    """Stores the newest C samples as columns; the first push fixes keys, dtypes and shapes.

    A ring has no lock: a buffer that several threads use holds its own around every call.

    Args:
        capacity: C.
        debug: Overwrite recycled batches with extreme values when they expire.
        storage: Allocates the columns, see `storage.Storage`; None: arrays in memory.
        by_row: Keep small samples row after row in one array, of which columns are views.
    """

    def __init__(
        self,
        capacity: int,
        *,
        debug: bool = False,
        storage: Storage | None = None,
        by_row: bool = False,
    ) -> None:
        self.capacity = capacity
        self.debug = debug
        self._storage = storage
        self._by_row = by_row and storage is None
        self._takes_tensors = storage is not None and storage.takes_tensors
        self.schema = Schema()
        self.clear()
        self.push_count = 0

    @property
    def in_memory(self) -> bool:
        """Whether columns are arrays in memory."""
        return self._storage is None

    @property
    def known(self) -> bool:
        """Whether keys, dtypes and shapes are fixed."""
        return self.schema.known

    @classmethod
    def over(cls, columns: Mapping[str, Tree], count: int) -> Ring:
        """Returns a full ring over existing columns, which it only reads: a data set.

        Args:
            columns: Leaves with `shape`, `dtype` and `take(slots, 0, out, mode)`, as arrays have.
            count: N.
        """
        ring = cls(count)
        ring._stores, ring.schema.spec = optree.tree_flatten(dict(columns))
        ring._sources = ring._stores
        forms = [(store.shape[1:], store.dtype) for store in ring._stores]
        ring.schema.forms, ring.schema.sample_bytes = forms, _bytes_of(forms)
        ring.count = count
        return ring

    def clear(self) -> None:
        """Drops all samples and their schema; ids continue to rise."""
        self.count = 0
        self.cursor = 0
        self._stores: list[Tree] = []
        self._sources = self._stores
        self._layout: RowLayout | None = None
        self._frame_stores: list[FrameStore] = []
        if self._storage is not None:
            self._storage.clear()
        self.schema.clear()
        self._items: list[tuple[str, Tree]] | None = None
        self._pushed_schema: object = None
        self._recycling = _Recycling()

    # ---- writing

    def push(self, batch: Batch) -> range:
        """Writes N samples and returns their ids; if N exceeds C, only the newest C are stored.

        Raises:
            SchemaError: keys, dtypes or shapes differ from those of the first push.
        """
        count = batch._length  # noqa: SLF001 - the buffer's own class; `len` costs 3 % of a push
        schema = batch.schema
        if schema is None or schema is not self._pushed_schema:
            wide = self._admit(batch)
            self._pushed_schema = (
                None if wide else schema
            )  # each push may exceed the range of float32
        start = self.cursor
        stop = start + count
        if stop > self.capacity:
            self._push_around(batch, count)
        elif self._items is not None:
            columns, slots = batch.columns, slice(start, stop)
            for key, store in self._items:
                store[slots] = columns[key]
        else:
            for store, leaf in zip(self._stores, self._leaves(batch), strict=True):
                store[start:stop] = leaf
        self.cursor = stop if stop < self.capacity else stop % self.capacity
        if self.count < self.capacity:
            self.count = min(self.count + count, self.capacity)
        first = self.push_count
        self.push_count = last = first + count
        return range(first, last)

    def _push_around(self, batch: Batch, count: int) -> None:
        """Writes samples across the end of the ring, except those that later ones overwrite."""
        skip = max(0, count - self.capacity)
        slots = (self.cursor + np.arange(skip, count)) % self.capacity
        for store, leaf in zip(self._stores, self._leaves(batch), strict=True):
            store[slots] = leaf[skip:]

    def _leaves(self, batch: Batch) -> list[Tree]:
        leaves = optree.tree_leaves(batch.columns)
        for store in self._frame_stores[:1]:
            store.check(leaves)
        return leaves if self._takes_tensors else [array_of(leaf) for leaf in leaves]

    def _admit(self, batch: Batch) -> bool:
        """Checks a batch, the first of which allocates; returns whether it has doubles."""
        new = not self.schema.known
        wide = self.schema.check(batch)
        if new:
            try:
                self._allocate(batch)
            except BaseException:
                self.clear()
                raise
        return wide

    def _allocate(self, batch: Batch) -> None:
        arrays = [_shaped(leaf) for leaf in optree.tree_leaves(batch.columns)]
        needed = self.capacity * sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in arrays)
        if needed >= MUCH:
            from dicore_plugins.buffers.memory import check_memory, row_bytes

            needed = self.capacity * row_bytes(arrays)
            check = check_memory if self._storage is None else self._storage.check
            check(needed, self.capacity)
        try:
            self._stores = self._new_columns(arrays)
        except MemoryError as error:
            raise ReplayCapacityError(
                f"{self.capacity} samples need {needed / 2**30:.1f} GiB, which cannot be allocated",
                hint="reduce replay_buffer_size",
            ) from error
        columns = batch.columns
        if all(isinstance(columns[key], np.ndarray) for key in columns):
            by_name = dict(zip(self.schema.paths, self._stores, strict=True))
            self._items = [(key, by_name[key]) for key in columns]

    def _new_columns(self, arrays: list[Tree]) -> list[Tree]:
        """Returns an empty column for each leaf; frame stacks share a store of frames."""
        empty = np.empty if self._storage is None else self._storage.empty
        stacked: Mapping[int, Tree] = {}
        if any(hasattr(array, "packed") for array in arrays):
            from dicore_plugins.buffers.frame_store import stack_columns

            stacked, self._frame_stores = stack_columns(arrays, self.capacity, self._storage)
        if self._by_row and not stacked:
            from dicore_plugins.buffers.memory import RowLayout

            layout = RowLayout(self.schema.forms)
            if layout.fits:
                self._layout = layout
                self._sources = [np.empty((self.capacity, layout.size), np.uint8)]
                return self._columns(self._sources)
        self._sources = [
            stacked[at] if at in stacked else empty((self.capacity, *shape), dtype)
            for at, (shape, dtype) in enumerate(self.schema.forms)
        ]
        return self._sources

    def _columns(self, arrays: list[Tree]) -> list[Tree]:
        """Returns the columns of what was made or taken like the sources."""
        return arrays if self._layout is None else self._layout.columns(arrays[0])

    # ---- reading

    def column(self, path: str) -> Tree:
        """Returns a column [C, ...] by its dotted path."""
        return self._stores[self.schema.paths.index(path)]

    def newest(self, chosen: slice) -> IntArray:
        """Returns the slots of the `chosen` samples, oldest first: int64 [n]."""
        found = range(self.count)[chosen]
        ages = np.arange(found.start, found.stop, found.step)
        return (self.cursor - self.count + ages) % self.capacity

    def ids(self, slots: IntArray) -> IntArray:
        """Returns the ids of the samples in `slots`: int64, the same shape."""
        return self.push_count - 1 - (self.cursor - 1 - slots) % self.capacity

    def batch(self, slots: IntArray) -> Batch:
        """Returns a copy of the samples in `slots`."""
        taken = [store.take(slots, 0, None, "clip") for store in self._sources]
        return Batch(self.schema.tree(self._columns(taken)), len(slots))

    def recycled(self, slots: IntArray, size: int) -> list[RecycledBatch]:
        """Returns the samples in `slots` as batches of `size`, in recycled memory.

        Each thread has its own for each pair of sample count and batch size, and alternates: a
        batch stays valid until the thread's second next call.
        """
        key, pools = (len(slots), size), self._recycling.pools
        pool = pools.get(key)
        if pool is None:
            turns = getattr(self._storage, "turns", 2)
            pool = pools[key] = [self._blank(*key) for _ in range(turns)]
        if self._storage is not None:
            self._storage.turn()
        pool.append(pool.pop(0))
        if self.debug:
            self._expire(pool, key)
        batches, leaves = pool[-1]
        if self._frame_stores:
            from dicore_plugins.buffers.frame_store import gather

            gather(self._stores, slots, leaves)
            return batches
        for store, leaf in zip(self._sources, leaves, strict=True):
            store.take(slots, 0, leaf, "clip")
        return batches

    def _expire(self, pool: list[Recycled], key: tuple[int, int]) -> None:
        from dicore_plugins.buffers.memory import poison

        for leaf, store in zip(pool[-1][1], self._sources, strict=True):
            leaf[...] = poison(store.dtype)
        pool[-1] = self._blank(*key)

    def samples_in(self, size: int) -> int:
        """Returns how many samples fit into `size` bytes, at least one."""
        return max(1, size // max(self.schema.sample_bytes, 1))

    def _blank(self, count: int, size: int) -> Recycled:
        empty = np.empty if self._storage is None else self._storage.output
        made = [empty((count, *store.shape[1:]), store.dtype) for store in self._sources]
        leaves = self._columns(made)
        parts = [[leaf[start : start + size] for leaf in leaves] for start in range(0, count, size)]
        return [RecycledBatch(self.schema.tree(part), size) for part in parts], made

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns the stored samples by slot, and the cursors; columns are views until a push."""
        stored = [store[: self.count] for store in self._stores]
        frames = [each.state_dict() for each in self._frame_stores]
        return {
            "columns": self.schema.tree(stored) if self.count else {},
            "cursor": self.cursor,
            "push_count": self.push_count,
            **({"frames": frames} if frames else {}),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; a larger ring gets the samples by age.

        Raises:
            ReplayCapacityError: the samples do not fit into this ring.
        """
        from dicore_plugins.buffers.memory import check_room, fitted

        state = fitted(state, self.capacity)
        columns = tree_map(lambda leaf: np.asarray(array_of(leaf)), dict(state["columns"]))
        samples = Batch(columns) if columns else Batch({}, 0)
        check_room(len(samples), self.capacity, "samples")
        cursor, push_count = int(state["cursor"]), int(state["push_count"])
        wrapped = len(samples) == self.capacity and 0 <= cursor < self.capacity
        if not (wrapped or cursor == len(samples)) or push_count < len(samples):
            raise SchemaError(f"the cursor {cursor} of {len(samples)} samples contradicts itself")
        chunks: list[Chunk] = []
        if "frames" in state and len(samples):
            from dicore_plugins.buffers.frame_store import restored

            samples, chunks = restored(samples, state["frames"])
        free = [each["free"] for each in state["frames"]] if chunks else []
        self.clear()
        if chunks:
            self._admit(samples)
            for store, chunk, slots in zip(self._frame_stores, chunks, free, strict=True):
                store.load(chunk, slots)
        for start in range(0, len(samples), 4096):
            self.push(samples[start : start + 4096])
        self.cursor, self.push_count = cursor % self.capacity, push_count

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether cursor, counts, columns and storage fit each other, and if not, why."""
        from dicore_plugins.buffers.memory import verdict

        return verdict(self._facts())

    def _facts(self) -> Iterator[Fact]:
        count, cursor, capacity = self.count, self.cursor, self.capacity
        yield 0 <= count <= capacity, f"{count} samples in a ring of {capacity}"
        at = 0 <= cursor < capacity if count == capacity else cursor == count
        yield at, f"the cursor {cursor} is not where {count} samples of {capacity} end"
        yield self.push_count >= count, f"{count} samples, of which {self.push_count} were pushed"
        yield self.known or not count, f"{count} samples without columns"
        for path, store in zip(self.schema.paths, self._stores, strict=True):
            rows = store.shape[0]
            yield rows == capacity, f"the column '{path}' has {rows} of {capacity} rows"
        for frames in self._frame_stores:
            yield frames.check_valid([self._stores[at] for at in frames.columns])
        valid = getattr(self._storage, "check_valid", None)
        if valid is not None:
            yield valid()

    def close(self, state: State | None = None) -> None:
        """Frees a storage; `state`, of the buffer, is kept with files that are kept."""
        if self._storage is not None:
            self._storage.close(state)
        self.clear()


def _are_numbers(columns: Mapping[str, Tree], arrays: list[Tree]) -> bool:
    """Returns whether there are columns, with names, and all have numbers that torch has, too."""
    numbers = all(a.dtype.kind in "biufc" and a.dtype.char not in "gG" for a in arrays)
    return bool(arrays) and numbers and all(key.__class__ is str for key in columns)


def array_of(leaf: Tree) -> Tree:
    """Returns a column as an array: tensors are detached and moved to the CPU.

    bfloat16, which NumPy does not have, becomes float32.

    Raises:
        SchemaError: the tensor is sparse.
    """
    if not is_tensor(leaf):
        return leaf
    leaf = leaf.detach().cpu()
    try:
        return leaf.numpy()
    except TypeError as error:
        if leaf.layout.__str__() != "torch.strided":
            raise SchemaError(f"a column is a tensor of {leaf.layout}; expected dense") from error
        return leaf.float().numpy()


def _shaped(leaf: Tree) -> Tree:
    leaf = array_of(leaf)  # frame stacks stay as they are
    return leaf if hasattr(leaf, "packed") else np.asarray(leaf)


def _bytes_of(forms: list[Form]) -> int:
    """Returns the bytes of one sample."""
    return sum(dtype.itemsize * math.prod(shape) for shape, dtype in forms)
