"""What is looked at once all values stand: must-give options, the env's own facts, cross checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from dicore.config.declare import REQUIRED, Section, range_problem
from dicore.config.fields import fields_of
from dicore.config.leaf import Mismatch, convert
from dicore.config.plain import dotted, join, leaves, lookup, sections
from dicore.config.problems import Problems
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError

__all__ = ["fill_from_spec", "report_missing", "run_checks"]

E = TypeVar("E", bound=EnvConfig)


def fill_from_spec(env: E, origin: dict[str, str], problems: Problems) -> E:
    """Asks the environment's own description for what must be given and was not.

    Args:
        env: The env's section; some values may be `REQUIRED`.
        origin: Takes `env spec` for each value found.
        problems: Takes what the description raises or says wrongly.
    """
    fields = fields_of(type(env))
    missing = [name for name in fields if getattr(env, name) is REQUIRED]
    common = fields_of(EnvConfig)
    if not missing or any(name not in common for name in missing):
        return env  # without its own options (the id, say) it cannot describe itself
    try:
        facts = env.from_spec()
    except ConfigError as error:
        problems.extend(_split(line) for line in error.problems)
        return env
    except Exception as error:  # whatever a stranger's description raises is a finding
        said = f"env '{env.type}' cannot be described: {type(error).__name__}: {error}"
        problems.add("env", said)
        return env
    found: dict[str, Any] = {}
    for name in missing:
        if facts.get(name) is None:
            continue
        path = f"env.{name}"
        try:
            value = convert(facts[name], fields[name].hint, path)
        except Mismatch as wrong:
            problems.extend(wrong.findings)
            continue
        if problem := range_problem(value, fields[name].metadata):
            problems.add(path, f"{problem} (by the env's own description)")
            continue
        found[name], origin[path] = value, "env spec"
    return attrs.evolve(env, **found)


def report_missing(cfg: Section, problems: Problems, *, prefix: str = "", whole: bool) -> None:
    """Notes every option that somebody must give and nobody gave.

    Args:
        cfg: What compile built.
        problems: Takes the findings.
        prefix: Path of `cfg`.
        whole: `cfg` is a whole run; else what follows another section's option may stay open.
    """
    start = tuple(prefix.split(".")) if prefix else ()
    for keys, field, value in leaves(cfg, start):
        path = dotted(keys)
        if value is not REQUIRED or problems.below(path):
            continue
        if field.follows and (not whole or _is_wrong(cfg, field.follows, problems)):
            continue  # what it follows says so itself
        problems.add(path, f"must be given: {field.metadata.get('help') or field.name}")
    for keys, section in sections(cfg, start):
        path = dotted(keys)
        for name, said in _empty_groups(section):
            if not problems.below(path):
                problems.add(join(path, name), said)


def run_checks(
    cfg: Section, problems: Problems, *, prefix: str = "", names_only: bool = False
) -> None:
    """Runs each section's own `check`, parts before the whole, where its values can be trusted.

    Args:
        cfg: What was compiled.
        problems: Takes the findings.
        prefix: Where `cfg` is.
        names_only: Refuse options that describe components by import path or file, unseen.
    """
    start = tuple(prefix.split(".")) if prefix else ()
    for keys, section in sections(cfg, start):
        check, path = getattr(section, "check", None), dotted(keys)
        if names_only:
            for name in fields_of(type(section)):
                for below, wanted in _code_paths(getattr(section, name), name):
                    said = f"{wanted!r} runs code of a file; only names here"
                    problems.add(join(path, below), said)
        if check is None or problems.below(path) or _is_open(section):
            continue
        for below, message in check():
            problems.add(join(path, below) if below else path, message)


def _code_paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields the import paths that an option's value, a dict or list, gives as types."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _code_paths(item, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key == "type" and isinstance(item, str) and ":" in item:
                yield f"{path}.type", item
            yield from _code_paths(item, f"{path}.{key}")


def _is_wrong(cfg: Section, path: str, problems: Problems) -> bool:
    return lookup(cfg, path) is REQUIRED or problems.below(path.partition(".")[0])


def _is_open(section: Section) -> bool:
    return any(value is REQUIRED for _, _, value in leaves(section))


def _empty_groups(section: Section) -> Iterator[tuple[str, str]]:
    fields = fields_of(type(section))
    for group in section.one_of:
        if all(getattr(section, name) in (None, REQUIRED) for name in group):
            meanings = "; ".join(f"{name}: {fields[name].metadata.get('help')}" for name in group)
            yield group[0], f"one of {', '.join(group)} must be given ({meanings})"


def _split(line: str) -> tuple[str, str]:
    path, colon, message = line.partition(": ")
    return (path, message) if colon and " " not in path else ("", line)
