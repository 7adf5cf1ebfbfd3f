"""The env manager contract: a good manager passes, and each check catches a planted fault."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from dicore.data import EnvBatch, TimestepBatch, tree_map, tree_row, tree_stack
from dicore.errors import (
    ActionError,
    ClosedError,
    EnvResetError,
    EnvSpaceError,
    EnvStateError,
    EnvStepError,
    NonFiniteError,
    UsageError,
)
from dicore.run.random import episode_seed
from dicore.testing.env_manager import EnvManagerContract
from tests.soak import some

from .faults import Fault, broken, catches


class GoodManager:
    """An env manager as plainly as it can be written."""

    capabilities = frozenset({"step_one", "reset_one", "episode_seed", "manual_reset"})

    def __init__(self, env_fn: Sequence[Callable[[], Any]], options: Any = None) -> None:
        self.fns = list(env_fn)
        self.env_num = len(self.fns)
        self.options = {"auto_reset": True, "episode_num": float("inf"), **(options or {})}
        self.envs: list[Any] = [None] * self.env_num
        self.closed = True
        self.params: list[dict[str, Any]] = [{} for _ in self.fns]
        self.episodes = [0] * self.env_num
        self.run_seed, self.role = 0, "collector"
        self.literal: dict[int, int] = {}
        self.static = False

    # ---- looking

    def env(self, env_id: int) -> Any:
        if self.envs[env_id] is None:
            self.envs[env_id] = self.fns[env_id]()
        return self.envs[env_id]

    @property
    def observation_space(self) -> Any:
        return self.env(0).observation_space

    @property
    def action_space(self) -> Any:
        return self.env(0).action_space

    @property
    def done(self) -> bool:
        return all(count >= self.options["episode_num"] for count in self.finished)

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        self.check_open()
        ids = [each for each in range(self.env_num) if self.state[each] == "run"]
        return EnvBatch(np.array(ids, np.int64), self.stacked([self.obs[each] for each in ids]))

    def stacked(self, rows: list[Any]) -> Any:
        return tree_stack(rows) if rows else np.zeros((0, 4), np.float32)

    def env_attr(self, name: str) -> list[Any]:
        return [getattr(self.env(each), name) for each in range(self.env_num)]

    def random_action(self) -> EnvBatch[Any]:
        ready = self.ready_obs
        self.action_space.seed(len(self.steps))
        return ready.with_value({"action": tree_stack([self.action_space.sample() for _ in ready])})

    # ---- seeds

    def seed(self, seed: Any, dynamic_seed: bool | None = None, *, role: str = "collector") -> None:
        self.static = dynamic_seed is False
        self.literal = {}
        if isinstance(seed, int):
            self.run_seed, self.role = seed, role
            self.episodes = [0] * self.env_num
        elif len(seed) != self.env_num:
            raise UsageError("as many seeds as environments")
        else:
            self.literal = dict(enumerate(seed))

    def next_seed(self, env_id: int) -> int:
        episode, self.episodes[env_id] = self.episodes[env_id], self.episodes[env_id] + 1
        if env_id in self.literal:
            return self.literal[env_id] if self.static else self.literal.pop(env_id)
        return episode_seed(self.run_seed, self.role, env_id, episode)

    # ---- life

    def launch(self, reset_param: Any = None) -> None:
        if not self.closed:
            raise EnvStateError("launched already")
        for env_id in range(self.env_num):
            self.env(env_id)
        self.closed = False
        self.obs: list[Any] = [None] * self.env_num
        self.sums = [0.0] * self.env_num
        self.steps = [0] * self.env_num
        self.state = ["reset"] * self.env_num
        self.reset(reset_param)

    def reset(self, reset_param: Any = None) -> None:
        self.check_open()
        if reset_param is None:
            self.finished = [0] * self.env_num
        if isinstance(reset_param, Mapping):
            for env_id, params in reset_param.items():
                self.remember(env_id, params)
        for env_id in range(self.env_num) if reset_param is None else reset_param:
            self.begin(env_id)

    def remember(self, env_id: int, params: Any) -> None:
        if params is not None:
            self.params[env_id] = params

    def begin(self, env_id: int) -> None:
        try:
            self.obs[env_id], _ = self.envs[env_id].reset(
                seed=self.next_seed(env_id), **self.params[env_id]
            )
        except RuntimeError as error:
            raise EnvResetError(f"env {env_id}: {error}", context={"env_id": env_id}) from error
        self.state[env_id], self.sums[env_id], self.steps[env_id] = "run", 0.0, 0

    def close(self) -> None:
        for env in self.envs:
            if env is not None:
                env.close()
        self.envs = [None] * self.env_num
        self.closed = True

    def check_open(self) -> None:
        if self.closed:
            raise ClosedError("not launched")

    # ---- stepping

    def step(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        self.check_open()
        batch = EnvBatch.of(action)
        ids = [int(each) for each in batch.env_id]
        value = batch.value["action"] if isinstance(batch.value, dict) else batch.value
        self.check_ids(ids)
        actions = [tree_row(value, row) for row in range(len(ids))]
        self.check_actions(actions)
        return EnvBatch(batch.env_id, self.stack([
            self.step_one(env_id, action) for env_id, action in zip(ids, actions, strict=True)
        ]))  # fmt: skip

    def check_ids(self, ids: list[int]) -> None:
        for env_id in ids:
            if not 0 <= env_id < self.env_num or self.state[env_id] != "run":
                raise EnvStateError(f"env {env_id} does not wait", context={"env_id": env_id})

    def check_actions(self, actions: Any) -> None:
        for action in actions:
            if not self.action_space.contains(action):
                raise ActionError(f"{action} is not legal")

    def step_one(self, env_id: int, action: Any) -> tuple[Any, ...]:
        try:
            obs, reward, terminated, truncated, info = self.envs[env_id].step(action)
        except RuntimeError as error:
            self.state[env_id] = "error"
            raise EnvStepError(f"env {env_id}: {error}", context={"env_id": env_id}) from error
        self.check_values(env_id, obs, reward)
        self.obs[env_id] = obs
        self.sums[env_id] = self.sums[env_id] + reward
        self.steps[env_id] += 1
        if terminated or truncated:
            info = self.end(env_id, dict(info))
        return obs, reward, terminated, truncated, info

    def check_values(self, env_id: int, obs: Any, reward: float) -> None:
        shape = self.observation_space.shape
        if shape is not None and np.shape(obs) != shape:
            raise EnvSpaceError("another shape", context={"env_id": env_id})
        if (shape is not None and not np.isfinite(obs).all()) or not np.all(np.isfinite(reward)):
            raise NonFiniteError("not finite", context={"env_id": env_id})
        if np.shape(reward) != getattr(getattr(self.env(0), "reward_space", None), "shape", ()):
            raise EnvStepError("another reward", context={"env_id": env_id})

    def end(self, env_id: int, info: dict[str, Any]) -> dict[str, Any]:
        info |= {"eval_episode_return": self.sums[env_id], "episode_length": self.steps[env_id]}
        self.finished[env_id] += 1
        self.state[env_id] = "ended"
        if self.options["auto_reset"] and self.finished[env_id] < self.options["episode_num"]:
            self.begin(env_id)
        return info

    def stack(self, steps: list[tuple[Any, ...]]) -> TimestepBatch:
        obs, reward, terminated, truncated, info = zip(*steps, strict=True)
        return TimestepBatch(
            self.stacked(list(obs)), np.array(reward, np.float32), np.array(terminated),
            np.array(truncated), list(info),
        )  # fmt: skip

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.run_seed, "role": self.role, "episodes": list(self.episodes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.run_seed, self.role = state["seed"], state["role"]
        self.episodes = list(state["episodes"])


def adds_rewards(self: Any, steps: list[tuple[Any, ...]]) -> TimestepBatch:
    found = GoodManager.stack(self, steps)
    found.reward = found.reward.reshape(len(steps), -1).sum(1)
    return found


def any_reward(self: Any, env_id: int, obs: Any, reward: Any) -> None:
    if np.shape(reward) != (1,):
        GoodManager.check_values(self, env_id, obs, reward)


def makes_early(self: Any, env_fn: Any, options: Any = None) -> None:
    GoodManager.__init__(self, env_fn, options)
    self.envs = [fn() for fn in self.fns]


def makes_twice(self: Any, reset_param: Any = None) -> None:
    self.envs = [None] * self.env_num
    GoodManager.launch(self, reset_param)


def relaunches(self: Any, reset_param: Any = None) -> None:
    self.closed = True
    GoodManager.launch(self, reset_param)


def closes_again(self: Any) -> None:
    for env in self.envs:
        if env is not None:
            env.close()
    self.closed = True


def mixes(self: Any, steps: list[tuple[Any, ...]]) -> TimestepBatch:
    timestep = GoodManager.stack(self, steps)
    timestep.reward = np.roll(timestep.reward, 1)
    return timestep


def steps_all(self: Any, action: Mapping[int, Any]) -> EnvBatch[Any]:
    for env_id in set(range(self.env_num)) - set(action):
        if not self.closed and self.state[env_id] == "run":
            self.step_one(env_id, 0)
    return GoodManager.step(self, action)


def dicts_of_actions(self: Any, action: Mapping[int, Any]) -> EnvBatch[Any]:
    if isinstance(next(iter(dict(action).values())), dict):
        raise KeyError("actions only")
    return GoodManager.step(self, action)


def as_tuples(self: Any, steps: list[tuple[Any, ...]]) -> Any:
    timestep = GoodManager.stack(self, steps)
    timestep.reward = timestep.reward.astype(np.float64)
    return timestep


def first_of_the_next(self: Any, env_id: int, action: Any) -> tuple[Any, ...]:
    _, *rest = GoodManager.step_one(self, env_id, action)
    return (self.obs[env_id], *rest)


def always_terminal(self: Any, env_id: int, action: Any) -> tuple[Any, ...]:
    obs, reward, terminated, truncated, info = GoodManager.step_one(self, env_id, action)
    return obs, reward, terminated or truncated, False, info


def tells_always(self: Any, env_id: int, action: Any) -> tuple[Any, ...]:
    *rest, info = GoodManager.step_one(self, env_id, action)
    return (*rest, {"eval_episode_return": self.sums[env_id], **info})


def no_names(self: Any, ids: list[int]) -> None:
    for env_id in ids:
        if env_id >= self.env_num:
            self.step_one(0, 0)
            raise EnvStateError("no such environment")


def one_block(self: Any, rows: list[Any]) -> Any:
    out = self.__dict__.setdefault("block", np.zeros((16, 4), np.float32))[: len(rows)]
    out[:] = np.array(rows).reshape(len(rows), 4)
    return out


def one_episode_more(self: Any) -> bool:
    return all(count > self.options["episode_num"] for count in self.finished)


def resets_all(self: Any, reset_param: Any = None) -> None:
    GoodManager.reset(self, None)


def only_once(self: Any, env_id: int) -> None:
    GoodManager.begin(self, env_id)
    self.params[env_id] = {}


def always_resets(self: Any, env_id: int, info: dict[str, Any]) -> dict[str, Any]:
    info = GoodManager.end(self, env_id, info)
    self.begin(env_id)
    return info


def adds_the_id(self: Any, env_id: int) -> int:
    episode, self.episodes[env_id] = self.episodes[env_id], self.episodes[env_id] + 1
    return self.literal.get(env_id, self.run_seed + env_id + 100 * episode)


def by_chance(self: Any, env_id: int) -> int:
    return int(np.random.default_rng().integers(2**31))


def near_literal(self: Any, env_id: int) -> int:
    return GoodManager.next_seed(self, env_id) + 1


def never_static(self: Any, env_id: int) -> int:
    self.static = False
    return GoodManager.next_seed(self, env_id)


def raises_bare(self: Any, env_id: int, action: Any) -> tuple[Any, ...]:
    try:
        return GoodManager.step_one(self, env_id, action)
    except EnvStepError as error:
        raise EnvStepError("a step failed") from error


def stays_broken(self: Any, env_id: int) -> None:
    if self.state[env_id] != "error":
        GoodManager.begin(self, env_id)


def resets_bare(self: Any, env_id: int) -> None:
    try:
        GoodManager.begin(self, env_id)
    except EnvResetError as error:
        raise EnvResetError("a reset failed") from error


def always_the_same(self: Any, env_id: int, action: Any) -> tuple[Any, ...]:
    self.action_space.seed(0)
    return GoodManager.step_one(self, env_id, self.action_space.sample())


class Remote:
    """An environment in a process of its own."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(fn, other), daemon=True)
        self.process.start()
        other.close()

    def call(self, name: str, *args: Any, limit: float | None = None, **kwargs: Any) -> Any:
        with contextlib.suppress(OSError):
            self.pipe.send((name, args, kwargs))
        if not self.pipe.poll(limit):
            raise TimeoutError
        good, answer = self.pipe.recv()
        if not good:
            raise RuntimeError(answer)
        return answer

    def __getattr__(self, name: str) -> Any:
        if name in ("reset", "step"):
            return partial(self.call, name)
        try:
            return self.call("getattr", name)
        except RuntimeError as error:
            raise AttributeError(name) from error

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            self.call("close", limit=0.5)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def serve(fn: Callable[[], Any], pipe: Any) -> None:
    env = fn()
    with contextlib.suppress(EOFError, OSError):
        while True:
            name, args, kwargs = pipe.recv()
            try:
                call = partial(getattr, env) if name == "getattr" else getattr(env, name)
                answer = call(*args, **kwargs)
            except (Exception, SystemExit) as error:
                pipe.send((False, str(error)))
            else:
                pipe.send((True, answer))


class GoodWorkers(GoodManager):
    """A good manager with a process per environment."""

    capabilities = GoodManager.capabilities | {"workers"}

    def __init__(self, env_fn: Sequence[Callable[[], Any]], options: Any = None) -> None:
        super().__init__([partial(Remote, fn) for fn in env_fn], options)
        self.budget = [self.options.get("restart_budget", 0)] * self.env_num
        self.limit = self.options.get("step_timeout")

    def worker_pids(self) -> dict[int, int]:
        return {i: env.process.pid for i, env in enumerate(self.envs) if env is not None}

    def step_one(self, env_id: int, action: Any) -> tuple[Any, ...]:
        step = self.env(env_id).step
        self.envs[env_id].step = partial(step, limit=self.limit)
        try:
            return super().step_one(env_id, action)
        except (EOFError, OSError, EnvStepError) as error:
            return self.failed(env_id, error)
        finally:
            vars(self.envs[env_id] or self).pop("step", None)

    def failed(self, env_id: int, error: Exception) -> tuple[Any, ...]:
        self.state[env_id] = "error"
        if not self.budget[env_id]:
            raise EnvStepError(f"env {env_id}: {error}", context={"env_id": env_id}) from error
        self.budget[env_id] -= 1
        self.envs[env_id].close()
        self.envs[env_id] = None
        last = self.obs[env_id]
        self.env(env_id)
        self.begin(env_id)
        return last, 0.0, False, True, {"abnormal": True}


def waits_longer(self: Any, env_fn: Any, options: Any = None) -> None:
    GoodWorkers.__init__(self, env_fn, {**(options or {}), "step_timeout": 3.5})


def fails_for_good(self: Any, env_id: int, error: Exception) -> tuple[Any, ...]:
    self.budget[env_id] = 0
    return GoodWorkers.failed(self, env_id, error)


def remembers(self: Any) -> dict[int, int]:
    self.known = GoodWorkers.worker_pids(self) or getattr(self, "known", {})
    known: dict[int, int] = self.known
    return known


FAULTS: list[Fault] = [
    ("has_the_methods", {"seed": None}),
    ("creates_envs_at_launch", {"__init__": makes_early}),
    ("creates_envs_at_launch", {"launch": makes_twice}),
    ("second_launch_raises", {"launch": relaunches}),
    ("use_while_closed_raises", {"check_open": lambda self: None}),
    ("closes_every_environment_once", {"close": closes_again}),
    ("results_match_env_ids", {"stack": mixes}),
    ("steps_only_given_envs", {"step": steps_all}),
    ("rewards_have_the_shape_of_their_space", {"stack": adds_rewards}),
    ("rewards_have_the_shape_of_their_space", {"check_values": any_reward}),
    ("accepts_every_form_of_actions", {"step": dicts_of_actions}),
    ("timesteps_have_four_fields", {"stack": as_tuples}),
    ("final_observation_is_kept", {"step_one": first_of_the_next}),
    ("final_observation_is_kept", {"step_one": always_terminal}),
    ("final_info_has_the_return", {"step_one": tells_always}),
    ("unknown_env_id_raises", {"check_ids": lambda self, ids: None}),
    ("unknown_env_id_raises", {"check_ids": no_names}),
    ("illegal_action_raises", {"check_actions": lambda self, actions: None}),
    ("returned_data_is_not_overwritten", {"stacked": one_block}),
    ("counts_episodes", {"done": property(one_episode_more)}),
    ("resets_only_given_envs", {"reset": resets_all}),
    ("remembers_reset_parameters", {"begin": only_once}),
    ("waits_for_reset_without_auto_reset", {"end": always_resets}),
    ("same_seed_same_data", {"next_seed": adds_the_id}),
    ("same_seed_same_data", {"next_seed": by_chance}),
    ("seed_list_sets_each_env", {"next_seed": near_literal}),
    ("static_seeds_repeat", {"next_seed": never_static}),
    ("state_round_trip", {"load_state_dict": lambda self, state: None}),
    ("step_error_names_the_env", {"step_one": raises_bare}),
    ("step_error_names_the_env", {"begin": stays_broken}),
    ("reset_error_names_the_env", {"begin": resets_bare}),
    ("invalid_observations_raise", {"check_values": lambda self, env_id, obs, reward: None}),
    (
        "env_attr_returns_all_values",
        {"__getattr__": lambda self, name: getattr(self.envs[0], name)},
    ),
    (
        "returns_observations_of_every_space",
        {"stacked": lambda self, rows: tree_map(lambda leaf: leaf * 0, tree_stack(rows))},
    ),
    ("passes_actions_of_every_space", {"step_one": always_the_same}),
    ("random_actions_are_legal", {"random_action": lambda self: dict.fromkeys(range(3), 3)}),
]
WORKER_FAULTS: list[Fault] = [
    ("a_killed_worker_costs_an_episode", {"worker_pids": lambda self: dict.fromkeys((0, 1), 1)}),
    ("a_killed_worker_costs_an_episode", {"failed": fails_for_good}),
    ("a_hanging_step_ends_at_its_limit", {"__init__": waits_longer}),
    ("close_leaves_no_process", {"worker_pids": remembers}),
]  # fmt: skip
PLANTED = {EnvManagerContract: [check for check, _ in FAULTS + WORKER_FAULTS]}


class TestGoodManager(EnvManagerContract):
    def make(self, env_fn: Any, options: Any = None) -> GoodManager:
        return GoodManager(env_fn, options)


class TestGoodWorkers(EnvManagerContract):
    def make(self, env_fn: Any, options: Any = None) -> GoodWorkers:
        return GoodWorkers(env_fn, options)


# What is said of workers, and a share of what holds for every manager, as above.
_OTHERS = [each for each in EnvManagerContract.checks() if each not in dict(WORKER_FAULTS)]
for _check in {*_OTHERS} - {*some(_OTHERS, 6, "workers")}:
    setattr(TestGoodWorkers, f"test_{_check}", None)


class TestWithoutCapabilities(EnvManagerContract):
    """Natively vectorised managers can do less; what they do not declare is not asked."""

    def make(self, env_fn: Any, options: Any = None) -> GoodManager:
        cannot = {"capabilities": frozenset(), "next_seed": by_chance, "reset": resets_all}
        manager: GoodManager = broken(GoodManager, cannot)(env_fn, options)
        return manager


test_each_check_catches_its_fault = catches(EnvManagerContract, GoodManager, FAULTS)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that ends seconds after its limit is late."""
    monkeypatch.setattr("dicore.testing.env_manager.workers.LATE_S", 2.0)


test_each_worker_check_catches_its_fault = pytest.mark.usefixtures("impatient")(
    catches(EnvManagerContract, GoodWorkers, WORKER_FAULTS)
)
