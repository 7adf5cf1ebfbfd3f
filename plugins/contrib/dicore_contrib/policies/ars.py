"""Augmented random search (Mania et al. 2018, arXiv:1803.07055).

Of N directions delta_k, drawn from the standard normal distribution, each is tried in two episodes:
the parameters are theta + nu delta_k in one, and theta - nu delta_k in the other, with the returns
R_k+ and R_k-. Then, with the b directions that have the highest max(R_k+, R_k-) (all for V1, V2)

    theta <- theta + alpha / (b sigma_R) sum_k (R_k+ - R_k-) delta_k

where sigma_R is the standard deviation of their 2 b returns. Where one of the two episodes is not
there, since it was broken off or another collector has it, the mean of all returns stands for it.
V2 has `model.obs_norm`, V1-t and V2-t `learn.top_directions`.

Samples are steps with the seed and the sign of what their episode tried, from which the learner
draws the direction again, so that collectors may be in other processes.

Shapes: K ready environments, B steps of a collect, N directions, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, TimestepBatch, Tree
from dicore.errors import NonFiniteError, UsageError
from dicore.interfaces.policy import CollectMode, Tail
from dicore.run.random import stream
from dicore_contrib.models.ars import ARSNet
from dicore_contrib.policies.ars_config import ARSConfig
from dicore_plugins.functional import to_batch, transitions
from dicore_plugins.policies import Actor, Policy, Results, UnitActions

__all__ = ["ARSPolicy", "ars_step"]

Floats = npt.NDArray[np.float32]
Returns = npt.NDArray[np.float64]


class _Try(NamedTuple):
    """What one episode tries: the seed of a direction, and its sign."""

    seed: int
    sign: int


def direction_of(seed: int, size: int) -> Floats:
    """Draws a direction, float32 [P], from its seed."""
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def ars_step(plus: Returns, minus: Returns, top: int | None = None) -> Returns:
    """Computes the weights of directions in a step: (R+ - R-) / (b sigma_R), 0 if it is not used.

    Args:
        plus: float64 [N]; returns with the direction added; NaN: there is none, and the mean of all
            returns stands for it.
        minus: float64 [N]; returns with it subtracted; NaN as in `plus`.
        top: b; None: N.

    Returns:
        float64 [N]; all are 0 if all returns are equal.
    """
    best = np.argsort(-np.fmax(plus, minus), kind="stable")[: top or len(plus)]
    used = np.stack([plus[best], minus[best]])
    weight = np.zeros(len(plus))
    if not np.isfinite(used).any():
        return weight
    std, mean = np.nanstd(used), np.nanmean(np.stack([plus, minus]))
    if std > 0:
        gained = np.where(np.isnan(used), mean, used)
        weight[best] = (gained[0] - gained[1]) / (len(best) * std)
    return weight


class ARSPolicy(Policy):
    """Each episode tries other parameters; a collect gives one step."""

    config_class: ClassVar[type[PolicyConfig]] = ARSConfig
    network_class: ClassVar[type | None] = ARSNet
    attributes: ClassVar[tuple[str, ...]] = ("actor",)
    _cfg: ARSConfig

    @cached_property
    def _unit(self) -> UnitActions | None:
        """Scales continuous actions; None: they are discrete."""
        return UnitActions(self._cfg, "cpu") if self._model.continuous else None

    def _make_collect_mode(self) -> CollectMode:
        return super()._make_collect_mode()._replace(load_state_dict=self._load_state_dict_collect)

    def _load_state_dict_collect(self, state: State) -> None:
        """Loads parameters; the other halves of what the former ones tried are not tried."""
        self._load_state_dict_model(state)
        self._waiting.clear()

    # ---- acting

    def _init_collect(self) -> None:
        self._rng = stream("policy/collect")
        self._waiting: list[_Try] = []
        self._tries: dict[int, _Try] = {}
        self._tried: dict[int, Floats] = {}

    def _init_eval(self) -> None:
        self._actor = Actor(self._model.to(self._device), self._device, by_numpy=False)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Acts with the parameters that the episode of each environment tries.

        Returns:
            `action` of each environment, with `direction` int64 [K] and `sign` int64 [K].
        """
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}",
                hint="ars explores by policy.collect.noise; pass none",
            )
        batch = EnvBatch.of(obs)
        ids = batch.env_id.tolist()
        tries = [self._try_of(env) for env in ids]
        rows = np.asarray(batch.value, np.float32).reshape(len(tries), -1)
        output = self._model.each(np.stack([self._tried[env] for env in ids]), rows)
        acted = self._acted(batch, output)
        more = {
            "direction": np.array([each.seed for each in tries]),
            "sign": np.array([each.sign for each in tries]),
        }
        return batch.with_value({**acted.value, **more})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Acts with the parameters as they are."""
        batch = EnvBatch.of(obs)
        (output,) = self._actor.forward(batch.value).values()
        return self._acted(batch, output)

    def _acted(self, batch: EnvBatch[Tree], output: Floats) -> EnvBatch[Columns]:
        if not np.isfinite(output).all():
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        if self._unit is not None:
            return batch.with_value({"action": self._unit.env(np.clip(output, -1, 1))})
        return batch.with_value({"action": output.argmax(1) + self._cfg.action_start})

    def _try_of(self, env: int) -> _Try:
        """Returns what the episode of an environment tries; a new one tries the next."""
        if env not in self._tries:
            if not self._waiting:
                count = (self._cfg.collect.n_episode or 2) // 2
                seeds = self._rng.integers(0, 2**62, count).tolist()
                self._waiting = [_Try(seed, sign) for seed in seeds for sign in (1, -1)]
            self._tries[env] = self._waiting.pop(0)
        found = self._tries[env]
        if env not in self._tried:
            theta = self._theta()
            scale = np.float32(found.sign * self._cfg.collect.noise)
            self._tried[env] = theta + scale * direction_of(found.seed, len(theta))
        return found

    def _theta(self) -> Floats:
        vector = nn.utils.parameters_to_vector(self._model.parameters())
        found: Floats = vector.detach().cpu().numpy().astype(np.float32)
        return found

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        for env in [*self._tries] if data_id is None else data_id:
            self._tries.pop(env, None)
            self._tried.pop(env, None)

    def _get_collect_state(self) -> StateDict:
        """What running episodes try, and what the next ones will, as numbers."""
        return {
            "waiting": [[*each] for each in self._waiting],
            "tries": [[env, *each] for env, each in self._tries.items()],
        }

    def _set_collect_state(self, state: State) -> None:
        self._waiting = [_Try(*map(int, each)) for each in state["waiting"]]
        self._tries = {int(env): _Try(int(seed), int(sign)) for env, seed, sign in state["tries"]}
        self._tried.clear()

    # ---- samples

    def _process_transition(
        self, obs: Tree, output: Columns, timestep: TimestepBatch
    ) -> dict[str, Any]:
        found = super()._process_transition(obs, output, timestep)
        return {**found, "direction": output["direction"], "sign": output["sign"]}

    def _get_sample_len(self) -> Literal["episode"]:
        return "episode"

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps."""
        self._need_one_reward(block)
        return transitions(block, tail)

    # ---- learning

    def _init_learn(self) -> None:
        self._model.to(self._device)

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Takes one step.

        Args:
            data: The B steps of whole episodes: obs, reward, `direction` int64 [B], the seeds, and
                `sign` int64 [B].

        Returns:
            `total_loss`, minus the mean return; `step_norm`, the length of the step; `return_std`;
            `pairs`, the share of the directions that have both of their episodes.
        """
        batch = to_batch(data, "cpu")
        norm = getattr(self._model, "norm", None)
        if norm is not None:
            norm.update(batch["obs"].to(self._device).float().reshape(len(batch), -1))
        seeds, plus, minus = self._returns(batch)
        weight = ars_step(plus, minus, self._cfg.learn.top_directions)
        theta = self._theta()
        step = np.zeros_like(theta)
        for seed, share in zip(seeds.tolist(), weight.tolist(), strict=True):
            step += np.float32(share) * direction_of(seed, len(step))
        step *= np.float32(self._cfg.learn.learning_rate)
        moved = torch.from_numpy(theta + step).to(self._device)
        with torch.no_grad():
            nn.utils.vector_to_parameters(moved, self._model.parameters())
        if "collect" in self._enabled:  # the other halves of what the former parameters tried
            self._waiting.clear()
        both = np.isfinite([plus, minus])
        returns = np.array([plus, minus])[both]
        returns = returns if len(returns) else np.full(1, np.nan)
        return {
            "total_loss": -float(returns.mean()),
            "step_norm": float(np.linalg.norm(step)),
            "return_std": float(returns.std()),
            "pairs": float(both.all(0).mean()),
            "cur_lr": self._cfg.learn.learning_rate,
        }

    def _returns(self, batch: Batch) -> tuple[npt.NDArray[np.int64], Returns, Returns]:
        """Returns the seeds [N] of directions, and the returns of both episodes, float64 [N].

        The return of an episode that is not there is NaN.
        """
        direction, sign = batch["direction"].numpy(), batch["sign"].numpy()
        reward = batch["reward"].numpy().astype(np.float64) - self._cfg.learn.alive_bonus
        seeds, index = np.unique(direction, return_inverse=True)
        returns, steps = list[Returns](), list[npt.NDArray[np.intp]]()
        for side in (1, -1):
            of_side = sign == side
            gained = np.bincount(index[of_side], weights=reward[of_side], minlength=len(seeds))
            returns.append(gained.astype(np.float64))
            steps.append(np.bincount(index[of_side], minlength=len(seeds)))
        plus, minus = (
            np.where(count > 0, each, np.nan) for count, each in zip(steps, returns, strict=True)
        )
        return seeds, plus, minus

    def _monitor_vars_learn(self) -> list[str]:
        return ["total_loss", "step_norm", "return_std", "pairs", "cur_lr"]
