"""MuZero (Schrittwieser et al. 2020) and its relatives: planning with a model that is learned.

From the observation of a step the model is unrolled over K actions that were taken, and predicts
rewards, values and what a search prefers (equation 1, with bins for numbers):

    L = 1/K sum_k [CE(r_k, r_{t+k}) + c_v CE(v_k, z_{t+k}) + CE(p_k, pi_{t+k})] + c L_consistency
    z_t = R_t + gamma^n (1 - done) v'(o_{t+n})

With `model.value_prefix` r_k is a sum of rewards, see `MuZeroNet`; as in the paper's code, none is
discounted. v' is the value of a network that is copied every `target_update_freq` updates: values
are fresh without searching again (Schrittwieser et al. 2021, MuZero Reanalyse); a share of the
policies pi is searched again with it, and the buffer keeps what was found. After a terminal state
rewards and values are 0; after a truncation nothing is known. The consistency loss is that of
EfficientZero (Ye et al. 2021):

    L_consistency = -1/K sum_k cos(predictor(projection(s_k)), sg(projection(h(o_{t+k}))))

Shapes: K ready environments when acting; B sequences of L = K + n steps, of which the model is
unrolled over K; A actions, Z numbers of a state.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_map
from dicore.errors import NonFiniteError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional import flatten_time, to_batch, with_bridges
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import optimizer_of
from dicore_plugins.policies import Actor, Results
from dicore_worlds.functional import two_hot_nll
from dicore_worlds.models.muzero import MuZeroNet
from dicore_worlds.planning.network import NetworkModel
from dicore_worlds.planning.tree import Leaf
from dicore_worlds.policies.muzero_config import MuZeroConfig
from dicore_worlds.policies.searching import SearchingPolicy

__all__ = ["MuZeroPolicy"]

_PLANNED = "search_policy"
"""Column with what the search preferred, float32 [T, N, A]."""

_LEARNED = (
    *("obs", "next_obs", "action", "reward", "done", "value_gamma", "bridge", _PLANNED),
    *("step_reward", "step_done"),
)


class MuZeroPolicy(SearchingPolicy):
    """Learns a model, and acts by searching with it."""

    config_class: ClassVar[type[PolicyConfig]] = MuZeroConfig
    network_class: ClassVar[type | None] = MuZeroNet
    attributes: ClassVar[tuple[str, ...]] = ("actor", "update_count")
    _cfg: MuZeroConfig

    # ---- acting

    def _init_collect(self) -> None:
        super()._init_collect()
        self._actor = self._make_actor()

    def _init_eval(self) -> None:
        super()._init_eval()
        self._actor = getattr(self, "_actor", None) or self._make_actor()

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(_Root(self._model), self._device, by_numpy=False)

    def _planned(
        self, obs: Mapping[int, Tree], rng: np.random.Generator, *, explore: bool,
        temperature: float,
    ) -> EnvBatch[Columns]:  # fmt: skip
        batch = EnvBatch.of(obs)
        root = self._actor.forward(batch.value)
        if not (np.isfinite(root["logit"]).all() and np.isfinite(root["value"]).all()):
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        searched = self._searched(self._model)
        found = self._planner.plan(
            searched, _leaf(searched, root), rng, explore=explore, temperature=temperature
        )
        output = {
            "action": found.action + self._cfg.action_start,
            "logit": root["logit"],
            "value": found.value,
            _PLANNED: found.policy,
        }
        return batch.with_value(output)

    def _searched(self, model: nn.Module) -> NetworkModel:
        assert isinstance(model, MuZeroNet)
        return NetworkModel(model, self._cfg.discount_factor, self._device)

    # ---- samples

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        planned = output.get(_PLANNED)
        if planned is None:  # a warm-up policy has none
            actions = self._model.action_size
            planned = np.full((len(timestep.done), actions), 1 / actions, np.float32)
        return {**columns, _PLANNED: planned}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to steps with n-step columns, of which the buffer makes sequences."""
        self._need_one_reward(block)
        columns = {**block.columns, "step_reward": block["reward"], "step_done": block["done"]}
        if _PLANNED not in columns:  # recorded steps have none
            shape = (*block["end"].shape, self._model.action_size)
            columns[_PLANNED] = np.full(shape, 1 / shape[-1], np.float32)
        nstep, gamma = self._cfg.nstep, self._cfg.discount_factor
        whole = with_bridges(Batch(columns, len(block)), nstep, gamma, (0,), tail)
        starts = len(block) - (nstep - 1) if tail is None else tail.starts
        kept = {key: each for key, each in whole.items() if key != "prev_state"}
        return flatten_time(Batch(tree_map(lambda leaf: leaf[:starts], kept), starts))

    # ---- learning

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._model.to(self._device)
        self._flat = Flat(self._model)
        self._optimizer = optimizer_of(learn, self._flat, weight_decay=learn.weight_decay)
        self._target_model = copy.deepcopy(self._model).requires_grad_(False)
        self._learn_rng = stream("policy/learn")
        self._update_count = 0

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update.

        Args:
            data: B sequences [B, L, ...]: obs, action, next_obs, the n-step columns reward, done,
                value_gamma and bridge, step_reward, step_done, search_policy, and `valid` bool
                [B, L] if some have less than L steps; or single steps.

        Returns:
            The losses and the mean of the values that were learned, as tensors; `refreshed`: the
            policies of the sequences that were searched again, the first ones.
        """
        batch = _sequences(to_batch(data, self._device))
        if not self._flat.intact():
            self._flat.rebind()
        parts = self._losses(batch)
        learn = self._cfg.learn
        loss = (
            parts["policy_loss"]
            + parts["reward_loss"]
            + learn.value_weight * parts["value_loss"]
            + learn.consistency_weight * parts.get("consistency_loss", 0)
        )
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._update_count += 1
        if self._update_count % learn.target_update_freq == 0:
            self._target_model.load_state_dict(self._model.state_dict())
        found: dict[str, Any] = {key: value.detach() for key, value in parts.items()}
        if fresh := self._fresh(len(batch)):
            found["refreshed"] = {_PLANNED: found.pop(_PLANNED)[:fresh]}
        return {"total_loss": loss.detach(), **found, "cur_lr": self._optimizer.learning_rate}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        """Computes the parts of the loss, each a mean over sequences."""
        value, batch = self._values(batch)
        model, valid = self._model, batch["valid"]
        steps, policy = valid.shape[1] - 1, self._policies(batch)
        known = valid  # and rewards and values after a terminal state, which are 0
        if not self._cfg.learn.ignore_done:
            known = valid | _ended(batch)
        value, reward = value * valid, batch["step_reward"] * valid
        action = batch["action"].long() - self._cfg.action_start
        action = torch.where(valid, action, torch.randint_like(action, model.action_size))
        state = model.represent(batch["obs"][:, 0])
        logits, values, rewards, states = [], [], [], []
        memory, horizon = None, model.value_prefix
        for k in range(steps + 1):
            logit, guess = model.predict(state)
            logits.append(logit)
            values.append(guess)
            states.append(state)
            if k < steps:
                memory = None if horizon and k % horizon == 0 else memory
                state, gained, memory = model.follow_on(state, action[:, k], memory)
                state = _halved(state)
                rewards.append(gained)
        weight = _weights(steps, state)
        entropy = -(policy * torch.stack(logits, 1).log_softmax(-1)).sum(-1)
        bins = model.bins
        parts = {
            "policy_loss": (weight * entropy * valid).sum(1).mean(),
            "value_loss": (weight * two_hot_nll(torch.stack(values, 1), value, bins) * known)
            .sum(1)
            .mean(),
            "reward_loss": state.new_zeros(()),
            "target_value": value[:, 0].mean(),
        }
        if steps:
            wanted = _summed(reward[:, :-1], horizon) if horizon else reward[:, :-1]
            error = two_hot_nll(torch.stack(rewards, 1), wanted, bins)
            parts["reward_loss"] = (weight[1:] * error * known[:, :-1]).sum(1).mean()
        if self._fresh(len(batch)):
            parts[_PLANNED] = policy
        if self._cfg.learn.consistency_weight:
            parts["consistency_loss"] = self._consistency(batch, states[1:], weight[1:])
        return parts

    def _consistency(self, batch: Batch, states: list[Tensor], weight: Tensor) -> Tensor:
        """Computes how far K predicted states [B, Z] are from those of what was seen there."""
        if not states:
            return weight.new_zeros(())
        seen = tree_map(lambda leaf: leaf[:, 1:].flatten(0, 1), batch["obs"])
        with torch.no_grad():
            wanted = self._model.projected(self._model.represent(seen))[0]
        found = self._model.projected(torch.stack(states, 1).flatten(0, 1))[1]
        likeness = F.cosine_similarity(found, wanted, dim=-1).unflatten(0, (-1, len(states)))
        loss: Tensor = -(weight * likeness * batch["valid"][:, 1:]).sum(1).mean()
        return loss

    @torch.no_grad()
    def _values(self, batch: Batch) -> tuple[Tensor, Batch]:
        """Returns the values z [B, K + 1], and the first K + 1 steps of the sequences."""
        model, shape = self._target_model, batch["valid"].shape
        later = tree_map(lambda leaf: leaf.flatten(0, 1), batch["next_obs"])
        after = model.mean(model.predict(model.represent(later))[1]).view(shape)
        length = max(shape[1] - self._cfg.nstep + 1, 1)
        first = tree_map(lambda leaf: leaf[:, :length], batch.columns)
        last = torch.arange(length, device=after.device) + first["bridge"]
        after = after.gather(1, last.clamp(max=shape[1] - 1))
        over = first["done"] * (not self._cfg.learn.ignore_done)
        going = first["value_gamma"] * (1 - over)
        value: Tensor = first["reward"] + going * after
        return value, Batch(first, len(batch))

    def _fresh(self, count: int) -> int:
        """Returns how many of the sequences are searched again, the first ones."""
        return ceil(self._cfg.learn.reanalyze_ratio * count)

    @torch.no_grad()
    def _policies(self, batch: Batch) -> Tensor:
        """Returns the policies to learn, [B, K + 1, A], some of them searched again."""
        policy: Tensor = batch[_PLANNED]
        fresh = self._fresh(len(policy))
        if not fresh:
            return policy
        model = self._target_model
        obs = tree_map(lambda leaf: leaf[:fresh].flatten(0, 1), batch["obs"])
        root, searched = _Root(model)(obs), self._searched(model)
        found = self._planner.plan(
            searched, _leaf(searched, root), self._learn_rng, explore=False, temperature=0.0
        )
        again = torch.from_numpy(found.policy).to(policy).unflatten(0, (fresh, -1))
        return torch.cat([again, policy[fresh:]])

    def _get_skipped_updates(self) -> int:
        return self._optimizer.skipped

    def _monitor_vars_learn(self) -> list[str]:
        names = ["total_loss", "policy_loss", "value_loss", "reward_loss", "target_value", "cur_lr"]
        return [*names, "consistency_loss"] if self._cfg.learn.consistency_weight else names

    def _state_dict_learn(self) -> StateDict:
        return {
            **self._state_dict_model(),
            "target_model": self._target_model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "update_count": self._update_count,
        }

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._target_model.load_state_dict(state["target_model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._update_count = int(state["update_count"])


class _Root:
    """What an `Actor` calls: what the network says of the roots of searches."""

    def __init__(self, model: MuZeroNet) -> None:
        self._model = model

    def __call__(self, obs: Tensor) -> Columns:
        state = self._model.represent(obs)
        logit, value = self._model.predict(state)
        return {"latent": state, "logit": logit, "value": self._model.mean(value)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks them up before there is a model
            raise AttributeError(name)
        return getattr(self._model, name)


def _leaf(searched: NetworkModel, root: Columns) -> Leaf:
    """Returns roots of a search from the outputs of the network."""
    latent, logit, value = (torch.as_tensor(root[key]) for key in ("latent", "logit", "value"))
    none: npt.NDArray[np.float32] = np.zeros(len(logit), np.float32)
    return Leaf(searched.root(latent), logit.cpu().numpy(), value.cpu().numpy(), none, none)


def _halved(state: Tensor) -> Tensor:
    """Halves the gradient of a state (appendix G): later losses reach back through many steps."""
    return state / 2 + state.detach() / 2


def _summed(reward: Tensor, horizon: int) -> Tensor:
    """Computes value prefixes [B, K]: sums of rewards since the last multiple of `horizon`."""
    pieces = [each.cumsum(1) for each in reward.split(horizon, 1)]
    return torch.cat(pieces, 1)


def _weights(steps: int, like: Tensor) -> Tensor:
    """Returns the factors [L] of losses: 1 of the first step, 1/K of the K others."""
    return torch.cat([like.new_ones(1), like.new_full((steps,), 1 / max(steps, 1))])


def _ended(batch: Batch) -> Tensor:
    """Returns which steps, bool [B, L], come after a terminal one."""
    over = (batch["step_done"] > 0).cumsum(1) > 0
    after = torch.cat([torch.zeros_like(over[:, :1]), over[:, :-1]], 1)
    ended: Tensor = after & ~batch["valid"]
    return ended


def _sequences(batch: Batch) -> Batch:
    """Returns what is learned from as sequences [B, L, ...]; single steps are such of one."""
    columns = {key: batch[key] for key in _LEARNED}
    if batch["reward"].dim() == 1:
        columns = {
            key: tree_map(lambda leaf: leaf.unsqueeze(1), each) for key, each in columns.items()
        }
    valid = batch.get("valid")
    if valid is None:
        valid = torch.ones_like(columns["reward"], dtype=torch.bool)
    return Batch({**columns, "valid": valid}, len(batch))
