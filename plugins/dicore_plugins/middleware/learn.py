"""Middleware that learns from replay buffers: push, sample, update."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

from dicore.config.sections import RunConfig
from dicore.data import Batch, Row, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import LearnMode
from dicore.task import OnlineRLContext, StepInterrupted, Task, middleware
from dicore.task.middleware import Role
from dicore_plugins.learners.base.config import BaseLearnerConfig
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer, Refused
    from dicore.interfaces.learner import ILearner
    from dicore.interfaces.reward_model import IRewardModel
    from dicore.run import Run
    from dicore.run.log import LogHub
    from dicore_plugins.executors.interface import IExecutor

    Source = IBuffer | Sequence[tuple[IBuffer, float]] | Mapping[str, IBuffer]


_DATA_LOG = logging.getLogger("dicore.data")
_LOG = logging.getLogger("dicore.learn")

Settings = Callable[[Mapping[str, int]], dict[str, float]]
Data = Batch | list[Row]
"""Samples as columns, or as a list of rows."""


def data_pusher(
    cfg: RunConfig, buffer_: IBuffer, group_by_env: bool | None = None
) -> Callable[[OnlineRLContext], None]:
    """Pushes the collected samples or episodes to the replay buffer.

    Args:
        cfg: The whole compiled config.
        buffer_: Replay buffer (`IBuffer`), or what makes itself one (`as_replay()`).
        group_by_env: True: one push per trajectory segment, cut at `ctx.trajectory_end_idx`; False
            or None: one push for all samples.

    Samples are pushed without `end` and `env_id`, unless the buffer has `keeps_origin` = True.

    Returns:
        A middleware that pushes `ctx.trajectories`, or else `ctx.episodes`, and sets it to None.
    """

    @middleware(
        either=["trajectories", "episodes"],
        optional=["trajectories", "episodes", "trajectory_end_idx", "env_step"],
        uses=[buffer_],
    )
    def push(ctx: OnlineRLContext) -> None:
        if ctx.trajectories is not None:
            if group_by_env:
                for piece in pieces_of(ctx.trajectories, ctx.trajectory_end_idx):
                    put(prepared(piece), ctx.env_step)
            else:
                put(prepared(ctx.trajectories), ctx.env_step)
            ctx.trajectories = None
        elif ctx.episodes is not None:
            for episode in ctx.episodes:
                put(episode, ctx.env_step)
            ctx.episodes = None

    warned, storage = False, _replay(buffer_)
    prepared: Callable[[Any], Data] = (
        _whole if getattr(buffer_, "keeps_origin", False) else without_origin
    )

    def put(samples: Data, env_step: int) -> None:
        nonlocal warned
        answer = storage.push(samples, cur_collector_envstep=env_step)
        if not answer and hasattr(answer, "reason") and not warned:
            warned = True
            _DATA_LOG.warning("the buffer drops samples that it refuses: %s", answer.reason)

    return push


def _replay(buffer_: Any) -> IBuffer:
    """Returns a replay buffer as it is, and another one as the replay that it makes of itself."""
    as_replay = getattr(buffer_, "as_replay", None)
    replay: IBuffer = buffer_ if as_replay is None else as_replay()
    return replay


def _replays(source: Source) -> Source:
    """Returns one or several buffers as `_replay` does each."""
    if isinstance(source, Mapping):
        return {name: _replay(each) for name, each in source.items()}
    if isinstance(source, list | tuple):
        return [(_replay(each), share) for each, share in source]
    return _replay(source)


def _whole(data: Data) -> Data:
    """Returns samples with all columns."""
    return data


@overload
def without_origin(data: Batch) -> Batch: ...
@overload
def without_origin(data: list[Row]) -> list[Row]: ...
def without_origin(data: Data) -> Data:
    """Returns samples without the columns that only tell where they come from.

    Of sequences [B, L], `end` is kept: a recurrent state is reset after it.
    """
    if not isinstance(data, Batch) or "env_id" not in data:
        return data
    where = ("env_id",) if np.ndim(data.get("end")) > 1 else ("end", "env_id")
    columns = {key: value for key, value in data.items() if key not in where}
    return Batch(
        columns, len(data), _schema_of(data.schema) if isinstance(data.schema, tuple) else None
    )


@lru_cache(maxsize=64)
def _schema_of(schema: tuple[object, ...]) -> object:
    """Returns the schema of the samples of a batch, the same object for equal batches."""
    return ("samples", schema)


def pieces_of(trajectories: Data, ends: Sequence[int]) -> Iterator[Data]:
    """Yields the pieces between ends: of a Batch, of each environment in turn."""
    if not isinstance(trajectories, Batch) or "env_id" not in trajectories:
        yield from cut_at(trajectories, [*ends])  # of one environment after the other
        return
    env_id = np.asarray(trajectories["env_id"])
    for env in np.unique(env_id):
        rows = np.flatnonzero(env_id == env)
        yield from cut_at(trajectories[rows], np.flatnonzero(np.isin(rows, ends)).tolist())


def cut_at(data: Data, ends: Sequence[int]) -> Iterator[Data]:
    """Yields the pieces of rows that end at these indices, and the rest."""
    cuts = [0, *(end + 1 for end in ends)]
    if cuts[-1] < len(data):
        cuts.append(len(data))
    for start, stop in pairwise(cuts):
        yield data[start:stop]


def offpolicy_data_fetcher(
    cfg: RunConfig, buffer_: Source, data_shortage_warning: bool = True
) -> Callable[[OnlineRLContext], object]:
    """Samples one batch from the buffer; writes priorities back after the update.

    Args:
        cfg: The whole compiled config; the batch size is `policy.learn.batch_size`.
        buffer_: A buffer; or `[(buffer, fraction), …]`, whose samples are concatenated; or
            `{name: buffer}`, whose batches are returned as a dict.
        data_shortage_warning: Warn (once) when a step is skipped because a buffer has too few
            samples.

    Returns:
        A middleware: -> train_data; afterwards train_output's priorities -> the buffer.
    """
    size, storage = cfg.policy.learn.batch_size, _replays(buffer_)
    shares, with_priority = _shares(storage, size), cfg.policy.priority
    warned, refused, reuse = not data_shortage_warning, False, True

    def join_task(task: Task) -> None:
        nonlocal reuse  # in async mode the next batch is drawn while this one is trained on
        reuse = task.executor is None or with_priority

    def draw(ctx: OnlineRLContext) -> None:
        nonlocal warned, refused
        short = next((pair for pair in shares if pair[0].count() < pair[1]), None)
        if short is not None:
            if not warned:
                _warn_of_shortage(_DATA_LOG.warning, *short)
                warned = True
            return
        drawn = _sample(storage, shares, ctx.train_iter, reuse=reuse)
        refused = refused or warn_of_refusal(drawn)
        ctx.train_data = drawn or None

    def fetch(ctx: OnlineRLContext) -> Generator[None, None, None]:
        draw(ctx)
        yield
        if ctx.train_data is None:
            return
        output = ctx.train_output[-1] if isinstance(ctx.train_output, list) else ctx.train_output
        if output and "priority" in output:
            _update_priorities(storage, shares, ctx.train_data, output["priority"])

    made: Callable[[OnlineRLContext], object] = fetch if with_priority else draw
    made.__qualname__ = offpolicy_data_fetcher.__qualname__
    vars(made)["join_task"] = join_task
    declared = middleware(
        reads=["train_iter"],
        writes=["train_data"],
        optional=["train_output"] if with_priority else [],
        uses=[buffer_],
        role=Role.FETCHER,
    )
    declared(made)  # it returns what it was given
    return made


def _shares(source: Source, size: int) -> list[tuple[IBuffer, int]]:
    """Returns each buffer with the number of samples that a batch takes from it."""
    if isinstance(source, Mapping):
        return [(buffer, size) for buffer in source.values()]
    if not isinstance(source, Sequence):
        return [(source, size)]
    shares = [share for _, share in source]
    if not shares or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise UsageError(
            f"the shares of the buffers are {shares}; expected at least 0, and 1 in sum",
            hint="for instance [(buffer, 0.75), (demo, 0.25)]",
        )
    counts = [round(size * share) for share in shares]
    counts[-1] = size - sum(counts[:-1])  # the last buffer absorbs the rounding
    return [(buffer, count) for (buffer, _), count in zip(source, counts, strict=True)]


def _sample(
    source: Source, shares: list[tuple[IBuffer, int]], train_iter: int, *, reuse: bool
) -> Batch | dict[str, Batch] | Refused:
    """Returns the samples of a batch; why not (`Refused`), if a buffer refuses to draw."""
    if not isinstance(source, Mapping | Sequence):
        return source.sample_batch(shares[0][1], train_iter, reuse=reuse)
    parts: list[Any] = [buffer.sample_batch(count, train_iter) for buffer, count in shares if count]
    refused: list[Refused] = [part for part in parts if not part]
    if refused:
        return refused[0]
    return (
        dict(zip(source, parts, strict=True))
        if isinstance(source, Mapping)
        else Batch.concat(parts)
    )


def _update_priorities(
    source: Source, shares: list[tuple[IBuffer, int]], batch: Tree, priority: Tree
) -> None:
    """Passes each buffer the priorities of its own samples.

    With several buffers by name, `priority` is a mapping by the same names.
    """
    if isinstance(source, Mapping):
        for name, buffer in source.items():
            if isinstance(priority, Mapping) and name in priority:
                buffer.update(_priority_info(batch[name], priority[name]))
        return
    ends = accumulate((count for _, count in shares), initial=0)
    for (buffer, _), (start, stop) in zip(shares, pairwise(ends), strict=True):
        if stop > start:
            buffer.update(_priority_info(batch[start:stop], priority[start:stop]))


def _priority_info(batch: Batch, priority: Tree) -> dict[str, Tree]:
    ids = {key: batch[key] for key in ("replay_unique_id", "replay_buffer_idx") if key in batch}
    return {**ids, "priority": priority}


def warn_of_refusal(answer: Any) -> bool:
    """Warns if a buffer refused to draw; returns whether it did."""
    refused = not answer and hasattr(answer, "reason")
    if refused:
        _DATA_LOG.warning("updates are skipped while the buffer refuses: %s", answer.reason)
    return refused


def _warn_of_shortage(log: Callable[..., None], buffer: IBuffer, count: int) -> None:
    log("no update yet: the buffer has %d samples, a batch needs %d", buffer.count(), count)


def as_learner(
    cfg: RunConfig | None, policy: Any, run: Run | None = None, log_freq: int | None = None
) -> ILearner:
    """Returns a learner unchanged; wraps a learn mode in the learner of the config.

    Without a config (None) it is that of the policy's options; see `multistep_trainer`.
    """
    section: Any = None
    if not hasattr(policy, "register_hook"):
        found = mode_attribute(policy, "cfg", None) if cfg is None else cfg.policy
        section = BaseLearnerConfig() if found is None else found.learn.learner
    if log_freq is not None:
        hooks = None if section is None else section.get("hook")
        if not isinstance(hooks, Mapping):
            raise UsageError(
                "log_freq has no effect on a learner with hooks of its own",
                hint="leave it out, and set the interval of the hook log_show",
            )
        section = attrs.evolve(section, hook={**hooks, "log_show_after_iter": log_freq})
    learner: ILearner = policy if section is None else section.build(None, policy=policy, run=run)
    return learner


def _settings_of(settings: Settings | None, ctx: OnlineRLContext) -> dict[str, float] | None:
    if settings is None:
        return None
    return settings({"envstep": ctx.env_step, "learner_step": ctx.train_iter})


def trainer(
    cfg: RunConfig, policy: LearnMode | ILearner, *, run: Run | None = None
) -> Callable[[OnlineRLContext], None]:
    """Runs one gradient update on the fetched batch.

    Args:
        cfg: The whole compiled config.
        policy: Learn mode of the policy, or a learner.
        run: Run for the hooks' logs and checkpoints; None: no run.

    Returns:
        A middleware: train_data -> train_output, train_iter; without data it does nothing.
    """
    learner = as_learner(cfg, policy, run)

    @middleware(
        reads=["train_data", "train_iter"],
        writes=["train_output", "train_iter"],
        optional=["env_step"],
        uses=[learner],
        role=Role.LEARNER,
    )
    def train(ctx: OnlineRLContext) -> None:
        if ctx.train_data is None:
            return
        ctx.train_output = learner.train(ctx.train_data, ctx.env_step)
        ctx.train_iter = learner.train_iter

    return train


def multistep_trainer(
    cfg: RunConfig | None = None,
    policy: Any = None,
    log_freq: int | None = None,
    *,
    run: Run | None = None,
    settings: Settings | None = None,
) -> Callable[[OnlineRLContext], None]:
    """Passes all collected samples to the learn mode, which may make several updates of them.

    Both DI-engine forms work, also by keyword: `multistep_trainer(cfg, policy.learn_mode)` and
    `multistep_trainer(policy.learn_mode, log_freq)`.

    Args:
        cfg: The whole compiled config; in the second form the policy, or its learn mode.
        policy: Learn mode of the policy, or a learner; in the second form `log_freq`.
        log_freq: Updates between log lines; None: by the hooks of the learner.
        run: Run for the hooks' logs and checkpoints; None: no run.
        settings: `get_setting_learn` of the policy's command mode; None: no annealed settings.

    Returns:
        A middleware: train_data, or else trajectories -> train_output, train_iter; `trajectories`
        is set to None.
    """
    if policy is None or isinstance(policy, int):
        cfg, policy, log_freq = None, cfg, log_freq if policy is None else policy
    learner = as_learner(cfg, getattr(policy, "learn_mode", policy), run, log_freq)

    @middleware(
        reads=["train_iter"],
        either=["train_data", "trajectories"],
        writes=["train_output", "train_iter"],
        optional=["train_data", "trajectories", "env_step"],
        uses=[learner],
        role=Role.LEARNER,
    )
    def train(ctx: OnlineRLContext) -> None:
        data = ctx.trajectories if ctx.train_data is None else ctx.train_data
        if data is None:
            return
        ctx.train_output = learner.train(data, ctx.env_step, _settings_of(settings, ctx))
        ctx.train_iter = learner.train_iter
        ctx.trajectories = None

    return train


def reward_model_trainer(
    reward_model: IRewardModel, *, log: LogHub | None = None, every: int = 20
) -> Callable[[OnlineRLContext], None]:
    """Trains a reward model on the samples that it received while collecting.

    Args:
        reward_model: See `IRewardModel`.
        log: Receives its `statistics`, if it has them, by `log_scalars`; None: no log.
        every: Steps between two lines.

    Returns:
        A middleware that is run after collecting.
    """

    @middleware(
        optional=["trajectories", "env_step", "train_iter", "total_step"], uses=[reward_model]
    )
    def train_reward_model(ctx: OnlineRLContext) -> None:
        reward_model.train()
        if log is not None and ctx.total_step % every == 0:  # as a run that was not resumed
            found = getattr(reward_model, "statistics", {})
            scalars = {f"reward_model/{name}": each for name, each in found.items()}
            if scalars:
                log.log_scalars(scalars, env_step=ctx.env_step, train_iter=ctx.train_iter)

    return train_reward_model


@middleware(
    reads=["train_iter", "env_step"], writes=["train_output", "train_iter"], role=Role.LEARNER
)
class OffPolicyLearner:
    """Samples a batch and runs a gradient update, several times per step.

    The number is `update_per_collect`, or `update_per_step` for each collected env step. Training
    begins when the buffer has a batch, or the samples of a shorter random warm-up.

    Columns `refreshed` of the results, of the first samples of the batch, are written to a buffer
    that supports it (`SupportsRewrite`).

    Args:
        cfg: The whole compiled config; `policy.learn` is used.
        policy: Learn mode of the policy, or a learner.
        buffer_: Replay buffer (`IBuffer`).
        reward_model: Estimates the reward of each batch before the update.
        run: Run for the hooks' logs and checkpoints; None: no run.
        settings: `get_setting_learn` of the policy's command mode; None: no annealed settings.
    """

    def __init__(
        self,
        cfg: RunConfig,
        policy: LearnMode | ILearner,
        buffer_: IBuffer,
        reward_model: IRewardModel | None = None,
        *,
        run: Run | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.learner = as_learner(cfg, policy, run)
        self._buffer = _replay(buffer_)
        self._reward_model = reward_model
        self._settings = settings
        self._last_env_step = 0
        self._batch_size = cfg.policy.learn.batch_size
        warm_up = cfg.policy.collect.get("random_collect_size") or self._batch_size
        self._least = min(self._batch_size, warm_up)
        self._updates: Any = cfg.policy.learn.update_per_collect
        self._per_step = cfg.policy.learn.update_per_step
        self._max_train_iter = cfg.pipeline.max_train_iter
        self._priority = cfg.policy.priority
        self._warned = self._refused = self._begun = False
        self._executor: IExecutor | None = None
        self.uses = (self.learner, buffer_, reward_model)

    def __call__(self, ctx: OnlineRLContext) -> None:
        kwargs, outputs = _settings_of(self._settings, ctx), []
        for data in self.batches(ctx):
            outputs += self.learner.train(data, ctx.env_step, kwargs)
        if self._begun:
            ctx.train_output = outputs
            ctx.train_iter = self.learner.train_iter

    def batches(self, ctx: OnlineRLContext) -> Iterator[Batch]:
        """Yields the batches of this step; the learner trains on each before the next is drawn."""
        count = self._count(ctx.env_step)
        if self._buffer.count() < self._least:
            if not self._warned:
                self._warned = True
                _warn_of_shortage(_LOG.info, self._buffer, self._least)
            return
        self._begun = True
        for data in self._batches(count):
            if self._executor is not None and self._executor.cancelled:
                raise StepInterrupted
            yield data if self._reward_model is None else self._reward_model.estimate(data)
            if self._priority:
                self._buffer.update(self.learner.priority_info)
            fresh = getattr(self.learner, "latest_result", {}).get("refreshed")
            if fresh and "replay_unique_id" in data and hasattr(self._buffer, "write"):
                self._buffer.write(data["replay_unique_id"][: len(Batch(fresh))], fresh)

    def join_task(self, task: Task) -> None:
        """Reads the env steps collected so far, from which `update_per_step` counts."""
        self._executor = getattr(task, "executor", None)
        self._last_env_step = getattr(task.ctx, "env_step", 0)
        self._begun = self._buffer.count() >= self._least

    def _count(self, env_step: int) -> int:
        """Returns the number of updates of this step; one in the first that can train."""
        before, self._last_env_step = self._last_env_step, env_step
        if self._per_step is None:
            return int(self._updates)
        count = math.floor(env_step * self._per_step) - math.floor(before * self._per_step)
        return count if self._begun and self.learner.train_iter else int(min(count, 1))

    def _batches(self, count: int) -> Iterator[Batch]:
        """Yields the batches of this step; with priorities, one draw at a time."""
        buffer, size, learner = self._buffer, self._batch_size, self.learner
        if self._max_train_iter is not None:
            count = min(count, self._max_train_iter - learner.train_iter)
        few = buffer.count() < size  # drawn with replacement, the batch is as large
        if not self._priority and not few and hasattr(buffer, "sample_batches"):
            refused = yield from buffer.sample_batches(count, size, learner.train_iter)
            self._refused = self._refused or warn_of_refusal(refused)
            return
        for _ in range(count):
            data = buffer.sample_batch(size, learner.train_iter, replace=few, reuse=True)
            if not data:
                self._refused = self._refused or warn_of_refusal(data)
                return
            yield data
