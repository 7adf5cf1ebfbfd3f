"""Run: what belongs to one training and to no single part of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from dicore.errors import (
    CheckpointCorruptError,
    CheckpointWriteError,
    DicoreError,
    RunLockedError,
    UsageError,
)
from dicore.interfaces.logger import ILogger, LogTarget
from dicore.run.atomic import write_file
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder, RunLock
from dicore.run.log import LogHub
from dicore.run.metadata import RunMetadata, RunResult
from dicore.run.random import Streams
from dicore.run.signals import StopFlag

__all__ = ["Limits", "Run", "Stateful"]

_log = logging.getLogger(__name__)

_WRITE_FAILURES: Final = 3
"""Failed saves in a row after which a run gives up."""


@runtime_checkable
class Stateful(Protocol):
    """What a run saves and restores."""

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state: nested dicts of arrays, tensors and plain values."""

    def load_state_dict(self, state: Mapping[str, Any], /) -> Any:
        """Restores what `state_dict` returned."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a training ends: at whichever comes first.

    Args:
        max_env_step: Budget in env steps; None: none.
        max_train_iter: Budget in updates; None: none.
        stop_value: Mean return of an evaluation that is good enough.
    """

    max_env_step: int | None = None
    max_train_iter: int | None = None
    stop_value: float = float("inf")

    @property
    def ends(self) -> bool:
        """There is a limit at all."""
        budget = self.max_env_step is not None or self.max_train_iter is not None
        return budget or self.stop_value < float("inf")


class Run:
    """Folder, store, streams, log, stop flag, clock and result of one training.

    Args:
        folder: The run's folder, made already.
        streams: The run's random streams.
        argv: The command line, or what called instead.
        components: `{path: {type, dist, version, target}}` of every component.
        loggers: Where numbers go besides `log/metrics.jsonl`.
        limits: When training ends.
        keep_checkpoints: Number of periodic checkpoints kept.
        resume: It goes on from the folder's latest complete checkpoint; see `restore`.

    Attributes:
        resumed_from: Name of the checkpoint that a resumed run goes on from, if there is one.
        device: The CUDA device that a plugin picked (`cuda:1`); "" for the first.
        learner_hooks: Hooks that plugins add to every learner of the run.
        deferring: Periodic checkpoints wait for the end of a step, where training can go on from;
            set by pipelines that call `save_due`.
    """

    def __init__(
        self,
        folder: RunFolder | str | Path,
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
        self._config = _content(self.folder.config)
        self.store = CheckpointStore(
            self.folder.checkpoints,
            keep=keep_checkpoints,
            metadata={"config_sha256": self._config and sha256(self._config).hexdigest()},
        )
        self._lock = RunLock(self.folder.path) if resume else None  # before looking inside
        try:
            self.resumed_from = self.store.resumable() if resume else None
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        found = self.store.metadata(self.resumed_from) if self.resumed_from else {}
        self._reached = {key: int(found.get(key, 0)) for key in ("env_step", "train_iter")}
        facts = asdict(self.limits)
        if resume:
            facts["resumed_at"] = self._reached["env_step"], self._reached["train_iter"]
        self.log = LogHub(LogTarget(self.folder.log, str(self.folder), **facts), loggers)
        self._record = RunMetadata(
            self.folder.metadata,
            seed=streams.seed,
            argv=argv,
            components=components or {},
            limits=asdict(self.limits),
        )
        self._parts: dict[str, Stateful] = {"streams": streams, "run": _Progress(self)}
        self._earlier = 0.0
        self.device = ""
        self.learner_hooks: list[Any] = []
        self.deferring = False
        self._due = False
        self._bulky: set[str] = set()
        self._at_first_step: list[Callable[[], None]] = []
        self._clock: float | None = None
        self._stopped: float | None = None
        self._failures = 0
        self._finished = False

    # ---- life

    def start(self) -> None:
        """Locks the folder and writes `run.json` for the first time; its result is null.

        Raises:
            RunLockedError: another process is training in the folder.
            UsageError: the folder cannot be written.
        """
        if self._lock is None:
            self._lock = RunLock(self.folder.path)
        if self._resume:
            self._record.go_on(self.resumed_from, **self._reached)
        try:
            self._record.write("running")
        except OSError as error:
            raise UsageError(
                f"{self.folder}: cannot be written: {error.strerror or error}"
            ) from error

    @property
    def reached(self) -> Mapping[str, int]:
        """`env_step` and `train_iter` of the checkpoint that a resumed run goes on from."""
        return dict(self._reached)

    def abandon(self) -> None:
        """Lets go of the folder and leaves everything in it as it was."""
        self._finished = True
        self.log.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def at_first_step(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, when everything is built and the first step is due."""
        self._at_first_step.append(callback)

    def first_step(self) -> None:
        """Starts the clock; later calls do nothing."""
        if self._clock is None:
            for callback in self._at_first_step:
                callback()
            self._clock = time.perf_counter()

    def stop_clock(self) -> None:
        """Stops the clock, before the final save; later calls do nothing."""
        if self._clock is not None and self._stopped is None:
            self._stopped = time.perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds from the first env step to now, or to `stop_clock`."""
        if self._clock is None:
            return self._earlier
        now = time.perf_counter() if self._stopped is None else self._stopped
        return self._earlier + now - self._clock

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
        """Says how the run ended, or stands; what is None stays as it was."""
        result = self.result
        result.stop = result.stop if stop is None else bool(stop)
        result.train_iter = result.train_iter if train_iter is None else int(train_iter)
        result.env_step = result.env_step if env_step is None else int(env_step)
        result.best_return = result.best_return if best_return is None else float(best_return)

    def finish(self, status: str = "done", error: str = "") -> RunResult:
        """Closes the log and writes `run.json` with the result; the first call counts.

        Args:
            status: `done`, `interrupted` or `failed`.
            error: What went wrong, if something did.
        """
        if self._finished:
            return self.result
        self._finished = True
        self.stop_clock()
        self.result.wall_s = round(self.wall_s, 6)
        counts = self._counts()  # who ends by an error, or at once, does not say them
        self.set_result(train_iter=counts["train_iter"], env_step=counts["env_step"])
        self.log.close()
        try:
            self._stay()
            self._record.write(status, self.result, error)
        except (OSError, DicoreError) as problem:
            _log.warning("%s is not written: %s", self.folder.metadata, problem)
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        return self.result

    # ---- state

    def register(self, name: str, part: Stateful, *, bulky: bool = False) -> None:
        """Adds a part to what checkpoints hold.

        Args:
            name: Its key in the checkpoint (`learner`, `collector`, `buffer`).
            part: Has `state_dict` and `load_state_dict`.
            bulky: Needed to resume but not to act (a buffer): left out of `best`.

        Raises:
            UsageError: the name is taken by another part, or the part has no state methods.
        """
        if not isinstance(part, Stateful):
            raise UsageError(
                f"{type(part).__name__} cannot be registered as '{name}'",
                hint="it needs state_dict() and load_state_dict(state)",
            )
        if self._parts.get(name, part) is not part:
            raise UsageError(f"another part of the run is registered as '{name}'")
        self._parts[name] = part
        if bulky:
            self._bulky.add(name)

    @property
    def parts(self) -> Mapping[str, Stateful]:
        """The registered parts, by name."""
        return dict(self._parts)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every registered part."""
        return {name: dict(part.state_dict()) for name, part in self._parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores every registered part.

        Raises:
            CheckpointCorruptError: a part has no state in the checkpoint, or cannot take it.
        """
        missing = sorted(set(self._parts) - set(state))
        if missing:
            raise CheckpointCorruptError(f"the checkpoint lacks {', '.join(missing)}")
        for name in sorted(self._parts, key=lambda name: name == "streams"):  # others may draw
            try:
                self._parts[name].load_state_dict(state[name])
            except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                raise CheckpointCorruptError(
                    f"'{name}' cannot take the state of the checkpoint: {error!r}",
                    hint="it was written by another version of this part, or not by dicore",
                    context={"part": name},
                ) from error

    def restore(self) -> str | None:
        """Restores every registered part, once all are, if the run was made to resume.

        Returns:
            The checkpoint used; None where there is none: training begins at the beginning.

        Raises:
            CheckpointCorruptError: it does not fit the parts.
        """
        if not self._resume:
            return None
        name = self.resumed_from
        if name is None:
            self.log.load_state_dict({"size": 0, "time": 0.0})
            _log.warning("%s: no checkpoint to go on from; training begins anew", self.folder)
            return None
        self.load_state_dict(self.store.load(name))
        return name

    def save_checkpoint(self, name: str, state: Mapping[str, Any] | None = None) -> Path | None:
        """Writes a checkpoint; training survives a disk that refuses now and then.

        Args:
            name: `iteration_N`, `best`, `final` or another.
            state: What to save; None: all registered parts.

        Returns:
            Its folder; None if it could not be written.

        Raises:
            CheckpointWriteError: the third failure in a row, the failure to write `final`, or a
                state that no disk could take.
            RunLockedError: the folder was removed, and another run has taken its place.
        """
        if state is None and self.deferring and name.startswith("iteration_"):
            self._due = True
            return None
        counts = self._counts()
        self._stay()
        content = self.state_dict() if state is None else state
        try:
            path = self.store.save(name, content, **counts, complete=state is None)
        except CheckpointWriteError as error:
            self._failures += 1
            self.log.log_scalars({"run/failed_saves": self._failures}, **counts)
            hopeless = not isinstance(error.__cause__, OSError)
            if hopeless or self._failures >= _WRITE_FAILURES or name.startswith("final"):
                raise
            _log.warning("%s", error)
            return None
        self._failures = 0
        return path

    def _stay(self) -> None:
        """Makes the folder again if somebody removed it while training.

        Raises:
            RunLockedError: another run has taken its place.
        """
        if self._lock is None or self._lock.stands():
            return
        with suppress(OSError, UsageError):  # who writes there next says what is wrong
            self.folder.path.mkdir(parents=True, exist_ok=True)
            lock = RunLock(self.folder.path)
            if _content(self.folder.config) not in (None, self._config):
                lock.release()
                raise RunLockedError(
                    f"{self.folder}: was removed, and another run has its place",
                    hint="the folder of a run must stay while it trains",
                )
            self._lock.release()
            self._lock = lock
            if self._config is not None and not self.folder.config.is_file():
                write_file(self.folder.config, self._config)
                _log.warning(
                    "%s was removed while training; it is made again, without what was logged",
                    self.folder,
                )

    def save_due(self, train_iter: int) -> None:
        """Writes the periodic checkpoint that was asked for since the last call, if one was."""
        if self._due:
            self._due, self.deferring = False, False
            try:
                self.save_checkpoint(f"iteration_{train_iter}")
            finally:
                self.deferring = True

    def save_best(self, best_return: float) -> Path | None:
        """Keeps a new best return, and saves `best`: every part but the bulky ones."""
        self.set_result(best_return=best_return)
        small = {name: part for name, part in self._parts.items() if name not in self._bulky}
        return self.save_checkpoint("best", {n: dict(p.state_dict()) for n, p in small.items()})

    def _counts(self) -> dict[str, int]:
        """Reads the counters off the parts: a learner's `train_iter`, a collector's `envstep`."""
        parts = self._parts.values()
        updates = [int(getattr(part, "train_iter", 0)) for part in parts]
        steps = [int(getattr(part, "envstep", 0)) for part in parts]
        return {
            "train_iter": max(self.result.train_iter, self._reached["train_iter"], *updates),
            "env_step": max(self.result.env_step, self._reached["env_step"], *steps),
        }


class _Progress:
    """What a run itself keeps: its clock, its best return, and how far its log is."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def state_dict(self) -> dict[str, Any]:
        run = self._run
        best = run.result.best_return
        return {"wall_s": run.wall_s, "best_return": best, "log": run.log.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        run = self._run
        run._earlier = float(state["wall_s"])  # noqa: SLF001 - one thing, two faces
        run.result.best_return = state["best_return"]
        run.log.load_state_dict(state["log"])


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
