"""A run as a Python module: `from runs import cartpole_dqn_s0`, then `cartpole_dqn_s0.agent`.

`create` makes the folder of a run without training it. `make_module` adds an `__init__.py` to a
run, whose attributes are those of `Session`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dicore.errors import UsageError
from dicore.run.atomic import read_json, read_regular, write_file
from dicore.run.folder import RunFolder

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.run.request import TrainRequest
    from dicore_tools.agent import Agent

__all__ = ["MODULE", "Session", "attributes", "create", "make_module"]

MODULE: Final = '''"""This run: agent, load(name), checkpoints, config, result, metrics(tag)."""

from dicore_tools.sessions import attributes

__getattr__, __dir__ = attributes(__file__)
'''


class Session:
    """What a run has: config, checkpoints, metrics, and agents with its parameters.

    Everything is read when it is asked for, so a session of a run that is still training gives its
    present state.

    Args:
        folder: The run folder.

    Raises:
        UsageError: it is not a run folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self._run = RunFolder.open(Path(folder))

    def __repr__(self) -> str:
        return f"Session({str(self._run)!r})"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._run.path

    @property
    def config(self) -> Compiled:
        """The compiled config."""
        from dicore.config import compile_config

        return compile_config(str(self._run.config))

    @property
    def checkpoints(self) -> list[str]:
        """Names of the checkpoints, for `load`."""
        from dicore.run.checkpoint_store import CheckpointStore

        return list(CheckpointStore(self._run.checkpoints).names())

    @property
    def result(self) -> dict[str, Any]:
        """How the training ended, from `run.json`; {} before its end."""
        try:
            return dict(read_json(self._run.metadata)["result"] or {})
        except (LookupError, OSError, TypeError, ValueError):
            return {}

    @property
    def agent(self) -> Agent:
        """The agent with the parameters of the best evaluation, else of the latest checkpoint.

        Raises:
            CheckpointError: there is no valid checkpoint.
        """
        return self.load()

    def load(self, checkpoint: str | None = None, *, trust: bool = False) -> Agent:
        """Returns the agent with the parameters of a checkpoint.

        Args:
            checkpoint: Its name; None: `best`, or the latest if there is no best one.
            trust: Run code that the run's config names by path.

        Raises:
            UsageError: there is no such checkpoint.
            CheckpointError: it is not valid, or there is none.
        """
        from dicore_tools.agent import Agent

        names = self.checkpoints
        if checkpoint is None:
            agent = Agent.from_run(self._run.path, trust=trust)
            return agent.best if "best" in names else agent
        if checkpoint not in names:
            raise UsageError(
                f"{self._run}: no checkpoint '{checkpoint}'", hint=f"there are: {', '.join(names)}"
            )
        return Agent.from_run(self._run.checkpoints / checkpoint, trust=trust)

    def metrics(self, tag: str, axis: str = "step") -> tuple[list[float], list[float]]:
        """Returns where and with which value a metric was logged, as two lists for a plot.

        Args:
            tag: Name of the metric, such as `evaluator/return_mean`.
            axis: `step` (env steps), `train_iter` (updates) or `time` (seconds).

        Raises:
            UsageError: the run has no metrics, or none of this name.
        """
        from dicore.run import read_metrics

        file = self._run.metrics
        if not file.is_file():
            raise UsageError(f"{self._run}: no metrics yet (log/metrics.jsonl)")
        lines = read_metrics(file)
        found = [(line[axis], line[tag]) for line in lines if tag in line and axis in line]
        if not found:
            names = sorted({name for line in lines for name in line if "/" in name})
            raise UsageError(
                f"{self._run}: no metric '{tag}' by '{axis}'", hint=f"there are: {', '.join(names)}"
            )
        return [x for x, _ in found], [y for _, y in found]


def attributes(file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of the module that a run is.

    Args:
        file: `__file__` of its `__init__.py`.
    """
    folder = Path(file).parent
    names = sorted(name for name in vars(Session) if not name.startswith("_"))

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"run {folder} has no attribute '{name}'; it has {names}")
        return getattr(Session(folder), name)

    return get, lambda: names


def create(request: TrainRequest) -> RunFolder:
    """Makes the folder of a run with its config, and trains nothing.

    The config is compiled, bound to the spaces of the environment and checked by the pipeline
    before. `dicore train --resume FOLDER` trains the run, in another process or on another machine.

    Args:
        request: What to train.

    Returns:
        The folder.

    Raises:
        ConfigError: the config is wrong; nothing was made.
        UsageError: the folder exists, or cannot be made.
    """
    from dicore.config import bind, write_config
    from dicore.interfaces.pipeline import SupportsCheck
    from dicore.run.env_factory import BuildContext, spec_of
    from dicore.run.request import compile_request, folder_name

    compiled = compile_request(request)
    compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
    pipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
    if isinstance(pipeline, SupportsCheck):
        pipeline.check(compiled)
    folder = RunFolder.prepare(folder_name(compiled, request), request.exist)
    try:
        write_config(compiled, folder.path)
        make_module(folder.path)
    finally:
        folder.unlock()
    return folder


def make_module(run: str | Path) -> Path:
    """Writes the `__init__.py` that makes a run a module; returns its path.

    Raises:
        UsageError: it is not a run folder, has another `__init__.py`, or cannot be written.
    """
    folder = RunFolder.open(Path(run))
    file = folder.path / "__init__.py"
    try:
        if os.path.lexists(file) and read_regular(file, at_most=4096) != MODULE.encode():
            raise UsageError(f"{file} exists and is not of dicore", hint="move it away")
        write_file(file, MODULE.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    return file
