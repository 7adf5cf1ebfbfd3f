"""Procedure cloning: imitates the steps of an expert's search (Yang et al. 2022, arXiv:2205.10816).

Behavioural cloning learns the action a that a search found, given the observation s. Procedure
cloning learns the search itself, the states x_1, x_2, … x_L of its computation, of which the last
one has the action:

    p(a, x | s) = p(a | x_L, s) prod_l p(x_l | x_{l-1}, s),     L = - log p(x_l | x_{l-1}, s)

for a step l drawn uniformly among those that change something. Here x_l are labels of the cells of
a grid, as breadth-first search writes them: the action is the label of the agent's cell, so
p(a | x_L, s) is given. Acting, steps are predicted, each from the likeliest labels before, until
the agent's cell has a label.

Shapes: K ready environments, B samples, S cells of a side, L steps, A actions, C = A + 2 labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_contrib.models.procedure import ProcedureNet
from dicore_contrib.policies.procedure_cloning_config import ProcedureCloningConfig
from dicore_plugins.functional import transitions
from dicore_plugins.policies import OneOptimizerPolicy, Results

__all__ = ["ProcedureCloningPolicy"]

_STEPS = "procedure"
"""Column with the steps of searches, uint8 [B, L, S, S]."""


class ProcedureCloningPolicy(OneOptimizerPolicy):
    """Learns to search, and acts by searching."""

    config_class: ClassVar[type[PolicyConfig]] = ProcedureCloningConfig
    network_class: ClassVar[type | None] = ProcedureNet
    export_problem: ClassVar[str] = "it acts by searching"
    _cfg: ProcedureCloningConfig

    # ---- acting

    def _init_collect(self) -> None:
        self._rng = stream("policy/collect")
        self._model.to(self._device)

    def _init_eval(self) -> None:
        self._model.to(self._device)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Draws actions by the label of the agent's cell.

        Returns:
            `action`, `logit` float32 [K, A] and `procedure` uint8 [K, max_steps, S, S].
        """
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        batch = EnvBatch.of(obs)
        logit, steps = self._searched(batch.value)
        noise = self._rng.gumbel(size=logit.shape).astype(np.float32)
        action = (logit + noise).argmax(1) + self._cfg.action_start
        return batch.with_value({"action": action, "logit": logit, _STEPS: steps})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Takes the likeliest action of the label of the agent's cell."""
        batch = EnvBatch.of(obs)
        logit, _ = self._searched(batch.value)
        return batch.with_value({"action": logit.argmax(1) + self._cfg.action_start})

    @torch.no_grad()
    def _searched(self, obs: Tree) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
        """Returns the logits of actions [K, A], and the steps of the searches."""
        model, shown = self._model, torch.from_numpy(np.ascontiguousarray(obs)).to(self._device)
        labels = torch.zeros(shown.shape[:3], dtype=torch.int64, device=shown.device)
        agent = shown[..., self._cfg.agent_plane].flatten(1).float().argmax(1)
        rows = torch.arange(len(shown), device=shown.device)
        going = torch.ones(len(shown), dtype=torch.bool, device=shown.device)
        logit, steps = torch.zeros((len(shown), model.action_size), device=shown.device), []
        for _ in range(self._cfg.max_steps):
            if going.any():
                found = model.step(shown, labels)
                labels = torch.where(going[:, None, None], found.argmax(1), labels)
                own = found[:, 1:-1].flatten(2)[rows, :, agent]
                logit = torch.where(going.unsqueeze(1), own, logit)
                going = going & (labels.flatten(1)[rows, agent] == 0)
            steps.append(labels.to(torch.uint8))
        if not torch.isfinite(logit).all():
            raise NonFiniteError(
                "the network returns NaN or inf", hint="lower policy.learn.learning_rate"
            )
        return logit.cpu().numpy(), torch.stack(steps, 1).cpu().numpy()

    # ---- samples of own steps

    def _process_transition(self, obs: Tree, output: Columns, timestep: Any) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        steps = output.get(_STEPS)
        if steps is None:  # a warm-up policy does not search
            shape = (len(timestep.done), self._cfg.max_steps, *self._model.obs_shape[:2])
            steps = np.zeros(shape, np.uint8)
        return {**columns, _STEPS: steps}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps."""
        return transitions(block, tail)

    # ---- learning

    def _init_learn(self) -> None:
        self._make_optimizer()
        self._learn_rng = stream("policy/learn")

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update.

        Args:
            data: B samples: obs, and procedure uint8 [B, L, S, S], the labels after each step of a
                search; those without any step have no part in the loss.

        Returns:
            `total_loss`, the mean cross-entropy of labels; `accuracy`, the share of searches of
            which all labels are right.

        Raises:
            SchemaError: there are no steps of searches, they do not fit the network, or are more
                than `max_steps`.
        """
        batch = self._rows(data)
        if _STEPS not in batch:
            raise SchemaError(
                f"procedure_cloning learns from the column '{_STEPS}', the steps of searches",
                hint='set pipeline.dataset.extra=["procedure"];'
                " dicore_contrib.write_maze_demonstrations writes such data",
            )
        before, after, known = self._drawn_steps(batch)
        logit = self._model.step(batch["obs"], before)
        error = F.cross_entropy(logit, after, reduction="none").mean((1, 2))
        loss = (error * known).sum() / known.sum().clamp(min=1)
        right = (logit.argmax(1) == after).flatten(1).all(1)
        accuracy = (right * known).sum() / known.sum().clamp(min=1)
        return {**self._descend(loss), "accuracy": accuracy}

    def _drawn_steps(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Returns labels before and after a step of each search, and which searches have any."""
        steps = batch[_STEPS].long()
        form, most = (*self._model.obs_shape[:2],), self._model.labels
        if steps.dim() != 4 or steps.shape[2:] != form or int(steps.max()) >= most:
            raise SchemaError(
                f"column '{_STEPS}': expected labels below {most} [B, L, {form[0]}, {form[1]}], got"
                f" {list(steps.shape)} with labels up to {int(steps.max())}"
            )
        if steps.shape[1] > self._cfg.max_steps:
            raise SchemaError(
                f"column '{_STEPS}' has searches of up to {steps.shape[1]} steps; the policy would"
                f" end its own after {self._cfg.max_steps}",
                hint=f"set policy.max_steps={steps.shape[1]}",
            )
        blank = torch.zeros_like(steps[:, :1])
        before = torch.cat([blank, steps[:, :-1]], 1)
        count = (before != steps).flatten(2).any(2).sum(1)
        share = torch.from_numpy(self._learn_rng.random(len(steps), np.float32)).to(steps.device)
        at = (share * count).long().minimum((count - 1).clamp(min=0))
        rows = torch.arange(len(steps), device=steps.device)
        return before[rows, at], steps[rows, at], count > 0

    def _monitor_vars_learn(self) -> list[str]:
        return ["total_loss", "accuracy", "cur_lr"]
