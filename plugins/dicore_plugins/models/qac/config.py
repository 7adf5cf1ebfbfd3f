"""Options of the actor and Q networks for continuous actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dicore.config.schema import ComponentConfig, fields_of, frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.shapes import (
    Part,
    mask_problems,
    obs_parts_option,
    obs_shape_option,
    obs_shape_problem,
)

_QAC = "dicore_plugins.models.qac.model:QAC"


@frozen(kw_only=True)
class ActorQModelConfig(ComponentConfig):
    """Options that networks of an actor and Q networks share, for vector observations."""

    obs_shape: int | tuple[int, ...] | None = obs_shape_option()
    actor_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each hidden layer of the actor", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each hidden layer of each Q network", ge=1
    )
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "relu", "activation function of the hidden layers; gelu disables collect.act_by_numpy"
    )
    obs_parts: tuple[Part, ...] | None = obs_parts_option()
    obs_norm: bool = option(
        False,
        "normalise observations by the running mean and variance of the samples of updates; set it"
        " if their numbers differ in scale",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        problem = (
            None
            if self.obs_shape is None
            else obs_shape_problem(self.obs_shape, channels_last=True)
        )
        if problem:
            yield "obs_shape", problem
        elif isinstance(self.obs_shape, tuple) and len(self.obs_shape) == 3:
            yield "obs_shape", f"must be that of a vector, got the image {self.obs_shape!r}"


@frozen(kw_only=True)
class QACConfig(ActorQModelConfig):
    """Actor and Q networks for continuous actions, for vector observations (SAC, TD3, DDPG)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    stochastic: bool = option(
        True, "Gaussian actor (mean and log standard deviation); False: a deterministic actor"
    )
    gsde: bool = option(
        False,
        "exploration noise that depends on the state and is kept for policy.collect.sde_sample_freq"
        " env steps (Raffin et al. 2022); set it if independent noise per step averages out",
    )
    fixed_std: bool = option(
        False, "the standard deviation of actions is learned, but does not depend on the state"
    )
    log_std_init: float = option(
        -3.0,
        "initial log standard deviation: with gsde of the weights of the noise, with fixed_std of"
        " actions",
    )
    num_critics: int = option(2, "number of Q networks, of which targets take the minimum", ge=1)
    critic_layer_norm: bool = option(
        False, "normalise the hidden layers of the Q networks; set it if values diverge"
    )
    critic_dropout: float = option(
        0.0, "probability that an update drops a unit of the Q networks", ge=0, lt=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if self.gsde and not (self.stochastic and self.actor_hidden_size_list):
            yield "gsde", "needs a stochastic actor with a hidden layer"
        if self.fixed_std and (self.gsde or not self.stochastic):
            yield "fixed_std", "needs a stochastic actor without gsde"

    def _without(self, what: str) -> Iterator[tuple[str, str]]:
        """Yields the options that networks of other layers do not have."""
        for name in ("gsde", "fixed_std", "critic_layer_norm", "critic_dropout"):
            if self.get(name):
                yield name, f"is not available with {what}; leave it out"

    build = builds_network(_QAC)


@frozen(kw_only=True)
class CrossQModelConfig(QACConfig):
    """Actor and Q networks with batch renormalisation (Bhatt et al. 2024)."""

    critic_hidden_size_list: tuple[int, ...] = option(
        (1024, 1024), "units of each hidden layer of each Q network", ge=1
    )
    renorm_warm_up: int = option(
        100_000,
        "batches that are normalised by their own statistics alone, before running statistics"
        " correct them",
        ge=0,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from self._without("batch renormalisation")

    build = builds_network(_QAC, renamed={"renorm_warm_up": "renorm"})


@frozen(kw_only=True)
class SimBaModelConfig(QACConfig):
    """Residual actor and Q networks with normalised layers and observations (Lee et al. 2025)."""

    actor_hidden_size_list: tuple[int, ...] = option(
        (128,), "units of each residual block of the actor, all equal", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (512, 512), "units of each residual block of each Q network, all equal", ge=1
    )
    obs_norm: bool = option(
        True, "normalise observations by the running mean and variance of the samples of updates"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from self._without("residual blocks")
        for name in ("actor_hidden_size_list", "critic_hidden_size_list"):
            if len({*self[name]}) != 1:
                yield name, f"expected one block or more of equal size, got {list(self[name])}"

    build = builds_network(_QAC, residual=True)


@frozen(kw_only=True)
class TQCModelConfig(QACConfig):
    """Actor and networks of quantiles of the return (Kuznetsov et al. 2020)."""

    num_critics: int = option(2, "number of networks of quantiles", ge=1)
    num_quantiles: int = option(25, "number of quantiles of each network", ge=1)

    build = builds_network("dicore_plugins.models.qac.distributional:QuantileQAC")


@frozen(kw_only=True)
class D4PGModelConfig(QACConfig):
    """Deterministic actor and the probabilities of fixed returns (Barth-Maron et al. 2018)."""

    stochastic: bool = option(
        False, "Gaussian actor (mean and log standard deviation); False: a deterministic actor"
    )
    num_critics: int = option(1, "number of networks of distributions", ge=1)
    n_atom: int = option(51, "number of atoms of the distribution of returns", ge=2)
    v_min: float = option(-100.0, "lowest return of the distribution; lower ones count as it")
    v_max: float = option(100.0, "highest return of the distribution; higher ones count as it")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if self.v_min >= self.v_max:
            yield "v_min", f"must be < v_max = {self.v_max}, got {self.v_min}"

    build = builds_network("dicore_plugins.models.qac.distributional:CategoricalQAC")


@frozen(kw_only=True)
class IQLModelConfig(QACConfig):
    """Actor, Q networks and a network of the value of states (Kostrikov et al. 2021)."""

    fixed_std: bool = option(
        True, "the standard deviation of actions is learned, but does not depend on the state"
    )
    log_std_init: float = option(-0.5, "initial log standard deviation of actions")

    build = builds_network("dicore_plugins.models.qac.offline:IQLNet")


@frozen(kw_only=True)
class BCQModelConfig(ActorQModelConfig):
    """Q networks, an autoencoder of recorded actions, and an actor (Fujimoto et al. 2019)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    num_critics: int = option(2, "number of Q networks", ge=1)
    vae_hidden_size_list: tuple[int, ...] = option(
        (750, 750), "units of each hidden layer of encoder and decoder of the autoencoder", ge=1
    )
    latent: int | None = option(
        None, "latent numbers of the autoencoder; None: twice the action values", ge=1
    )
    n_candidate: int = option(10, "actions of the autoencoder that acting chooses from", ge=1)
    perturbation: float = option(
        0.05,
        "largest change of an action of the autoencoder by the actor; the range of actions is"
        " [-1, 1]",
        ge=0,
        le=2,
    )

    build = builds_network("dicore_plugins.models.qac.offline:BCQNet")


@frozen(kw_only=True)
class DiscreteSACModelConfig(ActorQModelConfig):
    """Actor and Q networks for discrete actions, for vector observations."""

    action_shape: int | None = option(None, "number of actions; None: read from the env", ge=1)
    num_critics: int = option(2, "number of Q networks, of which targets take the minimum", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from mask_problems(self)

    build = builds_network("dicore_plugins.models.qac.discrete:DiscreteQAC")


@frozen(kw_only=True)
class HybridModelConfig(ActorQModelConfig):
    """Networks for discrete actions with continuous arguments."""

    action_shape: int | None = option(
        None, "number of discrete actions; None: read from the env", ge=1
    )
    args_shape: int | None = option(
        None, "number of continuous arguments; None: read from the env", ge=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from mask_problems(self)

    def shapes(self) -> dict[str, Any]:
        """Returns the arguments that these networks share."""
        return {name: self[name] for name in fields_of(HybridModelConfig) if name != "type"}


@frozen(kw_only=True)
class PADDPGModelConfig(HybridModelConfig):
    """Scores and arguments of all actions, and Q networks (Hausknecht and Stone 2016)."""

    num_critics: int = option(1, "number of Q networks, of which targets take the minimum", ge=1)

    build = builds_network("dicore_plugins.models.qac.hybrid:PADDPG")


@frozen(kw_only=True)
class PDQNModelConfig(HybridModelConfig):
    """Arguments of all actions, and Q values of the actions with them (Xiong et al. 2018)."""

    args_mask: tuple[tuple[int, ...], ...] | None = option(
        None,
        "which arguments each action has, a row of 0 and 1 per action; the Q value of an action"
        " then depends on its own arguments only (MP-DQN); None: on all",
        ge=0,
        le=1,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if problem := args_mask_problem(self.args_mask, self.action_shape, self.args_shape):
            yield "args_mask", problem

    build = builds_network("dicore_plugins.models.qac.hybrid:PDQN")


def args_mask_problem(mask: Any, actions: int | None, args: int | None) -> str | None:
    """Returns why a mask does not fit the numbers of actions and arguments, or None."""
    if mask is None or actions is None or args is None:
        return None
    if [len(row) for row in mask] == [args] * actions:
        return None
    return f"must have {actions} rows (one per action) of {args} numbers (one per argument)"
