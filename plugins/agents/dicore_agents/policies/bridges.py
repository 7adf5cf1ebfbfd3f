"""Samples of a team's return that cross steps in which nobody acts.

An action may pay while nobody acts. Algorithms that learn nothing of such steps take them for a
part of the step before: a sample ends where somebody acts again, or with the episode, k steps later

    R = sum_{j<k} gamma^j r_{t+j},  s' = s_{t+k},  value_gamma = gamma^k

and so do n-step samples behind whose last step nobody acts. Steps in which nobody acts are none. A
sample that a block does not complete is kept until a later block does; a block that completes none
gives one that teaches nothing, of which collectors see that there is progress.

Shapes: T steps, N environments, H samples that are kept, S starts of samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Columns, tree_map
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import next_obs_of, nstep_columns, nstep_samples, transitions

__all__ = ["BridgedSamples", "teaching_nothing"]


class BridgedSamples:
    """Makes samples of blocks that follow each other.

    Attributes:
        kept: Columns [H, ...] of the samples that are not complete, of running episodes; or None.
    """

    def __init__(self) -> None:
        self.kept: Columns | None = None

    def of_block(self, block: Batch, nstep: int, gamma: float, tail: Tail | None) -> Batch:
        """Returns the samples that a block [T, N, ...] completes, those that were kept first.

        Args:
            block: Columns with `obs.alive` [T, N, A].
            nstep: n of n-step returns.
            gamma: Discount factor.
            tail: What follows the block; see `nstep_samples`.
        """
        next_obs = next_obs_of(block, tail)
        whole = Batch({**block.columns, "next_obs": next_obs}, len(block))
        alive, after = np.asarray(block["obs"]["alive"]), np.asarray(next_obs["alive"])
        if self.kept is None and alive.all() and after.all():  # most often, and quicker to tell
            return _plain(whole, nstep, gamma, tail)
        acts = (alive != 0).any(-1)
        waits = ~(after != 0).any(-1) & ~np.asarray(block["end"], np.bool_)
        if self.kept is None and acts.all() and not waits.any():
            return _plain(whole, nstep, gamma, tail)
        gaps = _Gaps(np.asarray(block["reward"], np.float32), waits, gamma)
        done, kept = [], []
        for columns, last in (
            self._continued(whole, gaps, acts, 0 if tail is None else tail.carried),
            _started(whole, gaps, acts, nstep, tail),
        ):
            over = last < len(block)
            done.append(_completed(_rows(columns, over), last[over], whole))
            kept.append(_rows(columns, ~over))
        found, left = (tree_map(lambda *each: np.concatenate(each), *each) for each in (done, kept))
        self.kept = left if len(left["env_id"]) else None
        samples = Batch(found, len(found["env_id"]))
        if len(samples) or not _valid(block).any():
            return samples
        return teaching_nothing(samples, 1)

    def _continued(self, block: Batch, gaps: _Gaps, acts: Any, first: int) -> tuple[Columns, Any]:
        """Returns what was kept, with the rewards of a block, and the last rows."""
        if self.kept is None:
            none = np.empty(0, np.intp)
            return _columns_at(block, none, none), none
        total, factor = self.kept["reward"].copy(), self.kept["value_gamma"].copy()
        place = {env: n for n, env in enumerate(_env_id(block)[0].tolist())}
        n = np.array([place.get(env, -1) for env in self.kept["env_id"].tolist()])
        last, fits, valid = np.full(len(n), len(block)), n < 0, _valid(block)
        on = np.flatnonzero(~fits)
        n = n[on]
        total[on], factor[on], last[on] = gaps.after(
            total[on], factor[on], np.full(len(n), first), n
        )
        until = np.minimum(last[on], len(block) - 1)
        # another episode has begun where somebody acts; one that failed gives no samples
        fits[on] = ~acts[first, n] & valid[first, n] & valid[until, n]
        columns = {**self.kept, "reward": total, "value_gamma": factor}
        return _rows(columns, fits), last[fits]


def _plain(block: Batch, nstep: int, gamma: float, tail: Tail | None) -> Batch:
    """Returns the samples of a block with `next_obs` in which somebody acts always."""
    if nstep > 1:
        return nstep_samples(block, nstep, gamma, tail)
    samples = transitions(block, tail)
    samples.columns["value_gamma"] = np.full(len(samples), gamma, np.float32)
    return samples


class _Gaps:
    """The rewards from each row of a block on, up to where somebody acts again.

    Args:
        reward: float32 [T, N], or [T, N, A].
        waits: bool [T, N]; nobody acts after the row, and the episode goes on.
        gamma: Discount factor.
    """

    def __init__(self, reward: Any, waits: npt.NDArray[np.bool_], gamma: float) -> None:
        steps = len(reward)
        self.gamma, self.waits, self.reward = gamma, waits, reward.copy()
        self.factor = np.full(waits.shape, gamma, np.float32)
        self.last = np.tile(np.arange(steps)[:, None], (1, waits.shape[1]))
        self.last[-1, waits[-1]] = steps
        for t in range(steps - 2, -1, -1):
            on = waits[t]
            self.last[t, on] = self.last[t + 1, on]
            self.reward[t, on] += np.float32(gamma) * self.reward[t + 1, on]
            self.factor[t, on] *= self.factor[t + 1, on]

    def after(self, total: Any, factor: Any, row: Any, n: Any) -> tuple[Any, Any, Any]:
        """Returns sums, factors and last rows of samples that go on with a row; T: with none."""
        inside = row < len(self.waits)
        at = np.minimum(row, len(self.waits) - 1), n
        more = self.reward[at]
        scale = factor.reshape(factor.shape + (1,) * (total.ndim - factor.ndim))
        on = inside.reshape(scale.shape)
        return (
            np.where(on, total + scale * more, total),
            np.where(inside, factor * self.factor[at], factor),
            np.where(inside, self.last[at], len(self.waits)),
        )


def teaching_nothing(like: Batch, count: int) -> Batch:
    """Returns samples with the columns of others in which nobody acts, and nothing is paid."""
    found: Columns = tree_map(
        lambda leaf: np.zeros((count, *leaf.shape[1:]), leaf.dtype), dict(like.columns)
    )
    for key in ("obs", "next_obs"):
        if "action_mask" in found[key]:
            found[key]["action_mask"][:] = 1
    found["done"][:] = 1
    return Batch(found, count)


def _started(
    block: Batch, gaps: _Gaps, acts: Any, nstep: int, tail: Tail | None
) -> tuple[Columns, Any]:
    """Returns the samples that begin in a block, and the last rows; T: not in this block."""
    rows = np.broadcast_to(np.arange(len(block))[:, None], block["end"].shape)
    starts = len(block) - (nstep - 1) if tail is None else tail.starts
    bridged = nstep_columns(
        block["reward"], block["done"], block["end"], rows, nstep, gaps.gamma, starts
    )
    t, n = np.nonzero(acts[:starts] & _valid(block)[:starts])
    columns = _columns_at(block, t, n)
    last: Any = bridged["next_obs"]
    total, factor, last = bridged["reward"][t, n], bridged["value_gamma"][t, n], last[t, n]
    on = gaps.waits[last, n]
    total[on], factor[on], last[on] = gaps.after(total[on], factor[on], last[on] + 1, n[on])
    return {**columns, "reward": total, "value_gamma": factor}, last


def _completed(columns: Columns, last: Any, block: Batch) -> Columns:
    """Returns samples that end with some rows of their environments."""
    place = {env: n for n, env in enumerate(_env_id(block)[0].tolist())}
    n = np.array([place[env] for env in columns["env_id"].tolist()], np.intp)
    done = np.asarray(block["done"])[last, n].astype(np.float32)
    next_obs = tree_map(lambda leaf: leaf[last, n], block["next_obs"])
    return {**columns, "next_obs": next_obs, "done": done}


def _columns_at(block: Batch, t: Any, n: Any) -> Columns:
    """Returns rows of a block as samples that are not complete."""
    columns = {key: each for key, each in block.items() if key not in ("valid", "next_obs")}
    columns["env_id"] = _env_id(block)
    columns["value_gamma"] = columns["done"] = np.ones(block["end"].shape, np.float32)
    found: Columns = tree_map(lambda leaf: leaf[t, n], columns)
    return found


def _rows(columns: Columns, chosen: Any) -> Columns:
    found: Columns = tree_map(lambda leaf: leaf[chosen], columns)
    return found


def _env_id(block: Batch) -> Any:
    shape = block["end"].shape
    return block["env_id"] if "env_id" in block else np.tile(np.arange(shape[1]), (shape[0], 1))


def _valid(block: Batch) -> Any:
    valid = block.get("valid")
    return np.ones(block["end"].shape, np.bool_) if valid is None else np.asarray(valid)
