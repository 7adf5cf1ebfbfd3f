"""Options of TRPO and of the natural policy gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
)
from dicore_plugins.policies.actor_critic.ppo_config import PPOCollectConfig
from dicore_plugins.policies.required import unused_options

__all__ = ["NPGConfig", "NPGLearnConfig", "TRPOConfig", "TRPOLearnConfig"]


@frozen(kw_only=True)
class TRPOLearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    learning_rate: float = option(
        1e-3, "learning rate of the values; the policy has none", gt=0, lt=float("inf")
    )
    batch_size: int | None = option(
        128, "samples per gradient update of the values; None: all of a collect", ge=1
    )
    value_epoch: int = option(
        10, "passes of the values over the samples of a collect; 0: they do not learn", ge=0
    )
    adv_norm: bool = option(
        True, "normalise the advantages of a collect to mean 0 and standard deviation 1"
    )
    target_kl: float = option(
        0.01, "bound of the mean KL divergence between the policy before and after a collect", gt=0
    )
    cg_iterations: int = option(
        15, "iterations of the conjugate gradient, each a product with the Fisher matrix", ge=1
    )
    cg_damping: float = option(
        0.1, "multiple of the identity that is added to the Fisher matrix", ge=0
    )
    line_search_steps: int = option(
        10, "steps that are tried, each shorter, until one improves within the bound", ge=1
    )
    line_search_shrink: float = option(
        0.8, "length of a step as a fraction of the one tried before", gt=0, lt=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if not self.line_search_steps:
            yield from unused_options(self, "line_search_steps", "line_search_shrink")
        if not self.value_epoch:
            names = ("batch_size", "learning_rate", "max_grad_norm")
            yield from unused_options(self, "value_epoch", *names)


@frozen(kw_only=True)
class TRPOConfig(ActorCriticPolicyConfig):
    """TRPO: natural gradients within a trust region (Schulman et al. 2015)."""

    reduces: ClassVar[bool] = False
    one_learner: ClassVar[str] = "moves the policy by no averaged gradients"
    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {
        "learn.value_weight": (0.5, "learns values by updates of their own; leave it out"),
        "collect.n_episode": (None, "collects samples; use collect.n_sample"),
    }

    learn: TRPOLearnConfig = section(TRPOLearnConfig)
    collect: PPOCollectConfig = section(PPOCollectConfig)

    build = builds("dicore_plugins.policies.actor_critic.trpo:TRPOPolicy")


@frozen(kw_only=True)
class NPGLearnConfig(TRPOLearnConfig):
    """Options of learning; the first step is taken."""

    line_search_steps: int = option(
        0, "steps that are tried; 0: the first one is taken as it is", ge=0
    )


@frozen(kw_only=True)
class NPGConfig(TRPOConfig):
    """Natural policy gradient: steps of a given KL divergence, not tried (Kakade 2001)."""

    learn: NPGLearnConfig = section(NPGLearnConfig)
