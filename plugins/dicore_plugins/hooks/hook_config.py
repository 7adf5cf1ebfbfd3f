"""How hooks are written in a config: the simple form, the full form, and the names behind both.

Simple: `{"log_show_after_iter": 100}` is hook `log_show` at position `after_iter` with value 100.
Full: `{"type": "log_show", "name": "show", "priority": 40, "position": "after_iter",
"ext_args": {"freq": 100}}`; a bare name takes all defaults.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from dicore.config.compile import compile_section
from dicore.config.signature import config_class
from dicore.errors import ConfigError, DicoreError, HookError
from dicore.interfaces.hook import POSITIONS, ILearnerHook
from dicore_registry import default as default_registry
from dicore_registry import register

_SIMPLE = re.compile(rf"(?P<type>\w+?)_(?P<position>{'|'.join(POSITIONS)})$")
_FULL_KEYS = {"type", "name", "priority", "position", "ext_args"}
_NONE: Mapping[str, Any] = {}


class Interval:
    """Says once per `length` updates that it is due.

    Args:
        length: Updates in one interval.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._seen = 0

    def pass_over(self, count: int) -> None:
        """Takes everything up to `count` as done: a resumed count goes on in its interval."""
        self._seen = count // self.length

    def due(self, train_iter: int) -> bool:
        """Says whether a multiple of `length` was reached since the last yes."""
        passed = train_iter // self.length
        if train_iter < self._seen * self.length:
            self._seen = passed
        if passed <= self._seen:
            return False
        self._seen = passed
        return True


def build_hooks(hook: Mapping[str, Any] | Iterable[Any]) -> list[ILearnerHook]:
    """Makes the hooks of a config, in either form or mixed.

    Raises:
        HookError: a description is wrong; the text holds all that is.
    """
    problems = [f"{path}: {text}" for path, text in hook_problems(hook)]
    if problems:
        raise HookError("\n".join(problems))
    hooks = (build_learner_hook_by_cfg(entry) for entry in _entries(hook))
    return [hook for hook in hooks if hook is not None]


def build_learner_hook_by_cfg(entry: Mapping[str, Any] | str) -> ILearnerHook | None:
    """Makes one hook of the full form; None where its value switches it off (`False`, `''`)."""
    spec = {"type": entry} if isinstance(entry, str) else dict(entry)
    cls = _resolve(spec.pop("type"))
    if "simple_value" in spec:
        hook: ILearnerHook | None = cls.from_value(spec["simple_value"], spec["position"])
        return hook
    arguments = {key: spec[key] for key in ("name", "priority", "position") if key in spec}
    made: ILearnerHook = cls(**arguments, **spec.get("ext_args", {}))
    return made


def hook_problems(hook: Any, trusted: Mapping[str, Any] = _NONE) -> Iterator[tuple[str, str]]:
    """Yields (path below `hook`, what is wrong) for each mistake.

    Args:
        hook: What a config says.
        trusted: Simple forms that are known to be right: their hooks are not imported.
    """
    if not isinstance(hook, Mapping | list | tuple):
        yield "hook", f"expected a dict or a list of hooks, got {type(hook).__name__}"
        return
    yield from _without_position(hook)
    for path, entry in _paths(hook):
        try:
            spec = {"type": entry} if isinstance(entry, str) else entry
            if not isinstance(spec, Mapping) or "type" not in spec:
                yield path, "a hook needs a 'type'"
                continue
            unknown = set(spec) - _FULL_KEYS - {"simple_value"}
            for key in sorted(unknown):
                close = difflib.get_close_matches(key, _FULL_KEYS, 1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                yield f"{path}.{key}", f"a hook has no option '{key}'{hint}"
            key = path.removeprefix("hook.")
            if key not in trusted or spec.get("simple_value") != trusted[key]:
                yield from _misfits(spec, path)
            position = spec.get("position", "after_iter")
            if position not in POSITIONS:
                yield (
                    f"{path}.position",
                    f"expected one of {', '.join(POSITIONS)}, got {position!r}",
                )
        except DicoreError as error:
            yield path, str(error).removeprefix(f"{path}: ")


def _without_position(hook: Any) -> Iterator[tuple[str, str]]:
    """A value under a bare name: nobody would be given it."""
    for key, value in hook.items() if isinstance(hook, Mapping) else ():
        if not isinstance(value, Mapping | bool | None) and not _SIMPLE.match(key):
            short, full = f"{key}_after_iter: {value!r}", f"{key}: {{ext_args: {{…}}}}"
            yield f"hook.{key}", f"{value!r} belongs to no option; write {short}, or {full}"


def hook_types(hook: Mapping[str, Any] | Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yields (path below the learner, name of the hook) for each hook of a config."""
    for path, entry in _paths(hook):
        yield path, entry if isinstance(entry, str) else entry["type"]


def _misfits(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Imports what a description asks for and compares the two.

    Raises:
        RegistryError: there is no such hook.
    """
    if not isinstance(spec["type"], str):
        yield f"{path}.type", f"expected a name, got {spec['type']!r}"
        return
    target = _resolve(spec["type"], path)
    if not callable(target):
        yield f"{path}.type", f"{spec['type']!r} is no class of hooks but {target!r}"
    elif "simple_value" in spec:
        yield from _wrong_value(target, spec, path)
    else:
        yield from _wrong_options(target, spec, path)


def _wrong_value(target: Any, spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Makes a hook of the simple form, as the learner will."""
    name, position, value = spec["type"], spec["position"], spec["simple_value"]
    if not hasattr(target, "from_value"):
        full = f"{{type: {name}, position: {position}, ext_args: {{…}}}}"
        yield path, f"hook '{name}' has no simple form (it lacks from_value); write {full}"
        return
    try:
        target.from_value(value, position)
    except (DicoreError, TypeError, ValueError) as error:
        said = error.message if isinstance(error, DicoreError) else error
        yield path, f"{value!r} is no value of hook '{name}': {said}"


def _wrong_options(target: Any, spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Compares the options of the full form with the hook's signature."""
    given = spec.get("ext_args", {})
    if not isinstance(given, Mapping):
        yield f"{path}.ext_args", f"expected a dict of options, got {given!r}"
        return
    known = inspect.signature(target).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        for key in sorted(set(given) - set(known)):
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            yield f"{path}.ext_args.{key}", f"{spec['type']} has no option '{key}'{hint}"
    priority = spec.get("priority", 0)
    if isinstance(priority, int) and priority < 0:
        yield f"{path}.priority", f"must be >= 0, got {priority}"
    options = {key: spec[key] for key in ("name", "priority", "position") if key in spec}
    declared = config_class(target, "learner_hook")
    own = {field.name for field in attrs.fields(declared)}
    said = {key: value for key, value in {**options, **given}.items() if key in own}
    try:
        compile_section(declared, said)
    except ConfigError as error:
        for problem in error.problems:
            key, _, text = problem.partition(": ")
            yield f"{path}.{key}" if key in options else f"{path}.ext_args.{key}", text


def merge_hooks(*groups: Iterable[ILearnerHook]) -> dict[str, list[ILearnerHook]]:
    """Joins hooks into lists by position, each sorted by priority; equal ones keep their order."""
    merged: dict[str, list[ILearnerHook]] = {position: [] for position in POSITIONS}
    for group in groups:
        for hook in group:
            merged[hook.position].append(hook)
    for hooks in merged.values():
        hooks.sort(key=lambda hook: hook.priority)
    return merged


def add_learner_hook(hooks: dict[str, list[ILearnerHook]], hook: ILearnerHook) -> None:
    """Adds one hook to lists by position, in its place of priority."""
    hooks[hook.position] = merge_hooks(hooks[hook.position], [hook])[hook.position]


def show_hooks(hooks: Mapping[str, Iterable[ILearnerHook]]) -> str:
    """Returns a line per hook: position, priority, name."""
    return "\n".join(
        f"{position:<12} {hook.priority:>4}  {hook.name}"
        for position in POSITIONS
        for hook in hooks.get(position, ())
    )


def register_learner_hook(name: str, hook_class: type[ILearnerHook]) -> None:
    """Puts a hook class of this process under a name that configs can use."""
    register("learner_hook", name)(hook_class)


def _entries(hook: Mapping[str, Any] | Iterable[Any]) -> list[Any]:
    return [entry for _, entry in _paths(hook)]


def _paths(hook: Mapping[str, Any] | Iterable[Any]) -> Iterator[tuple[str, Any]]:
    if not isinstance(hook, Mapping):
        for index, entry in enumerate(hook):
            yield f"hook[{index}]", entry
        return
    for key, value in hook.items():
        match = _SIMPLE.match(key)
        if isinstance(value, Mapping) and "type" in value:
            yield f"hook.{key}", value
        elif match:
            yield f"hook.{key}", {**match.groupdict(), "simple_value": value}
        elif isinstance(value, Mapping):
            yield f"hook.{key}", {**value, "type": key}
        elif value is not False:
            yield f"hook.{key}", {"type": key}


def _resolve(name: str, where: str = "hook") -> Any:
    return default_registry().resolve("learner_hook", name, where).target
