"""Data of a trained policy at work: for imitation, for offline training, for looking at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dicore.config import bind
from dicore.config.plain import replace as replaced
from dicore.data import Batch
from dicore.errors import CheckpointCorruptError, UsageError
from dicore.run.checkpoint_io import read_state
from dicore.run.env_factory import BuildContext
from dicore_tools.evaluation.policy_loader import Trained, find_trained, load_trained

__all__ = ["collect", "collect_demo_data", "load_demo_data", "save_demo_data"]


def collect_demo_data(
    input_cfg: Any,
    seed: int | None = None,
    collect_count: int = 1000,
    expert_data_path: str | Path = "demo_data",
    state_dict_path: str | Path | None = None,
    overrides: Sequence[str] = (),
) -> Batch:
    """Collects training samples with a trained policy and writes them into a folder.

    The folder holds no code: `load_demo_data` reads it, and so does `load_data` of a buffer of the
    kind that the config names.

    Args:
        input_cfg: Folder of a run or of one of its checkpoints; or, with `state_dict_path`,
            `[main_config, create_config]`, one dict of both, or the path of a file.
        seed: Seed of the episodes; None takes the config's. They are others than those of training.
        collect_count: How many samples.
        expert_data_path: The folder; data in it is replaced.
        state_dict_path: Name or path of a checkpoint; None takes the run's best.
        overrides: `a.b=c`, above the config.

    Returns:
        The samples, as the policy's `get_train_sample` makes them.

    Raises:
        UsageError: the folder holds something else.
        ConfigError: the config is wrong.
        CheckpointError: there is no checkpoint, or it cannot be used.
    """
    target = _target(expert_data_path)
    if isinstance(input_cfg, str | Path) and Path(input_cfg).is_dir():
        trained = find_trained(input_cfg, state_dict_path, seed=seed, overrides=overrides)
    else:
        trained = _by_config(input_cfg, seed, state_dict_path, overrides)
    data = collect(trained, collect_count)
    save_demo_data(trained, data, target)
    return data


def collect(trained: Trained, count: int) -> Batch:
    """Collects samples with a policy, without random exploration where it has an epsilon.

    Args:
        trained: The policy.
        count: How many samples.
    """
    from dicore.run.env_factory import make_env_manager
    from dicore.run.random import seeded

    compiled = trained.compiled
    with seeded(compiled.seed):
        manager = make_env_manager(compiled.env, "demo", compiled.seed, at_most=count)
        try:
            context = _context(trained, manager)
            policy, content = trained.build(context)
            if content.policy is not None:
                policy.collect_mode.load_state_dict(content.policy)
            section = compiled.policy.collect.collector
            collector = section.build(context, env_manager=manager, policy=policy.collect_mode)
            kwargs = {"eps": 0.0} if "eps" in compiled.policy.other else {}
            data: Batch = collector.collect_batch(n_sample=count, policy_kwargs=kwargs)
            collector.close()
            return data
        finally:
            manager.close()


def save_demo_data(trained: Trained, data: Batch, path: str | Path) -> None:
    """Writes samples as the buffer of a config keeps them, atomically.

    Args:
        trained: Whose config names the buffer.
        data: The samples.
        path: The folder; data in it is replaced.

    Raises:
        UsageError: the folder holds something else.
    """
    target = _target(path)
    section = trained.compiled.policy.other.replay_buffer
    if len(data) > (section.get("replay_buffer_size") or len(data)):
        section = replaced(section, ("replay_buffer_size",), len(data))
    buffer = section.build(BuildContext(seed=trained.compiled.seed))
    buffer.push(data)
    target.parent.mkdir(parents=True, exist_ok=True)
    buffer.save_data(target)


def load_demo_data(path: str | Path) -> Batch:
    """Reads the samples that were written into a folder.

    Args:
        path: The folder.

    Raises:
        CheckpointError: there are none, or they are not as they were written.
    """
    state = read_state(path)
    columns = state.get("columns") if isinstance(state, dict) else None
    if not isinstance(columns, dict) or not columns:
        raise CheckpointCorruptError(
            f"{path}: there are no samples in it", hint="collect_demo_data writes such folders"
        )
    return Batch(columns)


def _by_config(
    config: Any, seed: int | None, checkpoint: str | Path | None, overrides: Sequence[str]
) -> Trained:
    from dicore.run.env_factory import spaces_of
    from dicore.run.request import TrainRequest, compile_request

    if checkpoint is None and isinstance(config, str | Path) and not Path(config).exists():
        raise UsageError(f"{config}: no such folder", hint="name the folder of a run")
    if checkpoint is None:
        raise UsageError(
            "whose data to collect is missing", hint="name a checkpoint with state_dict_path"
        )
    request = config if isinstance(config, TrainRequest) else TrainRequest(config=config)
    given = [*request.overrides, *overrides]
    compiled = compile_request(
        replace(request, overrides=given, seed=request.seed if seed is None else seed)
    )
    return load_trained(bind(compiled, *spaces_of(compiled.env, compiled.seed)), checkpoint)


def _context(trained: Trained, manager: Any) -> BuildContext:
    seed = trained.compiled.seed
    return BuildContext(seed=seed).with_spaces(manager.observation_space, manager.action_space)


def _target(path: str | Path) -> Path:
    """Returns where data may be written: a free place, or one that holds such data already.

    Raises:
        UsageError: something else is there, or nothing can be written there.
    """
    target = Path(path)
    above = next(each for each in target.absolute().parents if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "Permission denied" if above.is_dir() else f"{above} is not a folder"
        raise UsageError(f"{target}: cannot be written: {why}", hint="name another folder")
    if target.exists():
        try:
            load_demo_data(target)
        except Exception as error:
            raise UsageError(
                f"{target} exists and holds no data of this kind", hint="name another folder"
            ) from error
    return target
