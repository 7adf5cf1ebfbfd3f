"""`serial_pipeline`: trains a policy from a config (DI-engine's entry function)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.errors import DicoreError, UsageError
from dicore.run.launch import TrainRequest, launch

if TYPE_CHECKING:
    from torch import nn

Config = str | Path | Mapping[str, object] | Sequence[Mapping[str, object]]


def serial_pipeline(  # noqa: PLR0913 - the documents' options
    input_cfg: Config,
    seed: int | Sequence[int] | None = None,
    env_setting: Any = None,
    model: nn.Module | None = None,
    max_train_iter: float | None = None,
    max_env_step: float | None = None,
    dynamic_seed: bool = True,
    *,
    exp_name: str | None = None,
    overrides: Sequence[str] = (),
) -> Any:
    """Trains in one process, as `dicore train -m serial` does.

    Args:
        input_cfg: `[main_config, create_config]`, one dict of both, or the path of a file. Configs
            of DI-engine, whose create config imports its modules, are converted.
        seed: Random seed; None: the config's. Several seeds train one run each, in separate
            folders, with a `summary.json` (see `run_series`).
        env_setting: Refused: a run is made from its config alone.
        model: Network to use instead of the configured one, for a single seed: a module from
            observations [B, ...] to values [B, A], returned as a tensor or `{"logit": values}`.
        max_train_iter: Budget in updates, a whole number as int or float (`1e6`); None: the
            config's.
        max_env_step: Budget in env steps, as `max_train_iter`; None: the config's.
        dynamic_seed: False: all episodes of an environment that collects begin with the same seed
            (`env.manager.dynamic_seed`).
        exp_name: Run folder; None: the config's.
        overrides: Options as on the command line: `policy.learn.batch_size=128`.

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
        config=_converted(input_cfg),
        mode="serial",
        seed=None if isinstance(seed, Sequence) else seed,
        exp_name=exp_name,
        max_env_step=_whole("max_env_step", max_env_step),
        max_train_iter=_whole("max_train_iter", max_train_iter),
        overrides=overrides,
    )
    if several is None:
        return launch(request, model=model).policy
    if model is not None:
        raise UsageError("one model cannot be trained with several seeds", hint="remove model")
    return _each(request, several)


def _whole(name: str, budget: float | None) -> int | None:
    """Returns a budget as an int."""
    if budget is None or isinstance(budget, int):
        return budget
    if not float(budget).is_integer():
        raise UsageError(f"{name} must be a whole number, got {budget!r}")
    return int(budget)


def _converted(config: Any) -> Any:
    """Returns a config as it is, and one of DI-engine as the command line reads its files."""
    halves = isinstance(config, list | tuple) and len(config) == 2
    if not halves or not all(isinstance(half, Mapping) for half in config):
        return config
    parts = [part for part in config[1].values() if isinstance(part, Mapping)]
    modules = [str(name) for part in parts for name in part.get("import_names") or ()]
    if not any(name.partition(".")[0] in ("ding", "dizoo") for name in modules):
        return config
    from dicore_registry.public_names import public_name

    return public_name("config_of_di_engine", "a config of DI-engine")(*config)


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
