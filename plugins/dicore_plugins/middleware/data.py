"""Data between collecting and learning: into buffers and out of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from dicore.data import Batch
from dicore.task import OnlineRLContext, middleware

_LOG = logging.getLogger("dicore.data")


def data_pusher(
    cfg: Any, buffer_: Any, group_by_env: bool | None = None
) -> Callable[[OnlineRLContext], None]:
    """Pushes what was collected into a buffer.

    Args:
        cfg: The whole compiled config.
        buffer_: An `IBuffer`.
        group_by_env: Push the pieces of each trajectory apart.

    Returns:
        A middleware: trajectories or episodes -> the buffer; both are cleared.
    """

    @middleware(
        either=["trajectories", "episodes"],
        optional=["trajectories", "episodes", "trajectory_end_idx", "env_step"],
    )
    def push(ctx: OnlineRLContext) -> None:
        if ctx.trajectories is not None:
            if group_by_env:
                for piece in _pieces(ctx.trajectories, ctx.trajectory_end_idx):
                    buffer_.push(piece, cur_collector_envstep=ctx.env_step)
            else:
                buffer_.push(ctx.trajectories, cur_collector_envstep=ctx.env_step)
            ctx.trajectories = None
        elif ctx.episodes is not None:
            for episode in ctx.episodes:
                buffer_.push(episode, cur_collector_envstep=ctx.env_step)
            ctx.episodes = None

    return push


def _pieces(trajectories: Any, ends: Sequence[int]) -> list[Any]:
    cuts = [0, *(end + 1 for end in ends)]
    if cuts[-1] < len(trajectories):
        cuts.append(len(trajectories))
    return [trajectories[start:stop] for start, stop in pairwise(cuts)]


Source = Any | Sequence[tuple[Any, float]] | Mapping[str, Any]


def offpolicy_data_fetcher(
    cfg: Any, buffer_: Source, data_shortage_warning: bool = True
) -> Callable[[OnlineRLContext], Generator[None, None, None]]:
    """Draws the rows of one update and hands priorities back after it.

    Args:
        cfg: The whole compiled config; `policy.learn.batch_size` rows are drawn.
        buffer_: A buffer; or `[(buffer, share), …]`, whose rows are joined; or `{name: buffer}`,
            whose batches come as a dict.
        data_shortage_warning: Warn (once) when a buffer has too few rows; the step is skipped.

    Returns:
        A middleware: -> train_data; afterwards train_output's priorities -> the buffer.
    """
    size = cfg.policy.learn.batch_size
    draw = _drawer(buffer_, size)
    give_back = _returner(buffer_, size) if cfg.policy.priority else None
    warned = not data_shortage_warning

    @middleware(reads=["train_iter"], writes=["train_data"], optional=["train_output"])
    def fetch(ctx: OnlineRLContext) -> Generator[None, None, None]:
        nonlocal warned
        short = _shortage(buffer_, size)
        if short:
            if not warned:
                _LOG.warning("no update yet: %s", short)
                warned = True
            yield
            return
        ctx.train_data = draw(ctx.train_iter)
        yield
        output = ctx.train_output[-1] if isinstance(ctx.train_output, list) else ctx.train_output
        if give_back is not None and output and "priority" in output:
            give_back(ctx.train_data, output["priority"])

    return fetch


def _returner(source: Source, size: int) -> Callable[[Any, Any], None]:
    """Makes a function of a batch and its priorities that tells each buffer about its own rows.

    Of several buffers by name, the priorities are a mapping by the same names.
    """
    if isinstance(source, Mapping):

        def by_name(batch: Any, priority: Any) -> None:
            for name, each in source.items():
                if isinstance(priority, Mapping) and name in priority:
                    each.update(_told(batch[name], priority[name]))

        return by_name
    buffers = source if isinstance(source, list | tuple) else [(source, 1.0)]
    ends = list(accumulate(_shares(buffers, size)))

    def in_order(batch: Any, priority: Any) -> None:
        for (each, _), (start, stop) in zip(buffers, pairwise([0, *ends]), strict=True):
            if stop > start:
                each.update(_told(batch[start:stop], priority[start:stop]))

    return in_order


def _told(batch: Any, priority: Any) -> dict[str, Any]:
    ids = {key: batch[key] for key in ("replay_unique_id", "replay_buffer_idx") if key in batch}
    return {**ids, "priority": priority}


def _shares(buffers: Sequence[tuple[Any, float]], size: int) -> list[int]:
    """Splits `size` by share; the last buffer takes what rounding leaves."""
    counts = [round(size * share) for _, share in buffers]
    counts[-1] = size - sum(counts[:-1])
    return counts


def _drawer(source: Source, size: int) -> Callable[[int], Any]:
    if isinstance(source, Mapping):
        return lambda train_iter: {
            name: each.sample_batch(size, train_iter) for name, each in source.items()
        }
    if isinstance(source, list | tuple):
        counts = _shares(source, size)
        return lambda train_iter: Batch.concat(
            [
                each.sample_batch(count, train_iter)
                for (each, _), count in zip(source, counts, strict=True)
                if count
            ]
        )
    return lambda train_iter: source.sample_batch(size, train_iter, reuse=True)


def _shortage(source: Source, size: int) -> str:
    """Says which buffer has too few rows, or ''."""
    if isinstance(source, Mapping):
        wanted = [(each, size) for each in source.values()]
    elif isinstance(source, list | tuple):
        wanted = [
            (each, count) for (each, _), count in zip(source, _shares(source, size), strict=True)
        ]
    else:
        wanted = [(source, size)]
    for each, count in wanted:
        if each.count() < count:
            return f"a buffer holds {each.count()} rows, one update takes {count}"
    return ""
