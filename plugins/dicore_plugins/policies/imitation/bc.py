"""Behavioural cloning (Pomerleau 1991, doi:10.1162/neco.1991.3.1.88).

    L = -log pi(a_E|s)    or, with the probabilities of the expert (Rusu et al. 2016,
                          arXiv:1511.06295):  (1 - w) L + w KL(pi_E(.|s), pi(.|s))

Shapes: K ready environments, B samples, A actions or dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, Tree
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.imitation import bc_error, distillation_error
from dicore_plugins.functional.samples import to_batch, transitions
from dicore_plugins.models.actor_critic.vac import VAC
from dicore_plugins.policies.actor_critic.base import DISTRIBUTION, ActorCriticPolicy
from dicore_plugins.policies.actor_critic.checks import output_problem
from dicore_plugins.policies.base import Samples
from dicore_plugins.policies.imitation.bc_config import BCConfig

__all__ = ["BCPolicy", "CloningPolicy"]


class CloningPolicy(ActorCriticPolicy):
    """Base class of policies that learn the actions of demonstrations; acts like PPO.

    A subclass implements `_losses`.
    """

    def _problem_of(self, model: nn.Module) -> str | None:
        return output_problem(
            model, self._cfg.model or {}, continuous=self._continuous, value=False
        )

    # ---- learn

    def _forward_learn(self, data: Samples, **settings: object) -> Columns:  # type: ignore[override] # one update
        """Runs one gradient update.

        Args:
            data: Batch or list of B samples: obs, action; others depend on the policy.
            **settings: Unused.

        Returns:
            `total_loss` and the losses that it consists of.
        """
        batch = to_batch(data, self._device)
        if not self._flat.intact():
            self._flat.rebind()
        losses = self._losses(batch)
        self._optimizer.zero_grad()
        losses["total_loss"].backward()
        self._optimizer.step(losses["total_loss"])
        norm = getattr(self._model, "obs_norm", None)
        if norm is not None:
            norm.update(self._model.encode.vector(batch["obs"]))
        found = {name: each.detach() for name, each in losses.items()}
        return {"cur_lr": self._optimizer.learning_rate, **found}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """Computes `total_loss` with its graph, and what else is worth logging."""
        raise NotImplementedError

    def _acted(self, obs: Tree) -> dict[str, Any]:
        """Computes the distribution of actions."""
        only = {"mode": "compute_actor"} if isinstance(self._model, VAC) else {}
        output: Columns = self._model(obs, **only)
        return output

    def _action_index(self, batch: Batch) -> Any:
        if not (self._continuous or self._cfg.hybrid):
            return super()._action_index(batch)
        action = batch["action"]
        args = action["action_args"] if self._cfg.hybrid else action
        unit = self._actions.unit(args.reshape(len(batch), -1))
        columns = {"action": action, "raw_action": unit}
        return super()._action_index(Batch(columns, len(batch)))

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss"]

    def _get_setting_learn(self, command_info: Mapping[str, int]) -> dict[str, float]:
        return {}

    # ---- collect

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        return {key: columns[key] for key in ("obs", "action", "reward", "done")}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps."""
        return transitions(block, tail)


class BCPolicy(CloningPolicy):
    """Supervised learning of the actions of demonstrations."""

    config_class: ClassVar[type[PolicyConfig]] = BCConfig
    _cfg: BCConfig

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        learn, weight = self._cfg.learn, batch.get("weight")
        output, mask = self._acted(batch["obs"]), mask_of(batch["obs"])
        share = learn.distill_weight
        if share == 1:
            return {"total_loss": self._distilled(batch, output, mask)}
        loss, _ = bc_error(output, self._action_index(batch), weight, mask, learn.criterion)
        if share == 0:
            return {"total_loss": loss}
        distilled = self._distilled(batch, output, mask)
        total = torch.lerp(loss, distilled, share)
        return {"total_loss": total, "bc_loss": loss, "distill_loss": distilled}

    def _distilled(self, batch: Batch, output: Mapping[str, Tree], mask: Tree) -> Tensor:
        """Computes the KL divergence from the expert's distribution to the policy's."""
        names = [name for name in DISTRIBUTION if name in output]
        missing = [name for name in names if name not in batch]
        if missing:
            raise SchemaError(
                f"the data has no column {', '.join(missing)}, the expert's probabilities, which"
                " policy.learn.distill_weight needs",
                hint="dicore collect RUN --outputs -o demo.npz, and"
                f" pipeline.dataset.extra=[{','.join(names)}]",
            )
        expert = {name: batch[name] for name in names}
        temperature = self._cfg.learn.distill_temperature
        loss: Tensor = distillation_error(expert, output, batch.get("weight"), mask, temperature)
        return loss
