"""Middleware that makes training data of collected trajectories: advantages, returns, rewards.

Trajectories are a `Batch` of samples, or a list of rows with `next_obs` (of `rolloutor`). The ends
of their pieces are `ctx.trajectory_end_idx`.

Shapes: T steps, one environment after the other; B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Row, tree_map, tree_row
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail
from dicore.task import OnlineRLContext, middleware
from dicore.task.middleware import Role
from dicore_plugins.functional.advantage import gae
from dicore_plugins.functional.samples import get_nstep_return_data
from dicore_plugins.middleware.learn import pieces_of, without_origin

if TYPE_CHECKING:
    from dicore.data import Row
    from dicore.interfaces.buffer import IBuffer
    from dicore.interfaces.policy import CollectMode

Step = Callable[[OnlineRLContext], None]


def gae_estimator(cfg: Any, policy: Any, buffer_: IBuffer | None = None) -> Step:
    """Makes training data with advantages of trajectories (GAE, Schulman et al. 2015).

    Samples that have advantages already, as those that a collector made by the policy, stay as they
    are.

    Args:
        cfg: The whole compiled config; unused, as the policy knows its options.
        policy: Collect mode of an actor-critic policy.
        buffer_: Receives the samples instead of `train_data`; None: no buffer.

    Returns:
        A middleware: trajectories, trajectory_end_idx -> train_data with `advantage`, `value` and
        `target` (the return); `trajectories` is set to None.
    """

    @middleware(
        either=["trajectories"],
        writes=["train_data"],
        optional=["trajectories", "trajectory_end_idx", "env_step"],
        uses=[policy, *([] if buffer_ is None else [buffer_])],
    )
    def estimate(ctx: OnlineRLContext) -> None:
        data = ctx.trajectories
        if data is None:
            return
        if not isinstance(data, Batch) or "advantage" not in data:
            data = policy.get_train_sample(*_block_of(data, ctx.trajectory_end_idx))
        if buffer_ is None:
            ctx.train_data = data
        else:
            samples = without_origin(data)
            if isinstance(samples, Batch) and np.ndim(samples.get("end")) == 1:
                columns = {key: each for key, each in samples.items() if key != "end"}
                samples = Batch(columns, len(samples))
            buffer_.push(samples, cur_collector_envstep=ctx.env_step)
        ctx.trajectories = None

    return estimate


def ppof_adv_estimator(policy: CollectMode, buffer_: IBuffer | None = None) -> Step:
    """Makes training data with advantages: `gae_estimator` in the form of DI-engine's PPOF.

    Args:
        policy: Collect mode of an actor-critic policy.
        buffer_: Receives the samples instead of `train_data`; None: no buffer.

    Returns:
        A middleware, see `gae_estimator`.
    """
    return gae_estimator(None, policy, buffer_)


def montecarlo_return_estimator(cfg: Any) -> Step:
    """Adds the discounted sum of rewards until the end of each piece, G_t = r_t + gamma G_{t+1}.

    Args:
        cfg: The whole compiled config; `policy.discount_factor` is used.

    Returns:
        A middleware: trajectories, trajectory_end_idx -> train_data with `return` float32 [B];
        `trajectories` is set to None.
    """
    gamma = cfg.policy.discount_factor

    @middleware(
        either=["trajectories"],
        writes=["train_data"],
        optional=["trajectories", "trajectory_end_idx"],
        uses=[],
    )
    def estimate(ctx: OnlineRLContext) -> None:
        if ctx.trajectories is None:
            return
        data, end = _in_order(ctx.trajectories, ctx.trajectory_end_idx)
        reward = np.asarray(data["reward"], np.float32)[:, None]
        nothing = np.zeros_like(reward)
        found = gae(reward, nothing, nothing, end, end, gamma=gamma, gae_lambda=1.0)
        ctx.train_data = Batch({**data.columns, "return": found[:, 0]}, len(data))
        ctx.trajectories = None

    return estimate


def nstep_reward_enhancer(cfg: Any) -> Step:
    """Makes n-step samples of single steps (Sutton 1988, doi:10.1007/BF00115009).

    Samples that bridge several steps already (`value_gamma`), as those that a collector made by the
    policy, stay as they are.

    Args:
        cfg: The whole compiled config; `policy.nstep` and `policy.discount_factor` are used.

    Returns:
        A middleware: trajectories, trajectory_end_idx -> trajectories: `reward` [B, n] (zero past
        the end of a piece), `next_obs` and `done` of the last bridged step, and `value_gamma`.
    """
    nstep, gamma = cfg.policy.nstep, cfg.policy.discount_factor

    @middleware(
        reads=["trajectories"],
        optional=["trajectory_end_idx"],
        writes=["trajectories", "trajectory_end_idx"],
        uses=[],
    )
    def enhance(ctx: OnlineRLContext) -> None:
        data = ctx.trajectories
        if data is None or nstep == 1 or not len(data) or "value_gamma" in data[0]:
            return
        rows: list[Row] = []
        ends: list[int] = []
        for piece in pieces_of(data, ctx.trajectory_end_idx):
            part = piece.rows() if isinstance(piece, Batch) else piece
            rows += get_nstep_return_data(part, nstep, gamma=gamma)
            ends.append(len(rows) - 1)
        ctx.trajectories = Batch.from_rows(rows) if isinstance(data, Batch) else rows
        ctx.trajectory_end_idx = ends

    return enhance


def reward_estimator(cfg: Any, reward_model: Any) -> Step:
    """Replaces the rewards of the training data by those of a reward model.

    Args:
        cfg: The whole compiled config; unused.
        reward_model: See `IRewardModel`.

    Returns:
        A middleware: train_data -> train_data.
    """

    @middleware(reads=["train_data"], writes=["train_data"], uses=[reward_model])
    def estimate(ctx: OnlineRLContext) -> None:
        if ctx.train_data is not None:
            ctx.train_data = reward_model.estimate(ctx.train_data)

    return estimate


def priority_calculator(priority_calculation_fn: Callable[[Any], Any] | None = None) -> Step:
    """Adds priorities to trajectories before they are pushed.

    Args:
        priority_calculation_fn: Returns the priorities [B] of trajectories; None: the absolute
            rewards plus 1e-6.

    Returns:
        A middleware: trajectories -> trajectories with `priority` float32 [B].
    """
    calculate = _abs_reward if priority_calculation_fn is None else priority_calculation_fn

    @middleware(reads=["trajectories"], writes=["trajectories"], role=Role.COLLECTOR)
    def add_priority(ctx: OnlineRLContext) -> None:
        data = ctx.trajectories
        if data is None:
            return
        priority = np.asarray(calculate(data), np.float32)
        if priority.shape != (len(data),):
            raise SchemaError(
                f"priority_calculation_fn returned priorities {[*priority.shape]} for {len(data)}"
                " samples",
                hint="return one number per sample",
            )
        if isinstance(data, Batch):
            ctx.trajectories = Batch({**data.columns, "priority": priority}, len(data))
        else:
            ctx.trajectories = [
                {**row, "priority": each} for row, each in zip(data, priority, strict=True)
            ]

    return add_priority


def _abs_reward(data: Any) -> npt.NDArray[np.float32]:
    reward = data["reward"] if isinstance(data, Batch) else [row["reward"] for row in data]
    found: npt.NDArray[np.float32] = np.abs(np.asarray(reward, np.float32)) + np.float32(1e-6)
    sums: npt.NDArray[np.float32] = found.reshape(len(found), -1).sum(1)
    return sums


def _in_order(data: Batch | list[Row], ends: Sequence[int]) -> tuple[Batch, npt.NDArray[np.bool_]]:
    """Returns trajectories piece by piece, and where pieces end: bool [T, 1]."""
    pieces = [
        each if isinstance(each, Batch) else Batch.from_rows(each) for each in pieces_of(data, ends)
    ]
    end = np.zeros((sum(map(len, pieces)), 1), np.bool_)
    end[np.cumsum([len(each) for each in pieces]) - 1] = True
    return Batch.concat(pieces), end


def _block_of(data: Batch | list[Row], ends: Sequence[int]) -> tuple[Batch, Tail]:
    """Returns trajectories as a block [T, 1, ...] for `get_train_sample`."""
    rows, end = _in_order(data, ends)
    if "next_obs" not in rows:
        raise SchemaError(
            "the trajectories have no next_obs, from which advantages are estimated",
            hint="collect with a policy whose get_train_sample adds advantages, or by rolloutor",
        )
    columns = {
        key: tree_map(lambda leaf: leaf[:, None], each)
        for key, each in rows.items()
        if key not in ("next_obs", "end", "env_id")
    }
    after, last = rows["next_obs"], np.flatnonzero(end)
    block = Batch({**columns, "end": end, "valid": np.ones_like(end)}, len(rows))
    tail = Tail(tree_row(after, [len(rows) - 1]), last, tree_row(after, last), len(rows))
    return block, tail
