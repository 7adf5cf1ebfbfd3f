"""What algorithms share that learn actors of several agents: acting, advantages, rows of agents.

A sample is a step of the team; its columns keep the axis of agents. An update takes the steps of
agents that act as rows of one batch. Where each agent has its own reward, one that would not act in
the next step has ended there; where an episode is cut off, `alive` marks those that would have gone
on:

    done_a = done or not alive'_a

The return of a team goes on without an agent: see `with_team_values`. Critics then learn of steps
in which nobody acts, too, as of all agents; actors do not (Yu et al. 2022, death masking).

Shapes: T steps, N environments, B samples, A agents, R rows of agents that act, K ready
environments, n actions or numbers of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_agents.models.actor_critic import AgentsActor
from dicore_agents.policies.apart import networks_that_act
from dicore_agents.policies.samples import SumOfRewards, with_team_values
from dicore_plugins.functional import (
    allowed,
    gae,
    greedy,
    log_prob_entropy,
    rows_after,
)
from dicore_plugins.policies import ActorCriticPolicy

__all__ = [
    "TeamPolicy", "acting", "agents_of", "descend", "with_normal_advantages",
]  # fmt: skip

Array = npt.NDArray[np.float32]
DISTRIBUTION = ("logit", "mean", "log_std")
_OF_AGENTS = ("action", "raw_action", "log_prob", "value", "advantage", "target")
"""Columns with an axis of agents."""
_OF_STEPS = ("obs", *_OF_AGENTS, "weight", "end")
"""Columns of sequences that their single steps have."""


def agents_of(
    batch: Batch, output: Mapping[str, Tensor], *, absent: bool = False
) -> tuple[Batch, dict[str, Tensor]]:
    """Returns samples [B, A, ...] and outputs as the rows of agents that act, [R, ...].

    With `absent`, the rows of all agents where nobody acts are among them.
    """
    obs = batch["obs"]
    alive = obs.get("alive")
    if alive is not None and absent:
        alive = _with_absent(alive)
    index = None if alive is None else alive.reshape(-1).nonzero().squeeze(1)
    wanted = {name: batch[name] for name in _OF_AGENTS if name in batch}
    if "weight" in batch:
        wanted["weight"] = batch["weight"].unsqueeze(1).expand(obs["obs"].shape[:2])
    found = {name: _rows(each, index) for name, each in wanted.items()}
    mask = obs.get("action_mask")
    seen = {} if mask is None else {"action_mask": _rows(mask, index)}
    outputs = {name: _rows(each, index) for name, each in output.items()}
    return Batch({"obs": seen, **found}, len(next(iter(outputs.values())))), outputs


def _with_absent(alive: Tensor) -> Tensor:
    """Returns which agents act, all where nobody does: bool, as `alive`."""
    acts = alive != 0
    return acts | ~acts.any(-1, keepdim=True)


def _rows(column: Tensor, index: Tensor | None) -> Tensor:
    flat = column.flatten(0, 1)
    return flat if index is None else flat.index_select(0, index)


def acting(agent: int, batch: Batch) -> Tensor:
    """Returns the samples in which an agent acts: int64 [R]."""
    alive = batch["obs"].get("alive")
    if alive is None:
        return torch.arange(len(batch), device=batch["action"].device)
    found: Tensor = alive[:, agent].nonzero().squeeze(1)
    return found


def descend(optimizer: Any, loss: Tensor) -> None:
    """Makes one step of an optimizer."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(loss)


def with_normal_advantages(batch: Batch) -> Batch:
    """Returns samples with advantages [B, A] of mean 0 and deviation 1 over agents that act."""
    advantage, alive = batch["advantage"], batch["obs"].get("alive")
    counted = advantage if alive is None else advantage[alive != 0]
    if counted.numel() < 2:
        return batch
    std, mean = torch.std_mean(counted)
    return Batch({**batch.columns, "advantage": (advantage - mean) / (std + 1e-8)}, len(batch))


class TeamPolicy(ActorCriticPolicy):
    """Base class: acting, samples with an axis of agents, and their advantages."""

    _cfg: Any
    of_team: ClassVar[bool] = False
    """Whether what is learned is the sum of the agents' rewards, where each has its own."""
    apart: ClassVar[bool] = False
    """Whether agents of their own networks learn as if each were alone."""
    ends_with_agents: bool = False
    """Whether the episode ends where no agent would act next, as that of a group may."""
    _absent: bool = False
    """Whether the critic learns of steps of a batch in which nobody acts."""
    _valued: tuple[Batch, Tensor] | None = None
    """The rows of agents that it then learns from in an update, and their values."""

    _row_network: Tensor | None = None
    """The network of each row of agents of an update; None: each has its own, or all share one."""

    @cached_property
    def _networks(self) -> Tensor:
        """Number of the network of each agent: int64 [A]."""
        return torch.tensor(self._model.networks, device=self._device)

    @cached_property
    def _sum(self) -> SumOfRewards:
        return SumOfRewards()

    def _problem_of(self, model: nn.Module) -> str | None:
        if isinstance(model, AgentsActor):
            return None
        return f"expected an AgentsActor, got {type(model).__name__}"

    # ---- acting

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        self._collect_model = self._remembering(self._actor)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        self._eval_model = self._remembering(self._actor)

    def _acted(self, model: Any, batch: EnvBatch[Any]) -> Columns:
        """Returns the outputs of the network, `logit` or `mean` [K, A, n] among them."""
        ids = {"env_id": batch.env_id} if self._recurrent else {}
        found: Columns = model.forward(batch.value, **ids)
        return found

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Samples actions: int64 [K, A], or float32 [K, A, n]; each agent draws for itself.

        Args:
            obs: `{env_id: obs}` of K environments.
            **unknown: Raises UsageError.

        Raises:
            UsageError: a keyword argument is passed.
        """
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        batch = EnvBatch.of(obs)
        output = self._acted(self._collect_model, batch)
        return batch.with_value(self._env_actions({**output, "action": self._draw(output, batch)}))

    def _draw(self, output: Columns, batch: EnvBatch[Any]) -> Any:
        """Draws actions [K, A] or [K, A, n] from distributions."""
        if self._continuous:
            mean = output["mean"]
            noise = self._rng.standard_normal(mean.shape, np.float32)
            return mean + np.exp(output["log_std"]) * noise
        logit, mask = _choices(output["logit"], batch.value)
        # the largest logit with Gumbel noise is a draw from softmax, in half the time
        noisy = logit - np.log(self._rng.standard_exponential(logit.shape))
        return greedy(noisy, mask).reshape(output["logit"].shape[:2])

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = self._acted(self._eval_model, batch)
        if self._continuous:
            action = output["mean"]
        else:
            logit, mask = _choices(output["logit"], batch.value)
            action = greedy(logit, mask).reshape(output["logit"].shape[:2])
        return batch.with_value(self._env_actions({**output, "action": action}))

    def _env_actions(self, output: Columns) -> Columns:
        if not self._continuous:
            return output
        raw = output["action"]
        action = self._actions.env(raw.reshape(len(raw), -1))
        return {**output, "raw_action": raw, "action": action}

    # ---- samples

    def _advantages(self, block: Batch, tail: Tail | None) -> tuple[Array, Array]:
        """Computes values and advantages of the agents in each step: float32 [T, N, A] each."""
        if tail is None:
            raise SchemaError("the block has no tail", hint="pass what follows the block")
        value, next_value = self._block_values(block, tail)
        end, reward = block["end"], self._agent_rewards(block, value.shape)
        valid = block.get("valid")
        if valid is not None and not valid.all():  # else NaN of abnormal episodes would spread
            reward, value, next_value = np.where(
                valid[..., None], (reward, value, next_value), np.float32(0)
            )
        done = np.asarray(block["done"]) != 0
        if self._cfg.learn.ignore_done:
            done = np.zeros_like(done)
        done = np.broadcast_to(done[..., None], value.shape)
        alive = self._acting(block, tail, value.shape)
        if alive is None:
            return value, self._advantage(reward, value, next_value, done, end)
        now, later = alive
        if not self._is_of_team(block):
            return value, self._advantage(reward, value, next_value, done | ~later, end)
        value, next_value = with_team_values(
            reward, value, next_value, now, later, done, end, self._cfg.discount_factor
        )
        return value, self._advantage(reward, value, next_value, done, end)

    def _advantage(self, reward: Tree, value: Tree, next_value: Any, done: Any, end: Any) -> Any:
        gamma, gae_lambda = self._cfg.discount_factor, self._lambda
        return gae(reward, value, next_value, done, end, gamma=gamma, gae_lambda=gae_lambda)

    def _is_of_team(self, block: Batch) -> bool:
        """Tells whether all agents learn one reward, that of the team."""
        return self.of_team or block["reward"].ndim == block["end"].ndim

    def _acting(
        self, block: Batch, tail: Tail, shape: tuple[int, ...]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
        """Returns which agents act in each step, and after it: bool [T, N, A] each; None: all."""
        if "alive" not in block["obs"]:
            return None
        alive, last, finals = (
            each["alive"] if len(each) else np.empty((0, shape[2]), np.int8)
            for each in (block["obs"], tail.obs, tail.final_obs)
        )
        alive = np.asarray(alive)
        return alive != 0, rows_after(alive, last, finals, tail) != 0

    def _agent_rewards(self, block: Batch, shape: tuple[int, ...]) -> Array:
        """Returns the reward of each agent, 0 where it does not act, or that of the team.

        Returns:
            float32 [T, N, A].
        """
        if self.of_team:
            self._sum.see(block, self._cfg.type)
        reward = np.asarray(block["reward"], np.float32)
        if reward.ndim == 2:
            return np.repeat(reward[..., None], shape[-1], -1)
        if "alive" in block["obs"]:
            reward = np.where(block["obs"]["alive"] != 0, reward, np.float32(0))
        if self.of_team:
            return np.repeat(reward.sum(-1, keepdims=True), shape[-1], -1)
        return np.ascontiguousarray(reward)

    def _block_values(self, block: Batch, tail: Tail) -> tuple[Array, Array]:
        """Computes the values before and after each step: float32 [T, N, A] each."""
        if self._recurrent:
            found: tuple[Array, Array] = super()._block_values(block, tail)
            return found
        steps, envs = block["end"].shape
        rows = {name: each.reshape(-1, *each.shape[2:]) for name, each in block["obs"].items()}
        value = self._values(rows).reshape(steps, envs, -1)
        finals = self._values(tail.final_obs) if len(tail.final_index) else value[0, :0]
        after: Array = rows_after(value, self._values(tail.obs), finals, tail)
        return value, after

    def _acted_log_prob(self, block: Batch) -> Array:
        """Computes the log-probability of each action when it was chosen: float32 [T * N * A]."""
        names = (*DISTRIBUTION, "action", "raw_action")
        columns = {name: block[name] for name in names if name in block}
        if "action_mask" in block["obs"]:
            columns["action_mask"] = block["obs"]["action_mask"]
        flat = {name: each.reshape(-1, *each.shape[3:]) for name, each in columns.items()}
        batch = Batch(flat, len(next(iter(flat.values())))).to_torch()
        with torch.inference_mode():
            log_prob, _ = log_prob_entropy(
                batch.columns, self._action_index(batch), batch.get("action_mask")
            )
        found: Array = log_prob.float().numpy()
        return found

    # ---- learning

    def _updates(self, batch: Batch, **settings: float) -> list[Any]:
        learn = self._cfg.learn
        reduced = learn.compile or learn.autocast
        self._by_hand = not reduced and getattr(self._model, "differentiable", bool)()
        _, valued = self._parts(batch)
        return [] if valued is None else super()._updates(valued, **settings)

    def _parts(self, batch: Batch) -> tuple[Batch | None, Batch | None]:
        """Returns the steps, or sequences, that actors learn from, and critics; None: no steps."""
        alive, acting = batch["obs"].get("alive"), self._where_some_act(batch)
        some_absent = alive is not None and not bool((alive != 0).any(-1).all())
        self._absent = some_absent and self._values_absent(batch)
        return acting, batch if self._absent else acting

    def _values_absent(self, batch: Batch) -> bool:
        """Returns whether critics learn of steps in which nobody acts: of a return that goes on."""
        return self._is_of_team(batch) and not self.ends_with_agents

    def _minibatches(self, batch: Batch, size: int | None) -> Iterator[Batch]:
        """Yields minibatches of steps in which some act, each with a part of the others."""
        acting = self._where_some_act(batch) if self._absent else batch
        if acting is None or acting is batch:
            yield from super()._minibatches(batch, size)
            return
        some = (batch["obs"]["alive"] != 0).flatten(1).any(1)
        others = self._order.permutation((~some).nonzero().squeeze(1).cpu().numpy())
        count = 1 if size is None else -(-len(acting) // size)
        parts = zip(super()._minibatches(acting, size), np.array_split(others, count), strict=True)
        for part, index in parts:
            rest = {key: batch[key] for key in part.columns}
            rest = tree_map(lambda leaf, at=index: leaf[at], rest)
            yield Batch(tree_map(lambda *two: torch.cat(two), part.columns, rest))

    def _values_of(self, batch: Batch, value: Tensor) -> tuple[Batch, Tensor] | None:
        """Returns `_valued` of the steps of an update and their values [B, A]."""
        if not self._absent:
            return None
        rows, output = agents_of(batch, {"value": value}, absent=True)
        return rows, output["value"]

    def _where_some_act(self, batch: Batch) -> Batch | None:
        """Returns the steps, or sequences, in which an agent acts; None: there are none."""
        alive = batch["obs"].get("alive")
        if alive is None:
            return batch
        some = (alive != 0).flatten(1).any(1)
        if bool(some.all()):
            return batch
        index = some.nonzero().squeeze(1)
        return batch[index] if len(index) else None

    def _result(self, found: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns the results of an update of actors or of critics; None for those of the other."""
        values = {name: each.detach() for name, each in found.items()}
        nothing = dict.fromkeys(self._monitor_vars_learn())
        return {**nothing, "cur_lr": self._optimizer.learning_rate, **values}

    def _normalise_values(self, batch: Batch) -> None:
        norm = self._model.value_norm
        if norm is None:
            return
        alive, target = batch["obs"].get("alive"), batch["target"]
        if alive is None:
            counted = target.reshape(-1)
        else:
            counted = target[_with_absent(alive) if self._values_absent(batch) else alive != 0]
        if len(counted):
            norm.update(counted.unsqueeze(1))

    def _remembered(self, batch: Batch) -> Batch:
        """Returns sequences [B, L, ...] as single steps [L * B, ...], with what agents remember.

        Steps without a memory are returned as they are.
        """
        if not self._recurrent:
            return batch
        columns = {name: batch[name] for name in _OF_STEPS if name in batch}
        time = tree_map(lambda leaf: leaf.transpose(0, 1), columns)
        found = self._model.unrolled(time["obs"], batch["prev_state"], time["end"])
        time["obs"] = {**time["obs"], "memory": found.memory}
        return Batch(tree_map(lambda leaf: leaf.flatten(0, 1), time))

    def _run_network(self, batch: Batch) -> tuple[Batch, Any, Any]:
        pull = None
        if self._recurrent:
            batch, output, _ = super()._run_network(batch)
        elif self._by_hand:
            output, pull_rows = self._model.forward_and_pull(batch["obs"])
            pull = partial(_pull, pull_rows, output, batch["obs"].get("alive"))
        else:
            output = self._network(batch["obs"])
        self._valued = self._values_of(batch, output["value"])
        if self.apart and self._model.count > 1:
            obs = batch["obs"]
            alive = obs.get("alive")
            own = alive is None and self._model.count == self._model.agents  # as they come
            shape = obs["obs"].shape[:2]
            self._row_network = None if own else networks_that_act(self._networks, shape, alive)
        return *agents_of(batch, output), pull


def _pull(
    pull_rows: Any, output: Mapping[str, Tensor], alive: Any, slopes: Mapping[str, Tensor] | None
) -> None:
    """Lets gradients of rows of agents flow back; None: those that autograd gave to the outputs."""
    if slopes is None:
        found = [_or_zeros(output[name].grad, output[name]) for name in ("logit", "value")]
    else:
        found = [_whole(slopes[name], output[name], alive) for name in ("logit", "value")]
    pull_rows(*found)


def _or_zeros(grad: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if grad is None else grad


def _whole(rows: Tensor, like: Tensor, alive: Tensor | None) -> Tensor:
    """Returns rows [R, ...] of agents that act as [B, A, ...], 0 for the others."""
    if alive is None:
        return rows.view(like.shape)
    found = torch.zeros_like(like)
    found[alive != 0] = rows
    return found


def _choices(logit: Array, obs: Mapping[str, Any]) -> tuple[Array, Any]:
    """Returns logits as rows [K * A, n], and which are allowed, bool [K * A, n] (None: all)."""
    rows, mask = logit.reshape(-1, logit.shape[-1]), obs.get("action_mask")
    return rows, None if mask is None else allowed(mask.reshape(rows.shape), rows)
