"""Collectors for two policies that act in one environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, Columns, State, StateDict, Tree
from dicore.errors import UsageError
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode
from dicore.run import LogHub
from dicore_compat.collectors.battle.config import (
    BattleEpisodeCollectorConfig,
    BattleSampleCollectorConfig,
)
from dicore_compat.collectors.battle.sides import are_two, joint_collect_mode, sides_of
from dicore_plugins.collectors.episode.collector import EpisodeCollector
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.functional.samples import transitions

__all__ = ["BattleEpisodeCollector", "BattleSampleCollector"]


class BattleSampleCollector:
    """Collects with a policy for each of two agents; see `SampleCollector` for all else.

    `collect` returns two lists of samples. `collect_batch` returns one batch, whose columns
    `side_0` and `side_1` have those of each side (`sides_of`). With one collect mode instead of two
    it is the collector of single policies.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps environments with observations [2, ...] and rewards [2].
        policy: A list of two collect modes, or one mode.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.
    """

    config_class: ClassVar[type[ComponentConfig]] = BattleSampleCollectorConfig
    _inner_class: ClassVar[Any] = SampleCollector

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        env_manager: IEnvManager | None = None,
        policy: CollectMode | None = None,
        *,
        log: LogHub | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._two = False
        self._inner = self._inner_class(self._cfg, log=log)
        self._inner.shown_as = type(self).__name__
        if policy is not None:
            self.reset_policy(policy)
        if env_manager is not None:
            self._inner.reset_env(env_manager)

    @classmethod
    def default_config(cls) -> Columns:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    @property
    def envstep(self) -> int:
        """Env steps collected so far; a step of both agents counts once."""
        return int(self._inner.envstep)

    @envstep.setter
    def envstep(self, value: int) -> None:
        self._inner.envstep = value

    @property
    def total_episode_count(self) -> int:
        """Episodes collected so far."""
        return int(self._inner.total_episode_count)

    @property
    def trajectory_end_idx(self) -> Any:
        """int64 [E]: the samples of the last call that end an episode, or are an env's last."""
        return self._inner.trajectory_end_idx

    def collect(self, n_sample: int | None = None, train_iter: int = 0, **options: object) -> Any:
        """Collects like `collect_batch`.

        Returns:
            Two lists of rows, one per side; of a single policy, one list.
        """
        if not self._two:
            return self._inner.collect(n_sample, train_iter, **options)
        data = self.collect_batch(n_sample=n_sample, train_iter=train_iter, **options)
        return tuple(side.rows() for side in sides_of(data))

    def collect_batch(self, **options: object) -> Batch:
        """Collects samples of both sides, see `ISerialCollector`."""
        data: Batch = self._inner.collect_batch(**options)
        return data

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Resets the manager, or launches and uses another one."""
        self._inner.reset_env(env)

    def reset_policy(self, policy: CollectMode | None = None) -> None:
        """Resets the policies, or uses others: a list of two collect modes, or one mode."""
        if policy is not None and are_two(policy):
            policy, self._two = self._joint(policy), True
        elif policy is not None:
            self._two = False
        self._set_options()
        self._inner.reset_policy(policy)

    def _set_options(self) -> None:
        """Adapts the options of the collector to one or two policies."""

    def reset(self, policy: CollectMode | None = None, env: IEnvManager | None = None) -> None:
        """Resets policies, environments and counters, and drops partial trajectories."""
        if policy is not None:
            self.reset_policy(policy)
        self._inner.reset(None, env)

    def _joint(self, policy: Any) -> Any:
        return joint_collect_mode(policy)

    def state_dict(self) -> StateDict:
        """Returns counters, unfinished trajectories, and the policies' memory."""
        state: dict[str, Any] = self._inner.state_dict()
        return state

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._inner.load_state_dict(state)

    def close(self) -> None:
        """Closes the environments; later calls do nothing."""
        self._inner.close()


class BattleEpisodeCollector(BattleSampleCollector):
    """Collects whole episodes with a policy for each of two agents.

    `collect` returns two lists of episodes. All else is as in `EpisodeCollector` and
    `BattleSampleCollector`.
    """

    config_class: ClassVar[type[ComponentConfig]] = BattleEpisodeCollectorConfig
    _inner_class: ClassVar[Any] = EpisodeCollector

    def collect(  # type: ignore[override] # the unit is another
        self, n_episode: int | None = None, train_iter: int = 0, **options: object
    ) -> Any:
        """Collects like `collect_batch`.

        Returns:
            Two lists of episodes, one per side; of a single policy, one list.
        """
        if not self._two:
            return self._inner.collect(n_episode, train_iter, **options)
        data = self.collect_batch(n_episode=n_episode, train_iter=train_iter, **options)
        found: tuple[list[Any], list[Any]] = ([], [])
        for side, episodes in zip(sides_of(data), found, strict=True):
            rows: list[Any] = []
            for row in side.rows():
                rows.append(row)
                if row["end"]:
                    episodes.append(rows)
                    rows = []
        return found

    def _set_options(self) -> None:
        options = {"get_train_sample": True} if self._two else {}
        self._inner._cfg = attrs.evolve(self._cfg, **options)  # noqa: SLF001 - its wrapper

    def _joint(self, policy: Any) -> Any:
        if self._cfg.reward_shaping:
            raise UsageError(
                "reward_shaping is for one policy, and a battle has two",
                hint="set reward_shaping=false, and shape the rewards in the environment",
            )
        return joint_collect_mode(policy, None if self._cfg.get_train_sample else _transitions)


def _transitions(mode: Any, *rows: Tree) -> Batch:
    return transitions(*rows)
