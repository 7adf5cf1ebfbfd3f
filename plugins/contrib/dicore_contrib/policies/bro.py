"""BRO: bigger, regularized, optimistic (Nauman et al. 2024, arXiv:2405.16158), over SAC.

The two Q networks estimate N quantiles each; targets and actor take their mean, not the minimum:

    Z(s, a) = r + gamma (1 - done) ((Z'_1 + Z'_2)(s', a') / 2 - alpha log pi(a'|s'))
    L_pi = alpha log pi(a|s) - mean_N (Z_1 + Z_2)(s, a) / 2

A second actor explores. It moves the mean m of the first one by d and multiplies the deviation s by
`std_multiplier`; it minimises, with the first one fixed,

    L_o = -mean_N [(Z_1 + Z_2) / 2 + beta |Z_1 - Z_2| / 2](s, a_o) + tau KL
    KL = sum_A d^2 / 2 s^2

where KL is the divergence of the two if both had the deviation s. beta falls and tau rises while
KL / A is above `kl_target`. At `resets` all networks and optimizers begin anew.

Shapes: K ready environments, B samples, A dimensions, N quantiles.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.run.random import torch_stream
from dicore_contrib.models.bro import BRONet
from dicore_contrib.policies.bro_config import BROConfig
from dicore_plugins.functional import qrdqn_loss, quantile_target
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import build_optimizer
from dicore_plugins.policies import Actor, Results, SACPolicy

__all__ = ["BROPolicy"]

_LOGS = (-10.0, 7.5)
"""Range of the logarithms of optimism and regularizer."""


class BROPolicy(SACPolicy):
    """SAC without pessimism, with an actor that explores and resets."""

    config_class: ClassVar[type[PolicyConfig]] = BROConfig
    network_class: ClassVar[type | None] = BRONet
    _cfg: BROConfig

    # ---- acting

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(_Acting(self._model, "policy"), self._device, by_numpy=False)

    def _init_collect(self) -> None:
        super()._init_collect()
        self._explorer = Actor(_Acting(self._model, "optimistic"), self._device, by_numpy=False)

    def _outputs(self, batch: EnvBatch[Tree], *, explores: bool) -> Columns:
        return (self._explorer if explores else self._actor).forward(batch.value)

    # ---- learning

    def _init_learn(self) -> None:
        super()._init_learn()
        self._flats["explorer"] = Flat(self._model.explorer)
        self._before_reset: dict[str, tuple[int, int]] = {}
        self._adjusted = nn.Parameter(self._first_adjusted())
        self._flats["adjusted"] = Flat([self._adjusted])
        self._make_optimizers()

    def _make_optimizers(self) -> None:
        """Makes the optimizers of the networks, and those of the weights of exploring."""
        rest = {name: each for name, each in self._optimizers.items() if name == "alpha"}
        for name in ("actor", "critic", "explorer"):
            rest[name] = self._optimizer_of(self._flats[name])
        rest["adjusted"] = build_optimizer(
            None, self._flats["adjusted"], learning_rate=self._cfg.learn.adjust_learning_rate,
            betas=(0.5, 0.999),
        )  # fmt: skip
        self._optimizers = rest

    def _first_adjusted(self) -> Tensor:
        """Returns what `_weights` makes the first optimism and regularizer of: [2]."""
        learn, (low, high) = self._cfg.learn, _LOGS
        logs = torch.tensor([learn.optimism, learn.regularizer], device=self._device).log()
        return torch.atanh(2 * (logs - low) / (high - low) - 1)

    @property
    def _weights(self) -> Tensor:
        """Optimism and regularizer, [2]."""
        low, high = _LOGS
        return (low + (high - low) / 2 * (1 + self._adjusted.tanh())).exp()

    def _default_entropy(self) -> float:
        return -self._actions.size / 2

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the sum over the networks of the quantile loss."""
        with torch.no_grad():
            next_action, log_prob = self._sample(batch["next_obs"])
            after = self._target_model.outputs(batch["next_obs"], next_action).mean(0)
            after = torch.addcmul(after, self._alpha, log_prob.unsqueeze(1), value=-1)
            target = quantile_target(after, *self._bridged(batch))
        found = self._model.outputs(batch["obs"], self._unit_action(batch["action"]))
        losses = [qrdqn_loss(each, target, self._model.fraction, weight) for each in found]
        errors = torch.stack([error for _, error in losses])
        return sum(loss for loss, _ in losses), errors.mean(0), found.mean(-1)  # type: ignore[return-value] # there are two

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean(0)

    def _update_actor(self, batch: Batch) -> Results:
        results = {**super()._update_actor(batch), **self._update_explorer(batch["obs"])}
        if self._update_count in self._cfg.learn.resets:
            self._begin_anew()
        return results

    def _update_explorer(self, obs: Tree) -> Results:
        """Updates the actor that explores, and then the weights of its loss."""
        model = self._model
        with torch.no_grad():
            output = model.policy(obs)
            mean, std = output["mean"], output["log_std"].exp()
        weights = self._weights
        optimism, regularizer = weights.detach()
        shift = model.shift(obs, mean)
        noise = model.std_multiplier * std * self._normal(mean)
        one, two = model.outputs(obs, (mean + shift + noise).tanh(), frozen=True)
        upper = (one + two) / 2 + optimism * (one - two).abs() / 2
        divergence = (shift / std).square().sum(-1).mean() / 2
        loss = regularizer * divergence - upper.mean()
        self._step("explorer", loss)
        excess = divergence.detach() / mean.shape[-1] - self._cfg.learn.kl_target
        self._step("adjusted", (weights[0] - weights[1]) * excess)
        return {
            "explorer_loss": loss.detach(),
            "divergence": divergence.detach(),
            "optimism": optimism,
            "regularizer": regularizer,
        }

    @torch.no_grad()
    def _begin_anew(self) -> None:
        """Draws the networks anew, and forgets what optimizers and temperatures learned."""
        self._before_reset = self._get_optimizer_counts()
        with torch_stream(f"model/reset/{self._update_count}"):
            self._model.draw()
        for name, flat in self._target_flats.items():
            flat.data.copy_(self._flats[name].data)
        self._log_alpha.fill_(math.log(self._cfg.learn.alpha))
        self._adjusted.copy_(self._first_adjusted())
        if "alpha" in self._optimizers:
            decay = {"weight_decay": 0.0} if "weight_decay" in self._cfg.learn.optimizer else {}
            self._optimizers["alpha"] = self._optimizer_of(self._flats["alpha"], **decay)
        self._make_optimizers()

    def _get_optimizer_counts(self) -> dict[str, tuple[int, int]]:
        """Returns the updates of each part, and how many were skipped, also before resets."""
        found = super()._get_optimizer_counts()
        for name, (calls, skipped) in self._before_reset.items():
            found[name] = found[name][0] + calls, found[name][1] + skipped
        return found

    def _monitor_vars_learn(self) -> list[str]:
        own = ("explorer_loss", "divergence", "optimism", "regularizer")
        return [*super()._monitor_vars_learn(), *own]

    def _state_dict_learn(self) -> StateDict:
        before = {name: list(each) for name, each in self._before_reset.items()}
        own = {"adjusted": self._adjusted.detach(), "before_reset": before}
        return {**super()._state_dict_learn(), **own}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        before = state.get("before_reset", {})
        self._before_reset = {name: (int(a), int(b)) for name, (a, b) in before.items()}
        with torch.no_grad():
            self._adjusted.copy_(torch.as_tensor(state["adjusted"]))


class _Acting:
    """An actor of a network, as what an `Actor` calls."""

    def __init__(self, model: BRONet, method: str) -> None:
        self._model, self._method = model, method

    def __call__(self, obs: Tree) -> Columns:
        found: Columns = getattr(self._model, self._method)(obs)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks them up before there is a model
            raise AttributeError(name)
        return getattr(self._model, name)
