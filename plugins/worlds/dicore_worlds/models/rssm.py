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
        return self._log_prob(self.prior_out(self.prior_hidden(deter)))

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
        z_weight, a_weight = self._split(self.inputs[0], self.stoch)
        h_weight, e_weight = self._split(self.posterior_hidden[0], self.deter)
        from_action, from_embed = action.clamp(-1, 1) @ a_weight, embed @ e_weight
        return self._seen(state, from_action, from_embed, uniform, z_weight, h_weight)

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
        z_weight, a_weight = self._split(self.inputs[0], self.stoch)
        h_weight, e_weight = self._split(self.posterior_hidden[0], self.deter)
        from_action, from_embed = action.clamp(-1, 1) @ a_weight, embed @ e_weight
        deter, stoch, posterior = [], [], []
        for act, seen, draw in zip(from_action, from_embed, uniform, strict=True):
            state, log_prob = self._seen(state, act, seen, draw, z_weight, h_weight)
            deter.append(state.deter)
            stoch.append(state.stoch)
            posterior.append(log_prob)
        states = LatentState(torch.stack(deter), torch.stack(stoch))
        return Observed(states, torch.stack(posterior), self.prior(states.deter))

    def predict(self, state: LatentState, action: Tensor, uniform: Tensor | None) -> LatentState:
        """Imagines one step, from [B, ...]; see `step`."""
        z_weight, a_weight = self._split(self.inputs[0], self.stoch)
        deter = self._next_deter(state, action.clamp(-1, 1) @ a_weight, z_weight)
        return LatentState(deter, categorical_sample(self.prior(deter), uniform).flatten(-2))

    @torch.no_grad()
    def imagine(self, state: LatentState, actor: LatentActor, horizon: int) -> Imagined:
        """Predicts what an actor would do, without gradients; see `SupportsLatent.imagine`."""
        states, actions = [state], []
        for _ in range(horizon):
            actions.append(actor(states[-1]))
            uniform = torch.rand(len(state.deter), self.groups, device=state.deter.device)
            states.append(self.predict(states[-1], actions[-1], uniform))
        deter, stoch = (torch.stack(each) for each in zip(*states, strict=True))
        return Imagined(LatentState(deter, stoch), torch.stack(actions))

    def _seen(
        self, state: LatentState, from_action: Tensor, from_embed: Tensor, uniform: Tensor | None,
        z_weight: Tensor, h_weight: Tensor,
    ) -> tuple[LatentState, Tensor]:  # fmt: skip
        """Computes `step` from the action's part [B, U] and the observation's [B, U] of layers."""
        deter = self._next_deter(state, from_action, z_weight)
        x = self.posterior_hidden[2](self.posterior_hidden[1](deter @ h_weight + from_embed))
        log_prob = self._log_prob(self.posterior_out(x))
        return LatentState(deter, categorical_sample(log_prob, uniform).flatten(-2)), log_prob

    def _next_deter(self, state: LatentState, from_action: Tensor, z_weight: Tensor) -> Tensor:
        """Computes the sequence model f."""
        x = self.inputs[2](self.inputs[1](state.stoch @ z_weight + from_action))
        gates = self.gates_norm(self.gates(torch.cat([x, state.deter], -1)))
        reset, candidate, update = gates.chunk(3, -1)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        update = torch.sigmoid(update - 1)  # remembers at first
        return torch.lerp(state.deter, candidate, update)

    def _log_prob(self, logit: Tensor) -> Tensor:
        return unimix(logit.unflatten(-1, (self.groups, self.classes)), self.uniform)

    @staticmethod
    def _split(layer: nn.Module, at: int) -> tuple[Tensor, Tensor]:
        """Returns the weights [F, U] of the first `at` features of a linear layer, and others."""
        weight: Tensor = layer.weight.t()  # type: ignore[operator]
        return weight[:at], weight[at:]
