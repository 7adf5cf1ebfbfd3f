"""Monitored results of updates, stored until they are logged, and the check for finite losses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.errors import DicoreError, NonFiniteError, SchemaError
from dicore.run.checkpoint_store import write_state
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore_plugins.learners.base.learner import BaseLearner


_FIRST_CHECK, _CHECK_EVERY = 4, 100
"""Updates before the first check for finite losses, and most updates between two."""
_TOLERATED = 2
"""Consecutive updates that may be skipped because the loss was not finite."""
_NUMBERS = torch.Tensor | float | int | np.ndarray | np.number | np.bool_


class LogBuffer:
    """Stores the monitored results of the updates since the last log line.

    A result `[scalars]x` is a dict of numbers, each stored as variable `x/key`. Of a result
    `[histogram]x`, the values of the last update are stored.

    Args:
        limit: Number of updates to store; older ones are dropped, which bounds the memory.

    Attributes:
        names: Variables to store besides `[scalars]` and `[histogram]` results.
        histograms: Values of the last update by name.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.names: tuple[str, ...] = ()
        self.histograms: dict[str, Tree] = {}
        self._limit = limit
        self._results: list[Mapping[str, Tree]] = []

    def add(self, result: Mapping[str, Tree]) -> None:
        """Stores the results of one update; nothing is copied from a device.

        Raises:
            SchemaError: a result `[scalars]x` is not a dict.
        """
        values = {key: result[key] for key in self.names if key in result}
        for key in result:
            if key.startswith("["):
                self._add_form(key, result[key], values)
        self._results.append(values)
        if len(self._results) >= 2 * self._limit:
            del self._results[: -self._limit]

    def _add_form(self, key: str, value: Tree, values: dict[str, Tree]) -> None:
        values.pop(key, None)
        if key.startswith("[scalars]"):
            name = key.removeprefix("[scalars]")
            if not isinstance(value, Mapping):
                raise SchemaError(
                    f"'{key}' is a {type(value).__name__}, not a dict of numbers",
                    hint=f"return a single number as '{name}' and add it to monitor_vars",
                )
            values |= {f"{name}/{each}": number for each, number in value.items()}
        elif key.startswith("[histogram]"):
            self.histograms[key.removeprefix("[histogram]")] = value

    def _by_variable(self) -> dict[str, list[Tree]]:
        """Returns the values by variable: those of `names` first."""
        columns: dict[str, list[Tree]] = {name: [] for name in self.names}
        for result in self._results:
            for name, value in result.items():
                if value is not None:  # e.g. an actor loss of delayed policy updates
                    columns.setdefault(name, []).append(value)
        return {name: values for name, values in columns.items() if values}

    def columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """Returns each variable's numbers, one per update that has it: float64 [n].

        Several numbers per update are averaged. Tensors are copied from their device together.

        Raises:
            SchemaError: a variable is not a number.
        """
        return {name: _array(name, values) for name, values in self._by_variable().items()}

    def means(
        self, columns: Mapping[str, npt.NDArray[np.float64]] | None = None
    ) -> dict[str, float]:
        """Returns the mean of each variable over its finite values, without skipped updates.

        Args:
            columns: The result of `columns`, if it was called before.
        """
        columns = self.columns() if columns is None else columns
        return {name: _finite_mean(numbers) for name, numbers in columns.items()}

    def state_dict(self) -> dict[str, npt.NDArray[np.float64]]:
        """Returns the numbers and tensors that are not logged yet, in the form of `columns`."""
        return {
            name: _array(name, values)
            for name, values in self._by_variable().items()
            if all(isinstance(value, _NUMBERS) for value in values)
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        length = max(map(len, state.values()), default=0)
        self._results = [
            {name: float(column[i]) for name, column in state.items() if i < len(column)}
            for i in range(length)
        ]

    def clear(self) -> None:
        """Drops the results."""
        self._results.clear()
        self.histograms = {}

    def __len__(self) -> int:
        return len(self._results)


class FiniteCheck:
    """Ends a training whose loss or gradient stays non-finite; the policy skips such updates.

    Losses are read together, at most every 100 updates, so that no update waits for the device.

    Attributes:
        due: Number of updates at which to call the check.
    """

    def __init__(self) -> None:
        self.due = _FIRST_CHECK
        self._losses: list[Tree] = []
        self._told_numbers: list[str] = []
        self._told_of: str | None = None  # what the first update returned instead; "": told
        self._counts = dict.fromkeys(("in_a_row", "skipped"), 0)
        self._optimizers: dict[str, tuple[int, int, int]] = {}

    def add(self, result: Mapping[str, Tree]) -> None:
        """Stores the loss of an update; nothing is copied from a device."""
        self._losses.append(result.get("total_loss", result.get("loss")))
        if self._told_of is None:
            self._told_of = "" if "total_loss" in result else ", ".join(result) or "nothing"
            numbers = [key for key, value in result.items() if isinstance(value, _NUMBERS)]
            self._told_numbers = [key for key in numbers if np.ndim(result[key]) == 0]

    def __call__(self, engine: BaseLearner) -> None:
        """Checks the updates since the last call.

        Raises:
            NonFiniteError: three consecutive updates had a non-finite loss, or all of an optimizer
                since the last check (three or more) a non-finite gradient.
        """
        made = engine.last_iter
        self.due = made + min(_CHECK_EVERY, max(_FIRST_CHECK, made))
        losses = self._count(engine)
        if self._counts["in_a_row"] > _TOLERATED:
            what = f"the loss of {self._counts['in_a_row']} consecutive updates"
            batch = None if losses.size and np.isfinite(losses[-1]) else _save_batch(engine)
        elif stuck := self._stuck():
            what, batch = stuck, _save_batch(engine)
        else:
            return
        where = f"; the last batch is in {batch}" if batch else ""
        raise NonFiniteError(
            f"learner: {what} is not finite (at update {made}); the updates were skipped and the"
            " parameters are unchanged",
            hint=f"lower learning_rate, set max_grad_norm, and check the rewards{where}",
            context={"train_iter": made, "batch": batch},
        )

    def _count(self, engine: BaseLearner) -> npt.NDArray[np.float64]:
        """Counts consecutive bad updates across checks; returns the losses since the last one."""
        counts, stored = self._counts, [loss for loss in self._losses if isinstance(loss, _NUMBERS)]
        if self._told_of:
            engine.logger.warning("learning returns no 'total_loss' to show, but %s", self._told_of)
            self._told_of = ""
        unnamed = ", ".join(sorted({*self._told_numbers} - {*engine.log_buffer.names}))
        if unnamed and engine.run is not None:
            told = "not logged: %s, which learning returns and _monitor_vars_learn() does not name"
            engine.run.log.log_text(told % unnamed)
        self._told_numbers = []
        self._losses.clear()
        losses = _array("total_loss", stored) if stored else np.zeros(0)
        finite = np.isfinite(losses)
        for good in finite if not finite.all() else finite[-1:]:
            if counts["in_a_row"] > _TOLERATED:  # the next call raises it
                break
            counts["in_a_row"] = 0 if good else counts["in_a_row"] + 1
        skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))
        fresh = skipped - counts["skipped"]
        if fresh > 0 and counts["skipped"] == 0:
            engine.logger.warning(
                "update %d: skipped %d updates with a non-finite loss or gradient; see the metric"
                " learner/skipped_updates for further ones",
                engine.last_iter,
                fresh,
            )
        counts["skipped"] = skipped
        for name, (made, bad) in _optimizer_counts(engine).items():
            before, bad_before, row = self._optimizers.get(name, (0, 0, 0))
            if made > before:
                row = row + made - before if bad - bad_before >= made - before else 0
            self._optimizers[name] = made, bad, row
        return losses

    def _stuck(self) -> str | None:
        """Describes the updates of an optimizer that skips all; None: there is none."""
        for name, (_, _, row) in self._optimizers.items():
            if row > _TOLERATED:
                return f"the gradient of {row} consecutive updates{name and f' of the {name}'}"
        return None

    def state_dict(self, engine: BaseLearner) -> StateDict:
        """Returns the counters, after counting the updates since the last check."""
        self._count(engine)
        return {**self._counts, "due": self.due, "optimizers": dict(self._optimizers)}

    def load_state_dict(self, state: State, engine: BaseLearner) -> None:
        """Restores what `state_dict` returned; without a state, counts from here on."""
        skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))
        found = {"skipped": skipped, **state}
        self._losses.clear()
        self._counts = {name: int(found.get(name, 0)) for name in self._counts}
        now = {name: (*each, 0) for name, each in _optimizer_counts(engine).items()}
        kept = {name: tuple(map(int, each)) for name, each in state.get("optimizers", {}).items()}
        self._optimizers = {**now, **kept}  # type: ignore[dict-item] # three numbers each
        self.due = int(state.get("due", engine.last_iter + _CHECK_EVERY))


def _optimizer_counts(engine: BaseLearner) -> Mapping[str, tuple[int, int]]:
    """Returns the updates by each optimizer of the policy, and how many of them were skipped."""
    skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))
    whole = {"": (int(engine.last_iter), skipped)}
    found: Mapping[str, tuple[int, int]] = mode_attribute(engine.policy, "optimizer_counts", whole)
    return found


def _save_batch(engine: BaseLearner) -> str | None:
    """Saves the learner's last batch to the run folder, for inspection; returns its path."""
    data = engine.latest_data
    if engine.run is None or not isinstance(data, Batch):
        return None
    path = engine.run.folder.log / f"nonfinite_batch_{engine.last_iter}"
    try:
        write_state(path, tree_map(np.asarray, dict(data.items())))
    except (OSError, DicoreError) as error:
        engine.logger.warning("cannot save the non-finite batch: %s", error)
        return None
    return str(path)


def _array(name: str, values: list[Tree]) -> npt.NDArray[np.float64]:
    """Returns one number per update; tensors are copied from their device together."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) == len(values):
        return _fetched(tensors)
    if tensors:  # after a resume: restored numbers, then tensors
        fetched = iter(_fetched(tensors))
        return np.array([
            next(fetched) if isinstance(value, torch.Tensor) else _mean(name, value)
            for value in values
        ])  # fmt: skip
    if {value.__class__ for value in values} <= {float, int}:
        with suppress(OverflowError):  # an int that no float has
            return np.array(values, np.float64)
    return np.array([_mean(name, value) for value in values])


def _fetched(tensors: list[torch.Tensor]) -> npt.NDArray[np.float64]:
    """Returns the mean of each tensor."""
    first = tensors[0]
    if any(each.shape != first.shape or each.device != first.device for each in tensors):
        tensors = [each.float().mean().cpu() for each in tensors]
    stacked = torch.stack(tensors).detach().cpu().double().numpy()  # NumPy has no bfloat16
    means: npt.NDArray[np.float64] = stacked.reshape(len(tensors), -1).mean(1)
    return means


def _mean(name: str, value: Tree) -> float:
    """Returns a number as float, or the mean of several."""
    try:
        return float(np.mean(np.asarray(value, np.float64)))
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"the monitored variable '{name}' is a {type(value).__name__}, not a number",
            hint="remove it from monitor_vars",
        ) from error


def _finite_mean(numbers: npt.NDArray[np.float64]) -> float:
    """Returns the mean of the finite numbers; NaN if there are none."""
    finite = numbers[np.isfinite(numbers)]
    return float(finite.mean()) if len(finite) else float("nan")
