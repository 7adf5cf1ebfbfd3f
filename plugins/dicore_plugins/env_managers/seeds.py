"""Which seed an episode gets: a pure function of run seed, role, env id and episode number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from dicore.errors import UsageError
from dicore.run.random import ambient_streams, episode_seed


class EpisodeSeeds:
    """Hands out the seeds of episodes and counts them.

    Args:
        env_num: How many environments there are.
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
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None,
        role: str,
    ) -> None:
        """Sets how seeds are made from now on; see `IEnvManager.seed`.

        Raises:
            UsageError: a list has another length than there are environments, or a dict names an
                environment that there is not.
        """
        dynamic = True if dynamic_seed is None else dynamic_seed
        if isinstance(seed, Integral):
            self._run_seed = seed = int(seed)
            self._literal = {} if dynamic else dict.fromkeys(range(self._env_num), seed)
            self.episodes = [0] * self._env_num
        else:
            self._literal = self._listed(seed)
            self._since = {env_id: self.episodes[env_id] for env_id in self._literal}
        self._role, self._dynamic = role, dynamic

    def _listed(self, seed: Sequence[int] | Mapping[int, int]) -> dict[int, int]:
        """Returns given seeds by environment.

        Raises:
            UsageError: they are no seeds, too few or too many, or for environments that there are
                not.
        """
        if isinstance(seed, Mapping):
            unknown = sorted(set(seed) - set(range(self._env_num)))
            if unknown:
                raise UsageError(f"seeds for environments {unknown}; there are {self._env_num}")
            return {int(env_id): int(value) for env_id, value in seed.items()}
        if isinstance(seed, str) or not hasattr(seed, "__len__"):
            raise UsageError(f"{seed!r} is no seed", hint="an int, a list of ints, or a dict")
        if len(seed) != self._env_num:
            raise UsageError(f"{len(seed)} seeds for {self._env_num} environments")
        return {env_id: int(value) for env_id, value in enumerate(seed)}

    def next(self, env_id: int) -> int:
        """Returns the seed of the next episode of an environment and counts it."""
        episode = self.episodes[env_id]
        self.episodes[env_id] = episode + 1
        if env_id in self._literal:
            seed, since = self._literal[env_id], self._since.get(env_id, 0)
            if not self._dynamic or episode == since:
                return seed
            return episode_seed(seed, "literal", 0, episode - since)
        if self._run_seed is None:
            self._run_seed = ambient_streams().seed
        return episode_seed(self._run_seed, self._role, env_id, episode)

    def rewind(self) -> None:
        """Begins the sequence of episodes again."""
        self.episodes = [0] * self._env_num
        self._since = dict.fromkeys(self._since, 0)

    def state_dict(self) -> dict[str, Any]:
        """Returns seeds and counters."""
        return {
            "run_seed": self._run_seed,
            "role": self._role,
            "dynamic": self._dynamic,
            "literal": [[key, value] for key, value in self._literal.items()],
            "since": [[key, value] for key, value in self._since.items()],
            "episodes": list(self.episodes),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._run_seed, self._role = state["run_seed"], state["role"]
        self._dynamic = state["dynamic"]
        self._literal = dict(state["literal"])
        self._since = dict(state["since"])
        self.episodes = list(state["episodes"])
