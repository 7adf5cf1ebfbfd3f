"""Further middleware that collects: whole episodes, PPOF's form, no exploration."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.errors import UsageError
from dicore.task import OnlineRLContext, middleware
from dicore.task.middleware import Role
from dicore_plugins import collectors
from dicore_plugins.middleware.collect import StepCollector
from dicore_plugins.middleware.learn import cut_at

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector
    from dicore.interfaces.policy import CollectMode
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
        cfg: Any,
        policy: CollectMode,
        env: Any,
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

    def _count(self, ctx: OnlineRLContext, data: Any) -> None:
        ctx.episodes = list(cut_at(data, np.flatnonzero(data["end"]).tolist()))
        ctx.env_step = self.collector.envstep
        ctx.env_episode = self.collector.total_episode_count


def PPOFStepCollector(  # noqa: N802 - DI-engine's name
    seed: int | None, policy: CollectMode, env: Any, n_sample: int, unroll_len: int = 1
) -> StepCollector:
    """Collects a number of samples per step, without a config (DI-engine's PPOF).

    Args:
        seed: Seed for the environments, set before their launch; None: no seed is set.
        policy: Collect mode of the policy.
        env: Env manager; it is launched if it is not running yet.
        n_sample: Samples per step.
        unroll_len: 1; longer sequences are an option of the policy.

    Returns:
        A middleware, see `StepCollector`.

    Raises:
        UsageError: `unroll_len` is not 1.
    """
    if unroll_len != 1:
        raise UsageError(
            f"PPOFStepCollector collects single steps, got unroll_len {unroll_len}",
            hint="set policy.collect.unroll_len and use StepCollector(cfg, policy, env)",
        )
    if seed is not None and env.closed:
        env.seed(seed)
    made = collectors.SampleCollector({"n_sample": n_sample}, env, policy)
    return StepCollector(None, policy, env, collector=made)


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
