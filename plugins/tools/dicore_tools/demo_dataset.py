"""Samples of a trained policy, for imitation or offline RL."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from dicore.config.paths import replace
from dicore.data import Batch
from dicore.errors import CheckpointCorruptError, UsageError
from dicore.run.checkpoint_io import MANIFEST, TENSORS, read_state
from dicore.run.env_factory import BuildContext
from dicore_tools.data_files import single_steps, writer_of
from dicore_tools.demo_collection import Wanted, collected
from dicore_tools.evaluation.policy_loader import (
    TrainedPolicy,
    find_policy,
    fixed_policy,
    load_policy,
)
from dicore_tools.output_place import check_place

__all__ = [
    "collect", "collect_demo_data", "collect_episodic_demo_data", "load_demo_data",
    "save_demo_data",
]  # fmt: skip


def collect_demo_data(  # noqa: PLR0913 - the documents' options, and those of the command
    input_cfg: Any,
    seed: int | None = None,
    collect_count: int = 1000,
    expert_data_path: str | Path = "demo_data",
    state_dict_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    n_episode: int | None = None,
    min_return: float | None = None,
    eps: float = 0.0,
    greedy: bool = False,
    outputs: bool = False,
    log_prob: bool = False,
    trust: bool = False,
    overwrite: bool = True,
) -> Batch:
    """Collects samples with a policy and writes them to a folder or a file.

    `load_demo_data` reads the folder, and so does `load_data` of the config's buffer. Loading it
    never runs code. A file (`.npz`, `.hdf5`) gets single steps in time order.

    Args:
        input_cfg: Folder of a run or of one of its checkpoints; or, with `state_dict_path`,
            `[main_config, create_config]`, one dict of both, or the path of a file. A policy that
            does not learn, such as one written by hand, needs no `state_dict_path`.
        seed: Seed of the episodes; None takes the config's. The episodes differ from those of
            training.
        collect_count: Number of samples.
        expert_data_path: The folder or file.
        state_dict_path: Name or path of a checkpoint; None takes the run's best.
        overrides: `a.b=c`, on top of the config.
        n_episode: Number of whole episodes to collect, instead of `collect_count` samples.
        min_return: Keep only episodes with at least this return; for whole episodes in a file.
        eps: Probability of a random action, of policies with epsilon-greedy exploration.
        greedy: Act as in evaluation; False: as when collecting, where some policies sample actions.
        outputs: Also write the outputs of the network (`logit`, or `mean` and `log_std`), for
            distillation; to a file.
        log_prob: Also write the log-probability of each action, for off-policy evaluation; to a
            file.
        trust: Run code that `config.json` names by path instead of a registered name.
        overwrite: Replace an existing data set; other files are never removed.

    Returns:
        The samples, as returned by the policy's `get_train_sample`; for a file, single steps.

    Raises:
        UsageError: `collect_count` is no number, the data set exists and is not to be replaced, the
            folder contains something else, nothing can be written there, or too few episodes reach
            `min_return`.
        ConfigError: the config is invalid.
        CheckpointError: there is no valid checkpoint.
    """
    given: object = collect_count  # the places of the arguments are easily mistaken
    if not isinstance(given, int | Integral):
        raise UsageError(
            f"collect_count: expected a number of samples, got {collect_count!r}",
            hint="collect_demo_data(RUN, seed, collect_count, expert_data_path)",
        )
    target = check_target(expert_data_path, overwrite=overwrite)
    to_file = writer_of(target) is not None
    if isinstance(input_cfg, str | Path) and Path(input_cfg).is_dir():
        trained = find_policy(
            input_cfg, state_dict_path, seed=seed, overrides=overrides, trust=trust
        )
    elif state_dict_path is None:
        trained = fixed_policy(_existing(input_cfg), seed=seed, overrides=overrides)
    else:
        trained = load_policy(input_cfg, state_dict_path, seed=seed, overrides=overrides)
    wanted = Wanted(collect_count, n_episode, min_return, eps, greedy, to_file, outputs, log_prob)
    data, spaces = collected(trained, wanted)
    save_demo_data(trained, data, target, spaces)
    return data


def collect_episodic_demo_data(
    input_cfg: Any,
    seed: int | None = None,
    collect_count: int = 10,
    expert_data_path: str | Path = "demo_data.npz",
    state_dict_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    **options: Any,
) -> Batch:
    """Collects whole episodes with a policy; `collect_count` is their number.

    The arguments are those of `collect_demo_data`.
    """
    found: Batch = collect_demo_data(
        input_cfg,
        seed,
        expert_data_path=expert_data_path,
        state_dict_path=state_dict_path,
        overrides=overrides,
        n_episode=collect_count,
        **options,
    )
    return found


def collect(trained: TrainedPolicy, count: int, eps: float = 0.0) -> Batch:
    """Collects samples with a policy.

    Args:
        trained: The policy.
        count: Number of samples.
        eps: Probability of a random action, of policies with epsilon-greedy exploration.

    Raises:
        UsageError: `eps` is given, and the policy has none.
    """
    return collected(trained, Wanted(count, eps=eps))[0]


def save_demo_data(
    trained: TrainedPolicy, data: Batch, path: str | Path, spaces: tuple[object, ...] = ()
) -> None:
    """Writes samples atomically, in the format of the config's buffer, or to a file.

    Args:
        trained: The policy; its config names the buffer.
        data: The samples.
        path: The folder or file; an existing data set is replaced.
        spaces: Observation and action space, for a file.

    Raises:
        UsageError: the folder exists and contains something else.
    """
    target = check_target(path)
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


def _existing(config: Any) -> object:
    if isinstance(config, str | Path) and not Path(config).exists():
        raise UsageError(f"{config}: no such folder", hint="name a run folder")
    return config


def check_target(path: str | Path, *, overwrite: bool = True) -> Path:
    """Returns the folder or file to write to, which is new or contains demo data.

    Raises:
        UsageError: it contains something else, is not to be replaced, or is not writable.
    """
    target = Path(path)
    check_place(target, folder=target.is_dir() or not _is_file(target))
    if target.exists():
        _check_replaced(target, overwrite=overwrite)
    return target


def _is_file(target: Path) -> bool:
    return target.is_file() or writer_of(target) is not None


def _check_replaced(target: Path, *, overwrite: bool) -> None:
    """Checks that nothing but a data set is replaced, and only if that is meant."""
    if target.is_dir() or writer_of(target) is None:
        try:
            load_demo_data(target)
        except Exception as error:
            raise UsageError(
                f"{target} exists and contains other data", hint="name another folder"
            ) from error
        others = sorted({each.name for each in target.iterdir()} - {MANIFEST, TENSORS})
        if others:
            raise UsageError(
                f"{target} also contains files that are not of a data set: {', '.join(others)}",
                hint="move them, or name another folder",
            )
    if not overwrite:
        raise UsageError(
            f"{target}: there is a data set", hint="choose another --out, or --overwrite"
        )
