"""Options of the naive buffer, and those that several buffers have.

A function declares an option, which a config class gives a name: `max_use: float = max_use()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer


_INF = float("inf")


def share_option() -> Any:
    """Declares `share`."""
    return option(
        None,
        "fraction of each batch drawn from this buffer, if there are several; None: an equal part"
        " of what the others leave",
        gt=0,
        le=1,
    )


def share_updates_option() -> Any:
    """Declares `share_updates`."""
    return option(
        None, "gradient updates in which `share` falls linearly to 0; None: it stays", ge=1
    )


def debug_option() -> Any:
    """Declares `debug`."""
    return option(
        False, "debugging: overwrite recycled batches so that code still holding them fails visibly"
    )


def alpha_option(default: float = 0.6) -> Any:
    """Declares `alpha`."""
    help_ = "exponent of priorities; 0: uniform sampling, 1: proportional"
    return option(default, help_, ge=0, le=10)


def beta_option(default: float = 0.4) -> Any:
    """Declares `beta`."""
    help_ = "initial exponent of importance-sampling weights; 1: full correction"
    return option(default, help_, ge=0, le=1)


def anneal_option(default: int = 100_000) -> Any:
    """Declares `anneal_step`."""
    help_ = "beta rises linearly to 1 in this many draws; 0: it is constant"
    return option(default, help_, ge=0, unit="draws")


def eps_option() -> Any:
    """Declares `priority_eps`."""
    return option(1e-5, "added to each priority, so that none is 0", gt=0)


def kernels_option() -> Any:
    """Declares `kernels`."""
    return option("auto", "`numba` is faster and draws the same; `auto` uses it if it is installed")


def max_use_option() -> Any:
    """Declares `max_use`."""
    help_ = "remove samples after this many draws; inf: no limit"
    return option(_INF, help_, ge=1, unit="draws")


def max_staleness_option() -> Any:
    """Declares `max_staleness`."""
    help_ = "remove samples that were collected this many updates ago; inf: no limit"
    return option(_INF, help_, gt=0, unit="updates")


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
    share: float | None = share_option()
    share_updates: int | None = share_updates_option()
    load_data: str | None = option(
        None, "file of `save_data`, or folder of storage_keep, whose samples it has at first"
    )
    debug: bool = debug_option()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options of the storage that contradict each other."""
        if self.storage != "mmap" and (self.storage_keep or self.storage_folder is not None):
            name = "storage_keep" if self.storage_keep else "storage_folder"
            yield name, f"has no effect with storage={self.storage}; set storage=mmap"
        elif self.storage_keep and self.storage_folder is None:
            yield "storage_keep", "set storage_folder too, where the data is kept"

    def filled(self, buffer: NaiveReplayBuffer) -> NaiveReplayBuffer:
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

    def build(self, ctx: BuildContext | None, **parts: object) -> IBuffer:
        """Creates the buffer."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        return self.filled(NaiveReplayBuffer(self, **{**self.parts_of(ctx), **parts}))
