"""Options of the algorithms that learn actors of several agents."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.policies.spaces import discrete_options, expect_ends, team_options
from dicore_plugins.policies import (
    A2CCollectConfig,
    A2CConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
    PPOConfig,
    PPOLearnConfig,
    builds,
    unused_options,
)

__all__ = ["COMAConfig", "HAPPOConfig", "IPPOConfig", "MAPPOConfig", "TeamPPOConfig",
           "TeamPPOLearnConfig"]  # fmt: skip

_HOME = "dicore_agents.policies.actor_critic"


def _shapes(cfg: ActorCriticPolicyConfig, spec: EnvSpec) -> dict[str, object]:
    """Returns the options of the model that describe what the team sees."""
    model: Any = cfg.model or {}
    found = team_options(spec, cfg.type, state="state_shape" in model)
    expect_ends(cfg, spec)
    parts = getattr(spec.observation, "spaces", {})
    seen = model.get("critic_input")
    if seen == "state" and "state" not in parts:
        raise ConfigError(
            "policy.model.critic_input: this env gives no state of the team",
            hint="set critic_input=observations; or env.state=true, if the env has a state",
        )
    if seen == "observations":
        found["model.state_shape"] = math.prod(parts["obs"].shape)
    return found


def _action_options(spec: EnvSpec, name: str) -> dict[str, object]:
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

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if self.value_loss != "huber":
            yield from unused_options(self, "value_loss=huber", "huber_delta")


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
    }
    learn: TeamPPOLearnConfig = section(TeamPPOLearnConfig)

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the environment has one agent, or spaces that do not fit, or lacks a state
                that the critic is to see.
        """
        found = _shapes(self, spec)
        return {**found, **_action_options(spec, self.type)}


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


@frozen(kw_only=True)
class HAPPOConfig(TeamPPOConfig):
    """HAPPO: agents of their own networks learn one after another (Kuba et al. 2022)."""

    model: ComponentConfig = component(
        "model", default={"type": "agents_vac", "share": "none"},
        help="network of the agents' actions and values; share=none",
    )  # fmt: skip

    build = builds(f"{_HOME}.happo:HAPPOPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.model is not None and self.model.get("share", "none") != "none":
            yield "model.share", "agents learn one after another, each its own network; set none"
        if self.learn.optimizer.get("weight_decay"):
            yield "learn.optimizer.weight_decay", "would move agents that do not learn; set it to 0"


@frozen(kw_only=True)
class COMALearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    batch_size: int | None = option(
        256, "samples per update of the actors; None: all of a collect", ge=1
    )
    critic_epoch_per_collect: int = option(
        4, "passes of the critic over the samples of a collect, before the actors' update", ge=1
    )
    critic_batch_size: int | None = option(
        64, "samples per update of the critic; None: all of a collect", ge=1
    )


@frozen(kw_only=True)
class COMACollectConfig(A2CCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        256, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    gae_lambda: float = option(
        0.8, "lambda of the returns from which the critic learns, TD(lambda)", ge=0, le=1
    )


@frozen(kw_only=True)
class COMAConfig(A2CConfig):
    """COMA: agents learn by what the team would lack without their action (Foerster 2018)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = TeamPPOConfig.fixed_by_spaces
    reduces: ClassVar[bool] = False
    requires: ClassVar[Any] = {
        **A2CConfig.requires,
        "learn.value_weight": (0.5, "learns values by updates of their own; leave it out"),
    }
    model: ComponentConfig = component(
        "model", default="coma", help="actors, and values of actions"
    )
    learn: COMALearnConfig = section(
        COMALearnConfig, learning_rate=7e-4, adv_norm=True, optimizer={"type": "adam", "eps": 1e-5}
    )
    collect: COMACollectConfig = section(COMACollectConfig)

    build = builds(f"{_HOME}.coma:COMAPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the environment has one agent, or spaces that do not fit.
        """
        return {**_shapes(self, spec), **discrete_options(spec, self.type), "action_start": 0}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.learn.optimizer.get("weight_decay"):
            yield "learn.optimizer.weight_decay", "would move what does not learn; set it to 0"
