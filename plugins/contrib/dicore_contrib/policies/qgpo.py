"""QGPO: Q-guided policy optimization (Lu et al. 2023, arXiv:2304.12824), from a dataset.

A diffusion model of the recorded actions draws actions, guided by the slope of an energy network
towards those with large values. With alpha_t and sigma_t of `linear_schedule`, they learn by:

    noise    | e(alpha_t a + sigma_t z, s, t) - z |^2,   t uniform, z standard normal
    Q        | Q_e(s, a) - y |^2,   q_k = Q'(s', a'_k),
             y = r + gamma (1 - done) sum_k softmax_k(beta' q_k) q_k
    energy   - sum_k softmax_k(beta Q'(s, a_k)) log softmax_k f(alpha_t a_k + sigma_t z_k, s, t)

where Q' = min_e Q'_e of the target network, the K actions a_k and a'_k (the support) are drawn from
the diffusion model without guidance, and t is the same for all a_k of a state. Acting removes noise
step by step (DDIM), with the score of the policy that is proportional to mu(a|s) exp(beta Q(s, a)):

    e_w(a, s, t) = e(a, s, t) - w sigma_t df(a, s, t) / da

The paper trains the diffusion model to its end and then fixes the support of each recorded state;
here the model learns alone for `learn.behaviour_updates` and goes on beside the others, and the
support is drawn anew in each update, in fewer steps, so that nothing is kept for rows of a dataset.

Shapes: K ready environments or support actions, B samples, R rows, F features, A dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map
from dicore_contrib.functional import contrastive_energy_error, linear_schedule, reverse_step
from dicore_contrib.models.qgpo import QGPONet
from dicore_contrib.policies.qgpo_config import QGPOConfig
from dicore_plugins.functional import to_batch
from dicore_plugins.models import Flat
from dicore_plugins.policies import ContinuousQPolicy, Results

__all__ = ["QGPOPolicy"]

_FIRST = 1e-3
"""Least time of the diffusion that networks see."""


class QGPOPolicy(ContinuousQPolicy):
    """A diffusion model of recorded actions, guided by Q values."""

    config_class: ClassVar[type[PolicyConfig]] = QGPOConfig
    network_class: ClassVar[type | None] = QGPONet
    _cfg: QGPOConfig
    export_problem: ClassVar[str] = "it draws actions step by step"
    shapes: ClassVar[Mapping[str, tuple[str, str | Mapping[str, str]]]] = {"q": ("A", "EB")}

    # ---- learning

    def _init_learn(self) -> None:
        super()._init_learn()
        self._flats["energy"] = Flat(self._model.energy)
        self._optimizers["energy"] = self._optimizer_of(self._flats["energy"])

    def _forward_learn(self, data: Any, **_: object) -> Columns:
        """Runs one update of all networks, or at first of the model of the recorded actions alone.

        Args:
            data: As `ContinuousQPolicy`.

        Returns:
            The losses; None for those of networks that did not learn.
        """
        if self._update_count >= self._cfg.learn.behaviour_updates:
            return super()._forward_learn(data)
        batch = to_batch(data, self._device)
        if not self._flats["actor"].intact():
            self._flats["actor"].rebind()
        self._optimizers["actor"].learning_rate = rate = self._get_decayed_rate()
        if (norm := self._model.obs_norm) is not None:
            norm.update(self._model.encode.vector(batch["obs"]))
        found = self._update_behaviour(batch)
        self._update_count += 1
        nothing = dict.fromkeys(self._monitor_vars_learn())
        return {**nothing, "cur_lr": rate, "total_loss": found["behaviour_loss"], **found}

    def _update_actor(self, batch: Batch) -> Results:
        """Updates the energies and the model of the recorded actions."""
        self._move_target("critic")
        energy = self._energy_loss(batch["obs"])
        self._step("energy", energy)
        return {"energy_loss": energy.detach(), **self._update_behaviour(batch)}

    def _update_behaviour(self, batch: Batch) -> Results:
        loss = self._behaviour_loss(batch["obs"], self._unit_action(batch["action"]))
        self._step("actor", loss)
        return {"behaviour_loss": loss.detach()}

    def _behaviour_loss(self, obs: Tree, action: Tensor) -> Tensor:
        """Computes the mean squared error of the noise in actions [B, A], a scalar."""
        time, noise = self._times(len(action)), self._normal(action)
        left = linear_schedule(time).unsqueeze(1)
        noisy = left.sqrt() * action + (1 - left).sqrt() * noise
        found = self._model.noise(self._model.encode.forward(obs), noisy, time)
        error: Tensor = (found - noise).square().mean()
        return error

    def _next_value(self, next_obs: Tree) -> Tensor:
        """Computes the softmax-weighted mean of the values of the support: float32 [B]."""
        features = self._repeated(next_obs)
        value = self._support_value(features, self._support(features))
        found: Tensor = ((self._cfg.learn.target_beta * value).softmax(1) * value).sum(1)
        return found

    def _energy_loss(self, obs: Tree) -> Tensor:
        """Computes the error of the energies of noisy support actions, a scalar."""
        count, model = self._cfg.learn.n_action, self._model
        with torch.no_grad():
            features = self._repeated(obs)
            action = self._support(features)
            value = self._support_value(features, action)
            time = self._times(len(value)).repeat_interleave(count)
            left = linear_schedule(time).unsqueeze(1)
            noisy = left.sqrt() * action + (1 - left).sqrt() * self._normal(action)
        energy = model.energy_of(features, noisy, time).view(-1, count)
        return contrastive_energy_error(energy, value, self._cfg.learn.beta)

    def _repeated(self, obs: Tree) -> Tensor:
        """Encodes observations, once for each support action: float32 [B * K, F]."""
        features: Tensor = self._model.encode.forward(obs)
        return features.repeat_interleave(self._cfg.learn.n_action, 0)

    def _support(self, features: Tensor) -> Tensor:
        """Draws actions like the recorded ones: float32 [B * K, A]."""
        noise = self._normal(features.new_empty(len(features), self._model.action_size))
        return self._drawn(features, noise, self._cfg.learn.support_steps, 0.0)

    def _support_value(self, features: Tensor, action: Tensor) -> Tensor:
        """Computes the least Q value of the target networks: float32 [B, K]."""
        given = torch.cat((features, action), -1)
        q: Tensor = self._target_model.expected(self._target_model.critic.forward(given))
        return q.amin(0).view(-1, self._cfg.learn.n_action)

    def _times(self, count: int) -> Tensor:
        """Draws times of the diffusion: float32 [count]."""
        drawn = self._noise.uniform(_FIRST, 1, count).astype(np.float32)
        return torch.from_numpy(drawn).to(self._device)

    def _monitor_vars_learn(self) -> list[str]:
        names = super()._monitor_vars_learn()
        names.remove("actor_loss")
        return [*names, "behaviour_loss", "energy_loss"]

    # ---- acting

    @torch.no_grad()
    def _drawn(self, features: Tensor, noise: Tensor, steps: int, scale: float) -> Tensor:
        """Removes noise step by step, guided by energies with the weight `scale`: [R, A]."""
        times = torch.linspace(1, _FIRST**0.5, steps, device=noise.device).square()
        left = linear_schedule(times)
        before = torch.cat([left[1:], left.new_ones(1)])
        action, zero = noise, noise.new_zeros(())
        for time, now, then in zip(times.split(1), left, before, strict=True):
            found = self._model.noise(features, action, time)
            if scale:
                found = found - scale * (1 - now).sqrt() * self._slope(features, action, time)
            action = reverse_step(action, found, now, then, zero, 0.0)
        return action

    def _slope(self, features: Tensor, action: Tensor, time: Tensor) -> Tensor:
        """Computes the gradient of the energies of actions [R, A] with respect to them."""
        with torch.enable_grad():
            given = action.detach().requires_grad_()
            energy = self._model.energy_of(features, given, time).sum()
            (found,) = torch.autograd.grad(energy, given)
        return found

    def _outputs(self, batch: EnvBatch[Tree], *, explores: bool) -> Columns:
        """Draws actions; evaluations from the same noise in all environments, each time."""

        def tensor(leaf: Tree) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

        cfg, size = self._cfg, self._model.action_size
        rng = self._rng if explores else np.random.default_rng(0)
        drawn = rng.standard_normal((len(batch.env_id) if explores else 1, size), np.float32)
        with torch.no_grad():
            features = self._model.encode.forward(tree_map(tensor, batch.value))
        noise = tensor(drawn).expand(len(features), -1)
        action = self._drawn(features, noise, cfg.sample_steps, cfg.guidance_scale)
        return {"action": action.cpu().numpy()}

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        action: npt.NDArray[np.float32] = output["action"]
        return action

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        action = self._outputs(batch, explores=False)["action"]
        return batch.with_value({"action": self._env_action(action)})
