"""The layers of a config, lowest first: plain trees, aliases, overrides, origins and problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dicore.config.convert import parse_value, shortened
from dicore.config.paths import combine, lookup, plain
from dicore.config.redact import conceal, is_secret, redact_text
from dicore.errors import ConfigError, RegistryError
from dicore_registry.importing import NAMES_ONLY, STRANGE, TRUST

PRESET = "preset "
"""Prefix of the name of a preset's layer."""

CREATE_PATHS: dict[str, str] = {
    "env": "env",
    "env_manager": "env.manager",
    "policy": "policy",
    "model": "policy.model",
    "learner": "policy.learn.learner",
    "collector": "policy.collect.collector",
    "evaluator": "policy.eval.evaluator",
    "replay_buffer": "policy.other.replay_buffer",
    "buffer": "policy.other.replay_buffer",
    "reward_model": "policy.reward_model",
    "world_model": "policy.world_model",
    "pipeline": "pipeline",
    "commander": "pipeline.system.commander",
    "comm_learner": "pipeline.system.comm_learner",
    "comm_collector": "pipeline.system.comm_collector",
}
"""Paths of the entries of a `create_config`; a main config may use these names too."""

ALIASES: dict[str, str] = {
    **{name: path for name, path in CREATE_PATHS.items() if name != path},
    "policy.batch_size": "policy.learn.batch_size",
    "policy.update_per_collect": "policy.learn.update_per_collect",
    "policy.update_per_step": "policy.learn.update_per_step",
    "policy.learning_rate": "policy.learn.learning_rate",
    "policy.n_sample": "policy.collect.n_sample",
    "policy.n_episode": "policy.collect.n_episode",
    "policy.unroll_len": "policy.collect.unroll_len",
    "policy.learn.nstep": "policy.nstep",
    "policy.collect.nstep": "policy.nstep",
    "policy.collect.discount_factor": "policy.discount_factor",
    "policy.learn.multi_gpu": "policy.multi_gpu",
    "policy.replay_buffer": "policy.other.replay_buffer",
    "policy.learn.hook": "policy.learn.learner.hook",
    "policy.collect.collector.n_sample": "policy.collect.n_sample",
    "policy.collect.collector.n_episode": "policy.collect.n_episode",
    "policy.collect.collector.unroll_len": "policy.collect.unroll_len",
    "policy.eval.evaluator.stop_value": "env.stop_value",
    "policy.eval.evaluator.n_episode": "env.n_evaluator_episode",
    "policy.eval.evaluator.n_evaluator_episode": "env.n_evaluator_episode",
    "env.env_manager": "env.manager",
}
"""Every short form and second name of a path, which no component may declare as an option."""

Overrides = Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | str

_HOPS = 3
_INDEX = re.compile(r"[0-9]{1,9}")
_FILE = re.compile(r".+\.(py|ya?ml|toml|json)(:\d+)?", re.IGNORECASE)
_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one file."""

    of: Mapping[str, int] = field(default_factory=dict)

    def find(self, path: str) -> int | None:
        """Returns the line that sets a path of the config, or None.

        The file may use a short form of the path. A value that code computes has no line of its
        own; the line is then that of the nearest enclosing section.
        """
        for written in _spellings(path):
            if written in self.of:
                return self.of[written]
        cut = max(path.rfind("."), path.rfind("["))
        return self.find(path[:cut]) if cut > 0 else None


def _spellings(path: str) -> Iterator[str]:
    """Yields a path and its short forms, the closest first."""
    yield path
    forms = [path]
    for _ in range(_HOPS):
        forms = [
            alias + form[len(full) :]
            for form in forms
            for alias, full in ALIASES.items()
            if form == full or form.startswith((f"{full}.", f"{full}["))
        ]
        yield from forms


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source: a preset, a file (with lines), the command line.

    Only names choose code if it is `saved`: a `config.json` comes with the files of others. If it
    was `handed_on` by a part of this program, the code paths that a person gave may stand in it.
    `complete` is what a run wrote: an option that it lacks is newer than the run.
    """

    name: str
    tree: dict[str, Any] = field(default_factory=dict)
    lines: Lines | None = None
    saved: bool = False
    handed_on: bool = False
    complete: bool = False

    def origin(self, path: str) -> str:
        """Returns the source of the value at a path: `my.yaml:3`, `preset cartpole_dqn`, …."""
        line = self.lines.find(path) if self.lines is not None else None
        return self.name if line is None else f"{self.name}:{line}"

    def place(self, path: str) -> str:
        """Returns the file or preset to edit for a value; "" for the command line and code."""
        return self.origin(path) if self.lines is not None or self.name.startswith(PRESET) else ""


def is_place(origin: str) -> bool:
    """Returns whether the origin of a value is a file or a preset."""
    return origin.startswith(PRESET) or _FILE.fullmatch(origin) is not None


@dataclass(slots=True)
class Problems:
    """The mistakes found by one compile, raised together."""

    found: list[tuple[str, str, Layer | None]] = field(default_factory=list)
    causes: list[RegistryError] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    places: Mapping[str, str] = field(default_factory=dict)
    about: str = ""

    def add(self, path: str, message: str, layer: Layer | None = None) -> None:
        """Adds one mistake, without the value of a secret."""
        shown = conceal(message) if is_secret(path) else redact_text(message)
        self.found.append((path, shown, layer))

    def extend(self, findings: Iterable[tuple[str, str]], layer: Layer | None = None) -> None:
        """Adds several."""
        for path, message in findings:
            self.add(path, message, layer)

    def add_error(
        self, path: str, error: RegistryError, layer: Layer | None = None, more: str = ""
    ) -> None:
        """Adds an error of the registry, whose message begins with the path, and `more`."""
        self.causes.append(error)
        self.add(path, error.message.removeprefix(f"{path}: ") + more, layer)

    def add_code_path(self, path: str, target: str, layer: Layer, names_only: bool = False) -> None:
        """Adds a component that only names may choose, and is given as a code path."""
        why = "which --names-only forbids" if names_only else f"and {STRANGE}"
        self.hints += [NAMES_ONLY] if names_only else []
        self.add(path, f"{target!r} is a code path, {why}", layer)

    def below(self, path: str) -> bool:
        """Returns whether there is a mistake at or below `path`."""
        return any(
            path in ("", at) or at.startswith((f"{path}.", f"{path}[")) for at, _, _ in self.found
        )

    def raise_if_any(self) -> None:
        """Raises all mistakes as one error, sorted by path, with file and line of each value."""
        if not self.found:
            return
        unloadable = [e for e in self.causes if e.exit_code != ConfigError.exit_code]
        if len(self.found) == len(unloadable) == 1:
            raise unloadable[0]
        lines = {self._line(*finding): finding[0] for finding in self.found}
        ordered = sorted(lines, key=lambda line: (_order(lines[line]), line))
        hints = dict.fromkeys(
            hint for hint in [*self.hints, *(e.hint for e in self.causes)] if hint
        ) or dict.fromkeys([self.about] if self.about and len(self.found) == 1 else ())
        if any(message.endswith(STRANGE) for _, message, _ in self.found):
            hints = {TRUST: None, **hints}
        error = ConfigError(ordered, hint="; ".join(hints))
        if len(self.found) == len(unloadable):
            error.exit_code = unloadable[0].exit_code
        raise error from (self.causes[0] if self.causes else None)

    def _line(self, path: str, message: str, layer: Layer | None) -> str:
        where = self.places.get(path) or self.places.get(f"{path}.type", "")
        place = layer.place(path) if layer is not None and path else where
        text = f"{message} ({place})" if place else message
        return f"{path}: {text}" if path else text


def _order(path: str) -> list[tuple[str, int]]:
    """Sorts `hook[2]` before `hook[10]`."""
    parts = re.findall(r"[^.\[\]]+", path)
    return [("", int(part)) if _INDEX.fullmatch(part) else (part, 0) for part in parts]


def expand_aliases(
    tree: Mapping[str, object], problems: Problems, layer: Layer | None = None, *, below: str = ""
) -> dict[str, Any]:
    """Moves the values of short forms to their full paths."""
    expanded = dict(tree)
    for alias, path in ALIASES.items():
        if not (alias.startswith(below) and path.startswith(below)):
            continue
        value = _pop(expanded, alias)
        if value is None:
            continue
        if alias.startswith("comm_") and isinstance(value, Mapping):  # a name, without options
            value = value["type"] if value.keys() - {"import_names"} == {"type"} else value

        def contradicts(
            at: str, first: object, second: object, *, alias: str = alias, path: str = path
        ) -> None:
            text = f"{second!r} contradicts {at}, which is {first!r}; give one of them"
            problems.add(f"{alias}{at.removeprefix(path)}", text, layer)

        full = lookup(expanded, path)
        joined = value if full is None else combine(full, value, path, contradicts)
        if not _put(expanded, path.split("."), joined):
            problems.add(alias, f"stands for {path}, whose section is not a dict", layer)
    return expanded


def _pop(tree: dict[str, object], path: str) -> object:
    *above, key = path.split(".")
    node: object = tree
    for name in above:
        node = node.get(name) if isinstance(node, dict) else None
    return node.pop(key, None) if isinstance(node, dict) else None


def _put(tree: dict[str, object], keys: Sequence[str], value: object) -> bool:
    """Sets a value in place; a name on the way becomes a section. False if that is impossible."""
    *above, last = keys
    for name in above:
        below = tree.get(name)
        if below is None:
            below = tree[name] = {}
        elif isinstance(below, str | type):
            below = tree[name] = {"type": below}
        if not isinstance(below, dict):
            return False
        tree = below
    tree[last] = value
    return True


def parse_override(text: str) -> tuple[str, object]:
    """Splits `policy.learn.batch_size=128` into path and value.

    Raises:
        ConfigError: there is no `=`, no path, or the value cannot be read.
    """
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals:
        raise ConfigError(f"{text}: expected PATH=VALUE, as in policy.learn.batch_size=128")
    if "[" in path:
        whole = path.partition("[")[0]
        raise ConfigError(f"{path}: cannot set single items of a list; give {whole}=[…]")
    if not _PATH.fullmatch(path):
        raise ConfigError(f"{text}: invalid option path {path!r}; expected PATH=VALUE")
    try:
        return path, parse_value(value.strip())
    except ValueError as error:
        shown = "it" if is_secret(path) else shortened(value.strip())
        raise ConfigError(f"{path}: cannot read {shown}: {error}") from error


def override_tree(overrides: Overrides, problems: Problems) -> dict[str, object]:
    """Merges overrides into one tree; the last one wins."""
    tree: dict[str, Any] = {}
    for override in [overrides] if isinstance(overrides, str | Mapping) else overrides:
        try:
            for path, value in _pairs(override):
                _override(tree, path.split("."), plain(value))
        except ConfigError as error:
            problems.add("", error.message)
        except json.JSONDecodeError as error:
            problems.add("", f"{{…}}: not a JSON object: {error}")
    return tree


def _pairs(override: str | Mapping[str, object]) -> Iterable[tuple[str, object]]:
    if isinstance(override, Mapping):
        return [(str(path), value) for path, value in override.items()]
    if not isinstance(override, str):
        raise ConfigError(f"override {shortened(override)}: expected 'PATH=VALUE' or a dict")
    return json.loads(override).items() if override.startswith("{") else [parse_override(override)]


def _override(tree: dict[str, Any], keys: Sequence[str], value: object) -> None:
    *above, last = keys
    for key in above:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {"type": below} if isinstance(below, str) else {}
        tree = below
    old = tree.get(last)
    if isinstance(old, dict) and isinstance(value, Mapping):
        for key, item in value.items():
            _override(old, [key], item)
    elif isinstance(old, dict) and isinstance(value, str):
        old["type"] = value
    else:
        tree[last] = value
