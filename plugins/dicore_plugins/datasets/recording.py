"""What is in a data set: its steps in time order, as rows of columns that may stay on disk.

Shapes: N steps, R rows of the file; `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dicore.data import Columns, Tree
from dicore.data.tree import Array, Index
from dicore.errors import DicoreError, SchemaError

__all__ = ["Recording", "Stored", "fail", "leaves", "numbers", "recording_of"]

Rows = npt.NDArray[np.int64]

ALIASES = {
    "obs": ("obs", "observations", "observation", "states"),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "terminated": ("terminated", "terminals", "terminations"),
    "truncated": ("truncated", "timeouts", "truncations"),
    "next_obs": ("next_obs", "next_observations", "next_states"),
    "end": ("end",),
    "env_id": ("env_id",),
    "value_gamma": ("value_gamma",),
}
"""Names that a column may have in a file, by ours; D4RL, Minari and dicore."""
_NEEDED = ("obs", "action", "reward", "terminated")


@dataclass(frozen=True)
class Stored:
    """A column of a file.

    Args:
        shape: [R, ...].
        dtype: Its dtype in the file.
        load: Returns it, as a memory map if the file allows it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Any


@dataclass
class Recording:
    """The steps of a data set, episode after episode.

    Args:
        file: The file, for messages.
        obs: Arrays [R, ...]; a step's observation is in row `obs_row`.
        obs_row: int64 [N].
        next_obs: Arrays [R, ...], which may be `obs`; the observation after a step is in row
            `next_row`, which means nothing after a termination.
        next_row: int64 [N].
        columns: `action` and further columns [R, ...]; those of a step are in row `row`.
        row: int64 [N].
        reward: float32 [N].
        terminated: bool [N]; the state after the step is terminal.
        episode: int64 [N]; number of the episode in the file, not falling.
        keys: Names in the file by ours.
        value_gamma: float32 [N]; the steps are n-step samples already, with this discount of the
            state after them. None: they are single steps.
        spaces: Observation and action space, if the file has them.
    """

    file: str
    obs: Tree
    obs_row: Rows
    next_obs: Tree
    next_row: Rows
    columns: dict[str, Tree]
    row: Rows
    reward: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    episode: Rows
    keys: Mapping[str, str] = field(default_factory=dict)
    value_gamma: npt.NDArray[np.float32] | None = None
    spaces: tuple[Any, Any] = (None, None)

    def __len__(self) -> int:
        return len(self.row)

    def select(self, steps: Index) -> Recording:
        """Returns some of the steps, given by a mask or by their numbers."""
        picked = {
            name: getattr(self, name)[steps]
            for name in ("obs_row", "next_row", "row", "reward", "terminated", "episode")
        }
        gamma = None if self.value_gamma is None else self.value_gamma[steps]
        return Recording(**{**vars(self), **picked, "value_gamma": gamma})


def fail(
    file: str,
    problem: str,
    *,
    key: str,
    episode: int | None = None,
    hint: str = "the file is damaged, or made in another way; write it again",
    error: type[DicoreError] = SchemaError,
) -> NoReturn:
    """Raises the error about a data set, with file, key and episode."""
    where = f"{file}: {key}" if episode is None else f"{file}: episode {episode}, {key}"
    context = {"file": file, "episode": episode, "key": key}
    raise error(f"{where}: {problem}", hint=hint, context=context)


def recording_of(
    file: str,
    stored: Mapping[str, Stored],
    columns: Mapping[str, str],
    extra: tuple[str, ...] = (),
    spaces: tuple[Any, Any] = (None, None),
) -> Recording:
    """Returns the steps of a file of columns [R, ...].

    Rows are in time order, episode after episode; with a column `env_id`, those of each environment
    are. An episode ends where `terminated`, `truncated` or `end` is true, where the next row is not
    what came after, and at the end of the file. Its last step is left out if it is not terminal and
    nothing tells what came after.

    Args:
        file: The file, for messages.
        stored: Its columns by name; nested ones as `observations/camera`.
        columns: Names in the file by ours, for those with an unusual one.
        extra: Further columns that samples have.
        spaces: Observation and action space, if the file has them.

    Raises:
        SchemaError: a column is missing or shorter than others, or has other values.
    """
    keys = _keys(file, stored, columns, extra)
    found = {name: _nested(stored, key) for name, key in keys.items()}
    _check_numbers(file, found, keys)
    _check_lengths(file, found, keys)
    order = _order(found)
    flags: dict[str, npt.NDArray[np.bool_]] = {
        name: _flags(file, found[name], keys[name])[order]
        for name in ("terminated", "truncated", "end") if name in found
    }  # fmt: skip
    ended = _ended(found, flags, order)
    obs = _load(found["obs"])
    next_obs = _load(found["next_obs"]) if "next_obs" in found else None
    if next_obs is not None and _forms(next_obs) != _forms(obs):
        fail(file, f"has {_forms(next_obs)}, the observations {_forms(obs)}", key=keys["next_obs"])
    if next_obs is not None and "value_gamma" not in found:
        ended[:-1] |= _jumps(obs, next_obs, order)
    terminated, after = flags["terminated"], np.append(order[1:], order[-1:])
    if next_obs is None:
        kept = np.flatnonzero(terminated | ~ended)
        next_row = np.where(terminated, order, after)
    else:
        kept, next_row = np.arange(len(order)), order
    reward, gamma = found["reward"], found.get("value_gamma")
    recording = Recording(
        file=file,
        obs=obs,
        obs_row=order,
        next_obs=obs if next_obs is None else next_obs,
        next_row=next_row,
        columns={name: _load(found[name]) for name in ("action", *extra)},
        row=order,
        reward=numbers(reward)[order],
        terminated=terminated,
        episode=np.cumsum(ended) - ended,
        keys=keys,
        value_gamma=None if gamma is None else numbers(gamma)[order],
        spaces=spaces,
    )
    return recording if len(kept) == len(order) else recording.select(kept)


def _keys(
    file: str, stored: Mapping[str, Any], columns: Mapping[str, str], extra: tuple[str, ...]
) -> dict[str, str]:
    """Returns the names in the file of the columns that it has."""
    names = {**ALIASES, **{name: (name,) for name in extra}}
    names |= {name: (key,) for name, key in columns.items()}
    tops = {name.partition("/")[0] for name in stored} | set(stored)
    keys, missing = {}, []
    for name, aliases in names.items():
        key = next((each for each in aliases if each in tops), None)
        if key is not None:
            keys[name] = key
        elif name in (*_NEEDED, *columns, *extra):
            missing.append(f"{name} ({', '.join(aliases)})")
    if missing:
        has = ", ".join(sorted(stored)) or "no columns"
        lacking = [each.partition(" ")[0] for each in missing]
        given = ", ".join(f'"{name}": "NAME"' for name in lacking)
        more = "; terminated excludes time limits" if "terminated" in lacking else ""
        raise SchemaError(
            f"{file}: no column {', '.join(missing)}; it has {has}",
            hint=f"give the names: pipeline.dataset.columns='{{{given}}}'{more}",
            context={"file": file, "key": lacking[0], "episode": None, "missing": lacking},
        )
    return keys


def _nested(stored: Mapping[str, Stored], key: str) -> Tree:
    """Returns a column of the file, or the dict of those below a name."""
    if key in stored:
        return stored[key]
    tree: Columns = {}
    for name, column in stored.items():
        if name.startswith(f"{key}/"):
            *above, last = name[len(key) + 1 :].split("/")
            at = tree
            for each in above:
                at = at.setdefault(each, {})
            at[last] = column
    return tree


def leaves(tree: Tree, name: str) -> list[tuple[str, Tree]]:
    """Returns the leaves of a column with their names, `name/key`."""
    if not isinstance(tree, dict):
        return [(name, tree)]
    return [leaf for key, below in tree.items() for leaf in leaves(below, f"{name}/{key}")]


def _forms(tree: Tree) -> dict[str, list[int]]:
    """Returns the shape of one item of each leaf."""
    return {name: [*leaf.shape[1:]] for name, leaf in leaves(tree, "obs")}


def _check_numbers(file: str, found: Mapping[str, Tree], keys: Mapping[str, str]) -> None:
    """Checks that columns hold numbers, and one reward for each step."""
    for ours, tree in found.items():
        for name, column in leaves(tree, keys[ours]):
            if column.dtype.kind not in "biuf":
                fail(file, f"expected numbers, got {column.dtype}", key=name)
    shape = getattr(found["reward"], "shape", (0, 0, 0))
    if len(shape) > 1 and shape[1:] != (1,):
        fail(file, f"expected one reward per step, got {[*shape[1:]]}", key=keys["reward"])


def _check_lengths(file: str, found: Mapping[str, Tree], keys: Mapping[str, str]) -> None:
    """Checks that all columns have the same number of rows."""
    counts = {
        name: column.shape[0] if column.shape else 0
        for ours, tree in found.items()
        for name, column in leaves(tree, keys[ours])
    }
    most = max(counts.values())
    short = min(counts, key=lambda name: counts[name])
    if counts[short] == most:
        return
    ends = _flags(file, found["terminated"], keys["terminated"])
    if "truncated" in found:
        other = _flags(file, found["truncated"], keys["truncated"])
        some = min(len(ends), len(other))
        ends = ends[:some] | other[:some]
    fail(
        file,
        f"cut off after {counts[short]} of {most} rows",
        key=short,
        episode=int(ends[: counts[short]].sum()),
    )


def _flags(file: str, column: Tree, key: str) -> npt.NDArray[np.bool_]:
    """Returns a column of 0 and 1 as bools."""
    values = _flat(np.asarray(column.load()))
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        row = int(wrong[0])
        fail(file, f"expected 0 or 1, got {values[row]} in row {row}", key=key)
    return values.astype(np.bool_)


def numbers(column: Stored) -> npt.NDArray[np.float32]:
    """Returns a column of rewards, [R] or [R, 1], as float32 [R]."""
    with np.errstate(over="ignore"):  # infinite numbers are reported later, with their place
        return _flat(np.asarray(column.load())).astype(np.float32)


def _flat(values: Array) -> Array:
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _order(found: Mapping[str, Tree]) -> Rows:
    """Returns the rows in time order: those of one environment after those of another."""
    if "env_id" in found:
        return np.argsort(np.asarray(found["env_id"].load()), kind="stable").astype(np.int64)
    return np.arange(found["terminated"].shape[0])


def _ended(
    found: Mapping[str, Tree], flags: Mapping[str, npt.NDArray[np.bool_]], order: Rows
) -> npt.NDArray[np.bool_]:
    """Returns which steps are the last of their episode: bool [N].

    Of n-step samples, `terminated` tells of the state n steps later.
    """
    bridged = "value_gamma" in found and "end" in flags
    ended = np.zeros(len(order), np.bool_)
    for name, each in flags.items():
        if name != "terminated" or not bridged:
            ended |= each
    if "env_id" in found:
        env_id = np.asarray(found["env_id"].load())[order]
        ended[:-1] |= env_id[1:] != env_id[:-1]
    ended[-1:] = True
    return ended


def _jumps(obs: Tree, next_obs: Tree, order: Rows) -> npt.NDArray[np.bool_]:
    """Returns after which steps but the last the next row has another observation: bool [N - 1].

    There an episode was cut off that the file does not mark.
    """
    found = np.zeros(max(len(order) - 1, 0), np.bool_)
    after = dict(leaves(next_obs, ""))
    for name, one in leaves(obs, ""):
        other = after[name]
        if hasattr(one, "packed"):
            continue
        for start in range(0, len(found), _SOME):
            rows = order[start : start + _SOME + 1]
            differs = one[rows[1:]] != other[rows[:-1]]
            found[start : start + len(rows) - 1] |= differs.reshape(len(rows) - 1, -1).any(1)
    return found


_SOME = 16_384
"""Rows that are looked at together."""


def _load(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {key: _load(below) for key, below in tree.items()}
    return tree.load()
