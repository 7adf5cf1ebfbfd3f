"""The search space of a study: `policy.learn.learning_rate=log(1e-5,1e-2)`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from dicore.errors import ConfigError, UsageError
from dicore.run.launch import TrainRequest, compile_request

__all__ = ["Dimension", "combinations", "is_dimension", "parse_space", "space_problems"]

_MAX_POINTS = 10_000
_MOST_COMPILED = 40
_CALL = re.compile(r"\s*(log|uniform|int|logint|choice)\s*\((.*)\)\s*", re.DOTALL)
_FORMS = "log(1e-5,1e-2), uniform(0,1), int(1,5), logint(16,512), or values: 32|64|128"


class Dimension(NamedTuple):
    """One option and its values.

    Args:
        path: Path of the option.
        kind: `log`, `uniform`, `int`, `logint` or `choice`.
        bounds: Lowest and highest value; empty for choices.
        values: The choices.
    """

    path: str
    kind: str
    bounds: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """The dimension as it is written."""
        if self.kind == "choice":
            return f"{self.path}={'|'.join(map(json.dumps, self.values))}"
        return f"{self.path}={self.kind}({','.join(f'{each:g}' for each in self.bounds)})"

    def suggest(self, trial: Any) -> object:
        """Returns the value that a trial of Optuna is to take."""
        if self.kind == "choice":
            texts = [json.dumps(each) for each in self.values]
            return json.loads(trial.suggest_categorical(self.path, texts))
        low, high = self.bounds
        log = self.kind.startswith("log")
        if self.kind in ("int", "logint"):
            return trial.suggest_int(self.path, int(low), int(high), log=log)
        return trial.suggest_float(self.path, low, high, log=log)

    @property
    def ends(self) -> tuple[Any, ...]:
        """All choices, or the lowest and the highest value."""
        if self.kind == "choice":
            return self.values
        return tuple(int(each) if "int" in self.kind else each for each in self.bounds)

    def grid(self) -> Sequence[Any]:
        """Returns all values.

        Raises:
            UsageError: there are endlessly many.
        """
        if self.kind == "choice":
            return self.values
        if self.kind == "int":
            return range(int(self.bounds[0]), int(self.bounds[1]) + 1)
        raise UsageError(
            f"--grid: {self.path} has no list of values", hint=f"write {self.path}=0.001|0.01"
        )


def parse_space(texts: Sequence[str]) -> tuple[Dimension, ...]:
    """Reads the dimensions of a space.

    Args:
        texts: `path=log(a,b)`, `uniform(a,b)`, `int(a,b)`, `logint(a,b)`, `choice(a,b,…)`, or
            values with `|` between them.

    Raises:
        UsageError: some have another form, or an option is given twice; it names all.
    """
    if not texts:
        raise UsageError(
            "no search space",
            hint='for example: --space "policy.learn.learning_rate=log(1e-5,1e-2)"',
        )
    space, problems = [], []
    for text in texts:
        try:
            space.append(_dimension(text))
        except UsageError as error:
            problems.append(str(error))
    paths = [each.path for each in space]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    problems += [f"--space: {path} is given twice; give all its values at once" for path in twice]
    if problems:
        raise UsageError("\n".join(problems), hint=f"forms: {_FORMS}")
    return tuple(space)


def is_dimension(word: str) -> bool:
    """Returns whether a word has a form that no value of an option has: `path=log(a,b)`."""
    return _CALL.fullmatch(word.partition("=")[2]) is not None


def space_problems(request: TrainRequest, space: Sequence[Dimension]) -> list[str]:
    """Returns what is wrong with a training, with each choice and each bound of the space.

    Args:
        request: The training without the options of the space.
        space: The options.
    """
    first = {each.path: each.ends[0] for each in space}
    points = [first]
    points += [{**first, each.path: value} for each in space for value in each.ends[1:]]
    found: dict[str, None] = {}
    for point in points[:_MOST_COMPILED]:
        words = [f"{path}={json.dumps(value)}" for path, value in point.items()]
        try:
            compile_request(replace(request, overrides=[*request.overrides, *words]))
        except ConfigError as error:
            found |= dict.fromkeys(error.problems)
    return [*found]


def combinations(space: Sequence[Dimension]) -> list[dict[str, object]]:
    """Returns all points of a grid, the last dimension changing fastest.

    Raises:
        UsageError: there are endlessly many, or more than anybody trains.
    """
    paths, values = [each.path for each in space], [each.grid() for each in space]
    count = math.prod(map(len, values))
    if count > _MAX_POINTS:
        raise UsageError(
            f"--grid: {count} combinations; at most {_MAX_POINTS} are tried",
            hint="leave out values, or sample: without --grid, with -n TRIALS",
        )
    return [dict(zip(paths, point, strict=True)) for point in product(*values)]


def _dimension(text: str) -> Dimension:
    path, equals, wanted = text.partition("=")
    path = path.strip()
    if not equals or not path or not wanted.strip():
        raise _wrong(text, "expected option=values")
    call = _CALL.fullmatch(wanted)
    if call is None or call[1] == "choice":
        values = call[2].split(",") if call else wanted.split("|")
        if len(values) < 2:
            raise _wrong(text, "one value is no choice; set it as an option")
        return Dimension(path, "choice", values=tuple(_value(each) for each in values))
    return _range(text, path, call[1], call[2].split(","))


def _range(text: str, path: str, kind: str, ends: Sequence[str]) -> Dimension:
    try:
        bounds = tuple(float(each) for each in ends)
    except ValueError:
        raise _wrong(text, "the bounds are not numbers") from None
    if len(bounds) != 2 or not all(map(math.isfinite, bounds)):
        raise _wrong(text, "expected two finite bounds")
    if bounds[0] >= bounds[1]:
        raise _wrong(text, "the first bound must be below the second")
    if kind.startswith("log") and bounds[0] <= 0:
        raise _wrong(text, "the bounds of a logarithmic range must be above 0")
    if kind in ("int", "logint") and any(each != int(each) for each in bounds):
        raise _wrong(text, "the bounds must be whole numbers")
    return Dimension(path, kind, bounds)


def _value(text: str) -> object:
    """Returns a value as it is read on the command line: JSON, or the text itself."""
    text = text.strip()
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _wrong(text: str, reason: str) -> UsageError:
    return UsageError(f"--space {text!r}: {reason}")
