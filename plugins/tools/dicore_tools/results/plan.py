"""Reads the file of `dicore benchmark`: rows of environment, algorithm, seeds and limits."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dicore.config import Compiled
from dicore.config.checks import DEFAULT, FOLLOWS, SPACES
from dicore.config.convert import Mismatch, convert, describe_value
from dicore.config.paths import flatten
from dicore.config.reader import read_file
from dicore.data.json_codec import dumps
from dicore.errors import ConfigError
from dicore.run.request import TrainRequest, compile_request, env_label
from dicore_registry import nearest
from dicore_tools.preset_versions import preset_of, shown

__all__ = ["Plan", "Row", "read_plan"]

_SHARED: Final[Mapping[str, object]] = {
    "seeds": tuple[int, ...],
    "n_episode": int,
    "max_env_step": int,
    "overrides": tuple[str, ...],
    "check_seeds": int,
    "check_metrics": tuple[str, ...],
}
"""Options of a row that the file may also set for all rows."""
_ROW: Final[Mapping[str, object]] = {
    **_SHARED,
    "name": str,
    "env": str,
    "policy": str,
    "config": str,
    "stop_value": float,
    "note": str,
}
_FILE: Final[Mapping[str, Any]] = {
    **_SHARED,
    "title": str,
    "row": list[Any],
    "scores": dict[str, tuple[float, float]],
    "normalised": dict[str, tuple[float, float]],
    "anchors": dict[str, dict[str, float]],
}
_NAME = re.compile(r"[\w.-]+")
_UNSET = (DEFAULT, FOLLOWS, SPACES, "env spec")
"""Beginnings of the origins of values that nobody chose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table: what is trained with each seed.

    Args:
        name: Name of the row and of its folder.
        env: Name of the environment, or Gymnasium id.
        policy: Name of the algorithm; with `env`, it selects the preset `<env>_<policy>` if that
            exists.
        config: Config file or preset, instead of `env` and `policy`.
        seeds: Random seeds, one run each.
        stop_value: Mean return of an evaluation that ends a run; None: that of the config.
        max_env_step: Budget of a run in env steps; None: that of the config.
        n_episode: Episodes of an evaluation.
        overrides: Options as `a.b=c`.
        check_seeds: How many of the seeds a check trains, from the first on.
        check_metrics: Metrics of the log that a check compares, besides the returns.
        note: Text for the table.
    """

    name: str
    env: str | None = None
    policy: str | None = None
    config: str | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    stop_value: float | None = None
    max_env_step: int | None = None
    n_episode: int = 10
    overrides: tuple[str, ...] = ()
    check_seeds: int = 2
    check_metrics: tuple[str, ...] = ()
    note: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """All options as `a.b=c`."""
        stop = () if self.stop_value is None else (f"env.stop_value={_exact(self.stop_value)}",)
        return (f"env.n_evaluator_episode={self.n_episode}", *stop, *self.overrides)

    @property
    def command(self) -> str:
        """The command that trains the row by hand."""
        names = [self.config] if self.config else ["-e", str(self.env), "-p", str(self.policy)]
        seeds = [word for seed in self.seeds for word in ("-s", str(seed))]
        limit = [] if self.max_env_step is None else ["--max-env-step", str(self.max_env_step)]
        return shlex.join(["dicore", "train", *names, *seeds, *limit, *self.words])

    def request(self, seed: int | None = None, folder: Path | None = None) -> TrainRequest:
        """Returns the request of the run of one seed, in a folder."""
        return TrainRequest(
            config=self.config,
            env=self.env,
            policy=self.policy,
            seed=seed,
            exp_name=None if folder is None else str(folder),
            max_env_step=self.max_env_step,
            overrides=self.words,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a file.

    Args:
        title: Title of the page.
        rows: The rows.
        configs: Compiled config of each row.
        scores: By environment, the returns with the scores 0 and 1; for the mean over tasks.
        normalised: By environment, the returns with the normalised scores 0 and 100 of rows that
            learn from data sets (D4RL: Fu et al. 2020, arXiv:2004.07219); otherwise `scores`.
        anchors: By environment, published returns by what they are: algorithm, source, budget.
    """

    title: str
    rows: tuple[Row, ...]
    configs: dict[str, Compiled]
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)
    normalised: dict[str, tuple[float, float]] = field(default_factory=dict)
    anchors: dict[str, dict[str, float]] = field(default_factory=dict)

    def settings(self, row: Row) -> str:
        """Returns a hash of the options that preset, file and row set: other options, other hash.

        Defaults of classes do not count, so that a new option leaves the results valid.
        """
        compiled = self.configs[row.name]
        chosen = {
            path: value
            for path, value in flatten(compiled.cfg).items()
            if path not in ("seed", "exp_name")
            and not compiled.origin.get(path, DEFAULT).startswith(_UNSET)
        }
        return hashlib.sha256(dumps(dict(sorted(chosen.items()))).encode()).hexdigest()[:12]

    def task(self, row: Row) -> str:
        """Returns the name of the environment of a row."""
        return env_label(self.configs[row.name], row.env)

    def algorithm(self, row: Row) -> str:
        """Returns the name of the algorithm of a row."""
        return str(self.configs[row.name].policy.type)

    def preset(self, row: Row) -> str:
        """Returns name and version of the preset of a row; "" without one."""
        return shown(preset_of(self.configs[row.name].origin))

    def offline(self, row: Row) -> bool:
        """Returns whether the algorithm of a row learns from a data set alone."""
        return bool(self.configs[row.name].policy.offline)

    def stop_value(self, row: Row) -> float:
        """Returns the mean return that ends a run of a row."""
        return float(self.configs[row.name].env.stop_value)


def read_plan(file: str | Path) -> Plan:
    """Reads a file in TOML, YAML, JSON or Python.

    Raises:
        ConfigError: the file cannot be read, or rows are wrong; the error lists every problem.
    """
    tree = dict(read_file(file).main)
    problems: list[str] = []
    shared = _checked(tree, _FILE, "", problems)
    tables = shared.pop("row", [])
    title, scores = shared.pop("title", "Results"), shared.pop("scores", {})
    normalised = shared.pop("normalised", {})
    anchors = shared.pop("anchors", {})
    rows = [
        row
        for index, each in enumerate(tables)
        if (row := _row(each, shared, f"row[{index}]", problems)) is not None
    ]
    if not tables:
        problems.append("row: no rows; add tables [[row]] with env and policy")
    problems += [
        f"{table}.{task}: expected two different returns, got {[low, high]}"
        for table, found in (("scores", scores), ("normalised", normalised))
        for task, (low, high) in found.items()
        if not math.isfinite(high - low) or low == high
    ]
    problems += [
        f"anchors.{task}.{name}: expected a finite return, got {value}"
        for task, each in anchors.items()
        for name, value in each.items()
        if not math.isfinite(value)
    ]
    problems += _repeated(row.name for row in rows)
    configs = {row.name: _compiled(row, problems) for row in rows}
    if problems:
        raise ConfigError([f"{file}: {problem}" for problem in problems])
    compiled = {k: v for k, v in configs.items() if v is not None}
    return Plan(title, tuple(rows), compiled, scores, {**scores, **normalised}, anchors)


def _row(each: Any, shared: Mapping[str, Any], path: str, problems: list[str]) -> Row | None:
    if not isinstance(each, Mapping):
        problems.append(f"{path}: expected a table, got {describe_value(each)}")
        return None
    before = len(problems)
    values = {**shared, **_checked(each, _ROW, f"{path}.", problems)}
    values["overrides"] = (*shared.get("overrides", ()), *values.get("overrides", ()))
    values["overrides"] = tuple(dict.fromkeys(values["overrides"]))
    given = {key for key in ("env", "policy", "config") if key in values}
    if given not in ({"env", "policy"}, {"config"}):
        problems.append(f"{path}: expected env and policy, or config")
        return None
    name = values.get("name") or _default_name(values)
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        problems.append(f"{path}.name: '{name}' is not a folder name; use letters, digits, _ . -")
    problems += [
        f"{path}.{key}: expected >= 1, got {values[key]}"
        for key in ("n_episode", "max_env_step", "check_seeds")
        if values.get(key, 1) < 1
    ]
    seeds = values.get("seeds", (0,))
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        problems.append(f"{path}.seeds: expected different seeds >= 0, got {list(seeds)}")
    return Row(**{**values, "name": name}) if len(problems) == before else None


def _exact(number: float) -> str:
    """Writes a number without rounding it: 475, -180.5."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _default_name(values: Mapping[str, Any]) -> str:
    if "config" in values:
        return Path(values["config"]).stem
    name = re.sub(r"[^\w.-]+", "_", f"{values['env']}_{values['policy']}")
    return name.lstrip("._-") or name  # ./file.py:Class: no hidden folder


def _checked(
    tree: Mapping[str, Any], declared: Mapping[str, object], path: str, problems: list[str]
) -> dict[str, Any]:
    """Returns the values that have the declared types, and adds the problems of the others."""
    found = {}
    for key, value in tree.items():
        if key not in declared:
            close = nearest(str(key), set(declared))
            hint = f"; did you mean '{close}'?" if close else f"; expected {', '.join(declared)}"
            problems.append(f"{path}{key}: unknown option{hint}")
            continue
        try:
            found[key] = convert(value, declared[key], f"{path}{key}")
        except Mismatch as error:
            problems += [f"{at}: {message}" for at, message in error.findings]
    return found


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"row: two rows are named '{name}'; give one another name"
        seen.add(name)


def _compiled(row: Row, problems: list[str]) -> Compiled | None:
    try:
        return compile_request(row.request())
    except ConfigError as error:
        problems += [f"row {row.name}: {problem}" for problem in error.problems]
    return None
