"""Options of SAC."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQCollectConfig,
    ContinuousQLearnConfig,
    ContinuousQPolicyConfig,
)
from dicore_plugins.policies.required import unused_options


@frozen(kw_only=True)
class SACLearnConfig(ContinuousQLearnConfig):
    """Options of learning."""

    auto_alpha: bool = option(True, "learn the temperature so that the entropy is target_entropy")
    alpha: float = option(
        1.0, "temperature (weight of the entropy); with auto_alpha the initial one", gt=0
    )
    target_entropy: float | None = option(
        None, "entropy that the learned temperature keeps; None: minus the action values"
    )
    target_entropy_end: float | None = option(None, "target_entropy after its decay; None: as ever")
    target_entropy_decay: int = option(
        10_000, "length of the linear change to target_entropy_end", ge=1, unit="updates"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        names = ("target_entropy", "target_entropy_end", "target_entropy_decay")
        if not self.auto_alpha:
            yield from unused_options(self, "auto_alpha", *names)
        elif self.target_entropy_end is None:
            yield from unused_options(self, "target_entropy_end", names[-1])


@frozen(kw_only=True)
class SACCollectConfig(ContinuousQCollectConfig):
    """Options of collecting."""

    sde_sample_freq: int = option(
        32,
        "env steps for which the weights of the exploration noise are kept, with model.gsde",
        ge=1,
        unit="env steps",
    )


@frozen(kw_only=True)
class SACConfig(ContinuousQPolicyConfig):
    """SAC for continuous actions, with automatic temperature (Haarnoja et al. 2018)."""

    model: ComponentConfig = component("model", default="qac", help="actor and Q networks")
    learn: SACLearnConfig = section(SACLearnConfig)
    collect: SACCollectConfig = section(SACCollectConfig)

    build = builds("dicore_plugins.policies.continuous.sac:SACPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.model is not None and self.model.get("stochastic") is False:
            name = self.type or "sac"
            yield "model.stochastic", f"{name} samples its actions; set it to True"
