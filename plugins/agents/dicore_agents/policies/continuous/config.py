"""Options of the algorithms with decentralised actors and centralised Q networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.policies.memory_config import (
    burn_in_option,
    memory_problems,
    unroll_len_option,
)
from dicore_agents.policies.spaces import discrete_options, expect_ends, team_options
from dicore_plugins.models import box_options
from dicore_plugins.policies import (
    ContinuousQCollectConfig,
    ContinuousQPolicyConfig,
    SACLearnConfig,
    TD3CollectConfig,
    TD3Config,
    TD3LearnConfig,
    builds,
    unused_options,
)

__all__ = [
    "MADDPGCollectConfig", "MADDPGConfig", "MADDPGLearnConfig", "MASACConfig", "MASACLearnConfig",
    "MATD3Config", "TeamQACCollectConfig", "TeamQACPolicyConfig",
]  # fmt: skip


def _by_actions(continuous: str, discrete: str) -> Callable[..., Any]:
    """Returns the method `build` that makes one of two policies by `model.discrete`."""
    home = "dicore_agents.policies.continuous"
    makers = builds(f"{home}.{continuous}"), builds(f"{home}.{discrete}")

    def build(self: Any, ctx: Any, **parts: object) -> Any:
        """Makes the policy; `model` replaces the configured network."""
        chosen = self.model is not None and bool(self.model.get("discrete"))
        return makers[chosen](self, ctx, **parts)

    vars(build)["policy_class"] = vars(makers[0])["policy_class"]
    return build


@frozen(kw_only=True)
class TeamQACCollectConfig(ContinuousQCollectConfig):
    """Options of collecting."""

    unroll_len: int = unroll_len_option()
    burn_in: int = burn_in_option()


@frozen(kw_only=True)
class TeamQACPolicyConfig(ContinuousQPolicyConfig):
    """Options that the algorithms share."""

    requires: ClassVar[Any] = {**ContinuousQPolicyConfig.requires, "collect.unroll_len": None}

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *ContinuousQPolicyConfig.fixed_by_spaces,
        *("model.agents", "model.state_shape", "model.discrete"),
    )

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of actions from the spaces.

        Raises:
            ConfigError: the environment has one agent, or spaces that do not fit.
        """
        name = self.type or "this policy"
        found = team_options(spec, name, state="state_shape" in (self.model or ()))
        expect_ends(self, spec)
        if self.model is not None and (sees := self.model.get("critic_sees")) is not None:
            parts: Any = spec.observation
            if sees == "state" and "state" not in parts.spaces:
                raise ConfigError(
                    "policy.model.critic_sees: 'state' needs an environment with a state of the"
                    " team; this env gives observations of the agents alone",
                    hint="set policy.model.critic_sees=observations; or env.state=true, if the env"
                    " has a state",
                )
            key = "obs" if sees == "observations" else "state"
            found["model.state_shape"] = math.prod(parts[key].shape)
        if type(spec.action).__name__ == "MultiDiscrete":
            return {**found, **discrete_options(spec, name), "model.discrete": True}
        return {**found, **_box_options(spec, name), "model.discrete": False}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        yield from memory_problems(self, self.type or "this policy")
        if self.model is None or self.model.get("rnn") is None:
            return
        for path in ("compile", "autocast"):
            if self.learn.get(path):
                yield f"learn.{path}", "recurrent networks are not trained so; leave it out"


def _box_options(spec: EnvSpec, algorithm: str) -> dict[str, object]:
    """Returns the options of a policy for bounded actions [A, k].

    Raises:
        ConfigError: the actions are others.
    """
    found: dict[str, Any] = box_options(spec.action, algorithm=algorithm)
    count, shape = len(spec.agents), tuple(spec.action.shape or ())
    if shape[:1] != (count,):
        raise ConfigError(
            f"policy.type: '{algorithm}' needs actions Box({count}, ...), a row for each agent;"
            f" this env has {' '.join(str(spec.action).split())}",
        )
    return {**found, "model.action_shape": math.prod(shape[1:])}


@frozen(kw_only=True)
class MADDPGLearnConfig(TD3LearnConfig):
    """Options of learning."""

    actor_update_freq: int = option(
        1, "critic updates between updates of the actors and the target network", ge=1
    )
    target_noise: float = option(
        0.0,
        "standard deviation of the noise of continuous target actions (smoothing); 0: none",
        ge=0,
    )
    gumbel_temperature: float = option(
        1.0, "temperature of the softmax whose gradient discrete actions get", gt=0
    )
    logit_penalty: float = option(
        1e-3, "weight of the mean square of the logits of discrete actions in their loss", ge=0
    )


@frozen(kw_only=True)
class MADDPGCollectConfig(TD3CollectConfig):
    """Options of collecting."""

    unroll_len: int = unroll_len_option()
    burn_in: int = burn_in_option()


@frozen(kw_only=True)
class MADDPGConfig(TeamQACPolicyConfig, TD3Config):
    """MADDPG: an actor per agent, critics that see all of them (Lowe et al. 2017)."""

    model: ComponentConfig = component("model", default="maddpg", help="actors and Q networks")
    learn: MADDPGLearnConfig = section(MADDPGLearnConfig)
    collect: MADDPGCollectConfig = section(MADDPGCollectConfig)

    build = _by_actions("maddpg:MADDPGPolicy", "maddpg:DiscreteMADDPGPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other, or have no effect."""
        yield from super().check()
        learn, collect = self.learn, self.collect
        model: Any = self.model or {}
        if model.get("agents") is None:  # the environment is not known yet
            return
        if model.get("discrete"):  # what is without effect for another reason was told
            clip = ("target_noise_clip",) if learn.target_noise else ()
            decay = ("noise_decay",) if collect.noise_end is not None else ()
            without = "continuous actions"
            yield from unused_options(learn, without, "target_noise", *clip, place="learn.")
            yield from unused_options(
                collect, without, "noise", "noise_end", *decay, place="collect."
            )
        else:
            yield from unused_options(
                learn, "discrete actions", "gumbel_temperature", "logit_penalty", place="learn."
            )


@frozen(kw_only=True)
class MATD3Config(MADDPGConfig):
    """MATD3: MADDPG with twin critics, smoothing and delay (Ackermann et al. 2019)."""

    model: ComponentConfig = component(
        "model", default={"type": "maddpg", "num_critics": 2}, help="actors and Q networks"
    )
    learn: MADDPGLearnConfig = section(MADDPGLearnConfig, actor_update_freq=2, target_noise=0.2)


@frozen(kw_only=True)
class MASACLearnConfig(SACLearnConfig):
    """Options of learning."""

    auto_alpha: bool = option(
        True, "learn a temperature for each agent so that its entropy is target_entropy"
    )
    target_entropy: float | None = option(
        None,
        "entropy of each agent that its learned temperature keeps; None: minus the action values,"
        " for discrete actions 0.2 of that of uniform ones (of those that a mask allows)",
    )


@frozen(kw_only=True)
class MASACConfig(TeamQACPolicyConfig):
    """MASAC: soft actor-critic with a critic that sees all agents (Haarnoja et al. 2018)."""

    model: ComponentConfig = component("model", default="masac", help="actors and Q networks")
    learn: MASACLearnConfig = section(MASACLearnConfig)
    collect: TeamQACCollectConfig = section(TeamQACCollectConfig)

    build = _by_actions("masac:MASACPolicy", "masac:DiscreteMASACPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other, and entropies that no actor can have."""
        yield from super().check()
        model: Any = self.model or {}
        if not model.get("discrete") or not model.get("action_shape") or not self.learn.auto_alpha:
            return
        most = math.log(model["action_shape"])
        for name in ("target_entropy", "target_entropy_end"):
            value = self.learn[name]
            if value is not None and not 0 < value <= most + 1e-6:
                yield (
                    f"learn.{name}",
                    f"expected more than 0 and at most {most:.4g}, the entropy of"
                    f" {model['action_shape']} equally likely actions, got {value:g}",
                )
