"""Rewards learned from episodes that are ranked: T-REX and D-REX.

T-REX: Brown et al. 2019, arXiv:1904.06387. D-REX: Brown et al. 2020, arXiv:1907.03976.

Shapes: N steps of all episodes, E episodes, P pairs, L steps of a snippet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.errors import SchemaError, UsageError
from dicore_plugins.reward_models.base import EncodedMLP, encoder_of
from dicore_plugins.reward_models.config import TREXConfig
from dicore_plugins.reward_models.expert import checked_samples, steps_of
from dicore_plugins.reward_models.imitation import ExpertRewardModel

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["TREX"]

Array = npt.NDArray[Any]


class _RankNet(EncodedMLP):
    """The reward of an observation, and its mean and standard deviation over the episodes."""

    mean: Tensor
    std: Tensor

    def __init__(self, space: Space, cfg: Any) -> None:
        super().__init__(encoder_of(space), (*cfg.hidden_size_list, 1), cfg.activation)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))


class TREX(ExpertRewardModel):
    """Trajectory-ranked reward extrapolation: a snippet of a better episode has more reward.

    The episodes are ranked by their returns, so that they should differ in quality. The reward of a
    step is the sigmoid of the network's output, standardised over the episodes. In D-REX, episodes
    are ranked by how much a policy was disturbed, and rewards are not used: `load_ranked_data`.

    Args:
        *args: As for `NetworkRewardModel`.
        expert: Data set of episodes to rank by return; None: call one of the methods.
        ranked: Data sets of episodes by rank, from the worst to the best.
        **kwargs: As for `NetworkRewardModel`.
    """

    config_class: ClassVar[type[ComponentConfig]] = TREXConfig
    keys: ClassVar[tuple[str, ...]] = ("obs",)
    collects: ClassVar[bool] = False
    _net: _RankNet

    def __init__(
        self,
        *args: object,
        expert: Tree | None = None,
        ranked: Sequence[Any] = (),
        **kwargs: object,
    ) -> None:
        super().__init__(*args, expert=expert, **kwargs)
        if ranked:
            self._dataset = _Datasets(ranked)
            self.load_ranked_data([steps_of(each) for each in ranked])

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        return _RankNet(observation_space, self._cfg)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return batch["obs"]

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        raw = self._net.forward(batch["obs"]).squeeze(1)
        return raw.sub_(self._net.mean).div_(self._net.std).sigmoid_()

    def load_expert_data(self, data: Batch) -> None:
        """Trains on ranked episodes.

        Args:
            data: N steps, episode after episode: obs, reward, and `end` (or `done`), true at the
                last step of each episode.

        Raises:
            UsageError: there are fewer than two episodes, or all have the same rank.
            SchemaError: a column is missing.
            NonFiniteError: a number is NaN or infinite.
        """
        self._load(data, None)

    def load_ranked_data(self, data: Sequence[Batch]) -> None:
        """Trains on episodes that are ranked otherwise than by return.

        Args:
            data: Steps of the episodes of each rank, from the worst to the best; see
                `load_expert_data`.

        Raises:
            UsageError: there are fewer than two ranks.
        """
        keys = (*self.keys, "reward")
        parts = [
            Batch({**{key: each[key] for key in keys}, "end": _ends(each)}, len(each))
            for each in data
        ]
        counts = [int(each["end"].sum()) for each in parts]
        self._load(Batch.concat(parts), np.repeat(np.arange(len(parts)), counts))

    def _load(self, data: Batch, rank: Array | None) -> None:
        """Trains on episodes ranked by float [E], or by their returns."""
        checked_samples(data, (*self.keys, "reward"), self)
        self._last = np.flatnonzero(_ends(data))
        self._first = np.concatenate([[0], self._last[:-1] + 1])
        returns = np.add.reduceat(np.asarray(data["reward"], np.float64), self._first)
        self._rank = returns if rank is None else rank
        if len(np.unique(self._rank)) < 2:
            raise UsageError(
                f"{self} needs episodes of different quality; got {len(self._first)} episodes of"
                f" {len(np.unique(self._rank))} rank",
                hint="collect with several policies: dicore collect RUN --eps 0.3 -o worse.npz",
            )
        super().load_expert_data(data)

    def _fit(self) -> None:
        super()._fit()
        with torch.no_grad():
            raw = self._net.forward(self._inputs(self._expert.columns))
        self._net.mean.copy_(raw.mean())
        self._net.std.copy_(raw.std().clamp(min=1e-6))

    def _expert_loss(self) -> Tensor:
        """Computes the cross-entropy of which snippet of each of P pairs is the better one."""
        cfg = self._cfg
        l1_weight: float = cfg.l1_weight
        worse, better = self._pairs(cfg.batch_size)
        length = self._last - self._first + 1
        steps = np.minimum(np.minimum(length[worse], length[better]), cfg.snippet_len)
        within = np.arange(steps.max())
        index = [
            self._first[each][:, None]
            + self._rng.integers(0, length[each] - steps + 1)[:, None]
            + np.minimum(within, steps[:, None] - 1)
            for each in (worse, better)
        ]
        rows = torch.from_numpy(np.stack(index).reshape(-1)).to(self._device)
        drawn = tree_map(lambda leaf: leaf[rows], self._expert.columns["obs"])
        raw = self._net.forward(drawn).view(2, len(worse), len(within))
        there = torch.from_numpy(within < steps[:, None]).to(self._device)
        sums = (raw * there).sum(2).T
        wanted = torch.ones(len(worse), dtype=torch.int64, device=self._device)
        loss = functional.cross_entropy(sums, wanted)
        return loss + l1_weight * (raw.abs() * there).sum() / there.sum().mul(2)

    def _pairs(self, count: int) -> tuple[Array, Array]:
        """Draws P pairs of episodes of different rank: the worse ones, and the better ones."""
        episodes = len(self._rank)
        found: list[Array] = []
        while sum(map(len, found)) < count:
            pairs = self._rng.integers(0, episodes, (2 * count, 2))
            found.append(pairs[self._rank[pairs[:, 0]] < self._rank[pairs[:, 1]]])
        pairs = np.concatenate(found)[:count]
        return pairs[:, 0], pairs[:, 1]


def _ends(data: Batch) -> Array:
    """Returns the last steps of episodes, bool [N]."""
    end = data.get("end", data.get("done"))
    if end is None:
        raise SchemaError("ranked samples have neither 'end' nor 'done'")
    ended = np.array(end, np.bool_)
    ended[-1] = True
    return ended


class _Datasets:
    """Several data sets, for a run that is resumed."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def state_dict(self) -> StateDict:
        """Returns the hashes of their content."""
        return {"parts": [each.state_dict() for each in self._parts]}

    def load_state_dict(self, state: State) -> None:
        """Checks that they are those of the saved run.

        Raises:
            UsageError: one is another.
        """
        for part, saved in zip(self._parts, state["parts"], strict=True):
            part.load_state_dict(saved)
