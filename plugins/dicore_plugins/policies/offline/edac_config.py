"""Options of EDAC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import SACConfig, SACLearnConfig
from dicore_plugins.policies.offline import options


@frozen(kw_only=True)
class EDACLearnConfig(SACLearnConfig):
    """Options of learning."""

    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    diversity: float = option(
        1.0,
        "weight of the term that makes the gradients of the Q networks differ; 0: SAC-N, which"
        " needs more networks",
        ge=0,
    )


@frozen(kw_only=True)
class EDACConfig(SACConfig):
    """SAC from a dataset with the least of many, diverse Q networks (An et al. 2021)."""

    offline: ClassVar[bool] = True

    model: ComponentConfig = component(
        "model", default={"type": "qac", "num_critics": 10}, help="actor and Q networks"
    )
    learn: EDACLearnConfig = section(EDACLearnConfig)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.learn.diversity and getattr(self.model, "num_critics", 2) < 2:
            yield "model.num_critics", "one network has no diversity; expected 2 or more"
        if self.learn.diversity and self.learn.compile:
            reason = "gradients of gradients are not compiled (torch.compile)"
            yield "learn.compile", f"{reason}; leave it out, or set learn.diversity=0"

    build = builds("dicore_plugins.policies.offline.edac:EDACPolicy")


@frozen(kw_only=True)
class SACNConfig(EDACConfig):
    """SAC-N: SAC from a dataset with the least of many Q networks (An et al. 2021): `edac`."""

    model: ComponentConfig = component(
        "model", default={"type": "qac", "num_critics": 20}, help="actor and Q networks"
    )
    learn: EDACLearnConfig = section(EDACLearnConfig, diversity=0.0)
