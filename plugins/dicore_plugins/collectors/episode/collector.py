"""Collects whole episodes; see `SampleCollector` for all else.

Shapes: T steps of an episode, `...` one item.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.data import Batch, Row, tree_map
from dicore.errors import UsageError
from dicore.interfaces.policy import CollectMode, Tail, facts_of
from dicore_plugins.collectors.episode.config import EpisodeCollectorConfig
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.functional.samples import transitions

__all__ = ["EpisodeCollector"]


class EpisodeCollector(SampleCollector):
    """Collects whole episodes; see `ISerialCollector`.

    `n_episode` episodes are n // N of each of the N environments, and one more of the first n % N,
    so that environments with short episodes are not over-represented; none begins an episode
    beyond its share. `n_sample` gives at least so many samples of whole episodes. The arguments
    are those of `SerialCollector`.
    """

    config_class = EpisodeCollectorConfig

    def reset_policy(self, policy: CollectMode | None = None) -> None:
        """Uses `policy` from the next step on; steps of the previous one under way are dropped."""
        super().reset_policy(policy)
        self._sample_len = "episode"
        if policy is not None:
            self._n_episode = self._cfg.n_episode or facts_of(policy).n_episode

    def _wanted(self, n_sample: int | None, n_episode: int | None) -> tuple[str, int]:
        if n_sample is None and n_episode is None:
            n_episode = self._n_episode
        return super()._wanted(n_sample, n_episode)

    def collect(  # type: ignore[override] # the unit is another
        self, n_episode: int | None = None, train_iter: int = 0, **options: Any
    ) -> list[list[Row]]:
        """Collects like `collect_batch` and returns the rows of each episode."""
        data = self.collect_batch(n_episode=n_episode, train_iter=train_iter, **options)
        episodes: list[list[dict[str, Any]]] = [[]]
        for row in data.rows():
            episodes[-1].append(row)
            if np.all(row["end"]):
                episodes.append([])
        return [rows for rows in episodes if rows]

    def _samples(self, block: Batch, tail: Tail) -> Any:
        if self._cfg.reward_shaping:
            block = self._shaped(block, tail)
        if self._cfg.get_train_sample:
            return super()._samples(block, tail)
        return transitions(block, tail)

    def _shaped(self, block: Batch, tail: Tail) -> Batch:
        """Returns an episode [T, 1, ...] with the columns that its environment returns."""
        env_id, rows = int(block["env_id"][0, 0]), transitions(block, tail).rows()
        shaped = self._env.reward_shaping(env_id, [dict(row) for row in rows])
        names = [key for key in block.columns if key != "valid"]
        if len(shaped) != len(rows) or not all(key in row for row in shaped for key in names):
            raise UsageError(
                f"env {env_id}: reward_shaping returned {len(shaped)} transitions for {len(rows)},"
                " or transitions without some fields",
                hint="return the transitions that it is given, with other values",
            )
        found = Batch.from_rows([{key: row[key] for key in names} for row in shaped]).columns
        changed = tree_map(
            lambda new, old: np.asarray(new).astype(old.dtype)[:, None],
            found, {key: block[key] for key in names},
        )  # fmt: skip
        return Batch({**changed, "valid": block["valid"]}, len(rows))
