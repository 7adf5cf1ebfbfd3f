"""An environment that waits; its module imports little, since workers import it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.plugins.env_managers.toy_envs import CountEnv


class Waits(CountEnv):
    """Waits in its second step, or in its second reset, until a file is there."""

    def __init__(self, tag: int, where: str, file: Path, length: int = 5) -> None:
        super().__init__(tag, length)
        self.where, self.file = where, file

    def _wait(self, where: str) -> None:
        while where == self.where and not self.file.exists():
            time.sleep(0.005)

    def step(self, action: Any) -> Any:
        if len(self.actions) == 1:
            self._wait("step")
        return super().step(action)

    def reset(self, **kwargs: Any) -> Any:
        if len(self.seeds) == 1:
            self._wait("reset")
        return super().reset(**kwargs)
