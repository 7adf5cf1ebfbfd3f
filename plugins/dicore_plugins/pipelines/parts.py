"""The parts of a training, each built when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from dicore.config import NamedConfig
from dicore.config.schema import ComponentConfig
from dicore.config.sections import RunConfig
from dicore.errors import UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, make_env_manager
from dicore.run.run import Run, Stateful
from dicore.task.middleware import Middleware

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer, IDataset
    from dicore.interfaces.collector import ISerialCollector
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.evaluator import ISerialEvaluator
    from dicore.interfaces.learner import ILearner
    from dicore.interfaces.policy import CollectMode, IPolicy
    from dicore.interfaces.reward_model import IRewardModel
    from dicore.interfaces.world_model import IWorldModel

__all__ = ["Parts", "build_parts"]

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
        data = {"dataset": self.dataset} if needs_dataset(section) else {}
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


def _has_hindsight(section: ComponentConfig | None) -> bool:
    """Returns whether a reward model replaces goals in samples of whole episodes."""
    return bool(getattr(section, "hindsight", False))


def needs_dataset(evaluator: ComponentConfig) -> bool:
    """Returns whether an evaluator's section declares that it evaluates on the dataset."""
    return bool(getattr(type(evaluator), "needs_dataset", False))
