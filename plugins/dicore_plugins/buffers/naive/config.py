"""Options of the naive buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.errors import UsageError


@frozen(kw_only=True)
class RingConfig(ComponentConfig):
    """Options of a buffer that stores samples in a ring."""

    replay_buffer_size: int = option(
        10_000, "capacity in samples; when full, the oldest sample is overwritten", ge=1
    )
    storage: Literal["cpu", "pinned", "cuda", "mmap"] = option(
        "cpu",
        "where samples are: `cpu` memory; `pinned`: batches in page-locked memory, copied to a GPU"
        " faster; `cuda`: memory of the GPU; `mmap`: files on disk",
    )
    storage_folder: str | None = option(
        None, "`mmap`: folder of the files; None: the run's, or that of temporary files"
    )
    storage_keep: bool = option(
        False, "`mmap`: when the buffer is closed, keep its data in storage_folder/samples"
    )
    share: float | None = option(
        None,
        "fraction of each batch drawn from this buffer, if there are several; None: an equal part"
        " of what the others leave",
        gt=0,
        lt=1,
    )
    load_data: str | None = option(
        None, "file of `save_data`, or folder of storage_keep, whose samples it has at first"
    )
    debug: bool = option(
        False,
        "debugging: overwrite recycled batches so that code still holding them fails visibly",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options of the storage that contradict each other."""
        if self.storage != "mmap" and (self.storage_keep or self.storage_folder is not None):
            name = "storage_keep" if self.storage_keep else "storage_folder"
            yield name, f"has no effect with storage={self.storage}; set storage=mmap"
        elif self.storage_keep and self.storage_folder is None:
            yield "storage_keep", "set storage_folder too, where the data is kept"

    def filled(self, buffer: Any) -> Any:
        """Returns the buffer with the samples of `load_data`."""
        if self.load_data is not None:
            buffer.load_samples(self.load_data)
        return buffer

    def parts_of(self, ctx: Any) -> dict[str, Any]:
        """Returns what the buffer gets from the run, as keyword arguments."""
        run = getattr(ctx, "run", None)
        parts: dict[str, Any] = {"log": None if run is None else run.log}
        if self.storage != "cpu":
            device = getattr(ctx, "device", "cpu")
            if self.storage == "cuda" and device == "cpu":
                raise UsageError(
                    "replay_buffer.storage=cuda: the training runs on the CPU",
                    hint="set policy.cuda=true, or replay_buffer.storage=cpu",
                )
            parts |= {"device": device, "folder": None if run is None else str(run.folder)}
        return parts


@frozen(kw_only=True)
class NaiveConfig(RingConfig):
    """Stores experience first-in, first-out; samples batches uniformly."""

    keeps_priorities: ClassVar[bool] = False
    """Not inherited: a buffer derived from this one may sample by priority."""

    enable_track_used_data: bool = option(
        False, "count how often each sample is used (`use_count`); log the number of unused samples"
    )
    periodic_thruput_seconds: float | None = option(
        60.0,
        "interval of throughput logs: samples pushed and sampled per second; None: off",
        gt=0,
        unit="s",
    )

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Creates the buffer."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        return self.filled(NaiveReplayBuffer(self, **{**self.parts_of(ctx), **parts}))
