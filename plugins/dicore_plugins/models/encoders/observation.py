"""Encoder of an observation space: flattened vectors, one-hot categories, or a CNN for images.

Shapes: B observations, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import Array
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part, obs_shape_problem


class ObsEncoder(nn.Module):
    """Maps observations to one feature vector each.

    Args:
        obs_shape: An int or 1-tuple for vectors, (channels, height, width) for images; unused if
            `obs_parts` is given.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        normalise: Normalise vectors by running statistics, see `norm`.
        conv: Name of the CNN for images; see `image_encoder`.

    Attributes:
        features: F.
        norm: The running statistics, or None.
        conv: The CNN of observations that are one image, or None.

    Raises:
        ConfigError: the shape is missing or unsupported, or images are to be normalised.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        obs_parts: Sequence[Part] | None = None,
        *,
        normalise: bool = False,
        conv: str = "auto",
    ) -> None:
        super().__init__()
        self.conv: nn.Module | None = None
        self.nested: Any = None
        if obs_parts:
            from dicore_plugins.models.encoders.nested import Nested

            self.nested = Nested(obs_parts, conv)
            self.features = self.nested.width
        else:
            problem = obs_shape_problem(obs_shape, conv, True)
            if problem or obs_shape is None:
                raise ConfigError(f"model.obs_shape {problem}")
            shape = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
            self.features = shape[0]
            if len(shape) == 3:
                from dicore_plugins.models.encoders.conv import image_encoder

                self.conv, self.features = image_encoder(conv, shape)
        if normalise and self.learned:
            raise ConfigError("model.obs_norm: images are scaled by the CNN; set it to False")
        self.norm = RunningNorm(self.features) if normalise else None

    @property
    def learned(self) -> bool:
        """Whether it has parameters, because there are images."""
        return self.conv is not None or (self.nested is not None and self.nested.learned)

    def forward(self, obs: Tree) -> Tensor:
        """Encodes a tensor [B, ...] of any numeric dtype, or a tree of them: float32 [B, F]."""
        if self.conv is not None:
            features: Tensor = self.conv(obs)
            return features
        x = self.vector(obs)
        return x if self.norm is None else self.norm.forward(x)

    def vector(self, obs: Tree) -> Tensor:
        """Flattens observations that are not images: float32 [B, F], not normalised."""
        if self.nested is not None:
            flat: Tensor = self.nested.forward(obs)
            return flat
        x: Tensor = obs if obs.dtype is torch.float32 else obs.float()
        return x if x.dim() == 2 else x.reshape(x.shape[0], -1)

    def by_numpy(self) -> Callable[[Any], Array] | None:
        """Returns the same function of arrays; None if there are images."""
        if self.learned:
            return None
        nested, norm = self.nested, None if self.norm is None else self.norm.by_numpy()

        def encode(obs: Tree) -> Array:
            x = np.asarray(obs, np.float32) if nested is None else nested.by_numpy(obs)
            if x.ndim != 2:
                x = x.reshape(len(x), -1)
            return x if norm is None else norm(x)

        return encode
