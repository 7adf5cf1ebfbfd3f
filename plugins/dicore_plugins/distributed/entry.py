"""`parallel_pipeline`: trains in several processes from a config (DI-engine's entry function)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dicore.errors import UsageError
from dicore.run.launch import TrainRequest, launch

__all__ = ["parallel_pipeline"]

_CONFIGS = 3
"""Main config, create config and system config."""


def parallel_pipeline(
    input_cfg: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    seed: int | None = None,
    model: Any | None = None,
    max_train_iter: int | None = None,
    max_env_step: int | None = None,
    exp_name: str | None = None,
    overrides: Sequence[str] = (),
) -> Any:
    """Trains in several processes, as `dicore train -m parallel` does.

    Args:
        input_cfg: `[main_config, create_config, system_config]`; the last one, which may be left
            out, has the options of `pipeline.system`. Or one dict of main and create config, or the
            path of a file.
        seed: Random seed; None: the config's.
        model: Network to use instead of the configured one.
        max_train_iter: Budget in updates; None: the config's.
        max_env_step: Budget in env steps; None: the config's.
        exp_name: Run folder; None: the config's.
        overrides: Options as on the command line: `policy.learn.batch_size=128`.

    Returns:
        The trained policy. Config, result, metrics and checkpoints are in the run folder.

    Raises:
        ConfigError: the config is invalid; nothing was written.
        UsageError: `input_cfg` has more than three parts.
    """
    config: Any = input_cfg
    system: Mapping[str, Any] = {}
    if isinstance(input_cfg, Sequence) and not isinstance(input_cfg, str):
        if len(input_cfg) > _CONFIGS:
            raise UsageError(f"expected main, create and system config, got {len(input_cfg)}")
        config = list(input_cfg[: _CONFIGS - 1])
        system = input_cfg[_CONFIGS - 1] if len(input_cfg) == _CONFIGS else {}
    given = [f"pipeline.system.{name}={json.dumps(value)}" for name, value in system.items()]
    request = TrainRequest(
        config=config,
        mode="parallel",
        seed=seed,
        exp_name=exp_name,
        max_env_step=max_env_step,
        max_train_iter=max_train_iter,
        overrides=[*given, *overrides],
    )
    return launch(request, model=model).policy
