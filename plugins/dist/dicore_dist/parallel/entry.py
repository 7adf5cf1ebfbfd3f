"""`parallel_pipeline`: trains in several processes from a config (DI-engine's entry function)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dicore.run.launch import TrainRequest, launch

if TYPE_CHECKING:
    from torch import nn


__all__ = ["parallel_pipeline"]


def parallel_pipeline(
    input_cfg: str | Path | Mapping[str, object] | Sequence[Mapping[str, object]],
    seed: int | None = None,
    model: nn.Module | None = None,
    max_train_iter: int | None = None,
    max_env_step: int | None = None,
    exp_name: str | None = None,
    overrides: Sequence[str] = (),
) -> object:
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
        ConfigError: the config is invalid, or has more than three parts; nothing was written.
    """
    request = TrainRequest(
        config=input_cfg,
        mode="parallel",
        seed=seed,
        exp_name=exp_name,
        max_env_step=max_env_step,
        max_train_iter=max_train_iter,
        overrides=overrides,
    )
    return launch(request, model=model).policy
