"""`serial_pipeline`: trains a policy from a config (DI-engine's entry function)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dicore.errors import DicoreError, UsageError
from dicore.run.launch import TrainRequest, launch

Config = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def serial_pipeline(  # noqa: PLR0913 - the documents' options
    input_cfg: Config,
    seed: int | Sequence[int] | None = None,
    model: Any | None = None,
    max_train_iter: int | None = None,
    max_env_step: int | None = None,
    exp_name: str | None = None,
    overrides: Sequence[str] = (),
    *,
    dynamic_seed: bool = True,
    env_setting: Any = None,
) -> Any:
    """Trains in one process, as `dicore train -m serial` does.

    Args:
        input_cfg: `[main_config, create_config]`, one dict of both, or the path of a file.
        seed: Random seed; None: the config's. Several seeds train one run each, in separate
            folders, with a `summary.json` (see `run_series`).
        model: Network to use instead of the configured one, for a single seed: a module from
            observations [B, ...] to values [B, A], returned as a tensor or `{"logit": values}`.
        max_train_iter: Budget in updates; None: the config's.
        max_env_step: Budget in env steps; None: the config's.
        exp_name: Run folder; None: the config's.
        overrides: Options as on the command line: `policy.learn.batch_size=128`.
        dynamic_seed: False: all episodes of an environment that collects begin with the same seed
            (`env.manager.dynamic_seed`).
        env_setting: Refused: a run is made from its config alone.

    Returns:
        The trained policy, or a list of policies for several seeds. Config, result, metrics and
        checkpoints are in the run folder.

    Raises:
        ConfigError: the config is invalid; nothing was written.
        UsageError: `model` is given with several seeds, or `env_setting` is given.
    """
    if env_setting is not None:
        raise UsageError(
            "env_setting is not supported: a run is made from its config alone",
            hint="name the environment in the config: env.type=./my_env.py:MyEnv, or register it",
        )
    if not dynamic_seed:
        overrides = ("env.manager.dynamic_seed=false", *overrides)
    several = tuple(seed) if isinstance(seed, Sequence) else None
    request = TrainRequest(
        config=input_cfg,
        mode="serial",
        seed=None if isinstance(seed, Sequence) else seed,
        exp_name=exp_name,
        max_env_step=max_env_step,
        max_train_iter=max_train_iter,
        overrides=overrides,
    )
    if several is None:
        return launch(request, model=model).policy
    if model is not None:
        raise UsageError("one model cannot be trained with several seeds", hint="remove model")
    return _each(request, several)


def _each(request: TrainRequest, seeds: tuple[int, ...]) -> list[Any]:
    from dicore import run_series

    policies: list[Any] = []
    series = run_series(
        request, seeds, after=lambda run, outcome: policies.append(getattr(outcome, "policy", None))
    )
    failed = [f"seed {run.seed}: {run.error}" for run in series.runs if run.status == "failed"]
    if failed:
        raise DicoreError("\n".join(failed), hint=f"{series.file} has the other runs")
    return policies
