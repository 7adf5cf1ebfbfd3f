"""Takes the weights of a network from a file of another framework into a checkpoint of a run.

Loading executes no code: safetensors files hold tensors only, and files of torch are read by its
weights-only loader.
"""

from __future__ import annotations

import errno
import io
import pickle  # noqa: TID251 - for the error of torch's weights-only loader
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from dicore.data import State, Tree
from dicore.errors import CheckpointUnsafeError, DicoreError, UsageError
from dicore.run.checkpoint_store import CheckpointStore, checkpoint_name
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.folder import RunFolder
from dicore.run.random import seeded
from dicore_plugins.buffers.memory import available_bytes
from dicore_registry import nearest

__all__ = ["Imported", "import_weights", "read_tensors", "suggested_table"]

_SB3: Final = "policy.pth"
"""Member of the archives that Stable-Baselines3 saves."""
_OURS: Final = "imported"
_SHOWN: Final = 12
_SIZES: Final = "set the sizes of policy.model to those of the file, or correct the table"
_TURNED: Final = ".T"
_SAFE_TORCH: Final = (2, 10)
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken.

    Args:
        checkpoint: The new checkpoint.
        rows: Name here, shape and name in the file, of each tensor that was taken.
        kept: Names here that have no counterpart and keep their initial values.
        unused: Names in the file that were not taken.
    """

    checkpoint: Path
    rows: list[tuple[str, tuple[int, ...], str]]
    kept: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def import_weights(
    run: str | Path,
    file: str | Path,
    *,
    table: Mapping[str, str] | None = None,
    name: str = "imported",
    partial: bool = False,
    trust: bool = False,
) -> Imported:
    """Writes a checkpoint of a run's policy with the weights of a file.

    Target networks get the same weights; the optimizer starts anew. `dicore eval RUN --load-path
    imported` evaluates it, and the learner hook `load_ckpt` trains from it.

    Args:
        run: The run folder; its config describes the policy.
        file: A file of safetensors or of torch, or an archive of Stable-Baselines3.
        table: Names in the file by names here. `a.*: b.*` stands for all names that begin so, and
            a name with `.T` at its end for the transposed tensor. None: equal names.
        name: Name of the checkpoint.
        partial: Tensors without a counterpart keep their initial values.
        trust: Run code that `config.json` names by path instead of a registered name.

    Raises:
        UsageError: the file cannot be read, names or shapes do not match, or training wrote a
            checkpoint of this name.
        RunLockedError: the run is being trained.
        CheckpointUnsafeError: the file would have to run code, or the name is none of a folder.
    """
    theirs = read_tensors(file)
    _check_name(run, name)
    with _policy_of(run, trust) as policy:
        ours = dict(_leaves(policy.eval_mode.state_dict()))
        pairs = _pairs(ours, theirs, table)
        missing = [own for own in ours if own not in pairs]
        if missing and not (partial and pairs):
            raise _unmatched(missing, ours, theirs, pairs)
        _check_shapes(pairs, ours, theirs)
        state = policy.learn_mode.state_dict()
        for own, other in pairs.items():
            for tensor in _copies(state, own, ours[own]):
                tensor.copy_(_found(other, theirs).to(tensor.dtype))
        place = _save(run, name, {"policy": state, "last_iter": 0, "last_step": 0})
    rows = [(own, tuple(ours[own].shape), other) for own, other in pairs.items()]
    used = {other.removesuffix(_TURNED) for other in pairs.values()} | set(pairs.values())
    return Imported(place, rows, missing, [each for each in theirs if each not in used])


def _check_name(run: str | Path, name: str) -> None:
    """Raises UsageError if the checkpoint of this name is one of training."""
    store = CheckpointStore(RunFolder.open(run).checkpoints)
    name = checkpoint_name(name)
    if name != _OURS and name in store.names() and _OURS not in store.metadata(name):
        raise UsageError(
            f"{store.folder / name} exists and holds what the run has trained",
            hint="choose another --name (name= in Python)",
        )


def _save(run: str | Path, name: str, learner: dict[str, Any]) -> Path:
    """Writes a checkpoint of the learner alone; all others stay.

    Raises:
        RunLockedError: the run is being trained.
    """
    folder = RunFolder.open(run)
    folder.lock()
    try:
        store = CheckpointStore(folder.checkpoints, keep=sys.maxsize, metadata={_OURS: True})
        return store.save(name, {"learner": learner})
    finally:
        folder.unlock()


def suggested_table(run: str | Path, file: str | Path, *, trust: bool = False) -> dict[str, str]:
    """Returns a table to check by eye: tensors of equal shape, in the order of both sides.

    Args:
        run: The run folder.
        file: The file with tensors.
        trust: Run code that `config.json` names by path instead of a registered name.

    Raises:
        UsageError: the file cannot be read.
    """
    free = {name: tuple(tensor.shape) for name, tensor in read_tensors(file).items()}
    table: dict[str, str] = {}
    with _policy_of(run, trust) as policy:
        ours = dict(_leaves(policy.eval_mode.state_dict()))
    for own, tensor in ours.items():
        shape = tuple(tensor.shape)
        turned = shape[::-1] if len(shape) == 2 else None
        found = own if free.get(own) == shape else next(
            (other for other, its in free.items() if its == shape), None)  # fmt: skip
        if found is not None:
            table[own] = found
        else:
            found = next((other for other, its in free.items() if its == turned), None)
            table[own] = "" if found is None else found + _TURNED
        if found is not None:
            del free[found]
    return table


def read_tensors(file: str | Path) -> Tensors:
    """Returns the tensors of a file by name; nested names are joined by dots.

    Args:
        file: `.safetensors`, a file of `torch.save`, or an archive of Stable-Baselines3.

    Raises:
        UsageError: it cannot be read, or has no tensors.
        CheckpointUnsafeError: reading it would run code.
    """
    path = Path(file)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: Any = load_file(path)
        else:
            _check_torch(path)
            with warnings.catch_warnings(action="ignore"):  # of pickles by others than torch
                content = torch.load(  # noqa: TID251 - weights only: runs no code
                    _opened(path), map_location="cpu", weights_only=True
                )
        if isinstance(content, tuple | list):  # of several networks
            content = dict(enumerate(content))
        tensors = dict(_leaves(content))
    except pickle.UnpicklingError as error:
        raise CheckpointUnsafeError(
            f"{path}: torch's weights-only loader refuses it: it is damaged, or reading it would"
            " run code, because it holds more than tensors",
            hint="save only its state dict (torch.save(model.state_dict(), FILE)), or safetensors",
        ) from error
    except DicoreError:
        raise
    except Exception as error:  # of a broken file: whatever the reader raises
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        what = "not a file of tensors, or a damaged one" if path.stat().st_size else "is empty"
        raise UsageError(
            f"{path}: {what}", hint="expected safetensors, or what torch.save wrote"
        ) from error
    if not tensors or "" in tensors:
        what = "is one tensor without a name" if tensors else "has no tensors"
        raise UsageError(f"{path}: {what}", hint="save a state dict: tensors by name")
    for name, each in tensors.items():
        if each.layout is not torch.strided or each.is_quantized or each.is_meta:
            raise UsageError(
                f"{path}: {name} is sparse, quantized or without values",
                hint="save tensors in their plain form: to_dense(), dequantize()",
            )
    return tensors


def _check_torch(path: Path) -> None:
    """Refuses an old torch, whose weights-only loader can be made to run code (CVE-2026-24747)."""
    version = tuple(int(part) for part in str(torch.__version__).split(".")[:2])
    if version < _SAFE_TORCH:
        raise CheckpointUnsafeError(
            f"{path}: torch {torch.__version__} may run code when it reads it (CVE-2026-24747)",
            hint="pip install 'torch>=2.10'; or save it as safetensors",
        )


def _opened(path: Path) -> Any:
    """Returns what torch.load reads: the file, or the weights in an archive."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a file")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if _SB3 in archive.namelist():
                size, free = archive.getinfo(_SB3).file_size, available_bytes()
                if free is not None and size > free:
                    raise UsageError(
                        f"{path}: {_SB3} says that it has {size >> 20} MiB; {free >> 20} MiB of"
                        " memory are available"
                    )
                return io.BytesIO(archive.read(_SB3))
    path.stat()
    return path


class _policy_of:  # noqa: N801 - a context manager, used like a function
    """Builds the policy of a run, with its random generators restored afterwards."""

    def __init__(self, run: str | Path, trust: bool) -> None:
        from dicore.config import bind, compile_config

        names_only = False if trust else None
        self._compiled = compile_config(str(RunFolder.open(run).config), names_only=names_only)
        self._spec = spec_of(self._compiled.env, self._compiled.seed)
        self._compiled = bind(self._compiled, self._spec)
        self._seeded = seeded(self._compiled.seed)

    def __enter__(self) -> Any:
        self._seeded.__enter__()
        context = BuildContext(self._spec, seed=self._compiled.seed)
        return self._compiled.policy.build(context)

    def __exit__(self, *error: Any) -> None:
        self._seeded.__exit__(*error)


def _leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yields path and tensor of nested dicts; arrays become tensors, other values are left out."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, torch.Tensor):
        yield path, tree.detach()
    elif hasattr(tree, "__array__") and getattr(tree, "ndim", False):
        yield path, torch.as_tensor(tree)


def _pairs(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], table: Mapping[str, str] | None
) -> dict[str, str]:
    """Returns names in the file by names here.

    Raises:
        UsageError: a row of the table names nothing.
    """
    if table is None:
        short = {own: own.removeprefix("model.") for own in ours}
        return {own: name for own, other in short.items() for name in (own, other)
                if name in theirs}  # fmt: skip
    pairs: dict[str, str] = {}
    for own, other in table.items():
        if not other:
            continue
        if own.endswith("*") and str(other).endswith("*"):
            known = [name for name in ours if name.startswith(own[:-1])]
            rows = {name: str(other)[:-1] + name[len(own) - 1 :] for name in known}
            rows = {name: there for name, there in rows.items() if there in theirs}
        else:
            known = [own] if own in ours else []
            rows = {own: str(other)}
        if not known or not rows:
            raise _no_such(own, str(other), ours if not known else theirs, here=not known)
        for there in rows.values():
            if there not in theirs and there.removesuffix(_TURNED) not in theirs:
                raise _no_such(own, there, theirs, here=False)
        pairs |= rows
    return pairs


def _no_such(own: str, other: str, known: Mapping[str, Any], *, here: bool) -> UsageError:
    name = own if here else other
    close = nearest(name, list(known))
    hint = f"did you mean '{close}'?" if close else f"there are {', '.join([*known][:_SHOWN])}"
    place = "the policy" if here else "the file"
    return UsageError(f"row '{own}: {other}' of the table: {place} has no '{name}'", hint=hint)


def _found(other: str, theirs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if other in theirs:
        return theirs[other]
    return theirs[other.removesuffix(_TURNED)].mT


def _check_shapes(pairs: Mapping[str, str], ours: Tensors, theirs: Tensors) -> None:
    wrong = []
    hint = "save real, finite numbers: an earlier checkpoint, if training diverged"
    for own, other in pairs.items():
        if other not in theirs and theirs[other.removesuffix(_TURNED)].ndim != 2:
            wrong.append(f"{other}: only matrices can be transposed")
            hint = _SIZES
            continue
        there, here = [*_found(other, theirs).shape], [*ours[own].shape]
        if there != here:
            wrong.append(f"{own} is {here} here, {other} is {there} in the file")
            hint = _SIZES
        elif _found(other, theirs).is_complex() and not ours[own].is_complex():
            wrong.append(f"{other} has complex numbers")
        elif not bool(torch.isfinite(_found(other, theirs).float()).all()):
            wrong.append(f"{other} has values that are not finite")
    if wrong:
        raise UsageError("; ".join(wrong[:_SHOWN]), hint=hint)


def _unmatched(
    missing: list[str], ours: Tensors, theirs: Tensors, pairs: Mapping[str, str]
) -> UsageError:
    used = set(pairs.values())
    here = ", ".join(f"{name} {[*ours[name].shape]}" for name in missing[:_SHOWN])
    free = [name for name in theirs if name not in used]
    there = ", ".join(f"{name} {[*theirs[name].shape]}" for name in free[:_SHOWN]) or "nothing else"
    return UsageError(
        f"no weights for {len(missing)} of {len(ours)} tensors: {here}; the file has {there}",
        hint="--suggest table.yaml writes a table to correct, --table table.yaml uses it;"
        " --partial keeps initial values",
    )


def _copies(state: State, own: str, like: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensor of a name, and those of networks that follow it.

    These have a tensor of the same name and shape: `target_model`, `average_model`.
    """
    first, _, rest = own.partition(".")
    for key, part in state.items():
        if key != first and not (isinstance(part, Mapping) and rest):
            continue
        found: Tree = part
        for word in _words(found, rest):
            found = found[word]
        if isinstance(found, torch.Tensor) and found.shape == like.shape:
            yield found


def _words(tree: Tree, path: str) -> Iterator[str]:
    """Yields the keys that lead along a path of dotted names through nested dicts."""
    while isinstance(tree, Mapping) and path:
        key = next((key for key in tree if path == key or path.startswith(f"{key}.")), None)
        if key is None:
            return
        yield key
        tree, path = tree[key], path[len(key) + 1 :]
