"""Exploration schedules as a step of training."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from dicore.task import OnlineRLContext, middleware
from dicore_plugins.functional.exploration import get_epsilon_greedy_fn


def eps_greedy_handler(cfg: Any) -> Callable[[OnlineRLContext], Generator[None, None, None]]:
    """Sets epsilon by the env steps collected so far.

    Args:
        cfg: The whole compiled config; `policy.other.eps` is used.

    Returns:
        A middleware: env_step -> collect_kwargs['eps'], taken away again after the step.
    """
    eps = cfg.policy.other.eps
    schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    @middleware(reads=["env_step"], writes=["collect_kwargs"])
    def set_eps(ctx: OnlineRLContext) -> Generator[None, None, None]:
        ctx.collect_kwargs["eps"] = schedule(ctx.env_step)
        yield
        ctx.collect_kwargs.pop("eps", None)

    return set_eps
