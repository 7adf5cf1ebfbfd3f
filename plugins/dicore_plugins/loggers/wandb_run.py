"""Weights & Biases, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers.child import ChildLogger, settings_of

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
        axis: Literal["env_step", "train_iter"] = "env_step",
        close_s: float = 20.0,
    ) -> None:
        super().__init__(close_s)
        self._options = {"project": project, "entity": entity, "group": group, "mode": mode}
        self._axis = axis

    def opening(self, target: LogTarget) -> dict[str, Any]:
        """Returns what the run is called at the service, and its x axis."""
        resumed = target.resumed_at is not None
        given = {**super().opening(target), **self._options}
        return {**given, "axis": self._axis, "resumed": resumed}

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Passes the metrics on."""
        if scalars:
            self.send("log", scalars=dict(scalars), env_step=env_step, train_iter=train_iter)

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
            counts, edges = np.histogram(finite, _BINS)
            histogram = {"counts": counts.tolist(), "edges": edges.tolist()}
            steps = {"env_step": env_step, "train_iter": train_iter}
            self.send("histogram", tag=tag, **histogram, **steps)


class WandbWriter:
    """Writes to the service; runs in a process of its own."""

    def __init__(self) -> None:
        self._run: Any = None

    def open(
        self,
        *,
        folder: str,
        title: str,
        axis: str,
        resumed: bool,
        **options: Any,
    ) -> None:
        """Starts the run at the service, or continues it."""
        import wandb

        place = Path(folder)
        known = place / "wandb" / "run_id.txt"
        name = known.read_text().strip() if resumed and known.is_file() else ""
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
        self._run.define_metric(axis)
        self._run.define_metric("*", step_metric=axis)

    def log(self, *, scalars: dict[str, float], env_step: int, train_iter: int) -> None:
        """Logs metrics."""
        self._run.log({**scalars, "env_step": env_step, "train_iter": train_iter})

    def histogram(
        self, *, tag: str, counts: list[int], edges: list[float], env_step: int, train_iter: int
    ) -> None:
        """Logs a histogram."""
        import wandb

        value = wandb.Histogram(np_histogram=(counts, edges))
        self._run.log({tag: value, "env_step": env_step, "train_iter": train_iter})

    def flush(self) -> None:
        """Does nothing: the service's own process writes at once."""

    def close(self) -> None:
        """Ends the run at the service."""
        if self._run is not None:
            self._run.finish()
