"""A learner or a collector as a process: serves the tasks of a coordinator until it is closed."""

from __future__ import annotations

import inspect
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dicore.console import formatter
from dicore_dist.coordinator.journal import is_finished
from dicore_dist.links.slurm import hosts_of
from dicore_plugins.private import opener, private_folder

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Place", "serve"]

_LOG = logging.getLogger("dicore.comm")
_OPTIONS: Final = {
    "learner": {
        "send_policy_freq": "send_policy_freq",
        "send_learn_info_freq": "send_learn_info_freq",
        "cache": "learner_cache",
    },
    "collector": {"update_policy_second": "update_policy_second"},
}
"""Options of each role, with their names in `pipeline.system`."""


@dataclass(frozen=True)
class Place:
    """Where the processes of a run exchange files, and their token."""

    path_data: str
    path_policy: str
    token: str = field(repr=False)


@contextmanager
def in_threads(
    roles: Sequence[tuple[str, int]],
    system: Mapping[str, Any],
    place: Place,
    failed: list[BaseException],
) -> Iterator[None]:
    """Serves roles in threads of this process while the block runs; notes what they raise."""
    ended = threading.Event()

    def work(kind: str, index: int) -> None:
        try:
            serve(kind, system, place, index, None, ended)
        except BaseException as error:
            error.add_note(f"in {kind}{index}")
            failed.append(error)

    threads = [threading.Thread(target=work, args=role) for role in roles]
    for thread in threads:
        thread.daemon = True
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(timeout=20)


def serve(
    kind: str,
    system: Mapping[str, Any],
    place: Place,
    index: int = 0,
    folder: str | None = None,
    ended: threading.Event | None = None,
) -> None:
    """Serves as a learner or a collector until it is closed, or another process takes its name.

    It also ends when its training is finished and it has heard of no other one for `start_timeout`.

    Args:
        kind: `learner` or `collector`.
        system: Options of the section `pipeline.system`.
        place: Where it exchanges files.
        index: Number among the processes of its kind.
        folder: Run folder, to which it then writes what it prints; None: it prints, and writes its
            log to the run folder of the coordinator that gives it tasks.
        ended: Ends it, in a thread of a process; None: it has its own process.
    """
    from dicore_registry import default

    name = f"{kind}{index}"
    if folder is not None:
        _redirect(Path(folder) / "log" / name)
    hosts, port = hosts_of(system[f"{kind}_host"]), system[f"{kind}_port"]
    target: Any = default().resolve(f"comm_{kind}", system[f"comm_{kind}"]).target
    given = {
        "name": name,
        "address": system["address"],
        "host": hosts[index % len(hosts)],
        "port": port + index if port else 0,
        "path_data": place.path_data,
        "path_policy": place.path_policy,
        "token": place.token,
        **{option: system[of] for option, of in _OPTIONS[kind].items()},
    }
    taken = inspect.signature(target).parameters
    made = target(**{key: value for key, value in given.items() if key in taken})
    log = _Log(name) if folder is None and ended is None else None
    if log is not None and hasattr(made, "on_task"):
        made.on_task = log
    made.start()
    file = _AddressFile(Path(place.path_policy) / f"{name}.address", made.address)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    patience = _Patience(made, system, Path(place.path_policy), name)
    try:
        while not made.wait(0.1 if ended is not None else 1.0):
            if (ended is not None and ended.is_set()) or patience.is_over():
                break
            if file.is_of_another():
                _LOG.warning("%s was started again, at %s; this one ends", name, file.content)
                break
    finally:
        made.close()
        file.remove()
        if log is not None:
            log.close()


class _Patience:
    """How long a process waits for a coordinator that does not ask for anything."""

    def __init__(self, made: Any, system: Mapping[str, Any], folder: Path, name: str) -> None:
        self._made, self._name = made, name
        self._limit = float(system.get("start_timeout", math.inf))
        self._journal, self._told = folder / "journal.jsonl", False

    def is_over(self) -> bool:
        """Returns whether the training is finished, and no other one has begun."""
        if getattr(self._made, "silent_s", 0.0) <= self._limit:
            self._told = False
            return False
        if is_finished(self._journal):
            text = "%s: the training is finished, and there was no task for %g s; this process ends"
            _LOG.warning(text, self._name, self._limit)
            return True
        if not self._told:
            _LOG.warning("%s: no coordinator asks for anything; waiting for one", self._name)
            self._told = True
        return False


class _AddressFile:
    """Tells the coordinator where a process is; of several with a name, the last one counts."""

    def __init__(self, path: Path, address: str) -> None:
        self._path, self._mine = path, f"{address} {os.getpid()}"
        private_folder(path.parent)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.unlink(missing_ok=True)
        with open(part, "x", encoding="utf-8", opener=opener) as file:
            file.write(self._mine)
        part.replace(path)

    @property
    def content(self) -> str:
        """What the file says now; "": it is not there."""
        with suppress(OSError):
            return self._path.read_text(encoding="utf-8")
        return ""

    def is_of_another(self) -> bool:
        """Returns whether another process has taken the name."""
        return self.content not in ("", self._mine)

    def remove(self) -> None:
        """Removes the file, unless it is another process's by now."""
        if not self.is_of_another():
            self._path.unlink(missing_ok=True)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class _Log:
    """Writes the log of a process to the run folder of its task, besides the terminal."""

    def __init__(self, name: str) -> None:
        self._name, self._folder = name, ""
        self._handler: logging.Handler = logging.NullHandler()

    def __call__(self, info: Mapping[str, Any]) -> None:
        """Begins a task."""
        folder = str(info.get("folder", ""))
        if folder == self._folder or not Path(folder).is_dir():  # it may be on another machine
            return
        self.close()
        self._folder = folder
        file = Path(folder) / "log" / self._name / "output.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handler = logging.FileHandler(file, encoding="utf-8")
        self._handler.setFormatter(formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("dicore")
        logger.addHandler(self._handler)
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
        _LOG.info("%s begins task %s", self._name, info.get("task_id"))

    def close(self) -> None:
        """Ends the log."""
        logging.getLogger("dicore").removeHandler(self._handler)
        self._handler.close()


def _redirect(folder: Path) -> None:
    """Appends what this process prints to `output.txt` in a folder of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("ab") as file:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            stream.flush()
            os.dup2(file.fileno(), number)
