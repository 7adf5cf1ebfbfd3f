"""Environments of teams, and what tests of policies make of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything

PAYOFF = np.array([[8, 0, 0], [0, 5, 0], [0, 0, 5]], np.float32)
"""Both agents do best by action 0, if they find it together."""
NAMES = ("left", "middle", "right")


class Mortals(gymnasium.Env):
    """Three agents, of whom one dies by chance at times, with masks, a state and own rewards.

    Action 0 pays most. What dead agents see has no meaning.
    """

    agent_ids = NAMES
    state_space = Box(-1, 1, (2,), np.float32)
    reward_space = Box(-np.inf, np.inf, (3,), np.float32)
    observation_space = Dict(
        obs=Box(-np.inf, np.inf, (3, 4), np.float32),
        alive=MultiBinary(3),
        action_mask=MultiBinary([3, 3]),
        state=state_space,
    )
    action_space: Any = MultiDiscrete([3, 3, 3])
    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self._step, self._alive = 0, np.ones(3, np.int8)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        self._step += 1
        reward = np.where(self._alive, self._paid(action), 0).astype(np.float32)
        if self._alive.sum() > 1 and self.np_random.random() < 0.2:
            self._alive[self.np_random.choice(np.flatnonzero(self._alive))] = 0
        cut = bool(self._step == 5 and self.np_random.random() < 0.3)
        return self._seen(), reward, self._step == 7, cut, {}

    def _paid(self, action: Any) -> Any:
        return 1.0 - action

    def _seen(self) -> Any:
        rows = self.np_random.standard_normal((3, 4)).astype(np.float32)
        mask = np.ones((3, 3), np.int8)
        mask[:, 2] = self._step % 2
        mask[self._alive == 0] = 1
        rows[self._alive == 0] = 9
        state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"obs": rows, "alive": self._alive.copy(), "action_mask": mask, "state": state}


class MovingMortals(Mortals):
    """As `Mortals`, with two numbers per action."""

    observation_space = Dict(
        {key: each for key, each in Mortals.observation_space.items() if key != "action_mask"}
    )
    action_space = Box(-2, 2, (3, 2), np.float32)

    def _paid(self, action: Any) -> Any:
        assert action.shape == (3, 2)
        return -np.abs(action).sum(1)

    def _seen(self) -> Any:
        return {key: each for key, each in super()._seen().items() if key != "action_mask"}


def team_spec(agents: int = 2, actions: int = 3, **more: Any) -> EnvSpec:
    """Returns the spec of a team that sees three numbers each."""
    seen = Dict(obs=Box(-1, 1, (agents, 3), np.float32), **more)
    return EnvSpec(seen, MultiDiscrete([actions] * agents), agents=NAMES[:agents])


def made(name: str, spec: EnvSpec, **options: Any) -> Any:
    """Returns a policy for a spec."""
    cfg = {"policy": {"type": name, **options}}
    policy = bind(compile_config({"env": {"type": "cartpole"}, **cfg}), spec).cfg.policy
    seed_everything(0)
    return policy.build(BuildContext(spec))


def drawn(spec: EnvSpec, count: int, seed: int = 0) -> dict[str, Any]:
    """Draws observations [K, ...] of a team; all agents act, all actions are allowed."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, space in spec.observation.spaces.items():  # type: ignore[attr-defined]
        shape = (count, *space.shape)
        binary = name in ("alive", "action_mask")
        values = np.ones(shape) if binary else rng.uniform(-1, 1, shape)
        found[name] = values.astype(space.dtype)
    return found


def acted(policy: Any, obs: dict[str, Any], reward: Any, **more: Any) -> Batch:
    """Returns samples of one step, which ends the episode, of actions that the policy draws.

    Args:
        policy: A policy.
        obs: Observations [K, ...].
        reward: Returns the rewards of actions [K, A].
        **more: Columns [K, ...] to replace.
    """
    count = len(obs["obs"])
    output = policy.collect_mode.forward(EnvBatch(np.arange(count), obs)).value
    over = np.ones(count, np.bool_)
    columns = {**output, "obs": obs, "reward": reward(output["action"]), "done": over, "end": over}
    block = Batch({key: _in_time(each) for key, each in {**columns, **more}.items()}, 1)
    tail = Tail(obs, np.arange(count), obs, 1)
    samples: Batch = policy.collect_mode.get_train_sample(block, tail)
    return samples


def _in_time(column: Any) -> Any:
    if isinstance(column, dict):
        return {key: each[None] for key, each in column.items()}
    return column[None]


def payoff(action: Any) -> Any:
    """Returns the reward of the team."""
    return PAYOFF[action[:, 0], action[:, 1]]
