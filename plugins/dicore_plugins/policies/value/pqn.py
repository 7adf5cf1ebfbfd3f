"""PQN: parallel Q-learning (Gallici et al. 2024, arXiv:2407.04811).

Many environments collect epsilon-greedily; the network learns lambda-returns of these samples and
forgets them. There is neither a replay buffer nor a target network; normalised layers keep the
values from diverging.

    G_t = r_t + gamma (1 - done_t) ((1 - lambda) V(s'_t) + lambda G_{t+1}),  V(s) = max_a Q(s, a)

Shapes: T steps, N environments, B samples, A actions, H heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional.exploration import get_epsilon_greedy_fn
from dicore_plugins.functional.samples import flatten_time
from dicore_plugins.functional.td import legal, nstep_td_error
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.value.dqn import DQNPolicy, q_values
from dicore_plugins.policies.value.pqn_config import PQNConfig

__all__ = ["PQNPolicy"]


class PQNPolicy(ActorCriticPolicy):
    """Q-learning on-policy; the values of several heads are averaged in the returns."""

    config_class: ClassVar[type[PolicyConfig]] = PQNConfig
    _cfg: PQNConfig

    def _problem_of(self, model: nn.Module) -> str | None:
        DQNPolicy._check_values(self, model)  # type: ignore[arg-type] # noqa: SLF001
        return None

    # ---- learn

    def _annealed(self) -> dict[str, tuple[float, float]]:
        learn = self._cfg.learn
        return {"learning_rate": (learn.learning_rate, learn.learning_rate_end)}

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        """Runs `epoch_per_collect` passes."""
        learn = self._cfg.learn
        return [
            self._q_update(minibatch)
            for _ in range(learn.epoch_per_collect)
            for minibatch in self._minibatches(batch, learn.batch_size)
        ]

    def _q_update(self, batch: Batch) -> Results:
        q, target = q_values(self._model, batch["obs"]), batch["target"]
        targets = target if isinstance(q, Tensor) else [target] * len(q)
        weight = batch.get("weight")
        loss, error = nstep_td_error(q, self._action_index(batch), targets, weight, "mse")
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "td_error": error.mean(),
            "target_q_value": target,
        }

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "td_error", "target_q_value"]

    # ---- collect

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        rng = stream("policy/collect")
        self._collect_model = model_wrap(self._actor, "eps_greedy_sample", rng=rng)

    def _forward_collect(
        self, obs: Mapping[int, Tree], eps: Any = None, **unknown: object
    ) -> EnvBatch[Columns]:
        """Selects epsilon-greedy actions; see `DQNPolicy`."""
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        batch = EnvBatch.of(obs)
        eps = self._cfg.other.eps.end if eps is None else eps
        output = self._collect_model.forward(batch.value, eps=eps, env_id=batch.env_id)
        return batch.with_value(self._env_actions(output))

    def _get_action_distribution(self) -> str:
        return "eps_greedy"

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Computes epsilon at `envstep`."""
        eps = self._cfg.other.eps
        schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)
        return {"eps": schedule(command_info["envstep"])}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Adds the lambda-returns to single steps."""
        value, advantage = self._advantages(block, tail)
        columns = {key: each for key, each in block.items() if key != "logit"}
        return flatten_time(Batch({**columns, "target": advantage + value}, len(block)))

    @property
    def _lambda(self) -> float:
        return float(self._cfg.learn.td_lambda)

    def _critic(self, obs: Tree) -> Tensor:
        obs = tree_map(lambda leaf: leaf.to(self._device), obs)
        q = legal(q_values(self._model, obs), obs)
        heads = [q] if isinstance(q, Tensor) else q
        return torch.stack([head.amax(1) for head in heads]).mean(0)
