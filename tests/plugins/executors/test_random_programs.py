"""Random programs in async mode see exactly what the rules of docs/concepts/executor.md say.

The expected values come from a simulation that runs the stages in order, and gives a stage the
values of `max_lag` steps before for kept fields that only later stages write.
"""

from __future__ import annotations

import dataclasses
import random
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from dicore.errors import TaskError
from dicore.task import Context, Task, middleware

KEPT, FRESH = ("a", "b", "c", "d"), ("x", "y", "z")


@dataclasses.dataclass
class Numbers(Context):
    a: int = 1
    b: int = 2
    c: int = 3
    d: int = 4
    x: int = 5
    y: int = 6
    z: int = 7

    def __post_init__(self) -> None:
        self.keep(*KEPT)


INITIAL = {name: getattr(Numbers(), name) for name in KEPT + FRESH}
Trace = dict[tuple[int, int, int], tuple[int, ...]]
"""What each half of a stage read, by step, stage and half."""


class Drawn(NamedTuple):
    """A stage: the fields that its halves read and write; `alone`: it declares none of them."""

    reads: tuple[list[str], list[str]]
    writes: tuple[list[str], list[str]]
    yields: bool
    alone: bool

    @classmethod
    def by(cls, chosen: random.Random) -> Drawn:
        def some(most: int, names: Any = KEPT + FRESH) -> list[str]:
            return chosen.sample(names, min(chosen.randint(0, most), len(names)))

        yields, written = chosen.random() < 0.4, some(2)
        again = some(2, written) if yields else []
        reads = (some(3) or ["a"], some(2) if yields else [])
        return cls(reads, (written, again), yields, chosen.random() < 0.1)


def value(*seen: Any) -> int:
    """Returns a number that differs where anything that was seen does."""
    return zlib.crc32(repr(seen).encode())


def expected(stages: list[Drawn], steps: int, lag: int) -> tuple[Trace, dict[str, int]]:
    """Simulates a program; returns what it reads, and the kept fields in the end."""
    now, ends, trace = dict(INITIAL), list[dict[str, int]](), Trace()
    writers = [set(KEPT) if each.alone else {*each.writes[0]} for each in stages]
    first = {name: at for at in reversed(range(len(stages))) for name in writers[at]}

    def read(name: str, at: int) -> int:
        if name in KEPT and first.get(name, -1) > at:
            return (INITIAL if len(ends) <= lag else ends[-1 - lag])[name]
        return now[name]

    for step in range(steps):
        now.update({name: INITIAL[name] for name in FRESH})
        order = [(at, 0) for at in range(len(stages))]
        order += [(at, 1) for at in reversed(range(len(stages))) if stages[at].yields]
        for at, half in order:
            names = stages[at].reads[half]
            seen = tuple(now[name] if half else read(name, at) for name in names)
            trace[step, at, half] = seen
            now.update({n: value(at, half, n, step, seen) for n in stages[at].writes[half]})
        ends.append(dict(now))
    return trace, {name: now[name] for name in KEPT}


def made(at: int, stage: Drawn, trace: Trace, delay: Callable[[], None]) -> Any:
    """Returns the middleware."""

    def run(ctx: Any, half: int) -> None:
        delay()
        seen = tuple(getattr(ctx, name) for name in stage.reads[half])
        trace[ctx.total_step, at, half] = seen
        for name in stage.writes[half]:
            setattr(ctx, name, value(at, half, name, ctx.total_step, seen))
        delay()

    def whole(ctx: Any) -> None:
        run(ctx, 0)

    def halves(ctx: Any) -> Iterator[None]:
        run(ctx, 0)
        yield
        run(ctx, 1)

    fn: Any = halves if stage.yields else whole
    if stage.alone:
        return fn
    reads = {*stage.reads[0], *stage.reads[1]}
    return middleware(optional=sorted(reads), writes=stage.writes[0], uses=[])(fn)


@pytest.mark.parametrize("programs", [12, pytest.param(1_000, marks=pytest.mark.slow)])
def test_each_half_reads_what_the_rules_say(programs: int) -> None:
    ran = 0
    for seed in range(programs):
        chosen = random.Random(seed)
        stages = [Drawn.by(chosen) for _ in range(chosen.randint(2, 6))]
        lag, workers, steps = (chosen.randint(1, most) for most in (3, 5, 8))
        delays, trace = random.Random(seed), Trace()

        def delay(delays: random.Random = delays) -> None:
            time.sleep(delays.random() * delays.choice([0, 0, 1e-4, 1e-3]))

        with Task().start(True, workers, Numbers()) as task:
            task.executor.max_lag = lag
            for at, each in enumerate(stages):
                task.use(made(at, each, trace, delay))
            try:
                task.run(max_step=steps)
            except TaskError:  # something is written after all that read it
                continue
            left = {name: getattr(task.ctx, name) for name in KEPT}
        assert (trace, left) == expected(stages, steps, lag), (seed, lag, workers, stages)
        ran += 1
    assert ran > programs / 2
