"""FastTD3 (Seo et al. 2025, arXiv:2505.22642): TD3 for many environments at once.

E networks estimate the probabilities of fixed returns (C51); with `clipped`, all of them learn the
projected distribution of the network with the lowest mean, and the actor maximizes the lowest mean:

    p = Phi[r + gamma^n (1 - done) Z'_k(s', a')],  k = argmin_e mean of Phi[... Z'_e(s', a')]
    a' = clip(mu(s') + clip(noise))
    L_critic = sum_e CE(p, Z_e(s, a));   L_mu = -min_e Q_e(s, mu(s))

mu in targets is the present actor. Each environment explores with a deviation of its own, which is
drawn uniformly for each episode.

Shapes: K ready environments, B samples, A dimensions, E networks, N atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, State, StateDict, Tree
from dicore_contrib.policies.fast_td3_config import FastTD3Config
from dicore_plugins.functional import c51_loss, c51_target
from dicore_plugins.policies import ContinuousQPolicy, Results

__all__ = ["FastTD3Policy"]


class FastTD3Policy(ContinuousQPolicy):
    """A deterministic actor with noise that differs between environments."""

    config_class: ClassVar[type[PolicyConfig]] = FastTD3Config
    _cfg: FastTD3Config
    needed: ClassVar[tuple[str, ...]] = (*ContinuousQPolicy.needed, "outputs", "support")

    # ---- acting

    def _init_collect(self) -> None:
        super()._init_collect()
        self._std_of: dict[int, float] = {}

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        collect, known = self._cfg.collect, self._std_of
        ids = env_id.tolist()
        # one for each, also where none is new: else a reset would change the noise of all others
        drawn = self._rng.uniform(collect.noise_min, collect.noise_max, len(ids))
        for each, fresh in zip(ids, drawn.tolist(), strict=True):
            known.setdefault(each, fresh)
        std = np.array([[known[each]] for each in ids], np.float32)
        action: npt.NDArray[np.float32] = np.tanh(output["mean"])
        noise = self._rng.standard_normal(action.shape, np.float32)
        return np.clip(action + std * noise, -1, 1)

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        """Draws the noise of environments anew when they next act."""
        if data_id is None:
            self._std_of.clear()
        for each in data_id or ():
            self._std_of.pop(int(each), None)

    def _get_collect_state(self) -> StateDict:
        """Returns the noise of the running episodes, which checkpoints keep."""
        ids = sorted(self._std_of)
        return {
            "env_id": np.array(ids, np.int64),
            "std": np.array([self._std_of[each] for each in ids], np.float64),
        }

    def _set_collect_state(self, state: State) -> None:
        ids, stds = np.asarray(state["env_id"]), np.asarray(state["std"])
        self._std_of = dict(zip(ids.tolist(), stds.tolist(), strict=True))

    # ---- learning

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the sum over the networks of the mean cross-entropies."""
        with torch.no_grad():
            targets = self._target_distributions(batch)
        found = self._model.outputs(batch["obs"], self._unit_action(batch["action"]))
        pairs = [c51_loss(*pair, weight) for pair in zip(found, targets, strict=True)]
        value = self._model.expected(found.detach())
        loss = torch.stack([loss for loss, _ in pairs]).sum()
        return loss, torch.stack([each for _, each in pairs]).mean(0), value

    def _target_distributions(self, batch: Batch) -> Tensor:
        """Computes the projected distributions that the networks learn: [E, B, N]."""
        next_obs, bridged = batch["next_obs"], self._bridged(batch)
        support = self._model.support
        after = self._target_model.outputs(next_obs, self._next_action(next_obs)).softmax(-1)
        found = torch.stack([c51_target(each, *bridged, support) for each in after])
        if not self._cfg.learn.clipped:
            return found
        least = (found @ support).argmin(0)
        chosen = found[least, torch.arange(found.shape[1], device=found.device)]
        return chosen.expand_as(found)

    def _next_action(self, next_obs: Tree) -> Tensor:
        """Computes smoothed actions of the present actor: float32 [B, A]."""
        learn = self._cfg.learn
        action: Tensor = self._model.policy(next_obs)["mean"].tanh()
        if learn.target_noise:
            limit = learn.target_noise_clip
            noise = (self._normal(action) * learn.target_noise).clamp(-limit, limit)
            action = (action + noise).clamp(-1, 1)
        return action

    def _update_actor(self, batch: Batch) -> Results:
        self._move_target("critic")
        if self._update_count % self._cfg.learn.actor_update_freq:
            return {"actor_loss": None}
        loss = self._actor_loss(batch["obs"])
        self._step("actor", loss)
        return {"actor_loss": loss.detach()}

    def _actor_loss(self, obs: Tree) -> Tensor:
        """Computes the loss of the actor, a scalar."""
        action = self._model.policy(obs)["mean"].tanh()
        q: Tensor = self._model.q(obs, action, frozen=True)
        return -(q.amin(0) if self._cfg.learn.clipped else q.mean(0)).mean()
