"""Options of data sets: where one is, which part of it is used, and how samples are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.schema import ComponentConfig, fields_of, frozen, option
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset

__all__ = [
    "AutoConfig", "CollectedConfig", "DatasetConfig", "HDF5Config", "MinariConfig", "NpzConfig",
    "TableConfig", "reader_of",
]  # fmt: skip

_DERIVED = ("return_to_go", "timestep", "steps_to_go", "discounted_return", "next_action")
_NAMES = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "end", "env_id")


@frozen(kw_only=True)
class DatasetConfig(ComponentConfig):
    """Options that every data set takes."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of files that `write` writes."""

    path: str = option("", "the file or folder; required")
    episodes: int | None = option(None, "use only this many episodes; None: all", ge=1)
    fraction: float = option(1.0, "use only this share of the episodes", gt=0, le=1)
    shuffle: bool = option(
        False, "with episodes or fraction: choose them at random by the seed; False: the first ones"
    )
    nstep: int = option(1, "n of n-step returns", ge=1, unit="env steps", follows="policy.nstep")
    discount_factor: float = option(
        0.99, "discount of n-step returns", ge=0, le=1, follows="policy.discount_factor"
    )
    reward_scale: float = option(
        1.0,
        "factor of the rewards of samples; lower it if returns are far above 1, which Q networks"
        " learn slowly; returns and return_to_go stay those of the environment",
        gt=0,
        lt=float("inf"),
    )
    unroll_len: int = option(
        1,
        "steps of a sample; above 1, samples are sequences of steps of one episode [B, L, ...]",
        ge=1,
        unit="env steps",
    )
    stride: int = option(
        1,
        "with unroll_len: steps between the starts of two sequences of an episode",
        ge=1,
        unit="env steps",
    )
    derived: tuple[str, ...] = option(
        (),
        "columns to compute: `return_to_go` (undiscounted rewards from a step to the end of its"
        " episode), `timestep` (steps since its start), `steps_to_go` (steps until its last one),"
        " `discounted_return` (as samples have them, with discount_factor), `next_action` (NaN"
        " after the last step of an episode)",
    )

    def absent(self) -> str | None:
        """Returns why nothing is at the path; None if there is something, or opening it tells."""
        if not self.path:
            return "required: the recorded steps"
        found = Path(self.path).expanduser().exists()
        return None if found else f"{self.path}: no such file or folder"

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        if self.episodes is not None and self.fraction < 1:
            yield "fraction", f"must be 1 if episodes is given, got {self.fraction}"
        if self.stride > self.unroll_len:
            yield "stride", f"must be <= unroll_len ({self.unroll_len}), got {self.stride}"
        for name in self.derived:
            if name not in _DERIVED:
                yield "derived", f"'{name}': expected {' or '.join(_DERIVED)}"


@frozen(kw_only=True)
class TableConfig(DatasetConfig):
    """Options of files with columns by name."""

    columns: dict[str, str] = option(
        {}, "names in the file of obs, action, reward, terminated, truncated, next_obs …"
    )
    extra: tuple[str, ...] = option((), "further columns that samples have (action_mask, …)")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other, and unknown columns."""
        yield from super().check()
        for name in self.columns:
            if name not in _NAMES:
                yield f"columns.{name}", f"expected one of {', '.join(_NAMES)}"


@frozen(kw_only=True)
class NpzConfig(TableConfig):
    """Reads a NumPy archive with one array per column; memory-mapped if it is not compressed."""

    suffixes: ClassVar[tuple[str, ...]] = (".npz",)

    def build(self, ctx: BuildContext | None, **parts: Any) -> IDataset:
        """Opens the file."""
        from dicore_plugins.datasets.npz import NpzDataset

        return NpzDataset(self, **_spaces(ctx), **parts)

    @staticmethod
    def write(path: str | Path, columns: Tree, *spaces: Any) -> None:
        """Writes columns to a file; see `write_npz`."""
        from dicore_plugins.datasets.npz import write_npz

        write_npz(path, columns, *spaces)


@frozen(kw_only=True)
class HDF5Config(TableConfig):
    """Reads an HDF5 file in the layout of D4RL (Fu et al. 2020) or with columns of other names."""

    suffixes: ClassVar[tuple[str, ...]] = (".hdf5", ".h5")

    def build(self, ctx: BuildContext | None, **parts: Any) -> IDataset:
        """Opens the file."""
        from dicore_plugins.datasets.hdf5 import HDF5Dataset

        return HDF5Dataset(self, **_spaces(ctx), **parts)

    @staticmethod
    def write(path: str | Path, columns: Tree, *spaces: Any) -> None:
        """Writes columns to a file; see `write_hdf5`."""
        from dicore_plugins.datasets.hdf5 import write_hdf5

        write_hdf5(path, columns, *spaces)


@frozen(kw_only=True)
class MinariConfig(DatasetConfig):
    """Reads a local data set of Minari; nothing is downloaded."""

    path: str = option("", "id of a local data set (`minari list local`), or its folder; required")

    def absent(self) -> str | None:
        """Returns None if a path is given: ids are looked up when a data set is opened."""
        return None if self.path else DatasetConfig.absent(self)

    def build(self, ctx: BuildContext | None, **parts: Any) -> IDataset:
        """Opens the data set."""
        from dicore_plugins.datasets.minari_data import MinariDataset

        return MinariDataset(self, **_spaces(ctx), **parts)


@frozen(kw_only=True)
class CollectedConfig(DatasetConfig):
    """Reads a folder that `dicore collect` or a buffer's `save_data` wrote; memory-mapped."""

    path: str = option("", "the folder; required")

    def absent(self) -> str | None:
        """Returns why nothing is at the path; see `DatasetConfig`."""
        folder = Path(self.path).expanduser()
        if self.path and folder.is_dir() and not (folder / "manifest.json").is_file():
            return f"{self.path}: no samples in this folder"
        return DatasetConfig.absent(self)

    def build(self, ctx: BuildContext | None, **parts: Any) -> IDataset:
        """Opens the folder."""
        from dicore_plugins.datasets.collected import CollectedDataset

        return CollectedDataset(self, **_spaces(ctx), **parts)


@frozen(kw_only=True)
class AutoConfig(TableConfig):
    """Reads a data set in the format that its path tells; the default.

    A file by its ending (.npz, .hdf5, .h5, or that of another `dataset` component), a folder of
    Minari or of `dicore collect`, or the id of a local data set of Minari (`cartpole/expert-v0`).
    """

    path: str = option("", "file, folder, or id of a local data set of Minari; required")

    def build(self, ctx: BuildContext | None, **parts: object) -> IDataset:
        """Opens the data set.

        Raises:
            UsageError: no component reads files of this ending, or an option is not for the format.
        """
        cls = self._format()
        names = fields_of(cls)
        for name in ("columns", "extra"):
            if self[name] and name not in names:
                raise UsageError(
                    f"{self.path}: {name} is for files with columns by name (.npz, .hdf5)",
                    hint=f"remove pipeline.dataset.{name}",
                )
        options = {name: self[name] for name in names if name in self and name != "type"}
        dataset: IDataset = cls(**options).build(ctx, **parts)
        return dataset

    def absent(self) -> str | None:
        """Returns why nothing is at the path; see `DatasetConfig`."""
        if re.search(r"-v\d+$", self.path):
            return None
        if problem := DatasetConfig.absent(self):
            return problem
        try:
            found: Tree = self._format()(path=self.path)
        except UsageError as error:
            return error.message
        absent: str | None = getattr(found, "absent", lambda: None)()  # of another package
        return absent

    def _format(self) -> type[DatasetConfig]:
        path = Path(self.path).expanduser()
        if path.is_dir():
            minari = any(
                (path / each).is_file() for each in ("metadata.json", "data/metadata.json")
            )
            return MinariConfig if minari else CollectedConfig
        if not path.exists() and re.search(r"-v\d+$", self.path):
            return MinariConfig
        suffix = path.suffix.lower()
        return reader_of(suffix, self.path) if suffix else CollectedConfig


def reader_of(suffix: str, path: str) -> Any:
    """Returns the config class of the component that reads files with an ending.

    Args:
        suffix: The ending, in lower case.
        path: The file, for the message.

    Raises:
        UsageError: there is none.
    """
    from dicore_registry import default
    from dicore_registry.importing import import_target

    endings: set[str] = set()
    for entry in default().entries("dataset"):
        try:
            found = import_target(entry.module, entry.attr)
        except Exception:  # noqa: S112 - of another package; `dicore list` tells what is wrong
            continue
        if suffix in (suffixes := getattr(found, "suffixes", ())):
            return default().load(entry)
        endings.update(suffixes)
    raise UsageError(
        f"{path}: no component reads {suffix} files; expected {', '.join(sorted(endings))}",
        hint="set pipeline.dataset.type (dicore list dataset)",
    )


def _spaces(ctx: BuildContext | None) -> dict[str, Any]:
    """Returns what a data set takes of the context."""
    if ctx is None:
        return {}
    return {
        "observation_space": ctx.observation_space,
        "action_space": ctx.action_space,
        "seed": ctx.seed,
    }
