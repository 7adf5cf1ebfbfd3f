"""What a training says at its end: of a long last evaluation, and why nothing was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dicore.run.run import Run
    from dicore_plugins.pipelines.training import Parts

__all__ = ["about_last_evaluation", "why_no_update"]

_LITTLE_S = 5.0
"""Seconds of a last evaluation that nobody needs to be told of."""


def about_last_evaluation(parts: Parts, run: Run, env_step: int) -> str:
    """Returns what the last evaluation takes, and how to do without; "" if that is little."""
    if not env_step:  # no environment to collect from tells how long episodes are
        return ""
    episodes, last = parts.cfg.env.n_evaluator_episode, parts.evaluator.last_result
    ended, running = parts.collector.total_episode_count, parts.cfg.env.collector_env_num
    steps = episodes * env_step / (ended or running)
    if last is not None:
        steps = last.statistics.get("envstep_count", steps)
    if steps < max(env_step / 2, _LITTLE_S * env_step / max(run.clock.seconds, 1e-9)):
        return ""
    about = "about" if ended or last is not None else "more than"
    return (
        f"last evaluation: {episodes} episodes, {about} {steps:.0f} env steps; Ctrl-C ends it and"
        " saves, pipeline.final_eval=false leaves it out"
    )


def why_no_update(parts: Parts) -> str:
    """Returns what the first update waits for, of which the budget had too little."""
    learn, collect = parts.cfg.policy.learn, parts.cfg.policy.collect
    options = {
        "policy.learn.batch_size": learn.batch_size,
        "policy.collect.random_collect_size": collect.get("random_collect_size"),
        "policy.collect.n_sample": collect.n_sample,
        "policy.collect.n_episode": collect.n_episode,
    }
    said = ", ".join(f"{path}={value}" for path, value in options.items() if value)
    had = f"; the buffer has {parts.buffer.count()} items" if "buffer" in parts else ""
    return f"nothing was learned: raise the budget, which ended before an update ({said}{had})"
