"""Evidence of runs that were never made: config, curves and checkpoint as a rule sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.run.folder import RunFolder
from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.reports.run_data import RunData

__all__ = ["Recorded"]


class Recorded:
    """Makes evidence.

    Args:
        folder: A folder, which stays empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = RunFolder(folder)

    def __call__(
        self,
        options: Mapping[str, object] | None = None,
        curves: Mapping[str, Sequence[float]] | None = None,
        state: Mapping[str, Any] | None = None,
        env_step: int = 2_000,
        updates: int = 2_000,
        goes_on: bool = False,
    ) -> Evidence:
        """Returns the evidence of options by key path, values by metric, and a state.

        A run that goes on has no budget.
        """
        config: dict[str, Any] = {}
        for path, value in (options or {}).items():
            *folders, name = path.split(".")
            section = config
            for key in folders:
                section = section.setdefault(key, {})
            section[name] = value
        columns = {}
        for tag, values in (curves or {}).items():
            share = np.linspace(0, 1, len(values) + 1)[1:]
            columns[tag] = np.stack(
                [share * env_step, share * updates, share, np.asarray(values, np.float64)], 1
            )
        record: dict[str, Any] = {
            "limits": {"max_env_step": env_step},
            "result": {"env_step": env_step, "train_iter": updates},
        }
        if goes_on:
            record |= {"status": "running", "limits": {}, "host": "elsewhere"}
            self._folder.metadata.touch()
        return Evidence(RunData(self._folder, record, config, columns), state)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)
