"""Evaluation, checkpoints and termination as steps of training."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dicore.errors import UsageError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.task import OnlineRLContext, StepInterrupted, Task, middleware, task
from dicore_plugins.hooks.hook_config import Interval

EvalSettings = Callable[[Mapping[str, Any]], Mapping[str, Any]]

BEST_EVALUATION = "best_evaluation"
"""Task event: an evaluation exceeds all before it; listeners receive the context."""


def interaction_evaluator(
    cfg: Any,
    policy: Any,
    env: Any,
    *,
    run: Any | None = None,
    evaluator: Any | None = None,
    settings: EvalSettings | None = None,
) -> Callable[[OnlineRLContext], None]:
    """Evaluates every `eval_freq` updates; finishes the task when `stop_value` is reached.

    Args:
        cfg: The whole compiled config; `policy.eval.evaluator` is used.
        policy: Eval mode of the policy.
        env: Env manager that only the evaluator uses.
        run: Run that logs statistics and saves the best checkpoint; None: neither.
        evaluator: Evaluator to use; None: the configured one is created.
        settings: `get_setting_eval` of the policy's command mode; None: no annealed settings.

    Returns:
        A middleware: train_iter, last_eval_iter -> eval_value, eval_output, last_eval_iter,
        last_eval_value.
    """
    if evaluator is None:
        log = None if run is None else run.log
        evaluator = cfg.policy.eval.evaluator.build(None, env_manager=env, policy=policy, log=log)

    should_stop = None if run is None else lambda: run.stop_requested

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
        now = ctx.train_iter, ctx.env_step
        annealed = eval_kwargs(settings, *now)
        result = evaluator.eval(partial(announce, ctx), *now, should_stop=should_stop, **annealed)
        if getattr(result, "interrupted", False):
            raise StepInterrupted
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


def eval_kwargs(settings: EvalSettings | None, train_iter: int, env_step: int) -> dict[str, Any]:
    """Returns the argument of `eval` with the annealed settings; none if there are no settings."""
    found = settings({"envstep": env_step, "learner_step": train_iter}) if settings else {}
    return {"policy_kwargs": found} if found else {}


@middleware(reads=["train_iter"])
class CkptSaver:
    """Saves a checkpoint every `train_freq` updates, after each best evaluation, and at the end.

    Both DI-engine forms work, also by keyword: `CkptSaver(cfg, policy, train_freq=100)` and
    `CkptSaver(policy, save_dir, train_freq=100)`.

    Args:
        cfg: The whole compiled config; in the second form, the policy.
        policy: The policy; in the second form, the folder.
        train_freq: Updates between checkpoints; None: no periodic checkpoints.
        save_finish: Save `final` when the task finishes.
        save_dir: Run folder; None: `exp_name` of the config.
        run: Run that saves the checkpoints, including the best one; None: only the policy is
            saved, to `save_dir`.
    """

    def __init__(
        self,
        cfg: Any = None,
        policy: Any = None,
        train_freq: int | None = None,
        save_finish: bool = True,
        *,
        save_dir: str | Path | None = None,
        run: Any | None = None,
    ) -> None:
        if hasattr(cfg, "learn_mode"):
            cfg, policy, save_dir = None, cfg, policy if save_dir is None else save_dir
        if policy is None and run is None:
            raise UsageError("CkptSaver has no policy to save", hint="pass policy= or run=")
        if save_dir is None:
            save_dir = getattr(cfg, "exp_name", None) or "default_experiment"
        self._policy = policy
        self._run = run
        self._store = CheckpointStore(Path(save_dir) / "ckpt") if run is None else run.store
        self._interval = None if train_freq is None else Interval(train_freq)
        self._save_finish = save_finish

    def join_task(self, task: Task) -> None:
        """Subscribes to best evaluations, unless a run saves them."""
        if self._run is None:
            task.on(BEST_EVALUATION, lambda ctx: self._save("best", ctx))

    def __call__(self, ctx: OnlineRLContext) -> Generator[None, None, None]:
        yield
        if self._interval is not None and self._interval.due(ctx.train_iter):
            self._save(f"iteration_{ctx.train_iter}", ctx)
        if self._run is not None:
            self._run.save_due(ctx.train_iter)
        if self._save_finish and task.finish:
            self._save("final", ctx)

    def _save(self, name: str, ctx: OnlineRLContext) -> None:
        if self._run is not None:
            self._run.save_checkpoint(name)
            return
        learner = {
            "policy": self._policy.learn_mode.state_dict(),
            "last_iter": ctx.train_iter,
            "last_step": ctx.env_step,
        }
        self._store.save(name, {"learner": learner})


def termination_checker(
    max_env_step: int | None = None, max_train_iter: int | None = None, *, run: Any | None = None
) -> Callable[[OnlineRLContext], None]:
    """Finishes the task when a budget is reached or the run is requested to stop.

    Args:
        max_env_step: Budget in env steps; None: no limit.
        max_train_iter: Budget in updates; None: no limit.
        run: Run whose stop flag (set by signals) is checked too.

    Returns:
        A middleware: env_step, train_iter -> the task's `finish`.
    """
    env_steps = float("inf") if max_env_step is None else max_env_step
    updates = float("inf") if max_train_iter is None else max_train_iter

    @middleware(reads=["env_step", "train_iter"])
    def check(ctx: OnlineRLContext) -> None:
        if (
            ctx.env_step >= env_steps
            or ctx.train_iter >= updates
            or (run is not None and run.stop_requested)
        ):
            task.finish = True

    return check
