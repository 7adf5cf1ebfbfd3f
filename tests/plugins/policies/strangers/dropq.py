"""DroQ (Hiraoka et al. 2022, arXiv:2110.02034): SAC with dropout in the Q networks, many updates.

Shapes: E networks, B samples.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dicore import register
from dicore.config import component, frozen, option, section
from dicore_plugins.models import QAC, EnsembleMLP, QACConfig
from dicore_plugins.policies import SACConfig, SACLearnConfig, SACPolicy


class DropoutMLP(EnsembleMLP):
    """Q networks with dropout and layer normalisation in each hidden layer."""

    rate = 0.0

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps float32 [B, input] to [E, B, output]."""
        x = x.expand(self.count, -1, -1)
        last = len(self.weights) - 1
        for index, layer in enumerate(zip(self.weights, self.biases, strict=True)):
            weight, bias = (each.detach() if frozen else each for each in layer)
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = F.dropout(x, self.rate, training=self.training)
                x = F.relu(F.layer_norm(x, x.shape[-1:]))
        return x


@register("model", "dropq_net")
@frozen(kw_only=True)
class DroQModelConfig(QACConfig):
    """Actor and Q networks with dropout."""

    dropout: float = option(0.01, "probability of dropping a hidden unit", ge=0, lt=1)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Builds the network."""
        model: Any = super().build(ctx, **parts)
        sizes = (*model.critic.weights[0].shape[1:2], *self.critic_hidden_size_list, 1)
        model.critic = DropoutMLP(self.num_critics, sizes, self.activation)
        model.critic.rate = self.dropout
        assert isinstance(model, QAC)
        return model


@frozen(kw_only=True)
class DroQLearnConfig(SACLearnConfig):
    """Options of learning."""

    update_per_step: float | None = option(4.0, "gradient updates per env step", gt=0)


@register("policy", "dropq")
@frozen(kw_only=True)
class DroQConfig(SACConfig):
    """SAC with dropout and several updates per env step."""

    model: Any = component("model", default="dropq_net", help="network with dropout")
    learn: DroQLearnConfig = section(DroQLearnConfig)

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy."""
        return DroQ(self, model=model, **{"device": None if ctx is None else ctx.device, **parts})


class DroQ(SACPolicy):
    """The actor maximizes the mean of the Q values instead of their minimum."""

    config_class = DroQConfig

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean(0)
