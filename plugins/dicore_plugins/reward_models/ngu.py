"""Never give up: a bonus for what is new in an episode, multiplied by one for what is new at all.

Badia et al. 2020, arXiv:2002.06038.

Shapes: B samples, R steps of one environment, K neighbours, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.reward_models.config import NGUConfig
from dicore_plugins.reward_models.intrinsic import DistillationNet, IntrinsicRewardModel, InverseNet
from dicore_plugins.reward_models.return_scale import origin_of

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["NGU", "EpisodicNovelty"]

Array = npt.NDArray[Any]
_CLUSTER = 0.008
"""Squared distance, as a part of the mean one, below which two states count as equal."""
_CONSTANT = 1e-3
"""Pseudo-count of a state without similar ones."""
_SPARE = 1_024
"""Steps of earlier episodes that are kept: more than blocks of a collector overlap."""
_SOME = 512
"""Steps that are compared at once."""


class EpisodicNovelty:
    """How new states are in their episodes: n = 1 / (sqrt(sum of k over the K nearest) + c).

    k = e / (max(d^2 / m - xi, 0) + e), where d is the distance to an earlier state of the episode,
    and m the running mean of d^2. Neighbours that an episode does not have yet count as being at
    the mean distance, so that the first states are not infinitely new.

    Args:
        neighbours: K.
        capacity: Newest steps of each environment to compare with.
        epsilon: e.
    """

    def __init__(self, neighbours: int, capacity: int, epsilon: float) -> None:
        self._neighbours, self._capacity, self._epsilon = neighbours, capacity, epsilon
        self._rows: dict[int, tuple[Array, Array]] = {}
        self._total, self._count = 0.0, 0.0
        self._new = [0.0, 0.0]

    def add(self, features: Array, env_id: Array | None, end: Array | None) -> Array:
        """Adds steps to the episodes that are running.

        Args:
            features: float [B, F]; those of each environment in time order.
            env_id: int [B]; None: all are of one environment.
            end: bool [B]; whether the step ends its episode; None: none does.

        Returns:
            How new they are: float32 [B].
        """
        found = np.empty((len(features), self._neighbours))
        for env, rows in _by_env(env_id, len(features)):
            x, ends = features[rows], _ends(end, rows)
            before = self._rows.get(env)
            found[rows], first = self._nearest(x, ends, before), 0
            if before is not None:
                first = _begin(before[1])
                x, ends = np.concatenate([before[0], x]), np.concatenate([before[1], ends])
            kept = min(max(len(x) - first, _SPARE), self._capacity + len(rows))
            self._rows[env] = x[-kept:].copy(), ends[-kept:].copy()
        there = np.isfinite(found)
        self._new[0] += float(found[there].sum())
        self._new[1] += float(there.sum())
        return self._novelty(found)

    def of(self, features: Array, env_id: Array | None, end: Array | None) -> Array:
        """Returns how new the last steps are that `add` received: float32 [B].

        The arguments are those of `add`. They may begin with steps of its call before the last, as
        the blocks of collectors overlap.
        """
        found = np.empty((len(features), self._neighbours))
        for env, rows in _by_env(env_id, len(features)):
            known = self._rows.get(env)
            before = None if known is None else (known[0][: -len(rows)], known[1][: -len(rows)])
            found[rows] = self._nearest(features[rows], _ends(end, rows), before)
        return self._novelty(found)

    def update(self) -> None:
        """Adds the distances between new steps to the mean."""
        self._total, self._count = self._total + self._new[0], self._count + self._new[1]
        self._new = [0.0, 0.0]

    def _nearest(self, x: Array, end: Array, before: tuple[Array, Array] | None) -> Array:
        """Returns the squared distances to the nearest earlier states of the episode: [R, K].

        Args:
            x: [R, F]; in time order.
            end: bool [R].
            before: The steps before them, features and ends.

        Returns:
            float64 [R, K]; infinite where the episode has fewer.
        """
        rows = x.astype(np.float64)
        if before is not None:
            first = max(_begin(before[1]), len(before[1]) - self._capacity)
            rows = np.concatenate([before[0][first:], rows])
        past, place = len(rows) - len(x), np.arange(len(rows))
        episode = np.concatenate([np.zeros(past, np.int64), np.cumsum(end) - end])
        size, found = np.square(rows).sum(1), np.empty((len(x), self._neighbours))
        missing = ((0, 0), (0, max(self._neighbours - len(rows), 0)))
        for start in range(0, len(x), _SOME):
            own = slice(past + start, past + min(start + _SOME, len(x)))
            apart = np.maximum(size[own, None] + size - 2 * rows[own] @ rows.T, 0)
            apart[(episode[own, None] != episode) | (place[own, None] <= place)] = np.inf
            near = np.partition(
                np.pad(apart, missing, constant_values=np.inf), self._neighbours - 1, 1
            )
            found[start : start + _SOME] = near[:, : self._neighbours]
        return found

    def _novelty(self, nearest: Array) -> Array:
        mean = self._total / self._count if self._total else 1.0
        apart = np.where(np.isfinite(nearest), nearest / mean, 1.0)
        kernel = self._epsilon / (np.maximum(apart - _CLUSTER, 0) + self._epsilon)
        found: Array = (1 / (np.sqrt(kernel.sum(1)) + _CONSTANT)).astype(np.float32)
        return found

    def state_dict(self) -> StateDict:
        """Returns the mean distance, and the newest steps of each environment."""
        return {
            "mean": np.array([self._total, self._count, *self._new]),
            "rows": [
                {"env_id": env, "features": x, "end": end} for env, (x, end) in self._rows.items()
            ],
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._total, self._count, *self._new = np.asarray(state["mean"]).tolist()
        self._rows = {
            int(each["env_id"]): (np.asarray(each["features"]), np.asarray(each["end"], np.bool_))
            for each in state["rows"]
        }


def _by_env(env_id: Array | None, count: int) -> list[tuple[int, Array]]:
    """Returns the environments of rows, each with its rows in order."""
    if env_id is None:
        return [(0, np.arange(count))] if count else []
    ids = np.asarray(env_id)
    return [(env, np.flatnonzero(ids == env)) for env in np.unique(ids).tolist()]


def _begin(end: Array) -> int:
    """Returns the row at which the running episode begins."""
    ended = np.flatnonzero(end)
    return int(ended[-1]) + 1 if len(ended) else 0


def _ends(end: Array | None, rows: Array) -> Array:
    return np.zeros(len(rows), np.bool_) if end is None else np.asarray(end, np.bool_)[rows]


class _NGUNet(nn.Module):
    """Features that tell actions, the two networks of RND, and the statistics of their error."""

    def __init__(self, space: Space, action_space: Space, cfg: NGUConfig) -> None:
        super().__init__()
        self.distillation = DistillationNet(space, cfg)
        self.encoder = own = self.distillation.encoder
        self.controllable = InverseNet(space, action_space, cfg, None if own.learned else own)
        self.errors = RunningNorm(1)


class NGU(IntrinsicRewardModel):
    """Never give up: pays for states that are new in their episode, again in each episode.

    The bonus is the novelty in the episode, of features that a model which tells the actions
    learns, times a factor of 1 to `max_factor`: 1 plus the normalised error of random network
    distillation. Unlike that of `rnd` alone it does not vanish with training.

    `estimate` compares steps with those that `collect_data` received before them, and so estimates
    the newest steps, in time order, with `env_id` and `end` (or `done`).
    """

    config_class: ClassVar[type[ComponentConfig]] = NGUConfig
    keys: ClassVar[tuple[str, ...]] = ("obs", "action", "next_obs", "novelty")
    _net: _NGUNet

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        cfg = self._cfg
        self._novelty = EpisodicNovelty(cfg.neighbours, cfg.memory_size, cfg.kernel_epsilon)

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        return _NGUNet(observation_space, action_space, self._cfg)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return batch["next_obs"]

    def _bonus(self, batch: Mapping[str, Tree]) -> Tensor:
        errors, error = self._net.errors, self._net.distillation.forward(batch["next_obs"])
        factor: Tensor = (1 + (error - errors.mean) / errors.std).clamp_(1, self._cfg.max_factor)
        novelty: Tensor = self._tensor(batch["novelty"])
        return factor * novelty

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        net = self._net.controllable
        inverse = net.inverse_error(*net.encode(batch))
        return inverse + self._net.distillation.forward(batch["next_obs"]).mean()

    def _see(self, new: Batch) -> None:
        super()._see(new)
        self._novelty.update()
        with torch.no_grad():
            error = self._net.distillation.forward(self._tensors(new, ("next_obs",))["next_obs"])
            self._net.errors.update(error[:, None])

    def _features(self, data: Batch) -> Array:
        with torch.no_grad():
            obs = self._tensors(data, ("next_obs",))["next_obs"]
            found: Array = self._net.controllable.embed(obs).cpu().numpy()
        return found

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with the bonus added to their rewards; see `IRewardModel`."""
        if not len(data):
            return data
        novelty = self._novelty.of(self._features(data), *origin_of(data))
        reward = super().estimate(_with(data, novelty))["reward"]
        return Batch({**data.columns, "reward": reward}, len(data))

    def collect_data(self, data: Batch) -> None:
        """Stores a copy of samples in time order, and adds them to the running episodes."""
        if len(data):
            super().collect_data(
                _with(data, self._novelty.add(self._features(data), *origin_of(data)))
            )

    def state_dict(self) -> StateDict:
        """Returns networks, optimizer, statistics, stored samples and the running episodes."""
        return {**super().state_dict(), "novelty": self._novelty.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; training goes on identically."""
        super().load_state_dict(state)
        self._novelty.load_state_dict(state["novelty"])


def _with(data: Batch, novelty: Array) -> Batch:
    return Batch({**data.columns, "novelty": novelty}, len(data))
