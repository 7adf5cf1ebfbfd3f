"""The documents' entry function: a config in, a trained policy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dicore.run.launch import TrainRequest, launch

Config = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def serial_pipeline(
    input_cfg: Config,
    seed: int | None = None,
    model: Any | None = None,
    max_train_iter: int | None = None,
    max_env_step: int | None = None,
    exp_name: str | None = None,
    overrides: Sequence[str] = (),
) -> Any:
    """Trains in one process, as `dicore train -m serial` does.

    Args:
        input_cfg: `[main_config, create_config]`, one dict of both, or the path of a file.
        seed: Seed of everything random; None takes the config's.
        model: A network to use instead of the configured one.
        max_train_iter: Most updates; None takes the config's.
        max_env_step: Most env steps; None takes the config's.
        exp_name: Folder of the run; None takes the config's.
        overrides: More values, as on the command line: `policy.learn.batch_size=128`.

    Returns:
        The trained policy. Config, result, curves and checkpoints are in the run's folder.

    Raises:
        ConfigError: the config is wrong; nothing was written.
    """
    request = TrainRequest(
        config=input_cfg,
        mode="serial",
        seed=seed,
        exp_name=exp_name,
        max_env_step=max_env_step,
        max_train_iter=max_train_iter,
        overrides=overrides,
    )
    return launch(request, model=model).policy
