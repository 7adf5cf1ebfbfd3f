"""FlashSAC (Kim et al. 2026, arXiv:2604.04539): SAC for many environments, with bounded networks.

E networks estimate the probabilities p_e of fixed returns z (C51); all of them learn the projected
distribution of the target network with the lowest mean:

    target = Phi[r + gamma^n (1 - done) (z - alpha log pi(a'|s'))] of p'_k(s', a')
    k = argmin_e mean of p'_e(s', a')
    L_critic = mean_e CE(target, p_e(s, a));   L_pi = alpha log pi(a|s) - min_e Q_e(s, a)
    L_alpha = alpha (entropy of pi - H),   H = A / 2 log(2 pi e 0.15^2)

Networks see (s, a) and (s', a') in one batch, the actor s and s', so that batch normalisation uses
the statistics of both; the losses are of the first half. After each update of a part, and of its
target, all weights get unit norm (`UnitNormLayers`). The actor is updated first, once in
`actor_update_freq` updates. Learning rates fall along half a cosine.

While collecting, the noise of all environments is drawn anew after n steps, P(n) ~ n^-2 up to
`max_noise_steps`. The reward model `bounded_reward_norm` keeps returns within the atoms.

Shapes: K ready environments, B samples, A dimensions, E networks, N atoms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, State, StateDict, Tree, tree_map
from dicore_contrib.models.flash import FlashSACNet
from dicore_contrib.policies.flash_sac_config import FlashSACConfig
from dicore_contrib.policies.repeated_noise import RepeatedNoise
from dicore_plugins.functional import c51_loss, c51_target, quantile_target, squashed_gaussian
from dicore_plugins.policies import Actor, Results, SACPolicy

__all__ = ["FlashSACPolicy"]

_STD = 0.15
"""Standard deviation of the Gaussian whose entropy the actions keep."""


class FlashSACPolicy(SACPolicy):
    """SAC with distributions of returns, batch normalisation and weights of unit norm."""

    config_class: ClassVar[type[PolicyConfig]] = FlashSACConfig
    network_class: ClassVar[type | None] = FlashSACNet
    _cfg: FlashSACConfig

    # ---- acting

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(self._model, self._device, by_numpy=False)

    def _init_collect(self) -> None:
        super()._init_collect()
        self._repeated = RepeatedNoise(self._rng, self._cfg.collect.max_noise_steps)

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        mean = output["mean"]
        noise = self._repeated.of(env_id, mean.shape[1:])
        action: npt.NDArray[np.float32] = np.tanh(mean + np.exp(output["log_std"]) * noise)
        return action

    def _get_collect_state(self) -> StateDict:
        """Returns the noise that is kept, for checkpoints."""
        return self._repeated.state_dict()

    def _set_collect_state(self, state: State) -> None:
        self._repeated.load_state_dict(state)

    def _get_action_distribution(self) -> str:
        """Returns "" if noise is kept: an action depends on those before it."""
        return "squashed_gaussian" if self._cfg.collect.max_noise_steps == 1 else ""

    # ---- learning

    def _default_entropy(self) -> float:
        return self._actions.size / 2 * math.log(2 * math.pi * math.e * _STD**2)

    def _get_decayed_rate(self) -> float:
        """Computes the learning rate of this update, along half a cosine."""
        learn = self._cfg.learn
        progress = min(self._update_count / learn.learning_rate_decay, 1.0)
        fallen = (1 - learn.learning_rate_end) * (1 - math.cos(math.pi * progress)) / 2
        return learn.learning_rate * (1 - fallen)

    def _descend(self, part: str, *inputs: Any) -> Any:
        if part == "critic":
            self._actor_results = self._update_first(inputs[0])
        return super()._descend(part, *inputs)

    def _update_first(self, batch: Batch) -> Results:
        """Updates actor and temperature if it is their turn."""
        if self._update_count % self._cfg.learn.actor_update_freq:
            return dict.fromkeys(("actor_loss", "alpha", "entropy"))
        alpha = self._alpha
        if self._update_count:  # it counts from the update before, as actors learn after critics
            self._move_target_entropy()
        loss, entropy = self._descend("actor", batch)
        if "alpha" in self._optimizers:  # the gradient by log alpha
            self._flats["alpha"].grad.copy_(alpha * (entropy - self._wanted_entropy(batch["obs"])))
            self._optimizers["alpha"].step()
        return {"actor_loss": loss.detach(), "alpha": alpha[0], "entropy": entropy}

    def _update_actor(self, batch: Batch) -> Results:
        """Moves the target network; the actor is updated before the critics."""
        self._move_target("critic")
        self._target_model.critic.project()
        return self._actor_results

    def _step(self, name: str, loss: Tensor) -> None:
        super()._step(name, loss)
        getattr(self._model, name).project()

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the mean over the networks of the mean cross-entropies."""
        with torch.no_grad():
            next_action, log_prob = self._sample(batch["next_obs"])
        obs = _joined(batch)
        action = torch.cat((self._unit_action(batch["action"]), next_action))
        with torch.no_grad(), _training(self._target_model.critic):
            after = self._target_model.outputs(obs, action).chunk(2, 1)[1].softmax(-1)
            target = self._target_distribution(after, log_prob, batch)
        with _training(self._model.critic):
            found = self._model.outputs(obs, action).chunk(2, 1)[0]
        pairs = [c51_loss(each, target, weight) for each in found]
        loss = torch.stack([loss for loss, _ in pairs]).mean()
        priority = torch.stack([each for _, each in pairs]).mean(0)
        return loss, priority, self._model.expected(found.detach())

    def _target_distribution(self, after: Tensor, log_prob: Tensor, batch: Batch) -> Tensor:
        """Projects the distribution with the lowest mean, of [E, B, N]: [B, N]."""
        support = self._model.support
        least = (after @ support).argmin(0)
        chosen = after[least, torch.arange(after.shape[1], device=after.device)]
        reward, done, gamma = self._bridged(batch)
        bonus = (-self._alpha * log_prob).unsqueeze(1)
        reward = quantile_target(bonus, reward, done, gamma).squeeze(1)
        return c51_target(chosen, reward, done, gamma, support)

    def _actor_loss(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Computes the loss of the actor, and the entropy of its actions, without its graph."""
        with _training(self._model.actor):
            output = self._model.policy(_joined(batch))
        mean, log_std = (output[name].chunk(2)[0] for name in ("mean", "log_std"))
        action, log_prob = squashed_gaussian(mean, log_std, self._normal(mean))
        value = self._actor_value(self._model.q(batch["obs"], action, frozen=True))
        return (self._alpha * log_prob - value).mean(), -log_prob.detach().mean()


def _joined(batch: Batch) -> Tree:
    """Returns the observations and the next ones: [2 B, ...]."""
    return tree_map(lambda a, b: torch.cat((a, b)), batch["obs"], batch["next_obs"])


@contextmanager
def _training(part: nn.Module) -> Iterator[None]:
    """Normalises by the statistics of the batch, and moves the running ones."""
    part.train()
    try:
        yield
    finally:
        part.eval()
