"""Run: folder, checkpoints, random streams, log and result of one training."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from dicore.data import State, StateDict
from dicore.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointWriteError,
    DicoreError,
    UsageError,
)
from dicore.interfaces.logger import ILogger, LogTarget
from dicore.run.checkpoint_store import LATEST, CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.log import LogHub
from dicore.run.metadata import RunMetadata, RunResult
from dicore.run.random import Streams
from dicore.run.signals import StopFlag
from dicore_registry.explain import brief

__all__ = ["COUNTERS", "Limits", "Run", "Stateful", "StopWatch"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

COUNTERS: Final = ("train_iter", "env_step")
"""What a run counts: gradient updates and env steps."""


@runtime_checkable
class Stateful(Protocol):
    """A part of a run that checkpoints save and restore."""

    def state_dict(self) -> Mapping[str, object]:
        """Returns the state: nested dicts of arrays, tensors and plain values."""

    def load_state_dict(self, state: Mapping[str, object], /) -> Any:
        """Restores what `state_dict` returned."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a training ends: at whichever limit is reached first.

    `max_env_step` and `max_train_iter` are budgets in env steps and gradient updates, None: no
    budget; `stop_value` is the mean evaluation return at which training stops.
    """

    max_env_step: int | None = None
    max_train_iter: int | None = None
    stop_value: float = float("inf")

    @property
    def ends(self) -> bool:
        """There is at least one limit."""
        budget = self.max_env_step is not None or self.max_train_iter is not None
        return budget or self.stop_value < float("inf")


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of all that it started."""
    import psutil

    seconds, pid = sum(os.times()[:4]), os.getpid()
    listed = Path(f"/proc/{pid}/task/{pid}/children").exists()  # by some kernels
    others = () if listed else psutil.Process().children(recursive=True)
    for child in (*_below(pid), *(each.pid for each in others)):
        with contextlib.suppress(psutil.Error):  # it has ended
            seconds += sum(psutil.Process(child).cpu_times()[:4])
    return seconds


def _below(pid: int) -> Iterator[int]:
    """Yields the processes that a process started; `psutil` looks at all of the machine."""
    with contextlib.suppress(OSError):  # it has ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, file.read_bytes().split()):
                yield from (child, *_below(child))


class StopWatch:
    """Measures the seconds of a training; `earlier` are those before this process.

    Args:
        clock: Returns the seconds to measure by.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.earlier = 0.0
        self._clock = clock
        self._ends: list[float] = []

    def start(self) -> None:
        """Starts the watch; further calls do nothing."""
        self._ends = self._ends or [self._clock()]

    def stop(self) -> None:
        """Stops the watch for good; does nothing if it is not running."""
        if len(self._ends) == 1:
            self._ends.append(self._clock())

    @property
    def seconds(self) -> float:
        """Seconds from `start` to now, or to `stop`, and those before this process."""
        now = self._clock()
        begin, end = [*self._ends, now][:2] if self._ends else (now, now)
        return self.earlier + end - begin


class _Parts:
    """The parts of a run by name, and the part that owns each counter."""

    def __init__(self) -> None:
        self.by_name: dict[str, Stateful] = {}
        self._bulky: set[str] = set()
        self._counters: dict[str, Callable[[], int]] = {}

    def add(
        self, name: str, part: Stateful, bulky: bool, counts: Mapping[str, Callable[[], int]]
    ) -> None:
        if not isinstance(part, Stateful):
            raise UsageError(
                f"{type(part).__name__} cannot be registered as '{name}'",
                hint="add the methods state_dict() and load_state_dict(state)",
            )
        if self.by_name.get(name, part) is not part:
            raise UsageError(f"another part of the run is registered as '{name}'")
        if unknown := sorted(set(counts) - set(COUNTERS)):
            raise UsageError(f"unknown counter '{unknown[0]}'; expected {', '.join(COUNTERS)}")
        self.by_name[name] = part
        self._counters.update(counts)
        if bulky:
            self._bulky.add(name)

    def count(self, counter: str) -> int:
        return int(self._counters[counter]()) if counter in self._counters else 0

    def state_dict(self, *, bulky: bool = True) -> StateDict:
        return {
            name: dict(part.state_dict())
            for name, part in self.by_name.items()
            if bulky or name not in self._bulky
        }

    def load_state_dict(self, state: State, *, ignore_missing: bool = False) -> None:
        missing = sorted(set(self.by_name) - set(state))
        if missing and not ignore_missing:
            raise CheckpointCorruptError(
                f"the checkpoint lacks {', '.join(missing)}", hint="--ignore-missing loads the rest"
            )
        # The streams come last: restoring another part may draw from them.
        present = [name for name in self.by_name if name in state]
        for name in sorted(present, key=lambda name: name == "streams"):
            try:
                self.by_name[name].load_state_dict(state[name])
            except (CheckpointError, UsageError):
                raise
            except Exception as error:
                raise CheckpointCorruptError(
                    f"'{name}' cannot load its state from the checkpoint: {brief(error)}",
                    hint="it was written by another version of this part, or not by dicore",
                    context={"part": name},
                ) from error


class Run:
    """Folder, checkpoint store, streams, log, stop flag, clock and result of one training.

    Args:
        folder: The run's folder, which exists.
        streams: The run's random streams.
        argv: The command line.
        components: `{path: {type, dist, version, target}}` of every component.
        loggers: Loggers besides `log/metrics.jsonl`.
        limits: When training ends.
        keep_checkpoints: Number of periodic checkpoints to keep.
        resume: Resume from the folder's latest complete checkpoint; see `restore`.

    Attributes:
        resumed_from: Name of the checkpoint to resume from; None: there is none.
        reached: `env_step` and `train_iter` of that checkpoint.
        device: Device of the policy and its batches: `cpu`, `cuda`, `cuda:1`.
        learner_hooks: Hooks that plugins add to every learner of the run.
        ignore_missing: Parts that a checkpoint lacks keep their state when it is loaded.
        deferring: Periodic checkpoints are written by the next `save_due`, at the end of a step,
            where training can resume (`due`: one waits); set by pipelines that call `save_due`.
        metadata: What `run.json` holds; `metadata.values` takes further entries.
        clock: Measures the training from its first step to before the final save.
        cpu: Measures its CPU seconds from its first step to the end, those of its processes too.
    """

    def __init__(
        self,
        folder: RunFolder | str | PathLike[str],
        streams: Streams,
        *,
        argv: Sequence[str] = (),
        components: Mapping[str, Mapping[str, Any]] | None = None,
        loggers: Iterable[ILogger] = (),
        limits: Limits | None = None,
        keep_checkpoints: int = 3,
        resume: bool = False,
    ) -> None:
        self.folder = folder if isinstance(folder, RunFolder) else RunFolder(folder)
        self._resume = resume
        self.streams = streams
        self.stop = StopFlag()
        self.result = RunResult()
        self.limits = limits or Limits()
        self.clock = StopWatch()
        self.cpu = StopWatch(cpu_seconds)
        config = self.folder.read_config()
        sha = {"config_sha256": config and sha256(config).hexdigest()}
        self.store = CheckpointStore(self.folder.checkpoints, keep=keep_checkpoints, metadata=sha)
        found: tuple[str | None, Any] = self._find_checkpoint() if resume else (None, None)
        self.resumed_from, self._state = found
        saved = self.store.metadata(self.resumed_from) if self.resumed_from else {}
        self.reached = {name: int(saved.get(name, 0)) for name in COUNTERS}
        ends = asdict(self.limits)
        none = -1, -1  # without a checkpoint, all earlier entries of the log are invalid
        at = (self.reached["env_step"], self.reached["train_iter"]) if self.resumed_from else none
        resumed_at = at if resume else None
        target = LogTarget(self.folder.log, str(self.folder), **ends, resumed_at=resumed_at)
        self.log = LogHub(target, loggers)
        self.metadata = RunMetadata(
            self.folder.metadata, seed=streams.seed, argv=argv, components=components, limits=ends
        )
        self._parts = _Parts()
        self.register("streams", streams)
        self.register("run", _Progress(self))
        self.device = "cpu"
        self.learner_hooks: list[Any] = []
        self.deferring = self.ignore_missing = False
        self.due = self._finished = False
        self._at_first_step: list[Callable[[], None]] = []

    def _find_checkpoint(self) -> tuple[str | None, Any]:
        self.folder.refuse_links()
        self.folder.lock()  # before looking inside
        try:
            return self.store.newest_state()
        except BaseException:
            self.folder.unlock()
            raise

    # ---- start and end

    def start(self) -> None:
        """Locks the folder, or raises `RunLockedError`; writes `run.json` with status `running`."""
        self.folder.lock()
        if self._resume:
            self.metadata.resume(self.resumed_from, **self.reached)
        try:
            self.metadata.write("running")
        except OSError as error:
            self.folder.unlock()
            text = f"{self.folder}: cannot be written: {error.strerror or error}"
            raise UsageError(text) from error

    def abandon(self) -> None:
        """Unlocks the folder without writing anything to it."""
        self._finished = True
        self.log.close()
        self.folder.unlock()

    def at_first_step(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, after everything is built and before the first step."""
        self._at_first_step.append(callback)

    def first_step(self) -> None:
        """Calls the callbacks of `at_first_step` and starts the clock; later calls do nothing."""
        while self._at_first_step:
            self._at_first_step.pop(0)()
        self.clock.start()
        self.cpu.start()
        self.store.start_clock()

    def stop_clock(self) -> None:
        """Stops the clock, before the final save; later calls do nothing."""
        self.clock.stop()

    @property
    def stop_requested(self) -> bool:
        """A signal or a caller asked to finish the present iteration, save and stop."""
        return bool(self.stop)

    def set_result(
        self,
        *,
        stop: bool | None = None,
        train_iter: int | None = None,
        env_step: int | None = None,
        best_return: float | None = None,
    ) -> None:
        """Sets fields of the result; None leaves a field as it is."""
        result = self.result
        result.stop = result.stop if stop is None else bool(stop)
        result.train_iter = result.train_iter if train_iter is None else int(train_iter)
        result.env_step = result.env_step if env_step is None else int(env_step)
        result.best_return = result.best_return if best_return is None else float(best_return)

    def finish(self, status: str = "done", error: str = "") -> RunResult:
        """Closes the log, writes the result to `run.json` and unlocks the folder, once.

        `status` is `done`, `interrupted` or `failed`; `error` is the text of the error.
        """
        if self._finished:
            return self.result
        self._finished = True
        self.stop_clock()
        self.result.wall_s = round(self.clock.seconds, 6)
        self.result.cpu_s = round(self.cpu.seconds, 2)
        self.set_result(**self._counts())  # a run that fails has not
        self.log.close()
        try:
            self.store.settle(for_good=True)
        except CheckpointWriteError as problem:
            _log.warning("%s", problem)
        try:
            self.folder.restore_if_removed()
            self.metadata.write(status, self.result, error)
        except (OSError, DicoreError) as problem:
            _log.warning("%s is not written: %s", self.folder.metadata, problem)
        self.folder.unlock()
        return self.result

    # ---- state

    def register(
        self,
        name: str,
        part: Stateful,
        *,
        bulky: bool = False,
        counts: Mapping[str, Callable[[], int]] | None = None,
    ) -> None:
        """Adds a part to the state that checkpoints save.

        Args:
            name: Its key in the checkpoint (`learner`, `collector`, `buffer`); must be unused.
            part: Has `state_dict` and `load_state_dict`.
            bulky: Needed to resume but not to act (a buffer): left out of `best`.
            counts: The counters that this part owns, by name (`train_iter`, `env_step`): functions
                that return the present value.
        """
        self._parts.add(name, part, bulky, counts or {})

    @property
    def parts(self) -> Mapping[str, Stateful]:
        """The registered parts, by name."""
        return dict(self._parts.by_name)

    def state_dict(self, *, bulky: bool = True) -> StateDict:
        """Returns the state of every registered part; without the bulky ones if not `bulky`."""
        return self._parts.state_dict(bulky=bulky)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restores every registered part, or raises `CheckpointCorruptError`."""
        self._parts.load_state_dict(state, ignore_missing=self.ignore_missing)

    def restore(self, *, whole_log: bool = False) -> str | None:
        """Restores all registered parts if the run was made with `resume`.

        Args:
            whole_log: Keep the numbers logged since the checkpoint: they are not made again.

        Returns:
            The name of the checkpoint; None if training starts from scratch.
        """
        if not self._resume:
            return None
        if self.resumed_from is None:
            self.log.load_state_dict({"size": 0, "time": 0.0})
            _log.warning(
                "%s: no checkpoint to resume from; training starts from scratch", self.folder
            )
            return None
        state, self._state = self._state, None
        if self.resumed_from == "best":
            self.ignore_missing = True  # it has all but the bulky parts
        if whole_log:
            own = state["run"]
            state = {**state, "run": {**own, "log": {**own["log"], "size": sys.maxsize}}}
        self.load_state_dict(state)
        return self.resumed_from

    def save_checkpoint(self, name: str, state: State | None = None) -> Path | None:
        """Writes a checkpoint; raises at the third failing write in a row, or if `final` fails.

        A large one of all parts is copied and written beside the training, except `final`. The
        error of its writing is that of the next save of all parts, or of `save_due`.

        Args:
            name: `iteration_N`, `best`, `final` or another name.
            state: What to save; None: all registered parts.

        Returns:
            Its folder; None if it was deferred or could not be written.
        """
        if state is None and self.deferring and name.startswith("iteration_"):
            self.due = True
            return None
        counts = self._counts()
        if self.folder.restore_if_removed():
            self.log.folder_is_new()
        self.log.flush()
        content = self.state_dict() if state is None else state
        complete, final = state is None, name.startswith("final")
        if complete:
            self._tried(self.store.settle)
        save = partial(self.store.save, name, content, complete=complete, **counts)
        return self._tried(partial(save, beside=complete and not final), last=final)

    def _tried(self, save: Callable[[], T], *, last: bool = False) -> T | None:
        """Returns what `save` returns; None if it failed, and may be tried again."""
        try:
            return save()
        except CheckpointWriteError as error:
            self.log.log_scalars({"run/failed_saves": self.store.failures}, **self._counts())
            if last or not self.store.may_retry(error):
                raise
            _log.warning("%s", error)
            return None

    def save_due(self, train_iter: int) -> None:
        """Writes the periodic checkpoint that was deferred since the last call, if any.

        Otherwise, if the last one is old (see `CheckpointStore.is_late`), replaces `latest`.
        """
        if self.due:
            self.due, self.deferring = False, False
            try:
                self.save_checkpoint(f"iteration_{train_iter}")
            finally:
                self.deferring = True
        elif self.store.is_late:
            self._tried(self.store.settle)
            if self.store.is_late:
                self.save_checkpoint(LATEST)

    def save_best(self, best_return: float) -> Path | None:
        """Records a new best return and saves `best`: all parts that are not bulky."""
        self.set_result(best_return=best_return)
        return self.save_checkpoint("best", self._parts.state_dict(bulky=False))

    def save_failed(self, error: BaseException) -> None:
        """Saves all parts that are not bulky as `exception`, after an error in training."""
        stops = isinstance(error, KeyboardInterrupt | CheckpointError)
        if not stops and self.clock.seconds > self.clock.earlier:
            try:
                self.save_checkpoint("exception", self._parts.state_dict(bulky=False))
            except Exception as problem:  # the first error is the one to see
                _log.warning("no checkpoint after the error: %s", brief(problem))

    def _counts(self) -> dict[str, Any]:
        """Returns the counters; those of an earlier process or a set result are lower bounds."""
        return {
            name: max(getattr(self.result, name), self.reached[name], self._parts.count(name))
            for name in COUNTERS
        }


class _Progress:
    """The state of the run itself: its clock, its best return, and the position in its log."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def state_dict(self) -> StateDict:
        run = self._run
        return {
            "wall_s": run.clock.seconds,
            "wall_s_cpu": run.cpu.seconds,
            "best_return": run.result.best_return,
            "log": run.log.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        run = self._run
        run.clock.earlier = float(state["wall_s"])
        run.cpu.earlier = float(state.get("wall_s_cpu", 0.0))
        run.result.best_return = state["best_return"]
        run.log.load_state_dict(state["log"])
