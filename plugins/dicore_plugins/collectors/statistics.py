"""Statistics of the episodes of a collector."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np


class EpisodeStatistics:
    """Returns and lengths of finished episodes, and the number of samples collected meanwhile.

    Attributes:
        train_sample_count: Samples in this window.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Starts a new window."""
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self.train_sample_count = 0
        self._start = time.perf_counter()

    @property
    def episode_count(self) -> int:
        """Episodes in this window."""
        return len(self._returns)

    def add(self, info: Mapping[str, Any]) -> None:
        """Adds the last info of an episode.

        Args:
            info: `eval_episode_return` and `episode_length` of dicore's managers, or `episode`
                with `r` and `l` of gymnasium's `RecordEpisodeStatistics`; an unknown length counts
                as 0.
        """
        episode = info.get("episode")
        recorded = episode if isinstance(episode, Mapping) else {}
        self._returns.append(float(info.get("eval_episode_return", recorded.get("r", np.nan))))
        self._lengths.append(int(info.get("episode_length", recorded.get("l", 0))))

    def state_dict(self) -> dict[str, Any]:
        """Returns the episodes and the number of samples in this window."""
        return {
            "returns": list(self._returns),
            "lengths": [float(each) for each in self._lengths],
            "train_sample_count": self.train_sample_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; the clock of the window starts now."""
        self.clear()
        self._returns = [float(each) for each in state["returns"]]
        self._lengths = [int(each) for each in state["lengths"]]
        self.train_sample_count = int(state.get("train_sample_count", 0))

    def summary(self) -> dict[str, float]:
        """Returns counts, rates per second, and mean, std, max and min of the returns."""
        seconds = max(time.perf_counter() - self._start, 1e-9)
        returns = np.asarray(self._returns)
        steps, samples = sum(self._lengths), self.train_sample_count
        return {
            "episode_count": float(len(returns)),
            "envstep_count": float(steps),
            "train_sample_count": float(samples),
            "avg_envstep_per_episode": steps / len(returns),
            "avg_train_sample_per_episode": samples / len(returns),
            "avg_envstep_per_sec": steps / seconds,
            "avg_train_sample_per_sec": samples / seconds,
            "avg_episode_per_sec": len(returns) / seconds,
            "collect_time": seconds,
            "reward_mean": float(returns.mean()),
            "reward_std": float(returns.std()),
            "reward_max": float(returns.max()),
            "reward_min": float(returns.min()),
        }

    def report(self, log: Any, totals: Mapping[str, float], train_iter: int) -> None:
        """Logs the statistics and `totals` of this window as scalars and as a line of text.

        Args:
            log: Receives `log_scalars(scalars, env_step=…, train_iter=…)`.
            totals: Counters since the start of the run; `total_envstep_count` is required.
            train_iter: Gradient updates so far.
        """
        scalars = {**self.summary(), **totals}
        env_step = int(totals["total_envstep_count"])
        log.log_scalars(
            {f"collector/{key}": value for key, value in scalars.items()},
            env_step=env_step,
            train_iter=train_iter,
        )
        if hasattr(log, "log_text"):
            log.log_text(
                f"update {train_iter}, env step {env_step}: {scalars['episode_count']:.0f}"
                f" episodes, mean return {scalars['reward_mean']:.6g}"
                f" (std {scalars['reward_std']:.4g}),"
                f" {scalars['avg_envstep_per_episode']:.1f} steps each,"
                f" {scalars['avg_envstep_per_sec']:.0f} env steps/s",
                channel="collector",
            )
