"""Options of TQC."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import SACConfig, SACLearnConfig


@frozen(kw_only=True)
class TQCLearnConfig(SACLearnConfig):
    """Options of learning."""

    top_quantiles_to_drop: int = option(
        2,
        "largest quantiles of the target to drop, for each network; raise it if values are"
        " overestimated",
        ge=0,
    )


@frozen(kw_only=True)
class TQCConfig(SACConfig):
    """SAC with quantiles of the return, of which targets drop the largest (Kuznetsov 2020)."""

    model: ComponentConfig = component(
        "model", default="tqc", help="actor and networks of quantiles"
    )
    learn: TQCLearnConfig = section(TQCLearnConfig)

    build = builds("dicore_plugins.policies.continuous.tqc:TQCPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from SACConfig.check(self)
        quantiles = None if self.model is None else self.model.get("num_quantiles")
        if quantiles is not None and self.learn.top_quantiles_to_drop >= quantiles:
            yield (
                "learn.top_quantiles_to_drop",
                f"must be < {quantiles}, model.num_quantiles, got"
                f" {self.learn.top_quantiles_to_drop}",
            )
