"""Networks. Shapes: B observations, A actions or action values, H units of the state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore_plugins.models import MLP, NatureConv, initialise


def orthogonal(mlp: MLP, last: float) -> MLP:
    """Initialises hidden layers with gain sqrt(2) and the last one with gain `last`."""
    *hidden, output = mlp.layers
    for layer in hidden:
        initialise(layer, math.sqrt(2))
    initialise(output, last)
    return mlp


def encoder(obs_shape: Any) -> tuple[nn.Module, int]:
    """Returns a CNN for images (identity for vectors) and the number of its features."""
    if isinstance(obs_shape, int) or len(obs_shape) == 1:
        return nn.Flatten(), obs_shape if isinstance(obs_shape, int) else obs_shape[0]
    conv = NatureConv(obs_shape[0])
    with torch.no_grad():
        return conv, conv(torch.zeros(1, *obs_shape)).shape[1]


class ActorCritic(nn.Module):
    """Logits of discrete actions, or means and deviations of continuous ones; and the value."""

    def __init__(
        self, obs_shape: Any, action_shape: int, low: Any = None, high: Any = None,
        hidden: Any = (64, 64),
    ) -> None:  # fmt: skip
        super().__init__()
        self.encode, features = encoder(obs_shape)
        self.actor = orthogonal(MLP((features, *hidden, action_shape), "tanh"), 0.01)
        self.critic = orthogonal(MLP((features, *hidden, 1), "tanh"), 1.0)
        self.continuous = low is not None
        self.log_std = nn.Parameter(torch.zeros(action_shape)) if self.continuous else None

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """`logit` or `mean` [B, A], `log_std` [A], and `value` [B]."""
        features = self.encode(obs if obs.dtype == torch.uint8 else obs.float())
        output = {
            "mean" if self.continuous else "logit": self.actor(features),
            "value": self.critic(features).squeeze(-1),
        }
        return {**output, "log_std": self.log_std} if self.continuous else output

    def act_numpy(self) -> Any:
        """The same with arrays; None if there is a CNN."""
        actor, critic = self.actor.by_numpy(), self.critic.by_numpy()
        if actor is None or critic is None or isinstance(self.encode, NatureConv):
            return None
        log_std = None if self.log_std is None else self.log_std.detach().numpy()

        def act(obs: Any) -> dict[str, Any]:
            x = np.asarray(obs, np.float32).reshape(len(obs), -1)
            value = critic(x)[:, 0]
            if log_std is None:
                return {"logit": actor(x), "value": value}
            return {"mean": actor(x), "value": value, "log_std": log_std}

        return act


class SoftActorCritic(nn.Module):
    """The actor and the two critics of SAC."""

    def __init__(
        self, obs_shape: Any, action_shape: int, low: Any, high: Any, hidden: Any = (256, 256)
    ) -> None:
        super().__init__()
        features = obs_shape if isinstance(obs_shape, int) else math.prod(obs_shape)
        self.actor = MLP((features, *hidden, 2 * action_shape))
        sizes = (features + action_shape, *hidden, 1)
        self.critics = nn.ModuleList([MLP(sizes), MLP(sizes)])
        low, high = np.array(low, np.float32), np.array(high, np.float32)
        self.scale, self.shift = (high - low) / 2, (high + low) / 2

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """`mean` and `log_std` [B, A] before squashing; `q` [B, 2], the values of the mean."""
        output = self.policy(obs)
        return {**output, "q": self.q(obs, output["mean"].tanh()).T}

    def policy(self, obs: Tensor) -> dict[str, Tensor]:
        """`mean` and `log_std` alone."""
        mean, log_std = self.actor(obs.float().flatten(1)).chunk(2, -1)
        return {"mean": mean, "log_std": log_std.clamp(-20, 2)}

    def q(self, obs: Tensor, action: Tensor) -> Tensor:
        """Both Q values of actions in [-1, 1]: [2, B]."""
        x = torch.cat([obs.float().flatten(1), action], -1)
        return torch.stack([critic(x).squeeze(-1) for critic in self.critics])

    def act_numpy(self) -> Any:
        """The actor with arrays."""
        actor = self.actor.by_numpy()

        def act(obs: Any) -> dict[str, Any]:
            mean, log_std = np.split(actor(np.asarray(obs, np.float32).reshape(len(obs), -1)), 2, 1)
            return {"mean": mean, "log_std": log_std.clip(-20, 2)}

        return None if actor is None else act


class RecurrentQ(nn.Module):
    """Q values from a GRU."""

    def __init__(self, obs_shape: Any, action_shape: int, hidden: int = 64) -> None:
        super().__init__()
        self.encode, features = encoder(obs_shape)
        self.first = MLP((features, hidden), activate_output=True)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = MLP((hidden, action_shape))
        self.hidden = hidden

    def forward(self, obs: Tensor, state: Tensor | None = None) -> dict[str, Tensor]:
        """`logit` [B, A] and the next state `hidden` [B, H]; without a state: the first step."""
        features = self.encode(obs if obs.dtype == torch.uint8 else obs.float())
        if state is None:
            state = features.new_zeros(len(features), self.hidden)
        state = self.cell(self.first(features), state)
        return {"logit": self.head(state), "hidden": state}
