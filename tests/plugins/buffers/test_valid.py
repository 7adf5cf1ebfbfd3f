"""A buffer whose parts contradict each other says what is wrong, and is not resumed."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.testing.buffer import numbered_rows
from dicore.testing.compare import copied, difference
from dicore_compat.deque import DequeReplayBuffer
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    BufferGroup,
    ElasticReplayBuffer,
    EpisodeReplayBuffer,
    FileReplayBuffer,
    NaiveReplayBuffer,
    PriorityTree,
    SequenceReplayBuffer,
)
from dicore_plugins.frames import FrameWriter, StackedFrames


def filled(kind: Any, **options: Any) -> Any:
    """A buffer that went around once; episodes have 4 steps."""
    buffer = kind({"replay_buffer_size": 8, **options}, rng=np.random.default_rng(0))
    ends = {"end": np.arange(11) % 4 == 3}
    buffer.push(Batch({**numbered_rows(11).columns, **ends}))
    buffer.sample_batch(2)
    return buffer


def frames() -> NaiveReplayBuffer:
    writer = FrameWriter((2, 2), np.uint8)
    numbers = []
    for _ in range(12):
        writer.chunk.frames[writer.next_row()] = 1
        numbers.append(writer.done())
    stacks = np.array(numbers)[np.arange(9)[:, None] + np.arange(4)]
    buffer = NaiveReplayBuffer({"replay_buffer_size": 6})
    buffer.push(Batch({"obs": StackedFrames(stacks, (writer.chunk,))}, 9))
    return buffer


def group() -> BufferGroup:
    made = {"agent": filled(NaiveReplayBuffer), "demo": filled(AdvancedReplayBuffer)}
    return BufferGroup(made, {"demo": 0.5})


def prioritized() -> Any:
    buffer = filled(SequenceReplayBuffer, unroll_len=2)
    batch = buffer.sample_batch(3)
    buffer.update({"replay_unique_id": batch["replay_unique_id"], "priority": np.arange(3.0)})
    return buffer


def shorten(buffer: FileReplayBuffer) -> None:
    file = next(buffer._folder.files())
    file.write_bytes(file.read_bytes()[:-3])


def lengthen(buffer: SequenceReplayBuffer) -> None:
    """The last sequence of an episode gets a step of the next one."""
    index = buffer._index
    start = next(each for each in index.starts if index.lengths[each] == 1)
    index.lengths[start] = 2


def set_at(values: Any, at: Any, value: Any) -> None:
    values[at] = value


PLANTED: dict[str, tuple[Callable[[], Any], Callable[[Any], object], str]] = {
    "cursor of a full ring": (lambda: filled(NaiveReplayBuffer),
        lambda b: setattr(b._ring, "cursor", 8), "the cursor 8 is not where 8 samples of 8 end"),
    "cursor of a ring with room": (lambda: filled(NaiveReplayBuffer, replay_buffer_size=20),
        lambda b: setattr(b._ring, "cursor", 3), "the cursor 3 is not where 11 samples of 20 end"),
    "count": (lambda: filled(NaiveReplayBuffer),
        lambda b: setattr(b._ring, "count", 9), "9 samples in a ring of 8"),
    "pushes": (lambda: filled(NaiveReplayBuffer),
        lambda b: setattr(b._ring, "push_count", 7), "8 samples, of which 7 were pushed"),
    "length of a column": (lambda: filled(NaiveReplayBuffer),
        lambda b: set_at(b._ring._stores, 0, np.empty((7,))), "'action' has 7 of 8 rows"),
    "counts of draws": (lambda: filled(NaiveReplayBuffer, enable_track_used_data=True),
        lambda b: set_at(b._usage.times, 2, -1), "not as many counts of draws as samples"),
    "frames": (frames, lambda b: set_at(b._ring._frame_stores[0]._refs, 0, 9),
        "references to frames are not those of the stacks"),
    "size of a part": (lambda: filled(ElasticReplayBuffer),
        lambda b: setattr(b, "_size", 6), "it holds 8 samples of 6"),
    "sum of priorities": (lambda: filled(AdvancedReplayBuffer, replay_buffer_size=2000),
        lambda b: set_at(b._tree._levels[1], 2, 7.0), r"sum \[2\] of level 1 is not that"),
    "mass and priority": (lambda: filled(AdvancedReplayBuffer),
        lambda b: set_at(b._priorities.of, 3, 9.0), r"the mass in slot \[3\] is not its priority"),
    "priority": (lambda: filled(AdvancedReplayBuffer),
        lambda b: set_at(b._priorities.of, 3, np.nan), "negative or not finite"),
    "samples with a mass": (lambda: filled(AdvancedReplayBuffer),
        lambda b: setattr(b, "_held", 7), "it counts 7 samples; 8 have a mass"),
    "a mass where nothing is stored": (lambda: filled(AdvancedReplayBuffer, replay_buffer_size=20),
        lambda b: (b._tree.fill(15, 16, 1.0), b._tree.fill(0, 1, 0.0)), "a mass of no sample"),
    "sequence across an end": (lambda: filled(SequenceReplayBuffer, unroll_len=3), lengthen,
        "crosses the end of an episode"),
    "list of sequences": (lambda: filled(SequenceReplayBuffer, unroll_len=2),
        lambda b: setattr(b._index, "count", b._index.count - 1), "sequences is not complete"),
    "stream": (lambda: filled(SequenceReplayBuffer, unroll_len=2),
        lambda b: set_at(b._index._tail, 0, 0), "the streams have 11 steps of 8"),
    "mass of a sequence": (prioritized,
        lambda b: set_at(b._priorities.of, b._index.starts[0], 77.0), "is not its priority"),
    "end within an episode": (lambda: filled(EpisodeReplayBuffer),
        lambda b: set_at(b._episodes[1]["end"], 1, 1), r"episode 1 of 4 steps ends at its steps"),
    "length of a running episode": (lambda: filled(EpisodeReplayBuffer),
        lambda b: set_at(b._lengths, 0, 9), "the running episode of env 0 has 3 steps"),
    "length of a file": (lambda: filled(FileReplayBuffer), shorten, "the bodies in it need"),
    "a file that is gone": (lambda: filled(FileReplayBuffer),
        lambda b: next(b._folder.files()).unlink(), "0 bytes, the bodies in it need"),
    "bodies of a file": (lambda: filled(FileReplayBuffer),
        lambda b: b._items.pop(), "1 bodies are counted, 0 are in use"),
    "one of several buffers": (group,
        lambda b: setattr(b.buffers["demo"], "_held", 1), "buffer 'demo': it counts 1 samples"),
    "a mass of a deque buffer": (lambda: filled(DequeReplayBuffer),
        lambda b: b.buffer.middleware[-1]._slot_of.popitem(), "the items are not those"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_wrong_is_named(name: str) -> None:
    make, plant, why = PLANTED[name]
    buffer = make()
    assert buffer.check_valid() == (True, "")
    plant(buffer)
    valid, found = buffer.check_valid()
    assert not valid
    assert re.search(why, found), found
    getattr(buffer, "close", lambda: None)()


def test_a_tree_knows_its_own_sums() -> None:
    tree = PriorityTree(4100, "numpy")
    tree.fill(0, 4100, np.arange(4100.0))
    assert tree.check_valid() == (True, "")
    tree._lowest[0][3] = 0.5
    assert tree.check_valid() == (False, "level 1 has a minimum that none of its children has")


def test_a_mapped_file_of_another_length(tmp_path: Path) -> None:
    options = {"storage": "mmap", "storage_folder": str(tmp_path), "storage_keep": True}
    buffer = filled(NaiveReplayBuffer, **options)
    assert buffer.check_valid() == (True, "")
    file = max(tmp_path.rglob("0.npy"), key=lambda each: each.stat().st_size)
    with file.open("ab") as handle:
        handle.write(b"more")
    valid, why = buffer.check_valid()
    assert not valid
    assert "0.npy" in why
    assert "4 bytes more" in why


def corrupt(state: dict[str, Any], kind: Any) -> None:
    if kind is SequenceReplayBuffer:
        lengths = np.array(state["sequences"]["lengths"])
        lengths[np.flatnonzero(lengths == 1)[0]] = 2
        state["sequences"]["lengths"] = lengths
    else:
        state["priority"] = np.array(state["priority"]) + 1


@pytest.mark.parametrize("kind", [AdvancedReplayBuffer, SequenceReplayBuffer])
def test_a_state_that_contradicts_itself_is_not_resumed(kind: Any) -> None:
    options = {"unroll_len": 3} if kind is SequenceReplayBuffer else {}
    state, twin = filled(kind, **options).state_dict(), filled(kind, **options)
    corrupt(state, kind)
    with pytest.raises(SchemaError, match=r"contradicts itself: the (mass|sequence) in slot"):
        twin.load_state_dict(state)
    assert twin.count() == 0
    twin.push(Batch({**numbered_rows(4).columns, "end": np.arange(4) == 3}))
    assert twin.check_valid() == (True, "")


KINDS: list[Callable[[], Any]] = [
    *(partial(filled, kind) for kind in (NaiveReplayBuffer, AdvancedReplayBuffer)),
    *(partial(filled, kind) for kind in (ElasticReplayBuffer, EpisodeReplayBuffer)),
    *(partial(filled, FileReplayBuffer), prioritized, frames),
]


def entries(state: Any, below: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of all entries but columns."""
    for key, value in state.items():
        yield (*below, key)
        if isinstance(value, dict) and key not in ("columns", "episodes", "running", "rng"):
            yield from entries(value, (*below, key))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_lacks_an_entry_is_refused_before_anything_is_changed(
    kind: Callable[[], Any],
) -> None:
    state, buffer = copy.deepcopy(kind().state_dict()), kind()
    before = copied(buffer.state_dict())
    paths = [*entries(state)]
    refused = 0
    for path in paths:
        lacking = copy.deepcopy(state)
        inner = lacking
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        try:
            buffer.load_state_dict(lacking)
        except (SchemaError, UsageError):
            refused += 1
            assert difference(before, buffer.state_dict()) == "", path
        else:  # older states lack it too
            assert buffer.check_valid() == (True, ""), path
            buffer.load_state_dict(copy.deepcopy(state))
            before = copied(buffer.state_dict())
    assert refused >= 4
    getattr(buffer, "close", lambda: None)()


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_nonsense_leaves_the_buffer_as_it_was_or_empty(kind: Callable[[], Any]) -> None:
    state, buffer = copy.deepcopy(kind().state_dict()), kind()
    for key in state:
        before = buffer.count()
        try:
            buffer.load_state_dict({**state, key: object()})
        except (SchemaError, UsageError, TypeError):
            assert buffer.count() in (0, before), key
            assert buffer.check_valid() == (True, ""), key
    getattr(buffer, "close", lambda: None)()
