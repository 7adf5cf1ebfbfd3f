"""The Q network of DQN (Mnih et al. 2015, doi:10.1038/nature14236).

Shapes: B observations, K ready environments, F features, A actions, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore.values import Columns, Tree
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.models.encoders.mlp import MLP, Array, applies
from dicore_plugins.models.shapes import Part, action_shape_problem, obs_shape_problem

if TYPE_CHECKING:
    from dicore_plugins.models.encoders.nested import Nested

NUMPY_LIMIT = 2**18
"""Batch size times weights of the largest layer up to which NumPy is faster than torch."""


class DQN(nn.Module):
    """Q network for discrete actions: an MLP for vectors, the Nature CNN for images.

    Args:
        obs_shape: An int or 1-tuple for vectors, (channels, height, width) for images; unused if
            `obs_parts` is given.
        action_shape: Number of actions, or a list with one number per head.
        encoder_hidden_size_list: Units of each hidden layer; for images after the convolutions.
        head_hidden_size_list: Units of each hidden layer of a head.
        dueling: Use dueling heads.
        head: Makes each head; called as `QHead`.
        noisy: Use noisy linear layers in the heads, for exploration; see `NoisyMLP`.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        conv: Name of the CNN for images; see `image_encoder`.
        type: No effect; with it, `DQN(**cfg.policy.model)` takes a whole section.
        **form: Arguments of `MLP` for the hidden layers: activation, layer_norm, initial_bias.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = DQNModelConfig

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | Sequence[int] | None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size_list: Sequence[int] = (),
        dueling: bool = False,
        *,
        obs_parts: Sequence[Part] | None = None,
        head: Callable[..., QHead] | None = None,
        noisy: bool = False,
        conv: str = "auto",
        type: str | None = None,  # noqa: A002 - the key of a config
        **form: Any,
    ) -> None:
        super().__init__()
        head = QHead if head is None else head
        self.noisy = noisy
        self.vectorize = _vectorize(obs_parts, conv) if obs_parts else None
        if self.vectorize is not None:
            obs_shape = self.vectorize.width
        obs, actions, self.multi_head = _shapes(obs_shape, action_shape, conv)
        self.conv: nn.Module | None = None
        features = obs[0]
        if len(obs) == 3:
            self.conv, features = _convolve(conv, obs)
        sizes = (features, *encoder_hidden_size_list)
        self.encoder = MLP(sizes, activate_output=True, **form)
        heads = [
            head(sizes[-1], each, head_hidden_size_list, dueling=dueling, noisy=noisy, **form)
            for each in actions
        ]
        self.heads = nn.ModuleList(heads)

    @property
    def _parts(self) -> tuple[Any, Any, tuple[Any, ...]]:
        """What encodes observations (or None), the hidden layers, and the heads."""
        modules: Any = self._modules  # a tenth of the time of `self.conv`
        first = modules.get("vectorize")
        first = modules.get("conv") if first is None else first
        return first, modules["encoder"], tuple(modules["heads"]._modules.values())  # noqa: SLF001

    def forward(self, obs: Tensor) -> Columns:
        """Computes Q values.

        Args:
            obs: [B, ...]; vectors of any numeric dtype (other shapes are flattened), images uint8
                (0 to 255) or floats, categories as integers [B] or [B, C]; or a tree of these.

        Returns:
            `logit`: float32 [B, A], or a list with one per head.
        """
        return {"logit": self.q(obs)}

    def q(self, obs: Tensor) -> Tree:
        """Computes only the `logit` of `forward`; module hooks do not run."""
        first, encoder, heads = self._parts
        return self._values(self._vectors(obs, first), encoder, heads)

    def reset_noise(self, *, on: bool = True) -> None:
        """Draws new noise for noisy layers, or removes it; see `NoisyMLP.reset_noise`."""
        for head in self._parts[2]:
            for stream in head.streams():
                stream.reset_noise(on=on)

    def features(self, obs: Tensor) -> Tensor:
        """Computes what the heads receive: float32 [B, F]."""
        first, encoder, _ = self._parts
        features: Tensor = encoder.forward(self._vectors(obs, first))
        return features

    def _vectors(self, obs: Tree, first: Any) -> Tensor:
        if first is not None:
            features: Tensor = first.forward(obs)
            return features
        x: Tensor = obs
        if x.dtype is not torch.float32:
            x = x.to(next(self.parameters()).dtype)
        return x if x.dim() == 2 else x.reshape(x.shape[0], -1)

    def _values(self, x: Tensor, encoder: MLP, heads: tuple[QHead, ...]) -> Tree:
        x = encoder.forward(x)
        return [head.forward(x) for head in heads] if self.multi_head else heads[0].forward(x)

    def act_numpy(self) -> Callable[[Tree], Any] | None:
        """Returns the NumPy forward pass, on views of the parameters.

        Returns:
            A function from observations [K, ...] to `logit` in new memory. It runs torch if K is
            too large for NumPy to be faster, and renews its views after the parameters moved. None
            if NumPy is not faster or not possible (images, large layers, CUDA, gelu, other parts or
            methods than those here).
        """
        _, encoder, heads = self._parts
        own = isinstance(encoder, MLP) and all(isinstance(head, QHead) for head in heads)
        own = own and applies(type(self), "act_numpy", "forward", "q", "_values")
        views, vectorize = self._views() if own else None, self.vectorize
        learned = self.conv is not None or (vectorize is not None and vectorize.learned)
        if views is None or learned:
            return None
        widest = max(encoder.widest, *(head.widest for head in heads))
        if widest > NUMPY_LIMIT:
            return None
        rows = NUMPY_LIMIT // widest
        first = next(self.parameters())
        pointer = first.data_ptr()

        def act(obs: Tree) -> Tree:
            nonlocal views, pointer
            if first.data_ptr() != pointer:
                views, pointer = self._views(), first.data_ptr()
            x = np.asarray(obs, np.float32) if vectorize is None else vectorize.by_numpy(obs)
            if x.ndim != 2:
                x = x.reshape(len(x), -1)
            if views is None or len(x) > rows:
                return self._act_by_torch(x, first.device)
            return views(x)

        return act

    def _views(self) -> Callable[[Array], Any] | None:
        _, encoder, heads = self._parts
        encode = encoder.by_numpy()
        values = [value for head in heads if (value := head.by_numpy()) is not None]
        if encode is None or len(values) < len(heads):
            return None
        if self.multi_head:

            def forward(x: Array) -> list[Array]:
                features = encode(x)
                return [value(features) for value in values]

            return forward
        (value,) = values
        return lambda x: value(encode(x))

    def _act_by_torch(self, x: Array, device: torch.device) -> Any:
        _, encoder, heads = self._parts
        with torch.inference_mode():
            q = self._values(torch.from_numpy(np.ascontiguousarray(x)).to(device), encoder, heads)
        return [each.cpu().numpy() for each in q] if self.multi_head else q.cpu().numpy()


def _noisy_mlp() -> type[MLP]:
    from dicore_plugins.models.encoders.noisy import NoisyMLP

    return NoisyMLP


def _vectorize(parts: Sequence[Part], conv: str) -> Nested:
    from dicore_plugins.models.encoders.nested import Nested

    return Nested(parts, conv)


def _convolve(name: str, obs_shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Returns the CNN and the number of its features."""
    from dicore_plugins.models.encoders.conv import image_encoder

    return image_encoder(name, obs_shape)


class QHead(nn.Module):
    """A head of a Q network: maps features to the values of one discrete action.

    The dueling form (Wang et al. 2015, arXiv:1511.06581, equation 9) is
    Q(s, a) = V(s) + A(s, a) - mean_a' A(s, a').

    Args:
        features: F.
        actions: A.
        hidden: Units of each hidden layer (dueling: of both streams).
        dueling: Use the dueling form.
        noisy: Use noisy linear layers.
        atoms: Outputs per action, which `AtomHead` makes values of.
        **form: Arguments of `MLP` for the streams: activation, layer_norm, initial_bias.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        hidden: Sequence[int] = (),
        *,
        dueling: bool = False,
        noisy: bool = False,
        atoms: int = 1,
        **form: Any,
    ) -> None:
        super().__init__()
        layers = _noisy_mlp() if noisy else MLP
        self.advantage = layers((features, *hidden, actions * atoms), **form)
        self.value = layers((features, *hidden, atoms), **form) if dueling else None

    @property
    def _streams(self) -> tuple[MLP, MLP | None]:
        """The networks of the advantages and of the value, or None."""
        modules: Any = self._modules  # a tenth of the time of `self.advantage`
        return modules["advantage"], modules.get("value")

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to values [B, A]."""
        advantage, value = self._streams
        a = advantage.forward(x)
        if value is None:
            return a
        return value.forward(x) + a - a.mean(1, keepdim=True)

    def streams(self) -> list[MLP]:
        """Returns the networks of the head: of the advantages, and of the value if dueling."""
        return [stream for stream in self._streams if stream is not None]

    @property
    def widest(self) -> int:
        """Most weights in one layer."""
        return max(stream.widest for stream in self.streams())

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass; see `MLP.by_numpy`."""
        advantage, value = self._streams
        own = all(isinstance(stream, MLP) for stream in self.streams())
        if not own or not applies(type(self), "by_numpy", "forward"):
            return None
        a_of = advantage.by_numpy()
        v_of = value.by_numpy() if value is not None else None
        if a_of is None or value is None:
            return a_of
        if v_of is None:
            return None

        def forward(x: Array) -> Array:
            a: Array = a_of(x)
            a -= a.mean(1, keepdims=True)
            a += v_of(x)
            return a

        return forward


def _shapes(
    obs_shape: int | Sequence[int] | None, action_shape: int | Sequence[int] | None, conv: str
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Returns both shapes as tuples, and whether the network has several heads.

    Raises:
        ConfigError: a shape is unsupported or missing; the message names both.
    """
    problems = {
        "obs_shape": obs_shape_problem(obs_shape, conv, True),
        "action_shape": action_shape_problem(action_shape),
    }
    if any(problems.values()):
        raise ConfigError(
            [f"model.{name} {problem}" for name, problem in problems.items() if problem]
        )
    obs = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape or ())
    actions = (action_shape,) if isinstance(action_shape, int) else tuple(action_shape or ())
    return obs, actions, not isinstance(action_shape, int)
