"""Checks of env managers with all kinds of observation and action spaces."""

from __future__ import annotations

import copy
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from dicore.data import Tree, tree_row
from dicore.errors import EnvStateError
from dicore.testing.compare import copied, difference
from dicore.testing.env_manager.play import ManagerChecks
from dicore.testing.scripted_env import SpacedEnv
from dicore.testing.suite import expect

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 84, 84), np.uint8)
OBSERVATIONS: dict[str, Space] = {
    "image": IMAGE,
    "discrete": spaces.Discrete(5, start=2),
    "dict": spaces.Dict({"image": IMAGE, "inner": spaces.Dict({"vector": VECTOR})}),
    "tuple": spaces.Tuple([VECTOR, spaces.MultiBinary(4)]),
}
ACTIONS: dict[str, Space] = {
    "continuous": VECTOR,
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "hybrid": spaces.Dict({"kind": spaces.Discrete(3), "arguments": VECTOR}),
    "tuple": spaces.Tuple([spaces.Discrete(3), VECTOR]),
}


class SpaceChecks(ManagerChecks):
    """Observations are those of the environments, and actions reach them, in every space."""

    def test_returns_observations_of_every_space(self) -> None:
        """Images, numbers, dicts and tuples are stacked without a change, in steps and resets."""
        self.needs("episode_seed")
        for name, space in OBSERVATIONS.items():
            self._compare(name, space, ACTIONS["multi-discrete"])

    def test_passes_actions_of_every_space(self) -> None:
        """Continuous, multi-discrete, dict (hybrid) and tuple actions reach their environment."""
        self.needs("episode_seed")
        for name, space in ACTIONS.items():
            self._compare(name, VECTOR, space)

    def _compare(self, name: str, observation: Any, action: Tree) -> None:
        make = partial(SpacedEnv, observation, action)
        alone = {env_id: copy.deepcopy(make()) for env_id in range(3)}
        obs = {env_id: env.reset(seed=env_id + 7)[0] for env_id, env in alone.items()}
        with closing(self.make([make] * 3)) as manager:
            manager.seed([7, 8, 9])
            manager.launch()
            for _ in range(4):
                ready = manager.ready_obs
                for env_id in ready:
                    self._same(name, ready[env_id], obs[env_id])
                drawn = manager.random_action()
                expect(set(drawn) == set(ready), f"{name}: actions for {list(drawn)}")
                rewards = {}
                for env_id in drawn:
                    act = tree_row(drawn.value["action"], drawn.position[env_id])
                    obs[env_id], rewards[env_id], *_ = alone[env_id].step(act)
                answer = manager.step(drawn)
                while len(answer) < len(drawn):
                    for env_id in answer:
                        self._same(name, answer[env_id].obs, obs[env_id])
                    try:
                        answer = manager.step({})
                    except EnvStateError:
                        break
                for env_id in answer:
                    self._same(name, answer[env_id].obs, obs[env_id])
                    paid = float(answer[env_id].reward)
                    expect(paid == rewards[env_id], f"{name}: environment {env_id} got another one")

    def _same(self, name: str, found: object, wanted: Any) -> None:
        wanted = copied(wanted)
        wrong = difference(_arrays(found), _arrays(wanted))
        expect(not wrong, f"{name}: the observation differs from the environment's: {wrong}")


def _arrays(value: object) -> object:
    """Returns nested data with an array at each leaf, and lists for tuples."""
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return [_arrays(item) for item in value] if isinstance(value, list | tuple) else np.array(value)
