"""The decision transformer (Chen et al. 2021, arXiv:2106.01345).

Each step has three tokens: return to go, observation, action. Attention is causal, so that the
action of a step is predicted from its observation, its return to go and the steps before.

Shapes: B sequences, L steps, H hidden, A actions or dimensions; `...` one observation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from dicore.data import Tree, tree_map
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.imitation.dt_config import DTModelConfig
from dicore_plugins.models.qac.model import count_of
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part

__all__ = ["CausalBlock", "DecisionTransformer"]

_NO_RETURN = torch.finfo(torch.float32).min
"""Finite, so that a model without NaN has no infinity either."""


class CausalBlock(nn.Module):
    """Self-attention over earlier tokens, and an MLP; each normalised before, and added.

    Args:
        hidden: H.
        heads: Attention heads.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.inputs, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.ReLU(), nn.Linear(4 * hidden, hidden)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps tokens float32 [B, T, H] to [B, T, H]."""
        batch, tokens, hidden = x.shape
        split = self.inputs(self.first(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, tokens, hidden))
        added: Tensor = x + self.mlp(self.second(x))
        return added


class DecisionTransformer(nn.Module):
    """Predicts actions from a return that is wanted, and from the steps so far.

    Args:
        obs_shape: An int or a tuple; unused if `obs_parts` is given.
        action_shape: A.
        continuous: Actions are A numbers in [-1, 1]; False: one of A.
        hidden_size: H.
        num_layers: Transformer layers.
        num_heads: Attention heads.
        max_timestep: Steps of an episode with embeddings of their own.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        obs_norm: Normalise observations by their mean and variance; None: unless there are images.

    Attributes:
        obs_norm: The statistics of the observations, or None.
        scale: float32 []; by which returns to go are divided; 0 before the first ones.
        best_return: float32 []; the largest return of an episode that `learn_returns` received,
            the lowest finite number at first.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = DTModelConfig
    scale: Tensor
    best_return: Tensor

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        continuous: bool = False,
        hidden_size: int = 128,
        num_layers: int = 3,
        num_heads: int = 1,
        max_timestep: int = 4096,
        obs_parts: Sequence[Part] | None = None,
        obs_norm: bool | None = None,
    ) -> None:
        super().__init__()
        self.actions = count_of(action_shape, "action_shape", "actions or action values")
        self.continuous = continuous
        self.encode = ObsEncoder(obs_shape, obs_parts, normalise=bool(obs_norm))
        if obs_norm is None and not self.encode.learned:
            self.encode.norm = RunningNorm(self.encode.features)
        self.of_obs = nn.Linear(self.encode.features, hidden_size)
        self.of_return = nn.Linear(1, hidden_size)
        self.of_action: nn.Module = (
            nn.Linear(self.actions, hidden_size)
            if continuous
            else nn.Embedding(self.actions, hidden_size)
        )
        self.of_timestep = nn.Embedding(max_timestep, hidden_size)
        for each in (self.of_action, self.of_timestep):
            if isinstance(each, nn.Embedding):  # a deviation of 1 would hide the other tokens
                nn.init.normal_(each.weight, std=0.02)
        self.norm, self.last = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.blocks = nn.ModuleList(CausalBlock(hidden_size, num_heads) for _ in range(num_layers))
        self.head = nn.Linear(hidden_size, self.actions)
        self.register_buffer("scale", torch.zeros(()))
        self.register_buffer("best_return", torch.full((), _NO_RETURN))

    def forward(self, obs: Tree) -> dict[str, Tensor]:
        """Predicts the first action of an episode, for the best return known.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `logit` float32 [B, A]; of continuous actions `mean`, before squashing by tanh.
        """
        features = self.encode.forward(obs)
        sequence = tree_map(lambda leaf: leaf.unsqueeze(1), obs)
        rows, device = len(features), features.device
        zeros = torch.zeros((rows, 1), dtype=torch.long, device=device)
        action = torch.zeros((rows, 1, self.actions), device=device) if self.continuous else zeros
        wanted = self.wanted.expand(rows, 1)
        return {
            key: each[:, 0] for key, each in self.steps(sequence, action, wanted, zeros).items()
        }

    def steps(
        self, obs: Tree, action: Tensor, return_to_go: Tensor, timestep: Tensor
    ) -> dict[str, Tensor]:
        """Predicts the action of each step from the tokens before it.

        Args:
            obs: [B, L, ...], or a tree of these.
            action: int64 [B, L], indices from 0; or float32 [B, L, A] in [-1, 1]. That of the last
                step has no influence.
            return_to_go: float32 [B, L]; in the units of the rewards.
            timestep: int64 [B, L]; from 0 at the start of an episode.

        Returns:
            `logit` float32 [B, L, A]; of continuous actions `mean`, before squashing by tanh.
        """
        batch, length = timestep.shape
        flat = self.encode.forward(tree_map(lambda leaf: leaf.flatten(0, 1), obs))
        at = self.of_timestep(timestep.clamp(0, self.of_timestep.num_embeddings - 1))
        scale = torch.where(self.scale > 0, self.scale, 1.0)
        tokens = (
            self.of_return((return_to_go / scale).unsqueeze(-1)) + at,
            self.of_obs(flat).view(batch, length, -1) + at,
            self.of_action(action) + at,
        )
        x = self.norm(torch.stack(tokens, 2).flatten(1, 2))
        for block in self.blocks:
            x = block(x)
        found = self.head(self.last(x[:, 1::3]))
        return {"mean" if self.continuous else "logit": found}

    @property
    def obs_norm(self) -> RunningNorm | None:
        return self.encode.norm

    @property
    def wanted(self) -> Tensor:
        """The best return known, 0 without one: float32 []."""
        return torch.where(self.best_return > _NO_RETURN, self.best_return, 0.0)

    @torch.no_grad()
    def learn_returns(self, return_to_go: Tensor, timestep: Tensor) -> None:
        """Notes the largest return of an episode; the first returns also decide the scale.

        A return to go from later on may be larger, if rewards are negative: no episode had it.

        Args:
            return_to_go: float32 [N].
            timestep: int64 [N]; 0 at the start of an episode.
        """
        finite = return_to_go.isfinite()
        whole = torch.where(finite & (timestep == 0), return_to_go, _NO_RETURN)
        if len(whole):
            largest = torch.where(finite, return_to_go.abs(), 0.0).amax()
            self.best_return.copy_(torch.maximum(self.best_return, whole.amax()))
            self.scale.copy_(torch.where(self.scale > 0, self.scale, largest))
