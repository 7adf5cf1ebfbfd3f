"""MLflow, in a process of its own."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dicore.values import Tree
from dicore_plugins.loggers.child import Axis, ChildLogger, settings_of
from dicore_registry import code_paths

_MAX_BATCH: Final = 500
"""Metrics of one request; the service allows 1000."""
_MAX_WAIT_S: Final = 2.0
_MAX_VALUE: Final = 500
"""Characters of a parameter; the service allows 6000, older versions 500."""
_FOREIGN: Final = re.compile(r"[^\w\-. /:]")
"""Characters that names of metrics must not have."""


class MlflowLogger(ChildLogger):
    """Logs a run to MLflow: metrics, and the options of the config as parameters.

    Without an address it writes to `log/mlflow` and uses no network. Its page shows that folder:
    `MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri RUN/log/mlflow`. A resumed run
    continues the same run of the service, with the entries after its checkpoint still in it.
    Whatever the service does, the training does not wait for it.

    Args:
        tracking_uri: Address of the tracking server or database; empty: the folder `log/mlflow`.
        experiment: Name of the experiment, which is made if there is none.
        axis: What the service shows as step.
        close_s: Longest time in seconds that the end of a run waits for the last messages.
    """

    writer = "dicore_plugins.loggers.mlflow_run:MlflowWriter"

    def __init__(
        self,
        *,
        tracking_uri: str = "",
        experiment: str = "dicore",
        axis: Axis = "env_step",
        close_s: float = 20.0,
    ) -> None:
        if tracking_uri:  # a saved config does not choose who gets the options and metrics
            code_paths.check(tracking_uri, "pipeline.logger.tracking_uri")
        super().__init__(close_s, axis=axis, tracking_uri=tracking_uri, experiment=experiment)


class MlflowWriter:
    """Writes to the service; runs in a process of its own."""

    def __init__(self) -> None:
        self._client: Any = None
        self._run_id = ""
        self._metrics: list[Any] = []
        self._sent = time.monotonic()

    def open(
        self,
        *,
        folder: str,
        title: str,
        resumed_at: list[int] | None,
        tracking_uri: str,
        experiment: str,
    ) -> None:
        """Starts the run at the service, or continues it."""
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        place = Path(folder)
        own = place / "mlflow"
        known = own / "run_id.txt"
        self._client = MlflowClient(tracking_uri or own.resolve().as_uri())
        if resumed_at is not None and known.is_file():
            self._run_id = known.read_text().strip()
            self._client.update_run(self._run_id, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(experiment)
        group = found.experiment_id if found else self._client.create_experiment(experiment)
        name = title or place.parent.name
        self._run_id = self._client.create_run(group, run_name=name).info.run_id
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(f"{self._run_id}\n")
        params = [Param(_name(key), value) for key, value in _leaves(settings_of(place))]
        for begin in range(0, len(params), 100):
            self._client.log_batch(self._run_id, params=params[begin : begin + 100])

    def log(self, *, scalars: dict[str, float], step: int, when: int, **_: object) -> None:
        """Logs metrics, several steps in one request."""
        from mlflow.entities import Metric

        self._metrics += [Metric(_name(tag), scalars[tag], when, step) for tag in scalars]
        if len(self._metrics) >= _MAX_BATCH or time.monotonic() - self._sent > _MAX_WAIT_S:
            self.flush()

    def flush(self) -> None:
        """Sends the metrics that wait."""
        while self._metrics:
            self._client.log_batch(self._run_id, metrics=self._metrics[:_MAX_BATCH])
            del self._metrics[:_MAX_BATCH]
        self._sent = time.monotonic()

    def close(self) -> None:
        """Sends the rest and ends the run at the service."""
        if self._client is not None:
            self.flush()
            self._client.set_terminated(self._run_id)


def _name(text: str) -> str:
    return _FOREIGN.sub("_", text)


def _leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields path and text of each value of nested options."""
    if not isinstance(tree, Mapping) or not tree:
        if path:
            yield path, str(tree)[:_MAX_VALUE]
        return
    for key, value in tree.items():
        yield from _leaves(value, f"{path}.{key}" if path else str(key))
