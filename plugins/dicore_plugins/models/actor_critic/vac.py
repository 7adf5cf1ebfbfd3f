"""Actor-critic network (Mnih et al. 2016, arXiv:1602.01783), with the details that PPO needs.

Orthogonal initial weights, gain sqrt(2) for hidden layers, 0.01 for the actor's last layer and 1
for the critic's (Engstrom et al. 2020, arXiv:2005.12729; Andrychowicz et al. 2021,
arXiv:2006.05990). The standard deviation of continuous actions does not depend on the state.

Shapes: T steps, B observations, K ready environments, A actions or dimensions, F features, S
elements of a recurrent state, E ends of episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree, tree_map
from dicore.errors import ConfigError
from dicore_plugins.models.actor_critic.vac_config import VACConfig
from dicore_plugins.models.encoders.mlp import (
    MLP,
    ActivationName,
    Array,
    InitialWeights,
    applies,
    initialise,
)
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.encoders.recurrent import Recurrent, RNNName, flat_time
from dicore_plugins.models.modes import Mode, check_mode
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part, action_shape_problem

NUMPY_LIMIT = 2**18
"""Batch size times weights of the largest layer up to which NumPy is faster than torch."""


class VAC(nn.Module):
    """Actor and critic, with separate networks or a shared encoder.

    Args:
        obs_shape: An int or 1-tuple for vectors, (channels, height, width) for images; unused if
            `obs_parts` is given.
        action_shape: Number of actions, a list with one number per head, or the number of
            continuous action values.
        continuous: Gaussian actions.
        args_shape: Number of Gaussian arguments of a discrete action (hybrid actions); None: no
            arguments.
        encoder_hidden_size_list: Units of each hidden layer; for images after the convolutions.
        actor_head_hidden_size_list: Units of each further hidden layer of the actor.
        critic_head_hidden_size_list: Units of each further hidden layer of the critic.
        share_encoder: Actor and critic share the encoder; None: for images, and with `rnn`.
        rnn: `lstm` or `gru` after the encoder, which is shared; None: no memory.
        rnn_hidden_size: Units of the recurrent layer.
        activation: Activation function of the hidden layers.
        layer_norm: Normalise each hidden layer before its activation function.
        log_std_init: Initial log standard deviation of continuous actions.
        obs_norm: Normalise observations by running statistics.
        initial_weights: `orthogonal` with gain 0.01 for the actions, or `uniform`; see `MLP`.
        type: No effect; with it, `VAC(**cfg.policy.model)` takes a whole section.
        value_norm: The critic learns normalised values; `value` is in units of the reward.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        conv: Name of the CNN for images; see `image_encoder`.

    Attributes:
        value_norm: `RunningNorm` of the returns, or None; whoever trains updates it.
        rnn: The recurrent layer, or None. Its state is zero before the first step of an episode.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = VACConfig
    values_per_action: ClassVar[bool] = False
    """Whether the critic has one output per action; a subclass may set it."""

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | Sequence[int] | None,
        *,
        continuous: bool = False,
        args_shape: int | None = None,
        encoder_hidden_size_list: Sequence[int] = (64, 64),
        actor_head_hidden_size_list: Sequence[int] = (),
        critic_head_hidden_size_list: Sequence[int] = (),
        share_encoder: bool | None = None,
        rnn: RNNName | None = None,
        rnn_hidden_size: int = 64,
        activation: ActivationName = "tanh",
        layer_norm: bool = False,
        log_std_init: float = 0.0,
        obs_norm: bool = False,
        value_norm: bool = False,
        obs_parts: Sequence[Part] | None = None,
        conv: str = "auto",
        initial_weights: InitialWeights = "orthogonal",
        type: str | None = None,  # noqa: A002 - the key of a config
    ) -> None:
        super().__init__()
        problem = action_shape_problem(action_shape)
        if problem or action_shape is None:
            raise ConfigError(f"model.action_shape {problem}")
        if continuous and not isinstance(action_shape, int):
            raise ConfigError("model.action_shape: continuous actions are one vector")
        self.sizes = None if isinstance(action_shape, int) else [int(n) for n in action_shape]
        width = action_shape if isinstance(action_shape, int) else sum(action_shape)
        gaussian = width if continuous else args_shape or 0
        self._discrete = width if args_shape else None
        self.encode = ObsEncoder(obs_shape, obs_parts, normalise=obs_norm, conv=conv)
        self.value_norm = RunningNorm(1) if value_norm else None
        shared = self.encode.learned if share_encoder is None else share_encoder
        if rnn is not None and share_encoder is False:
            raise ConfigError("model.share_encoder: actor and critic share the recurrent layer")
        shared = shared or rnn is not None
        self.critic_encode = (
            ObsEncoder(obs_shape, obs_parts, conv=conv)
            if self.encode.learned and not shared
            else None
        )
        trunk = (self.encode.features, *encoder_hidden_size_list)
        form: dict[str, Any] = {"activation": activation, "layer_norm": layer_norm}
        form["initial_weights"] = initial_weights
        self.encoder = MLP(trunk, activate_output=True, **form) if shared else None
        self.rnn = None if rnn is None else Recurrent(trunk[-1], rnn_hidden_size, rnn)
        below = trunk if not shared else trunk[-1:] if rnn is None else (rnn_hidden_size,)
        self.actor = MLP((*below, *actor_head_hidden_size_list, width + (args_shape or 0)), **form)
        outputs = width if self.values_per_action else 1
        self.critic = MLP((*below, *critic_head_hidden_size_list, outputs), **form)
        self.log_std = nn.Parameter(torch.full((gaussian,), log_std_init)) if gaussian else None
        for part, last in ((self.encoder, math.sqrt(2)), (self.actor, 0.01), (self.critic, 1.0)):
            if part is not None and initial_weights == "orthogonal":
                orthogonal(part, last)

    @property
    def _parts(self) -> tuple[Any, Any, Any, Any, Any]:
        """Encoder, hidden layers (or None), actor, critic, and its own encoder (or None)."""
        modules: Any = self._modules  # a tenth of the time of `self.encode`
        return (
            modules["encode"],
            modules.get("encoder"),
            modules["actor"],
            modules["critic"],
            modules.get("critic_encode"),
        )

    @property
    def obs_norm(self) -> RunningNorm | None:
        """Statistics of the observations, or None; whoever trains updates them."""
        return self.encode.norm

    def forward(
        self, obs: Tree, hidden: Tensor | None = None, mode: Mode = "compute_actor_critic"
    ) -> Columns:
        """Computes the distribution of actions and the value.

        Args:
            obs: [B, ...]; vectors of any numeric dtype (other shapes are flattened), images uint8
                (0 to 255) or floats, categories as integers; or a tree of these.
            hidden: float32 [B, S]; the state of the recurrent layer before the step; None: zeros.
            mode: `compute_actor` or `compute_critic` compute only their part.

        Returns:
            `logit` float32 [B, A] (a list with one per head), or `mean` and `log_std` [B, A], or
            for hybrid actions all three; and `value` float32 [B]. With a recurrent layer also the
            next state, `hidden`.

        Raises:
            UsageError: the mode is unknown.
        """
        check_mode(mode)
        if self.rnn is not None:
            x, state = self.rnn.forward(self._trunk(obs), hidden)
            return {**self._of_features(x, mode), "hidden": state}
        if mode == "compute_critic":
            return {"value": self.v(obs)}
        encode, encoder, actor, critic, critic_encode = self._parts
        x = encode.forward(obs)
        x = x if encoder is None else encoder.forward(x)
        output = self._distribution(actor.forward(x))
        if mode != "compute_actor":
            seen = x if critic_encode is None else critic_encode.forward(obs)
            output["value"] = self._scaled(critic.forward(seen))
        return output

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible; parameters need their `grad`."""
        parts = [each for each in self._parts[1:4] if each is not None]
        own = applies(type(self), "forward_and_pull", "forward", "_distribution", "_scaled")
        plain = own and self.rnn is None and not self.encode.learned and not _hooked(self)
        return plain and all(isinstance(each, MLP) and each.differentiable() for each in parts)

    def forward_and_pull(self, obs: Tree) -> tuple[dict[str, Any], Callable[..., None]]:
        """Computes `forward` and returns how gradients flow back, without a graph of the layers.

        Args:
            obs: As for `forward`.

        Returns:
            The outputs, which are functions of leaves of the graph; and a function that overwrites
            `grad` of all parameters of the layers. It is called after `backward` of a loss of the
            outputs; or, for one discrete action, with the derivatives of the loss: `logit` float32
            [B, A] and `value` [B].
        """
        with torch.no_grad():
            x = self.encode.forward(obs)
        pull_trunk: Any = None
        if self.encoder is not None:
            x, pull_trunk = self.encoder.forward_and_pull(x)
        actor, pull_actor = self.actor.forward_and_pull(x)
        critic, pull_critic = self.critic.forward_and_pull(x)
        actor.requires_grad_()
        critic.requires_grad_()
        output = {**self._distribution(actor), "value": self._scaled(critic)}

        def pull(slopes: Mapping[str, Tensor] | None = None) -> None:
            if slopes is not None:
                norm, value = self.value_norm, slopes["value"]
                actor.grad = slopes["logit"]
                critic.grad = (value if norm is None else value * norm.std).unsqueeze(1)
            wanted = pull_trunk is not None
            found: Tree = [
                each(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad, wanted)
                for each, leaf in ((pull_actor, actor), (pull_critic, critic))
            ]
            if wanted:
                pull_trunk(found[0] + found[1])

        return output, pull

    def unroll(self, obs: Tree, hidden: Tensor | None = None, end: Tensor | None = None) -> Columns:
        """Computes distributions and values of sequences, with the recurrent layer.

        Args:
            obs: [T, B, ...].
            hidden: float32 [B, S]; the state before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step: the next one starts from zeros.

        Returns:
            The outputs of `forward`, [T, B, ...]; `hidden` [B, S] after the last step; and `ended`
            [E, S], the states after the steps that end an episode, step by step, from which
            `forward` computes the values of their last observations.
        """
        assert self.rnn is not None
        flat, shape = flat_time(obs)
        found = self.rnn.unroll(self._trunk(flat).unflatten(0, shape), hidden, end)
        outputs = self._of_features(found.output.flatten(0, 1), "compute_actor_critic")
        outputs = tree_map(lambda leaf: leaf.unflatten(0, shape), outputs)
        return {**outputs, "hidden": found.state, "ended": found.ended}

    def _trunk(self, obs: Tree) -> Tensor:
        encode, encoder = self._parts[:2]
        x: Tensor = encode.forward(obs)
        return x if encoder is None else encoder.forward(x)

    def _of_features(self, x: Tensor, mode: Mode) -> Columns:
        """Computes the outputs of a recurrent network from those of the recurrent layer [B, H]."""
        _, _, actor, critic, _ = self._parts
        output = {} if mode == "compute_critic" else self._distribution(actor.forward(x))
        if mode != "compute_actor":
            output["value"] = self._scaled(critic.forward(x))
        return output

    def v(self, obs: Tree) -> Tensor:
        """Computes only the `value` of `forward`; module hooks do not run."""
        if self.rnn is not None:
            value: Tensor = self.forward(obs, mode="compute_critic")["value"]
            return value
        encode, encoder, _, critic, critic_encode = self._parts
        x = (encode if critic_encode is None else critic_encode).forward(obs)
        return self._scaled(critic.forward(x if encoder is None else encoder.forward(x)))

    def _scaled(self, value: Tensor) -> Tensor:
        norm, value = self.value_norm, value.squeeze(1)
        return value if norm is None else torch.addcmul(norm.mean, value, norm.std)

    def _distribution(self, x: Tree) -> Columns:
        cut = self._discrete
        if cut is not None:
            mean = x[:, cut:]
            assert self.log_std is not None
            return {"logit": x[:, :cut], "mean": mean, "log_std": self.log_std.expand_as(mean)}
        if self.log_std is not None:
            return {"mean": x, "log_std": self.log_std.expand_as(x)}
        return {"logit": x if self.sizes is None else list(x.split(self.sizes, 1))}

    def act_numpy(self) -> Callable[[Tree], dict[str, Any]] | None:
        """Returns the NumPy forward pass of the actor, on views of the parameters.

        Returns:
            A function from observations [K, ...] to the outputs of `compute_actor`. It runs torch
            if K is too large for NumPy to be faster, and renews its views after the parameters
            moved. None if NumPy is not faster or not possible (images, large layers, CUDA, gelu,
            recurrent layers, other parts or methods than those here).
        """
        parts = [each for each in self._parts[1:3] if each is not None]
        own = applies(type(self), "act_numpy", "forward", "_distribution")
        if not own or self.rnn is not None or not all(isinstance(each, MLP) for each in parts):
            return None
        widest = max(each.widest for each in parts)
        views = self._views()
        if widest > NUMPY_LIMIT or views is None:
            return None
        rows = NUMPY_LIMIT // widest
        first = next(self.parameters())
        pointer = first.data_ptr()

        def act(obs: Tree) -> Columns:
            nonlocal views, pointer
            if first.data_ptr() != pointer:
                views, pointer = self._views(), first.data_ptr()
            if views is None or _count(obs) > rows:
                return self._act_by_torch(obs, first.device)
            return views(obs)

        return act

    def _views(self) -> Callable[[Any], dict[str, Any]] | None:
        encode = self.encode.by_numpy()
        trunk = None if self.encoder is None else self.encoder.by_numpy()
        head = self.actor.by_numpy()
        if encode is None or head is None or (self.encoder is not None and trunk is None):
            return None
        log_std = None if self.log_std is None else self.log_std.detach().numpy()
        cuts = None if self.sizes is None else np.cumsum(self.sizes)[:-1].tolist()

        def forward(obs: Tree) -> Columns:
            x = encode(obs)
            x = head(x if trunk is None else trunk(x))
            if log_std is not None and self._discrete is not None:
                logit, mean = np.split(x, [self._discrete], 1)
                return {"logit": logit, "mean": mean, "log_std": log_std[None].repeat(len(x), 0)}
            if log_std is not None:
                return {"mean": x, "log_std": log_std[None].repeat(len(x), 0)}
            return {"logit": x if cuts is None else np.split(x, cuts, 1)}

        return forward

    def _act_by_torch(self, obs: Tree, device: torch.device) -> Columns:
        with torch.inference_mode():
            tensors = tree_map(lambda leaf: torch.from_numpy(np.array(leaf)).to(device), obs)
            output = self.forward(tensors, mode="compute_actor")
            return {key: tree_map(_array, value) for key, value in output.items()}


def _hooked(network: nn.Module) -> bool:
    """Returns whether a hook would run before or after a module, or on a parameter."""
    return any(
        each._forward_hooks or each._forward_pre_hooks  # noqa: SLF001
        or each._backward_hooks or each._backward_pre_hooks  # noqa: SLF001
        for each in network.modules()
    )  # fmt: skip


def _array(leaf: Tensor) -> Array:
    array: Array = leaf.cpu().numpy()
    return array


def _count(obs: Tree) -> int:
    """Returns the number of observations, K."""
    while isinstance(obs, dict | list | tuple):
        obs = next(iter(obs.values())) if isinstance(obs, dict) else obs[0]
    return len(obs)


def orthogonal(mlp: MLP, last: float) -> None:
    """Initialises hidden layers with gain sqrt(2), the last one with gain `last`."""
    for number, layer in enumerate(mlp.layers, 1):
        assert isinstance(layer, nn.Linear)
        initialise(layer, last if number == len(mlp.layers) else math.sqrt(2))
