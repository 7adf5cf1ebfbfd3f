"""Base class of pipelines that run a list of middleware: checks, start, resume and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from dicore.config.layers import Problems, is_place
from dicore.errors import TaskError
from dicore.task import Context, OnlineRLContext, TaskState, task
from dicore_plugins.middleware.callbacks import (
    CkptSaver,
    interaction_evaluator,
    termination_checker,
)
from dicore_plugins.pipelines.parts import Parts

SCHOOLS = {
    "off_policy": "learns from a replay buffer",
    "on_policy": "learns on-policy",
    "offline": "learns from a dataset",
}
"""What a policy can declare, see `school_of`."""


def school_of(policy: Any) -> str:
    """Returns how a policy's section declares to learn, as a key of `SCHOOLS`."""
    return "offline" if policy.offline else "on_policy" if policy.on_policy else "off_policy"


class TrainingPipeline:
    """Evaluates, runs its stages, saves and checks the budgets, in a loop.

    A subclass implements `stages` and declares its `school`; see `IPipeline`.

    Args:
        cfg: The pipeline's section of the config.
    """

    school: ClassVar[str] = "off_policy"
    """The policies that it trains, as a key of `SCHOOLS`."""
    context: ClassVar[type[Context]] = OnlineRLContext
    """Class of the context of each step."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def stages(self, parts: Parts) -> list[Any]:
        """Returns the middleware between evaluating and saving."""
        raise NotImplementedError

    def problems(self, cfg: Any) -> Iterator[tuple[str, str]]:
        """Yields (path, problem) for values that are valid alone but not together."""
        yield from ()

    def chosen(self, cfg: Any) -> TrainingPipeline:
        """Returns the pipeline that trains this config; itself unless it is one of several."""
        return self

    def check(self, compiled: Any) -> None:
        """Checks that the pipeline can train the policy and that the parts are compatible.

        Raises:
            ConfigError: options are incompatible; the error lists all of them.
            TaskError: the global task, which this pipeline uses, is already running.
        """
        if task.running:
            raise TaskError(
                "cannot train inside 'with task.start(...)': the training uses the same task",
                hint="leave the block first, or use a separate dicore.task.Task() in it",
            )
        cfg, origin = compiled.cfg, compiled.origin
        problems = Problems(places={path: at for path, at in origin.items() if is_place(at)})
        chosen = self.chosen(cfg)
        if not cfg.policy.learns:
            problems.add("policy.type", f"'{cfg.policy.type}' cannot be trained")
            problems.hints.append("choose another policy: dicore list policy")
        elif school_of(cfg.policy) != chosen.school:
            problems.add(
                "pipeline.type",
                f"'{self._cfg.type}' trains a policy that {SCHOOLS[chosen.school]};"
                f" '{cfg.policy.type}' {SCHOOLS[school_of(cfg.policy)]}",
            )
            problems.hints.append("pipeline.type=serial trains every kind of policy")
        else:
            problems.extend(_incompatibilities(cfg))
            problems.extend(chosen.problems(cfg))
        problems.raise_if_any()

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        """Trains until `stop_value`, a budget, or a request to stop; returns the policy."""
        cfg = compiled.cfg
        torch.set_num_threads(self._cfg.num_threads)
        parts = Parts(cfg, run, model=model)
        state = TaskState(task)
        run.register("task", state)
        try:
            chosen = self.chosen(cfg)
            middleware = chosen.middleware(parts)
            run.restore()
            _log(run, f"started at {_progress(parts)}")
            with task.start(ctx=chosen.context(**state.values)):
                for each in middleware:
                    task.use(each)
                run.deferring = True
                run.first_step()
                parts.learner.call_hook("before_run")
                task.run()
                run.deferring = False
                self._finish(parts, run)
                parts.learner.call_hook("after_run")
        finally:
            parts.close()
        return parts.policy

    def middleware(self, parts: Parts) -> list[Any]:
        """Returns all middleware of a step."""
        cfg, run = parts.cfg, parts.run
        budget = cfg.pipeline.max_env_step, cfg.pipeline.max_train_iter
        stages = self.stages(parts)
        return [
            interaction_evaluator(
                cfg, parts.policy.eval_mode, parts.evaluator_env, run=run, evaluator=parts.evaluator
            ),
            *stages,
            CkptSaver(cfg, parts.policy, save_finish=False, run=run),
            termination_checker(*budget, run=run),
        ]

    def _finish(self, parts: Parts, run: Any) -> None:
        """Evaluates if a budget ended the training, stops the clock and saves `final`."""
        evaluator, train_iter, env_step = (
            parts.evaluator,
            parts.learner.train_iter,
            _env_step(parts),
        )
        result = evaluator.last_result
        stopped = result is not None and result.stop
        if not stopped and self._cfg.final_eval and not run.stop_requested:
            save = lambda name: run.save_best(evaluator.best_return)  # noqa: E731
            result = evaluator.eval(
                save, train_iter, env_step, should_stop=lambda: run.stop_requested
            )
            stopped = result.stop
        run.stop_clock()
        run.set_result(
            stop=stopped,
            train_iter=train_iter,
            env_step=env_step,
            best_return=evaluator.best_return,
        )
        ending = "stop value reached" if stopped else "stopped" if run.stop_requested else "ended"
        best = f"{evaluator.best_return:.6g}"
        _log(run, f"{ending} after {_progress(parts)}; best mean return {best}")
        run.save_checkpoint("final")


def _log(run: Any, text: str) -> None:
    run.log.log_text(text, channel="serial")


def _env_step(parts: Parts) -> int:
    return int(parts.collector.envstep) if "collector" in parts else 0


def _progress(parts: Parts) -> str:
    return f"{_env_step(parts)} env steps, {parts.learner.train_iter} updates"


def _incompatibilities(cfg: Any) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for what every pipeline checks."""
    if cfg.policy.priority_IS_weight and not cfg.policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    episodes, envs = cfg.policy.eval.evaluator.get("n_episode"), cfg.env.evaluator_env_num
    if episodes is not None and episodes < envs:
        limit = f"{episodes} episodes (env.n_evaluator_episode)"
        yield "env.evaluator_env_num", f"{envs} environments exceed {limit}; set at most {episodes}"
