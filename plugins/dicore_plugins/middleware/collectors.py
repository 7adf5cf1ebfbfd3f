"""Further middleware that collects: whole episodes, no exploration."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np

from dicore.config.sections import RunConfig
from dicore.data import Batch
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode
from dicore.task import OnlineRLContext, middleware
from dicore.task.middleware import Role
from dicore_plugins import collectors
from dicore_plugins.middleware.collect import StepCollector
from dicore_plugins.middleware.learn import cut_at

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector
    from dicore.run import Run


@middleware(
    reads=["env_step", "train_iter"],
    writes=["episodes", "env_step", "env_episode"],
    optional=["collect_kwargs"],
    role=Role.COLLECTOR,
)
class EpisodeCollector(StepCollector):
    """Collects `n_episode` whole episodes per step; for all else see `StepCollector`.

    An episode is a `Batch` of its transitions, with `next_obs`; samples of the policy's
    `get_train_sample` if the collector is asked for them.

    Args:
        cfg: The whole compiled config.
        policy: Collect mode of the policy.
        env: Env manager of the collector.
        random_collect_size: Transitions collected by a random policy in the first step, in whole
            episodes; None: `policy.collect.random_collect_size`.
        run: Run that logs statistics and whose stop flag is obeyed; None: neither.
        collector: Collector of whole episodes to use; None: `episode` is created.
        n_episode: Episodes per step; None: `policy.collect.n_episode`, or 1.
    """

    def __init__(
        self,
        cfg: RunConfig,
        policy: CollectMode,
        env: IEnvManager,
        random_collect_size: int | None = 0,
        *,
        run: Run | None = None,
        collector: ISerialCollector | None = None,
        n_episode: int | None = None,
    ) -> None:
        count = n_episode or cfg.policy.collect.n_episode or 1
        if collector is None:
            log = None if run is None else run.log
            collector = collectors.EpisodeCollector({"n_episode": count}, env, policy, log=log)
        super().__init__(cfg, policy, env, random_collect_size, run=run, collector=collector)
        self._n_sample, self._n_episode = None, count

    def _count(self, ctx: OnlineRLContext, data: Batch) -> None:
        ctx.episodes = list(cut_at(data, np.flatnonzero(data["end"]).tolist()))
        ctx.env_step = self.collector.envstep
        ctx.env_episode = self.collector.total_episode_count


def eps_greedy_masker() -> Callable[[OnlineRLContext], Generator[None, None, None]]:
    """Collects without random actions in this step: epsilon 0.

    Returns:
        A middleware: -> collect_kwargs['eps'], removed after the step.
    """

    @middleware(writes=["collect_kwargs"], uses=[], role=Role.COLLECTOR)
    def mask_eps(ctx: OnlineRLContext) -> Generator[None, None, None]:
        ctx.collect_kwargs["eps"] = 0.0
        yield
        ctx.collect_kwargs.pop("eps", None)

    return mask_eps
