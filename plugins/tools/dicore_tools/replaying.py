"""Goes back to an update of a run: its batch, the parameters before and after, the gradients.

The run is copied, resumed from the nearest checkpoint before the update (or begun again), and ends
there. Resumed runs repeat themselves bit for bit, so this is what happened.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from dicore.errors import DicoreError, UsageError
from dicore.interfaces.hook import LearnerHook
from dicore.run.atomic import read_json
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.launch import TrainRequest, launch
from dicore.run.log import read_metrics
from dicore.run.signals import StopNow
from dicore_tools.repetition import CLOCK, chosen_of
from dicore_tools.state_arrays import array_of, arrays_of, texts_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Moment", "replay"]

PARTS: Final = ("batch", "result", "before", "grad", "after", "env")
"""Parts of a moment that have arrays."""
_ENV: Final = "collector_env"
"""The part of a run that holds the environments which collect."""
_LEFT_OUT: Final = ("video",)
_SIGNALS: Final = 128
"""Exit codes above it are those of signals."""
_QUIET: Final = ["pipeline.logger=[]"]


@attrs.define(kw_only=True)
class Moment:
    """One call of a learner, with all that was at hand.

    Args:
        train_iter: Updates made after it.
        began: Name of the checkpoint from which the run went on; "" from its beginning.
        before: Parameters before it, by name.
        after: Parameters after it; those before it if it raised an error.
        grad: Gradients of the last backward pass, by name of the parameter.
        batch: What it learned from, by path of the column.
        result: What it returned, such as losses.
        env: The environments that collect, during it: their last observations `obs` [K, ...] with
            `env_id` [K], and of each running episode seed, length, and either its actions, which
            bring it back from a reset with that seed, or its state, of environments that have one;
            and the state of its wrappers. Integers of more than 64 bits, None and bytes are text,
            from which `ast.literal_eval` returns them.
        env_missing: Why there are none; "" if there are.
        not_stored: What is no array, as `part/name: type`.
        error: The error that ended the run here; "" without one.
        differs: Why this is not what happened, such as a logged row that is another; "" if nothing
            says so.
        compared: How many logged rows before the update are those of the run.
        learner: The learner, of which the rest can be asked.
    """

    train_iter: int = 0
    began: str = ""
    before: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    after: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    grad: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    batch: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    result: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    env: dict[str, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    env_missing: str = ""
    not_stored: list[str] = attrs.field(factory=list)
    error: str = ""
    differs: str = ""
    compared: int = 0
    learner: Any = None

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Returns all arrays by `part/name`, as `numpy.savez` takes them."""
        return {
            f"{part}/{name}": each for part in PARTS for name, each in getattr(self, part).items()
        }

    def keep(self, part: str, found: Iterable[tuple[str, np.ndarray[Any, Any]]]) -> None:
        """Takes the arrays of a part, and the names of what is none."""
        kept, left_out = {}, []
        for name, each in found:
            if each.dtype != object:
                kept[name] = each
            elif each.ndim or each.item() is not None:
                left_out.append(f"{part}/{name}: {_type_of(each)}")
        setattr(self, part, kept)
        others = [text for text in self.not_stored if not text.startswith(f"{part}/")]
        self.not_stored = others + left_out

    def not_finite(self) -> list[str]:
        """Returns the arrays with values that are not finite, in the order in which they arise."""
        import numpy as np

        return [
            f"{name}: {wrong} of {each.size}"
            for name, each in self.arrays().items()
            if each.dtype.kind == "f" and (wrong := int((~np.isfinite(each)).sum()))
        ]


class _ReachedError(Exception):
    """The update was made."""


@attrs.define
class _Camera:
    """Two hooks of a learner: before and after its calls."""

    at: int
    moment: Moment = attrs.field(factory=Moment)
    reached: bool = False
    run: Any = None
    _step: int = 0
    _begin: int = 0

    def hooks(self) -> tuple[LearnerHook, LearnerHook]:
        return _Hook(self._before, "before_iter", 0), _Hook(self._after, "after_iter", 10_000)

    def _before(self, learner: Any) -> None:
        self.moment.learner, self._begin = learner, learner.last_iter
        if self._begin + (self._step or self.at) >= self.at:
            self.moment.before = _parameters(learner)
            found, self.moment.env_missing = _environments(self.run)
            self.moment.keep("env", found.items())

    def _after(self, learner: Any) -> None:
        self._step = max(self._step, learner.last_iter - self._begin)
        if learner.last_iter >= self.at:
            self.look(learner)
            self.reached = True
            raise _ReachedError

    def within(self, learner: Any) -> bool:
        """Returns whether the update belongs to the last call, which did not end."""
        return self._begin < self.at <= self.last(learner)

    def last(self, learner: Any) -> int:
        """Returns the last update of the last call."""
        return max(int(learner.last_iter), self._begin + max(self._step, 1))

    def look(self, learner: Any) -> None:
        """Takes what the learner made of its last batch."""
        moment = self.moment
        moment.train_iter = learner.last_iter
        moment.keep("batch", arrays_of(learner.latest_data))
        moment.keep("result", arrays_of(learner.latest_result))
        moment.after, moment.grad = _parameters(learner), dict(_gradients(learner))


class _Hook(LearnerHook):
    def __init__(self, call: Any, position: str, priority: int) -> None:
        super().__init__("replay", priority, position)
        self._call = call

    def __call__(self, engine: Any) -> None:
        self._call(engine)


class _Observer:
    """Adds the hooks to the learner that the training will build."""

    def __init__(self, camera: _Camera) -> None:
        self._camera = camera

    def started(self, run: Any, *_: object) -> None:
        self._camera.run = run
        run.learner_hooks += self._camera.hooks()

    def ended(self, run: Any, profile: object, /) -> None:
        pass

    def nothing_to_do(self, run: Any, reason: str, /) -> None:
        pass


def replay(run: str | Path, at: int, *, trust: bool = False) -> Moment:
    """Trains a copy of a run until an update, and returns what was at hand there.

    Args:
        run: The run; it is only read.
        at: Number of the update, from 1 on. If the learner makes several in one call, the moment is
            that of the call.
        trust: Run code that the saved config names by path.

    Raises:
        UsageError: the folder is no run, or its training ended or failed before this update.
        DicoreError: the copy could not be trained.
        StopNow: a signal ended it.
    """
    if at < 1:
        raise UsageError(f"--at {at}: updates count from 1")
    folder = RunFolder.open(run)
    camera = _Camera(at)
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="dicore-replay-"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        camera.moment.began = _copy(folder, place / "run", at)
        request = TrainRequest(resume=str(place / "run"), trust=trust, overrides=_QUIET)
        if not camera.moment.began:
            taken = chosen_of(read_json(folder.metadata))
            request = TrainRequest(
                config=str(folder), exp_name=str(place / "run"), exist="error", trust=trust,
                overrides=[*_QUIET, *([taken] if taken else [])], max_train_iter=at,
                max_env_step=_limit(folder),
            )  # fmt: skip
        failed = _train(request, camera)
        moment = _checked(camera, failed, folder)
        moment.differs, moment.compared = _difference(folder, RunFolder(place / "run"))
        return moment


def _train(request: TrainRequest, camera: _Camera) -> DicoreError | None:
    try:
        outcome = launch(request, observer=_Observer(camera))
    except _ReachedError:
        return None
    except DicoreError as error:
        return None if camera.reached else error
    if outcome.exit_code > _SIGNALS:  # a signal ended it
        raise StopNow(outcome.exit_code - _SIGNALS)
    return None


def _checked(camera: _Camera, failed: DicoreError | None, folder: RunFolder) -> Moment:
    moment = camera.moment
    if camera.reached:
        return moment
    learner = moment.learner
    if failed is not None and (learner is None or not camera.within(learner)):
        if learner is None:
            raise failed
        raise UsageError(
            f"{folder}: its training failed at update {camera.last(learner)}: {failed.message}",
            hint=f"look at that one: --at {camera.last(learner)}",
        )
    if failed is None:
        made = (read_json(folder.metadata).get("result") or {}).get("train_iter")
        end = made if isinstance(made, int) else getattr(learner, "last_iter", 0)
        if camera.at <= end:
            raise UsageError(
                f"{folder}: update {camera.at} was not reached again: there is no checkpoint before"
                " it, and the run as its config says ends earlier",
                hint="choose an update after the first checkpoint: ls RUN/ckpt",
            )
        raise UsageError(f"{folder}: its training ends after {end} updates, not after {camera.at}")
    camera.look(learner)
    moment.error = f"{type(failed).__name__}: {failed.message}"
    return moment


def _copy(folder: RunFolder, place: Path, at: int) -> str:
    """Copies a run with one checkpoint: the newest before the update; returns its name, or ""."""
    store = CheckpointStore(folder.path / "ckpt")
    found = [(name, store.metadata(name)) for name in store.names()]
    usable = [
        (facts["train_iter"], name)
        for name, facts in found
        if facts.get("complete") and isinstance(facts.get("train_iter"), int)
    ]
    earlier = [name for step, name in sorted(usable) if step < at]
    while earlier:
        copied = place / "ckpt"
        shutil.copytree(store.folder / earlier[-1], copied / earlier[-1])
        with warnings.catch_warnings(
            action="ignore"
        ):  # of a broken one, before which there may be others
            if CheckpointStore(copied).latest() == earlier[-1]:
                break
        shutil.rmtree(copied)
        earlier.pop()
    if not earlier:
        return ""
    for each in folder.path.iterdir():
        if each.name == "ckpt" or each.name in _LEFT_OUT or each.is_symlink():
            continue
        if each.is_dir():
            shutil.copytree(each, place / each.name)
        elif each.is_file():
            shutil.copy2(each, place / each.name)
    return earlier[-1]


def _limit(folder: RunFolder) -> int | None:
    """Returns the budget in env steps that the run had at its end; it may have been raised."""
    value = (read_json(folder.metadata).get("limits") or {}).get("max_env_step")
    return value if isinstance(value, int) else None


def _environments(run: Any) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Returns what is known of the environments of a run, and why that is nothing."""
    manager = run.parts.get(_ENV)
    if manager is None:
        return {}, f"the run has no part '{_ENV}' in this process"
    try:
        ready, state = manager.ready_obs, manager.state_dict()
        found = {"env_id": array_of(ready.env_id).copy(), **dict(arrays_of(ready.value, "obs"))}
        for number, each in enumerate(state.get("running") or ()):
            known = {name: part for name, part in (each or {}).items() if part is not None}
            found |= dict(texts_of(known, str(number))) if known else {}
        for number, each in enumerate(state.get("layers") or ()):
            found |= dict(texts_of(each, f"{number}.layers")) if each else {}
    except (DicoreError, AttributeError, LookupError, TypeError) as error:
        return {}, f"the environments cannot be asked: {error}"
    return found, ""


def _type_of(array: np.ndarray[Any, Any]) -> str:
    return type(array.flat[0]).__name__ if array.size else "object"


def _parameters(learner: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: array_of(each).copy() for name, each in _named(learner)}


def _gradients(learner: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for name, each in _named(learner):
        if getattr(each, "grad", None) is not None:
            yield name, array_of(each.grad).copy()


def _named(learner: Any) -> list[tuple[str, Any]]:
    """Returns the parameters of the policy's network."""
    with suppress(DicoreError, AttributeError, KeyError):
        return [*learner.policy.get_attribute("model").named_parameters()]
    return []


def _difference(folder: RunFolder, again: RunFolder) -> tuple[str, int]:
    """Returns what says that the copy went another way, "" if nothing; and the rows compared."""
    changed = sorted(each.name for each in folder.path.glob("config_*.json"))
    if changed:
        return (
            f"the config was changed when the run was resumed; the earlier one is {changed[-1]}",
            0,
        )
    if not again.metrics.is_file() or not folder.metrics.is_file():
        return "", 0
    wanted, count = read_metrics(folder.metrics), 0
    pairs = zip(wanted, read_metrics(again.metrics), strict=False)  # the run goes on after it
    for count, (one, other) in enumerate(pairs, 1):
        names = {name for name in {*one, *other} if not CLOCK.search(name)}
        unlike = sorted(name for name in names if str(one.get(name)) != str(other.get(name)))
        if unlike:
            step = one.get("step")
            return f"row {count} of log/metrics.jsonl, env step {step}, differs: {unlike[0]}", count
    return "", count
