"""Recorded samples: what `dicore collect` wrote, or an `.npz` file with one array per column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Batch
from dicore_tools.demo_dataset import load_demo_data


class Recorded:
    """Samples of a folder or of a file.

    Args:
        path: The folder or the file.
    """

    def __init__(self, path: str = "") -> None:
        if not path:
            self._samples = Batch({"obs": np.zeros((0, 1), np.float32)}, 0)
        elif Path(path).is_dir():
            self._samples = load_demo_data(path)
        else:
            with np.load(path) as file:
                self._samples = Batch({name: file[name] for name in file.files})

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self._samples)

    def take(self, index: Any) -> Batch:
        """Returns samples by index."""
        return self._samples[np.asarray(index, np.int64)]
