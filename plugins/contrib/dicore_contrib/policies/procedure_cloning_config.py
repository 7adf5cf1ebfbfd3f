"""Options of procedure cloning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    LearnConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.models import action_start, discrete_shape
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["ProcedureCloningConfig", "ProcedureLearnConfig"]


@frozen(kw_only=True)
class ProcedureLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(64, "samples per gradient update", ge=1)
    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class ProcedureCloningConfig(PolicyConfig):
    """Procedure cloning: imitates how an expert searches, step by step (Yang et al. 2022)."""

    offline: ClassVar[bool] = True
    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from demonstrations; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "priority": (False, "draws demonstrations uniformly; set it to False"),
        "priority_IS_weight": (False, "draws demonstrations uniformly; set it to False"),
        "traj_len_inf": (False, "learns from single steps; set it to False"),
        "nstep": (1, "learns from recorded searches, not from returns; set it to 1"),
        "discount_factor": (0.97, "learns without rewards; leave it out"),
        "learn.ignore_done": (False, "learns without values; leave it out"),
        "collect.unroll_len": (1, "learns from single steps; set it to 1"),
    }

    on_policy: bool = option(False, "False: learns from demonstrations")
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

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
