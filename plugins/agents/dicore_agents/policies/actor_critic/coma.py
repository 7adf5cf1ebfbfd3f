"""COMA: counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv:1705.08926).

The critic knows the actions of all. The advantage of agent a compares its action with its others,
those of the other agents fixed (equation 4):

    A_a = Q(s, u) - sum_u' pi_a(u'|o_a) Q(s, (u_-a, u'))
    L_pi = -mean_a log pi_a(u_a|o_a) A_a - weight * H(pi_a)
    L_Q  = mean_a (Q(s, u) - G_lambda)^2

G_lambda are TD(lambda) returns of the team's reward, from the critic as it was when the samples
were collected, which takes the place of the target network; they go on when an agent has left, see
`with_team_values`. After the last step of a block, actions are drawn for the value that follows.
The critic learns first, as by the authors. With a memory, samples are sequences; it learns with the
actions, and the critic reads it without changing it.

Shapes: T steps, N environments, B samples, A agents, R rows of agents that act, n actions, E ends
of episodes, H numbers that an agent remembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_map
from dicore.interfaces.policy import Tail
from dicore_agents.models.actor_critic import COMANet
from dicore_agents.policies.actor_critic.base import (
    Array,
    TeamPolicy,
    agents_of,
    descend,
)
from dicore_agents.policies.actor_critic.config import COMAConfig
from dicore_plugins.functional import (
    coma_advantage,
    log_prob_entropy,
    log_probabilities,
    pg_error,
    rows_after,
)
from dicore_plugins.optimizers import optimizer_of

__all__ = ["COMAPolicy"]

CHUNK = 4096
"""Most steps of a team whose values are computed at once."""


class COMAPolicy(TeamPolicy):
    """Actors that learn from counterfactual advantages."""

    config_class: ClassVar[type[PolicyConfig]] = COMAConfig
    of_team: ClassVar[bool] = True
    _cfg: COMAConfig

    def _problem_of(self, model: nn.Module) -> str | None:
        if isinstance(model, COMANet):
            return None
        return f"expected a COMANet, got {type(model).__name__}"

    def _init_learn(self) -> None:
        super()._init_learn()
        self._critic_optimizer = optimizer_of(self._cfg.learn, self._flat)

    # ---- samples

    def _block_values(self, block: Batch, tail: Tail) -> tuple[Array, Array]:
        """Computes Q of the actions taken, and of those after each step: [T, N, A] each."""
        steps, envs = block["end"].shape
        seen, last_obs, final_obs = block["obs"], tail.obs, tail.final_obs
        if self._recurrent:
            seen, last_obs, final_obs = self._with_memory(block, tail)
        rows = {name: each.reshape(-1, *each.shape[2:]) for name, each in seen.items()}
        value = self._q_taken(rows, block["action"].reshape(steps * envs, -1))
        value = value.reshape(steps, envs, -1)
        last = self._q_taken(last_obs, self._drawn(last_obs))
        finals = value[0, :0]
        if len(tail.final_index):
            finals = self._q_taken(final_obs, self._drawn(final_obs))
        after: Array = rows_after(value, last, finals, tail)
        return value, after

    def _with_memory(self, block: Batch, tail: Tail) -> tuple[Columns, Columns, Columns]:
        """Returns what agents see, with what they remember, in a block and after it.

        Returns:
            The observations of the steps, with `memory` [T, N, A, H]; those after the last step,
            [N, A, H]; and those that end episodes, [E, A, H].
        """
        model, finals = self._model, tail.final_obs
        with torch.inference_mode():
            obs, last, end, state = (
                tree_map(self._tensor, each)
                for each in (_finite(block), tail.obs, block["end"], block["prev_state"][0])
            )
            found = model.unrolled(obs, state, end)
            later = model.remember(last, found.hidden)[0]
            if len(tail.final_index):
                # episodes of environments that failed have no final observation
                known = np.searchsorted(np.flatnonzero(block["end"]), tail.final_index)
                seen = tree_map(self._tensor, finals)
                ended = model.remember(seen, found.ended[self._tensor(known)])[0]
                finals = {**finals, "memory": ended.cpu().numpy()}
        return (
            {**block["obs"], "memory": found.memory.cpu().numpy()},
            {**tail.obs, "memory": later.cpu().numpy()},
            finals,
        )

    def _tensor(self, leaf: Tree) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

    def _drawn(self, obs: Tree) -> Any:
        """Draws actions in observations [K, ...]: int64 [K, A]."""
        count = len(obs["obs"])
        if "action_mask" in obs:  # terminal observations may forbid all actions
            mask = obs["action_mask"] != 0
            obs = {**obs, "action_mask": mask | ~mask.any(-1, keepdims=True)}
        batch = EnvBatch(np.arange(count), obs)
        if not self._recurrent:
            return self._forward_collect(batch).value["action"]
        with torch.inference_mode():
            output = self._model.distribution(tree_map(self._tensor, obs))
        return self._draw({name: each.cpu().numpy() for name, each in output.items()}, batch)

    def _q_taken(self, obs: Mapping[str, Any], action: Any) -> Array:
        """Computes Q of actions [K, A]: float32 [K, A]."""
        whole = Batch({"obs": dict(obs), "action": action}, len(action)).to_torch()
        found = []
        with torch.inference_mode():
            for start in range(0, len(whole), CHUNK):
                part = whole[start : start + CHUNK].to(self._device)
                found.append(self._chosen(part).float().cpu())
        values: Array = torch.cat(found).numpy()
        return values

    def _chosen(self, batch: Batch) -> Tensor:
        """Computes Q of the actions taken: float32 [B, A]; of action 0 of those that do not act."""
        action, alive = batch["action"].long(), batch["obs"].get("alive")
        action = action if alive is None else torch.where(alive != 0, action, 0)
        q: Tensor = self._model.q(batch["obs"], action)
        return q.gather(2, action.unsqueeze(2)).squeeze(2)

    # ---- learning

    def _updates(self, batch: Batch, **settings: float) -> list[Any]:
        found, valued = self._parts(batch)
        learn, results = self._cfg.learn, list[Any]()
        if valued is None:
            return results
        self._critic_optimizer.learning_rate = self._optimizer.learning_rate
        for _ in range(learn.critic_epoch_per_collect):
            for part in self._minibatches(valued, learn.critic_batch_size):
                with torch.no_grad():
                    each = self._remembered(part)
                value = {"value": self._chosen(each)}
                rows, output = agents_of(each, value, absent=self._absent)
                loss = (output["value"] - rows["target"]).square().mean()
                descend(self._critic_optimizer, loss)
                results.append(self._result({"total_loss": loss, "value_loss": loss}))
        parts = () if found is None else self._minibatches(found, learn.batch_size)
        return results + [self._actor_update(each, settings) for each in parts]

    def _actor_update(self, batch: Batch, settings: Mapping[str, float]) -> dict[str, Any]:
        learn, batch = self._cfg.learn, self._remembered(batch)
        action = batch["action"].long()
        with torch.no_grad():
            q = self._model.q(batch["obs"], action)
        output = {**self._model.distribution(batch["obs"]), "q": q}
        rows, output = agents_of(batch, output)
        mask, taken = rows["obs"].get("action_mask"), rows["action"].long()
        log_prob, entropy = log_prob_entropy(output, taken, mask)
        advantage = coma_advantage(output["q"], log_probabilities(output["logit"], mask), taken)
        if learn.adv_norm and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        loss = pg_error(log_prob, advantage, rows.get("weight"))
        weight = settings.get("entropy_weight", learn.entropy_weight)
        total = loss - weight * entropy.mean()
        descend(self._optimizer, total)
        found = {"total_loss": total, "policy_loss": loss, "entropy": entropy.mean()}
        return self._result(found)

    def _get_skipped_updates(self) -> int:
        return self._optimizer.skipped + self._critic_optimizer.skipped

    def _state_dict_learn(self) -> StateDict:
        state = self._critic_optimizer.state_dict()
        return {**super()._state_dict_learn(), "critic_optimizer": state}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        self._critic_optimizer.load_state_dict(state["critic_optimizer"])


def _finite(block: Batch) -> Columns:
    """Returns the observations [T, N, ...] of a block, zeros in steps that are not valid."""
    obs, valid = block["obs"], block.get("valid")
    if valid is None or valid.all():
        found: Columns = obs
        return found
    rows = np.asarray(valid)
    return {
        key: np.where(rows.reshape(*rows.shape, *(1,) * (each.ndim - 2)), each, each.dtype.type(0))
        for key, each in obs.items()
    }
