"""An environment that replays recorded episodes, to train where the real one is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.data import Info, Tree, tree_row
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["RecordedConfig", "RecordedEnv"]


@frozen(kw_only=True)
class RecordedConfig(EnvConfig):
    """Replays the episodes of a dataset, whatever the actions are: to train from it without an env.

    Spaces are those in the file, or else follow from its columns. Policies are not evaluated.
    """

    has_dynamics: ClassVar[bool] = False
    """Whether actions change what happens."""

    path: str = option(REQUIRED, "the file or folder", follows="pipeline.dataset.path")
    format: str = option(
        REQUIRED, "its type (dicore list dataset)", follows="pipeline.dataset.type"
    )
    columns: dict[str, str] = option(
        {}, "names in the file, as pipeline.dataset.columns", follows="pipeline.dataset.columns"
    )

    def from_spec(self) -> dict[str, object]:
        """Returns values that mean nothing, as policies are not evaluated."""
        return {"stop_value": float("inf"), "n_evaluator_episode": self.evaluator_env_num}

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Opens the dataset."""
        from dicore.config.compiler import compile_section
        from dicore.config.signature import config_class
        from dicore_registry import default

        options = {"path": self.path, **({"columns": self.columns} if self.columns else {})}
        target = default().resolve("dataset", self.format).target
        return RecordedEnv(compile_section(config_class(target, "dataset"), options).build(None))


class RecordedEnv(gymnasium.Env[Tree, Tree]):
    """Replays recorded episodes; a reset chooses one at random.

    Args:
        dataset: Single steps, with the `end` of its episodes.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env

    def __init__(self, dataset: Any) -> None:
        from dicore_plugins.datasets.spaces import recorded_spaces

        self._dataset = dataset
        self._ends = np.flatnonzero(dataset.end)
        self._row = self._last = -1
        self.observation_space, self.action_space = recorded_spaces(dataset)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Begins one of the episodes."""
        super().reset(seed=seed)
        episode = int(self.np_random.integers(len(self._ends)))
        self._last = int(self._ends[episode])
        self._row = int(self._ends[episode - 1]) + 1 if episode else 0
        return self._step()["obs"], {}

    def _step(self) -> Tree:
        return tree_row(self._dataset.take([self._row]).columns, 0)

    def step(self, action: Tree) -> tuple[Tree, float, bool, bool, Info]:
        """Returns what came next in the recording; the action is not used.

        Raises:
            UsageError: there is no running episode.
        """
        if self._row < 0:
            raise UsageError("the recorded episode is over", hint="call reset")
        step = self._step()
        terminated = bool(step["done"])
        truncated = self._row == self._last and not terminated
        self._row = -1 if terminated or truncated else self._row + 1
        return step["next_obs"], float(step["reward"]), terminated, truncated, {}
