"""An env manager whose environments run in processes of their own.

A manager is its pool: this one sends what the manager asks of an environment to its process, where
dicore's pool of one environment answers.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from dicore.errors import DicoreError, EnvCreateError
from dicore_plugins.env_managers import BaseEnvManager, EnvPool, RemoteError
from schools_rl.config import ForkedConfig

FORK = multiprocessing.get_context("fork")  # factories need not be picklable


def serve(pipe: Any, make: Any, cfg: Any) -> None:
    """Answers calls of the methods of a pool of one environment until it is told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pool = EnvPool([make], cfg)
    while True:
        try:
            name, args = pipe.recv()
        except (EOFError, ConnectionError):
            break
        if name == "stop":
            break
        try:
            answer = getattr(pool, name)
            if callable(answer):
                answer = answer(*args)
            if name == "step":
                *others, raised = answer
                answer = *others, {row: RemoteError.of(each) for row, each in raised.items()}
            elif name == "reset":
                failed = isinstance(answer[0], BaseException)
                answer = [RemoteError.of(answer[0])] if failed else answer
            pipe.send((True, answer))
        except DicoreError as error:
            pipe.send((False, error))
        except (Exception, SystemExit) as error:
            pipe.send((False, RemoteError.of(error)))
    pool.close()


class Worker:
    """A process with one environment."""

    def __init__(self, make: Any, cfg: Any) -> None:
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=serve, args=(theirs, make, cfg), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, name: str, *args: Any) -> None:
        with suppress(OSError):  # `receive` tells
            self.pipe.send((name, args))

    def receive(self, timeout: float | None = None) -> Any:
        """Returns the answer, or raises what the environment raised."""
        try:
            if not self.pipe.poll(timeout):
                self.end(0.0)
                raise TimeoutError(f"no answer in {timeout} s")
            fine, answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.end()
            raise RemoteError("ProcessDied", f"exit code {self.process.exitcode}") from None
        if fine:
            return answer
        raise answer

    def stop(self) -> None:
        if not self.pipe.closed:
            self.send("stop")

    def end(self, patience: float = 1.0) -> None:
        self.stop()
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


class ForkedPool(EnvPool):
    """Sends each call to the process of its environment."""

    def __init__(self, env_fn: Any, cfg: Any) -> None:
        super().__init__(env_fn, cfg)
        self.workers: list[Worker | None] = [None] * len(self)

    def _worker(self, env_id: int) -> Worker:
        worker = self.workers[env_id]
        if worker is None or worker.pipe.closed:
            worker = self.workers[env_id] = Worker(self.env_fn[env_id], self.cfg)
            self._ask(env_id, "launch")
        return worker

    def _ask(self, env_id: int, name: str, *args: Any) -> Any:
        worker = self._worker(env_id)
        worker.send(name, *args)
        try:
            return worker.receive(self.cfg.reset_timeout)
        except EnvCreateError as error:
            text = error.message.replace("env 0", f"env {env_id}", 1)
            raise EnvCreateError(text, hint=error.hint, context={"env_id": env_id}) from error

    def launch(self) -> list[float]:
        for env_id in self.ids:
            if self.workers[env_id] is None:
                self.workers[env_id] = Worker(self.env_fn[env_id], self.cfg)
        return [self._ask(env_id, "launch")[0] for env_id in self.ids]

    def reset(self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for env_id, seed, given in zip(ids, seeds, params, strict=True):
            try:
                self._worker(env_id).send("reset", [0], [seed], [given])
                found.append(None)
            except Exception as error:
                found.append(error)
        for row, env_id in enumerate(ids):
            if found[row] is None:
                try:
                    (found[row],) = self._worker(env_id).receive(self.cfg.reset_timeout)
                except Exception as error:
                    found[row] = error
        return found

    def step(self, ids: list[int], actions: Iterable[Any]) -> Any:
        for env_id, action in zip(ids, actions, strict=True):
            self._worker(env_id).send("step", [0], [action])
        obs: list[Any] = []
        rewards: list[Any] = []
        infos: list[Any] = []
        ended: dict[int, Any] = {}
        raised: dict[int, BaseException] = {}
        for row, env_id in enumerate(ids):
            try:
                answer = self._worker(env_id).receive(self.cfg.step_timeout)
                _, (seen,), (reward,), (info,), over, failed = answer
                for flags in over.values():
                    ended[row] = flags
                for error in failed.values():
                    raised[row] = error
            except Exception as error:
                seen, reward, info, raised[row] = None, 0.0, {}, error
            obs.append(seen)
            rewards.append(reward)
            infos.append(info)
        return ids, obs, rewards, infos, ended, raised

    def discard(self, env_id: int) -> None:
        worker, self.workers[env_id] = self.workers[env_id], None
        if worker is not None:
            worker.end()

    def close(self) -> None:
        for worker in self.workers:
            if worker is not None:
                worker.stop()
        for env_id in self.ids:
            self.discard(env_id)

    def exists(self, env_id: int) -> bool:
        return self.workers[env_id] is not None

    def space(self, name: str, old_name: str) -> Any:
        return self._ask(0, "space", name, old_name)

    def attribute(self, env_id: int, name: str) -> Any:
        try:
            return self._ask(env_id, "attribute", 0, name)
        except RemoteError as error:
            raise (
                AttributeError(error.message) if error.kind == "AttributeError" else error
            ) from None

    def has(self, env_id: int, name: str) -> bool:
        return bool(self._ask(env_id, "has", 0, name))

    def call(self, env_id: int, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._ask(env_id, "call", 0, name, *args)

    @property
    def stateful(self) -> bool:
        return bool(self._ask(0, "stateful"))

    def layer_states(self, env_id: int, *, begun: bool = False) -> Any:
        return self._ask(env_id, "layer_states", 0)

    def load_layer_states(self, env_id: int, states: Any) -> None:
        self._ask(env_id, "load_layer_states", 0, states)


class ForkedManager(BaseEnvManager):
    """Runs each environment in a process of its own."""

    config_class = ForkedConfig
    capabilities = BaseEnvManager.capabilities | {"workers"}
    pool_class = ForkedPool

    def worker_pids(self) -> dict[int, int]:
        """The process of each environment."""
        pool: Any = self._pool
        return {i: each.process.pid for i, each in enumerate(pool.workers) if each is not None}
