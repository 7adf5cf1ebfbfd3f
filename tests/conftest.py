"""What every test relies on: few threads, and nothing left behind."""

from __future__ import annotations

import gc
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

from dicore_registry import code_paths
from tests import warm
from tests.soak import SOAK

# Several processes of several threads each fight for few cores; set before torch is imported.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell script
    signal.signal(signal.SIGINT, signal.default_int_handler)


hypothesis.settings.register_profile(  # no test depends on the load
    "dicore", deadline=None, max_examples=100 if SOAK else 30
)
hypothesis.settings.load_profile("dicore")

_ROOT = Path(__file__).parents[1]
_TOOLS = {"build", "dist", "htmlcov", "runs", "__pycache__"}


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[Any]:
    """The Ray of all tests of this process that are marked `ray`: to start one takes seconds."""
    from dicore_dist import RayRuntime

    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        runtime = RayRuntime(cores=11)
        gc.collect()  # on a busy machine Ray may have begun twice, and leaves the first one open
    RayRuntime.idle = {}
    yield runtime
    RayRuntime.idle = None
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        runtime.close()
        del runtime
        gc.collect()  # Ray leaves the files of its logs open


@pytest.fixture(scope="module")
def hints_are_kept() -> Iterator[None]:
    """Looks once per action space for the policies that fit, which errors of many binds name."""
    from dicore_plugins.policies.fitting import fitting

    found: dict[str, list[str]] = {}

    def kept(space: Any) -> list[str]:
        known = f"{space} {getattr(space, 'start', '')}"
        if known not in found:
            found[known] = fitting(space)
        return found[known]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dicore_plugins.policies.fitting.fitting", kept)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the checks of parallel pipelines, and lets what takes long begin first.

    Each of several processes begins with its share of the list. What needs Ray is put at the
    beginning of the first share, so that one process starts it; built packages and pages at those
    of the next ones. Whoever is done takes over the end of another share.
    """
    for item in items:
        if "pipeline/parallel" in item.nodeid:
            item.add_marker(pytest.mark.ray)
    processes = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if processes == 1:
        return
    count = len(items)
    first: list[list[pytest.Item]] = [[], [], []]
    rest: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        places = ("ray" in marks, "installed" in marks, "tests/docs/" in item.nodeid)
        (first[places.index(True)] if any(places) else rest).append(item)
    items.clear()
    for number in range(processes):
        items += chain(*first[number::processes])
        size = max(0, count * (number + 1) // processes - len(items))
        items += rest[:size]
        del rest[:size]


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a thread, a process, or a file in the working folder behind."""
    if request.node.get_closest_marker("ray"):
        request.getfixturevalue("shared_ray")
    threads, children, files = set(threading.enumerate()), _children(), _files()
    paths = list(sys.path)
    yield
    sys.path[:] = paths  # a plugin file makes its folder importable for the rest of a process
    new = set(threading.enumerate()) - threads
    for thread in new:
        thread.join(30)
    left = [thread.name for thread in new if thread.is_alive()]
    assert not left, f"threads left behind: {left}"
    tracker = getattr(multiprocessing.resource_tracker, "_resource_tracker", None)
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    known = {*children, *warm.pids(), getattr(tracker, "_pid", None)}
    known.add(getattr(server, "_forkserver_pid", None))
    processes = [psutil.Process(pid) for pid in _children() - known if psutil.pid_exists(pid)]
    assert not processes, f"processes left behind: {processes}"
    assert not (found := _files() - files), f"files left behind: {found}"


@pytest.fixture(autouse=True, scope="session")
def processes_are_forked() -> Iterator[None]:
    """Lets Python processes begin with torch imported, but where all is tested as it is used."""
    with nullcontext() if SOAK else warm.warmed():
        yield


@pytest.fixture(autouse=True, scope="session")
def nobody_waits_for_the_disk() -> Iterator[None]:
    """Leaves out `os.fsync`, which only a loss of power shows, but in a soak."""
    with pytest.MonkeyPatch.context() as patch:
        if not SOAK:
            patch.setattr("os.fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def installed_as_by_strangers() -> Iterator[None]:
    """Lets messages name packages, not the folders of this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dicore_registry.installing._checkout", lambda: None)
        yield


@pytest.fixture(autouse=True)
def may_import_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the code paths and secrets of earlier tests, and that they read a saved config."""
    monkeypatch.setattr(code_paths, "_given", set())
    monkeypatch.setattr(code_paths, "_closed", False)
    monkeypatch.setattr("dicore.console._secrets", set())


def _files() -> set[str]:
    """Returns what lies in the folder of the tests, less what tools and git ignore."""
    with os.scandir(_ROOT) as entries:
        names = {entry.name for entry in entries} - _TOOLS
    return {name for name in names if not name.startswith(".")}


def _children() -> set[int]:
    """Returns the process ids of the children; `psutil` looks at all processes, for 2 ms."""
    try:
        with os.scandir("/proc/self/task") as tasks:
            lists = [Path(f"{task.path}/children").read_bytes().split() for task in tasks]
    except OSError:  # no Linux, or a thread that has ended
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for pid in chain(*lists)}


def printed(code: str) -> str:
    """Returns what a new Python process prints that runs a piece of code."""
    command = [sys.executable, "-c", code]
    with warm.cold():
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spares the tests that are collected the garbage collector: a quarter of the time."""
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.enable()


def _import_share(config: pytest.Config) -> None:
    """Imports the share of a process first, so that it finds the bytecode of the others' shares.

    Otherwise each of them would rewrite the asserts of all files of a new checkout.
    """
    if not hasattr(config, "workerinput") or config.args != config.getini("testpaths"):
        return
    number = int(config.workerinput["workerid"].removeprefix("gw"))
    files = sorted((_ROOT / "tests").rglob("test_*.py"))
    for file in files[number :: config.workerinput["workercount"]]:
        if not {"schools", "tabular-rl"} & {*file.parts}:
            with suppress(Exception, pytest.skip.Exception):  # which collecting reports
                import_module(".".join(file.relative_to(_ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Spares the garbage collector the tests themselves, hundreds of thousands of objects."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
