"""What off-policy algorithms for continuous actions share: acting, Q targets, updates.

Target: y = r + gamma_k (1 - done) V'(s'); V' is the value of the next state by the target network,
and gamma_k the discount over the k steps of the sample. Networks act in [-1, 1], which is scaled to
the action space.

Shapes: K ready environments, B samples, A dimensions, E Q networks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional.distributional import quantile_target
from dicore_plugins.functional.losses import check_shapes
from dicore_plugins.functional.samples import nstep_samples, to_batch, transitions, weight_of
from dicore_plugins.functional.td import bridged
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.formulas import formula_of, with_formula
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.acting import Actor
from dicore_plugins.policies.base import (
    Policy,
    Results,
    Samples,
    load_model_state,
    model_state,
    returned,
)
from dicore_plugins.policies.continuous.base_config import (
    ActorQPolicyConfig,
    ContinuousQPolicyConfig,
)
from dicore_plugins.policies.outputs import Signature, method_problem
from dicore_plugins.policies.unit_actions import UnitActions


class ContinuousQPolicy(Policy):
    """Base class of policies that learn an actor and Q networks from a replay buffer.

    A subclass implements `_next_value` (or `_critic_loss`), `_update_actor` and `_explore`. The
    network has `actor`, `critic`, `policy(obs)` and `q(obs, action, frozen=…)`; see `QAC`.
    """

    has_target: ClassVar[bool] = True
    """Whether targets come from a slowly moving copy of the network."""
    needed: ClassVar[tuple[str, ...]] = ("actor", "critic", "policy", "q")
    """What a network must have."""
    shapes: ClassVar[Mapping[str, Signature]] = {
        "policy": ("", {"mean": "BA"}), "q": ("A", "EB")
    }  # fmt: skip
    """What its methods take and return; see `method_problem`."""
    config_class: ClassVar[type[PolicyConfig]] = ContinuousQPolicyConfig
    _cfg: ActorQPolicyConfig
    attributes: ClassVar[tuple[str, ...]] = (
        "actions",
        "actor",
        "flats",
        "noise",
        "optimizers",
        "target_flats",
        "target_model",
        "update_count",
    )
    squashed: ClassVar[bool] = True
    """Actions are tanh of the network's output."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Outputs of the network that the collect mode returns beside the actions."""
    draws: ClassVar[tuple[str, ...]] = ("_normal",)
    """Methods that draw by NumPy, which compiled losses call as they are."""

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = super()._checked_model(model)
        missing = [name for name in self.needed if not hasattr(model, name)]
        *most, last = self.needed
        problem: str | None = (
            f"{type(model).__name__} is not a network with {', '.join(most)} and {last}"
        )
        if isinstance(model, nn.Module) and not missing:
            problem = method_problem(model, self.shapes, self._cfg.model or {})
        if problem is None:
            return model
        name = self.default_config()["model"]["type"]
        raise UsageError(
            f"model: {problem}", hint=f"pass a module like that of policy.model.type={name}"
        )

    # ---- learn

    def _init_learn(self) -> None:
        model = self._model.to(self._device)
        self._flats = {"actor": Flat(model.actor), "critic": Flat(model.critic)}
        self._optimizers = {name: self._optimizer_of(flat) for name, flat in self._flats.items()}
        self._target_model: Any = None
        if self.has_target:
            self._target_model = copy.deepcopy(model).requires_grad_(False).eval()
            if getattr(model.critic, "dropout", 0.0):  # targets drop units, too: of DroQ
                self._target_model.critic.train()
            if getattr(model, "obs_norm", None) is not None:
                self._target_model.encode.norm = model.obs_norm
            self._target_flats = {
                "actor": Flat(self._target_model.actor),
                "critic": Flat(self._target_model.critic),
            }
        self._noise = stream("policy/learn")
        self._update_count = 0
        self._formulas: dict[str, Callable[..., Any] | None] = {}
        learn = self._cfg.learn
        if learn.get("compile") or learn.get("autocast"):
            from dicore_plugins.policies.compiled import replace_losses

            replace_losses(self, "_critic_loss", "_actor_loss", draws=self.draws)

    def _optimizer_of(self, flat: Flat, **options: Any) -> Any:
        return optimizer_of(self._cfg.learn, flat, **options)

    def _forward_learn(self, data: Samples, **_: object) -> Columns:
        """Runs one update of critics and actor.

        Args:
            data: Batch or list of B samples: obs, action, reward, next_obs, done; for n-step
                samples also value_gamma; optionally weight float32 [B], or IS float32 [B], which is
                the weight if `priority_IS_weight` is set.

        Returns:
            `total_loss`, `critic_loss`, `q_value`, `priority` float32 [B] (mean absolute TD error),
            and the results of the actor.
        """
        batch = to_batch(data, self._device)
        for flat in self._flats.values():
            if not flat.intact():
                flat.rebind()
                self._formulas.clear()
        rate = self._cfg.learn.learning_rate
        if self._cfg.learn.learning_rate_end < 1:
            rate = self._get_decayed_rate()
            for optimizer in self._optimizers.values():  # that of an actor may begin with its own
                first = optimizer.configured_rate / self._cfg.learn.learning_rate
                optimizer.learning_rate = rate * first
        norm = getattr(self._model, "obs_norm", None)
        if norm is not None:
            norm.update(self._model.encode.vector(batch["obs"]))
        weight = weight_of(batch, sampled=self._cfg.priority_IS_weight)
        loss, priority, value = self._descend("critic", batch, weight)
        self._update_count += 1
        return {
            "cur_lr": rate,
            "total_loss": loss.detach(),
            "critic_loss": loss.detach(),
            "q_value": value.detach().mean(),
            "priority": priority,
            **self._update_actor(batch),
        }

    def _descend(self, part: str, *inputs: Any) -> Any:
        """Updates a part of the network by its loss, `_actor_loss` or `_critic_loss`.

        Returns:
            What the loss returns for the inputs; the first is the loss itself.
        """
        name = f"_{part}_loss"
        if part not in self._formulas:
            self._formulas[part] = formula_of(self, name, self._model)
        formula = self._formulas[part]
        if formula is None:
            found = getattr(self, name)(*inputs)
            self._step(part, found[0])
        else:
            found = formula(self, *inputs)
            self._optimizers[part].step(found[0])
        return found

    def _critic_gradient(
        self, batch: Batch, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes what `_critic_loss` does and the gradient of the Q networks, by formulas."""
        target = returned(self._target(batch), self, "_target")
        q, pull = self._model.q_and_pull(batch["obs"], self._unit_action(batch["action"]))
        slope = (q - target).mul_(2 / len(batch))
        pull(slope if weight is None else slope.mul_(weight))
        return self._squared_loss(q, target, weight)

    @with_formula(_critic_gradient, "_q_taken", "_squared_loss", "_step")
    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the sum over the Q networks of the mean squared TD errors.

        Returns:
            The loss, the priority [B] and the Q values of the batch.
        """
        target = returned(self._target(batch), self, "_target")
        return self._squared_loss(self._q_taken(batch), target, weight)

    @staticmethod
    def _squared_loss(
        q: Tensor, target: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the results of `_critic_loss` of Q values [E, B] and their target [B]."""
        check_shapes(target=target, q=q[0])
        error = q - target
        squares = error.square()
        loss = (squares if weight is None else squares * weight).mean(1).sum()
        return loss, error.detach().abs().mean(0), q

    def _q_taken(self, batch: Batch) -> Tensor:
        """Computes the Q values of the actions taken: float32 [E, B]."""
        q: Tensor = self._model.q(batch["obs"], self._unit_action(batch["action"]))
        return q

    def _target(self, batch: Batch) -> Tensor:
        """Computes y: float32 [B]."""
        with torch.no_grad():
            value = self._value_after(batch).unsqueeze(1)
            return quantile_target(value, *self._bridged(batch)).squeeze(1)

    def _value_after(self, batch: Batch) -> Tensor:
        """Computes V' of what follows the samples: float32 [B]."""
        return returned(self._next_value(batch["next_obs"]), self, "_next_value")

    def _bridged(self, batch: Batch) -> tuple[Tensor, Tensor | None, Tensor | float]:
        """Returns the discounted rewards [B], where to stop [B] or None, and gamma^k."""
        cfg = self._cfg
        return bridged(batch, cfg.discount_factor, cfg.nstep, ignore_done=cfg.learn.ignore_done)

    def _next_value(self, next_obs: Tree) -> Tensor:
        """Computes V' of the next states: float32 [B]."""
        raise NotImplementedError

    def _update_actor(self, batch: Batch) -> Results:
        """Updates the actor (and moves the target network); returns its results."""
        raise NotImplementedError

    def _step(self, name: str, loss: Tensor) -> None:
        optimizer = self._optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss)

    def _move_target(self, *names: str) -> None:
        """Moves parts of the target network towards the network."""
        for name in names:
            self._target_flats[name].follow(self._flats[name], self._cfg.learn.target_theta)

    def _normal(self, like: Tensor) -> Tensor:
        """Draws standard normal noise in the shape of a tensor."""
        drawn = self._noise.standard_normal(tuple(like.shape), np.float32)
        return torch.from_numpy(drawn).to(self._device)

    def _get_skipped_updates(self) -> int:
        return max(bad for _, bad in self._get_optimizer_counts().values())

    def _get_optimizer_counts(self) -> dict[str, tuple[int, int]]:
        """Returns the updates by each optimizer, and how many of them were skipped."""
        return {name: each.counts for name, each in self._optimizers.items()}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "critic_loss", "q_value", "actor_loss"]

    def _state_dict_learn(self) -> StateDict:
        return {
            "model": model_state(self._model),
            **({"target_model": model_state(self._target_model)} if self.has_target else {}),
            "optimizers": {name: each.state_dict() for name, each in self._optimizers.items()},
            "update_count": self._update_count,
            **({"decays": True} if self._cfg.learn.learning_rate_end < 1 else {}),
        }

    def _load_state_dict_learn(self, state: State) -> None:
        load_model_state(self._model, state["model"])
        if self.has_target:
            load_model_state(self._target_model, state["target_model"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
            if state.get("decays") and self._cfg.learn.learning_rate_end == 1:  # reconfigured
                optimizer.learning_rate = optimizer.configured_rate
        self._update_count = int(state["update_count"])

    # ---- collect and eval

    @cached_property
    def _actions(self) -> UnitActions:
        """Scales actions between [-1, 1] and the action space."""
        return UnitActions(self._cfg, self._device)

    def _unit_action(self, action: Tensor) -> Tensor:
        """Scales actions of the environment to [-1, 1]: float32 [B, A]."""
        return self._actions.unit(action.reshape(len(action), -1))

    def _env_action(self, action: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scales actions in [-1, 1] to those of the environment: float32 [K, ...]."""
        return self._actions.env(action)

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(self._model, self._device, by_numpy=self._cfg.collect.act_by_numpy)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: Any) -> EnvBatch[Columns]:
        """Selects actions with exploration.

        Raises:
            UsageError: a keyword argument is passed.
        """
        self._refuse(unknown)
        batch = EnvBatch.of(obs)
        output = self._outputs(batch, explores=True)
        action = self._explore(output, batch.env_id)
        kept = {key: output[key] for key in self.kept if key in output}
        return batch.with_value({"action": self._env_action(action), **kept})

    def _outputs(self, batch: EnvBatch[Tree], *, explores: bool) -> Columns:
        """Returns what the network says of observations, of the collect or the eval mode."""
        return self._actor.forward(batch.value)

    def _refuse(self, unknown: Mapping[str, object]) -> None:
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Selects actions in [-1, 1] from the outputs of the network: float32 [K, A]."""
        raise NotImplementedError

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        mean = self._outputs(batch, explores=False)["mean"]
        return batch.with_value({"action": self._env_action(np.tanh(mean))})

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps, or to n-step samples."""
        self._need_one_reward(block)
        if self._cfg.nstep == 1:
            return transitions(block, tail)
        return nstep_samples(block, self._cfg.nstep, self._cfg.discount_factor, tail)
