"""Checks and late defaults: required options, linked defaults, env specs, spaces, cross checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from dicore.config.convert import Mismatch, convert
from dicore.config.layers import Problems, is_place
from dicore.config.paths import dotted, join, leaves, lookup, replace, sections
from dicore.config.redact import hide_secrets
from dicore.config.schema import (
    REQUIRED,
    ComponentConfig,
    Field,
    Section,
    fields_of,
    label_of,
    range_problem,
    required_by,
)
from dicore.config.sections import Compiled, EnvConfig, PolicyConfig, RunConfig
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

E = TypeVar("E", bound=EnvConfig)

DEFAULT = "class "
"""Prefix of the origin of a class default."""
FOLLOWS = "follows "
"""Prefix of the origin of a value that was copied from another path."""
SPACES = "spaces"
"""Origin of a value that `bind` filled in."""

_MAX_CHAIN = 8


def bind(compiled: Compiled, spec: EnvSpec, action_space: Space | None = None) -> Compiled:
    """Fills in unset options that follow from the environment; checks that the policy fits it.

    Values that a source set stay (None is unset) unless they are `fixed_by_spaces` and differ.

    Args:
        compiled: What `compile_config` returned.
        spec: What is known of the environment; its observation space is deprecated.
        action_space: Deprecated; its action space.

    Raises:
        ConfigError: the algorithm does not fit the environment, or values do not fit together, or
            contradict the spaces.
    """
    cfg, origin = compiled.cfg, dict(compiled.origin)
    problems = Problems(places={path: place for path, place in origin.items() if is_place(place)})
    given = EnvSpec.given(spec, action_space, "bind")
    for below, value in derived_options(cfg.policy, given).items():
        cfg = _fill(cfg, f"policy.{below}", value, origin, problems)
    cfg = fill_linked_defaults(cfg, origin, problems)
    run_checks(cfg, problems)
    problems.raise_if_any()
    return changed(compiled, cfg=cfg, origin=origin)


def derived_options(policy: PolicyConfig, spec: EnvSpec) -> dict[str, object]:
    """Returns what `bind` of a policy derives, which may have the deprecated form of two spaces.

    Raises:
        ConfigError: the policy does not fit the environment.
    """
    if len(signature(policy.bind).parameters) != 2:
        return policy.bind(spec)
    from dicore.deprecation import deprecated

    told = f"{type(policy).__qualname__}.bind(observation_space, action_space)"
    deprecated(told, instead="bind(spec)", since="0.1")
    return policy.bind(spec.observation, spec.action)  # type: ignore[arg-type, call-arg]


def _fill(
    cfg: RunConfig, path: str, value: Any, origin: dict[str, str], problems: Problems
) -> RunConfig:
    unset = origin.get(path, DEFAULT).startswith((DEFAULT, FOLLOWS, SPACES))
    given = None if unset else lookup(cfg, path)  # None, too, if saved before it was bound
    if given is not None or origin.get(path, "").startswith("displaced by "):
        fixed = path.removeprefix("policy.") in cfg.policy.fixed_by_spaces
        if fixed and _shape(given) != _shape(value):
            problems.add(path, f"expected {value!r}, as the environment has, got {given!r}")
            problems.hints.append("omit it: spaces give it; if a run had it, the env has changed")
        return cfg
    *above, name = path.split(".")
    section: Any = cfg
    for key in above:
        section = section.get(key) if isinstance(section, Section) else None
    if section is None:
        return cfg  # an empty slot
    field = fields_of(type(section)).get(name)
    if field is None:
        if not isinstance(section, ComponentConfig) or section is cfg.policy:
            message = f"policy '{cfg.policy.type}' derives an option that it does not have"
            problems.add(path, message)
        return cfg  # a component of another package need not have the option
    converted = _accepted(value, field, path, problems)
    if converted is REQUIRED:
        return cfg
    origin[path] = SPACES
    return replace(cfg, tuple(path.split(".")), converted)


def _accepted(value: object, field: Field, path: str, problems: Problems, by: str = "") -> object:
    """Returns a value as its option holds it, or REQUIRED if it was added to the problems."""
    try:
        converted = convert(value, field.hint, path)
    except Mismatch as wrong:
        problems.extend(wrong.findings)
        return REQUIRED
    if problem := range_problem(converted, field.metadata):
        problems.add(path, problem + by)
        return REQUIRED
    return converted


def _shape(value: object) -> object:
    """Returns a shape of one dimension as its number, any other as a tuple."""
    if not isinstance(value, list | tuple):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def fill_linked_defaults(
    cfg: RunConfig,
    origin: dict[str, str],
    problems: Problems,
    repeats: Callable[[str, str], bool] = lambda path, source: False,
) -> RunConfig:
    """Returns the config with each unset option that follows another one set to its value."""
    for _ in range(_MAX_CHAIN):  # an option may follow one that follows a third
        before = cfg
        for keys, field, value in leaves(before):
            source = field.follows
            if source is None:
                continue
            path = dotted(keys)
            wanted = lookup(before, source, REQUIRED)
            if wanted is REQUIRED or problems.below(source):
                continue
            unset = origin.get(path, DEFAULT).startswith((DEFAULT, FOLLOWS))
            if not (unset or repeats(path, source)):
                continue
            try:
                copied = convert(wanted, field.hint, path)
            except Mismatch as wrong:
                if wanted is not None:  # an empty source has nothing to copy
                    problems.extend(wrong.findings)
                continue
            origin[path] = f"{FOLLOWS}{source}"
            if copied != value:
                cfg = replace(cfg, keys, copied)
        if cfg is before:
            break
    return cfg


def fill_from_spec(env: E, origin: dict[str, str], problems: Problems) -> E:
    """Returns an env's section with missing values taken from the env's own description."""
    fields = fields_of(type(env))
    missing = [name for name in fields if getattr(env, name) is REQUIRED]
    common = fields_of(EnvConfig)
    if not missing or any(name not in common for name in missing):
        return env  # without its own options (the id, say) it cannot describe itself
    try:
        spec = env.from_spec()
    except ConfigError as error:
        problems.extend(_split(line) for line in error.problems)
        return env
    except Exception as error:  # code of another package may raise anything
        message = f"env '{env.type}' cannot be described: {type(error).__name__}: {error}"
        problems.add("env", message)
        return env
    found: dict[str, Any] = {}
    for name in missing:
        if spec.get(name) is None:
            continue
        by = " (by the env's own description)"
        value = _accepted(spec[name], fields[name], f"env.{name}", problems, by)
        if value is not REQUIRED:
            found[name], origin[f"env.{name}"] = value, "env spec"
    return attrs.evolve(env, **found)


def _split(line: str) -> tuple[str, str]:
    path, colon, message = line.partition(": ")
    return (path, message) if colon and " " not in path else ("", line)


def report_missing(cfg: Section, problems: Problems, *, prefix: str = "", whole: bool) -> None:
    """Adds every required option that no source gives to the problems."""
    start = tuple(prefix.split(".")) if prefix else ()
    for keys, field, value in leaves(cfg, start):
        path = dotted(keys)
        if value is not REQUIRED or problems.below(path):
            continue
        if (source := field.follows) and (
            not whole or lookup(cfg, source) is REQUIRED or problems.below(source.partition(".")[0])
        ):
            continue  # the followed option is reported
        problems.add(path, f"must be given: {field.metadata.get('help') or field.name}")
    for keys, section in sections(cfg, start):
        path = dotted(keys)
        offline = getattr(lookup(cfg, dotted(keys[:-1]), cfg), "offline", False)  # collects nothing
        for name, message in () if offline else _empty_groups(section):
            if not problems.below(path):
                problems.add(join(path, name), message)


def _empty_groups(section: Section) -> Iterator[tuple[str, str]]:
    fields = fields_of(type(section))
    for group in section.one_of:
        if all(getattr(section, name) in (None, REQUIRED) for name in group):
            helps = "; ".join(f"{name}: {fields[name].metadata.get('help')}" for name in group)
            yield group[0], f"one of {', '.join(group)} must be given ({helps})"


def run_checks(cfg: Section, problems: Problems, *, prefix: str = "") -> None:
    """Runs each section's own `check`, parts before the whole, if its values are valid."""
    start = tuple(prefix.split(".")) if prefix else ()
    for keys, field, value in leaves(cfg, start):  # errors may show values, also later ones
        hide_secrets(value, dotted(keys), field.metadata.get("secret"), field.default())
    for keys, section in sections(cfg, start):
        path, check = dotted(keys), getattr(section, "check", None)
        required = required_by(type(section))
        if not (check or required) or problems.below(path):
            continue
        if any(value is REQUIRED for _, _, value in leaves(section)):
            continue
        label = section.get("type") or label_of(type(section))
        unmet = (
            (at, f"{label} {why}")
            for at, (wanted, why) in required.items()
            if lookup(section, at, wanted) != wanted
        )
        for below, message in chain(unmet, check() if check else ()):
            problems.add(join(path, below) if below else path, message)
