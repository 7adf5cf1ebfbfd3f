"""A trained policy that acts and no longer learns, loaded from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from dicore.config.sections import PolicyConfig
from dicore.data import Columns, EnvBatch, Tree
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext, spec_of
from dicore_plugins.policies.imitation.expert_config import ExpertConfig
from dicore_plugins.policies.random import FixedPolicy
from dicore_registry import code_paths
from dicore_registry.public_names import public_name

_LAST = 2**53
"""Env step after the end of every schedule."""


class ExpertPolicy(FixedPolicy):
    """Acts as the policy of a finished run.

    The config of that run decides its algorithm and network; checkpoints run no code.

    Args:
        cfg: Options: `run`, and which checkpoint.
        model: Must be None; the network is that of the run.
        context: Spaces and device; None: those of the run's environment, on the CPU.
        like: See `FixedPolicy`.
        enable_field: Modes to build; None: all.

    Attributes:
        expert: The loaded policy.

    Raises:
        UsageError: `run` is not a run folder, or a network is passed.
        CheckpointError: there is no valid checkpoint, or it does not fit the spaces.
        ConfigError: the policy does not fit the spaces.
        MissingPackageError: the package dicore-tools is not installed.
    """

    config_class: ClassVar[type[PolicyConfig]] = ExpertConfig
    _cfg: ExpertConfig

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, object] | None = None,
        model: nn.Module | None = None,
        *,
        context: Any | None = None,
        like: Any | None = None,
        enable_field: Sequence[str] | None = None,
    ) -> None:
        if model is not None:
            raise UsageError("the expert has the network of its run", hint="remove model")
        super().__init__(cfg, like=like, enable_field=enable_field)
        find = public_name("find_policy", "policy 'expert'")
        run = self._cfg.run
        if self._cfg.trust:  # a config that came with another run cannot decide that
            code_paths.check(run, "policy.run")
        trained = find(run, self._cfg.checkpoint, trust=self._cfg.trust)
        if context is None or context.action_space is None:
            compiled = trained.compiled
            context = BuildContext(spec_of(compiled.env, compiled.seed))
        self.expert, _ = trained.build(context)

    def _forward_collect(self, obs: Mapping[int, Tree], **unused: object) -> EnvBatch[Columns]:
        """Selects actions; settings of another policy, such as `eps`, are ignored.

        Sampled actions have the settings that the schedules of the expert end with.
        """
        if self._cfg.collect.greedy:
            return self._forward_eval(obs)
        info = {"envstep": _LAST, "learner_step": _LAST}
        settings = self.expert.command_mode.get_setting_collect(info)
        return EnvBatch.of(self.expert.collect_mode.forward(obs, **settings))

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return EnvBatch.of(self.expert.eval_mode.forward(obs))

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        mode = self.expert.eval_mode if self._cfg.collect.greedy else self.expert.collect_mode
        mode.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        self.expert.eval_mode.reset(data_id)
