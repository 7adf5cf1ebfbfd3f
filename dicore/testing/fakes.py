"""Fakes of the roles that a component works with; they check and record their arguments.

Observations of `FakeManager` tell where they come from: float32 [env id, episode, step].

Shapes: N environments, K of them stepped, T steps, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Columns, EnvBatch, State, StateDict, TimestepBatch, Tree, tree_row
from dicore.errors import ContractError, EnvStateError
from dicore.interfaces.policy import LearnMode, Tail
from dicore.testing.suite import expect

__all__ = [
    "DelayedEnvManager", "FakeCollectMode", "FakeEvalMode", "FakeLearnMode", "FakeManager",
    "Script", "Unfetched",
]  # fmt: skip


class Unfetched:
    """A result on its device: converting it to a number fails the check."""

    def _fetched(self, *args: object, **kwargs: object) -> NoReturn:
        raise ContractError("a result was fetched from the device within an iteration")

    item = __float__ = __int__ = __bool__ = __array__ = tolist = numpy = cpu = _fetched


class FakeLearnMode:
    """A learn mode that counts calls; `mode` is the tuple of its functions.

    Args:
        updates: Updates that each call makes, in turn; then 1 for ever.
        priority: Priorities that every result tells; None tells none.
        batch_size: What it says of itself.
    """

    def __init__(
        self,
        updates: Iterable[int] = (),
        priority: Sequence[float] | None = None,
        batch_size: int = 4,
    ) -> None:
        self.calls: list[tuple[Tree, dict[str, Tree]]] = []
        self.results: list[Columns] = []
        self.weight = 0
        self.batch_size = batch_size
        self._updates = iter(updates)
        self._priority = priority
        self.mode = LearnMode(
            forward=self._forward,
            reset=lambda data_id=None: None,
            info=lambda: "a fake learn mode",
            monitor_vars=lambda: ["total_loss"],
            get_attribute=self._get_attribute,
            set_attribute=lambda name, value: None,
            state_dict=lambda: {"weight": np.array(self.weight)},
            load_state_dict=self._load_state_dict,
        )

    def _forward(self, data: Batch, **kwargs: object) -> dict[str, Any] | list[dict[str, Any]]:
        self.calls.append((data, kwargs))
        made = []
        for _ in range(next(self._updates, 1)):
            self.weight += 1
            made.append({"total_loss": Unfetched(), "step": self.weight})
            if self._priority is not None:
                made[-1]["priority"] = np.array(self._priority, np.float32)
        self.results += made
        return made if len(made) > 1 else made[0]

    def _get_attribute(self, name: str) -> object:
        if name == "batch_size":
            return self.batch_size
        raise AttributeError(name)

    def _load_state_dict(self, state: State) -> None:
        self.weight = int(state["weight"])


Place = tuple[int, int, int]
"""Env id, episode, step."""


@dataclass(frozen=True)
class Script:
    """The behaviour of the environments of a `FakeManager`.

    Args:
        length: Steps of an episode, by env id and episode.
        truncated: Whether an episode is cut instead of reaching a terminal state.
        reward: Of a step, by env id, episode and step; a list is one per objective.
        abnormal: Steps that are not to be learned from.
    """

    length: Callable[[int, int], int] = lambda env_id, episode: 5
    truncated: Callable[[int, int], bool] = lambda env_id, episode: False
    reward: Callable[[int, int, int], Any] = lambda env_id, episode, step: float(step)
    abnormal: frozenset[Place] = frozenset()


class FakeManager:
    """An in-process env manager whose environments follow a script.

    Args:
        env_num: N.
        script: What happens.

    Attributes:
        steps: Normal steps made so far, by env id.
        episodes: Episodes begun so far, by env id.
        events: `launch`, `reset <ids>` and `close`, in order.
        actions: Actions received, by env id.
    """

    observation_space = None
    action_space = None
    capabilities = frozenset({"lockstep", "step_one", "reset_one"})
    done = False

    def __init__(self, env_num: int, script: Script | None = None) -> None:
        self.env_num = env_num
        self.script = script or Script()
        self.closed = True
        self.events: list[str] = []
        self.episodes = [-1] * env_num
        self.steps = [0] * env_num
        self.actions: list[list[object]] = [[] for _ in range(env_num)]
        self._step = [0] * env_num
        self._sum: list[Tree] = [0.0] * env_num

    def launch(self, reset_param: object = None) -> None:
        if not self.closed:
            raise EnvStateError("launched twice")
        self.closed = False
        self.events.append("launch")
        self._begin(range(self.env_num))

    def seed(self, seed: int, dynamic_seed: bool | None = None) -> None:
        self.events.append(f"seed {seed}")

    def reset(self, reset_param: Mapping[int, object] | None = None) -> None:
        self._check_open()
        ids = list(range(self.env_num) if reset_param is None else reset_param)
        self.events.append(f"reset {ids}")
        self._begin(ids)

    @property
    def ready_obs(self) -> EnvBatch[npt.NDArray[np.float32]]:
        self._check_open()
        return EnvBatch(np.arange(self.env_num), self._obs(range(self.env_num)))

    def step(self, actions: Mapping[int, Tree]) -> EnvBatch[TimestepBatch]:
        self._check_open()
        batch = EnvBatch.of(actions)
        value = batch.value["action"] if isinstance(batch.value, Mapping) else batch.value
        ids = batch.env_id.tolist()
        expect(len(set(ids)) == len(ids) and set(ids) <= set(range(self.env_num)),
               f"stepped environments {ids} of {self.env_num}")  # fmt: skip
        expect(len(value) == len(ids), f"{len(value)} actions for {len(ids)} environments")
        return EnvBatch(batch.env_id, self._advance(ids, value))

    def _advance(self, ids: list[int], actions: Tree) -> TimestepBatch:
        count = len(ids)
        rewards: list[npt.NDArray[np.float64]] = []
        terminated, truncated, abnormal = (np.zeros(count, np.bool_) for _ in range(3))
        info: list[Columns] = [{} for _ in ids]
        for row, env_id in enumerate(ids):
            episode, step = self.episodes[env_id], self._step[env_id]
            self.actions[env_id].append(actions[row])
            rewards.append(np.asarray(self.script.reward(env_id, episode, step), np.float64))
            self._sum[env_id] = self._sum[env_id] + rewards[-1]
            self._step[env_id] += 1
            if (env_id, episode, step) in self.script.abnormal:
                abnormal[row] = terminated[row] = True
                info[row]["abnormal"] = True
                continue
            self.steps[env_id] += 1
            if self._step[env_id] >= self.script.length(env_id, episode):
                cut = self.script.truncated(env_id, episode)
                truncated[row], terminated[row] = cut, not cut
                total = self._sum[env_id]
                info[row]["eval_episode_return"] = total if np.ndim(total) else float(total)
                info[row]["episode_length"] = self._step[env_id]
        obs, reward = self._obs(ids), np.array(rewards, np.float32)
        self._begin([ids[row] for row in np.flatnonzero(terminated | truncated)])
        return TimestepBatch(
            obs, reward, terminated, truncated, info, abnormal if abnormal.any() else None
        )

    def _obs(self, ids: Iterable[int]) -> npt.NDArray[np.float32]:
        places = [(each, self.episodes[each], self._step[each]) for each in ids]
        return np.array(places, np.float32).reshape(-1, 3)

    def _begin(self, ids: Iterable[int]) -> None:
        for env_id in ids:
            self.episodes[env_id] += 1
            self._step[env_id] = 0
            self._sum[env_id] = 0.0

    def _check_open(self) -> None:
        if self.closed:
            raise EnvStateError("used before launch or after close")

    def state_dict(self) -> StateDict:
        return {"episodes": list(self.episodes)}

    def load_state_dict(self, state: State) -> None:
        self.episodes = [int(each) for each in state["episodes"]]

    def close(self) -> None:
        if not self.closed:
            self.events.append("close")
        self.closed = True


class DelayedEnvManager:
    """An asynchronous env manager over a lockstep one: its timesteps come late, in any order.

    `step` keeps the actions it is given and steps a random non-empty subset of all environments
    whose action is pending; the others answer in later calls, `step({})` included. Their ids are
    missing from `ready_obs` meanwhile. All else is that of the manager below, to which an unknown
    attribute is passed on.

    Args:
        manager: A manager that declares `lockstep`.
        seed: Of the subsets; equal seeds and calls give equal subsets.

    Attributes:
        manager: The manager below.
        pending: Actions of the environments that have not answered yet, by env id.
    """

    def __init__(self, manager: Any, seed: int = 0) -> None:
        self.manager = manager
        self.pending: dict[int, Any] = {}
        self._rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name in ("manager", "step_into"):
            raise AttributeError(name)
        return getattr(self.manager, name)

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of the manager below, without `lockstep`."""
        return frozenset(self.manager.capabilities) - {"lockstep"}

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """Observations of the environments that wait for an action."""
        return self._without_pending(self.manager.ready_obs)

    def random_action(self) -> EnvBatch[Any]:
        """Draws a legal action for each environment that waits for one."""
        return self._without_pending(self.manager.random_action())

    def _without_pending(self, batch: EnvBatch[object]) -> EnvBatch[Any]:
        rows = [row for row, each in enumerate(batch.env_id.tolist()) if each not in self.pending]
        return EnvBatch(batch.env_id[rows], tree_row(batch.value, rows))

    def step(self, action: Mapping[int, object]) -> EnvBatch[Tree]:
        """Sends actions; returns at least one timestep of those pending."""
        ready = set(self.ready_obs)
        for env_id in action:
            if env_id not in ready:
                raise EnvStateError(f"env {env_id} does not wait for an action")
        self.pending |= {int(env_id): _action_of(action[env_id]) for env_id in action}
        if not self.pending:
            raise EnvStateError("no environment has a pending action")
        count = int(self._rng.integers(1, len(self.pending) + 1))
        ids = self._rng.permutation(list(self.pending))[:count].tolist()
        return cast(
            "EnvBatch[Any]", self.manager.step({each: self.pending.pop(each) for each in ids})
        )

    def reset(self, reset_param: Any = None) -> None:
        """Starts new episodes; pending actions of these environments are dropped."""
        for env_id in list(self.pending if reset_param is None else reset_param):
            self.pending.pop(int(env_id), None)
        self.manager.reset(reset_param)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restores the state of the manager below; no action is pending."""
        self.pending.clear()
        self.manager.load_state_dict(state)

    def close(self) -> None:
        """Closes the manager below."""
        self.pending.clear()
        self.manager.close()


def _action_of(output: object) -> object:
    return {"action": output["action"]} if isinstance(output, Mapping) else output


class _CollectMode(NamedTuple):
    """A collect mode of plain functions."""

    forward: Callable[..., object]
    process_transition: Callable[..., object]
    get_train_sample: Callable[..., object]
    reset: Callable[..., object]
    get_attribute: Callable[..., object]
    set_attribute: Callable[..., object]
    state_dict: Callable[..., object]
    load_state_dict: Callable[..., object]


class _EvalMode(NamedTuple):
    """An eval mode of plain functions."""

    forward: Callable[..., object]
    reset: Callable[..., object]
    get_attribute: Callable[..., object]
    set_attribute: Callable[..., object]
    state_dict: Callable[..., object]
    load_state_dict: Callable[..., object]


@dataclass
class FakeCollectMode:
    """A collect mode of plain functions; its action is `name` for every environment.

    Attributes:
        kwargs: Keyword arguments of each forward call.
        resets: What `reset` was called with.
    """

    name: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    kwargs: list[dict[str, object]] = field(default_factory=list)
    resets: list[Any] = field(default_factory=list)

    @property
    def mode(self) -> Any:
        """The tuple of functions."""
        return _CollectMode(
            self._forward,
            _process_transition,
            _get_train_sample,
            lambda data_id=None: self.resets.append(data_id),
            self._get_attribute,
            lambda name, value: None,
            dict,
            lambda state: None,
        )

    def _forward(self, obs: Mapping[int, Tree], **kwargs: object) -> dict[int, dict[str, Any]]:
        self.kwargs.append(kwargs)
        for env_id, each in obs.items():
            expect(int(each[0]) == env_id, f"environment {env_id} has an observation of {each[0]}")
        return {env_id: {"action": np.int64(self.name)} for env_id in obs}

    def _get_attribute(self, name: str) -> object:
        facts = {"sample_len": 1, "sample_stride": 1, "on_policy": False, **self.facts}
        if name not in facts:
            raise AttributeError(name)
        return facts[name]


@dataclass
class FakeEvalMode:
    """An eval mode of plain functions."""

    resets: list[Any] = field(default_factory=list)
    calls: int = 0

    @property
    def mode(self) -> Any:
        """The tuple of functions."""
        return _EvalMode(
            self._forward,
            lambda data_id=None: self.resets.append(data_id),
            lambda name: None,
            lambda name, value: None,
            dict,
            lambda state: None,
        )

    def _forward(self, obs: Mapping[int, Tree]) -> dict[int, dict[str, Any]]:
        self.calls += 1
        return {env_id: {"action": np.int64(0)} for env_id in obs}


def _process_transition(
    obs: Tree, output: Mapping[str, object], timestep: TimestepBatch
) -> dict[str, object]:
    return {
        "obs": obs,
        "action": output["action"],
        "reward": timestep.reward,
        "next_obs": timestep.obs,
        "done": timestep.terminated.astype(np.float32),
    }


def _get_train_sample(block: Batch, tail: Tail) -> Batch:
    """Converts [T, N, ...] to [B, ...], without the rows that are not valid; see `CollectMode`."""
    flat = {
        key: column[: tail.starts].reshape(-1, *column.shape[2:])
        for key, column in block.items()
        if key != "valid"
    }
    return Batch(flat)[np.flatnonzero(block["valid"][: tail.starts])]
