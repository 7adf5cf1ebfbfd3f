"""Profiling: the time spent in each middleware and inside the parts of a run.

Times are wall-clock times of the calling thread. Asynchronous GPU work is counted where the thread
waits for it. Runs that are not profiled do not import this module.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from time import perf_counter
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from dicore.errors import TaskError
from dicore.interfaces.buffer import IBuffer
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.interfaces.middleware import Suspended
from dicore.run.atomic import write_file
from dicore.task import Context, task
from dicore.task.middleware import Middleware, name_of
from dicore.values import Tree
from dicore_plugins.middleware.keep_time import timed_by

if TYPE_CHECKING:
    from dicore.run.run import Run

__all__ = ["StepTimer", "SupportsProfile", "TimeRow", "keeping_time", "profiled"]

_log = logging.getLogger(__name__)

_BY_ROLE: Final[tuple[tuple[type, dict[str, str]], ...]] = (
    (IBuffer, {
        "sample": "sample", "sample_batch": "sample", "sample_batches": "sample",
        "push": "push", "update": "update priorities",
    }),
    (IEnvManager, {"step": "env step", "step_into": "env step", "reset": "env reset"}),
    (ISerialEvaluator, {"eval": "evaluate"}),
)  # fmt: skip
"""Methods that are timed for each role, and their names in the table."""

_HEADER = ("what", "calls", "total s", "mean ms", "share")


class TimeRow(NamedTuple):
    """The measured time of one function or block.

    Args:
        path: Its name, after the names of the callers that it ran in.
        calls: Number of calls.
        seconds: Total time, including everything that ran inside.
    """

    path: tuple[str, ...]
    calls: int
    seconds: float


@runtime_checkable
class SupportsProfile(Protocol):
    """A part of a run whose inner functions can be timed."""

    def profile(self, timer: StepTimer, /) -> None:
        """Times inner functions with `timer.patch`; `timer.end` restores them."""


@dataclass(slots=True)
class _Span:
    name: str = ""
    calls: int = 0
    seconds: float = 0.0
    inside: dict[str, _Span] = field(default_factory=dict)

    def rows(self, path: tuple[str, ...], rest: dict[str, str]) -> Iterator[TimeRow]:
        yield TimeRow(path, self.calls, self.seconds)
        for name, span in self.inside.items():
            yield from span.rows((*path, name), rest)
        if self.inside and path[-1] in rest:
            left = self.seconds - sum(span.seconds for span in self.inside.values())
            yield TimeRow((*path, rest[path[-1]]), self.calls, left)


class StepTimer:
    """Times every middleware of a task: `task.use_wrapper(timer)`; then `print(timer.table())`.

    Args:
        print_per_step: Steps between prints of the table; None: no automatic print.

    Raises:
        TaskError: `print_per_step` is not positive.
    """

    def __init__(self, print_per_step: int | None = None) -> None:
        if print_per_step is not None and print_per_step < 1:
            raise TaskError(f"print_per_step must be >= 1, got {print_per_step}")
        self._every = print_per_step
        self._root = _Span()
        self._local = threading.local()
        self._local.here = self._root
        self._names: list[str] = []
        self._rest: dict[str, str] = {}
        self._undo: list[Callable[[], None]] = []

    def __call__(self, fn: Middleware) -> Middleware:
        """Wraps a middleware so that its part before and after the `yield` are timed."""
        name = base = name_of(fn)
        number = 1
        while name in self._names:
            number += 1
            name = f"{base} #{number}"
        self._names.append(name)
        forward: Middleware = self.around(name, fn, in_threads=True)
        first = len(self._names) == 1

        @wraps(fn, assigned=("__doc__", "__module__"), updated=())
        def timed(ctx: Context) -> Suspended | None:
            if first and self._every and self._steps and self._steps % self._every == 0:
                self.show()
            return forward(ctx)

        timed.__name__ = timed.__qualname__ = base
        return timed

    def around(
        self, name: str, fn: Callable[..., Any], *, in_threads: bool = False
    ) -> Callable[..., Any]:
        """Wraps a function so that its calls are timed under a name.

        A generator that it returns is timed too. Timed functions that it calls are listed below it
        in the table. In other threads it is timed only within a middleware, unless `in_threads`.
        """

        def timed(*args: object, **kwargs: object) -> Any:
            here = getattr(self._local, "here", self._root if in_threads else None)
            if here is None or here.name == name:
                return fn(*args, **kwargs)
            outer, start = self._enter(name), perf_counter()
            try:
                result = fn(*args, **kwargs)
            finally:
                self._leave(outer, start, 1)
            return self._resumed(name, result) if result.__class__ is GeneratorType else result

        return timed

    def patch(self, owner: object, attribute: str, name: str, rest: str = "") -> None:
        """Times a function of an object or class, until `end`.

        Args:
            owner: Object or class that has the function.
            attribute: Name of the function in `owner`.
            name: Name in the table.
            rest: Name in the table for the time that no inner function accounts for.
        """
        self.replace(owner, attribute, self.around(name, getattr(owner, attribute)))
        if rest:
            self.name_rest(name, rest)

    def name_rest(self, name: str, rest: str) -> None:
        """Names the time in `name` that no inner function accounts for."""
        self._rest[name] = rest

    def replace(self, owner: object, attribute: str, value: Tree) -> None:
        """Replaces an attribute of an object or class, until `end`."""
        own = attribute in getattr(owner, "__dict__", {})
        before = getattr(owner, attribute)

        def undo() -> None:
            if vars(owner).get(attribute) is not value:
                return  # replaced again in the meantime
            if own:
                setattr(owner, attribute, before)
            else:
                delattr(owner, attribute)

        self.at_end(undo)
        setattr(owner, attribute, value)

    def at_end(self, callback: Callable[[], None]) -> None:
        """Registers a callback for `end`, which runs them in reverse order."""
        self._undo.append(callback)

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Times a block."""
        if not hasattr(self._local, "here"):
            yield
            return
        outer, start = self._enter(name), perf_counter()
        try:
            yield
        finally:
            self._leave(outer, start, 1)

    def account_for(self, whole: float, name: str) -> None:
        """Adds a row for the time outside all spans, so that the rows sum up to `whole` seconds."""
        inside = sum(span.seconds for span in self._root.inside.values())
        self._root.inside[name] = _Span(name, 1, max(whole - inside, 0.0))

    def end(self) -> None:
        """Restores everything that was patched; the measured times remain."""
        while self._undo:
            self._undo.pop()()

    def rows(self) -> list[TimeRow]:
        """Returns the measured times in the order of first use, inner rows below outer ones."""
        return [
            row
            for name, span in self._root.inside.items()
            for row in span.rows((name,), self._rest)
        ]

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Returns the header and the cells of the table; shares refer to the sum of outer rows."""
        found = self.rows()
        whole = sum(row.seconds for row in found if len(row.path) == 1)
        lines: list[tuple[str, ...]] = [
            (
                "  " * (len(row.path) - 1) + row.path[-1],
                str(row.calls),
                f"{row.seconds:.3f}",
                f"{1e3 * row.seconds / max(row.calls, 1):.3f}",
                f"{100 * row.seconds / whole if whole else 0.0:.1f} %",
            )
            for row in found
        ]
        return _HEADER, lines

    def json_lines(self) -> str:
        """Returns a JSON object per row and line: `path`, `level`, `calls`, `seconds`, `mean_s`."""
        lines = [
            json.dumps({
                "path": "/".join(row.path),
                "level": len(row.path),
                "calls": row.calls,
                "seconds": round(row.seconds, 6),
                "mean_s": round(row.seconds / max(row.calls, 1), 9),
            })
            for row in self.rows()
        ]  # fmt: skip
        return "".join(f"{line}\n" for line in lines)

    def table(self) -> str:
        """Returns the table as text."""
        from dicore.console import plain_table

        return plain_table(*self.cells(), numbers=range(1, len(_HEADER)))

    def show(self) -> None:
        """Prints the table."""
        from dicore.console import write_table

        write_table(*self.cells(), numbers=range(1, len(_HEADER)))

    @property
    def _steps(self) -> int:
        first = self._root.inside.get(self._names[0])
        return first.calls if first else 0

    def _enter(self, name: str) -> _Span:
        outer: _Span = getattr(self._local, "here", self._root)
        span = outer.inside.get(name)
        if span is None:
            span = outer.inside[name] = _Span(name)
        self._local.here = span
        return outer

    def _leave(self, outer: _Span, start: float, calls: int) -> None:
        span = self._local.here
        span.seconds += perf_counter() - start
        span.calls += calls
        self._local.here = outer

    def _resumed(self, name: str, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Runs a generator, timed while it is running."""
        try:
            while True:
                outer, start = self._enter(name), perf_counter()
                try:
                    item = next(inner)
                except StopIteration as end:
                    return end.value
                finally:
                    self._leave(outer, start, 0)
                yield item
        finally:
            inner.close()


@contextmanager
def keeping_time(level: int = 99) -> Iterator[StepTimer]:
    """Times the `KeepTime` blocks of this thread inside the block.

    Args:
        level: Highest level that is timed.

    Yields:
        The timer: `print(timer.table())`, `timer.rows()`, `timer.json_lines()`.
    """
    with timed_by(StepTimer(), level) as timer:
        yield timer


@contextmanager
def profiled(run: Run) -> Iterator[StepTimer]:
    """Times a run from its first step; writes `log/profile.json`, `.jsonl` and `.txt` at its end.

    Parts that implement `SupportsProfile` are timed in more detail. All patches are removed at the
    end.

    Args:
        run: A run before its first step.
    """
    timer = StepTimer()
    began: list[float] = []

    def begin() -> None:
        if task.running:
            task.use_wrapper(timer)
        for part in run.parts.values():
            _patch_part(timer, part)
        began.append(perf_counter())

    run.at_first_step(begin)
    try:
        with timed_by(timer):
            yield timer
    finally:
        whole = perf_counter() - began[0] if began else 0.0
        timer.end()
        timer.account_for(whole, "outside of middleware")
        _write(run, timer, whole)


def _patch_part(timer: StepTimer, part: object) -> None:
    """Times the methods of a part's role, and what the part itself adds."""
    for role, functions in _BY_ROLE:
        if isinstance(part, role):
            for function, name in functions.items():
                if hasattr(part, function):
                    timer.patch(part, function, name)
    if isinstance(part, SupportsProfile):
        part.profile(timer)


def _write(run: Run, timer: StepTimer, whole: float) -> None:
    rows = [
        {"path": list(row.path), "calls": row.calls, "seconds": round(row.seconds, 6)}
        for row in timer.rows()
    ]
    document = {
        "wall_s": round(whole, 6),
        "env_step": run.result.env_step,
        "train_iter": run.result.train_iter,
        "rows": rows,
    }
    try:
        run.folder.log.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=1)
        write_file(run.folder.log / "profile.json", f"{text}\n".encode())
        write_file(run.folder.log / "profile.txt", f"{timer.table()}\n".encode())
        write_file(run.folder.log / "profile.jsonl", timer.json_lines().encode())
    except OSError as error:
        _log.warning("cannot write the profile: %s", error)
