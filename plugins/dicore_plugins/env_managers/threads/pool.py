"""Environments that are called in threads, one each; answers that come too late are dropped.

Shapes: K environments.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dicore.errors import EnvCreateError
from dicore_plugins.env_managers.env_pool import (
    EnvPool,
    Results,
    check_different,
    close_one,
    interrupted,
)
from dicore_plugins.env_managers.threads.calls import Calls, Channel, Part

if TYPE_CHECKING:
    from dicore.data import State


__all__ = ["InThread", "ThreadPool"]

_LOG = logging.getLogger("dicore.env")


class InThread(EnvPool):
    """The environment of one thread, which creates, calls and closes it."""

    def _close(self, ids: Sequence[int]) -> None:
        for env_id in ids:
            made, self.envs[env_id] = self.envs[env_id], None
            close = None if made is None else getattr(made.env, "close", None)
            if close is not None:
                close_one(env_id, close)


class ThreadPool(EnvPool):
    """Environments that are stepped and reset in threads of this process, one each.

    A thread whose call does not return in time cannot be stopped: it is given up, and the
    environment is made again, in another thread, at its next reset.
    """

    _layered = False

    def __init__(
        self, env_fn: Sequence[Callable[[], Any]], cfg: Any, ids: Sequence[int] | None = None
    ) -> None:
        super().__init__(env_fn, cfg, ids)
        self._begin()

    def _begin(self) -> None:
        """Makes parts without threads and environments."""
        self.parts = {env_id: self._new_part(env_id) for env_id in self.ids}
        self._calls = Calls(self._lose)
        self._resetting: set[int] = set()

    def _new_part(self, env_id: int, states: Sequence[Any] = ()) -> Part:
        return Part(InThread([self.env_fn[env_id]], self.cfg, [env_id]), states)

    def _lose(self, env_id: int, limit: float) -> Exception:
        """Gives a thread up; returns the error of its call."""
        _LOG.warning(
            "env %d: no answer within %g s; its thread is left alone, and the environment will be"
            " made again in another one", env_id, limit
        )  # fmt: skip
        lost = self.parts[env_id]
        lost.give_up()
        self.parts[env_id] = self._new_part(env_id, lost.begun_states() if self._layered else ())
        return TimeoutError(f"no answer within {limit:g} s")

    # ---- launch, reset, step, close

    def launch(self) -> list[float]:
        """Makes all environments at the same time; returns their time limits.

        Raises:
            EnvCreateError: an environment could not be made, or two are the same object.
        """
        calls, now = Calls(self._lose), time.monotonic()
        for part in self.parts.values():
            calls.send(part, part.launch, begun=now, limit=self.cfg.reset_timeout)
        calls.gather()
        answers = [calls.pop(env_id) for env_id in self.ids]
        for env_id, answer in zip(self.ids, answers, strict=True):
            if isinstance(answer, TimeoutError):
                raise EnvCreateError(
                    f"env {env_id} was not made: {answer}",
                    hint="set env.manager.reset_timeout to a higher value",
                    context={"env_id": env_id},
                )
            if isinstance(answer, BaseException):
                raise answer
        made = ((env_id, part.pool.envs[env_id]) for env_id, part in self.parts.items())
        check_different({env_id: env for env_id, env in made if env is not None})
        self._layered = any(self._ask(env_id, "has_layers") for env_id in self.ids)
        return [limit for limits in answers for limit in limits]

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """Resets environments at the same time; see `EnvPool.reset`."""
        for row in zip(ids, seeds, params, strict=True):
            self.begin_reset(*row)
        self._calls.gather(ids=ids)
        self._resetting.difference_update(ids)
        return [self._calls.pop(env_id) for env_id in ids]

    def begin_reset(self, env_id: int, seed: int, params: Mapping[str, Any]) -> None:
        """Begins to reset an environment, and makes it before if needed; returns at once."""
        part, now = self.parts[env_id], time.monotonic()
        self._resetting.add(env_id)
        self._calls.send(
            part, part.reset, seed, params, begun=now, limit=self.cfg.reset_timeout
        )  # fmt: skip

    def resets_done(self, until: float) -> dict[int, Any]:
        """Returns what resets returned or raised, by env id.

        Args:
            until: Waits for one until this time of `time.monotonic`.
        """
        self._calls.gather(1, until, self._resetting)
        done = [env_id for env_id in self._resetting if env_id in self._calls.answers]
        self._resetting.difference_update(done)
        return {env_id: self._calls.pop(env_id) for env_id in done}

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        """Steps environments at the same time; see `EnvPool.step`."""
        self.send(ids, actions)
        try:
            self._calls.gather(ids=ids)
        except BaseException:  # Ctrl-C: the answers to come are of no use
            for env_id in ids:
                self.parts[env_id].step = interrupted
            raise
        return self._taken(ids)

    def send(self, ids: list[int], actions: Iterable[Any]) -> None:
        """Sends actions and returns at once."""
        parts, send, now, limit = (
            self.parts,
            self._calls.send,
            time.monotonic(),
            self.cfg.step_timeout,
        )
        for env_id, action in zip(ids, actions, strict=True):
            part = parts[env_id]
            send(part, part.step, action, begun=now, limit=limit)

    def wait(self, at_least: int, more_s: float = 0.0) -> Results:
        """Returns timesteps of environments that were sent an action, in order of their ids.

        Args:
            at_least: Waits for so many timesteps and resets; fewer if fewer timesteps are pending.
            more_s: Waits so many seconds for the other timesteps.
        """
        calls, begun = self._calls, time.monotonic()
        pending = [env_id for env_id in calls.waiting if env_id not in self._resetting]
        calls.gather(min(at_least, len(pending)))
        if more_s:
            calls.gather(until=begun + more_s, ids=pending)
        stepped = [env_id for env_id in calls.answers if env_id not in self._resetting]
        return self._taken(self.ids if len(stepped) == len(self) else sorted(stepped))

    def _taken(self, ids: list[int]) -> Results:
        return _joined(ids, [self._calls.pop(env_id) for env_id in ids])

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it, after the calls under way, without waiting."""
        part = self.parts[env_id]
        if part.started:
            part.send(Channel(), part.pool.discard, (env_id,))

    def close(self) -> None:
        """Closes all environments within 5 s; those that hang or fail are logged."""
        parts, until = list(self.parts.values()), time.monotonic() + self.close_s
        self._begin()
        for part in parts:
            if sys.is_finalizing():  # threads no longer run
                part.pool.close()
            else:
                part.stop()
        for part in parts:
            if not sys.is_finalizing() and not part.join(until):
                part.give_up()
                if not self.is_garbage:
                    _LOG.warning("env %d: it did not close within %g s", part.env_id, self.close_s)

    # ---- questions to one environment

    def _ask(self, env_id: int, name: str, *args: object, **kwargs: object) -> Any:
        """Calls a method of an environment's pool in its thread; returns or raises its answer."""
        part, calls, limit = self.parts[env_id], Calls(self._lose), self.cfg.reset_timeout
        call = partial(getattr(part.pool, name), *args, **kwargs)
        calls.send(part, call, begun=time.monotonic(), limit=limit)
        calls.gather()
        answer = calls.pop(env_id)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def exists(self, env_id: int) -> bool:
        """Returns whether an environment is made."""
        return self.parts[env_id].started and bool(self._ask(env_id, "exists", env_id))

    def space(self, name: str, old_name: str) -> Any:
        """Returns a space of the first environment; see `EnvPool.space`."""
        return self._ask(self.ids[0], "space", name, old_name)

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment or of one of its wrappers."""
        return self._ask(env_id, "attribute", env_id, name)

    def has(self, env_id: int, name: str) -> bool:
        """Returns whether an environment has a method or an attribute."""
        return bool(self._ask(env_id, "has", env_id, name))

    def call(self, env_id: int, name: str, *args: object, **kwargs: object) -> Any:
        """Calls a method of an environment."""
        return self._ask(env_id, "call", env_id, name, *args, **kwargs)

    def state_of(self, env_id: int) -> Any:
        """Returns the state of an environment within its episode; see `EnvPool`."""
        return self._ask(env_id, "state_of", env_id)

    def load_state(self, env_id: int, state: State) -> bool:
        """Restores what `state_of` returned; see `EnvPool`."""
        return bool(self._ask(env_id, "load_state", env_id, state))

    def has_layers(self) -> bool:
        """Returns whether an environment has layers with a state that outlives episodes."""
        return self._layered

    def layer_states(self, env_id: int, *, begun: bool = False) -> Sequence[Any]:
        """Returns the states of an environment's stateful layers; see `EnvPool`."""
        found: Sequence[Any] = self._ask(env_id, "layer_states", env_id, begun=begun)
        return found

    def load_layer_states(self, env_id: int, states: Sequence[Any]) -> None:
        """Restores what `layer_states` returned."""
        self._ask(env_id, "load_layer_states", env_id, states)


def _joined(ids: list[int], answers: Iterable[Any]) -> Results:
    """Returns what the steps of K environments returned or raised, as columns."""
    obs: list[Any] = []
    rewards: list[Any] = []
    infos: list[Any] = []
    ended: dict[int, tuple[Any, Any]] = {}
    raised: dict[int, BaseException] = {}
    for row, answer in enumerate(answers):
        try:
            if isinstance(answer, BaseException):
                raised[row] = answer
                answer = None, 0.0, False, False, {}  # noqa: PLW2901 - as of a failed row
            seen, reward, terminated, truncated, info = answer
            if terminated or truncated:
                ended[row] = terminated, truncated
        except (TypeError, ValueError, RuntimeError) as error:  # not five values, or no bools
            raised[row] = error
            seen, reward, info = None, 0.0, {}
        obs.append(seen)
        rewards.append(reward)
        infos.append(info)
    return ids, obs, rewards, infos, ended, raised
