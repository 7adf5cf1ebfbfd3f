"""The recurrent state-space model of DreamerV3 (Hafner et al. 2023, arXiv:2301.04104, equation 3).

    sequence model    h_t = f(h_{t-1}, z_{t-1}, a_{t-1})
    posterior         z_t ~ q(z_t | h_t, x_t)
    prior             z_t ~ p(z_t | h_t)

f is one GRU whose gates are normalised, as in the first version of the paper; blocks of recurrent
weights, which the second version has, are left out. Numbers of actions beyond [-1, 1] count as
these.

Shapes: see `dicore_worlds.interface`; U units of a hidden layer, K = G * C.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_worlds.functional import categorical_sample, unimix
from dicore_worlds.interface import Imagined, LatentActor, LatentState, Observed
from dicore_worlds.models.layers import mlp, output_layer

__all__ = ["RSSM"]


class RSSM(nn.Module):
    """The latent states, with observations and without.

    Args:
        embed: E.
        action: A.
        deter: D.
        units: U.
        groups: G.
        classes: C.
        uniform: Share of the uniform distribution in prior and posterior.
    """

    def __init__(
        self, embed: int, action: int, deter: int, units: int, groups: int, classes: int,
        uniform: float = 0.01,
    ) -> None:  # fmt: skip
        super().__init__()
        self.deter, self.groups, self.classes, self.uniform = deter, groups, classes, uniform
        self.stoch = groups * classes
        self.inputs = mlp(self.stoch + action, units, 1)
        self.gates = nn.Linear(units + deter, 3 * deter, bias=False)
        nn.init.xavier_uniform_(self.gates.weight)
        self.gates_norm = nn.LayerNorm(3 * deter, eps=1e-3)
        self.prior_hidden = mlp(deter, units, 1)
        self.prior_out = output_layer(units, self.stoch)
        self.posterior_hidden = mlp(deter + embed, units, 1)
        self.posterior_out = output_layer(units, self.stoch)

    def initial(self, count: int) -> LatentState:
        """Returns the states [B, ...] before the first observation of an episode: zeros."""
        like = self.gates.weight
        return LatentState(like.new_zeros(count, self.deter), like.new_zeros(count, self.stoch))

    def prior(self, deter: Tensor) -> Tensor:
        """Predicts what is not seen: log-probabilities [..., G, C] from [..., D]."""
        return self._prior(deter).log()

    def step(
        self, state: LatentState, action: Tensor, embed: Tensor, uniform: Tensor | None
    ) -> tuple[LatentState, Tensor]:
        """Follows one step that was seen.

        Args:
            state: [B, ...]; before the action.
            action: float32 [B, A].
            embed: float32 [B, E]; of the observation after it.
            uniform: float32 [B, G] in [0, 1), to draw by; None: the most probable classes.

        Returns:
            The next state, and log-probabilities of its posterior [B, G, C].
        """
        state, probability = self._seen(
            state, self._of_action(action), self._of_embed(embed), uniform, self._weights()
        )
        return state, probability.log()

    def observe(
        self, embed: Tensor, action: Tensor, state: LatentState, uniform: Tensor | None = None
    ) -> Observed:
        """Follows sequences that were seen; see `SupportsLatent.observe`.

        What does not depend on the state is computed for all steps at once.

        Args:
            embed: float32 [T, B, E].
            action: float32 [T, B, A].
            state: [B, ...].
            uniform: float32 [T, B, G] in [0, 1), to draw by; None: drawn by torch.
        """
        if uniform is None:
            uniform = torch.rand(*embed.shape[:2], self.groups, device=embed.device)
        known = self._of_action(action), self._of_embed(embed), uniform
        weights, states, posterior = self._weights(), [], []
        for from_action, from_embed, draw in zip(*known, strict=True):
            state, probability = self._seen(state, from_action, from_embed, draw, weights)
            states.append(state)
            posterior.append(probability)
        deter, stoch = (torch.stack(each) for each in zip(*states, strict=True))
        return Observed(LatentState(deter, stoch), torch.stack(posterior).log(), self.prior(deter))

    def predict(self, state: LatentState, action: Tensor, uniform: Tensor | None) -> LatentState:
        """Imagines one step, from [B, ...]; see `step`."""
        deter = self._next_deter(state, self._of_action(action), self._weights()[0])
        return LatentState(deter, categorical_sample(self._prior(deter), uniform).flatten(-2))

    @torch.no_grad()
    def imagine(self, state: LatentState, actor: LatentActor, horizon: int) -> Imagined:
        """Predicts what an actor would do, without gradients; see `SupportsLatent.imagine`."""
        states, actions = [state], []
        shape = horizon, len(state.deter), self.groups
        for uniform in torch.rand(shape, device=state.deter.device):
            actions.append(actor(states[-1]))
            states.append(self.predict(states[-1], actions[-1], uniform))
        deter, stoch = (torch.stack(each) for each in zip(*states, strict=True))
        return Imagined(LatentState(deter, stoch), torch.stack(actions))

    # ---- parts of layers whose inputs are known before the states

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Returns the weights of z in the sequence model, and of h in the posterior."""
        z_weight, h_weight = _weight(self.inputs), _weight(self.posterior_hidden)
        return z_weight[:, : self.stoch], h_weight[:, : self.deter]

    def _of_action(self, action: Tensor) -> Tensor:
        """Computes the action's part of the sequence model's layer: [..., U]."""
        return F.linear(action.clamp(-1, 1), _weight(self.inputs)[:, self.stoch :])

    def _of_embed(self, embed: Tensor) -> Tensor:
        """Computes the observation's part of the posterior's layer: [..., U]."""
        return F.linear(embed, _weight(self.posterior_hidden)[:, self.deter :])

    def _seen(
        self, state: LatentState, from_action: Tensor, from_embed: Tensor, uniform: Tensor | None,
        weights: tuple[Tensor, Tensor],
    ) -> tuple[LatentState, Tensor]:  # fmt: skip
        """Computes `step` from the parts of layers; returns probabilities."""
        deter = self._next_deter(state, from_action, weights[0])
        x = F.linear(deter, weights[1]) + from_embed
        x = self.posterior_hidden[2](self.posterior_hidden[1](x))
        probability = self._mixed(self.posterior_out(x))
        return LatentState(deter, categorical_sample(probability, uniform).flatten(-2)), probability

    def _next_deter(self, state: LatentState, from_action: Tensor, z_weight: Tensor) -> Tensor:
        """Computes the sequence model f."""
        x = self.inputs[2](self.inputs[1](F.linear(state.stoch, z_weight) + from_action))
        gates = self.gates_norm(self.gates(torch.cat([x, state.deter], -1)))
        reset, candidate, update = gates.chunk(3, -1)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        update = torch.sigmoid(update - 1)  # remembers at first
        return torch.lerp(state.deter, candidate, update)

    def _prior(self, deter: Tensor) -> Tensor:
        return self._mixed(self.prior_out(self.prior_hidden(deter)))

    def _mixed(self, logit: Tensor) -> Tensor:
        return unimix(logit.unflatten(-1, (self.groups, self.classes)), self.uniform)


def _weight(layers: nn.Sequential) -> Tensor:
    """Returns the weights of the first layer."""
    linear = layers[0]
    assert isinstance(linear, nn.Linear)
    return linear.weight
