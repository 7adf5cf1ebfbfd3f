"""Evaluation, checkpoints and termination as steps of training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dicore.config.sections import RunConfig
from dicore.data import StateDict
from dicore.errors import UsageError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.task import OnlineRLContext, StepInterrupted, Task, middleware, task
from dicore.task.middleware import Role
from dicore_plugins.hooks.hook_config import Interval

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.evaluator import EvalResult, ISerialEvaluator
    from dicore.interfaces.policy import EvalMode
    from dicore.run import Run
    from dicore_plugins.evaluators.metric.evaluator import IMetric
    from dicore_plugins.executors.versions import ActingPolicy


F = TypeVar("F", bound=Callable[..., object])
EvalSettings = Callable[[Mapping[str, int]], Mapping[str, float]]

EVALUATION = "evaluation"
"""Task event: an evaluation in the background begins; listeners receive the context."""

BEST_EVALUATION = "best_evaluation"
"""Task event: an evaluation exceeds all before it; listeners receive the context."""


class Joined:
    """The task that uses a middleware; the default one as long as none does.

    Attributes:
        task: The task.
    """

    def __init__(self) -> None:
        self.task: Task = task

    def join_task(self, task: Task) -> None:
        """Takes the task."""
        self.task = task

    def by(self, fn: F) -> F:
        """Lets a function that is a middleware take the task, too; returns it."""
        vars(fn)["join_task"] = self.join_task
        return fn


def interaction_evaluator(
    cfg: RunConfig,
    policy: EvalMode,
    env: IEnvManager,
    *,
    run: Run | None = None,
    evaluator: ISerialEvaluator | None = None,
    settings: EvalSettings | None = None,
    ends_step: bool = False,
) -> Callable[[OnlineRLContext], None]:
    """Evaluates every `eval_freq` updates; finishes the task when `stop_value` is reached.

    Args:
        cfg: The whole compiled config; `policy.eval.evaluator` is used.
        policy: Eval mode of the policy.
        env: Env manager that only the evaluator uses.
        run: Run that logs statistics and saves the best checkpoint; None: neither.
        evaluator: Evaluator to use; None: the configured one is created.
        settings: `get_setting_eval` of the policy's command mode; None: no annealed settings.
        ends_step: Whether the stop value ends the step too: nothing is collected or trained after
            the evaluation.

    Returns:
        A middleware: train_iter, last_eval_iter -> eval_value, eval_output, last_eval_iter,
        last_eval_value.
    """
    if evaluator is None:
        log = None if run is None else run.log
        evaluator = cfg.policy.eval.evaluator.build(None, env_manager=env, policy=policy, log=log)
    name = "interaction_evaluator"
    return Evaluation(name, evaluator, policy, run=run, settings=settings, ends_step=ends_step)


def metric_evaluator(
    cfg: RunConfig, policy: EvalMode, dataset: IDataset, metric: IMetric, *, run: Run | None = None
) -> Callable[[OnlineRLContext], None]:
    """Evaluates on a data set by a metric; finishes the task when `stop_value` is reached.

    Args:
        cfg: The whole compiled config; `eval_freq` and `stop_value` of `policy.eval.evaluator`.
        policy: Eval mode of the policy.
        dataset: See `IDataset`; `obs` and what the metric compares.
        metric: See `IMetric`.
        run: Run that logs statistics and saves the best checkpoint; None: neither.

    Returns:
        A middleware as `interaction_evaluator`; values are those of the metric.
    """
    from dicore_plugins.evaluators import MetricEvaluator

    log, options = None if run is None else run.log, cfg.policy.eval.evaluator
    chosen = {name: options[name] for name in ("eval_freq", "stop_value") if options.get(name)}
    evaluator = MetricEvaluator(chosen, policy=policy, dataset=dataset, metric=metric, log=log)
    return Evaluation("metric_evaluator", evaluator, policy, run=run)


@middleware(
    reads=["train_iter"],
    writes=["eval_value", "eval_output", "last_eval_iter", "last_eval_value"],
    optional=["env_step", "env_episode"],
    role=Role.EVALUATOR,
)
class Evaluation:
    """Evaluates when an evaluator says that it is due; in async mode a copy, in the background.

    Args:
        name: Its name in messages.
        evaluator: See `ISerialEvaluator`.
        policy: Eval mode of the policy.
        run: Run that saves the best checkpoint; None: none.
        settings: `get_setting_eval` of the policy's command mode; None: no annealed settings.
        ends_step: Whether the stop value ends the step too; not in async mode.
    """

    def __init__(
        self,
        name: str,
        evaluator: ISerialEvaluator,
        policy: EvalMode,
        *,
        run: Run | None = None,
        settings: EvalSettings | None = None,
        ends_step: bool = False,
    ) -> None:
        self.__qualname__ = name
        self.uses = (evaluator,)
        self._evaluator, self._policy, self._run, self._settings = evaluator, policy, run, settings
        self._ends_step = ends_step
        self._task: Task = task
        self._executor: Any = None
        self._acting: ActingPolicy | None = None
        self._done: tuple[EvalResult, int] | None = None
        self._waits = False

    def join_task(self, task: Task) -> None:
        """In async mode, evaluates a copy of the policy, if it can be copied."""
        self._task, self._executor = task, task.executor
        if self._executor is not None:
            self._acting = self._executor.acting(self._policy, "eval")
            self._executor.on_rest(self._at_rest)

    def __call__(self, ctx: OnlineRLContext) -> None:
        if not self._due(ctx):
            return
        if self._executor is not None:
            self._waits = True
            self._executor.at_rest(None)
            return
        self._evaluate(ctx, None)
        if self._report(ctx) and self._ends_step:
            raise StepInterrupted

    def _due(self, ctx: OnlineRLContext) -> bool:
        due = getattr(self._evaluator, "due", None)
        if due is None:
            return bool(self._evaluator.should_eval(ctx.train_iter))
        counts = (getattr(ctx, name, 0) for name in ("train_iter", "env_step", "env_episode"))
        return bool(due(*counts, beside=self._executor is not None))

    def _at_rest(self, ctx: OnlineRLContext) -> None:
        """Reports, and begins an evaluation that is due, before a state is saved at this rest.

        Only here a stop value ends the task: when an evaluation ends depends on the machine.
        """
        stops = self._report(ctx)
        waits, self._waits = self._waits, False
        if waits and not stops:
            self._begin()

    def _begin(self) -> None:
        """Copies what is evaluated and saved, and evaluates it while training goes on."""
        ctx: Any = self._task.ctx
        self._task.emit(EVALUATION, ctx)
        state = None if self._run is None else copy.deepcopy(self._run.state_dict(bulky=False))
        if self._acting is None:
            self._evaluate(ctx, state)
            return
        self._acting.take()
        self._evaluator.reset_policy(self._acting.mode)
        self._executor.background(self.__qualname__, partial(self._evaluate, ctx, state))

    def _evaluate(self, ctx: OnlineRLContext, state: StateDict | None) -> None:
        now = ctx.train_iter, ctx.env_step
        result = self._evaluator.eval(
            lambda name: self._announce(ctx, state),
            *now,
            should_stop=self._should_stop,
            **eval_kwargs(self._settings, *now),
        )
        if self._acting is not None:
            self._evaluator.reset_policy(self._policy)
        if getattr(result, "interrupted", False):
            if self._executor is None:
                raise StepInterrupted
            return
        if not hasattr(result, "mean_return"):
            raise UsageError(
                f"{type(self._evaluator).__name__}.eval returned a {type(result).__name__}",
                hint="return an EvalResult (dicore.interfaces.evaluator)",
            )
        self._done = result, ctx.train_iter

    def _should_stop(self) -> bool:
        stopped = self._run is not None and self._run.stop_requested
        return stopped or (self._executor is not None and self._executor.cancelled)

    def _announce(self, ctx: OnlineRLContext, state: StateDict | None) -> None:
        run, best = self._run, self._evaluator.best_return
        if run is not None and state is None:
            run.save_best(best)
        elif run is not None and state is not None:
            run.set_result(best_return=best)
            run.save_checkpoint("best", {**state, "evaluator": self._evaluator.state_dict()})
        self._task.emit(BEST_EVALUATION, ctx)

    def _report(self, ctx: OnlineRLContext) -> bool:
        """Writes the result of an evaluation that has ended; returns whether it ends the task."""
        done, self._done = self._done, None
        if done is None:
            return False
        ctx.eval_output, ctx.last_eval_iter = done
        ctx.eval_value = ctx.last_eval_value = done[0].mean_return
        if done[0].stop:
            self._task.finish = True
        return bool(done[0].stop)


def eval_kwargs(settings: EvalSettings | None, train_iter: int, env_step: int) -> dict[str, Any]:
    """Returns the argument of `eval` with the annealed settings; none if there are no settings."""
    found = settings({"envstep": env_step, "learner_step": train_iter}) if settings else {}
    return {"policy_kwargs": found} if found else {}


@middleware(reads=["train_iter"], optional=["env_step"])
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
        cfg: RunConfig | None = None,
        policy: Any = None,
        train_freq: int | None = None,
        save_finish: bool = True,
        *,
        save_dir: str | Path | None = None,
        run: Run | None = None,
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
        self._evaluated: StateDict | None = None
        self._task: Task = task
        self._executor: Any = None
        self.uses = () if run is not None else (policy,)

    def join_task(self, task: Task) -> None:
        """Subscribes to best evaluations, unless a run saves them."""
        self._task, self._executor = task, task.executor
        if self._run is None:
            task.on(EVALUATION, self._remember)
            task.on(BEST_EVALUATION, lambda ctx: self._save("best", ctx, self._evaluated))

    def __call__(self, ctx: OnlineRLContext) -> Generator[None, None, None]:
        yield
        if self._interval is not None and self._interval.due(ctx.train_iter):
            self._save(f"iteration_{ctx.train_iter}", ctx)
        late = self._executor is None and self._store.is_late
        run = self._run
        if run is not None and (run.due or late):
            self._at_rest(lambda: run.save_due(_now(self._task).train_iter))
        if self._save_finish and self._task.finish:
            self._save("final", ctx)

    def _at_rest(self, save: Callable[[], object]) -> None:
        if self._executor is None:
            save()
        else:
            self._executor.at_rest(save)

    def _save(self, name: str, ctx: OnlineRLContext, learner: StateDict | None = None) -> None:
        run = self._run
        if run is not None:
            self._at_rest(lambda: run.save_checkpoint(name))
            return
        self._store.save(name, {"learner": learner or self._learner(ctx)})

    def _learner(self, ctx: OnlineRLContext) -> StateDict:
        return {
            "policy": self._policy.learn_mode.state_dict(),
            "last_iter": ctx.train_iter,
            "last_step": ctx.env_step,
        }

    def _remember(self, ctx: OnlineRLContext) -> None:
        """Copies what an evaluation in the background evaluates."""
        self._evaluated = copy.deepcopy(self._learner(ctx))


def termination_checker(
    max_env_step: int | None = None, max_train_iter: int | None = None, *, run: Run | None = None
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
    own = Joined()

    @middleware(reads=["env_step", "train_iter"], uses=[])
    def check(ctx: OnlineRLContext) -> None:
        if (
            ctx.env_step >= env_steps
            or ctx.train_iter >= updates
            or (run is not None and run.stop_requested)
        ):
            own.task.finish = True

    return own.by(check)


def _now(task: Task) -> Any:
    """Returns the context of the present step, which has the counters of the run."""
    return task.ctx
