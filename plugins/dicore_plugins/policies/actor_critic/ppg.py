"""Phasic policy gradient (Cobbe et al. 2020, arXiv:2009.04416).

After every `collect_per_phase` policy phases, which are those of PPO, an auxiliary phase trains the
auxiliary value of the policy network and the value on all samples since the phase before:

    1/2 (V_aux - R)^2 + clone_weight * KL(pi_before || pi) + 1/2 (V - R)^2

pi_before is the policy at the start of the auxiliary phase.

Shapes: B samples.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore_plugins.functional.distributions import kl_divergence
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.policy_gradient import ppg_joint_error
from dicore_plugins.policies.acting import evaluating
from dicore_plugins.policies.actor_critic.base import CHUNK
from dicore_plugins.policies.actor_critic.ppg_config import PPGConfig
from dicore_plugins.policies.actor_critic.ppo import PPOPolicy
from dicore_plugins.policies.base import Results


class PPGPolicy(PPOPolicy):
    """PPO with auxiliary phases."""

    config_class: ClassVar[type[PolicyConfig]] = PPGConfig
    _cfg: PPGConfig

    network_has = ("auxiliary",)

    def _init_learn(self) -> None:
        super()._init_learn()
        self._kept: list[Batch] = []

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        results = super()._updates(batch, **settings)
        kept = {key: batch[key] for key in ("obs", "target")}
        self._kept.append(Batch(tree_map(torch.clone, kept), len(batch)))
        if len(self._kept) >= self._cfg.learn.collect_per_phase:
            results += self._auxiliary_phase()
        return results

    def _auxiliary_phase(self) -> list[Results]:
        """Trains both values on the kept samples, which are dropped."""
        learn, samples = self._cfg.learn, Batch.concat(self._kept)
        self._kept.clear()
        samples.columns["before"] = self._outputs(samples["obs"])
        return [
            self._auxiliary_update(minibatch)
            for _ in range(learn.auxiliary_epoch)
            for minibatch in self._minibatches(samples, learn.auxiliary_batch_size)
        ]

    @torch.no_grad()
    def _outputs(self, obs: Tree) -> Tree:
        """Computes the distribution of actions of observations [B, ...]."""
        rows = Batch({"obs": obs})
        with evaluating(self._switched):
            parts = [
                self._model(rows[start : start + CHUNK]["obs"], mode="compute_actor")
                for start in range(0, len(rows), CHUNK)
            ]
        return tree_map(lambda *leaves: torch.cat(leaves), *parts)

    def _auxiliary_update(self, batch: Batch) -> Results:
        """Runs one gradient update of an auxiliary phase."""
        output = self._model.auxiliary(batch["obs"])
        kl = kl_divergence(batch["before"], output, mask_of(batch["obs"]))
        norm = getattr(self._model, "value_norm", None)
        unit = 1.0 if norm is None else norm.std[0]
        parts = ppg_joint_error(
            output["value"] / unit,
            batch["target"] / unit,
            kl,
            auxiliary_value=output["auxiliary_value"] / unit,
            clone_weight=self._cfg.learn.clone_weight,
        )
        loss = torch.add(parts.policy, parts.value, alpha=0.5)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "[scalars]auxiliary": {
                "joint_loss": parts.policy.detach(),
                "value_loss": parts.value.detach(),
                "kl": kl.detach().mean(),
            },
        }

    def _state_dict_learn(self) -> StateDict:
        kept = [dict(each.columns) for each in self._kept]
        return {**super()._state_dict_learn(), "kept": kept}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        self._kept = [Batch(dict(each)).to(self._device) for each in state["kept"]]
