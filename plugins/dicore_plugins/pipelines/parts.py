"""The parts of a run, each created from its section of the config when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext, make_env_manager

_STATE = ("state_dict", "load_state_dict")
_METHODS = {
    "collector": ("collect_batch", "reset_policy", "close", *_STATE),
    "evaluator": ("should_eval", "eval", "close", *_STATE),
    "learner": ("train", "register_hook", "call_hook", "close", *_STATE),
    "buffer": ("push", "count", "sample_batch", *_STATE),
    "reward_model": ("estimate", "collect_data", "train", *_STATE),
    "dataset": ("take", "__len__"),
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
    """

    def __init__(self, cfg: Any, run: Any | None = None, *, model: Any | None = None) -> None:
        self.cfg = cfg
        self.run = run
        self._model = model
        self._log = None if run is None else run.log

    def __contains__(self, name: str) -> bool:
        """Returns whether a part has been created."""
        return name in self.__dict__

    @cached_property
    def ctx(self) -> BuildContext:
        """What parts are built with: spaces, device, seed and run."""
        envs = self.evaluator_env if self.cfg.policy.offline else self.collector_env
        device = "cpu" if self.run is None else self.run.device
        if device.startswith("cuda:"):
            import torch

            torch.cuda.set_device(device)  # the device of plain `cuda`
        return BuildContext(
            envs.observation_space, envs.action_space, device, self.cfg.seed, self.run
        )

    @cached_property
    def collector_env(self) -> Any:
        """Env manager for collecting."""
        env = make_env_manager(self.cfg.env, "collector", self.cfg.seed)
        return self._registered("collector_env", env)

    @cached_property
    def evaluator_env(self) -> Any:
        """Env manager for evaluation."""
        return make_env_manager(self.cfg.env, "evaluator", self.cfg.seed)

    @cached_property
    def policy(self) -> Any:
        """The policy, with all its modes."""
        return self.cfg.policy.build(self.ctx, model=self._model)

    @cached_property
    def collect_mode(self) -> Any:
        """The policy's collect mode, with the rewards of the reward model if there is one."""
        if self.reward_model is None:
            return self.policy.collect_mode
        from dicore_plugins.policies.rewards import with_reward_model

        return with_reward_model(self.policy.collect_mode, self.reward_model)

    @cached_property
    def collector(self) -> Any:
        """Collects samples with `collect_mode`."""
        envs = self.collector_env
        collector = self.cfg.policy.collect.collector.build(
            self.ctx, env_manager=envs, policy=self.collect_mode, log=self._log
        )
        counts = {"env_step": lambda: collector.envstep}
        return self._registered("collector", collector, counts=counts)

    @cached_property
    def evaluator(self) -> Any:
        """Evaluates the policy's eval mode."""
        evaluator = self.cfg.policy.eval.evaluator.build(
            self.ctx, env_manager=self.evaluator_env, policy=self.policy.eval_mode, log=self._log
        )
        return self._registered("evaluator", evaluator)

    @cached_property
    def learner(self) -> Any:
        """Updates the policy's learn mode."""
        learner = self.cfg.policy.learn.learner.build(
            self.ctx, policy=self.policy.learn_mode, run=self.run
        )
        counts = {"train_iter": lambda: learner.train_iter}
        learner = self._registered("learner", learner, counts=counts)
        for hook in () if self.run is None else self.run.learner_hooks:
            learner.register_hook(hook)
        return learner

    @cached_property
    def buffer(self) -> Any:
        """Replay buffer."""
        buffer = self.cfg.policy.other.replay_buffer.build(self.ctx)
        return self._registered("buffer", buffer, bulky=True)

    @cached_property
    def reward_model(self) -> Any | None:
        """Learns or changes the reward of collected samples; None if none is configured."""
        section = self.cfg.policy.reward_model
        if section is None:
            return None
        return self._registered("reward_model", section.build(self.ctx))

    @cached_property
    def dataset(self) -> Any:
        """Recorded samples, for offline training."""
        return self._checked("dataset", self.cfg.pipeline.dataset.build(self.ctx))

    def close(self) -> None:
        """Closes the parts that were created."""
        for name in ("collector", "evaluator", "learner"):
            if name in self:
                getattr(self, name).close()

    def _registered(
        self,
        name: str,
        part: Any,
        *,
        bulky: bool = False,
        counts: dict[str, Callable[[], int]] | None = None,
    ) -> Any:
        """Checks a part, registers it with the run, and returns it."""
        self._checked(name, part)
        if self.run is not None:
            self.run.register(name, part, bulky=bulky, counts=counts)
        return part

    def _checked(self, name: str, part: Any) -> Any:
        missing = [
            each for each in _METHODS.get(name, ()) if not callable(getattr(part, each, None))
        ]
        if missing:
            raise UsageError(
                f"{type(part).__name__} is not a {name}: it lacks {', '.join(missing)}",
                hint=f"create a complete {name} with dicore new plugin NAME --kind {name}",
            )
        return part


def build_parts(cfg: Any, run: Any | None = None, *, model: Any | None = None) -> Parts:
    """Returns the parts of a training by replay or on-policy; see `Parts`.

    Raises:
        UsageError: a part lacks methods of its role.
    """
    parts = Parts(cfg, run, model=model)
    _ = parts.learner, parts.collector, parts.evaluator
    if not cfg.policy.on_policy:
        _ = parts.buffer
    return parts
