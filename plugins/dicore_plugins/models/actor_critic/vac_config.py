"""Options of the actor-critic network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models.shapes import (
    Conv,
    Part,
    conv_option,
    has_images,
    obs_parts_option,
    obs_shape_option,
    shape_problems,
)

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel


@frozen(kw_only=True)
class VACConfig(ComponentConfig):
    """Actor-critic network: discrete, multi-discrete or Gaussian actions, and the value."""

    obs_shape: int | tuple[int, ...] | None = obs_shape_option()
    action_shape: int | tuple[int, ...] | None = option(
        None,
        "number of actions, a number per head, or number of continuous action values; None: read"
        " from the env",
        ge=1,
    )
    continuous: bool | None = option(
        None, "Gaussian actions instead of discrete ones; None: read from the env"
    )
    args_shape: int | None = option(
        None,
        "number of Gaussian arguments of discrete actions (hybrid actions); None: no arguments",
        ge=1,
    )
    encoder_hidden_size_list: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer; for images the layers follow the convolutions", ge=1
    )
    actor_head_hidden_size_list: tuple[int, ...] = option(
        (), "units of each further hidden layer of the actor", ge=1
    )
    critic_head_hidden_size_list: tuple[int, ...] = option(
        (), "units of each further hidden layer of the critic", ge=1
    )
    share_encoder: bool | None = option(
        None, "actor and critic share the encoder; None: for images only"
    )
    rnn: Literal["lstm", "gru"] | None = option(
        None, "recurrent layer after the encoder, which is shared; None: no memory"
    )
    rnn_hidden_size: int = option(64, "units of the recurrent layer", ge=1)
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "tanh", "activation function of the hidden layers; gelu disables collect.act_by_numpy"
    )
    layer_norm: bool = option(False, "normalise each hidden layer before its activation")
    log_std_init: float = option(
        0.0, "initial log standard deviation of continuous actions; lower it for finer actions"
    )
    obs_norm: bool = option(
        False, "normalise observations by running mean and std; set it if their scales differ"
    )
    value_norm: bool = option(
        False, "learn the value of normalised returns; set it if returns are large"
    )
    initial_weights: Literal["orthogonal", "uniform"] = option(
        "orthogonal",
        "weights at first: orthogonal, with actions near 0; or uniform in +-1 / sqrt(inputs), with"
        " actions that depend on the state; try uniform if exploration ends in a weak behaviour",
    )
    conv: Conv = conv_option()
    obs_parts: tuple[Part, ...] | None = obs_parts_option()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        yield from shape_problems(self)
        if self.continuous and isinstance(self.action_shape, tuple):
            yield "action_shape", "continuous actions are one vector; set one number"
        if self.args_shape and (self.continuous or isinstance(self.action_shape, tuple)):
            yield "args_shape", "only one discrete action can have arguments"
        if self.obs_norm and has_images(self.obs_shape, self.obs_parts):
            yield "obs_norm", "images are scaled by the CNN; set it to False"
        if self.rnn is not None and self.share_encoder is False:
            yield "share_encoder", "actor and critic share the recurrent layer; set it to True"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.actor_critic.vac import VAC

        return self.make(VAC)

    def make(self, network: Callable[..., IModel]) -> IModel:
        """Returns a network of a class that takes the options of `VAC`."""
        return network(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            continuous=bool(self.continuous),
            args_shape=self.args_shape,
            encoder_hidden_size_list=self.encoder_hidden_size_list,
            actor_head_hidden_size_list=self.actor_head_hidden_size_list,
            critic_head_hidden_size_list=self.critic_head_hidden_size_list,
            share_encoder=self.share_encoder,
            rnn=self.rnn,
            rnn_hidden_size=self.rnn_hidden_size,
            activation=self.activation,
            layer_norm=self.layer_norm,
            log_std_init=self.log_std_init,
            obs_norm=self.obs_norm,
            value_norm=self.value_norm,
            obs_parts=self.obs_parts,
            conv=self.conv,
            initial_weights=self.initial_weights,
        )
