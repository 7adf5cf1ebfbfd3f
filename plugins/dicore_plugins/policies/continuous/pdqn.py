"""P-DQN and MP-DQN for hybrid actions.

P-DQN (Xiong et al. 2018, arXiv:1810.06394) learns Q values of the discrete actions:

    y = r + gamma_k (1 - done) Q'(s', k*, x'(s')),   k* = argmax_k Q(s', k, x'(s'))

The actor x selects the arguments of all discrete actions k at once; it maximizes sum_k Q(s, k, x).
MP-DQN (Bester et al. 2019, arXiv:1905.04388) is P-DQN with Q_k(s, x_k); see `PDQN`.

Shapes: R ready environments, B samples, K discrete actions, A arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore_plugins.functional.exploration import (
    allowed,
    eps_greedy,
    get_epsilon_greedy_fn,
    greedy,
    mask_of,
)
from dicore_plugins.functional.td import dqn_td_target, legal
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.continuous.pdqn_config import PDQNConfig
from dicore_plugins.policies.outputs import Signature


class PDQNPolicy(ContinuousQPolicy):
    """Discrete actions by Q values, their arguments by a deterministic actor.

    An action is a dict of `action_type` int64 [R] and `action_args` float32 [R, A].
    """

    config_class: ClassVar[type[PolicyConfig]] = PDQNConfig
    _cfg: PDQNConfig
    shapes: ClassVar[Mapping[str, Signature]] = {
        "policy": ("", {"action_args": "BP"}), "q": ("P", "BA")
    }  # fmt: skip

    def _optimizer_of(self, flat: Flat, **options: Any) -> Any:
        made = super()._optimizer_of(flat, **options)
        if flat is self._flats["actor"]:
            made.learning_rate = made.configured_rate = self._cfg.learn.actor_learning_rate
        return made

    def _q_taken(self, batch: Batch) -> Tensor:
        action = batch["action"]
        args = self._unit_action(action["action_args"])
        index = action["action_type"].long().reshape(-1) - self._cfg.action_start
        return self._q_of(batch["obs"], index, args)

    def _q_of(self, obs: Any, index: Tensor, args: Tensor) -> Tensor:
        """Computes the Q values of actions: float32 [E, B].

        Args:
            obs: [B, ...], or a tree of these.
            index: int64 [B], counted from 0.
            args: float32 [B, A], in [-1, 1].
        """
        taken: Tensor = self._model.q(obs, args).gather(1, index.unsqueeze(1))
        return taken.T

    def _target(self, batch: Batch) -> Tensor:
        """Computes y: float32 [B]."""
        with torch.no_grad():
            obs = batch["next_obs"]
            args = self._target_model.policy(obs)["action_args"]
            next_q = self._target_model.q(obs, args)
            chooser = self._model.q(obs, args) if self._cfg.learn.double else next_q
            return dqn_td_target(next_q, *self._bridged(batch), legal(chooser, obs))

    def _update_actor(self, batch: Batch) -> Results:
        obs = batch["obs"]
        args = self._model.policy(obs)["action_args"]
        q, mask = self._model.q(obs, args, frozen=True), mask_of(obs)
        if mask is not None:  # no sample corrects the values of forbidden actions
            q = q.masked_fill(mask == 0, 0.0)
        loss = -q.sum(1).mean()
        self._step("actor", loss)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach()}

    def _forward_collect(
        self,
        obs: Mapping[int, Tree],
        eps: float | None = None,
        noise: float | None = None,
        **unknown: object,
    ) -> EnvBatch[Columns]:
        """Selects random actions with probability eps, otherwise greedy ones with noisy arguments.

        Args:
            obs: `{env_id: obs}` of R environments.
            eps: Probability of a random action; None: the final value of the schedule.
            noise: Standard deviation of the noise; None: that at the end of its schedule.
            **unknown: Raises UsageError; catches a misspelt `eps`.

        Raises:
            UsageError: another keyword argument is passed.
        """
        self._refuse(unknown)
        batch = EnvBatch.of(obs)
        output = self._actor.forward(batch.value)
        kind, args, random = self._explored(batch.value, output, eps, noise)
        return self._chosen(batch, output, kind, args, random)

    def _chosen(
        self, batch: EnvBatch[Any], output: Columns, kind: Any, args: Any, random: Any
    ) -> EnvBatch[Columns]:
        """Returns what is stored of explored actions; `random` [R] says which were drawn."""
        return self._hybrid(batch, kind, args)

    def _explored(
        self, obs: Tree, output: Columns, eps: float | None, noise: float | None
    ) -> tuple[Any, Any, Any]:
        """Returns kinds [R], arguments [R, A] in [-1, 1], and which of them are random."""
        q, args = output["logit"], output["action_args"]
        eps = self._cfg.other.eps.end if eps is None else eps
        coin, choice = self._rng.random((2, len(q)))
        kind = eps_greedy(q, eps, coin, choice, _allowed(obs, q))
        scale = np.float32(self._cfg.collect.noise_at(None) if noise is None else noise)
        drawn = self._rng.standard_normal(args.shape, np.float32)
        noisy = np.clip(args + scale * drawn, -1, 1)
        anywhere = self._rng.uniform(-1, 1, args.shape).astype(np.float32)
        random = coin < eps
        return kind, np.where(random[:, None], anywhere, noisy), random

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = self._actor.forward(batch.value)
        kind = greedy(output["logit"], _allowed(batch.value, output["logit"]))
        return self._hybrid(batch, kind, output["action_args"])

    def _hybrid(self, batch: EnvBatch[Any], kind: Any, args: Any) -> EnvBatch[Columns]:
        """Converts indices and arguments in [-1, 1] to actions of the environment."""
        chosen = {
            "action_type": kind + self._cfg.action_start,
            "action_args": self._env_action(args),
        }
        return batch.with_value({"action": chosen})

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Computes epsilon and the noise at `envstep`."""
        eps, now = self._cfg.other.eps, command_info["envstep"]
        schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)
        return {"eps": schedule(now), "noise": self._cfg.collect.noise_at(now)}


def _allowed(obs: Any, q: Any) -> Any:
    mask = mask_of(obs)
    return None if mask is None else allowed(mask, q)
