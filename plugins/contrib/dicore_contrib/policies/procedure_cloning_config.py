"""Options of procedure cloning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_contrib.policies.imitation_config import ImitationConfig, ImitationLearnConfig
from dicore_plugins.models import action_start, discrete_shape
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["ProcedureCloningConfig", "ProcedureLearnConfig"]


@frozen(kw_only=True)
class ProcedureLearnConfig(ImitationLearnConfig):
    """Options of learning."""

    batch_size: int = option(64, "samples per gradient update", ge=1)


@frozen(kw_only=True)
class ProcedureCloningConfig(ImitationConfig):
    """Procedure cloning: imitates how an expert searches, step by step (Yang et al. 2022)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")
    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {
        "traj_len_inf": (False, "learns from single steps; set it to False"),
        "collect.unroll_len": (1, "learns from single steps; set it to 1"),
    }

    model: ComponentConfig = component(
        "model", default="procedure", help="predicts the next step of a search"
    )
    max_steps: int = option(
        64, "steps of a search after which an action is taken even if the agent was not found", ge=1
    )
    agent_plane: int = option(2, "channel of an observation that is 1 where the agent is", ge=0)
    action_start: int = option(0, "lowest action index (`Discrete.start`); read from the env")
    learn: ProcedureLearnConfig = section(ProcedureLearnConfig)
    collect: CollectConfig = section(CollectConfig, n_sample=8)

    build = builds("dicore_contrib.policies.procedure_cloning:ProcedureCloningPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: observations are no planes of cells, or actions not one choice.
        """
        name, shape = self.type or "procedure_cloning", getattr(spec.observation, "shape", None)
        expect_one_agent(name, spec)
        if shape is None or len(shape) != 3 or self.agent_plane >= shape[2]:
            found = " ".join(str(spec.observation).split())
            raise ConfigError(
                f"policy.type: '{name}' needs observations (rows, columns, channels) with the agent"
                f" in channel {self.agent_plane}; this env has {found}",
                hint="choose env=maze, or set policy.agent_plane",
            )
        if type(spec.action).__name__ != "Discrete":
            raise ConfigError(
                f"policy.type: '{name}' needs one discrete action; this env has {spec.action}",
                hint="choose env=maze",
            )
        return {
            "model.obs_shape": tuple(shape),
            "model.action_shape": discrete_shape(spec.action, algorithm=name),
            "action_start": action_start(spec.action),
        }
