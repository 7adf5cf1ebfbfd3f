"""Compares the files of a run with those of its repetition: checkpoints, result, config files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dicore import __version__
from dicore.data import tree_paths
from dicore.run import CheckpointStore, RunFolder
from dicore.run.atomic import read_json, read_regular

__all__ = [
    "CLOCK", "changed_checkpoint", "changed_config_file", "changed_result", "chosen_of", "same",
]  # fmt: skip

CLOCK: Final = re.compile(r"time|per_sec|waited|_s$|_s_|seconds|^usage/|failed_saves")
"""Names of what the clock measures, which no training repeats."""
_EXACT: Final = ("learner.policy", "streams.numpy.", "streams.torch")
"""Parts of a checkpoint that must be equal: parameters, optimizers, random streams.

Not the streams of `random` and of `numpy.random`: some packages draw from these when they are first
imported, which is before the second training of a process.
"""
_INEXACT: Final = ("streams.", "run.", "learner.log.")
"""Parts whose arrays may differ: those streams, and clocks. All other arrays must be equal."""
_COUNTS: Final = ("train_iter", "env_step")
_BUDGET: Final = re.compile(r"\b(max_env_step|max_train_iter)('?\s*[:=]\s*)(?:\d+|None)\b")
"""Budgets in the Python forms of a config."""
_CONFIG_FILES: Final = ("total_config.py", "formatted_total_config.py")


def changed_checkpoint(
    one: RunFolder, two: RunFolder, *, resumed: bool = False
) -> tuple[str, list[str]]:
    """Compares each checkpoint of a run with that of the same name of the repetition.

    Args:
        one: The run.
        two: Its repetition.
        resumed: The run was interrupted and resumed: a checkpoint that the repetition lacks may be
            of the interruption. It is not compared, and is no difference.

    Returns:
        The first difference ("": none), and the files that were compared.

    Raises:
        CheckpointError: a checkpoint cannot be read, or there is no `final`.
    """
    stores = [CheckpointStore(folder.checkpoints) for folder in (one, two)]
    names, others = (store.names() for store in stores)
    files: list[str] = []
    for name in ["final", *sorted({*names} - {"final"})]:
        if name != "final" and name not in others:
            if resumed:
                continue
            return f"checkpoint '{name}': the repeated training has none of this name", files
        if part := _changed_state(*(store.load(name) for store in stores)):
            return f"checkpoint '{name}': {part} differs", files
        counts = [[store.metadata(name).get(each) for each in _COUNTS] for store in stores]
        if counts[0] != counts[1]:
            return f"checkpoint '{name}': env step or update differs", files
        files += [f"ckpt/{name}/{each}" for each in ("manifest.json", "tensors.safetensors")]
    return "", files


def _changed_state(one: object, two: object) -> str:
    """Returns the first part that differs."""
    flat = [dict(tree_paths(state)) for state in (one, two)]
    paths = flat[0].keys() | flat[1].keys()
    for path in sorted(paths, key=lambda path: (not path.startswith(_EXACT), path)):
        leaf, other = (each.get(path) for each in flat)
        if not path.startswith(_EXACT) and (
            path.startswith(_INEXACT) or not (hasattr(leaf, "dtype") or hasattr(other, "dtype"))
        ):
            continue
        if type(leaf) is not type(other) or not _equal(leaf, other):
            return path
    return ""


def _equal(one: Any, two: Any) -> bool:
    if not hasattr(one, "dtype"):
        return same(one, two)
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool(((one == two) | ((one != one) & (two != two))).all())  # noqa: PLR0124 - NaN


def same(one: Any, two: Any) -> bool:
    """Returns whether two plain values are equal, or both NaN."""
    return bool(one == two or (one != one and two != two))  # noqa: PLR0124 - NaN


def changed_result(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    """Returns the first member of `result`, times aside, or `seed`, that differs in `run.json`."""
    results = [{**(each.get("result") or {}), "seed": each.get("seed")} for each in (one, two)]
    for name in {**results[0], **results[1]}:
        had, has = (each.get(name) for each in results)
        if not CLOCK.search(name) and not same(had, has):
            return f"run.json: {name} was {had!r}, is {has!r}"
    return ""


def changed_config_file(
    one: RunFolder, two: RunFolder, *, resumed: bool = False
) -> tuple[str, list[str]]:
    """Compares the Python forms of the config, except the name of the folder.

    Of a run of another version of dicore they are not compared: that may have other options.

    Args:
        one: The run.
        two: Its repetition.
        resumed: The run was resumed: its files keep the budgets that it began with.

    Returns:
        The first difference ("": none), and the files that were compared.
    """
    saved = [read_json(folder.config) for folder in (one, two)]
    if saved[0].get("dicore") != __version__:
        return "", []
    names = [repr(each["config"].get("exp_name")) for each in saved]
    files: list[str] = []
    for name in _CONFIG_FILES:
        texts = []
        for folder, exp_name in zip((one, two), names, strict=True):
            path = folder.path / name
            text = read_regular(path).decode("utf-8", "replace") if path.is_file() else None
            text = text and text.replace(exp_name, "EXP_NAME", 1)
            texts.append(_BUDGET.sub(r"\1\2BUDGET", text) if text and resumed else text)
        if texts[0] is None:
            continue
        if texts[0] != texts[1]:
            return f"{name}: not what the repeated training writes", files
        files.append(name)
    return "", files


def chosen_of(record: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns what the run took for the options that were `auto`; nothing else of a record."""
    found = record.get("chosen")
    taken = {
        path: found[path].get("took")
        for path in ("policy.learn.autocast", "env.manager.type")
        if isinstance(found, Mapping) and isinstance(found.get(path), Mapping)
    }
    return {path: name for path, name in taken.items() if name is None or str(name).isidentifier()}
