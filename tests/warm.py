"""Python processes of tests, forked from one that has imported torch: 2 s of CPU less for each.

Whoever calls `subprocess` or spawns with `multiprocessing` gets them while `warmed()` holds: real
children with their own folder,
variables, arguments, streams and signals, which have NumPy, torch and Gymnasium in `sys.modules`
from the beginning; those of the interpreter of the tests also have the modules of a plain training,
which read no variable and begin nothing when they are imported: 0.2 s less. At the end they do not
free what they made, object by object. Other programs and options of Python start
as always, and so do programs that look at `sys.modules`, all within `cold()`, and everything in
`make soak`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import inspect
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

IMPORTED = (
    "numpy", "torch", "gymnasium", "attrs", "optree", "pluggy", "psutil", "click", "yaml",
    "filelock",
)  # fmt: skip
OURS = (
    *("dicore.cli.group", "dicore.cli.list", "dicore.cli.show", "dicore.cli.train"),
    *("dicore.hookspecs.manager", "dicore.run.launch", "dicore.run.run"),
    *("dicore_contrib_envs.classic_control", "dicore_contrib_envs.presets"),
    *("dicore_plugins.buffers.naive.buffer", "dicore_plugins.collectors.sample.collector"),
    *("dicore_plugins.env_managers.base.manager", "dicore_plugins.hooks.standard"),
    *("dicore_plugins.evaluators.interaction.evaluator", "dicore_plugins.hooks.standard"),
    *("dicore_plugins.learners.base.learner", "dicore_plugins.loggers.console"),
    *("dicore_plugins.loggers.tensorboard", "dicore_plugins.middleware.callbacks"),
    *("dicore_plugins.middleware.learn", "dicore_plugins.model_wrappers.base"),
    *("dicore_plugins.models.dqn.model", "dicore_plugins.pipelines.serial.pipeline"),
    *("dicore_plugins.policies.value.dqn", "dicore_tools.code_state"),
    *("dicore_tools.config_formats.python_form", "dicore_tools.config_formats.text_files"),
    *("dicore_tools.evaluation.evaluate", "dicore_tools.evaluation.policy_loader"),
)
"""Modules of a plain training, of its commands and of its evaluation."""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PLAIN = {
    **dict.fromkeys(("executable", "preexec_fn", "startupinfo", "gid", "gids", "uid")),
    "pass_fds": (),
    "shell": False,
    "umask": -1,
    "close_fds": True,
    "process_group": -1,
}
"""What is passed for what nobody asked for."""
INTERPRETERS = {sys.executable}
"""Interpreters whose programs are forked; each has a process of its own to fork from."""
_servers: dict[str, tuple[subprocess.Popen[bytes], socket.socket, dict[str, str]]] = {}
"""The server of each interpreter, the connection to it, and the variables that it began with."""
_environ: dict[str, str] = {}
"""Variables as they were when tests began, with which servers begin."""
_lock = threading.Lock()
_Popen = subprocess.Popen
_spawnv = util.spawnv_passfds


class Popen(_Popen):
    """`subprocess.Popen`, but for Python programs that may begin with torch imported."""

    def _execute_child(self, *given: Any) -> None:
        start = super()._execute_child
        at = inspect.signature(start).bind(*given).arguments
        if not _may_be_forked(at):
            start(*given)
            return
        ends = [at[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [end if end != -1 else number for number, end in enumerate(ends)]
        try:
            self.pid = _forked(at, files)
        except (OSError, EOFError):  # its server was ended: the next process has a new one
            server = _servers.pop(str(at["args"][0]), None)
            if server:
                server[1].close()
                server[0].kill()
                server[0].wait()
            start(*given)
        else:
            self._child_created = True
            names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(at[name] for name in names))


def _spawn(path: Any, words: Sequence[Any], passed: Sequence[int]) -> int:
    """Starts what `multiprocessing` spawns; its tracker of resources starts as always."""
    at: dict[str, Any] = {
        **_PLAIN, "args": [os.fsdecode(word) for word in words], "cwd": None, "env": None,
        "start_new_session": False,
    }  # fmt: skip
    if not any("resource_tracker" in word for word in at["args"]) and _may_be_forked(at):
        with contextlib.suppress(OSError, EOFError):  # the next `subprocess` replaces its server
            return _forked(at, [0, 1, 2], sorted(passed))
    return _spawnv(path, words, passed)


@contextlib.contextmanager
def warmed() -> Iterator[None]:
    """Lets processes fork; the first process that they fork from is started when it is needed."""
    subprocess.Popen = Popen
    util.spawnv_passfds = _spawn
    _environ.update(os.environ)
    try:
        yield
    finally:
        subprocess.Popen = _Popen
        util.spawnv_passfds = _spawnv
        _environ.clear()
        for process, connection, _ in _servers.values():
            connection.close()  # which ends it
            process.wait()
        _servers.clear()


@contextlib.contextmanager
def cold() -> Iterator[None]:
    """Lets processes start as always, within."""
    now = subprocess.Popen, util.spawnv_passfds
    subprocess.Popen, util.spawnv_passfds = _Popen, _spawnv
    try:
        yield
    finally:
        subprocess.Popen, util.spawnv_passfds = now


def forks() -> bool:
    """Whether processes are forked now."""
    return subprocess.Popen is Popen


def pids() -> set[int]:
    """Returns the processes that others are forked from."""
    return {process.pid for process, *_ in _servers.values()}


def unlike() -> set[tuple[str, str]]:
    """Returns the variables that are not what they were when tests began, so that nothing forks."""
    return {*_of_python(os.environ).items()} ^ {*_of_python(_environ).items()}


def _may_be_forked(at: dict[str, Any]) -> bool:
    """Whether a start has nothing but what `_begin` knows to give."""
    if sys.platform != "linux" or any(at[name] != value for name, value in _PLAIN.items()):
        return False
    words = at["args"]
    if isinstance(words, str | bytes | os.PathLike) or str(words[0]) not in INTERPRETERS:
        return False
    program = [str(word) for word in words[1:]]
    if program[:1] == ["-P"] and program[1:2] in (["-c"], ["-m"]):
        del program[0]
    if not program or any("sys.modules" in word for word in program):
        return False
    if program[0] not in ("-c", "-m") and (
        program[0].startswith("-") or not Path(os.fsdecode(at["cwd"] or "."), program[0]).is_file()
    ):
        return False
    env = os.environ if at["env"] is None else at["env"]
    if "DICORE_STARTED_FOR" in env:  # `kill_group` finds it by the variables that it began with
        return False
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    begins = ("sitecustomize.py", "usercustomize.py")
    folders = [Path(os.fsdecode(at["cwd"] or "."), path) for path in paths]
    server = _servers.get(str(words[0]))
    began = server[2] if server else _of_python(_environ)
    return _of_python(env) == began and not any(
        (folder / name).exists() for folder in folders for name in begins
    )


def _of_python(env: Any) -> dict[str, str]:
    """Returns the variables that are read before the first import, or by a first import."""
    begins = ("PYTHON", "LD_", "MALLOC", "OMP_", "MKL_", "OPENBLAS", "TORCH", "CUDA", "KMP")
    return {k: v for k, v in env.items() if k.startswith(begins) and k not in _NOT_READ}


NESTED = "DICORE_TEST_NESTED"
"""Variable of a process that is forked itself: it forks what it starts, too."""
_NOT_READ = {"PYTHONPATH", "PYTHONBREAKPOINT", "LD_LIBRARY_PATH", "TORCHINDUCTOR_CACHE_DIR"}
"""Variables that `_begin` takes over, and those that imports of Ray, OpenCV and torch set."""


def _forked(at: dict[str, Any], files: Sequence[int], passed: Sequence[int] = ()) -> int:
    """Returns the process id of a new child of this process.

    Args:
        at: What it is to be.
        files: Its three streams.
        passed: What it has under the same numbers.
    """
    with _lock:
        return _asked(at, files, passed)


def _asked(at: dict[str, Any], files: Sequence[int], passed: Sequence[int]) -> int:
    python = str(at["args"][0])
    if python not in _servers:
        ours, theirs = socket.socketpair()
        with theirs:
            words = [python, "-P", __file__, str(theirs.fileno())]
            words += OURS if python == sys.executable else ()
            env = {name: value for name, value in _environ.items() if name != "PYTHONPATH"}
            process = _Popen(words, pass_fds=(theirs.fileno(),), env=env)
            ours.settimeout(60)
            _servers[python] = process, ours, _of_python(env)
    connection = _servers[python][1]
    env = os.environ if at["env"] is None else at["env"]
    request = {
        "words": [os.fsdecode(word) for word in at["args"]],
        "cwd": str(Path(os.fsdecode(at["cwd"] or ".")).absolute()),  # as seen from here
        "env": {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()},
        "session": bool(at["start_new_session"]),
        "files": [0, 1, 2, *passed],
        "ignored": [n for n in (2, 15) if signal.getsignal(n) is signal.SIG_IGN],
    }
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # the child of a child that ends becomes ours
    try:
        data = json.dumps(request).encode()
        socket.send_fds(connection, [len(data).to_bytes(8, "big")], [*files, *passed])
        connection.sendall(data)
        return int.from_bytes(_read(connection, 8), "big")
    finally:
        libc.prctl(_SUBREAPER, 0, 0, 0, 0)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Forks for each request; returns the request in the process that is to answer it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the tests end this process
    while True:
        head, files, *_ = socket.recv_fds(connection, 8, 99)
        if not head:
            os._exit(0)
        request: dict[str, Any] = json.loads(_read(connection, int.from_bytes(head, "big")))
        here, there = os.pipe()
        between = os.fork()  # noqa: TID251 - it has one thread
        if not between:
            parent = os.getpid()
            child = os.fork()  # noqa: TID251
            if child:
                os.write(there, child.to_bytes(8, "big"))
                os._exit(0)
            while os.getppid() == parent:  # until the tests are
                time.sleep(0.0005)
            connection.close()
            os.close(here)
            os.close(there)
            _as_numbers(files, request["files"])
            return request
        for file in files:
            os.close(file)
        number = os.read(here, 8)
        os.waitpid(between, 0)
        os.close(here)
        os.close(there)
        connection.sendall(number)


def _as_numbers(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Gives files their numbers, which may be those of others of them."""
    beyond = max(*files, *numbers) + 1
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, beyond) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def _begin(request: dict[str, Any], paths: list[str]) -> None:
    """Makes of this process what Python makes of a new one, and runs the program."""
    import importlib
    import multiprocessing.process
    import random

    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    multiprocessing.process.ORIGINAL_DIR = request["cwd"]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        raw = io.FileIO(number, mode, closefd=False)
        buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        text = io.TextIOWrapper(
            buffered, encoding="utf-8", line_buffering=number == 2 or raw.isatty(),
            errors="backslashreplace" if number == 2 else "strict",
        )  # fmt: skip
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    random.seed()
    if np := sys.modules.get("numpy"):
        np.random.seed()  # the generator that programs may use
    words = request["words"][1:]
    if begins_safely := words[0] == "-P":
        del words[0]
    option, *rest = words
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*(str(Path(each).absolute()) for each in given if each), *paths]
    importlib.invalidate_caches()
    sys.argv = [option, *rest]
    try:
        _run(option, rest, alone=begins_safely)
    except SystemExit as error:
        _end(error.code)
    except KeyboardInterrupt:
        raise  # with which Python ends by the signal
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(None)


def _run(option: str, rest: list[str], *, alone: bool) -> None:
    """Runs a program, `alone`: as -P does, without its folder in the path."""
    if option == "-c":
        place, sys.argv = "", ["-c", *rest[1:]]
    elif option == "-m":
        place, sys.argv = str(Path.cwd()), rest
    else:
        place = str(Path(option).absolute().parent)
    if not alone:
        sys.path.insert(0, place)
    if option == "-c":
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__dict__["__builtins__"] = __builtins__
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif option == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(option, run_name="__main__")


def _end(code: object) -> None:
    """Ends this process as Python does, but does not free each object: 0.4 s of CPU with torch."""
    import atexit
    import gc

    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    if vars(main := sys.modules["__main__"]) is not globals():
        vars(main).clear()
    gc.collect()  # closes the files that the program left open
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 120
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


def _main() -> None:
    import gc
    import weakref
    from importlib import import_module

    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in (*IMPORTED, *sys.argv[2:]):
        with contextlib.suppress(ImportError):
            import_module(name)
    for each in vars(weakref.finalize)["_registry"]:
        each.atexit = False  # torch's libraries take themselves apart
    gc.freeze()
    paths = [*sys.path]
    request = _serve(connection)
    while NESTED in request["env"]:
        ours, theirs = socket.socketpair()
        server = os.fork()  # noqa: TID251
        if server:
            theirs.close()
            _nest(server, ours, request["env"])
            break
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # nobody waits for their end
            os.dup2(nothing, stream)
        request = _serve(theirs)
    _begin(request, paths)


def _nest(server: int, connection: socket.socket, env: dict[str, str]) -> None:
    """Lets this process fork from one that was forked from it before it ran anything."""
    _environ.update(env)
    connection.settimeout(60)
    process: Any = SimpleNamespace(pid=server, kill=lambda: None, wait=lambda: None)
    _servers.clear()
    _servers[sys.executable] = process, connection, _of_python(env)
    subprocess.Popen = Popen
    util.spawnv_passfds = _spawn


if __name__ == "__main__":
    _main()
