"""DQN (Mnih et al. 2015, doi:10.1038/nature14236) with double DQN, n-step returns and weights.

Target: y = r + gamma_k (1 - done) Q'(s', argmax_a Q(s', a)); gamma_k is the discount over the k
steps of the sample (double DQN: van Hasselt et al. 2015, arXiv:1509.06461).

Shapes: K ready environments, B rows, A actions, H heads.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional.exploration import get_epsilon_greedy_fn
from dicore_plugins.functional.samples import nstep_samples, to_batch, transitions, weight_of
from dicore_plugins.functional.td import bridged, by_head, dqn_td_target, legal, nstep_td_error
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.models.encoders.mlp import applies
from dicore_plugins.models.flat import Flat
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.acting import Actor, as_outputs, switched_modules
from dicore_plugins.policies.base import Policy, Samples, load_model_state, model_state, returned
from dicore_plugins.policies.outputs import output_shapes, zeros_for
from dicore_plugins.policies.value.dqn_config import DQNConfig


class DQNPolicy(Policy):
    """Q-learning with a replay buffer, a target network and epsilon-greedy exploration."""

    config_class: ClassVar[type[PolicyConfig]] = DQNConfig
    attributes: ClassVar[tuple[str, ...]] = (
        "actor",
        "flat",
        "optimizer",
        "target_flat",
        "target_model",
        "update_count",
    )
    _cfg: DQNConfig
    _sampler: ClassVar[str] = "eps_greedy_sample"
    """The model wrapper that explores."""

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = super()._checked_model(model)
        if isinstance(model, nn.Module):
            self._check_values(model)
            return model
        raise UsageError(
            f"model: expected a network (torch.nn.Module), got {type(model).__name__}",
            hint="pass a module that maps observations [B, ...] to Q values [B, A]",
        )

    def _check_values(self, model: nn.Module) -> None:
        """Checks that a network other than DQN returns one value per action."""
        options: Any = self._cfg.model or {}
        own = isinstance(model, DQN) and type(model).__module__.startswith("dicore_plugins.")
        obs = None if own else zeros_for(options, 2)
        outputs = None if obs is None else output_shapes(model, obs)
        if outputs is None:
            return
        found, actions = as_outputs(outputs).get("logit", []), options.get("action_shape")
        found = found if found and isinstance(found[0], list) else [found]
        heads = actions if isinstance(actions, tuple) else (actions,)
        wanted = [[2, count] for count in heads]
        if found != wanted:
            raise UsageError(
                f"model: {type(model).__name__} returns {_shapes(found)} for two observations;"
                f" expected {_shapes(wanted)}",
                hint="pass a module that maps observations [B, ...] to Q values [B, A]",
            )

    @cached_property
    def _start(self) -> npt.NDArray[np.int64] | None:
        """Lowest action index, int64 [] or [H]; None if it is 0."""
        start = np.asarray(self._cfg.action_start, np.int64)
        return start if start.any() else None

    @cached_property
    def _noisy(self) -> bool:
        """Whether the network explores by the noise of its weights."""
        return bool(getattr(self._model, "noisy", False))

    # ---- learn

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._model.to(self._device)
        self._flat = Flat(self._trained(self._model))
        self._optimizer = optimizer_of(
            learn, self._flat, eps=learn.adam_eps, weight_decay=learn.weight_decay
        )
        self._target_model = copy.deepcopy(self._model).requires_grad_(False)
        for each in switched_modules(self._target_model):
            each.training = False
        self._target_flat = Flat(self._trained(self._target_model))
        self._update_count = 0
        if learn.get("compile") or learn.get("autocast"):
            from dicore_plugins.policies.compiled import replace_losses

            replace_losses(self, "_loss")

    def _trained(self, model: Any) -> Any:
        """Returns the module, or the list of parameters, that the optimizer updates."""
        return model

    def _forward_learn(self, data: Samples, **_: object) -> Columns:
        """Runs one gradient update.

        Args:
            data: Batch or list of B samples: obs, action, reward, next_obs, done; for n-step
                samples also value_gamma, and reward may be [B, n], one reward per step;
                optionally weight float32 [B], and IS float32 [B], which is the weight if
                `priority_IS_weight` is set.

        Returns:
            `total_loss`, `target_q_value` float32 [B] (y), `priority` float32 [B] (absolute TD
            error) and `cur_lr`; all are tensors except `cur_lr`.
        """
        batch = to_batch(data, self._device)
        learn = self._cfg.learn
        if not self._flat.intact():
            self._flat.rebind()
        if self._noisy:
            self._model.reset_noise()
            self._target_model.reset_noise()
        weight = weight_of(batch, sampled=self._cfg.priority_IS_weight)
        loss, priority, target = self._loss(batch, weight)
        if learn.learning_rate_end < 1:
            self._optimizer.learning_rate = self._get_decayed_rate()
        self._step(loss)
        self._update_target()
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "target_q_value": target,
            "priority": priority,
        }

    def _step(self, loss: torch.Tensor) -> None:
        """Updates the parameters by the gradient of the loss."""
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)

    def _loss(
        self, batch: Batch, weight: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Computes the loss, the priority [B] and the value of the target [B] of a batch."""
        target, learn = self._target(batch), self._cfg.learn
        returned(target, self, "_target")
        q = q_values(self._model, batch["obs"])
        loss, td_error = nstep_td_error(
            q,
            self._action_index(batch["action"]),
            target,
            weight,
            learn.criterion,
            learn.huber_delta,
        )
        more = self._regulariser(q, batch, weight)
        loss = loss if more is None else loss + more
        return loss, td_error, target if isinstance(target, torch.Tensor) else target[0]

    def _regulariser(
        self, q: Tree, batch: Batch, weight: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Computes a further term of the loss from Q values [B, A], or one per head; None: none."""

    def _bridged(
        self, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | float]:
        """Returns the discounted rewards [B], where to stop [B] or None, and gamma^k."""
        cfg = self._cfg
        return bridged(batch, cfg.discount_factor, cfg.nstep, ignore_done=cfg.learn.ignore_done)

    def _target(self, batch: Batch) -> torch.Tensor | list[torch.Tensor]:
        """Computes y: float32 [B], or one per head."""
        with torch.no_grad():
            next_q = q_values(self._target_model, batch["next_obs"])
            online = q_values(self._model, batch["next_obs"]) if self._cfg.learn.double else next_q
            online = legal(online, batch["next_obs"])
            reward, done, gamma = self._bridged(batch)
            target: torch.Tensor | list[torch.Tensor] = by_head(
                lambda q, chooser: dqn_td_target(q, reward, done, gamma, chooser), next_q, online
            )
            return target

    def _action_index(self, action: torch.Tensor) -> torch.Tensor:
        """Converts actions [B] or [B, H] of the environment to indices from 0, int64."""
        index = action.long()
        if self._start is None:
            return index
        return index - torch.from_numpy(self._start).to(action.device)

    def _update_target(self) -> None:
        learn = self._cfg.learn
        self._update_count += 1
        if learn.target_theta is not None or self._update_count % learn.target_update_freq == 0:
            self._move_target(learn.target_theta)

    def _move_target(self, theta: float | None) -> None:
        """Moves the target network towards the network; None: copies."""
        self._target_flat.follow(self._flat, theta)

    def _get_initial_priority(self) -> Any:
        """Returns the function that computes the priorities [B] of samples before their first draw.

        Collectors of distributed replay use it (Horgan et al. 2018, arXiv:1803.00933): the target
        network becomes a copy of the network, which only collectors may do.
        """
        return self._initial_priority

    def _initial_priority(self, samples: Batch) -> npt.NDArray[np.float32]:
        self._move_target(None)
        with torch.no_grad():
            _, priority, _ = self._loss(to_batch(samples, self._device), None)
        found: npt.NDArray[np.float32] = priority.cpu().numpy()
        return found

    def _get_skipped_updates(self) -> int:
        return self._optimizer.skipped

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "target_q_value"]

    def _state_dict_learn(self) -> StateDict:
        return {
            "model": model_state(self._model),
            "target_model": model_state(self._target_model),
            "optimizer": self._optimizer.state_dict(),
            "update_count": self._update_count,
            **({"decays": True} if self._cfg.learn.learning_rate_end < 1 else {}),
        }

    def _load_state_dict_learn(self, state: State) -> None:
        load_model_state(self._model, state["model"])
        load_model_state(self._target_model, state["target_model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._update_count = int(state["update_count"])
        if state.get("decays") and self._cfg.learn.learning_rate_end == 1:  # reconfigured
            self._optimizer.learning_rate = self._cfg.learn.learning_rate

    # ---- collect and eval

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        actor: Any = self._actor
        if self._noisy:
            actor = NoisyActor(self._model, self._device, by_numpy=False)
        rng = stream("policy/collect")
        acting = self._acting(actor)
        self._collect_model = model_wrap(acting, self._sampler, rng=rng, **self._sampling())

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        self._eval_model = model_wrap(self._acting(self._actor), "argmax_sample")

    def _get_action_distribution(self) -> str:
        return "" if self._noisy else self._sampler.removesuffix("_sample")

    def _sampling(self) -> dict[str, float]:
        """Returns options of the wrapper that explores."""
        return {}

    def _acting(self, actor: Any) -> Tree:
        """Returns what computes the values for acting in one mode."""
        return actor

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        actor = MeanActor if self._noisy else Actor
        return actor(self._model, self._device, by_numpy=self._cfg.collect.act_by_numpy)

    def _forward_collect(
        self, obs: Mapping[int, Tree], eps: Any = None, **unknown: object
    ) -> EnvBatch[Columns]:
        """Selects epsilon-greedy actions.

        Args:
            obs: `{env_id: obs}` of K environments.
            eps: Probability of a random action: one number, one per observation, or a dict by
                env id; None: the final value of the schedule.
            **unknown: Raises UsageError; catches a misspelt `eps`.

        Raises:
            UsageError: another keyword argument is passed.
        """
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of DQN; expected 'eps'",
                hint="pass policy_kwargs={'eps': 0.1}",
            )
        batch = EnvBatch.of(obs)
        eps = self._cfg.other.eps.end if eps is None else eps
        output = self._collect_model.forward(batch.value, eps=eps, env_id=batch.env_id)
        return batch.with_value(self._env_actions(output))

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        return batch.with_value(self._env_actions(self._eval_model.forward(batch.value)))

    def _env_actions(self, output: Columns) -> Columns:
        """Converts the chosen indices to actions of the environment."""
        if self._start is None:
            return output
        return {**output, "action": output["action"] + self._start}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps, or to n-step samples.

        Raises:
            UsageError: rewards are vectors, which the loss would take for those of n steps.
        """
        self._need_one_reward(block)
        if self._cfg.nstep == 1:
            return transitions(block, tail)
        return nstep_samples(block, self._cfg.nstep, self._cfg.discount_factor, tail)

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Computes epsilon at `envstep`."""
        eps = self._cfg.other.eps
        schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)
        return {"eps": schedule(command_info["envstep"])}


class NoisyActor(Actor):
    """Acts with new noise on the weights in each call."""

    def forward(self, obs: Tree, *state: Any) -> Columns:
        """Runs the model; see `Actor.forward`."""
        self._model.reset_noise()
        return super().forward(obs, *state)

    __call__ = forward


class MeanActor(Actor):
    """Acts without the noise on the weights."""

    def forward(self, obs: Tree, *state: Any) -> Columns:
        """Runs the model; see `Actor.forward`."""
        self._model.reset_noise(on=False)
        return super().forward(obs, *state)

    __call__ = forward


def _shapes(found: list[list[int]]) -> str:
    return " and ".join(f"values {shape}" if shape else "no values" for shape in found)


def q_values(model: Any, obs: Tree) -> Any:
    """Computes Q values by the method `q` of the model, or by `forward` if it has no own one.

    Returns:
        [B, A], or a list with one per head.
    """
    q = getattr(model, "q", None)
    if q is None or not applies(type(model), "q", "forward"):
        return as_outputs(model(obs))["logit"]
    return q(obs)
