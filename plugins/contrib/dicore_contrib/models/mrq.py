"""The network of MR.Q (Fujimoto et al. 2025, arXiv:2501.16142).

    z_s = f(s),   z_sa = g(z_s, W_a a),   (d, z_s', r) = M z_sa,   q_i = Q_i(z_sa),   pi(z_s)

What follows a step is linear in z_sa (M), so that values are nearly linear in it, too. Each hidden
layer is normalised without parameters before its activation; so is z_s.

Shapes: B rows, A actions or action values, Z numbers of z_s, X of z_sa, N bins of rewards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Columns
from dicore_contrib.models.mrq_config import MRQModelConfig
from dicore_plugins.functional import inv_symlog
from dicore_plugins.models import channels_first

__all__ = ["MRQNet", "NormedMLP"]

_GAIN = math.sqrt(2.0)
_FILTERS = 32


def _drawn(*shape: int, fans: int) -> nn.Parameter:
    """Draws weights of Xavier's uniform distribution, with the gain of ReLU."""
    bound = _GAIN * math.sqrt(6 / fans)
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class NormedMLP(nn.Module):
    """E networks whose layers are normalised before their activation, computed together.

    Args:
        sizes: Sizes of input, hidden layers and output.
        activation: Function of the hidden layers.
        count: E; None: one network, whose outputs have no axis of networks.
        normed_output: The output is normalised and activated, too.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Any = F.elu,
        *,
        count: int | None = None,
        normed_output: bool = False,
    ) -> None:
        super().__init__()
        self._activation, self._single, number = activation, count is None, count or 1
        self._normed = len(sizes) - 1 if normed_output else len(sizes) - 2
        pairs = list(itertools.pairwise(sizes))
        self.weights = nn.ParameterList(_drawn(number, *pair, fans=sum(pair)) for pair in pairs)
        self.biases = nn.ParameterList(torch.zeros(number, 1, size) for size in sizes[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, I] to [E, B, O], or to [B, O]."""
        found = x.expand(len(self.weights[0]), *x.shape)
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found = torch.baddbmm(bias, found, weight)
            if index < self._normed:
                found = self._activation(F.layer_norm(found, found.shape[-1:]))
        return found[0] if self._single else found


class _Images(nn.Module):
    """Four convolutions and a linear layer; maps [B, C, H, W] to [B, Z]."""

    def __init__(self, shape: tuple[int, int, int], features: int) -> None:
        super().__init__()
        channels, *sides = shape
        self.convolutions = nn.ModuleList()
        for inputs, stride in ((channels, 2), (_FILTERS, 2), (_FILTERS, 2), (_FILTERS, 1)):
            made = nn.Conv2d(inputs, _FILTERS, 3, stride=stride)
            nn.init.xavier_uniform_(made.weight, _GAIN)
            made.bias = nn.Parameter(torch.zeros(_FILTERS))
            self.convolutions.append(made)
            sides = [(side - 3) // stride + 1 for side in sides]
        self.last = NormedMLP((_FILTERS * math.prod(sides), features), normed_output=True)

    def forward(self, x: Tensor) -> Tensor:
        for each in self.convolutions:
            x = F.elu(each(x))
        found: Tensor = self.last(x.flatten(1))
        return found


class MRQNet(nn.Module):
    """Embeddings of states and of pairs with actions, what is linear in them, and a policy.

    Args:
        obs_shape: Numbers of a vector, or (channels, height, width); channels may come last.
        action_shape: A.
        continuous: Actions are real numbers, in [-1, 1]; False: one of A, one-hot.
        state_features: Z.
        action_features: Numbers of an embedded action.
        joint_features: X.
        units: Units of each hidden layer.
        bins: N.
        largest: Symlog of the last bin.

    Attributes:
        encoder: f, g and M; what predictions train.
        value: Two Q networks.
        policy: The policy.
        bins: float32 [N]; rewards, whose symlogs are equally far from each other.
    """

    config_class: Any = MRQModelConfig
    bins: Tensor

    def __init__(  # noqa: PLR0913 - each is an option of the config
        self, obs_shape: int | Sequence[int], action_shape: int, *, continuous: bool = False,
        state_features: int = 512, action_features: int = 256, joint_features: int = 512,
        units: int = 512, bins: int = 65, largest: float = 10.0,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        image = channels_first(sizes) if len(sizes) == 3 else None
        self.is_image, self._transposed = image is not None, image not in (None, sizes)
        self.continuous, self.action_size, self.state_features = (
            continuous, action_shape, state_features
        )  # fmt: skip
        self.encoder = nn.ModuleDict(
            {
                "state": NormedMLP((math.prod(sizes), units, units, state_features),
                                   normed_output=True)
                if image is None else _Images(image, state_features),
                "action": NormedMLP((action_shape, action_features)),
                "joint": NormedMLP((state_features + action_features, units, units,
                                    joint_features)),
                "predictions": NormedMLP((joint_features, 1 + state_features + bins)),
            }
        )  # fmt: skip
        self.value = NormedMLP((joint_features, units, units, units, 1), count=2)
        self.policy = NormedMLP((state_features, units, units, action_shape), F.relu)
        half = inv_symlog(torch.linspace(0.0, largest, bins // 2 + 1))
        self.register_buffer("bins", torch.cat([-half[1:].flip(0), half]), persistent=False)

    def encode(self, obs: Tensor) -> Tensor:
        """Embeds observations [B, ...]: z_s, [B, Z]."""
        x = obs.float()
        if self.is_image:
            x = x.movedim(-1, -3) if self._transposed else x
            x = x / 255 - 0.5 if obs.dtype == torch.uint8 else x - 0.5
        else:
            x = x.reshape(x.shape[0], -1)
        found: Tensor = self.encoder["state"](x)
        return found

    def join(self, state: Tensor, action: Tensor) -> Tensor:
        """Embeds states [B, Z] with actions [B, A]: z_sa, [B, X]."""
        embedded = F.elu(self.encoder["action"](action))
        found: Tensor = self.encoder["joint"](torch.cat([state, embedded], -1))
        return found

    def predict(self, joint: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what follows pairs [B, X].

        Returns:
            Whether the episode ends [B], the next z_s [B, Z], and logits of bins of the reward
            [B, N].
        """
        found = self.encoder["predictions"](joint)
        done, state, reward = found.split([1, self.state_features, len(self.bins)], -1)
        return done.squeeze(-1), state, reward

    def q(self, joint: Tensor) -> Tensor:
        """Returns the Q values of pairs [B, X], in units of the mean reward: [2, B]."""
        found: Tensor = self.value(joint).squeeze(-1)
        return found

    def forward(self, obs: Tensor) -> Columns:
        """Computes what the policy does, and what is predicted of it.

        Args:
            obs: [B, ...].

        Returns:
            `mean` [B, A] of continuous actions, before tanh, or `logit` [B, A]; of the action
            tanh(mean) or softmax(logit): `q_value` [B, 2], `done` [B], `next_state` [B, Z],
            `reward_logit` [B, N].
        """
        state = self.encode(obs)
        chosen = self.policy(state)
        joint = self.join(state, chosen.tanh() if self.continuous else chosen.softmax(-1))
        done, after, reward = self.predict(joint)
        return {
            "mean" if self.continuous else "logit": chosen,
            "q_value": self.q(joint).T,
            "done": done,
            "next_state": after,
            "reward_logit": reward,
        }
