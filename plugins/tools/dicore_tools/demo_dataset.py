"""Samples of a trained policy, for imitation or offline RL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dicore.config.paths import replace
from dicore.data import Batch
from dicore.errors import CheckpointCorruptError, UsageError
from dicore.run.checkpoint_io import read_state
from dicore.run.env_factory import BuildContext
from dicore_tools.data_files import single_steps, writer_of
from dicore_tools.evaluation.policy_loader import TrainedPolicy, find_policy, load_policy

__all__ = ["collect", "collect_demo_data", "load_demo_data", "save_demo_data"]


def collect_demo_data(
    input_cfg: Any,
    seed: int | None = None,
    collect_count: int = 1000,
    expert_data_path: str | Path = "demo_data",
    state_dict_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    eps: float = 0.0,
    trust: bool = False,
) -> Batch:
    """Collects samples with a trained policy and writes them to a folder or a file.

    `load_demo_data` reads the folder, and so does `load_data` of the config's buffer. Loading it
    never runs code. A file (`.npz`, `.hdf5`) gets single steps in time order.

    Args:
        input_cfg: Folder of a run or of one of its checkpoints; or, with `state_dict_path`,
            `[main_config, create_config]`, one dict of both, or the path of a file.
        seed: Seed of the episodes; None takes the config's. The episodes differ from those of
            training.
        collect_count: Number of samples.
        expert_data_path: The folder or file; existing data in it is replaced.
        state_dict_path: Name or path of a checkpoint; None takes the run's best.
        overrides: `a.b=c`, on top of the config.
        eps: Probability of a random action, of policies with epsilon-greedy exploration.
        trust: Run code that `config.json` names by path instead of a registered name.

    Returns:
        The samples, as returned by the policy's `get_train_sample`; for a file, with nstep = 1.

    Raises:
        UsageError: the folder exists and contains something else.
        ConfigError: the config is invalid.
        CheckpointError: there is no valid checkpoint.
    """
    target = _target(expert_data_path)
    if writer_of(target):
        overrides = [*overrides, "policy.nstep=1"]
    if isinstance(input_cfg, str | Path) and Path(input_cfg).is_dir():
        trained = find_policy(
            input_cfg, state_dict_path, seed=seed, overrides=overrides, trust=trust
        )
    else:
        checkpoint = _required(input_cfg, state_dict_path)
        trained = load_policy(input_cfg, checkpoint, seed=seed, overrides=overrides)
    data, spaces = _collected(trained, collect_count, eps)
    save_demo_data(trained, data, target, spaces)
    return data


def collect(trained: TrainedPolicy, count: int, eps: float = 0.0) -> Batch:
    """Collects samples with a policy.

    Args:
        trained: The policy.
        count: Number of samples.
        eps: Probability of a random action, of policies with epsilon-greedy exploration.

    Raises:
        UsageError: `eps` is given, and the policy has none.
    """
    return _collected(trained, count, eps)[0]


def _collected(trained: TrainedPolicy, count: int, eps: float) -> tuple[Batch, tuple[Any, Any]]:
    """Collects samples; returns them, and the spaces of the environment."""
    from dicore.run.env_factory import make_env_manager
    from dicore.run.random import seeded

    compiled = trained.compiled
    kwargs = {"eps": eps} if "eps" in compiled.policy.other else {}
    if eps and not kwargs:
        raise UsageError(f"policy '{compiled.policy.type}' has no epsilon", hint="omit eps")
    with seeded(compiled.seed):
        manager = make_env_manager(compiled.env, "demo", compiled.seed, at_most=count)
        try:
            context = BuildContext(seed=compiled.seed).with_spaces(
                manager.observation_space, manager.action_space
            )
            policy, state = trained.build(context)
            if state.policy is not None:
                policy.collect_mode.load_state_dict(state.policy)
            section = compiled.policy.collect.collector
            collector = section.build(context, env_manager=manager, policy=policy.collect_mode)
            data: Batch = collector.collect_batch(n_sample=count, policy_kwargs=kwargs)
            collector.close()
            return data, (manager.observation_space, manager.action_space)
        finally:
            manager.close()


def save_demo_data(
    trained: TrainedPolicy, data: Batch, path: str | Path, spaces: tuple[Any, ...] = ()
) -> None:
    """Writes samples atomically, in the format of the config's buffer, or to a file.

    Args:
        trained: The policy; its config names the buffer.
        data: The samples.
        path: The folder or file; existing data in it is replaced.
        spaces: Observation and action space, for a file.

    Raises:
        UsageError: the folder exists and contains something else.
    """
    target = _target(path)
    if write := writer_of(target):
        write(target, single_steps(data), *spaces)
        return
    section = trained.compiled.policy.other.replay_buffer
    section = section.get("agent", section)  # of several buffers
    if len(data) > (section.get("replay_buffer_size") or len(data)):
        section = replace(section, ("replay_buffer_size",), len(data))
    buffer = section.build(BuildContext(seed=trained.compiled.seed))
    buffer.push(data)
    target.parent.mkdir(parents=True, exist_ok=True)
    buffer.save_data(target)


def load_demo_data(path: str | Path) -> Batch:
    """Reads the samples that `collect_demo_data` wrote to a folder.

    Args:
        path: The folder.

    Raises:
        CheckpointError: the folder contains no samples, or they are corrupt.
    """
    state = read_state(path)
    columns = state.get("columns") if isinstance(state, dict) else None
    if not isinstance(columns, dict) or not columns:
        raise CheckpointCorruptError(
            f"{path}: no samples found", hint="name a folder that collect_demo_data wrote"
        )
    return Batch(columns)


def _required(config: Any, checkpoint: str | Path | None) -> str | Path:
    if checkpoint is not None:
        return checkpoint
    if isinstance(config, str | Path) and not Path(config).exists():
        raise UsageError(f"{config}: no such folder", hint="name a run folder")
    raise UsageError("no checkpoint given", hint="pass state_dict_path=CKPT")


def _target(path: str | Path) -> Path:
    """Returns the folder to write to, which is new or contains demo data.

    Raises:
        UsageError: it contains something else, or is not writable.
    """
    target = Path(path)
    above = next(each for each in target.absolute().parents if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        reason = "Permission denied" if above.is_dir() else f"{above} is not a folder"
        raise UsageError(f"cannot write {target}: {reason}", hint="name another folder")
    if target.exists() and (target.is_dir() or writer_of(target) is None):
        try:
            load_demo_data(target)
        except Exception as error:
            raise UsageError(
                f"{target} exists and contains other data", hint="name another folder"
            ) from error
    return target
