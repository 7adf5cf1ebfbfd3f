"""Trains for some seconds in a process of its own, and measures where time and memory go."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from dicore.console import chatter
from dicore.errors import CheckpointError
from dicore.run.atomic import read_json
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.launch import TrainRequest, described, launch
from dicore.run.signals import StopFlag
from dicore_tools.multi_seed.process_pool import stop_with_parent
from dicore_tools.reports.columns import read_columns

__all__ = ["COLLECTORS", "PARTS", "Trial", "measure"]

COLLECTORS: Final = "pipeline.system.collector_num"
"""Number of collectors in processes of their own, of the pipeline `parallel`."""

PARTS: Final = ("environments", "acting", "learning", "other")
"""What an iteration spends its time on."""
_ENV: Final = ("env step", "env reset")
_LEARNER: Final = "learner"
_AT_THE_END: Final = ("outside of middleware", "hook save_ckpt_after_run")
"""Rows of the profile that are not part of the steps."""
_START_S: Final = 120.0
"""Longest time until the first step."""
_END_S: Final = 10.0
"""Longest time from the signal to the end of the process."""
_POLL_S: Final = 0.1
_SHORT_S: Final = 1.0
"""Shortest time from which rates can be told."""


_RANDOM: Final = "random_collect_size"
_SMALLEST: Final = 8 << 20
"""Bytes of a process with Python; others, such as git, come and go."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured with some options.

    Args:
        changes: Options that differ from the config, by key path.
        seconds: Time of the measured steps.
        env_steps: Env steps collected in it.
        updates: Gradient updates made in it.
        parts: Seconds of each of `PARTS`.
        memory: Largest memory of each process, in bytes: the training first, then its workers.
        sample_bytes: Memory of a stored sample; 0: there is no buffer.
        problem: Why nothing was measured; "" if it was.
        refuted: It was measured again, and was not faster than the config then.
        twice: It was measured again.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    env_steps: int = 0
    updates: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    memory: tuple[int, ...] = ()
    sample_bytes: float = 0.0
    problem: str = ""
    refuted: bool = False
    twice: bool = False

    @property
    def env_steps_per_s(self) -> float:
        """Env steps per second of the whole training."""
        return self.env_steps / self.seconds if self.seconds else 0.0

    @property
    def updates_per_s(self) -> float:
        """Updates per second of the whole training."""
        return self.updates / self.seconds if self.seconds else 0.0

    def share(self, part: str) -> float:
        """Returns the share of the time that a part takes."""
        return self.parts.get(part, 0.0) / self.seconds if self.seconds else 0.0

    def with_another(self, other: Trial) -> Trial:
        """Returns the sums of this measurement and another one of the same options."""
        return replace(
            self,
            seconds=self.seconds + other.seconds,
            env_steps=self.env_steps + other.env_steps,
            updates=self.updates + other.updates,
            parts={name: self.parts[name] + other.parts.get(name, 0.0) for name in self.parts},
            twice=True,
        )


def measure(
    request: TrainRequest,
    changes: Mapping[str, Any],
    *,
    seconds: float,
    folder: Path,
    flag: StopFlag,
) -> Trial:
    """Trains for some seconds and measures; the process and its workers have ended afterwards.

    Args:
        request: The training, with the options of `changes`.
        changes: Options that differ from the config.
        seconds: Time from the first step on.
        folder: Folder of the run, which does not exist.
        flag: Ends the measurement when it is set.
    """
    place = {"exp_name": str(folder)}  # after what the command line says of it
    request = replace(
        request, exp_name=str(folder), profile=True, overrides=[*request.overrides, place]
    )
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_train, args=(theirs, request, seconds))
    process.start()
    theirs.close()
    memory: dict[int, int] = {}
    try:
        problem = _watch(process, ours, memory, seconds, flag)
    finally:
        _end(process)
        ours.close()
    if problem:
        return Trial(changes, problem=problem)
    main, *others = memory.values()
    return _read(folder, changes, (main, *(each for each in others if each > _SMALLEST)))


def _watch(
    process: Any, connection: Any, memory: dict[int, int], seconds: float, flag: StopFlag
) -> str:
    """Waits for the end of the training and keeps the largest memory of each process.

    Returns:
        Why nothing was measured; "" if it was.
    """
    last = time.monotonic() + seconds + _START_S
    while time.monotonic() < last and not flag:
        if connection.poll(_POLL_S):
            try:
                text: str = connection.recv()
            except EOFError:
                process.join(_END_S)
                return f"its process ended with exit code {process.exitcode}"
            return text
        with suppress(psutil.Error):
            main = psutil.Process(process.pid)
            for each in (main, *main.children(recursive=True)):
                with suppress(psutil.Error):
                    memory[each.pid] = max(memory.get(each.pid, 0), each.memory_info().rss)
    return "stopped" if flag else f"took longer than {seconds + _START_S:.0f} s"


def _end(process: Any) -> None:
    """Ends a process and its children; those that do not end are killed."""
    children: Sequence[psutil.Process] = ()
    with suppress(psutil.Error):
        children = psutil.Process(process.pid).children(recursive=True)
    process.join(0.5)
    if process.is_alive():
        process.terminate()
        process.join(_END_S)
    if process.is_alive():
        process.kill()
        process.join()
    _, alive = psutil.wait_procs(children, timeout=1.0)
    for each in alive:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(alive, timeout=_END_S)
    process.close()


class _Timer:
    """Ends the training some seconds after its first step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def started(self, run: Any, request: object, compiled: object, header: object) -> None:
        """Starts the clock at the first step."""
        run.at_first_step(self._start)

    def _start(self) -> None:
        timer = threading.Timer(self._seconds, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    def ended(self, run: object, profile: object) -> None:
        """Prints nothing."""

    def nothing_to_do(self, run: object, reason: str) -> None:
        """Prints nothing."""


def _train(connection: Any, request: TrainRequest, seconds: float) -> None:
    """Trains in the child, in a process group of its own, and sends what went wrong, or ""."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=stop_with_parent, daemon=True).start()
    text = ""
    with chatter("quiet"):
        try:
            launch(request, observer=_Timer(seconds))
        except KeyboardInterrupt:
            text = "stopped"
        except Exception as error:
            text = described(error)
    with suppress(BrokenPipeError):
        connection.send(text)
    connection.close()


def _read(folder: Path, changes: Mapping[str, Any], memory: tuple[int, ...]) -> Trial:
    """Returns what the profile and the checkpoint of a run say."""
    if COLLECTORS in changes:
        return _steady(folder, changes, memory)
    try:
        profile = read_json(folder / "log" / "profile.json")
    except OSError:
        return Trial(changes, problem="its pipeline cannot be timed (--profile)")
    parts = dict.fromkeys(PARTS, 0.0)
    collects = learns = 0.0
    for row in profile["rows"]:
        path, seconds = row["path"], row["seconds"]
        if path[-1] in _ENV and not any(each in _ENV for each in path[:-1]):
            parts["environments"] += seconds
            collects += seconds if len(path) > 1 else 0.0
        elif path[-1] == _LEARNER:
            parts["learning"] += seconds
            learns += seconds
    outer = {row["path"][0]: row["seconds"] for row in profile["rows"] if len(row["path"]) == 1}
    whole = sum(seconds for name, seconds in outer.items() if name not in _AT_THE_END)
    acted, warm_up = profile["env_step"], _warm_up(folder)
    if warm_up < acted:  # random actions, without updates
        share = parts["environments"] * warm_up / acted
        whole, acted = whole - share, acted - warm_up
        parts["environments"] -= share
    acting = sum(seconds for name, seconds in outer.items() if "Collector" in name) - collects
    parts["acting"] = max(acting, 0.0)
    parts["other"] = max(whole - sum(parts.values()), 0.0)
    if whole <= 0 or not (acted or profile["train_iter"]):
        return Trial(changes, problem="no step was made in the time: raise --seconds")
    return Trial(
        changes, whole, acted, profile["train_iter"], parts, memory,
        _sample_bytes(folder),
    )  # fmt: skip


def _warm_up(folder: Path) -> int:
    """Returns the env steps of random actions before the first update."""
    try:
        return int(read_json(folder / "config.json")["config"]["policy"]["collect"][_RANDOM])
    except (OSError, LookupError, TypeError, ValueError):
        return 0


def _steady(folder: Path, changes: Mapping[str, Any], memory: tuple[int, ...]) -> Trial:
    """Returns rates of the time between the first and the last line of the learner.

    Collectors in processes of their own begin while the training waits, which is not to count.
    """
    file = folder / "log" / "metrics.jsonl"
    points = read_columns(file).get("learner/total_loss") if file.is_file() else None
    if points is None or len(points) < 2 or points[-1, 2] - points[0, 2] < _SHORT_S:
        return Trial(changes, problem="too few updates to tell rates: raise --seconds")
    steps, updates, seconds = (points[-1] - points[0])[:3].tolist()
    return Trial(changes, seconds, int(steps), int(updates), {}, memory, _sample_bytes(folder))


def _sample_bytes(folder: Path) -> float:
    """Returns the memory of a stored sample, from the checkpoint; 0 if there is no buffer."""
    try:
        state: Any = CheckpointStore(folder / "ckpt").newest_state()[1]
        columns = (state.get("buffer") or {}).get("columns") or {}
        arrays = [np.asarray(each) for each in columns.values() if hasattr(each, "shape")]
        rows = max((len(each) for each in arrays), default=0)
        return sum(each.nbytes for each in arrays) / rows if rows else 0.0
    except (CheckpointError, AttributeError, TypeError, ValueError):
        return 0.0
