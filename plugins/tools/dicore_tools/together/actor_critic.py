"""Updates of PPO and A2C for S seeds at once; the equations are those of their policies.

Shapes: S seeds, B samples, A actions or dimensions, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dicore.data import Batch
from dicore.interfaces.policy import LearnMode
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.samples import to_batch
from dicore_plugins.models.actor_critic.vac import VAC
from dicore_plugins.policies.base import Results
from dicore_tools.together.learning import Settings, attributes_of, per_seed, stacked
from dicore_tools.together.networks import Stack, stacked_mlp
from dicore_tools.together.optimizers import step_all
from dicore_tools.together.policy_losses import Losses, Outputs, losses_of

__all__ = ["JointActorCritic"]

_USED = ("raw_action", "action", "log_prob", "value", "advantage", "target")


class JointActorCritic:
    """The learn modes of PPO, or of A2C, of S seeds.

    Args:
        modes: The learn mode of each.
    """

    def __init__(self, modes: Sequence[LearnMode]) -> None:
        of = attributes_of(modes)
        self._cfg: Any = of("cfg")[0]
        self._models: list[VAC] = of("model")
        self._optimizers, self._orders = of("optimizer"), of("order")
        self._network = _Networks(self._models[0], Stack(of("flat")))

    def update(self, batches: Sequence[Batch], settings: Sequence[Settings]) -> list[list[Results]]:
        """Runs the updates of one collect of each; see `JointLearner`."""
        learn = self._cfg.learn
        rows = [to_batch(each) for each in batches]
        for optimizer, each in zip(self._optimizers, settings, strict=True):
            optimizer.learning_rate = each.get("learning_rate", learn.learning_rate)
        self._normalise_values(rows)
        columns = self._columns(rows)
        results: list[list[Results]] = [[] for _ in rows]
        running = [True] * len(rows)
        for _ in range(learn.get("epoch_per_collect", 1)):
            for minibatch in self._minibatches(columns, learn.batch_size):
                self._step(minibatch, settings, results, running)
                if not any(running):
                    break
        for model, row in zip(self._models, rows, strict=True):
            if model.obs_norm is not None:  # after the updates, as the policy does
                model.obs_norm.update(model.encode.vector(row["obs"]))
        return results

    def _normalise_values(self, rows: Sequence[Batch]) -> None:
        for model, row in zip(self._models, rows, strict=True):
            if model.value_norm is not None:
                model.value_norm.update(row["target"].reshape(-1, 1))

    def _columns(self, rows: Sequence[Batch]) -> dict[str, Tensor]:
        """Returns what an update needs of the samples, [S, B, ...]; observations as features."""
        used = [Batch({key: row[key] for key in _USED if key in row}) for row in rows]
        columns = stacked(used)
        if self._cfg.action_low is None:
            columns["action"] = columns["action"].long() - self._cfg.action_start
        with torch.no_grad():
            pairs = zip(self._models, rows, strict=True)
            columns["obs"] = torch.stack([model.encode.forward(row["obs"]) for model, row in pairs])
        masks = [mask_of(row["obs"]) for row in rows]
        if masks[0] is not None:
            columns["mask"] = torch.stack(masks)
        return columns

    def _minibatches(
        self, columns: dict[str, Tensor], size: int | None
    ) -> Iterator[dict[str, Tensor]]:
        """Yields the samples of each in its random order; see `ActorCriticPolicy`."""
        seeds, count = columns["advantage"].shape
        if size is None or size >= count:
            yield columns
            return
        parts = -(-count // size)
        bounds = [count * part // parts for part in range(parts + 1)]
        order = torch.stack([torch.from_numpy(each.permutation(count)) for each in self._orders])
        row = torch.arange(seeds).unsqueeze(1)
        mixed = {key: each[row, order] for key, each in columns.items()}
        for start, stop in pairwise(bounds):
            yield {key: each[:, start:stop] for key, each in mixed.items()}

    def _step(
        self,
        batch: dict[str, Tensor],
        settings: Sequence[Settings],
        results: list[list[Results]],
        running: list[bool],
    ) -> None:
        """Runs one update of each that did not move too far, and adds its results."""
        learn = self._cfg.learn
        if learn.adv_norm and batch["advantage"].shape[1] > 1:
            std, mean = torch.std_mean(batch["advantage"], 1, keepdim=True)
            batch = {**batch, "advantage": (batch["advantage"] - mean).div_(std + 1e-8)}
        output, pull = self._network.forward_and_pull(batch["obs"])
        norms = [model.value_norm for model in self._models if model.value_norm is not None]
        scale = torch.stack([norm.std for norm in norms]) if norms else None
        if scale is not None:
            mean = torch.stack([norm.mean for norm in norms])
            output = output._replace(value=torch.addcmul(mean, output.value, scale))
        found = losses_of(self._cfg, batch, output, settings, scale)
        if learn.get("target_kl") is not None:
            far = (found.info["approx_kl"] > learn.target_kl).tolist()
            running[:] = [on and not over for on, over in zip(running, far, strict=True)]
        pull(found)
        going = [row for row, on in enumerate(running) if on]
        if going:
            step_all([self._optimizers[row] for row in going], found.total[going])
        numbers = per_seed(
            total_loss=found.total,
            policy_loss=found.policy,
            value_loss=found.value,
            entropy=found.entropy,
            **found.info,
        )
        for on, optimizer, result, each in zip(
            running, self._optimizers, results, numbers, strict=True
        ):
            if on:
                result.append({"cur_lr": optimizer.learning_rate, **each})


class _Networks:
    """The networks of S seeds."""

    def __init__(self, model: VAC, stack: Stack) -> None:
        self._trunk = None if model.encoder is None else stacked_mlp(model.encoder, stack)
        self._actor, self._critic = (
            stacked_mlp(each, stack) for each in (model.actor, model.critic)
        )
        self._log_std = None if model.log_std is None else stack.of(model.log_std)

    def forward_and_pull(self, x: Tensor) -> tuple[Outputs, Callable[[Losses], None]]:
        """Maps features [S, B, F] to the outputs, and returns how gradients flow back."""
        pull_trunk: Any = None
        if self._trunk is not None:
            x, pull_trunk = self._trunk.forward_and_pull(x)
        action, pull_actor = self._actor.forward_and_pull(x)
        value, pull_critic = self._critic.forward_and_pull(x)
        log_std = None if self._log_std is None else self._log_std[0]

        def pull(found: Losses) -> None:
            wanted = pull_trunk is not None
            below: Any = pull_actor(found.of_action, wanted=wanted)
            more = pull_critic(found.of_value, wanted=wanted)
            if self._log_std is not None and found.of_log_std is not None:
                self._log_std[1].copy_(found.of_log_std)
            if wanted:
                pull_trunk(below + more)

        return Outputs(action, log_std, value.squeeze(2)), pull
