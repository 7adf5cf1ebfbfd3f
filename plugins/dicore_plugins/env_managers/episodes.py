"""Per-environment episode state, episode seeds and manual resets.

Shapes: N environments.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Info, State, StateDict, Tree
from dicore.errors import DicoreError, EnvError, EnvStateError, UsageError
from dicore.interfaces.env_manager import EnvState, IEnvManager
from dicore.run.random import ambient_streams, episode_seed

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["AbnormalEpisodes", "EpisodeSeeds", "Episodes", "kept_info", "reset_ended", "shape_of"]

_REPORTED_RETURN = frozenset({"eval_episode_return", "final_eval_reward"})
"""Keys of info under which an environment may report the episode return itself."""
_LOG = logging.getLogger("dicore.env")
_EMPTY: dict[str, object] = {}
_KEPT = 1_000
"""Failures of an environment that are remembered."""
_MOST_ABNORMAL = 100
"""Abnormal episodes in a row after which there is no hope of a normal one."""

RUN, RESET, STEP = (
    EnvState.RUN,
    EnvState.RESET,
    EnvState.STEP,
)  # looking them up in the enum is slow


def shape_of(space: Space | None) -> tuple[int, ...]:
    """Returns the shape of rewards of a space: () for scalars, also if declared as (1,)."""
    shape = tuple(getattr(space, "shape", None) or ())
    return () if int(np.prod(shape)) == 1 else shape


class Episodes:
    """States, lengths, returns and seeds of the running episodes.

    One clock counts the steps of all environments, so that the cost of a step does not depend on
    their number; for an environment that is not stepped, the start of its episode moves instead.

    Args:
        limits: Steps after which an environment's episode is truncated, [N]; inf: never.
        episode_num: Episodes after which an environment is done.
        auto_reset: Whether the next episode begins by itself.
        reward_shape: Of one reward.

    Attributes:
        clock: Steps since the launch.
        deadline: Clock at which an episode may reach its time limit.
        state: State of each environment.
        all_run: Every environment waits for an action.
        total: Undiscounted return so far, float64 [N, ...].
        seed: Seed of each running episode.
        finished: Episodes finished, without failed ones.
        restarts: Failed episodes that were discarded.
        failures: When they failed (`time.monotonic`) and why, of each environment.
    """

    def __init__(
        self,
        limits: Sequence[float],
        episode_num: float,
        *,
        auto_reset: bool,
        reward_shape: tuple[int, ...] = (),
    ) -> None:
        count = len(limits)
        self._limits = list(limits)
        self._auto_reset = auto_reset
        self._episode_num = episode_num
        self.clock = 0
        self._start = [0] * count
        self.deadline = float("inf")
        self.state = [EnvState.INIT] * count
        self.all_run = False
        self.total = np.zeros((count, *reward_shape))
        self._scalar = not reward_shape
        self.seed = [0] * count
        self.finished = [0] * count
        self.restarts = [0] * count
        self.failures: list[list[tuple[float, str]]] = [[] for _ in limits]

    def begin(self, env_id: int, seed: int) -> None:
        """Begins an episode; its first observation is written."""
        self._start[env_id] = self.clock
        self.deadline = min(self.deadline, self.clock + self._limits[env_id])
        self.total[env_id] = 0.0
        self.seed[env_id] = seed
        self.state[env_id] = RUN
        if not self.all_run:
            self.all_run = all(each is RUN for each in self.state)

    def begin_again(self, env_ids: Sequence[int]) -> None:
        """Begins episodes that have no seed of their own; see `begin`."""
        start, total, clock = self._start, self.total, self.clock
        for env_id in env_ids:  # mostly few: faster than one assignment with a list of indices
            start[env_id] = clock
            total[env_id] = 0.0

    def resume(self, env_id: int, length: int, total: Tree) -> None:
        """Sets the length and the return so far of an episode that was replayed."""
        self._start[env_id] = self.clock - length
        self.deadline = min(self.deadline, self._start[env_id] + self._limits[env_id])
        self.total[env_id] = total

    def stop(self, env_id: int, state: EnvState) -> None:
        """Sets a state in which the environment cannot be stepped."""
        self.state[env_id] = state
        self.all_run = False

    def answered(self, sent: Sequence[int], answered: Sequence[int]) -> None:
        """Sets the states after actions were sent to some environments and some answered."""
        for env_id in sent:
            self.stop(env_id, STEP)
        for env_id in answered:
            self.state[env_id] = RUN
        self.all_run = all(each is RUN for each in self.state)

    def length(self, env_id: int) -> int:
        """Returns the number of steps in the running episode of an environment."""
        return self.clock - self._start[env_id]

    def where(self, env_id: int) -> str:
        """Returns `step 3 of the episode with seed 17`."""
        return f"step {self.length(env_id)} of the episode with seed {self.seed[env_id]}"

    def check_known(self, env_id: int) -> None:
        """Raises EnvStateError for an unknown environment id."""
        if not 0 <= env_id < len(self.state):
            raise EnvStateError(
                f"unknown env id {env_id}", hint=f"expected 0..{len(self.state) - 1}",
                context={"env_id": env_id},
            )  # fmt: skip

    def check_running(self, env_ids: Sequence[int]) -> None:
        """Raises EnvStateError if an environment does not wait for an action."""
        for env_id in env_ids:
            self.check_known(env_id)
            state = self.state[env_id]
            if state is not EnvState.RUN:
                wait = "wait until it is in ready_obs; step({}) sends nothing"
                raise EnvStateError(
                    f"env {env_id} is {state.name} ({state.value}) and cannot be stepped",
                    hint=wait if state is STEP else f"call reset({{{env_id}: None}}) first",
                    context={"env_id": env_id, "state": state.name},
                )
        if len(set(env_ids)) < len(env_ids):
            raise EnvStateError(f"duplicate env ids in {list(env_ids)}")

    def reopen(self, env_ids: Sequence[int]) -> None:
        """Resets the episode count of environments that are done, or of all when all are named."""
        everyone = len(env_ids) == len(self.state)
        for env_id in env_ids:
            self.check_known(env_id)
            if everyone or self.state[env_id] is EnvState.DONE:
                self.finished[env_id] = 0

    def tick(self, env_ids: Sequence[int], ended: dict[int, tuple[bool, bool]]) -> None:
        """Accounts for a step of only some environments, or at a deadline.

        Args:
            env_ids: The environments that were stepped, by row.
            ended: (terminated, truncated) by row; rows that reached their time limit are added.
        """
        if len(env_ids) < len(self.state):
            for env_id in set(range(len(self.state))).difference(env_ids):
                self._start[env_id] += 1
        nearest = min(map(sum, zip(self._start, self._limits, strict=True)))
        self.deadline = max(nearest, self.clock + 1)
        for row, env_id in enumerate(env_ids):
            if self.length(env_id) >= self._limits[env_id]:
                terminated, _ = ended.get(row, (False, False))
                ended[row] = (terminated, True)

    def end(self, env_id: int, info: Mapping[str, object] | None) -> Info:
        """Ends an episode; returns its last info with the episode's return and length."""
        final_info = {
            **kept_info(info or _EMPTY),
            "eval_episode_return": self._return(env_id),
            "episode_length": self.clock - self._start[env_id],
        }
        if info and not _REPORTED_RETURN.isdisjoint(info):
            reported = info.get("eval_episode_return", info.get("final_eval_reward"))
            try:
                value = np.asarray(reported, np.float64)
                final_info["eval_episode_return"] = value.item() if value.size == 1 else value
            except (TypeError, ValueError):
                _warn_of_return(str(reported))
        self.finished[env_id] += 1
        if self.finished[env_id] >= self._episode_num:
            self.stop(env_id, EnvState.DONE)
        elif not self._auto_reset:
            self.stop(env_id, EnvState.NEED_RESET)
        return final_info

    def _return(self, env_id: int) -> Tree:
        return self.total.item(env_id) if self._scalar else self.total[env_id].copy()

    def discard(self, env_ids: Sequence[int], error: DicoreError, cfg: Any) -> int:
        """Counts the failed episodes of environments that fail together, if the budget allows it.

        Args:
            env_ids: The environments.
            error: Why they failed.
            cfg: Options: `restart_budget` and `restart_window`.

        Returns:
            The number of failures of the first one within the window; 0 if that is too many.
        """
        first, window, now = env_ids[0], cfg.restart_window, time.monotonic()
        if window is not None:
            for env_id in env_ids:
                failures = self.failures[env_id]
                self.failures[env_id] = [each for each in failures if each[0] >= now - window]
        number = 1 + (self.restarts[first] if window is None else len(self.failures[first]))
        if number > cfg.restart_budget:
            return 0
        for env_id in env_ids:
            self.restarts[env_id] += 1
            self.failures[env_id] = [*self.failures[env_id][-_KEPT:], (now, error.message)]
        return number

    def cut(self, env_id: int) -> None:
        """Ends a failed episode, which does not count as finished."""
        if not self._auto_reset:
            self.stop(env_id, EnvState.NEED_RESET)

    @property
    def done(self) -> bool:
        """Every environment has finished its episodes."""
        return all(count >= self._episode_num for count in self.finished)


@cache
def _warn_of_return(reported: str) -> None:
    """Warns of a reported return that is not a number."""
    _LOG.warning("eval_episode_return is %s; it is replaced by the sum of rewards", reported)


def kept_info(info: Mapping[str, object]) -> Info:
    """Copies an info and its arrays, which the next reset of the environment may change."""
    return {
        key: value.copy() if isinstance(value, np.ndarray) else value for key, value in info.items()
    }


class EpisodeSeeds:
    """Seeds of episodes: a pure function of run seed, role, env id and episode number.

    Args:
        env_num: Number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._run_seed: int | None = None
        self._role = "collector"
        self._literal: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._dynamic = True
        self.episodes = [0] * env_num

    def set(
        self, seed: int | Sequence[int] | Mapping[int, int], dynamic_seed: bool | None, role: str
    ) -> None:
        """Sets how seeds are computed from now on; see `IEnvManager.seed`.

        Raises:
            UsageError: a list does not have one seed per environment, or a dict has an unknown
                env id.
        """
        dynamic = True if dynamic_seed is None else dynamic_seed
        if isinstance(seed, int | Integral):
            self._run_seed = seed = int(seed)
            self._literal = {} if dynamic else dict.fromkeys(range(self._env_num), seed)
            self.episodes = [0] * self._env_num
        else:
            self._literal = self._by_env(seed)
            self._since = {env_id: self.episodes[env_id] for env_id in self._literal}
        self._role, self._dynamic = role, dynamic

    def _by_env(self, seed: Any) -> dict[int, int]:
        """Returns literal seeds by env id; raises UsageError as `set` does."""
        if isinstance(seed, Mapping):
            unknown = sorted(set(seed) - set(range(self._env_num)))
            if unknown:
                raise UsageError(
                    f"seeds for unknown env ids {unknown}; there are {self._env_num} envs"
                )
            return {int(env_id): _seed_of(value) for env_id, value in seed.items()}
        if isinstance(seed, str) or not hasattr(seed, "__len__"):
            raise UsageError(
                f"{seed!r} is not a seed", hint="pass an int, a list of ints, or a dict"
            )
        if len(seed) != self._env_num:
            raise UsageError(f"{len(seed)} seeds for {self._env_num} environments")
        return {env_id: _seed_of(value) for env_id, value in enumerate(seed)}

    def next(self, env_id: int) -> int:
        """Returns the seed of the next episode of an environment and counts the episode."""
        seed = self.peek(env_id)
        self.episodes[env_id] += 1
        return seed

    def peek(self, env_id: int) -> int:
        """Returns the seed of the next episode of an environment."""
        episode = self.episodes[env_id]
        if env_id in self._literal:
            seed, since = self._literal[env_id], self._since.get(env_id, 0)
            if not self._dynamic or episode == since:
                return seed
            return episode_seed(seed, "literal", 0, episode - since)
        if self._run_seed is None:
            self._run_seed = ambient_streams().seed
        return episode_seed(self._run_seed, self._role, env_id, episode)

    def rewind(self) -> None:
        """Restarts the sequence of episodes."""
        self.episodes = [0] * self._env_num
        self._since = dict.fromkeys(self._since, 0)

    def state_dict(self) -> StateDict:
        """Returns seeds and counters."""
        return {
            "run_seed": self._run_seed,
            "role": self._role,
            "dynamic": self._dynamic,
            "literal": [[key, value] for key, value in self._literal.items()],
            "since": [[key, value] for key, value in self._since.items()],
            "episodes": list(self.episodes),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._run_seed, self._role = state["run_seed"], state["role"]
        self._dynamic = state["dynamic"]
        self._literal = dict(state["literal"])
        self._since = dict(state["since"])
        self.episodes = list(state["episodes"])


def _seed_of(value: Tree) -> int:
    """Returns a seed as an int; raises UsageError if it is something else."""
    if not isinstance(value, Integral):
        raise UsageError(f"{value!r} is not a seed", hint="pass an int, a list of ints, or a dict")
    return int(value)


class AbnormalEpisodes:
    """Ends a loop that waits for whole episodes while all of them are abnormal."""

    def __init__(self) -> None:
        self._count = 0
        self.last = ""
        """Environment and reason of the latest one; "" if there was none."""

    def add(self, env_id: int, info: Mapping[str, object], *, counts: bool = True) -> None:
        """Notes an abnormal episode, and counts it.

        Raises:
            EnvError: it is the last of many in a row.
        """
        self._count += counts
        said = info.get("error", info.get("abnormal"))
        reason = said if isinstance(said, str) else "its info has 'abnormal'"
        self.last = f"env {env_id}: {reason}"
        if self._count >= _MOST_ABNORMAL:
            raise EnvError(
                f"the last {self._count} episodes were all abnormal and give no data; {self.last}",
                hint="set info['abnormal'] only for steps that are to be thrown away; dicore check"
                " runs the environment",
                context={"env_id": env_id},
            )

    def clear(self) -> None:
        """Notes an episode that was not abnormal."""
        self._count = 0


def reset_ended(manager: IEnvManager, env_ids: Iterable[int]) -> None:
    """Resets the environments whose episode ended and that need a reset (`auto_reset=False`)."""
    state_of = getattr(manager, "env_state", None)
    if state_of is None:
        return
    waiting = [env_id for env_id in env_ids if state_of(env_id) is EnvState.NEED_RESET]
    if waiting:
        manager.reset(waiting)


def resized(state: State, env_num: int) -> Mapping[str, Any]:
    """Returns a manager's state for another number of environments, without running episodes.

    Environments that are in both keep their counters, parameters and layers.
    """
    if len(state["finished"]) == env_num:
        return state

    def fit(values: Sequence[Tree], new: Callable[[], object]) -> list[Tree]:
        return [*values[:env_num], *(new() for _ in range(env_num - len(values)))]

    return {
        **state,
        "seeds": {**state["seeds"], "episodes": fit(state["seeds"]["episodes"], int)},
        "finished": fit(state["finished"], int),
        "restarts": fit(state["restarts"], int),
        "params": fit(state["params"], dict),
        "layers": (state.get("layers") or [])[:env_num],
        "running": None,
    }


def running_episode(
    env_id: int, obs: Tree, episodes: Episodes, pool: Any, action_log: Any
) -> dict[str, object]:
    """Returns what brings a running episode back: see `ManagedEnvs.state_dict`."""
    now = episodes.state[env_id]
    state = pool.state_of(env_id) if now is RUN else None
    runs = state is None and now in (RUN, STEP)  # a pending action is not logged yet
    total = episodes.total[env_id]
    return {
        "seed": episodes.seed[env_id],
        "length": episodes.length(env_id),
        "actions": action_log.actions(env_id) if runs else None,
        **({} if state is None else {"state": state}),
        "return": total.copy() if np.ndim(total) else float(total),
        "obs": obs,
        **({"layers": pool.layer_states(env_id, begun=True)} if pool.has_layers() else {}),
    }
