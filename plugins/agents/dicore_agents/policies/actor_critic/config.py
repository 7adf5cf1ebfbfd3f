"""Options of the algorithms that learn actors of several agents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, cast

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.policies.spaces import discrete_options, team_options
from dicore_plugins.policies import PPOConfig, PPOLearnConfig, builds

__all__ = ["IPPOConfig", "MAPPOConfig", "TeamPPOConfig", "TeamPPOLearnConfig"]

_HOME = "dicore_agents.policies.actor_critic"


@frozen(kw_only=True)
class TeamPPOLearnConfig(PPOLearnConfig):
    """Options of learning; a sample is a step of the team."""

    value_loss: Literal["mse", "huber"] = option(
        "mse", "loss of the value; huber: large errors count linearly (Yu et al. 2022)"
    )
    huber_delta: float = option(
        10.0, "error from which value_loss=huber is linear, of normalised returns if"
        " model.value_norm", gt=0,
    )  # fmt: skip


@frozen(kw_only=True)
class TeamPPOConfig(PPOConfig):
    """Options that the algorithms share."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PPOConfig.fixed_by_spaces,
        *("model.agents", "model.state_shape"),
    )
    requires: ClassVar[Any] = {
        **PPOConfig.requires,
        "learn.recompute_adv": (False, "computes advantages once; set it to False"),
        "collect.unroll_len": (1, "learns from single steps; set it to 1"),
    }
    recurrent: ClassVar[bool] = False
    learn: TeamPPOLearnConfig = section(TeamPPOLearnConfig)

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the environment has one agent, or spaces that do not fit, or lacks a state
                that the critic is to see.
        """
        name, model = self.type or "mappo", cast("Mapping[str, Any]", self.model or {})
        found = team_options(spec, name, state="state_shape" in model)
        shape, parts = spec.reward_shape, getattr(spec.observation, "spaces", {})
        if shape not in ((), (len(spec.agents),)):
            raise ConfigError(
                f"policy.type: '{name}' needs a reward of the team, or one for each of"
                f" {len(spec.agents)} agents; this env returns rewards {[*shape]}"
            )
        seen = model.get("critic_input")
        if seen == "state" and "state" not in parts:
            raise ConfigError(
                "policy.model.critic_input: this env gives no state of the team",
                hint="set critic_input=observations",
            )
        if seen == "observations":
            found["model.state_shape"] = math.prod(parts["obs"].shape)
        return {**found, **self._action_options(spec, name)}

    def _action_options(self, spec: EnvSpec, name: str) -> dict[str, object]:
        """Returns the options of discrete actions, or of Box [A, ...]."""
        space: Any = spec.action
        several = type(space).__name__ == "Box" and space.dtype.kind == "f"
        if not several or space.shape[:1] != (len(spec.agents),) or len(space.shape) < 2:
            return {**discrete_options(spec, name), "model.continuous": False, "action_start": 0}
        return {
            "model.action_shape": math.prod(space.shape[1:]),
            "model.continuous": True,
            "action_low": tuple(map(float, space.low.ravel())),
            "action_high": tuple(map(float, space.high.ravel())),
            "action_dims": tuple(space.shape),
        }

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from PPOConfig.check(self)


@frozen(kw_only=True)
class IPPOConfig(TeamPPOConfig):
    """IPPO: each agent learns by PPO from what it sees (de Witt et al. 2020)."""

    model: ComponentConfig = component(
        "model", default={"type": "agents_vac", "critic_input": "own"},
        help="network of the agents' actions and values",
    )  # fmt: skip

    build = builds(f"{_HOME}.ppo:TeamPPOPolicy")


@frozen(kw_only=True)
class MAPPOConfig(TeamPPOConfig):
    """MAPPO: PPO with a critic that sees the whole team (Yu et al. 2022)."""

    model: ComponentConfig = component(
        "model", default="agents_vac", help="network of the agents' actions and values"
    )

    build = builds(f"{_HOME}.ppo:TeamPPOPolicy")
