"""What a comm learner or collector builds its parts from: the config in a task's info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import attrs
import torch

from dicore.config import RunConfig, bind, compile_config
from dicore.data.json_codec import loads
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.random import hash_seed, seed_everything
from dicore_dist.commands.config import system_of
from dicore_registry import code_paths

__all__ = ["WorkerConfig"]


@dataclass
class WorkerConfig:
    """A bound config, with seeds of this worker.

    Args:
        cfg: The bound config.
        ctx: What its parts are built with.
        config: The text that it was compiled from.
    """

    cfg: RunConfig
    ctx: BuildContext
    config: str = ""

    @classmethod
    def of(cls, task_info: Mapping[str, Any], role: str = "", index: int = 0) -> WorkerConfig:
        """Compiles the config of a task.

        Args:
            task_info: Has `config`, the text of a `config.json`, and `code`, the code paths that it
                may name.
            role: Role whose seeds differ from the others'; "": the seed of the run.
            index: Number among the workers of this role.
        """
        code_paths.allow(list(task_info.get("code", ())))
        compiled = compile_config(loads(task_info["config"]), saved=True)
        spec = spec_of(compiled.env, compiled.seed)
        cfg: RunConfig = bind(compiled, spec).cfg
        number = int(task_info.get("number", 0))
        first = number <= system_of(cfg).collector_num  # of the training, or of its restart
        parts = (role, index) if first else (role, index, number)
        seed = hash_seed(cfg.seed, *parts) >> 1 if role else cfg.seed
        seed_everything(seed)
        device = "cuda" if cfg.policy.cuda and not role else "cpu"
        if role:
            policy = attrs.evolve(cfg.policy, cuda=False)
            cfg = attrs.evolve(cfg, seed=seed, policy=policy)
        torch.set_num_threads(cfg.pipeline.num_threads)
        return cls(cfg, BuildContext(spec, device=device, seed=seed), task_info["config"])

    @cached_property
    def policy(self) -> Any:
        """The policy, with all its modes."""
        return self.cfg.policy.build(self.ctx)
