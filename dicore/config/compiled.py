"""What compile returns: the frozen config, and where each of its values and parts came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dicore.config.sections import EnvConfig, PipelineConfig, PolicyConfig, RunConfig

__all__ = ["Compiled"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A whole config, checked; reads like its `cfg` (`compiled.policy`, `compiled["policy"]`).

    Args:
        cfg: The frozen config.
        origin: Source of each value by path: `class DQNLearnConfig`, `preset cartpole_dqn`, a file,
            `command line`, `follows env.stop_value`, `env spec`, `spaces`.
        components: Who supplied each component, by the path of its slot.
        references: `${env:NAME}` as it was written, by the path of the value it stood for.
        cpanel: The knobs that the config was made with; None where it has no control panel.
    """

    cfg: RunConfig
    origin: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    cpanel: Mapping[str, Any] | None = None

    @property
    def exp_name(self) -> str | None:
        """Folder of the run, if somebody named it."""
        return self.cfg.exp_name

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.cfg.seed

    @property
    def env(self) -> EnvConfig:
        """The environment's section."""
        return self.cfg.env

    @property
    def policy(self) -> PolicyConfig:
        """The algorithm's section."""
        return self.cfg.policy

    @property
    def pipeline(self) -> PipelineConfig:
        """The pipeline's section."""
        return self.cfg.pipeline

    def __getitem__(self, key: str) -> Any:
        return self.cfg[key]
