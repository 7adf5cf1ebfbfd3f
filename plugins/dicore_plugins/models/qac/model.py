"""Actor and Q networks for continuous actions: of SAC, TD3 and DDPG.

Shapes: B observations, K ready environments, A dimensions of an action, E Q networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore.values import Columns, Tree
from dicore_plugins.models.encoders.ensemble import EnsembleMLP, ResidualMLP
from dicore_plugins.models.encoders.mlp import MLP, ActivationName, Array, applies
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.modes import ActorWithQ
from dicore_plugins.models.qac.config import QACConfig
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part

LOG_STD = (-20.0, 2.0)
"""Range of log standard deviations."""


class QAC(ActorWithQ):
    """Actor and E Q networks over the same observations; actions are in [-1, 1].

    Weights and biases begin uniform in +-1 / sqrt(inputs), as in the code of the papers.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        stochastic: The actor has a mean and a log standard deviation; False: a mean only.
        gsde: The standard deviation depends on features of the state; see `StateDependentActor`.
        fixed_std: The standard deviation does not depend on the state; see `FixedStdActor`.
        log_std_init: Initial log standard deviation, with gsde of the weights of the noise.
        num_critics: E.
        actor_hidden_size_list: Units of each hidden layer of the actor.
        critic_hidden_size_list: Units of each hidden layer of each Q network.
        activation: Activation function of the hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        obs_norm: Normalise observations by running statistics, see the attribute.
        num_outputs: N, outputs of each Q network; a subclass with N > 1 implements `expected`.
        renorm: Normalise the inputs of all layers by `BatchRenorm` with this many batches of
            warm-up; None: do not. The network is then in evaluation mode at first.
        critic_layer_norm: Normalise the hidden layers of the Q networks; see `EnsembleMLP`.
        critic_dropout: Probability of a zero there, in training mode.
        residual: Actor and Q networks are of `ResidualMLP`, with a block per hidden layer.
        type: No effect; with it, `QAC(**cfg.policy.model)` takes a whole section.

    Attributes:
        obs_norm: The running statistics of the observations, or None.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class: Any = QACConfig

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        stochastic: bool = True,
        gsde: bool = False,
        fixed_std: bool = False,
        log_std_init: float = -3.0,
        num_critics: int = 2,
        actor_hidden_size_list: Sequence[int] = (256, 256),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: ActivationName = "relu",
        obs_parts: Sequence[Part] | None = None,
        obs_norm: bool = False,
        num_outputs: int = 1,
        renorm: int | None = None,
        critic_layer_norm: bool = False,
        critic_dropout: float = 0.0,
        residual: bool = False,
        type: str | None = None,  # noqa: A002 - the key of a config
    ) -> None:
        super().__init__()
        width = count_of(action_shape, "action_shape", "action values")
        self.encode = vector_encoder(obs_shape, obs_parts, obs_norm=obs_norm)
        self.stochastic, self._in_parts = stochastic, gsde or fixed_std
        features, outputs = self.encode.features, width * (2 if stochastic else 1)
        sizes = (features, *actor_hidden_size_list, outputs)
        form: dict[str, Any] = {"initial_weights": "uniform"}
        self.actor: Any
        if gsde:
            from dicore_plugins.models.qac.gsde import StateDependentActor

            self.actor = StateDependentActor((*sizes[:-1], width), activation, log_std_init)
        elif fixed_std:
            from dicore_plugins.models.qac.fixed_std import FixedStdActor

            self.actor = FixedStdActor((*sizes[:-1], width), activation, log_std_init)
        elif residual:
            self.actor = ResidualMLP(1, sizes, activation)
        elif renorm is not None:
            self.actor = EnsembleMLP(1, sizes, activation, renorm=renorm, **form)
        else:
            self.actor = MLP(sizes, activation, **form)
        sizes = (features + width, *critic_hidden_size_list, num_outputs)
        form |= {"renorm": renorm, "layer_norm": critic_layer_norm, "dropout": critic_dropout}
        self.critic = (
            ResidualMLP(num_critics, sizes, activation)
            if residual
            else EnsembleMLP(num_critics, sizes, activation, **form)
        )
        if renorm is not None:
            self.eval()

    @property
    def obs_norm(self) -> RunningNorm | None:
        return self.encode.norm

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes the distribution of actions, and the Q values of its squashed mean.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `mean` and (stochastic) `log_std` float32 [B, A], before squashing by tanh; `q_value`
            float32 [B, E]; with gsde also what `StateDependentActor` returns.
        """
        output = self.policy(obs)
        return {**output, **self.critic_of(obs, output["mean"].tanh())}

    def critic_of(self, obs: Tree, action: Tensor) -> dict[str, Tensor]:
        """Computes `q_value` float32 [B, E] of actions [B, A] in [-1, 1]."""
        return {"q_value": self.q(obs, action).T}

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` only."""
        x = self.actor.forward(self.encode.forward(obs))
        if self._in_parts:
            found: dict[str, Tensor] = x
            return found
        if x.dim() == 3:
            x = x.squeeze(0)
        if not self.stochastic:
            return {"mean": x}
        mean, log_std = x.chunk(2, -1)
        return {"mean": mean, "log_std": log_std.clamp(*LOG_STD)}

    def outputs(self, obs: Tree, action: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the outputs of the Q networks for actions in [-1, 1]: float32 [E, B, N].

        Args:
            obs: [B, ...], or a tree of these.
            action: float32 [B, A], or [E, B, A] for other ones of each network.
            frozen: The parameters get no gradient; `action` does.
        """
        features = self.encode.forward(obs)
        if action.dim() == 3:  # of each network
            features = features.expand(len(action), -1, -1)
        return self.critic.forward(torch.cat((features, action), -1), frozen=frozen)

    def q(self, obs: Tree, action: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of actions in [-1, 1]: float32 [E, B]; see `outputs`."""
        return self.expected(self.outputs(obs, action, frozen=frozen))

    def expected(self, outputs: Tensor) -> Tensor:
        """Returns the Q values [E, B] of outputs [E, B, N]."""
        return outputs.squeeze(-1)

    def differentiable(self) -> bool:
        """Returns whether `policy_and_pull` and `q_and_pull` are possible; see `MLP`."""
        plain = isinstance(self.actor, MLP) and isinstance(self.critic, EnsembleMLP)
        parts: Any = (self.actor, self.critic)
        return type(self) is QAC and plain and all(each.differentiable() for each in parts)

    @torch.no_grad()
    def policy_and_pull(self, obs: Tree) -> tuple[dict[str, Tensor], Callable[..., None]]:
        """Computes `policy` without a graph, and how gradients flow back to the actor.

        Returns:
            The outputs, and a function of their gradients, in their order, that overwrites `grad`
            of the actor.
        """
        x, pull_actor = self.actor.forward_and_pull(self.encode.forward(obs))
        if not self.stochastic:
            return {"mean": x}, pull_actor
        mean, raw = x.chunk(2, -1)
        log_std = raw.clamp(*LOG_STD)

        def pull(of_mean: Tensor, of_log_std: Tensor) -> None:
            pull_actor(torch.cat((of_mean, of_log_std * (log_std == raw)), -1))

        return {"mean": mean, "log_std": log_std}, pull

    @torch.no_grad()
    def q_and_pull(self, obs: Tree, action: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        """Computes `q` without a graph, and how gradients flow back.

        Returns:
            float32 [E, B], and a function of its gradient. It overwrites `grad` of the Q networks;
            with `frozen=True` it returns the gradient of the action [B, A] instead.
        """
        features = self.encode.forward(obs)
        outputs, pull_critic = self.critic.forward_and_pull(torch.cat((features, action), -1))

        def pull(grad: Tensor, frozen: bool = False) -> Tensor | None:
            found = pull_critic(grad.unsqueeze(-1), frozen, frozen)
            return None if found is None else found[:, features.shape[1] :]

        return outputs.squeeze(-1), pull

    def act_numpy(self) -> Callable[[Tree], dict[str, Any]] | None:
        """Returns the NumPy form of `policy`, on views of the parameters, or None."""
        if not applies(type(self), "act_numpy", "forward", "policy"):
            return None
        return act_by((self.actor,), self._views, self.encode.by_numpy())

    def _views(self) -> Callable[[Array], dict[str, Any]] | None:
        actor: Callable[[Array], Any] | None = self.actor.by_numpy()
        if actor is None or self._in_parts:
            return actor

        def forward(x: Array) -> Columns:
            x = actor(x)
            if not self.stochastic:
                return {"mean": x}
            mean, log_std = np.split(x, 2, 1)
            return {"mean": mean, "log_std": log_std.clip(*LOG_STD)}

        return forward


class ActorQNet(ActorWithQ):
    """Base class of networks with a deterministic or discrete actor and E Q networks.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        sizes: Outputs of the actor, inputs of the Q networks besides the observation, and outputs
            of each Q network.
        num_critics: E.
        actor_hidden_size_list: Units of each hidden layer of the actor.
        critic_hidden_size_list: Units of each hidden layer of each Q network.
        activation: Activation function of the hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        obs_norm: Normalise observations by running statistics.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        sizes: tuple[int, int, int],
        *,
        num_critics: int = 1,
        actor_hidden_size_list: Sequence[int] = (256, 256),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: ActivationName = "relu",
        obs_parts: Sequence[Part] | None = None,
        obs_norm: bool = False,
    ) -> None:
        super().__init__()
        self.encode = vector_encoder(obs_shape, obs_parts, obs_norm=obs_norm)
        features, (chosen, given, values) = self.encode.features, sizes
        form: dict[str, Any] = {"initial_weights": "uniform"}
        self.actor = MLP((features, *actor_hidden_size_list, chosen), activation, **form)
        widths = (features + given, *critic_hidden_size_list, values)
        self.critic = EnsembleMLP(num_critics, widths, activation, **form)

    @property
    def obs_norm(self) -> RunningNorm | None:
        return self.encode.norm


def vector_encoder(
    obs_shape: int | Sequence[int] | None,
    obs_parts: Sequence[Part] | None,
    *,
    obs_norm: bool = False,
) -> ObsEncoder:
    """Returns the encoder of observations that are not images.

    Raises:
        ConfigError: the shape is that of an image, or missing.
    """
    encoder = ObsEncoder(obs_shape, obs_parts, normalise=obs_norm)
    if encoder.learned:
        raise ConfigError(f"model.obs_shape must be that of a vector, got {obs_shape!r}")
    return encoder


def count_of(number: Any, option: str, what: str) -> int:
    """Returns an option that is a number.

    Raises:
        ConfigError: it is missing or something else.
    """
    if not isinstance(number, int):
        raise ConfigError(f"model.{option} must be the number of {what}, got {number!r}")
    return number


def act_by(
    parts: Sequence[nn.Module], views: Callable[[], Any], encode: Callable[[Any], Array] | None
) -> Callable[[Any], Any] | None:
    """Returns a NumPy forward pass that renews its views after the parameters moved.

    Args:
        parts: The networks in it; the parameters of each move together.
        views: Returns the forward pass of features, on views of the parameters, or None.
        encode: Maps observations to features; None: they cannot be encoded by NumPy.
    """
    if encode is None or not all(hasattr(each, "by_numpy") for each in parts):
        return None
    forward, firsts = views(), [next(each.parameters()) for each in parts]
    pointers = [each.data_ptr() for each in firsts]
    if forward is None:
        return None

    def act(obs: Tree) -> Any:
        nonlocal forward, pointers
        now = [each.data_ptr() for each in firsts]
        if now != pointers:
            forward, pointers = views(), now
        assert forward is not None, "the parameters left the CPU"
        return forward(encode(obs))

    return act
