"""Weights & Biases, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

from dicore_plugins.loggers.child import Axis, ChildLogger, settings_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BINS: Final = 64


class WandbLogger(ChildLogger):
    """Logs a run to Weights & Biases: metrics, histograms and the config.

    `offline` writes to `log/wandb` and uses no network; `wandb sync RUN/log/wandb/offline-run-*`
    uploads it later. A resumed run continues the same run of the service, with the entries after
    its checkpoint still in it. Whatever the service does, the training does not wait for it.

    Args:
        project: Project at the service.
        entity: Account or team at the service; empty: that of the login.
        group: Name that several runs share.
        mode: `online` uploads while the run goes on.
        axis: X axis of the curves.
        close_s: Longest time in seconds that the end of a run waits for the last messages.
    """

    writer = "dicore_plugins.loggers.wandb_run:WandbWriter"

    def __init__(
        self,
        *,
        project: str = "dicore",
        entity: str = "",
        group: str = "",
        mode: Literal["offline", "online"] = "offline",
        axis: Axis = "env_step",
        close_s: float = 20.0,
    ) -> None:
        super().__init__(
            close_s, step_metric=axis, project=project, entity=entity, group=group, mode=mode
        )

    def log_histogram(
        self, tag: str, values: npt.NDArray[np.floating], *, env_step: int, train_iter: int
    ) -> None:
        """Passes a histogram of the finite values on, if there are any.

        Args:
            tag: Name of the histogram.
            values: float [...].
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
        """
        import numpy as np

        finite = values[np.isfinite(values)]
        if finite.size:
            bins, edges = np.histogram(finite, _BINS)
            counts = {"env_step": env_step, "train_iter": train_iter}
            histogram = {"bins": bins.tolist(), "edges": edges.tolist()}
            self.send("histogram", tag=tag, **histogram, counts=counts)


class WandbWriter:
    """Writes to the service; runs in a process of its own."""

    def __init__(self) -> None:
        self._run: Any = None

    def open(
        self,
        *,
        folder: str,
        title: str,
        resumed_at: list[int] | None,
        step_metric: str,
        **options: Any,
    ) -> None:
        """Starts the run at the service, or continues it."""
        import wandb

        place = Path(folder)
        known = place / "wandb" / "run_id.txt"
        name = known.read_text().strip() if resumed_at is not None and known.is_file() else ""
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
        self._run = wandb.init(
            dir=folder,
            id=name or uuid4().hex[:12],
            name=title or place.parent.name,
            config=settings_of(place),
            resume="allow",
            settings=quiet,
            **{key: value for key, value in options.items() if value},
        )
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(f"{self._run.id}\n")
        self._run.define_metric(step_metric)
        self._run.define_metric("*", step_metric=step_metric)

    def log(self, *, scalars: dict[str, float], counts: dict[str, int], **_: object) -> None:
        """Logs metrics."""
        self._run.log({**scalars, **counts})

    def histogram(
        self, *, tag: str, bins: list[int], edges: list[float], counts: dict[str, int]
    ) -> None:
        """Logs a histogram."""
        import wandb

        histogram: Any = bins, edges  # lists do as well as arrays
        self._run.log({tag: wandb.Histogram(np_histogram=histogram), **counts})

    def flush(self) -> None:
        """Does nothing: the service's own process writes at once."""

    def close(self) -> None:
        """Ends the run at the service."""
        if self._run is not None:
            self._run.finish()
