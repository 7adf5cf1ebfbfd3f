"""Options of the sample collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector


@frozen(kw_only=True)
class SampleCollectorConfig(ComponentConfig):
    """Collects a number of training samples per call, stepping all environments together."""

    n_sample: int | None = option(
        None, "training samples per collect", ge=1, follows="policy.collect.n_sample"
    )
    collect_print_freq: int = option(
        100, "gradient updates between log lines", ge=1, unit="updates"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialCollector:
        """Returns the collector; `parts` are `env_manager` and `policy` (a collect mode)."""
        from dicore_plugins.collectors.sample.collector import SampleCollector

        return SampleCollector(self, **parts)
