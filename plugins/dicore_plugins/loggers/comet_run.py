"""Comet, in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from dicore_plugins.loggers.child import Axis, ChildLogger, settings_of


class CometLogger(ChildLogger):
    """Logs a run to Comet: metrics, and the options of the config as parameters.

    `offline` writes an archive to `log/comet` at the end of the run and uses no network; `comet
    upload RUN/log/comet/*.zip` uploads it later. A resumed run continues the same experiment, with
    the entries after its checkpoint still in it; offline that is a second archive. Whatever the
    service does, the training does not wait for it.

    Args:
        project: Project at the service.
        workspace: Workspace at the service; empty: that of the login.
        mode: `online` uploads while the run goes on.
        axis: What the service shows as step.
        close_s: Longest time in seconds that the end of a run waits for the last messages.
    """

    writer = "dicore_plugins.loggers.comet_run:CometWriter"

    def __init__(
        self,
        *,
        project: str = "dicore",
        workspace: str = "",
        mode: Literal["offline", "online"] = "offline",
        axis: Axis = "env_step",
        close_s: float = 20.0,
    ) -> None:
        super().__init__(
            close_s, axis=axis, project=project, workspace=workspace, online=mode == "online"
        )


class CometWriter:
    """Writes to the service; runs in a process of its own."""

    def __init__(self) -> None:
        self._experiment: Any = None

    def open(
        self,
        *,
        folder: str,
        title: str,
        resumed_at: list[int] | None,
        project: str,
        workspace: str,
        online: bool,
    ) -> None:
        """Starts the experiment at the service, or continues it."""
        os.environ.setdefault("COMET_INTERNAL_SENTRY_DSN", "")  # it reports its errors to others
        from comet_ml import ExperimentConfig, start

        place = Path(folder)
        own = place / "comet"
        known = own / "run_id.txt"
        continued = resumed_at is not None and known.is_file()
        key = known.read_text().strip() if continued else uuid4().hex
        unasked: dict[str, Any] = dict.fromkeys(
            ("log_code", "log_graph", "parse_args", "log_git_metadata", "log_git_patch",
             "log_env_details", "auto_output_logging", "auto_param_logging", "auto_metric_logging",
             "auto_log_co2"),
            False,
        )  # fmt: skip
        self._experiment = start(
            workspace=workspace or None,
            project_name=project,
            experiment_key=key,
            mode="get" if continued else "create",
            online=online,
            experiment_config=ExperimentConfig(
                **unasked, display_summary_level=0, offline_directory=str(own),
                name=title or place.parent.name,
            ),
        )  # fmt: skip
        own.mkdir(parents=True, exist_ok=True)
        known.write_text(f"{key}\n")
        if not continued:
            self._experiment.log_parameters(settings_of(place))

    def log(self, *, scalars: dict[str, float], step: int, **_: object) -> None:
        """Logs metrics."""
        self._experiment.log_metrics(scalars, step=step)

    def flush(self) -> None:
        """Does nothing: the service's own thread writes at once."""

    def close(self) -> None:
        """Ends the experiment at the service, or writes its archive."""
        if self._experiment is not None:
            self._experiment.end()
