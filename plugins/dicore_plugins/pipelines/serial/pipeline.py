"""The serial off-policy pipeline: a list of middleware that the task runs in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dicore.config import NamedConfig
from dicore.config.layers import Problems, is_place
from dicore.errors import TaskError
from dicore.task import OnlineRLContext, TaskState, task
from dicore_plugins.middleware.callbacks import (
    CkptSaver,
    interaction_evaluator,
    termination_checker,
)
from dicore_plugins.middleware.collect import StepCollector, eps_greedy_handler
from dicore_plugins.middleware.learn import OffPolicyLearner, data_pusher
from dicore_plugins.pipelines.parts import Parts, build_parts
from dicore_plugins.pipelines.serial.config import SerialConfig


class SerialPipeline:
    """Trains off-policy in one process: evaluates, collects and learns in turn.

    Args:
        cfg: The pipeline's section of the config.
    """

    def __init__(self, cfg: SerialConfig) -> None:
        self._cfg = cfg

    def check(self, compiled: Any) -> None:
        """Checks that the policy learns from a replay buffer and that the parts are compatible.

        Raises:
            ConfigError: options are incompatible; the error lists all of them.
            TaskError: the global task, which this pipeline uses, is already running.
        """
        if task.running:
            raise TaskError(
                "cannot train inside 'with task.start(...)': the training uses the same task",
                hint="leave the block first, or use a separate dicore.task.Task() in it",
            )
        policy, origin = compiled.cfg.policy, compiled.origin
        problems = Problems(places={path: at for path, at in origin.items() if is_place(at)})
        if not policy.learns:
            problems.add("policy.type", f"'{policy.type}' cannot be trained")
            problems.hints.append("choose another policy: dicore list policy")
        elif policy.on_policy:
            problems.add(
                "policy.on_policy",
                "the pipeline 'serial' trains from a replay buffer; expected False",
            )
            problems.hints.append("dicore list pipeline")
        else:
            problems.extend(_incompatibilities(compiled.cfg))
        problems.raise_if_any()

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        """Trains until `stop_value`, a budget, or a request to stop; returns the policy."""
        cfg = compiled.cfg
        torch.set_num_threads(self._cfg.num_threads)
        parts = build_parts(cfg, run, model=model)
        state = TaskState(task)
        run.register("task", state)
        try:
            run.restore()
            _log(run, f"started at {_progress(parts)}")
            with task.start(ctx=OnlineRLContext(**state.values)):
                for each in self._middleware(cfg, parts, run):
                    task.use(each)
                run.deferring = True
                run.first_step()
                parts.learner.call_hook("before_run")
                task.run()
                run.deferring = False
                self._finish(parts, run)
                parts.learner.call_hook("after_run")
        finally:
            parts.collector.close()
            parts.evaluator.close()
            parts.learner.close()
        return parts.policy

    def _middleware(self, cfg: Any, parts: Parts, run: Any) -> list[Any]:
        policy, warm_up = parts.policy, cfg.policy.collect.get("random_collect_size", 0)
        return [
            interaction_evaluator(
                cfg, policy.eval_mode, parts.evaluator_env, run=run, evaluator=parts.evaluator
            ),
            *([eps_greedy_handler(cfg)] if "eps" in cfg.policy.other else []),
            StepCollector(
                cfg, policy.collect_mode, parts.collector_env, warm_up, collector=parts.collector
            ),
            data_pusher(cfg, parts.buffer),
            OffPolicyLearner(cfg, parts.learner, parts.buffer),
            CkptSaver(cfg, policy, save_finish=False, run=run),
            termination_checker(self._cfg.max_env_step, self._cfg.max_train_iter, run=run),
        ]

    def _finish(self, parts: Parts, run: Any) -> None:
        """Evaluates if a budget ended the training, stops the clock and saves `final`."""
        result = parts.evaluator.last_result
        learner, collector = parts.learner, parts.collector
        stopped = result is not None and result.stop
        if not stopped and self._cfg.final_eval and not run.stop_requested:
            save = lambda name: run.save_best(parts.evaluator.best_return)  # noqa: E731
            result = parts.evaluator.eval(
                save, learner.train_iter, collector.envstep, should_stop=lambda: run.stop_requested
            )
            stopped = result.stop
        run.stop_clock()
        run.set_result(
            stop=stopped,
            train_iter=learner.train_iter,
            env_step=collector.envstep,
            best_return=parts.evaluator.best_return,
        )
        ending = "stop value reached" if stopped else "stopped" if run.stop_requested else "ended"
        best = f"{parts.evaluator.best_return:.6g}"
        _log(run, f"{ending} after {_progress(parts)}; best mean return {best}")
        run.save_checkpoint("final")


def _log(run: Any, text: str) -> None:
    run.log.log_text(text, channel="serial")


def _progress(parts: Parts) -> str:
    return f"{parts.collector.envstep} env steps, {parts.learner.train_iter} updates"


def _incompatibilities(cfg: Any) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for values that are valid alone but not together."""
    policy, evaluator = cfg.policy, cfg.policy.eval.evaluator
    buffer = policy.other.replay_buffer
    if isinstance(buffer, NamedConfig):
        names = ", ".join(buffer)
        yield (
            "policy.other.replay_buffer",
            f"the pipeline 'serial' needs a single buffer, got {names}",
        )
    elif policy.priority and not vars(type(buffer)).get("keeps_priorities", True):
        yield "policy.priority", f"buffer '{buffer.type}' samples uniformly; expected False"
    if policy.priority_IS_weight and not policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    episodes, envs = evaluator.get("n_episode"), cfg.env.evaluator_env_num
    if episodes is not None and episodes < envs:
        limit = f"{episodes} episodes (env.n_evaluator_episode)"
        yield "env.evaluator_env_num", f"{envs} environments exceed {limit}; set at most {episodes}"
