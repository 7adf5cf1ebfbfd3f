"""Recurrent Q-learning from replayed sequences (Kapturowski et al. 2019), with one-step targets.

Shapes: K ready environments, B sequences, L steps, A actions, H units of the state.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dicore.data import Batch, EnvBatch
from dicore.interfaces.policy import Tail
from dicore.run import stream, torch_stream
from dicore_plugins.functional import next_obs_of, sequences, to_batch
from dicore_plugins.models import Flat, create_model
from dicore_plugins.optimizers import build_optimizer
from dicore_plugins.policies import Policy
from schools_rl.config import R2D2Config

ETA = 0.9
"""Weight of the largest TD error of a sequence in its priority, beside the mean."""


class R2D2(Policy):
    """Double Q-learning with a GRU whose state starts as stored and is burnt in."""

    config_class = R2D2Config

    def _create_model(self) -> Any:
        self._states: dict[str, Any] = {}
        with torch_stream("model"):
            return create_model(self._cfg.model)

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model.to(self._device)
        self._target = copy.deepcopy(model).requires_grad_(False)
        self._flat, self._target_flat = Flat(model), Flat(self._target)
        self._updates = 0
        self._optimizer = build_optimizer(
            learn.optimizer,
            self._flat,
            learning_rate=learn.learning_rate,
            max_grad_norm=learn.max_grad_norm,
        )

    def _init_collect(self) -> None:
        self._model.to(self._device)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._model.to(self._device)

    # ---- acting

    def _act(self, mode: str, obs: Any) -> tuple[Any, Any, Any]:
        """Returns the batch, the states before it [K, H] and the Q values; keeps the new states."""
        batch = EnvBatch.of(obs)
        held, ids = self._held(mode, int(batch.env_id.max(initial=0)) + 1), batch.env_id
        state = held[ids]
        with torch.inference_mode():
            seen = torch.from_numpy(np.ascontiguousarray(batch.value)).to(self._device)
            output = self._model(seen, torch.from_numpy(state).to(self._device))
        held[ids] = output["hidden"].cpu().numpy()
        return batch, state, output["logit"].cpu().numpy()

    def _held(self, mode: str, count: int) -> Any:
        held = self._states.get(mode, np.zeros((0, self._model.hidden), np.float32))
        if len(held) < count:
            fresh = np.zeros((count - len(held), self._model.hidden), np.float32)
            held = np.concatenate([held, fresh])
        self._states[mode] = held
        return held

    def _forward_collect(self, obs: Any, eps: float = 0.0, **_: Any) -> EnvBatch[Any]:
        batch, state, q = self._act("collect", obs)
        guess = self._rng.integers(0, q.shape[1], len(batch))
        chosen = np.where(self._rng.random(len(batch)) < eps, guess, q.argmax(1))
        action = chosen + self._cfg.action_start
        return batch.with_value({"action": action, "hidden": state})

    def _forward_eval(self, obs: Any) -> EnvBatch[Any]:
        batch, _, q = self._act("eval", obs)
        return batch.with_value({"action": q.argmax(1) + self._cfg.action_start})

    def _forget(self, mode: str, data_id: Any) -> None:
        if data_id is None:
            self._states.pop(mode, None)
        elif len(data_id):
            self._held(mode, max(data_id) + 1)[list(data_id)] = 0

    def _reset_collect(self, data_id: Any = None) -> None:
        self._forget("collect", data_id)

    def _reset_eval(self, data_id: Any = None) -> None:
        self._forget("eval", data_id)

    def _get_collect_state(self) -> Any:
        """The hidden states of collecting, which a checkpoint keeps."""
        return {"hidden": self._states["collect"].copy()} if "collect" in self._states else {}

    def _set_collect_state(self, state: Any) -> None:
        self._states.pop("collect", None)
        if "hidden" in state:
            self._states["collect"] = np.array(state["hidden"], np.float32)

    def _get_setting_collect(self, command_info: Any) -> dict[str, Any]:
        other = self._cfg.other
        done = min(command_info["envstep"] / other.eps_decay, 1.0)
        return {"eps": other.eps_start + done * (other.eps_end - other.eps_start)}

    # ---- samples

    def _process_transition(self, obs: Any, output: Any, timestep: Any) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        hidden = output.get("hidden")  # a warm-up policy has none
        if hidden is None:
            hidden = np.zeros((len(columns["reward"]), self._model.hidden), np.float32)
        return {**columns, "hidden": hidden}

    def _get_sample_len(self) -> int:
        return self._cfg.learn.burn_in + self._cfg.collect.unroll_len

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        whole = Batch({**block.columns, "next_obs": next_obs_of(block, tail)}, len(block))
        found = sequences(whole, self._get_sample_len(), self._cfg.collect.unroll_len, tail)
        return Batch({**found.columns, "hidden": found["hidden"][:, 0]}, len(found))

    # ---- learning

    def _forward_learn(self, data: Any, **_: Any) -> dict[str, Any]:
        batch, learn = to_batch(data, self._device), self._cfg.learn
        start = learn.burn_in
        q, next_q = self._unroll(self._model, batch)
        with torch.no_grad():
            _, next_target = self._unroll(self._target, batch)
            best = next_target.gather(-1, next_q.argmax(-1, keepdim=True)).squeeze(-1)
            left = 1.0 if learn.ignore_done else 1 - batch["done"].float()
            target = batch["reward"] + self._cfg.discount_factor * left * best
        index = (batch["action"].long() - self._cfg.action_start).unsqueeze(-1)
        error = (q.gather(-1, index).squeeze(-1) - target)[:, start:]
        each = torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")
        weight = batch.get("weight", batch.get("IS"))
        losses = each.mean(1)
        loss = (losses if weight is None else losses * weight).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._updates += 1
        if self._updates % learn.target_update_freq == 0:
            self._target_flat.data.copy_(self._flat.data)
        size = error.detach().abs()
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "priority": ETA * size.max(1).values + (1 - ETA) * size.mean(1),
        }

    def _unroll(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]:
        """Q values of each step, and of each step's next observation, detached: [B, L, A]."""
        state, burn_in = batch["hidden"], self._cfg.learn.burn_in
        values, after = [], []
        for t in range(batch["reward"].shape[1]):
            with torch.set_grad_enabled(t >= burn_in and torch.is_grad_enabled()):
                output = model(batch["obs"][:, t], state)
            with torch.no_grad():
                after.append(model(batch["next_obs"][:, t], output["hidden"])["logit"])
            values.append(output["logit"])
            going = ~batch["end"][:, t].bool().unsqueeze(1)
            state = output["hidden"] * going  # a new episode starts from zero
        return torch.stack(values, 1), torch.stack(after, 1)

    def _state_dict_learn(self) -> dict[str, Any]:
        return {
            **self._state_dict_model(),
            "target": dict(self._target.state_dict()),
            "optimizer": self._optimizer.state_dict(),
            "updates": self._updates,
        }

    def _load_state_dict_learn(self, state: Any) -> None:
        self._load_state_dict_model(state)
        self._target.load_state_dict(dict(state["target"]))
        self._optimizer.load_state_dict(state["optimizer"])
        self._updates = int(state["updates"])
