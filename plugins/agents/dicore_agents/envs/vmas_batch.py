"""Scenarios of VMAS, a simulator that steps all its environments as one batch.

Shapes: N environments, A agents, D numbers that an agent sees, d numbers of an action.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import ConfigError, UsageError
from dicore_agents.envs.form import agents_space
from dicore_agents.envs.rows import ActionRows, ObservationRows

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["VmasBatch", "VmasEnv"]

Floats = npt.NDArray[np.float32]
_STREAM = threading.RLock()
"""Held while a simulator draws from the one stream that VMAS has; threads step several."""


class VmasBatch:
    """N environments of a scenario, stepped together; no object per environment.

    It has the form of a `gymnasium.vector.VectorEnv` that begins the next episode in the step that
    ends one. All that is random is drawn from one stream, which `reset(seed=...)` begins; VMAS
    itself keeps a single one for all its simulators, and changes to it in every call of them, which
    takes a tenth of the time of a step that ends some episodes: here each step changes once.

    Args:
        make: Makes the simulator, a `vmas.simulator.environment.Environment`, from N and a seed.
        env_num: N.
        pad: Fill up what unlike agents see, or how they act, with zeros.
        team_reward: Return the sum of all rewards, one number.

    Attributes:
        agent_ids: Names of the agents.

    Raises:
        ConfigError: agents are unlike and not padded, or see no vectors.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": "SameStep"}

    def __init__(
        self, make: Any, env_num: int, *, pad: bool = False, team_reward: bool = False
    ) -> None:
        self.num_envs, self._team = env_num, team_reward
        with _STREAM:
            self.sim = make(env_num, 0)
        self._random: Sequence[Any] = [*self.sim.vmas_random_state]
        self.agent_ids = tuple(agent.name for agent in self.sim.agents)
        with self._own_random():
            seen = self._told()
        rows = ObservationRows(
            [_seen_space(each, name) for each, name in zip(seen, self.agent_ids, strict=True)],
            self.agent_ids, pad=pad,
        )  # fmt: skip
        acting = [_acting_space(self.sim.get_agent_action_space(a)) for a in self.sim.agents]
        self._actions = ActionRows(acting, self.agent_ids, pad=pad)
        if self._actions.unequal:
            raise ConfigError(
                "env.pad: agents of VMAS have different numbers of choices",
                hint="set env.continuous_actions=true",
            )
        self._widths = [math.prod(space.shape or ()) for space in acting]
        self.single_observation_space = agents_space(rows.space)
        self.single_action_space = self._actions.space
        shape = () if team_reward else (len(self.agent_ids),)
        self.single_reward_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, env_num
        )

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        """Draws from this batch's stream, without a graph."""
        with _STREAM:
            others = _random_states()
            _draw_from(self._random)
            try:
                with torch.inference_mode():
                    yield
            finally:
                self._random = _random_states()
                _draw_from(others)

    def _told(self) -> Any:
        """Returns what the agents of all environments see."""
        found = _plain(self.sim.get_from_scenario)(
            get_observations=True, get_rewards=False, get_infos=False, get_dones=False
        )
        return found[0]

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Floats], Info]:
        """Begins an episode in each environment; the seed is that of all.

        Raises:
            UsageError: there are options.
        """
        if options:
            raise UsageError(f"the reset of VMAS takes no options, got {options}")
        with self._own_random():
            if seed is not None:
                _plain(self.sim.seed)(seed % 2**32)
            return self._seen(_plain(self.sim.reset)()), {}

    def step(
        self, actions: Any
    ) -> tuple[dict[str, Floats], Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_], Info]:
        """Steps all environments.

        Args:
            actions: float32 [N, A, d], or int64 [N, A].

        Returns:
            Observations, rewards [N, A] or [N], terminated [N], truncated [N], and as info what
            agents saw last, `final_obs`, where episodes ended.
        """
        acts = torch.from_numpy(np.array(actions).reshape(self.num_envs, len(self._widths), -1))
        given = [acts[:, agent, :width] for agent, width in enumerate(self._widths)]
        with self._own_random():
            seen, paid, ended, cut, _ = _plain(self.sim.step)(given)
            obs = self._seen(seen)
            reward = torch.stack(paid, 1).float()
            terminated, truncated = ended.numpy().copy(), (cut & ~ended).numpy()
            over = (terminated | truncated).nonzero()[0].tolist()
            info: Info = {"final_obs": obs} if over else {}
            if over:
                obs = self._seen(self._begun(over))
        found = reward.sum(1) if self._team else reward
        return obs, found.numpy(), terminated, truncated, info

    def _begun(self, over: list[int]) -> Any:
        """Begins new episodes; returns what the agents of all environments see."""
        if len(over) == self.num_envs:
            return _plain(self.sim.reset)()
        reset_at = _plain(self.sim.reset_at)
        for number in over:
            reset_at(number, return_observations=False)
        return self._told()

    def _seen(self, seen: Sequence[torch.Tensor]) -> dict[str, Floats]:
        """Returns what agents see, float32 [N, A, D]; shorter vectors end with zeros."""
        shape = self.single_observation_space["obs"].shape or ()
        if all(each.shape[1:] == shape[1:] for each in seen):
            return {"obs": torch.stack([*seen], 1).float().numpy()}
        found = np.zeros((self.num_envs, *shape), np.float32)
        for agent, each in enumerate(seen):
            found[:, agent, : each.shape[1]] = each.numpy()
        return {"obs": found}

    def render(self, mode: str) -> Tree:
        """Returns a picture of the first environment, uint8 [H, W, 3]."""
        with self._own_random():
            return _plain(self.sim.render)(mode=mode, env_index=0)

    def close(self) -> None:
        """Frees nothing: VMAS holds no processes."""


class VmasEnv(gymnasium.Env[Tree, Tree]):
    """One environment of a scenario, a batch of one; see `VmasBatch`.

    Args:
        make: See `VmasBatch`.
        render_mode: `rgb_array`, or None.
        **form: Its other arguments.
    """

    def __init__(self, make: Any, *, render_mode: str | None = None, **form: bool) -> None:
        self._batch, self.render_mode = VmasBatch(make, 1, **form), render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
        self.agent_ids = self._batch.agent_ids
        self.observation_space = self._batch.single_observation_space
        self.action_space = self._batch.single_action_space
        self.reward_space = self._batch.single_reward_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode."""
        super().reset(seed=seed)
        obs, _ = self._batch.reset(seed=seed, options=options)
        return _first(obs), {}

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Steps the environment; an episode that ended goes on with `reset`."""
        obs, reward, ended, cut, info = self._batch.step(np.asarray(action)[None])
        paid = reward[0] if reward.ndim > 1 else float(reward[0])
        return _first(info.get("final_obs", obs)), paid, bool(ended[0]), bool(cut[0]), {}

    def render(self) -> Tree:
        """Returns a picture of the scenario, uint8 [H, W, 3]; None without `render_mode`."""
        if self.render_mode is None:
            return None
        return self._batch.render(self.render_mode)


def _random_states() -> tuple[Any, Any, Any]:
    """Returns the states of all that VMAS draws from."""
    legacy = np.random.get_state()  # noqa: NPY002 - scenarios draw from it
    return torch.random.get_rng_state(), legacy, random.getstate()


def _draw_from(states: Sequence[Any]) -> None:
    torch.random.set_rng_state(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    random.setstate(states[2])


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method of a simulator that draws from the stream that there is."""
    inner = getattr(method, "__wrapped__", None)
    return method if inner is None else partial(inner, method.__self__)  # type: ignore[attr-defined]


def _first(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name: each[0] for name, each in columns.items()}


def _seen_space(seen: Any, name: str) -> spaces.Box:
    if not isinstance(seen, torch.Tensor) or seen.dim() != 2:
        raise ConfigError(
            f"env.env_id: {name} sees {type(seen).__name__}; expected one vector of numbers",
            hint="choose options of the scenario by which agents see vectors (env.make_kwargs)",
        )
    return spaces.Box(-np.inf, np.inf, (seen.shape[1],), np.float32)


def _acting_space(space: Any) -> spaces.Space[Any]:
    """Returns a space of Gym as one of Gymnasium."""
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    return spaces.Box(space.low, space.high, dtype=np.float32)
