"""What on-policy actor-critic algorithms share: acting, advantages, updates.

An algorithm is its loss: `_loss` of a minibatch. Samples have the columns obs, action, log_prob (of
the policy that acted), value, advantage and target (the return to learn the value from).

Shapes: K ready environments, T steps, N environments, B samples, A dimensions, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_map
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional.advantage import gae
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.policy_gradient import PolicyGradientLoss
from dicore_plugins.functional.samples import as_rows, flatten_time, rows_after, to_batch
from dicore_plugins.loggers.heartbeat import beat
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.models.actor_critic.vac import VAC
from dicore_plugins.models.encoders.mlp import applies
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.formulas import formula_of
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.acting import Actor, evaluating, switched_modules
from dicore_plugins.policies.actor_critic.base_config import ActorCriticPolicyConfig
from dicore_plugins.policies.actor_critic.checks import output_problem
from dicore_plugins.policies.actor_critic.minibatches import (
    Weights,
    in_chunks,
    log_prob_of,
    minibatches,
    with_scaled_advantages,
)
from dicore_plugins.policies.base import Results, Samples, returned
from dicore_plugins.policies.compiled import differentiates, for_updates
from dicore_plugins.policies.recurrent import RecurrentPolicy
from dicore_plugins.policies.unit_actions import UnitActions

DISTRIBUTION = ("logit", "mean", "log_std")
"""Outputs of a network that describe how it acts."""
_USED = (
    "obs", "action", "raw_action", "log_prob", "value", "advantage", "target", "weight", "before",
)  # fmt: skip
"""Columns of a minibatch."""
CHUNK = 4096
"""Most observations whose values are computed at once."""


class ActorCriticPolicy(RecurrentPolicy):
    """Base class of policies that learn an actor and a critic from samples of the current policy.

    A subclass implements `_loss`. The network returns `logit`, or `mean` and `log_std`, and
    `value`; see `VAC`.
    """

    config_class: ClassVar[type[PolicyConfig]] = ActorCriticPolicyConfig
    _cfg: ActorCriticPolicyConfig
    attributes: ClassVar[tuple[str, ...]] = ("actor", "flat", "optimizer", "order")

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = super()._checked_model(model)
        problem: str | None = f"expected a network (torch.nn.Module), got {type(model).__name__}"
        if isinstance(model, nn.Module):
            problem = self._problem_of(model)
        if problem is None:
            return model
        raise UsageError(
            f"model: {problem}",
            hint="pass a module that returns logit (or mean and log_std) and value",
        )

    def _problem_of(self, model: nn.Module) -> str | None:
        """Returns how the outputs of a network differ from those that are needed, or None."""
        if type(model) is VAC:
            return None
        return output_problem(model, self._cfg.model or {}, continuous=self._continuous)

    # ---- learn

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._model.to(self._device)
        self._flat = Flat(self._model)
        self._optimizer = optimizer_of(learn, self._flat)
        self._network = for_updates(self._model, learn, self._device)
        self._order = stream("policy/learn")

    def _forward_learn(
        self, data: Samples, learning_rate: float | None = None, **settings: Any
    ) -> list[dict[str, Any]]:
        """Runs the gradient updates of one collect.

        Args:
            data: Batch or list of B samples of `get_train_sample`.
            learning_rate: Annealed learning rate; None: the configured one.
            **settings: Annealed settings: `entropy_weight`, and those of the algorithm.

        Returns:
            The results of each update.
        """
        batch = to_batch(data, self._device)
        if not self._flat.intact():
            self._flat.rebind()
        self._by_hand = differentiates(self._model, VAC, self._cfg.learn)
        self._formula = formula_of(self, "_loss", self._model)
        self._optimizer.learning_rate = (
            self._cfg.learn.learning_rate if learning_rate is None else learning_rate
        )
        self._normalise_values(batch)
        results = self._updates(batch, **settings)
        norm = getattr(self._model, "obs_norm", None)
        if norm is not None:  # after the updates: ratios start at 1 in every collect
            norm.update(self._model.encode.vector(self._steps(batch["obs"])))
        return results

    def _steps(self, column: Tree) -> Tree:
        """Returns a column of samples as single steps [B, ...]."""
        return self._memory.steps(column) if self._recurrent else column

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        """Runs one pass over the samples."""
        size = self._cfg.learn.batch_size
        updates = (self._update(each, **settings) for each in self._minibatches(batch, size))
        return [result for result in updates if result is not None]

    def _minibatches(self, batch: Batch, size: int | None) -> Iterator[Batch]:
        """Yields the samples in random order, in minibatches of equal size or one less."""
        count = len(batch)
        if size is None or size >= count:
            yield batch
            return
        order = torch.from_numpy(self._order.permutation(count)).to(self._device)
        wanted = (*_USED, "prev_state", "end") if self._recurrent else _USED
        columns = {key: batch[key] for key in wanted if key in batch}
        for minibatch in minibatches(columns, order, size):
            yield minibatch
            beat()

    def _update(self, batch: Batch, **settings: float) -> Results | None:
        """Runs one gradient update; returns None instead if the policy has moved too far."""
        learn, (batch, output, pull) = self._cfg.learn, self._run_network(batch)
        if learn.adv_norm and len(batch) > 1 and "advantage" in batch:
            batch = self._scaled_advantages(batch)
        weights = Weights.of(self._model, learn, settings)
        parts, info, slopes = self._loss_parts(batch, output, weights, settings)
        value_loss = parts.value * weights.unit
        loss = torch.add(parts.policy, value_loss, alpha=learn.value_weight)
        if weights.entropy:
            loss = torch.sub(loss, parts.entropy, alpha=weights.entropy)
        if self._is_far(info):
            return None
        self._optimizer.zero_grad()
        if slopes is None:
            loss.backward()
        if pull is not None:
            pull(slopes)
        self._optimizer.step(loss)
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "policy_loss": parts.policy.detach(),
            "value_loss": value_loss.detach(),
            "entropy": parts.entropy.detach(),
            **info,
        }

    def _scaled_advantages(self, batch: Batch) -> Batch:
        """Returns the samples with advantages of mean 0 and standard deviation 1."""
        return with_scaled_advantages(batch)

    def _run_network(self, batch: Batch) -> tuple[Batch, Any, Any]:
        """Runs the network; returns the batch, outputs, and how gradients flow back, or None."""
        if self._recurrent:
            return *self._memory.unrolled(self._model, batch, _USED), None
        if self._by_hand:
            return batch, *self._model.forward_and_pull(batch["obs"])
        return batch, self._network(batch["obs"]), None

    def _loss_parts(
        self, batch: Batch, output: Tree, weights: Weights, settings: Mapping[str, float]
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor], dict[str, Tensor] | None]:
        """Computes what `_loss` does for the outputs of the network.

        Returns:
            Its results, and the derivatives of the whole loss by the outputs, by their names, if
            the formula of `_loss` gives them; None: autograd computes them.
        """
        formula = self._formula if self._by_hand else None
        found = formula and formula(self, batch, output, weights, settings)
        if found is not None:
            parts, info, slopes = found
            return parts, info, slopes
        action, mask = self._action_index(batch), mask_of(batch["obs"])
        log_prob, entropy = log_prob_entropy(output, action, mask)
        parts = self._loss(batch, output["value"], log_prob, entropy, **settings)
        return *returned(parts, self, "_loss"), None

    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: object
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        """Computes the losses of a minibatch, and what else is worth logging."""
        raise NotImplementedError

    def _is_far(self, info: Mapping[str, Tensor]) -> bool:
        """Returns whether the policy has moved too far from the one that acted."""
        return False

    def _normalise_values(self, batch: Batch) -> None:
        norm = getattr(self._model, "value_norm", None)
        if norm is not None:
            norm.update(batch["target"].reshape(-1, 1))

    def _action_index(self, batch: Batch) -> Any:
        """Returns actions as the network's distribution has them."""
        if self._continuous:
            return batch["raw_action"]
        action = batch["action"]
        index: Tensor = (action["action_type"] if self._cfg.hybrid else action).long()
        if self._start is not None:
            index = index - torch.from_numpy(self._start).to(index.device)
        if self._cfg.hybrid:
            return {"action_type": index, "action_args": batch["raw_action"]}
        return index

    def _get_skipped_updates(self) -> int:
        return self._optimizer.skipped

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "value_loss", "entropy"]

    def _state_dict_learn(self) -> StateDict:
        return {**self._state_dict_model(), "optimizer": self._optimizer.state_dict()}

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._optimizer.load_state_dict(state["optimizer"])

    def _get_setting_learn(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Computes the annealed options at `envstep`."""
        learn = self._cfg.learn
        progress = min(max(command_info["envstep"], 0) / learn.anneal, 1.0)
        return {
            name: value * (1 + (end - 1) * progress)
            for name, (value, end) in self._annealed().items()
            if end != 1
        }

    def _annealed(self) -> dict[str, tuple[float, float]]:
        """Returns options of learning, each with its final value as a fraction."""
        learn = self._cfg.learn
        return {
            "learning_rate": (learn.learning_rate, learn.learning_rate_end),
            "entropy_weight": (learn.entropy_weight, learn.entropy_weight_end),
        }

    # ---- collect and eval

    @cached_property
    def _memory(self) -> ModuleType:
        """What is different with a recurrent network."""
        from dicore_plugins.policies.actor_critic import recurrent

        return recurrent

    @cached_property
    def _continuous(self) -> bool:
        return self._cfg.action_low is not None and not self._cfg.hybrid

    @cached_property
    def _start(self) -> npt.NDArray[np.int64] | None:
        """Lowest action index, int64 [] or [H]; None if it is 0."""
        start = np.asarray(self._cfg.action_start, np.int64)
        return start if start.any() else None

    @cached_property
    def _actions(self) -> UnitActions:
        """Scales continuous actions from those of the distribution to those of the environment."""
        return UnitActions(self._cfg, self._device)

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        name = "reparam_sample" if self._continuous else "multinomial_sample"
        if self._cfg.hybrid:
            name = "hybrid_reparam_multinomial_sample"
        self._collect_model = model_wrap(
            self._remembering(self._actor), name, rng=stream("policy/collect")
        )

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        name = "deterministic_sample" if self._continuous else "argmax_sample"
        if self._cfg.hybrid:
            name = "hybrid_deterministic_argmax_sample"
        self._eval_model = model_wrap(self._remembering(self._actor), name)

    def _get_action_distribution(self) -> str:
        """Returns the distribution that `action` of the collect mode is a sample of."""
        discrete = "" if self._cfg.hybrid else "softmax"
        return "gaussian" if self._continuous else discrete

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(self._model, self._device, by_numpy=self._cfg.collect.act_by_numpy)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Samples actions.

        Args:
            obs: `{env_id: obs}` of K environments.
            **unknown: Raises UsageError.

        Raises:
            UsageError: a keyword argument is passed.
        """
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        batch = EnvBatch.of(obs)
        ids = {"env_id": batch.env_id} if self._recurrent else {}
        return batch.with_value(self._env_actions(self._collect_model.forward(batch.value, **ids)))

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        ids = {"env_id": batch.env_id} if self._recurrent else {}
        return batch.with_value(self._env_actions(self._eval_model.forward(batch.value, **ids)))

    def _env_actions(self, output: Columns) -> Columns:
        """Converts the chosen actions to those of the environment."""
        action = output["action"]
        if self._cfg.hybrid:
            args, kind = action["action_args"], action["action_type"]
            kind = kind if self._start is None else kind + self._start
            parts = {"action_type": kind, "action_args": self._actions.env(args)}
            return {**output, "raw_action": args, "action": parts}
        if not self._continuous:
            return output if self._start is None else {**output, "action": action + self._start}
        return {**output, "raw_action": action, "action": self._actions.env(action)}

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        for key in ("raw_action", "prev_state", *DISTRIBUTION):
            if key in output:
                columns[key] = output[key]
        return columns

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Adds log-probabilities, values, advantages and targets to single steps."""
        value, advantage = self._advantages(block, tail)
        columns = {key: each for key, each in block.items() if key not in DISTRIBUTION}
        columns |= {"value": value, "advantage": advantage, "target": advantage + value}
        columns["log_prob"] = self._acted_log_prob(block).reshape(value.shape)
        made = Batch(columns, len(block))
        if self._recurrent:
            sequences: Batch = self._memory.as_sequences(
                made, int(self._cfg.collect.unroll_len), tail
            )
            return sequences
        return flatten_time(made)

    def _advantages(self, block: Batch, tail: Tail | None) -> tuple[Any, Any]:
        """Computes values and advantages of the steps of a block: float32 [T, N] each."""
        self._need_one_reward(block)
        if tail is None:
            raise SchemaError("the block has no tail", hint="pass what follows the block")
        value, next_value = self._block_values(block, tail)
        reward, valid = block["reward"], block.get("valid")
        if valid is not None and not valid.all():  # else NaN of abnormal episodes would spread
            reward, value, next_value = np.where(valid, (reward, value, next_value), 0)
        found = self._advantage(reward, value, next_value, block["done"], block["end"])
        return value, returned(found, self, "_advantage")

    def _advantage(self, reward: Tree, value: Tree, next_value: Any, done: Any, end: Any) -> Any:
        """Computes the advantages of steps [T, N]."""
        over = np.zeros_like(done) if self._cfg.learn.ignore_done else done
        gamma, gae_lambda = self._cfg.discount_factor, self._lambda
        return gae(reward, value, next_value, over, end, gamma=gamma, gae_lambda=gae_lambda)

    @property
    def _lambda(self) -> float:
        """Lambda of the advantages."""
        return float(self._cfg.collect["gae_lambda"])

    def _block_values(self, block: Batch, tail: Tail) -> tuple[Any, Any]:
        """Computes the values before and after each step: float32 [T, N] each."""
        if self._recurrent:
            with evaluating(self._switched):
                value, next_value = self._memory.block_values(
                    self._model, block, tail, self._device
                )
                return value, next_value
        shape = block["end"].shape
        rows = tree_map(as_rows, block["obs"])
        value = self._values(rows).reshape(shape)
        finals = self._values(tail.final_obs) if len(tail.final_index) else np.empty(0, np.float32)
        return value, rows_after(value, self._values(tail.obs), finals, tail)

    def _values(self, obs: Tree) -> npt.NDArray[np.float32]:
        """Computes the values of observations [B, ...]: float32 [B]."""
        with evaluating(self._switched):
            return in_chunks(self._critic, obs, CHUNK)

    @cached_property
    def _switched(self) -> list[Any]:
        return switched_modules(self._model)

    def _critic(self, obs: Tree) -> Tensor:
        """Computes values by the method `v` of the model, or by `forward` if it has no own one."""
        obs, model = tree_map(lambda leaf: leaf.to(self._device), obs), self._model
        own = hasattr(model, "v") and applies(type(model), "v", "forward")
        value: Tensor = model.v(obs) if own else model(obs)["value"]
        return value

    def _acted_log_prob(self, block: Batch) -> npt.NDArray[np.float32]:
        """Computes the log-probability of each action when it was chosen: float32 [T * N]."""
        kept = (*DISTRIBUTION, "action", "raw_action", "obs")
        columns = {key: each for key, each in block.items() if key in kept}
        if not isinstance(columns["obs"], Mapping):
            del columns["obs"]
        return log_prob_of(Batch(columns, len(block)), self._action_index)
