"""Pipelines that learn from demonstrations; their options are those of `serial`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.config.schema import frozen
from dicore.run.env_factory import BuildContext
from dicore_plugins.pipelines.serial.config import SerialConfig

if TYPE_CHECKING:
    from dicore.interfaces.pipeline import IPipeline


@frozen(kw_only=True)
class SerialDemosConfig(SerialConfig):
    """Trains from a dataset and own steps: sqil, rbc, dqfd, r2d3, bco, rlpd; fine-tuning."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.demonstrations.pipeline import DemosPipeline

        return DemosPipeline(self)


@frozen(kw_only=True)
class SerialSQILConfig(SerialDemosConfig):
    """Trains sqil: `serial_demos` by the name that it has in DI-engine."""


@frozen(kw_only=True)
class SerialDQfDConfig(SerialDemosConfig):
    """Trains dqfd: `serial_demos` by the name that it has in DI-engine."""
