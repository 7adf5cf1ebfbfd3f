"""The part that C51 and QR-DQN share: the outputs of the actions taken and of the next ones.

Shapes: B rows, A actions, N atoms or quantiles.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dicore.data import Batch, Tree
from dicore.errors import UsageError
from dicore_plugins.functional.td import legal
from dicore_plugins.policies.outputs import output_shapes, zeros_for
from dicore_plugins.policies.value.dqn import DQNPolicy, q_values

__all__ = ["DistributionalPolicy"]


class DistributionalPolicy(DQNPolicy):
    """DQN over a network whose `distribution(obs)` gives N outputs per action.

    A subclass implements `_head_loss`; `_following` is the choice of the next actions.
    """

    network_has: ClassVar[tuple[str, ...]] = ("distribution",)

    def _check_values(self, model: nn.Module) -> None:
        super()._check_values(model)
        options: Any = self._cfg.model or {}
        obs, actions = zeros_for(options, 2), options.get("action_shape")
        found = None if obs is None else output_shapes(model, obs, method="distribution")
        heads = actions if isinstance(actions, tuple) else (actions,)
        wanted = [[2, count] for count in heads]
        if found is not None and [each[:-1] for each in found] != wanted:
            raise UsageError(
                f"model: {type(model).__name__}.distribution returns {found} for two observations;"
                f" expected a list with {' and '.join(f'[2, {count}, N]' for count in heads)}",
                hint="choose policy.model.type=c51, qrdqn or iqn, or derive from that network",
            )

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the mean over the heads of `_head_loss`."""
        action = self._action_index(batch["action"]).reshape(len(batch["action"]), -1)
        with torch.no_grad():
            following = self._following(batch, action)
        losses, priorities, targets = [], [], []
        outputs = self._outputs(self._model, batch["obs"], len(batch))
        for head, (output, (next_output, bridged)) in enumerate(
            zip(outputs, following, strict=True)
        ):
            loss, priority, target = self._head_loss(
                _of(output, action[:, head]), next_output, bridged, weight
            )
            losses.append(loss)
            priorities.append(priority)
            targets.append(target)
        if len(losses) == 1:
            return losses[0], priorities[0], targets[0]
        return torch.stack(losses).mean(), torch.stack(priorities).mean(0), targets[0]

    def _following(self, batch: Batch, action: Tensor) -> list[tuple[Tensor, Any]]:
        """Returns what the targets of each head are made of: those of the greedy next actions.

        Args:
            batch: The samples.
            action: int64 [B, H]; indices from 0.

        Returns:
            For each head, the outputs [B, N] of the next state, and what they are discounted and
            added to: rewards [B], done [B] or None, and gamma^k.
        """
        next_obs = batch["next_obs"]
        after = self._outputs(self._target_model, next_obs, len(batch))
        chooser = self._model if self._cfg.learn.double else self._target_model
        values = legal(q_values(chooser, next_obs), next_obs)
        values = [values] if isinstance(values, Tensor) else values
        bridged = self._bridged(batch)
        return [
            (_of(output, value.argmax(1)), bridged)
            for output, value in zip(after, values, strict=True)
        ]

    def _outputs(self, model: Any, obs: Tree, rows: int) -> list[Tensor]:
        """Returns the outputs [B, A, N] of each head; last of the network that is trained."""
        outputs: list[Tensor] = model.distribution(obs)
        return outputs

    def _head_loss(
        self, output: Tensor, next_output: Tensor, bridged: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss of one head.

        Args:
            output: [B, N]; of the actions taken, with their graph.
            next_output: float32 [B, N]; of the next actions, by the target network.
            bridged: Rewards [B], done [B] or None, and gamma^k.
            weight: float32 [B] or None; factors of the losses of the rows.

        Returns:
            The loss, a scalar; the priority [B]; the value of the target [B].
        """
        raise NotImplementedError


def _of(outputs: Tensor, action: Tensor) -> Tensor:
    """Returns the outputs [B, N] of one action per row, of outputs [B, A, N]."""
    return outputs[torch.arange(len(action), device=action.device), action]
