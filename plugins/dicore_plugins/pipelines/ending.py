"""What a training says at its end: of a long last evaluation, and why nothing was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.config.sections import RunConfig
from dicore.run.run import Run

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore.interfaces.collector import ISerialCollector
    from dicore.interfaces.evaluator import EvalResult

__all__ = ["about_last_evaluation", "why_no_update"]

_LITTLE_S = 5.0
"""Seconds of a last evaluation that nobody needs to be told of."""


def about_last_evaluation(
    cfg: RunConfig, run: Run, collector: ISerialCollector, last: EvalResult | None
) -> str:
    """Returns what the last evaluation takes, and how to do without; "" if that is little.

    Args:
        cfg: The config of the run.
        run: The run.
        collector: Tells how long episodes are.
        last: The result of the evaluation before, if there was one.
    """
    episodes, env_step = cfg.env.n_evaluator_episode, int(collector.envstep)
    ended, running = collector.total_episode_count, cfg.env.collector_env_num
    steps = episodes * env_step / (ended + running / 2 if ended else running)  # half of each runs
    if last is not None:
        steps = last.statistics.get("envstep_count", steps)
    if steps < max(env_step / 2, _LITTLE_S * env_step / max(run.clock.seconds, 1e-9)):
        return ""
    about = "about" if ended or last is not None else "more than"
    return (
        f"last evaluation: {episodes} episodes, {about} {steps:.0f} env steps; Ctrl-C ends it and"
        " saves, pipeline.final_eval=false leaves it out"
    )


def why_no_update(cfg: RunConfig, buffer: IBuffer | None) -> str:
    """Returns what the first update waits for, of which the budget had too little.

    Args:
        cfg: The config of the run.
        buffer: The replay buffer; None: there is none.
    """
    learn, collect = cfg.policy.learn, cfg.policy.collect
    options = {
        "policy.learn.batch_size": learn.batch_size,
        "policy.collect.random_collect_size": collect.get("random_collect_size"),
        "policy.collect.n_sample": collect.n_sample,
        "policy.collect.n_episode": collect.n_episode,
    }
    said = ", ".join(f"{path}={value}" for path, value in options.items() if value)
    unit = "episodes" if getattr(buffer, "capacity_in_episodes", False) else "items"
    had = "" if buffer is None else f"; the buffer has {buffer.count()} {unit}"
    return f"nothing was learned: raise the budget, which ended before an update ({said}{had})"
