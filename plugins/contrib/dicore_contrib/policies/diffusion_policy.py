"""Diffusion policy (Chi et al. 2023, arXiv:2303.04137): draws plans like those of demonstrations.

A plan A are the actions of the next H steps, in units of their bounds. The network e learns the
noise in plans after a step k of a diffusion, given the last observations O:

    L = |z - e(sqrt(a_k) A + sqrt(1 - a_k) z, k, O)|^2,   k uniform, z standard normal

where a_k falls by a squared cosine. Acting, a plan is drawn by removing noise step by step (DDIM,
or DDPM with eta = 1), and `action_steps` of it are done before the next one. The network that acts
has averaged parameters. Before the first step and after the last one of an episode, the first
observation and the last action are repeated. A plan may begin at each step of an episode, and all
count alike: a sequence at which c plans may begin has the weight c in the loss.

Shapes: K environments, B sequences, L steps of one, H of a plan, O observations, A action values.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import (
    Batch,
    Columns,
    EnvBatch,
    State,
    StateDict,
    Tree,
    tree_map,
    tree_row,
    tree_stack,
)
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_contrib.functional import cosine_schedule, reverse_step
from dicore_contrib.models.denoiser import Denoiser
from dicore_contrib.policies.diffusion_policy_config import DiffusionPolicyConfig
from dicore_plugins.functional import to_batch
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import optimizer_of
from dicore_plugins.policies import OneOptimizerPolicy, Results, UnitActions

__all__ = ["DiffusionPolicy"]

_NEEDED = ("obs", "action", "timestep", "steps_to_go", "valid")


class DiffusionPolicy(OneOptimizerPolicy):
    """Acts by plans that a diffusion model draws."""

    config_class: ClassVar[type[PolicyConfig]] = DiffusionPolicyConfig
    network_class: ClassVar[type | None] = Denoiser
    attributes: ClassVar[tuple[str, ...]] = ("online",)
    export_problem: ClassVar[str] = "it draws plans"
    _cfg: DiffusionPolicyConfig

    @cached_property
    def _unit(self) -> UnitActions:
        return UnitActions(self._cfg, self._device)

    @cached_property
    def _left(self) -> Tensor:
        """The shares of a plan that are left after each step of the diffusion."""
        return cosine_schedule(self._cfg.diffusion_steps).to(self._device)

    @property
    def _horizon(self) -> int:
        """H."""
        return int(self._cfg.collect.unroll_len - self._model.obs_steps + 1)

    # ---- learning

    def _init_learn(self) -> None:
        self._model.to(self._device)
        self._online: Denoiser = copy.deepcopy(self._model)
        self._online.encode.norm = self._model.encode.norm  # one set of statistics
        self._flat, self._averaged = Flat(self._online), Flat(self._model)
        self._optimizer = optimizer_of(self._cfg.learn, self._flat)
        self._update_count = 0

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update.

        Args:
            data: B sequences [B, L, ...]: obs, action, timestep (0 at the start of an episode),
                steps_to_go (0 at its end), and valid, which is False after the end.

        Returns:
            `total_loss`, the mean squared error of the noise.

        Raises:
            SchemaError: a column is missing.
        """
        batch = to_batch(data, self._device)
        missing = [name for name in _NEEDED if name not in batch]
        if missing or batch["valid"].dim() != 2:
            raise SchemaError(
                f"diffusion_policy learns from sequences of {', '.join(_NEEDED)}: no"
                f" {', '.join(missing) or 'sequences'}",
                hint='set pipeline.dataset.derived=["timestep","steps_to_go"] and'
                " pipeline.dataset.unroll_len to policy.collect.unroll_len",
            )
        for flat in (self._flat, self._averaged):
            if not flat.intact():
                flat.rebind()
        found = self._descend(self._loss(*self._plans_of(batch)))
        learn = self._cfg.learn
        decay = min(learn.ema_decay, 1 - self._update_count**-learn.ema_power)
        self._averaged.data.lerp_(self._flat.data, 1 - decay)
        return found

    def _plans_of(self, batch: Batch) -> tuple[Tree, Tensor, Tensor]:
        """Returns observations [B, O, ...], the plans that followed, [B, H, A], and weights [B].

        A plan begins O - 1 steps after its sequence does. In sequences that begin or end an
        episode, it may begin earlier or later.
        """
        valid, count = batch["valid"].bool(), self._model.obs_steps
        rows = torch.arange(len(valid), device=valid.device)
        last = valid.sum(1) - 1
        usual = last.clamp(max=count - 1)
        low = torch.where(batch["timestep"][:, 0] == 0, 0, usual)
        ends = batch["steps_to_go"][rows, last] == 0
        high = torch.where(ends, last, usual)
        now = low + (torch.rand(len(rows)).to(valid.device) * (high - low + 1)).long()
        device = valid.device
        before = now.unsqueeze(1) + torch.arange(1 - count, 1, device=device)
        after = now.unsqueeze(1) + torch.arange(self._horizon, device=device)
        at = rows.unsqueeze(1), before.clamp(min=0)
        obs = tree_map(lambda leaf: leaf[at], batch["obs"])
        norm = self._model.encode.norm
        if norm is not None:
            now_seen = tree_map(lambda leaf: leaf[:, -1], obs)
            norm.update(self._model.encode.vector(now_seen))
        flat = batch["action"].reshape(*valid.shape, -1)
        unit = self._unit.unit(flat).clamp(-1, 1)
        plan = unit[rows.unsqueeze(1), after.minimum(last.unsqueeze(1))]
        count = (high - low + 1).float()
        return obs, plan, count / count.mean()

    def _loss(self, obs: Tree, plan: Tensor, weight: Tensor) -> Tensor:
        """Computes the weighted mean squared error of the noise, a scalar."""
        step = torch.randint(self._cfg.diffusion_steps, (len(plan),)).to(plan.device)
        noise = torch.randn(plan.shape).to(plan.device)
        left = self._left[step][:, None, None]
        noisy = left.sqrt() * plan + (1 - left).sqrt() * noise
        found = self._online.noise(noisy, step, self._online.condition(obs))
        return ((found - noise).square().mean((1, 2)) * weight).mean()

    def _state_dict_learn(self) -> StateDict:
        return {**super()._state_dict_learn(), "online": self._online.state_dict()}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        self._online.load_state_dict(state["online"])

    # ---- acting

    def _init_collect(self) -> None:
        self._collecting = self._new_memory()
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._evaluating = self._new_memory()

    def _new_memory(self) -> _Memory:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return _Memory(self._model.obs_steps)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Follows plans that are drawn from the same noise each time."""
        return self._act(self._evaluating, EnvBatch.of(obs), None)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Follows plans that are drawn."""
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        return self._act(self._collecting, EnvBatch.of(obs), self._rng)

    def _act(
        self, memory: _Memory, batch: EnvBatch[Any], rng: np.random.Generator | None
    ) -> EnvBatch[Columns]:
        memory.see(batch.env_id, batch.value)
        without = memory.without_plan(batch.env_id)
        if without:
            plans = self._draw(memory.seen(without), len(without), rng)
            memory.planned(without, plans[:, : self._cfg.action_steps])
        return batch.with_value({"action": self._unit.env(memory.next(batch.env_id))})

    @torch.no_grad()
    def _draw(
        self, obs: Tree, count: int, rng: np.random.Generator | None
    ) -> npt.NDArray[np.float32]:
        """Draws plans for observations [K, O, ...]: [K, H, A]; alike if there is no generator."""
        cfg, model = self._cfg, self._model
        form = (cfg.sample_steps + 1, self._horizon, model.action_size)
        if rng is None:
            same = np.random.default_rng(0).standard_normal((1, *form), np.float32)
            drawn = np.repeat(same, count, 0)
        else:
            drawn = rng.standard_normal((count, *form), np.float32)
        noise = torch.from_numpy(drawn).to(self._device)

        def tensor(leaf: Tree) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

        condition = model.condition(tree_map(tensor, obs))
        places = np.linspace(cfg.diffusion_steps - 1, 0, cfg.sample_steps).round().astype(int)
        before = [*self._left[places[1:]], self._left.new_ones(())]
        plan = noise[:, 0]
        for number, place in enumerate(places.tolist()):
            step = torch.full((count,), place, device=plan.device)
            found = model.noise(plan, step, condition)
            plan = reverse_step(
                plan, found, self._left[place], before[number], noise[:, number + 1], cfg.eta
            )
        result: npt.NDArray[np.float32] = plan.clamp(-1, 1).cpu().numpy()
        return result

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        self._collecting.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        self._evaluating.reset(data_id)

    # ---- samples of own episodes

    def _get_sample_len(self) -> Literal["episode"]:
        return "episode"

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts whole episodes, a block [T, N, ...], to sequences that begin at each step."""
        length, pieces = self._cfg.collect.unroll_len, []
        for env in range(block["end"].shape[1]):
            ends = np.flatnonzero(block["end"][:, env])
            for start, stop in zip(np.append(0, ends[:-1] + 1), ends + 1, strict=True):
                pieces += _windows(block, env, int(start), int(stop), length)
        return Batch.concat(pieces)


def _windows(block: Batch, env: int, start: int, stop: int, length: int) -> list[Batch]:
    """Returns the sequences of an episode that fill L steps; of a shorter one, all its steps."""
    first = np.arange(start, max(start, stop - length) + 1)
    at = first[:, None] + np.arange(length)
    valid = at < stop
    at = np.minimum(at, stop - 1)
    columns: dict[str, Any] = {
        key: tree_map(lambda leaf: np.asarray(leaf)[at, env], block[key])
        for key in ("obs", "action")
    }
    columns |= {"timestep": at - start, "steps_to_go": stop - 1 - at, "valid": valid}
    return [Batch(columns, len(first))]


class _Memory:
    """What was seen last in each environment, and what is left of its plan."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen: dict[int, list[Tree]] = {}
        self._plan: dict[int, list[npt.NDArray[np.float32]]] = {}

    def reset(self, env_id: Sequence[int] | None = None) -> None:
        """Forgets environments; None: all."""
        for each in [*self._seen] if env_id is None else env_id:
            self._seen.pop(int(each), None)
            self._plan.pop(int(each), None)

    def see(self, env_id: npt.NDArray[np.int64], obs: Tree) -> None:
        """Adds observations [K, ...]; the first one counts for those before it."""
        for row, each in enumerate(env_id.tolist()):
            now = tree_map(np.array, tree_row(obs, row))
            before = self._seen.get(each, [now] * self._count)
            self._seen[each] = [*before[1:], now]

    def without_plan(self, env_id: npt.NDArray[np.int64]) -> list[int]:
        """Returns the environments whose plan is done."""
        return [each for each in env_id.tolist() if not self._plan.get(each)]

    def seen(self, env_ids: Sequence[int]) -> Tree:
        """Returns the last observations of environments, [K, O, ...]."""
        return tree_stack([tree_stack(self._seen[each]) for each in env_ids])

    def planned(self, env_ids: Sequence[int], plans: npt.NDArray[np.float32]) -> None:
        """Notes plans [K, H, A] of environments."""
        self._plan.update((each, [*plan]) for each, plan in zip(env_ids, plans, strict=True))

    def next(self, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Returns the next actions of the plans, [K, A]."""
        return np.stack([self._plan[each].pop(0) for each in env_id.tolist()])
