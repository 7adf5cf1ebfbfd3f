"""The serial off-policy pipeline: a list of middleware, and nothing else that loops."""

from __future__ import annotations

from typing import Any

import torch

from dicore.config import NamedConfig
from dicore.errors import ConfigError
from dicore.task import OnlineRLContext, TaskState, task
from dicore_plugins.middleware.ckpt_saver import CkptSaver
from dicore_plugins.middleware.collect import StepCollector
from dicore_plugins.middleware.data import data_pusher
from dicore_plugins.middleware.evaluate import interaction_evaluator
from dicore_plugins.middleware.exploration import eps_greedy_handler
from dicore_plugins.middleware.learn import OffPolicyLearner
from dicore_plugins.middleware.termination import termination_checker
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
        """Refuses policies that do not learn, or not from a replay buffer.

        Raises:
            ConfigError: the policy is such a one.
        """
        policy = compiled.cfg.policy
        if not policy.learns:
            raise ConfigError(
                f"policy.type: '{policy.type}' does not learn", hint="dicore list policy"
            )
        if policy.on_policy:
            raise ConfigError(
                f"policy.on_policy: '{policy.type}' learns from its own data only; the pipeline"
                " 'serial' trains from a replay buffer",
                hint="dicore list pipeline",
            )
        if isinstance(policy.other.replay_buffer, NamedConfig):
            names = ", ".join(policy.other.replay_buffer)
            raise ConfigError(
                f"policy.other.replay_buffer: the pipeline 'serial' has one buffer, got {names}",
                hint="dicore list pipeline",
            )

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
