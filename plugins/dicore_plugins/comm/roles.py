"""A learner or a collector as a process: serves the tasks of a coordinator until it is closed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dicore_plugins.comm.slurm import hosts_of

__all__ = ["Place", "serve_collector", "serve_learner"]


@dataclass(frozen=True)
class Place:
    """Where the processes of a run exchange files, and their token."""

    path_data: str
    path_policy: str
    token: str = field(repr=False)


def serve_learner(
    system: Mapping[str, Any],
    place: Place,
    index: int = 0,
    folder: str | None = None,
    ended: threading.Event | None = None,
) -> None:
    """Serves as a learner until it is closed; see `FlaskFileSystemLearner`."""
    options = {
        "send_policy_freq": system["send_policy_freq"],
        "send_learn_info_freq": system["send_learn_info_freq"],
        "cache": system["learner_cache"],
    }
    _serve("learner", system, place, index, folder, options, ended)


def serve_collector(
    system: Mapping[str, Any],
    place: Place,
    index: int = 0,
    folder: str | None = None,
    ended: threading.Event | None = None,
) -> None:
    """Serves as a collector until it is closed; see `FlaskFileSystemCollector`."""
    options = {"update_policy_second": system["update_policy_second"]}
    _serve("collector", system, place, index, folder, options, ended)


@contextmanager
def in_threads(
    roles: Sequence[tuple[str, Callable[..., None], int]], system: Mapping[str, Any], place: Place
) -> Iterator[None]:
    """Serves roles in threads of this process while the block runs."""
    ended = threading.Event()
    threads = [
        threading.Thread(target=call, args=(system, place, index, None, ended), name=name)
        for name, call, index in roles
    ]
    for thread in threads:
        thread.daemon = True
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(timeout=20)


def _serve(
    kind: str,
    system: Mapping[str, Any],
    place: Place,
    index: int,
    folder: str | None,
    options: dict[str, Any],
    ended: threading.Event | None,
) -> None:
    from dicore_registry import default

    name = f"{kind}{index}"
    if folder is not None:
        _redirect(Path(folder) / "log" / name)
    hosts = hosts_of(system[f"{kind}_host"])
    port = system[f"{kind}_port"]
    made = (
        default()
        .resolve(f"comm_{kind}", system[f"comm_{kind}"])
        .target(
            host=hosts[index % len(hosts)],
            port=port + index if port else 0,
            path_data=place.path_data,
            path_policy=place.path_policy,
            token=place.token,
            **options,
        )
    )
    made.start()
    file = Path(place.path_policy) / f"{name}.address"
    _write(file, made.address)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    try:
        while not made.wait(0.1 if ended is not None else 1.0):
            if ended is not None and ended.is_set():
                break
    finally:
        made.close()
        file.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _terminated(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def _redirect(folder: Path) -> None:
    """Appends what this process prints to `output.txt` in a folder of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("ab") as file:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            stream.flush()
            os.dup2(file.fileno(), number)
