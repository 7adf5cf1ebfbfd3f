"""The board keeps up with its runs, a little at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

from dicore_tools.board.library import Library
from dicore_tools.reports.curves import TAG
from tests.tools.board.conftest import add_line
from tests.tools.reports.test_curves import make_run


class Clock:
    """Goes on by `step` at every look, and by `wait`."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now

    def wait(self) -> None:
        self.now += 60


def test_rows_are_answered_once(runs: Path) -> None:
    clock = Clock()
    library = Library([runs], clock=clock)
    first = library.changes()
    assert [row["name"] for row in first.rows] == ["a_s0", "a_s1", "b_s0"]
    assert (len(first.ids), first.reading, first.metrics) == (3, 0, [TAG])
    clock.wait()
    assert library.changes(first.version).rows == []
    add_line(runs / "a_s1", 400, 400.0)
    clock.wait()
    (row,) = library.changes(first.version).rows
    assert (row["name"], row["last"]) == ("a_s1", 400)


def test_tags_are_part_of_the_rows(runs: Path) -> None:
    clock = Clock()
    library = Library([runs], clock=clock)
    version = library.changes().version
    library.tags.change(runs / "b_s0", add=["x"])
    clock.wait()
    (row,) = library.changes(version).rows
    assert (row["name"], row["tags"]) == ("b_s0", ["x"])


def test_runs_come_and_go(runs: Path) -> None:
    clock = Clock()
    library = Library([runs], clock=clock)
    first = library.changes()
    make_run(runs / "c", [(0, 1.0)])
    shutil.rmtree(runs / "a_s0")
    clock.wait()
    found = library.changes(first.version)
    assert [row["name"] for row in found.rows] == ["c"]
    assert len(found.ids) == 3
    shutil.rmtree(runs)
    clock.wait()
    assert library.changes(first.version).ids == []


def test_many_runs_are_read_a_few_at_a_time(runs: Path) -> None:
    library = Library([runs], clock=Clock(step=0.2))
    left = [library.changes().reading for _ in range(4)]
    assert left[0] > 0
    assert left[-1] == 0


def test_curves_of_many_runs_are_read_a_few_at_a_time(runs: Path) -> None:
    for name in ("a_s0", "a_s1", "b_s0"):
        add_line(runs / name, 500, 1.0, "loss")
    library = Library([runs], clock=(clock := Clock()))
    ids = library.changes().ids
    clock.step = 1.0
    counts = []
    while not counts or counts[-1][1]:
        found, left = library.data(ids, ["loss"], 1.5)
        counts.append((len(found), left))
    assert counts[0][1] > 0
    assert counts[-1] == (3, 0)


def test_curves_that_were_used_longest_ago_are_dropped(runs: Path) -> None:
    for name in ("a_s0", "a_s1", "b_s0"):
        for step in range(20):
            add_line(runs / name, step, 1.0, "loss")
    library = Library([runs], clock=Clock(), most_bytes=300)
    ids = library.changes().ids
    for identity in ids:
        (data,), _ = library.data([identity], ["loss"])
        assert len(data.columns["loss"]) == 20
    held = [run.has(["loss"]) for run in map(library.run, ids) if run is not None]
    assert held == [False, False, True]
