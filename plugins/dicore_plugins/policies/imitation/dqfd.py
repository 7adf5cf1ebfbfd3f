"""DQfD: deep Q-learning from demonstrations (Hester et al. 2018, arXiv:1704.03732).

    L = L_n + w_1 L_1 + w_E E[d (max_a (Q(s, a) + l(a_E, a)) - Q(s, a_E))] + L2

L_n and L_1 are the n-step and 1-step losses of double DQN, d is 1 for demonstrations and else 0, l
is 0 for the action shown and the margin for others; actions that a mask forbids do not count.
Batches have a fixed share of demonstrations, as in R2D3, where the paper has one prioritized buffer
with a bonus for them. The updates before collecting are those of `pretrain`.

Shapes: B samples, T steps, N environments, H heads.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.imitation import large_margin_error
from dicore_plugins.functional.samples import next_obs_of
from dicore_plugins.functional.td import legal, nstep_td_error
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations
from dicore_plugins.policies.imitation.dqfd_config import DQfDConfig
from dicore_plugins.policies.value.dqn import DQNPolicy, q_values

__all__ = ["DQfDPolicy"]


class DQfDPolicy(FromDemonstrations, DQNPolicy):
    """DQN with 1-step and n-step targets, and a large margin for the actions shown."""

    config_class: ClassVar[type[PolicyConfig]] = DQfDConfig
    _cfg: DQfDConfig

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, action = self._cfg.learn, self._action_index(batch["action"])
        q, target = q_values(self._model, batch["obs"]), self._target(batch)
        form = weight, learn.criterion, learn.huber_delta
        loss, error = nstep_td_error(q, action, target, *form)
        if "one_reward" in batch and learn.one_step_weight:
            loss = (
                loss
                + learn.one_step_weight
                * nstep_td_error(q, action, self._one_step_target(batch), *form)[0]
            )
        if learn.margin_weight:
            loss = loss + learn.margin_weight * self._margin_loss(q, action, batch)
        return loss, error, target if isinstance(target, Tensor) else target[0]

    def _margin_loss(self, q: Tree, action: Tensor, batch: Batch) -> Tensor:
        """Computes the mean over heads of the large-margin loss of the demonstrations."""
        several, demo, q = not isinstance(q, Tensor), batch["demo"], legal(q, batch["obs"])
        heads, taken = (q, action.unbind(1)) if several else ([q], [action.reshape(len(demo))])
        losses = [
            large_margin_error(head, each, demo, margin=self._cfg.learn.margin)
            for head, each in zip(heads, taken, strict=True)
        ]
        loss: Tensor = sum(losses[1:], losses[0]) / len(losses)
        return loss

    def _one_step_target(self, batch: Batch) -> Any:
        """Computes y of single steps; see `_target`."""
        names = {"reward": "one_reward", "done": "one_done", "next_obs": "one_next_obs"}
        columns = {name: batch[own] for name, own in names.items()}
        gamma = self._cfg.discount_factor
        return self._target(Batch({**columns, "value_gamma": batch["one_reward"] * 0 + gamma}))

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to n-step samples, which also have the columns of single steps."""
        if self._cfg.nstep == 1:
            return super()._get_train_sample(block, tail)
        after = next_obs_of(block, tail)
        single = {
            "one_reward": block["reward"],
            "one_done": np.asarray(block["done"], np.float32),
            "one_next_obs": after,
        }
        columns = {**block.columns, **single, "next_obs": after}
        return super()._get_train_sample(Batch(columns, len(block)), tail)
