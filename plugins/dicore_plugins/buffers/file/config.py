"""Options of the file buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import (
    max_staleness_option,
    max_use_option,
    share_option,
    share_updates_option,
)

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer


__all__ = ["FileConfig"]


@frozen(kw_only=True)
class FileConfig(ComponentConfig):
    """Stores samples in files and their meta data in memory; samples uniformly."""

    keeps_priorities: ClassVar[bool] = False

    replay_buffer_size: int = option(
        10_000, "capacity in samples; when full, the oldest sample is removed", ge=1
    )
    folder: str | None = option(
        None,
        "folder of the files, of this buffer alone; None: `replay_buffer` in the run folder, or a"
        " temporary folder without a run",
    )
    existing: Literal["refuse", "load", "delete"] = option(
        "refuse", "what to do with the files that an earlier buffer left in `folder`"
    )
    samples_per_file: int = option(
        1,
        "samples per file; raise it for small samples: fewer files, which go when all their samples"
        " have left",
        ge=1,
    )
    max_use: float = max_use_option()
    max_staleness: float = max_staleness_option()
    share: float | None = share_option()
    share_updates: int | None = share_updates_option()
    enable_track_used_data: bool = option(
        False, "delete files in a background thread, so that neither push nor sample waits for it"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> IBuffer:
        """Creates the buffer."""
        import attrs

        from dicore_plugins.buffers.file.buffer import FileReplayBuffer

        run, cfg = getattr(ctx, "run", None), self
        if run is not None and self.folder is None:
            folder = str(run.folder.path / "replay_buffer")
            cfg = attrs.evolve(self, folder=folder, existing="delete")
        return FileReplayBuffer(cfg, **parts)
