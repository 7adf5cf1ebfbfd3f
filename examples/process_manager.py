"""An env manager whose environments run in worker processes, one or several in each.

Everything but the transport is inherited: seeds, checks, retries, restart budgets, replay.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from typing import Any

import cloudpickle

from dicore import register
from dicore.config import frozen, option
from dicore_plugins.env_managers import BaseEnvManager, BaseManagerConfig, EnvPool, RemoteError

CLOSE_S = 4.0


def work(connection: Any, env_fn: bytes, ids: list[int]) -> None:
    """Answers calls of the methods of a pool, in a worker process, until told to close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the main process, which closes
    pool = EnvPool(cloudpickle.loads(env_fn), ids=ids)
    while True:
        try:
            name, args, kwargs = connection.recv()
        except (EOFError, OSError):  # the main process is gone
            break
        if name == "close":
            break
        try:
            answer = True, portable(name, getattr(pool, name)(*args, **kwargs))
        except (Exception, SystemExit) as error:
            answer = False, RemoteError.of(error)
        try:
            connection.send(answer)
        except Exception as error:  # an info that does not pickle
            connection.send((False, RemoteError.of(error)))
    pool.close()


def portable(name: str, answer: Any) -> Any:
    """Makes the exceptions in an answer pickle."""
    if name == "reset":
        return [RemoteError.of(row) if isinstance(row, BaseException) else row for row in answer]
    if name == "step":
        *columns, raised = answer
        return (*columns, {row: RemoteError.of(error) for row, error in raised.items()})
    return answer


class Worker:
    """A process with some of the environments; it is started when first asked."""

    def __init__(self, env_fn: list[Any], ids: list[int]) -> None:
        self.ids = ids
        self.env_fn = cloudpickle.dumps(env_fn)
        self.process: Any = None
        self.connection: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.connection, other = context.Pipe()
        self.process = context.Process(
            target=work, args=(other, self.env_fn, self.ids), daemon=True
        )
        self.process.start()
        other.close()

    def send(self, name: str, *args: Any, **kwargs: Any) -> None:
        if self.process is None:
            self.start()
        with contextlib.suppress(OSError):  # it died: `receive` says how
            self.connection.send((name, args, kwargs))

    def receive(self, limit: float | None) -> Any:
        """Returns the answer; kills a worker that hangs or died, and raises RemoteError."""
        try:
            if not self.connection.poll(limit):
                self.kill()
                raise RemoteError("TimeoutError", f"no answer within {limit:g} s")
            good, answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1)
            code = self.process.exitcode
            self.kill()
            ended = signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
            raise RemoteError("ProcessLost", f"its worker ended by {ended}") from None
        if not good:
            raise answer
        return answer

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.join()
            process.close()
            self.connection.close()


class ProcessPool(EnvPool):
    """Environments in worker processes."""

    def __init__(self, env_fn: Any, cfg: Any) -> None:
        super().__init__(env_fn, cfg)
        count = min(cfg.workers or len(self), len(self))
        self.workers = [
            Worker([self.env_fn[i] for i in self.ids[n::count]], self.ids[n::count])
            for n in range(count)
        ]
        self.worker = {env_id: worker for worker in self.workers for env_id in worker.ids}
        self.fresh: set[int] = set()  # ids that have been reset since their worker began

    def ask(self, env_id: int, name: str, *args: Any, **kwargs: Any) -> Any:
        worker = self.worker[env_id]
        worker.send(name, *args, **kwargs)
        try:
            return worker.receive(self.cfg.reset_timeout)
        except RemoteError as error:
            raise error.restored() from error

    def launch(self) -> list[float]:
        for worker in self.workers:
            worker.send("launch")
        limits: dict[int, float] = {}
        for worker in self.workers:
            try:
                limits |= zip(worker.ids, worker.receive(self.cfg.reset_timeout), strict=True)
            except RemoteError as error:
                raise error.restored() from error
        self.is_stateful = any(self.ask(w.ids[0], "has_layers") for w in self.workers)
        return [limits[env_id] for env_id in self.ids]

    def parts(self, ids: Any) -> list[tuple[Worker, list[int]]]:
        """Returns the workers of some environments, each with the rows of its environments."""
        rows: dict[int, list[int]] = {}
        for row, env_id in enumerate(ids):
            rows.setdefault(self.worker[env_id].ids[0], []).append(row)
        return [(self.worker[first], each) for first, each in rows.items()]

    def reset(self, ids: Any, seeds: Any, params: Any) -> list[Any]:
        found: list[Any] = [None] * len(ids)
        for worker, rows in self.parts(ids):
            if worker.process is None:  # it was killed: its other environments are lost too
                self.fresh -= set(worker.ids)
                worker.send("launch")
                with contextlib.suppress(RemoteError):  # the reset fails for the same reason
                    worker.receive(self.cfg.reset_timeout)
            columns = ([column[row] for row in rows] for column in (ids, seeds, params))
            worker.send("reset", *columns)
        for worker, rows in self.parts(ids):
            try:
                results = worker.receive(self.cfg.reset_timeout)
                self.fresh |= {ids[row] for row in rows}
            except RemoteError as error:
                results = [error] * len(rows)
            for row, result in zip(rows, results, strict=True):
                found[row] = result
        return found

    def step(self, ids: Any, actions: Any) -> Any:
        actions = list(actions)
        obs, rewards, infos = [None] * len(ids), [0.0] * len(ids), [{} for _ in ids]
        ended: dict[int, Any] = {}
        raised: dict[int, Any] = {}
        parts = []
        for worker, rows in self.parts(ids):
            good = [row for row in rows if worker.process is not None and ids[row] in self.fresh]
            for row in set(rows).difference(good):
                raised[row] = RemoteError("ProcessLost", "its worker was killed")
            if good:
                worker.send("step", [ids[row] for row in good], [actions[row] for row in good])
                parts.append((worker, good))
        limit = self.cfg.step_timeout
        until = None if limit is None else time.monotonic() + limit
        for worker, rows in parts:
            try:
                left = None if until is None else max(0.0, until - time.monotonic())
                _, seen, paid, told, ends, failed = worker.receive(left)
            except RemoteError as error:
                raised |= dict.fromkeys(rows, error)
                continue
            for at, row in enumerate(rows):
                obs[row], rewards[row], infos[row] = seen[at], paid[at], told[at]
            ended |= {rows[at]: flags for at, flags in ends.items()}
            raised |= {rows[at]: error for at, error in failed.items()}
        return ids, obs, rewards, infos, ended, raised

    def discard(self, env_id: int) -> None:
        if self.worker[env_id].process is not None:
            try:
                self.ask(env_id, "discard", env_id)
            except Exception:
                self.worker[env_id].kill()

    def close(self) -> None:
        until = time.monotonic() + CLOSE_S
        for worker in self.workers:
            if worker.process is not None:
                worker.send("close")
        for worker in self.workers:
            if worker.process is not None:
                worker.process.join(max(0.0, until - time.monotonic()))
            worker.kill()

    def exists(self, env_id: int) -> bool:
        alive = self.worker[env_id].process is not None
        return alive and bool(self.ask(env_id, "exists", env_id))

    def worker_pids(self) -> dict[int, int]:
        alive = {i: worker.process for i, worker in self.worker.items() if worker.process}
        return {env_id: process.pid for env_id, process in alive.items()}

    def space(self, name: str, old_name: str) -> Any:
        return self.ask(0, "space", name, old_name)

    def attribute(self, env_id: int, name: str) -> Any:
        return self.ask(env_id, "attribute", env_id, name)

    def has(self, env_id: int, name: str) -> bool:
        return bool(self.ask(env_id, "has", env_id, name))

    def call(self, env_id: int, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.ask(env_id, "call", env_id, name, *args, **kwargs)

    def has_layers(self) -> bool:
        return self.is_stateful

    def layer_states(self, env_id: int, *, begun: bool = False) -> Any:
        return self.ask(env_id, "layer_states", env_id, begun=begun)

    def load_layer_states(self, env_id: int, states: Any) -> None:
        self.ask(env_id, "load_layer_states", env_id, states)


@frozen(kw_only=True)
class ProcessConfig(BaseManagerConfig):
    """Steps environments in parallel, in worker processes."""

    workers: int | None = option(None, "number of processes; null: one per environment", ge=1)
    reset_timeout: float | None = option(120.0, "limit per reset; None: no limit", gt=0, unit="s")
    step_timeout: float | None = option(60.0, "limit per step; None: no limit", gt=0, unit="s")

    def build(self, ctx: Any, *, env_fn: Any, **parts: Any) -> Any:
        return ProcessManager(env_fn, self)


@register("env_manager", "process")
class ProcessManager(BaseEnvManager):
    """Steps environments in parallel, in worker processes."""

    config_class = ProcessConfig
    pool_class = ProcessPool
    capabilities = BaseEnvManager.capabilities | {"workers"}
