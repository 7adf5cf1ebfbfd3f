"""The worker process: environments that do what the main process asks for.

A request is a pickled (name, arguments) of a method of `WorkerPool`, or one byte: step all
environments with the stored actions into that buffer. A reply is a pickled (worked, value), empty
(nothing to say beside what is stored), or the byte 1 (an episode ended).
"""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dicore.data import Info, Tree
from dicore_plugins.env_managers.episodes import kept_info
from dicore_plugins.env_managers.faults import RemoteError, flag_fault
from dicore_plugins.env_managers.subprocess.channel import Channel, die_with, dumps, loads, map_file
from dicore_plugins.env_managers.subprocess.output import Printed, capture
from dicore_plugins.env_managers.transports.interface import IEnvTransport
from dicore_plugins.env_managers.transports.pipe import Pipe
from dicore_plugins.env_managers.workers import PartPool

__all__ = ["RESETS", "Begun", "Reply", "one_thread_each", "work"]

RESETS = 1 << 32
"""Added to the env id on the board while it is reset, not stepped."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SET_THREADS = (
    "scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_", "openblas_set_num_threads",
)  # fmt: skip


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Lets libraries that are loaded by processes started meanwhile compute in one thread.

    Workers share the cores. A variable that is set stays as it is.
    """
    new = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(new, "1"))
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _keep_threads() -> None:
    """Limits libraries that were loaded before the process was forked to its number of threads."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    if sys.platform != "linux" or "numpy" not in sys.modules:
        return
    import ctypes

    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    with contextlib.suppress(OSError, ValueError):
        number = int(os.environ["OPENBLAS_NUM_THREADS"])
        for path in {line.split()[-1] for line in maps if "openblas" in line}:
            library = ctypes.CDLL(path)
            for name in _SET_THREADS:
                if hasattr(library, name):
                    getattr(library, name)(number)


class Begun(NamedTuple):
    """What a reset returned, where there is more to say than that its observation is stored.

    Args:
        stored: Whether the observation is stored.
        value: What `reset` returned, without its info; None if stored.
        states: Of the environment's stateful layers, before the reset.
    """

    stored: bool
    value: Any
    states: Sequence[Any]


class Reply(NamedTuple):
    """What a step says beside what is stored; by position in the request.

    Args:
        results: Observations and rewards that could not be stored, and their flags; see
            `IEnvTransport.write`.
        infos: Infos that are not empty.
        ended: Flags that are no bools, as the environment returned them.
        raised: Exceptions.
        resets: What the resets that followed an end returned, if not stored; see `reset_some`.
        left_out: Keys of infos whose values do not pickle, and why.
    """

    results: dict[int, tuple[Tree, Tree, int]]
    infos: dict[int, Info]
    ended: dict[int, tuple[Tree, Tree]]
    raised: dict[int, RemoteError]
    resets: dict[int, Tree]
    left_out: dict[str, str]


def work(end: socket.socket, output: str = "") -> None:
    """Answers requests until the main process says `close` or ends.

    Args:
        end: Connected to the main process.
        output: File for what environments print; "": they print to the terminal.
    """
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the main process, which closes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    _keep_threads()
    _, files, _, _ = socket.recv_fds(end, 1, 2)
    die_with(files[0])
    board = memoryview(map_file(files[1]))
    os.close(files[1])
    board[:8].cast("d")[0] = time.monotonic()  # the time to import and make has not begun before
    printed = capture(output, board[8:16].cast("q")) if output else None
    with contextlib.suppress(EOFError, OSError):  # the main process is gone
        _serve(Channel(end), board, printed)
    if printed is not None:
        printed.finish()


def _serve(channel: Channel, board: memoryview, printed: Printed | None) -> None:
    pool: Any = None
    busy = board[8:16].cast("q")
    while True:
        message = channel.receive()
        if message is None:
            continue
        number, body = message
        if len(body) == 1:
            channel.send(number, pool.step_all(body[0]))
            continue
        name, args = loads(body)
        if name == "close":
            break
        try:
            if name == "make":
                pool, answer = WorkerPool(*args, board=board, printed=printed), None
            elif name == "attach":
                channel.send(number, b"")
                pool.attach(*args, socket.recv_fds(channel.socket, 1, 8)[1])
                continue
            else:
                answer = getattr(pool, name)(*args)
            reply = answer if isinstance(answer, bytes) else dumps((True, answer))
        except (Exception, SystemExit) as error:
            reply = dumps((False, RemoteError.of(error)))
        busy[0] = -1
        channel.send(number, reply)
    if pool is not None:
        pool.close()


class WorkerPool(PartPool):
    """The environments of a worker.

    Args:
        env_fn: Their factories, pickled.
        ids: Their ids, which follow each other.
        board: Shared with the main process: when (float64, `time.monotonic`) the call of which
            environment (int64) began.
        printed: Captures what the environments print; None: nothing does.
    """

    def __init__(
        self, env_fn: bytes, ids: list[int], *, board: memoryview, printed: Printed | None = None
    ) -> None:
        super().__init__(loads(env_fn), ids=ids)
        self._printed = printed
        self._rows = slice(ids[0], ids[-1] + 1)
        self._clock, self._busy = board[:8].cast("d"), board[8:16].cast("q")
        self._port: IEnvTransport = Pipe()
        self._limits: list[float] = []
        self._lengths = [0] * len(ids)
        self._ahead: dict[int, tuple[int, Mapping[str, object]]] = {}

    def attach(self, port: IEnvTransport, files: Sequence[int]) -> None:
        """Uses a transport from now on."""
        port.attach(files)
        for each in files:
            os.close(each)
        self._port = port

    def env(self, env_id: int) -> Any:
        """Returns an environment, made on first need."""
        if self.envs[env_id] is None:
            self._begin(env_id + RESETS)
        return super().env(env_id)

    def launch(self) -> list[float]:
        """Makes all environments; returns their time limits."""
        self._limits = super().launch()
        return self._limits

    def _begin(self, busy: int) -> None:
        self._clock[0] = time.monotonic()
        self._busy[0] = busy

    def reset_some(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, object]]
    ) -> list[Begun | RemoteError | None]:
        """Resets environments.

        Returns:
            Of each None if the observation is stored and that is all, or its exception. Infos are
            not returned: no manager shows them.
        """
        found: list[Begun | RemoteError | None] = []
        for row in zip(ids, seeds, params, strict=True):
            self._begin(row[0] + RESETS)
            self._ahead.pop(row[0], None)
            found.append(self._one_reset(*row))
        return found

    def _one_reset(
        self, env_id: int, seed: int, params: Mapping[str, object]
    ) -> Begun | RemoteError | None:
        if self._printed is not None:
            self._printed.limit()
        (result,) = self.reset([env_id], [seed], [params])
        self._lengths[self._row[env_id]] = 0
        if isinstance(result, BaseException):
            return RemoteError.of(result)
        states = self._layers.begun(env_id) if self._layers.any else ()
        if result.__class__ is not tuple or len(result) != 2:
            answer = Begun(False, result, states)
        elif self._port.write_reset(env_id, result[0]):
            if not states:
                return None
            answer = Begun(True, None, states)
        else:
            answer = Begun(False, (copy.deepcopy(result[0]), {}), states)
        try:
            dumps(answer)
        except Exception as error:
            return RemoteError.of(error)
        return answer

    def _next_episode(
        self,
        env_id: int,
        again: tuple[int, Mapping[str, object]],
        infos: dict[int, object],
        at: int,
    ) -> Begun | RemoteError | None:
        """Resets an environment whose episode ended, and keeps `infos[at]`, its last, as it is."""
        info = infos.get(at)
        if isinstance(info, Mapping):
            infos[at] = kept_info(info)
        self._begin(env_id + RESETS)
        return self._one_reset(env_id, *again)

    def step_all(self, buffer: int) -> bytes:
        """Steps all environments with the stored actions."""
        return self._stepped(self.ids, buffer, self._port.actions(self._rows))

    def step_some(
        self,
        ids: list[int] | None,
        buffer: int,
        actions: Iterable[Tree] | None,
        ahead: Mapping[int, tuple[int, Mapping[str, object]]],
    ) -> bytes:
        """Steps environments.

        Args:
            ids: The environments; None: all.
            buffer: For the results.
            actions: One for each; None: they are stored.
            ahead: Seed and arguments of the next reset of environments, which begin it themselves
                when their episode ends.
        """
        self._ahead.update(ahead)
        if actions is None:
            actions = self._port.actions(self._rows if ids is None else ids)
        return self._stepped(self.ids if ids is None else ids, buffer, actions)

    def _stepped(self, ids: list[int], buffer: int, actions: Iterable[Tree]) -> bytes:
        results: dict[int, Tree] = {}
        infos: dict[int, Tree] = {}
        ends: dict[int, Tree] = {}
        raised: dict[int, RemoteError] = {}
        resets: dict[int, Tree] = {}
        clock, busy, write, monotonic = self._clock, self._busy, self._port.write, time.monotonic
        row_of, steps, lengths, limits = self._row, self._steps, self._lengths, self._limits
        any_ended = False
        for at, (env_id, action) in enumerate(zip(ids, actions, strict=True)):
            clock[0], busy[0], row = monotonic(), env_id, row_of[env_id]
            try:
                obs, reward, terminated, truncated, info = steps[row](action)
                ended = 0
                if terminated or truncated:
                    ended = _flags(terminated, truncated, ends, at)
            except (Exception, SystemExit) as error:
                raised[at] = RemoteError.of(error)
                continue
            if info or info.__class__ is not dict:
                infos[at] = info
            lengths[row] += 1
            again = None
            if (ended or lengths[row] >= limits[row]) and env_id in self._ahead:
                again, ended = self._ahead.pop(env_id), ended + 4
            any_ended = any_ended or ended > 0
            if not write(env_id, buffer, obs, reward, ended):
                results[at] = (obs if again is None else copy.deepcopy(obs)), reward, ended
            if again is not None:
                reset = self._next_episode(env_id, again, infos, at)
                if reset is not None:
                    resets[at] = reset
        busy[0] = -1
        if results or infos or ends or raised or resets:
            return _portable(Reply(results, infos, ends, raised, resets, {}))
        return b"\1" if any_ended else b""


def _flags(terminated: Tree, truncated: Tree, odd: dict[int, Tree], at: int) -> int:
    """Returns the flags as a number; those that are no bools are added to `odd`."""
    flags, fault = flag_fault((terminated, truncated))
    if fault is not None:
        odd[at] = terminated, truncated
    return flags[0] + 2 * flags[1]


def _portable(reply: Reply) -> bytes:
    """Pickles a reply.

    Parts of an info that do not pickle are left out; other parts become an exception of their
    environment.
    """
    try:
        return dumps((True, reply))
    except Exception:
        for at, info in reply.infos.items():
            if isinstance(info, Mapping):
                reply.infos[at] = _without_unpicklable(info, reply.left_out)
        for part in (reply.results, reply.infos, reply.ended):
            for at, value in list(part.items()):
                try:
                    dumps(value)
                except Exception as error:
                    reply.raised[at] = RemoteError.of(error)
                    for each in reply[:3]:
                        each.pop(at, None)
        return dumps((True, reply))


def _without_unpicklable(info: Mapping[str, object], left_out: dict[str, str]) -> dict[str, object]:
    """Returns the parts of an info that pickle; the keys of the others are added to `left_out`."""
    found: dict[str, Any] = {}
    for key, value in info.items():
        try:
            dumps((key, value))
            found[key] = value
        except Exception as error:
            left_out[str(key)] = f"{type(error).__name__}: {error}"
    return found
