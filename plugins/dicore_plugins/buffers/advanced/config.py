"""Options of the advanced buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dicore.config.schema import Section, frozen, option, section
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import (
    RingConfig,
    alpha_option,
    anneal_option,
    beta_option,
    eps_option,
    kernels_option,
    max_staleness_option,
    max_use_option,
)

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer


__all__ = ["AdvancedConfig", "MonitorConfig", "ThruputConfig"]

_INF = float("inf")


@frozen(kw_only=True)
class RateLimitConfig(Section):
    """Limits on the ratio of pushed to drawn samples."""

    max: float = option(
        _INF, "refuse a push after which pushed / drawn exceeds this; inf: no limit", gt=0
    )
    min: float = option(
        0.0, "refuse a draw after which pushed / drawn is below this; 0: no limit", ge=0
    )


@frozen(kw_only=True)
class ThruputConfig(Section):
    """Slows down the faster of collecting and learning, by refusing pushes or draws."""

    push_sample_rate_limit: RateLimitConfig = section(RateLimitConfig)
    window_seconds: float = option(
        30.0, "the counts of pushed and drawn samples fade to 1 % in this time", gt=0, unit="s"
    )
    sample_min_limit_ratio: float = option(
        1.0, "refuse draws of more than 1/this of the stored samples", ge=1
    )


@frozen(kw_only=True)
class SampledConfig(Section):
    """Log of use, priority and staleness of the drawn samples."""

    average_range: int = option(5, "average over the last draws", ge=1, unit="draws")
    print_freq: int = option(200, "interval of log entries; 0: off", ge=0, unit="draws")


@frozen(kw_only=True)
class PeriodConfig(Section):
    """Log of the numbers of samples pushed, drawn, removed and stored."""

    seconds: float | None = option(60.0, "interval of log entries; None: off", gt=0, unit="s")


@frozen(kw_only=True)
class MonitorConfig(Section):
    """What is logged, as text and as metrics `buffer/…`."""

    sampled_data_attr: SampledConfig = section(SampledConfig)
    periodic_thruput: PeriodConfig = section(PeriodConfig)


@frozen(kw_only=True)
class AdvancedConfig(RingConfig):
    """Prioritized replay (Schaul et al. 2016); limits on use, staleness and throughput."""

    instance_name: str = option("buffer", "first part of the ids of samples in lists")
    replay_buffer_size: int = option(
        4096, "capacity in samples; when full, the oldest sample is overwritten", ge=1
    )
    alpha: float = alpha_option()
    beta: float = beta_option()
    anneal_step: int = anneal_option()
    priority_eps: float = eps_option()
    max_use: float = max_use_option()
    max_staleness: float = max_staleness_option()
    kernels: Literal["auto", "numba", "numpy"] = kernels_option()
    thruput_controller: ThruputConfig = section(ThruputConfig)
    monitor: MonitorConfig = section(MonitorConfig)

    def build(self, ctx: BuildContext | None, **parts: object) -> IBuffer:
        """Creates the buffer."""
        from dicore_plugins.buffers.advanced.buffer import AdvancedReplayBuffer

        return self.filled(AdvancedReplayBuffer(self, **{**self.parts_of(ctx), **parts}))
