"""Networks of algorithms that imitate the actions of a data set: IQL, AWAC and BCQ.

Shapes: B observations, F features, A dimensions of an action, E Q networks, Z latent numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import MLP
from dicore_plugins.models.qac.config import BCQModelConfig, IQLModelConfig
from dicore_plugins.models.qac.model import QAC

__all__ = ["BCQNet", "IQLNet"]


class IQLNet(QAC):
    """Actor, Q networks, and a network of the value of states.

    Args:
        **options: Arguments of `QAC`.
    """

    config_class = IQLModelConfig

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        hidden = options.get("critic_hidden_size_list", (256, 256))
        sizes = (self.encode.features, *hidden, 1)
        activation = options.get("activation", "relu")
        self.value = MLP(sizes, activation, initial_weights="uniform")

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes the outputs of `QAC`, and `value`, V(s), float32 [B]."""
        return {**super().both(obs), "value": self.v(obs)}

    def v(self, obs: Tree) -> Tensor:
        """Computes V(s): float32 [B]."""
        return self.value.forward(self.encode.forward(obs)).squeeze(-1)


class BCQNet(QAC):
    """Q networks, a variational autoencoder of recorded actions, and an actor that changes them.

    Fujimoto et al. 2019, arXiv:1812.02900. Actions are in [-1, 1].

    Args:
        latent: Z; None: 2 A.
        n_candidate: Actions that acting chooses from.
        perturbation: Largest change of an action.
        vae_hidden_size_list: Units of each hidden layer of encoder and decoder.
        **options: Arguments of `QAC`.

    Attributes:
        candidates: float32 [n_candidate, Z]; the latent numbers of the actions that acting chooses
            from, drawn once and clipped to +-0.5.
    """

    config_class = BCQModelConfig
    candidates: Tensor

    def __init__(
        self,
        *,
        latent: int | None = None,
        n_candidate: int = 10,
        perturbation: float = 0.05,
        vae_hidden_size_list: Sequence[int] = (750, 750),
        **options: Any,
    ) -> None:
        super().__init__(stochastic=False, **options)
        features, width = self.encode.features, int(options["action_shape"])
        self.latent = 2 * width if latent is None else latent
        self.perturbation = perturbation
        activation, form = options.get("activation", "relu"), {"initial_weights": "uniform"}
        actor = (features + width, *options.get("actor_hidden_size_list", (256, 256)), width)
        self.actor = MLP(actor, activation, **form)  # type: ignore[arg-type]
        inner = tuple(vae_hidden_size_list)
        self.vae = nn.ModuleDict(
            {
                "encoder": MLP((features + width, *inner, 2 * self.latent), activation, **form),  # type: ignore[arg-type]
                "decoder": MLP((features + self.latent, *inner, width), activation, **form),  # type: ignore[arg-type]
            }
        )
        drawn = torch.randn(n_candidate, self.latent).clamp(-0.5, 0.5)
        self.register_buffer("candidates", drawn)

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Chooses the action with the largest first Q value among those of `candidates`.

        Returns:
            `action` float32 [B, A] in [-1, 1]; `q_value` float32 [B, E] of it.
        """
        features = self.encode.forward(obs)
        count, batch = len(self.candidates), len(features)
        repeated = features.repeat_interleave(count, 0)
        action = self.perturbed(repeated, self.decoded(repeated, self.candidates.repeat(batch, 1)))
        q = self.critic.forward(torch.cat((repeated, action), -1)).squeeze(-1)
        best = q[0].view(batch, count).argmax(1) + torch.arange(batch, device=q.device) * count
        return {"action": action[best], "q_value": q[:, best].T}

    def decoded(self, features: Tensor, latent: Tensor) -> Tensor:
        """Computes the actions of latent numbers [B, Z]: float32 [B, A]."""
        decoder: Any = self.vae["decoder"]
        return torch.tanh(decoder.forward(torch.cat((features, latent), -1)))

    def encoded(self, features: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Computes mean and log standard deviation of the latent numbers: float32 [B, Z] each."""
        encoder: Any = self.vae["encoder"]
        mean, log_std = encoder.forward(torch.cat((features, action), -1)).chunk(2, -1)
        return mean, log_std.clamp(-4.0, 15.0)

    def perturbed(self, features: Tensor, action: Tensor) -> Tensor:
        """Computes the actions [B, A] changed by the actor, within [-1, 1]."""
        change = torch.tanh(self.actor.forward(torch.cat((features, action), -1)))
        return (action + self.perturbation * change).clamp(-1.0, 1.0)

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `action` only; see `both`."""
        return {"action": self.both(obs)["action"]}

    def act_numpy(self) -> None:
        """Returns None: it has no NumPy form."""
