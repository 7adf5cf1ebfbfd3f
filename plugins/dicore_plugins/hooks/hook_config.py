"""Learner hooks in a config: the simple form, the full form, and their check.

Simple: `{"log_show_after_iter": 100}` is hook `log_show` at position `after_iter` with value 100.
Full: `{"type": "log_show", "name": "show", "priority": 40, "position": "after_iter",
"ext_args": {"freq": 100}}`; a bare name selects the hook with its defaults.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.errors import ConfigError, DicoreError, HookError
from dicore.interfaces.hook import POSITIONS, ILearnerHook
from dicore_registry import default as default_registry
from dicore_registry import register
from dicore_registry.explain import nearest
from dicore_registry.importing import TRUST

_SIMPLE = re.compile(rf"(?P<type>\w+?)_(?P<position>{'|'.join(POSITIONS)})$")
_ARGUMENTS = ("name", "priority", "position")
_FULL_KEYS = {"type", *_ARGUMENTS, "ext_args"}
_NONE: Mapping[str, object] = {}

Hooks = Mapping[str, Any] | Iterable[Any]
"""The hooks of a config, in the simple or the full form; values are what a user wrote."""
HooksByPosition = dict[str, list[ILearnerHook]]


class Interval:
    """Decides when a hook is due: once per `length` updates, however many one call makes.

    Args:
        length: Updates (or env steps, or seconds) in one interval.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._seen = 0

    def pass_over(self, count: int) -> None:
        """Skips everything up to `count`: a resumed run continues in its interval."""
        self._seen = count // self.length

    def will_be_due(self, train_iter: int) -> bool:
        """Returns what `due` is going to return."""
        return train_iter < self._seen * self.length or train_iter // self.length > self._seen

    def due(self, train_iter: int) -> bool:
        """Returns whether a multiple of `length` was reached since the last True."""
        passed = train_iter // self.length
        if train_iter < self._seen * self.length:
            self._seen = passed
        if passed <= self._seen:
            return False
        self._seen = passed
        return True


def build_hooks(hook: Hooks) -> list[ILearnerHook]:
    """Creates the hooks of a config; both forms may be mixed.

    Raises:
        HookError: a description is wrong; the message lists all problems.
    """
    problems = [f"{path}: {text}" for path, text in hook_problems(hook)]
    if problems:
        raise HookError("\n".join(problems))
    hooks = (_built(entry) for _, entry in _paths(hook))
    return [hook for hook in hooks if hook is not None]


def build_learner_hook_by_cfg(cfg: Hooks | str) -> HooksByPosition:
    """Creates the hooks of a config, sorted by priority, in lists by position.

    Args:
        cfg: A dict of hooks in the simple or the full form, a list of hooks, or a single one.

    Raises:
        HookError: a description is wrong; the message lists all problems.
    """
    single = isinstance(cfg, str) or (isinstance(cfg, Mapping) and "type" in cfg)
    return merge_hooks(build_hooks([cfg] if single else cfg))


def _built(entry: Mapping[str, object] | str) -> ILearnerHook | None:
    """Creates one hook from the full form; None if its value disables it (`False`, `''`)."""
    spec: dict[str, Any] = {"type": entry} if isinstance(entry, str) else dict(entry)
    cls = _resolve(spec.pop("type"))
    hook: ILearnerHook | None
    if "simple_value" in spec:
        hook = cls.from_value(spec["simple_value"], spec["position"])
    else:
        arguments = {key: spec[key] for key in _ARGUMENTS if key in spec}
        hook = cls(**arguments, **spec.get("ext_args", {}))
    return hook


def hook_problems(hook: object, trusted: Mapping[str, object] = _NONE) -> Iterator[tuple[str, str]]:
    """Yields (path below the learner, problem) for each mistake.

    Args:
        hook: The `hook` option of a config.
        trusted: Simple forms that are known to be valid: their hooks are not imported.
    """
    if not isinstance(hook, Mapping | list | tuple):
        yield "hook", f"expected a dict or a list of hooks, got {type(hook).__name__}"
        return
    yield from _without_position(hook)
    for path, entry in _paths(hook):
        try:
            yield from _entry_problems(path, entry, trusted)
        except DicoreError as error:
            hint = f"; {error.hint}" if error.hint and error.hint != TRUST else ""
            yield path, error.message.removeprefix(f"{path}: ") + hint


def _entry_problems(
    path: str, entry: object, trusted: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    spec = {"type": entry} if isinstance(entry, str) else entry
    if not isinstance(spec, Mapping) or "type" not in spec:
        yield path, "a hook needs a 'type'"
        return
    for key in sorted(set(spec) - _FULL_KEYS - {"simple_value"}):
        yield f"{path}.{key}", _unknown_option("a hook", key, _FULL_KEYS)
    key = path.removeprefix("hook.")
    if key not in trusted or spec.get("simple_value") != trusted[key]:
        yield from _target_problems(spec, path)
    position = spec.get("position", "after_iter")
    if position not in POSITIONS:
        expected = ", ".join(POSITIONS)
        yield f"{path}.position", f"expected one of {expected}, got {position!r}"


def _without_position(hook: object) -> Iterator[tuple[str, str]]:
    """Finds values below a bare name, which no option receives."""
    for key, value in hook.items() if isinstance(hook, Mapping) else ():
        if not isinstance(value, Mapping | bool | None) and not _SIMPLE.match(key):
            short, full = f"{key}_after_iter: {value!r}", f"{key}: {{ext_args: {{…}}}}"
            yield f"hook.{key}", f"{value!r} has no position; write {short}, or {full}"


def hook_types(hook: Hooks) -> Iterator[tuple[str, str]]:
    """Yields (path below the learner, name of the hook) for each hook of a config."""
    for path, entry in _paths(hook):
        yield path, entry if isinstance(entry, str) else entry["type"]


def _target_problems(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Imports the hook and compares the description with it.

    Raises:
        RegistryError: the hook does not exist.
    """
    if not isinstance(spec["type"], str):
        yield f"{path}.type", f"expected a name, got {spec['type']!r}"
        return
    target = _resolve(spec["type"], path)
    if not callable(target):
        yield f"{path}.type", f"{spec['type']!r} is not a hook class but {target!r}"
    elif "simple_value" in spec:
        yield from _value_problems(target, spec, path)
    else:
        yield from _option_problems(target, spec, path)


def _value_problems(target: Any, spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Creates a hook from the simple form, as the learner will."""
    name, position, value = spec["type"], spec["position"], spec["simple_value"]
    if not hasattr(target, "from_value"):
        full = f"{{type: {name}, position: {position}, ext_args: {{…}}}}"
        yield path, f"hook '{name}' has no simple form (it lacks from_value); write {full}"
        return
    try:
        target.from_value(value, position)
    except (DicoreError, TypeError, ValueError) as error:
        message = error.message if isinstance(error, DicoreError) else error
        yield path, f"{value!r} is not a value of hook '{name}': {message}"


def _option_problems(target: Any, spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Compares the options of the full form with the hook's signature."""
    options = spec.get("ext_args", {})
    if not isinstance(options, Mapping):
        yield f"{path}.ext_args", f"expected a dict of options, got {options!r}"
        return
    parameters = inspect.signature(target).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        for key in sorted(set(options) - set(parameters)):
            yield f"{path}.ext_args.{key}", _unknown_option(spec["type"], key, parameters)
    priority = spec.get("priority", 0)
    if isinstance(priority, int) and priority < 0:
        yield f"{path}.priority", f"must be >= 0, got {priority}"
    arguments = {key: spec[key] for key in _ARGUMENTS if key in spec}
    declared = config_class(target, "learner_hook")
    names = {field.name for field in attrs.fields(declared)}
    values = {key: value for key, value in {**arguments, **options}.items() if key in names}
    try:
        compile_section(declared, values)
    except ConfigError as error:
        for problem in error.problems:
            key, _, text = problem.partition(": ")
            yield f"{path}.{key}" if key in arguments else f"{path}.ext_args.{key}", text


def _unknown_option(owner: str, key: str, known: Iterable[str]) -> str:
    close = nearest(key, known)
    return f"{owner} has no option '{key}'" + (f"; did you mean '{close}'?" if close else "")


def merge_hooks(*groups: Iterable[ILearnerHook]) -> dict[str, list[ILearnerHook]]:
    """Merges hooks into lists by position, each sorted (stably) by priority."""
    merged: dict[str, list[ILearnerHook]] = {position: [] for position in POSITIONS}
    for group in groups:
        for hook in group:
            merged[hook.position].append(hook)
    for hooks in merged.values():
        hooks.sort(key=lambda hook: hook.priority)
    return merged


def add_learner_hook(hooks: dict[str, list[ILearnerHook]], hook: ILearnerHook) -> None:
    """Inserts one hook into lists by position, after those of the same or lower priority."""
    hooks[hook.position] = merge_hooks(hooks[hook.position], [hook])[hook.position]


def show_hooks(hooks: Mapping[str, Iterable[ILearnerHook]]) -> str:
    """Returns a line per hook: position, priority, name."""
    return "\n".join(
        f"{position:<12} {hook.priority:>4}  {hook.name}"
        for position in POSITIONS
        for hook in hooks.get(position, ())
    )


def register_learner_hook(name: str, hook_class: type[ILearnerHook]) -> None:
    """Registers a hook class of this process under a name for configs.

    Raises:
        HookError: it is not a class whose objects can be called.
    """
    is_class = isinstance(hook_class, type) and not issubclass(hook_class, type)
    if not is_class or not any("__call__" in vars(each) for each in hook_class.__mro__):
        raise HookError(
            f"{hook_class!r} is not a class of learner hooks",
            hint="derive from dicore.interfaces.hook.LearnerHook and define __call__(self, engine)",
        )
    register("learner_hook", name)(hook_class)


def _paths(hook: Hooks) -> Iterator[tuple[str, Any]]:
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
