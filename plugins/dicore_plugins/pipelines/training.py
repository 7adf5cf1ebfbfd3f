"""Pipelines that run a list of middleware: their checks, start, resume and end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from dicore.config import NamedConfig
from dicore.config.layers import Problems, is_place
from dicore.config.paths import lookup
from dicore.config.sections import Compiled, PipelineConfig, PolicyConfig, RunConfig
from dicore.errors import TaskError
from dicore.run.run import Run
from dicore.task import Context, OnlineRLContext, Task, TaskState, task
from dicore.task.middleware import Middleware
from dicore_plugins.middleware.callbacks import (
    CkptSaver,
    eval_kwargs,
    interaction_evaluator,
    termination_checker,
)
from dicore_plugins.models.shapes import about_images
from dicore_plugins.pipelines.ending import about_last_evaluation, why_no_update
from dicore_plugins.pipelines.parts import Parts, needs_dataset

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset
    from dicore.interfaces.evaluator import ISerialEvaluator
    from dicore.interfaces.policy import IPolicy


SCHOOLS = {
    "off_policy": "learns from a replay buffer",
    "on_policy": "learns on-policy",
    "offline": "learns from a dataset",
    "demonstrations": "learns from demonstrations and its own steps",
}
"""What a policy can declare, see `school_of`."""


class TrainingPipeline:
    """Evaluates, runs its stages, saves and checks the budgets, in a loop.

    A subclass implements `stages` and declares its `school`; see `IPipeline`.

    Args:
        cfg: The pipeline's section of the config.
    """

    school: ClassVar[str] = "off_policy"
    """The policies that it trains, as a key of `SCHOOLS`."""
    needs: ClassVar[str] = ""
    """What else these policies have, for messages."""
    context: ClassVar[type[Context]] = OnlineRLContext
    """Class of the context of each step."""
    parts: ClassVar[type[Parts]] = Parts
    """Class of its parts."""

    def __init__(self, cfg: PipelineConfig) -> None:
        self._cfg: Any = cfg  # of the subclass
        self._dataset: IDataset | None = None

    def stages(self, parts: Parts) -> list[Middleware]:
        """Returns the middleware between evaluating and saving."""
        raise NotImplementedError

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields (path, problem) for values that are valid alone but not together."""
        yield from ()

    def chosen(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns the pipeline that trains this config; itself unless it is one of several."""
        return self

    def trains(self, policy: PolicyConfig) -> bool:
        """Returns whether a policy with this section can be trained."""
        return school_of(policy) == self.school

    def check(self, compiled: Compiled) -> None:
        """Checks that the pipeline can train the policy and that the parts are compatible.

        Raises:
            ConfigError: options are incompatible; the error lists all of them.
            UsageError: the policy cannot use a network from outside.
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
        elif not chosen.trains(cfg.policy):
            problems.add(
                "pipeline.type",
                f"'{self._cfg.type}' trains a policy that {SCHOOLS[chosen.school]}{chosen.needs};"
                f" '{cfg.policy.type}' {SCHOOLS[school_of(cfg.policy)]}",
            )
            problems.hints.append("pipeline.type=serial trains every kind of policy")
        else:
            problems.extend(incompatibilities(cfg))
            problems.extend(chosen.problems(cfg))
            measure = cfg.policy.eval.evaluator.get("measure", "return")
            source = origin.get("env.stop_value", "")
            if measure != "return" and source.startswith(("env spec", "class ", "preset ")):
                reason = f"{cfg.env.stop_value:g} is a return, from {source}, and the measure is"
                problems.add("env.stop_value", f"{reason} {measure}; give a {measure}, or inf")
        problems.raise_if_any()
        measures = ("obs_norm", "gymnasium.wrappers:NormalizeObservation")
        if name := next((each.type for each in cfg.env.env_wrapper if each.type in measures), ""):
            has = hasattr(cfg.policy.get("model"), "obs_norm")
            better = "policy.model.obs_norm=true" if has else "static_obs_norm, of fixed numbers,"
            text = "measures each environment by itself, in evaluations anew"
            logging.getLogger("dicore.env").warning(
                "env.env_wrapper: %s %s; %s is one for all", name, text, better
            )
        if not type(cfg.policy.get("model")).__module__.startswith(("dicore_plugins.", "builtins")):
            from dicore_plugins.pipelines.foreign_models import check_model

            check_model(cfg.policy, cfg.seed)
        if cfg.pipeline.get("dataset") is not None or cfg.policy.reward_model is not None:
            from dicore_plugins.pipelines.demonstrations.experts import opened

            self._dataset = opened(cfg)  # what is wrong with it is known before the run folder

    def run(self, compiled: Compiled, run: Run, *, model: nn.Module | None = None) -> IPolicy:
        """Trains until `stop_value`, a budget, or a request to stop; returns the policy."""
        with self.training(compiled, run, model=model) as parts:
            if not self.has_ended(parts, run):
                task.run()
        return parts.policy

    @contextmanager
    def training(
        self, compiled: Compiled, run: Run, *, model: nn.Module | None = None, loop: Task = task
    ) -> Iterator[Parts]:
        """Builds the parts for `loop`, a task that runs within the block; then evaluates and saves.

        The other arguments are those of `run`.
        """
        cfg = compiled.cfg
        torch.set_num_threads(self._cfg.num_threads)
        chosen = self.chosen(cfg)
        if "auto" in (lookup(cfg, "policy.learn.autocast"), cfg.env.manager.type):
            from dicore_plugins.pipelines.chosen import settled

            cfg = settled(cfg, run, chosen, model)
        parts = self.parts(cfg, run, model=model, collects=chosen.school != "offline")
        parts.opened, self._dataset = self._dataset, None
        state = TaskState(loop)
        run.register("task", state)
        try:
            middleware = chosen.middleware(parts)
            run.restore()
            _log(run, f"started at {_progress(parts)}")
            network, space = cfg.policy.model, parts.ctx.observation_space
            if network is not None and (text := about_images(network, space)):
                run.log.log_text(text)
            with self._started(chosen.context(**state.values), run, loop):
                for each in middleware:
                    loop.use(each)
                run.deferring = True
                run.first_step()
                parts.learner.call_hook("before_run")
                yield parts
                run.deferring = False
                self._finish(parts, run)
                parts.learner.call_hook("after_run")
        finally:
            run.cpu.stop()  # nobody sums up what the processes of Ray have used, once they ended
            parts.close()

    def has_ended(self, parts: Parts, run: Run) -> bool:
        """Returns whether a resumed run has reached a budget or its stop value before."""
        return _is_spent(run) or _has_stopped(parts)

    def _started(self, ctx: Context, run: Run, loop: Task) -> Task:
        """Starts the task, in async mode if the config says so."""
        if not self._cfg.get("async_mode", False):
            return loop.start(ctx=ctx)
        from dicore_plugins.executors.log import log_from_threads

        loop.start(True, self._cfg.n_async_workers, ctx)
        loop.executor.max_lag = self._cfg.async_lag
        log_from_threads(run.log)
        return loop

    def middleware(self, parts: Parts) -> list[Middleware]:
        """Returns all middleware of a step."""
        cfg, run = parts.cfg, parts.run
        budget = cfg.pipeline.max_env_step, cfg.pipeline.max_train_iter
        stages, evaluation = self.stages(parts), self.evaluation(parts)
        return [
            *evaluation,
            *stages,
            CkptSaver(cfg, parts.policy, save_finish=False, run=run),
            termination_checker(*budget, run=run),
            *self._lag(run),
        ]

    def evaluation(self, parts: Parts) -> list[Middleware]:
        """Returns the middleware that evaluates, if policies can be evaluated."""
        if not evaluates(parts.cfg):
            return []
        return [
            interaction_evaluator(
                parts.cfg,
                parts.policy.eval_mode,
                parts.evaluator_env,
                run=parts.run,
                evaluator=parts.evaluator,
                settings=parts.policy.command_mode.get_setting_eval,
                ends_step=True,
            )
        ]

    def _lag(self, run: Run | None) -> list[Middleware]:
        """Returns what logs the lag of async mode."""
        if run is None or not self._cfg.get("async_mode", False):
            return []
        from dicore_plugins.executors.log import lag_logger

        return [lag_logger(run.log)]

    def _finish(self, parts: Parts, run: Run) -> None:
        """Evaluates if a budget ended the training, stops the clock and saves `final`."""
        train_iter, env_step = parts.learner.train_iter, _env_step(parts)
        evaluator = parts.evaluator if evaluates(parts.cfg) else None
        stopped = _has_stopped(parts)
        final_eval = self._cfg.final_eval and not run.stop_requested
        final_eval = final_eval and not _was_finished(evaluator, run, train_iter, env_step)
        if evaluator is not None and not stopped and final_eval:
            last = getattr(evaluator, "last_result", None)
            if env_step and (text := about_last_evaluation(parts.cfg, run, parts.collector, last)):
                run.log.log_text(text)
            save = lambda name: run.save_best(evaluator.best_return)  # noqa: E731
            annealed = eval_kwargs(parts.policy.command_mode.get_setting_eval, train_iter, env_step)
            evaluator.should_eval(train_iter)  # one that is due is not made again after a resume
            result = evaluator.eval(
                save, train_iter, env_step, should_stop=lambda: run.stop_requested, **annealed
            )
            stopped = result.stop
        run.stop_clock()
        if env_step and not train_iter and not run.stop_requested:
            buffer = parts.buffer if "buffer" in parts else None
            run.log.log_text(why_no_update(parts.cfg, buffer))
        best = None if evaluator is None else evaluator.best_return
        best = None if best == float("-inf") else best  # it never evaluated
        run.set_result(stop=stopped, train_iter=train_iter, env_step=env_step, best_return=best)
        ending = "stop value reached" if stopped else "stopped" if run.stop_requested else "ended"
        score = "not evaluated" if best is None else f"best mean return {best:.6g}"
        _log(run, f"{ending} after {_progress(parts)}; {score}")
        run.save_checkpoint("final")


def _is_spent(run: Run) -> bool:
    """Returns whether the checkpoint to resume from has reached a budget: only the end is left."""
    budget = {"env_step": run.limits.max_env_step, "train_iter": run.limits.max_train_iter}
    return any(most is not None and run.reached[name] >= most for name, most in budget.items())


def _was_finished(
    evaluator: ISerialEvaluator | None, run: Run, train_iter: int, env_step: int
) -> bool:
    """Returns whether a run was killed after its last evaluation, just before it said so."""
    here = {"env_step": env_step, "train_iter": train_iter}
    if evaluator is None or run.resumed_from != "final" or run.reached != here:
        return False
    return bool(evaluator.state_dict().get("last_eval_iter") == train_iter)


def _has_stopped(parts: Parts) -> bool:
    """Returns whether an evaluation has reached the stop value, also before the run was resumed."""
    if not evaluates(parts.cfg):
        return False
    evaluator = parts.evaluator
    found = getattr(evaluator.last_result, "stop", False)
    return bool(found or getattr(evaluator, "has_stopped", False))


def _log(run: Run, text: str) -> None:
    run.log.log_text(text, channel="serial")


def _env_step(parts: Parts) -> int:
    return int(parts.collector.envstep) if "collector" in parts else 0


def _progress(parts: Parts) -> str:
    return f"{_env_step(parts)} env steps, {parts.learner.train_iter} updates"


def school_of(policy: PolicyConfig) -> str:
    """Returns how a policy's section declares to learn, as a key of `SCHOOLS`.

    An off-policy one with a buffer `demo` beside `agent` learns from a dataset and own steps.
    """
    buffer = policy.get("other", {}).get("replay_buffer")
    if getattr(policy, "demonstrations", False) or (
        isinstance(buffer, NamedConfig) and {"agent", "demo"} <= {*buffer.keys()}
    ):
        return "demonstrations"
    return "offline" if policy.offline else "on_policy" if policy.on_policy else "off_policy"


def evaluates(cfg: RunConfig) -> bool:
    """Returns whether policies can be evaluated: in recorded episodes, only on the dataset."""
    return _has_dynamics(cfg) or needs_dataset(cfg.policy.eval.evaluator)


def _has_dynamics(cfg: RunConfig) -> bool:
    """Returns whether actions have effects in the environment."""
    return bool(getattr(cfg.env, "has_dynamics", True))


def incompatibilities(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for what every pipeline checks."""
    if cfg.policy.priority_IS_weight and not cfg.policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    if cfg.policy.reward_model is not None or hasattr(cfg.pipeline, "reward_models"):
        from dicore_plugins.pipelines.reward_problems import reward_model_problems

        yield from reward_model_problems(cfg)
    for index, wrapper in enumerate(cfg.env.env_wrapper):
        if wrapper.type == "gymnasium.wrappers:NormalizeReward":
            yield (
                f"env.env_wrapper[{index}]",
                "its returns are of scaled rewards; write reward_norm, which reports unscaled ones",
            )
    school = school_of(cfg.policy)
    collects = school in ("on_policy", "demonstrations") or cfg.pipeline.get("dataset") is None
    if not _has_dynamics(cfg) and collects:
        yield (
            "env.type",
            f"'{cfg.env.type}' replays recorded episodes, so nothing can be collected in it;"
            " expected an environment, or pipeline.dataset for an off-policy or offline policy",
        )
    if school == "on_policy" and cfg.pipeline.get("dataset") is not None:
        yield "pipeline.dataset", f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
    evaluator = cfg.policy.eval.evaluator
    if needs_dataset(evaluator) and cfg.pipeline.get("dataset") is None:
        reason = f"'{evaluator.type}' evaluates on a dataset"
        yield "policy.eval.evaluator", f"{reason}; set pipeline.dataset"
    if school in ("on_policy", "off_policy") and cfg.pipeline.get("expert") is not None:
        yield "pipeline.expert", f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
    if school in ("on_policy", "offline") and cfg.policy.learn.update_per_step is not None:
        reason = f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
        yield "policy.learn.update_per_step", f"{reason}; set policy.learn.update_per_collect=1"
