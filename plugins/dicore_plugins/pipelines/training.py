"""Pipelines that run a list of middleware: their parts, checks, start, resume and end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import nn

from dicore.config import NamedConfig
from dicore.config.layers import Problems, is_place
from dicore.config.paths import lookup
from dicore.config.schema import ComponentConfig
from dicore.config.sections import Compiled, PipelineConfig, PolicyConfig, RunConfig
from dicore.errors import TaskError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, make_env_manager
from dicore.run.run import Run, Stateful
from dicore.task import Context, OnlineRLContext, Task, TaskState, task
from dicore.task.middleware import Middleware
from dicore_plugins.middleware.callbacks import (
    CkptSaver,
    eval_kwargs,
    interaction_evaluator,
    termination_checker,
)
from dicore_plugins.models.shapes import transposed
from dicore_plugins.pipelines.ending import about_last_evaluation, why_no_update

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer, IDataset
    from dicore.interfaces.collector import ISerialCollector
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.evaluator import ISerialEvaluator
    from dicore.interfaces.learner import ILearner
    from dicore.interfaces.policy import CollectMode, IPolicy
    from dicore.interfaces.reward_model import IRewardModel
    from dicore.interfaces.world_model import IWorldModel


_STATE = ("state_dict", "load_state_dict")
PartT = TypeVar("PartT", bound="Stateful")
AnyPartT = TypeVar("AnyPartT")
_METHODS = {
    "collector": ("collect_batch", "reset_policy", "close", *_STATE),
    "evaluator": ("should_eval", "eval", "close", *_STATE),
    "learner": ("train", "register_hook", "call_hook", "close", *_STATE),
    "buffer": ("push", "count", "sample_batch", *_STATE),
    "reward_model": ("estimate", "collect_data", "train", *_STATE),
    "dataset": ("take", "__len__"),
    "world_model": ("should_train", "train", "step", *_STATE),
}
"""Methods of each role that training calls."""


class Parts:
    """The parts of a training, each created when it is first used.

    A part with state is registered with the run when it is created. What a pipeline does not use is
    not created: offline training opens no environments to collect from, on-policy training has no
    buffer.

    Args:
        cfg: A bound config.
        run: Run for logs, checkpoints and the state of all parts; None: no run.
        model: Network to use instead of the configured one.
        collects: Whether training collects samples.
        log: Log of the parts without a run.
    """

    def __init__(
        self,
        cfg: RunConfig,
        run: Run | None = None,
        *,
        model: nn.Module | None = None,
        collects: bool = True,
        log: Any | None = None,
    ) -> None:
        self.cfg: Any = cfg  # its sections are those of the pipeline and of the policy
        self.run = run
        self._model = model
        self.opened: IDataset | None = None  # the dataset, if it was opened before
        self._collects = collects
        self._log = log if run is None else run.log

    def __contains__(self, name: str) -> bool:
        """Returns whether a part has been created."""
        return name in self.__dict__

    @cached_property
    def ctx(self) -> BuildContext:
        """What parts are built with: spaces, device, seed and run."""
        envs = self.collector_env if self._collects else self.evaluator_env
        device = "cpu" if self.run is None else self.run.device
        if device.startswith("cuda:"):
            torch.cuda.set_device(device)  # the device of plain `cuda`
        return BuildContext(EnvSpec.of(envs), device=device, seed=self.cfg.seed, run=self.run)

    @cached_property
    def collector_env(self) -> IEnvManager:
        """Env manager for collecting."""
        return self._registered("collector_env", self._envs("collector", None))

    @cached_property
    def evaluator_env(self) -> IEnvManager:
        """Env manager for evaluation; it has no more environments than there are episodes."""
        return self._envs("evaluator", self.cfg.env.n_evaluator_episode)

    def _envs(self, role: str, at_most: int | None) -> IEnvManager:
        cfg = self.cfg
        context = BuildContext(seed=cfg.seed, run=self.run)  # spaces are not known yet
        return make_env_manager(cfg.env, role, cfg.seed, at_most=at_most, ctx=context)

    @cached_property
    def policy(self) -> IPolicy:
        """The policy, with all its modes."""
        policy: IPolicy = self.cfg.policy.build(self.ctx, model=self._model)
        return policy

    @cached_property
    def collect_mode(self) -> CollectMode:
        """The policy's collect mode, with the rewards of the reward model if there is one."""
        if self.reward_model is None or _has_hindsight(self.cfg.policy.reward_model):
            return self.policy.collect_mode
        from dicore_plugins.policies.rewards import with_reward_model

        mode: CollectMode = with_reward_model(
            self.policy.collect_mode, self.reward_model, estimates=self.drawn_reward_model is None
        )
        return mode

    @cached_property
    def collector(self) -> ISerialCollector:
        """Collects samples with `collect_mode`."""
        envs = self.collector_env
        collector: ISerialCollector = self.cfg.policy.collect.collector.build(
            self.ctx, env_manager=envs, policy=self.collect_mode, log=self._log
        )
        counts = {"env_step": lambda: collector.envstep}
        return self._registered("collector", collector, counts=counts)

    @cached_property
    def evaluator(self) -> ISerialEvaluator:
        """Evaluates the policy's eval mode."""
        section = self.cfg.policy.eval.evaluator
        data = {"dataset": self.dataset} if _needs_dataset(section) else {}
        mode, envs = self.policy.eval_mode, self.evaluator_env
        evaluator: ISerialEvaluator = section.build(
            self.ctx, env_manager=envs, policy=mode, log=self._log, **data
        )
        return self._registered("evaluator", evaluator)

    @cached_property
    def learner(self) -> ILearner:
        """Updates the policy's learn mode."""
        learner: ILearner = self.cfg.policy.learn.learner.build(
            self.ctx, policy=self.policy.learn_mode, run=self.run
        )
        counts = {"train_iter": lambda: learner.train_iter}
        learner = self._registered("learner", learner, counts=counts)
        for hook in () if self.run is None else self.run.learner_hooks:
            learner.register_hook(hook)
        return learner

    @cached_property
    def buffer(self) -> IBuffer:
        """Replay buffer; several, if the config names several, act as one (`BufferGroup`)."""
        section = self.cfg.policy.other.replay_buffer
        if isinstance(section, NamedConfig):
            from dicore_plugins.buffers.group import BufferGroup

            buffer: IBuffer = BufferGroup.of(section, self.ctx)
        else:
            buffer = section.build(self.ctx)
        return self._registered("buffer", buffer, bulky=True)

    @cached_property
    def world_model(self) -> IWorldModel:
        """Model of the environment, for simulated samples."""
        model: IWorldModel = self.cfg.policy.world_model.build(self.ctx)
        return self._registered("world_model", model)

    @cached_property
    def model_buffer(self) -> IBuffer:
        """Replay buffer of simulated samples."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        made = NaiveReplayBuffer({"replay_buffer_size": self.cfg.policy.other.model_buffer_size})
        return self._registered("model_buffer", made, bulky=True)

    @cached_property
    def reward_model(self) -> IRewardModel | None:
        """Learns or changes the reward of collected samples; None if none is configured."""
        section = self.cfg.policy.reward_model
        if section is None:
            return None
        envs = {"env_manager": self.collector_env} if _has_hindsight(section) else {}
        model: IRewardModel = section.build(self.ctx, **envs)
        return self._registered("reward_model", model)

    def reward_training(self) -> list[Middleware]:
        """Returns the middleware that trains the reward model, if there is one."""
        if self.reward_model is None:
            return []
        from dicore_plugins.middleware.learn import reward_model_trainer

        return [reward_model_trainer(self.reward_model, log=self._log)]

    @property
    def drawn_reward_model(self) -> IRewardModel | None:
        """The reward model, if it changes samples when they are drawn (`relabel`, `hindsight`)."""
        section = None if self.cfg.policy.on_policy else self.cfg.policy.reward_model
        drawn = section is not None and (section.get("relabel") or _has_hindsight(section))
        return self.reward_model if drawn else None

    @cached_property
    def dataset(self) -> IDataset:
        """Recorded samples, or steps of `pipeline.expert`; the run records the content's hash."""
        from dicore_plugins.pipelines.demonstrations.experts import recorded

        found: Any = recorded(self.cfg, self.ctx) if self.opened is None else self.opened
        dataset: IDataset = self._checked("dataset", found)
        if self.run is not None and hasattr(dataset, "fingerprint"):
            if hasattr(dataset, "state_dict"):
                self.run.register("dataset", found)
            facts = {"samples": len(dataset), "fingerprint": found.fingerprint}
            self.run.metadata.values["dataset"] = facts
        return dataset

    def close(self) -> None:
        """Closes the parts that were created."""
        for name in ("collector", "evaluator", "learner", "buffer"):
            if name in self:
                getattr(getattr(self, name), "close", lambda: None)()

    def _registered(
        self,
        name: str,
        part: PartT,
        *,
        bulky: bool = False,
        counts: dict[str, Callable[[], int]] | None = None,
    ) -> PartT:
        """Checks a part, registers it with the run, and returns it."""
        self._checked(name, part)
        if self.run is not None:
            self.run.register(name, part, bulky=bulky, counts=counts)
        return part

    def _checked(self, name: str, part: AnyPartT) -> AnyPartT:
        missing = [
            each for each in _METHODS.get(name, ()) if not callable(getattr(part, each, None))
        ]
        if missing:
            raise UsageError(
                f"{type(part).__name__} is not a {name}: it lacks {', '.join(missing)}",
                hint=f"create a complete {name} with dicore new plugin NAME --kind {name}",
            )
        return part


def build_parts(cfg: RunConfig, run: Run | None = None, *, model: nn.Module | None = None) -> Parts:
    """Returns the parts of a training by replay or on-policy; see `Parts`.

    Raises:
        UsageError: a part lacks methods of its role.
    """
    parts = Parts(cfg, run, model=model)
    _ = parts.learner, parts.collector, parts.evaluator
    if not cfg.policy.on_policy:
        _ = parts.buffer
    return parts


SCHOOLS = {
    "off_policy": "learns from a replay buffer",
    "on_policy": "learns on-policy",
    "offline": "learns from a dataset",
    "demonstrations": "learns from demonstrations and its own steps",
}
"""What a policy can declare, see `school_of`."""


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
            problems.extend(_incompatibilities(cfg))
            problems.extend(chosen.problems(cfg))
            measure = cfg.policy.eval.evaluator.get("measure", "return")
            source = origin.get("env.stop_value", "")
            if measure != "return" and source.startswith(("env spec", "class ", "preset ")):
                reason = f"{cfg.env.stop_value:g} is a return, from {source}, and the measure is"
                problems.add("env.stop_value", f"{reason} {measure}; give a {measure}, or inf")
        problems.raise_if_any()
        if any(each.type == "obs_norm" for each in cfg.env.env_wrapper):
            has = hasattr(cfg.policy.get("model"), "obs_norm")
            better = "policy.model.obs_norm=true" if has else "static_obs_norm, of fixed numbers,"
            text = "env.env_wrapper: obs_norm measures each environment by itself, in evaluations"
            logging.getLogger("dicore.env").warning("%s anew; %s is one for all", text, better)
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
            if cfg.policy.model is not None and transposed(cfg.policy.model):
                run.log.log_text("images have their channels last: the CNN moves them to the front")
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
            held = parts.buffer.count() if "buffer" in parts else None
            run.log.log_text(why_no_update(parts.cfg, held))
        best = None if evaluator is None else evaluator.best_return
        best = None if best == float("-inf") else best  # it never evaluated
        run.set_result(stop=stopped, train_iter=train_iter, env_step=env_step, best_return=best)
        ending = "stop value reached" if stopped else "stopped" if run.stop_requested else "ended"
        score = "not evaluated" if best is None else f"best mean return {best:.6g}"
        _log(run, f"{ending} after {_progress(parts)}; {score}")
        run.save_checkpoint("final")


def evaluates(cfg: RunConfig) -> bool:
    """Returns whether policies can be evaluated: in recorded episodes, only on the dataset."""
    return _has_dynamics(cfg) or _needs_dataset(cfg.policy.eval.evaluator)


def _has_dynamics(cfg: RunConfig) -> bool:
    """Returns whether actions have effects in the environment."""
    return bool(getattr(cfg.env, "has_dynamics", True))


def _needs_dataset(evaluator: ComponentConfig) -> bool:
    """Returns whether an evaluator's section declares that it evaluates on the dataset."""
    return bool(getattr(type(evaluator), "needs_dataset", False))


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


def _has_hindsight(section: ComponentConfig | None) -> bool:
    """Returns whether a reward model replaces goals in samples of whole episodes."""
    return bool(getattr(section, "hindsight", False))


def _progress(parts: Parts) -> str:
    return f"{_env_step(parts)} env steps, {parts.learner.train_iter} updates"


def _incompatibilities(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for what every pipeline checks."""
    if cfg.policy.priority_IS_weight and not cfg.policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    if cfg.policy.reward_model is not None or hasattr(cfg.pipeline, "reward_models"):
        from dicore_plugins.pipelines.reward_problems import reward_model_problems

        yield from reward_model_problems(cfg)
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
    if _needs_dataset(evaluator) and cfg.pipeline.get("dataset") is None:
        reason = f"'{evaluator.type}' evaluates on a dataset"
        yield "policy.eval.evaluator", f"{reason}; set pipeline.dataset"
    if school in ("on_policy", "off_policy") and cfg.pipeline.get("expert") is not None:
        yield "pipeline.expert", f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
    if school in ("on_policy", "offline") and cfg.policy.learn.update_per_step is not None:
        reason = f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
        yield "policy.learn.update_per_step", f"{reason}; set policy.learn.update_per_collect=1"
