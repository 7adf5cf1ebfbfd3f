"""Evaluation as a step of training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dicore.errors import UsageError
from dicore.task import OnlineRLContext, middleware, task

BEST_EVALUATION = "best_evaluation"
"""Event of the task: an evaluation was better than all before; listeners get the context."""


def interaction_evaluator(
    cfg: Any, policy: Any, env: Any, *, run: Any | None = None, evaluator: Any | None = None
) -> Callable[[OnlineRLContext], None]:
    """Evaluates when it is due and finishes the task when `stop_value` is reached.

    Args:
        cfg: The whole compiled config; `policy.eval.evaluator` is used.
        policy: An eval mode.
        env: An env manager of the evaluator's own.
        run: Takes statistics and the best checkpoint; None: nowhere.
        evaluator: One that is made already.

    Returns:
        A middleware: train_iter, last_eval_iter -> eval_value, eval_output, last_eval_iter,
        last_eval_value.
    """
    if evaluator is None:
        log = None if run is None else run.log
        evaluator = cfg.policy.eval.evaluator.build(None, env_manager=env, policy=policy, log=log)

    def announce(ctx: OnlineRLContext, name: str) -> None:
        if run is not None:
            run.save_best(evaluator.best_return)
        task.emit(BEST_EVALUATION, ctx)

    @middleware(
        reads=["train_iter"],
        writes=["eval_value", "eval_output", "last_eval_iter", "last_eval_value"],
        optional=["env_step"],
    )
    def evaluate(ctx: OnlineRLContext) -> None:
        if not evaluator.should_eval(ctx.train_iter):
            return
        result = evaluator.eval(partial(announce, ctx), ctx.train_iter, ctx.env_step)
        if not hasattr(result, "mean_return"):
            raise UsageError(
                f"{type(evaluator).__name__}.eval returned a {type(result).__name__}",
                hint="return an EvalResult (dicore.interfaces.evaluator)",
            )
        ctx.eval_value = ctx.last_eval_value = result.mean_return
        ctx.eval_output = result
        ctx.last_eval_iter = ctx.train_iter
        if result.stop:
            task.finish = True

    return evaluate
