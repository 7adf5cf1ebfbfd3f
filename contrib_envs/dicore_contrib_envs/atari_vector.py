"""The manager of the vector env of the package `ale_py`: Atari games in C++ threads.

Shapes: N environments, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from dicore.data import Tree
from dicore.errors import MissingDependencyError, UsageError
from dicore_contrib_envs.atari_vector_config import AleVectorConfig
from dicore_contrib_envs.atari_vector_options import GameOptions, options_of, usual_options
from dicore_plugins.env_managers import SAME_STEP, VectorEnvManager, VectorPool

__all__ = ["AleVectorManager"]

_SEEDS: Final = 2**31
"""Seeds of the emulator are int32."""


class Games:
    """An `AtariVectorEnv` whose episodes may end at a lost life while the game goes on.

    Args:
        vec: The vector env, which resets in the step that ends a game.
        clip: Bounds of the rewards; None: they are not clipped.
    """

    def __init__(self, vec: Any, clip: tuple[float, float] | None = None) -> None:
        self._vec, self._clip = vec, clip
        self.num_envs: int = vec.num_envs
        self.single_observation_space = vec.single_observation_space
        self.single_action_space = vec.single_action_space
        self.close = vec.close
        self._lives = np.zeros(self.num_envs, np.int32)

    def reset(self, seeds: Sequence[int]) -> Tree:
        """Begins a game in each environment; returns uint8 [N, ...]."""
        obs, info = self._vec.reset(seed=np.array([seed % _SEEDS for seed in seeds]))
        self._lives = np.array(info["lives"])
        return obs

    def step(self, actions: Tree) -> tuple[Tree, Tree, Tree, Tree, Mapping[str, Tree]]:
        """Steps all games; `final_obs` has the last frames of the episodes that ended."""
        obs, reward, terminated, truncated, info = self._vec.step(actions)
        before, lives = self._lives, np.array(info["lives"])
        self._lives = lives
        if self._clip is not None:
            reward = np.clip(reward, *self._clip)
        if (terminated | truncated).any():
            # of a game that goes on, `ale_py` returns other memory as its last frames
            goes_on = terminated & ~truncated & (lives > 0) & (lives < before)
            final = np.where(goes_on.reshape(-1, *[1] * (obs.ndim - 1)), obs, info["final_obs"])
            left = np.where(goes_on, lives, np.where(truncated, before, 0))
            info = {**info, "final_obs": final, "final_info": {"lives": left}}
        return obs, reward, terminated, truncated, info


class AleVectorPool(VectorPool):
    """The games of one `AtariVectorEnv`, each with its own seed; see `VectorPool`."""

    mode, seeds_each = SAME_STEP, True

    @cached_property
    def game(self) -> GameOptions:
        """What the section of the environments and its wrappers ask for.

        Raises:
            ConfigError: they are no Atari games, or a wrapper cannot be done by `ale_py`.
            UsageError: they have different options.
        """
        sections = [getattr(each, "env", None) for each in self.env_fn.values()]
        if any(each != sections[0] for each in sections):
            raise UsageError(
                "the environments of a vector env have different options",
                hint="set env.manager.type=base",
            )
        _vector_env()
        if sections[0] is None and self.cfg.task_id is not None:
            return usual_options(self.cfg.task_id)
        return options_of(sections[0])

    @cached_property
    def _make(self) -> Callable[[int], Games]:
        def make(env_num: int) -> Games:
            game = self.game
            options = {**game.arguments, "num_threads": self.cfg.num_threads}
            made = _vector_env()(
                game.name, env_num, autoreset_mode=SAME_STEP, reward_clipping=False, **options
            )
            return Games(made, None if game.returns_unclipped else game.clip)

        return make

    def begin(self, seeds: Sequence[int], options: object, reseed: bool) -> object:
        """Begins a game in each environment.

        Raises:
            UsageError: there are options.
        """
        if options:
            raise UsageError(f"the reset of Atari games takes no options, got {options}")
        return self.vec.reset(seeds)

    def described(self) -> tuple[str, Tree]:
        """Returns the name for messages; observations are arrays."""
        return f"the AtariVectorEnv of {self.game.name}", None


class AleVectorManager(VectorEnvManager):
    """Steps the vector env of `ale_py`; see `VectorEnvManager`.

    The first game of each environment has the manager's seed, the next ones the emulator's own.
    Frames are the maximum of two gray frames; `max_and_skip` takes that of each colour.
    """

    config_class = AleVectorConfig
    pool_class = AleVectorPool
    _pool: AleVectorPool

    def _advance(self, actions: Tree) -> tuple[Tree, Tree, Tree, Tree, Mapping[str, Tree]]:
        obs, reward, terminated, truncated, info = super()._advance(actions)
        game = self._pool.game
        if game.clip is not None and game.returns_unclipped:
            reward = np.clip(reward, *game.clip)
        return obs, reward, terminated, truncated, info


def _vector_env() -> Any:
    """Returns the class of the vector env, and registers the games.

    Raises:
        MissingDependencyError: `ale_py` is not installed, or is too old.
    """
    try:
        import ale_py
        import gymnasium
        from ale_py.vector_env import AtariVectorEnv
    except ImportError as error:
        raise MissingDependencyError(
            f"the manager ale_vector needs a package that is not installed: {error}",
            hint="pip install 'dicore-contrib-envs[atari-vector]'",
        ) from error
    gymnasium.register_envs(ale_py)
    return AtariVectorEnv
