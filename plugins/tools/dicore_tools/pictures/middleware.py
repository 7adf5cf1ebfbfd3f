"""The middleware of a pipeline, as the task of a real training has it before its first step."""

from __future__ import annotations

import contextlib
import inspect
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dicore.config import bind
from dicore.errors import ConfigError, DicoreError, UsageError
from dicore.interfaces.pipeline import SupportsCheck
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.launch import compile_request, launch
from dicore.run.request import TrainRequest
from dicore_registry import default

if TYPE_CHECKING:
    from dicore.run.run import Run

__all__ = ["Stage", "config_for", "stages_of"]

_FIRST: Final = (
    "cartpole_dqn", "cartpole_ppo", "cartpole_dqfd", "cartpole_sqil", "cartpole_discrete_bcq",
    "pendulum_mbpo",
)  # fmt: skip
"""Presets that are tried before all others: quick ones, of different schools."""
_QUIET: Final = ("pipeline.logger=[]",)
_DATA: Final = "{data}"
"""Stands for a file of recorded episodes, in overrides."""
_EXPERT: Final = f"expert: {{type: npz, path: {_DATA}}}"
_TRIES: Final = (
    (),
    (f"pipeline.dataset.path={_DATA}",),
    ("policy.reward_model=rnd",),
    (f"policy.reward_model={{type: gail, {_EXPERT}}}",),
    (f"policy.reward_model={{type: trex, {_EXPERT}, expert_updates: 1}}",),
    ("policy.reward_model=ngu",),
)
"""What is added to presets until one fits a pipeline."""


class Stage(NamedTuple):
    """A middleware with the context fields that it declares.

    Args:
        name: Its name.
        summary: First line of its documentation.
        reads: Fields that it requires.
        writes: Fields that it sets.
        optional: Fields that it reads if they are set.
        yields: Whether it has a second part, after its `yield`.
    """

    name: str
    summary: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    optional: tuple[str, ...]
    yields: bool


class _SeenError(BaseException):
    """Ends a training before its first step."""


class _Looking:
    """Reads the middleware of the task when everything is built, then ends the training."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def started(self, run: Run, *_: object) -> None:
        run.at_first_step(self._look)

    def ended(self, *_: object) -> None:
        """Nothing is printed."""

    def nothing_to_do(self, *_: object) -> None:
        """Nothing is printed."""

    def _look(self) -> None:
        from dicore.task import task

        if task.running:
            self.stages = [stage for part in task.parts for stage in _stages(part)]
        raise _SeenError


def stages_of(name: str) -> list[Stage]:
    """Returns the middleware of a pipeline or of a preset, in order.

    Args:
        name: `pipeline/NAME`, which is drawn with a preset that it accepts, or `preset/NAME`.

    Raises:
        UsageError: no installed preset fits the pipeline, or it runs no task.
    """
    kind, _, short = name.partition("/")
    with tempfile.TemporaryDirectory(prefix="dicore-") as folder:
        request = config_for(short, Path(folder)) if kind == "pipeline" else _of_preset(short)
        return _seen(request, Path(folder))


def config_for(pipeline: str, folder: Path) -> TrainRequest:
    """Returns a training that a pipeline accepts: a preset, with data or a reward model if needed.

    Args:
        pipeline: Name of the pipeline.
        folder: Where recorded episodes are written.

    Raises:
        UsageError: no installed preset fits.
    """
    last: DicoreError | None = None
    tries = ((preset, more) for some in _presets() for more in _TRIES for preset in some)
    for preset, more in tries:
        try:
            request = _request(preset, pipeline, _with_data(more, preset, folder))
            _check(request)
        except DicoreError as error:
            last = error
        else:
            return request
    raise UsageError(
        f"no installed preset fits pipeline '{pipeline}'"
        + (f"; the last one: {last.message}" if last else ""),
        hint="dicore show preset/NAME --graph draws that of a preset",
    )


def _of_preset(name: str) -> TrainRequest:
    return TrainRequest(config=name, overrides=list(_QUIET), max_env_step=None)


def _presets() -> tuple[list[str], list[str]]:
    """Returns the presets that are ready: one of each school, then others of quick envs."""
    names = [entry.name for entry in default().entries("preset") if entry.status == "ok"]
    first: list[str] = [each for each in _FIRST if each in names]
    quick = [each for each in names if each.startswith(("cartpole_", "pendulum_"))]
    return first, [each for each in quick if each not in first]


def _request(preset: str, pipeline: str, more: Sequence[str]) -> TrainRequest:
    return TrainRequest(config=preset, mode=pipeline, overrides=[*_QUIET, *more])


def _check(request: TrainRequest) -> None:
    """Raises an error if the pipeline does not fit the config, or its data are missing."""
    compiled = compile_request(request)
    pipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
    if isinstance(pipeline, SupportsCheck):
        pipeline.check(bind(compiled, spec_of(compiled.env, compiled.seed)))
    if request.mode is not None and compiled.pipeline.type != request.mode:
        raise ConfigError(f"pipeline.type is {compiled.pipeline.type}")


def _with_data(more: Sequence[str], preset: str, folder: Path) -> list[str]:
    """Returns overrides with a file of random episodes of the preset's environment."""
    if not any(_DATA in each for each in more):
        return list(more)
    from dicore_tools.demo_dataset import collect_demo_data

    env = preset.partition("_")[0]
    file = folder / f"{env}.npz"
    if not file.is_file():
        random = TrainRequest(env=env, policy="random", seed=0)
        collect_demo_data(random, collect_count=1, expert_data_path=str(file), n_episode=8)
    return [each.replace(_DATA, str(file)) for each in more]


def _seen(request: TrainRequest, folder: Path) -> list[Stage]:
    from dataclasses import replace

    looking = _Looking()
    with contextlib.suppress(_SeenError):
        launch(replace(request, exp_name=str(folder / "run")), observer=looking)
    if not looking.stages:
        raise UsageError("this pipeline runs no task, so that it has no middleware to draw")
    return looking.stages


def _stages(part: Any) -> Iterator[Stage]:
    """Yields a middleware, or the members of a combined one."""
    if part.members:
        for member in part.members:
            yield from _stages(member)
        return
    fields = part.fields
    fn = part.fn if part.fn is not None else part.call
    doc = inspect.getdoc(fn if inspect.isroutine(fn) else type(fn)) or ""
    reads = (*fields.reads, *(field for field in fields.either if field not in fields.reads))
    optional = tuple(field for field in fields.optional if field not in reads)
    summary = doc.partition("\n")[0]
    yield Stage(part.name, summary, reads, fields.writes, optional, part.yields)
