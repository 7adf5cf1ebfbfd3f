"""The serial off-policy pipeline: a list of middleware, and nothing else that loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dicore.config import NamedConfig
from dicore.config.problems import Problems, is_place
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
    """Collects, pushes, learns and evaluates in turn, in one process.

    Args:
        cfg: The pipeline's section.
    """

    def __init__(self, cfg: SerialConfig) -> None:
        self._cfg = cfg

    def check(self, compiled: Any) -> None:
        """Refuses policies that do not learn, or not from a replay buffer, and parts at odds.

        Raises:
            ConfigError: everything that does not fit.
            TaskError: the task, which this pipeline runs, is running already.
        """
        if task.running:
            raise TaskError(
                "a training cannot begin inside 'with task.start(...)': it runs that task itself",
                hint="leave the block first, or let it run a task of its own: dicore.task.Task()",
            )
        policy, told = compiled.cfg.policy, compiled.origin
        problems = Problems(places={path: said for path, said in told.items() if is_place(said)})
        if not policy.learns:
            problems.add("policy.type", f"'{policy.type}' does not learn")
            problems.hints.append("dicore list policy")
        elif policy.on_policy:
            problems.add(
                "policy.on_policy",
                f"'{policy.type}' learns from its own data only; the pipeline 'serial' trains from"
                " a replay buffer",
            )
            problems.hints.append("dicore list pipeline")
        else:
            problems.extend(_at_odds(compiled.cfg))
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
            _tell(run, f"begins with {_progress(parts)}")
            with task.start(ctx=OnlineRLContext(**state.values)):
                self._use(cfg, parts, run)
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

    def _use(self, cfg: Any, parts: Parts, run: Any) -> None:
        policy, warm_up = parts.policy, cfg.policy.collect.get("random_collect_size", 0)
        task.use(
            interaction_evaluator(
                cfg, policy.eval_mode, parts.evaluator_env, run=run, evaluator=parts.evaluator
            )
        )
        if "eps" in cfg.policy.other:
            task.use(eps_greedy_handler(cfg))
        task.use(
            StepCollector(
                cfg, policy.collect_mode, parts.collector_env, warm_up, collector=parts.collector
            )
        )
        task.use(data_pusher(cfg, parts.buffer))
        task.use(OffPolicyLearner(cfg, parts.learner, parts.buffer))
        task.use(CkptSaver(cfg, policy, save_finish=False, run=run))
        task.use(termination_checker(self._cfg.max_env_step, self._cfg.max_train_iter, run=run))

    def _finish(self, parts: Parts, run: Any) -> None:
        """Measures what a budget cut short, stops the clock, and writes `final`."""
        result = parts.evaluator.last_result
        learner, collector = parts.learner, parts.collector
        stopped = result is not None and result.stop
        if not stopped and self._cfg.final_eval and not run.stop_requested:
            save = lambda name: run.save_best(parts.evaluator.best_return)  # noqa: E731
            result = parts.evaluator.eval(save, learner.train_iter, collector.envstep)
            stopped = result.stop
        run.stop_clock()
        run.set_result(
            stop=stopped,
            train_iter=learner.train_iter,
            env_step=collector.envstep,
            best_return=parts.evaluator.best_return,
        )
        ending = "stop value reached" if stopped else "stopped" if run.stop_requested else "ended"
        _tell(run, f"{ending} with {_progress(parts)}; best {parts.evaluator.best_return:.6g}")
        run.save_checkpoint("final")


def _tell(run: Any, text: str) -> None:
    run.log.log_text(text, channel="serial")


def _progress(parts: Parts) -> str:
    return f"{parts.collector.envstep} env steps, {parts.learner.train_iter} updates"


def _at_odds(cfg: Any) -> Iterator[tuple[str, str]]:
    """Yields what is right by itself and would train nothing, or not as it says."""
    policy, buffer, evaluator = (
        cfg.policy,
        cfg.policy.other.replay_buffer,
        cfg.policy.eval.evaluator,
    )
    if isinstance(buffer, NamedConfig):
        names = ", ".join(buffer)
        yield "policy.other.replay_buffer", f"the pipeline 'serial' has one buffer, got {names}"
    elif policy.priority and not getattr(type(buffer), "keeps_priorities", True):
        yield "policy.priority", f"buffer '{buffer.type}' draws all rows alike; expected False"
    if policy.priority_IS_weight and not policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    episodes, envs = evaluator.get("n_episode"), cfg.env.evaluator_env_num
    if episodes is not None and episodes < envs:
        said = f"{episodes} episodes (env.n_evaluator_episode) cannot be shared among {envs}"
        yield "env.evaluator_env_num", f"{said} environments; give at most {episodes}"
