"""Bind: what follows from the spaces, filled in where everybody was silent."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

from dicore.config.checks import run_checks
from dicore.config.compiled import Compiled
from dicore.config.declare import ComponentConfig, Section, range_problem
from dicore.config.fields import fields_of
from dicore.config.follow import FOLLOWS, apply_follows
from dicore.config.leaf import Mismatch, convert
from dicore.config.plain import lookup, replace
from dicore.config.problems import Problems, is_place
from dicore.config.sections import RunConfig
from dicore.config.walk import DEFAULT

__all__ = ["SPACES", "bind"]

SPACES = "spaces"
"""Origin of a value that bind filled in."""


def bind(compiled: Compiled, observation_space: Any, action_space: Any) -> Compiled:
    """Fills in what the policy derives from the spaces, and checks that it fits them.

    Values that somebody gave stay (None is no value), if they may; see `fixed_by_spaces`.

    Args:
        compiled: What `compile_config` returned.
        observation_space: Of one environment.
        action_space: Of one environment.

    Raises:
        ConfigError: the algorithm does not fit the environment, or values do not go together, or
            contradict the spaces.
    """
    cfg, origin = compiled.cfg, dict(compiled.origin)
    problems = Problems(places={path: said for path, said in origin.items() if is_place(said)})
    for below, value in cfg.policy.bind(observation_space, action_space).items():
        cfg = _fill(cfg, f"policy.{below}", value, origin, problems)
    cfg = apply_follows(cfg, origin, problems)
    run_checks(cfg, problems)
    problems.raise_if_any()
    return changed(compiled, cfg=cfg, origin=origin)


def _fill(
    cfg: RunConfig, path: str, value: Any, origin: dict[str, str], problems: Problems
) -> RunConfig:
    silent = origin.get(path, DEFAULT).startswith((DEFAULT, FOLLOWS, SPACES))
    given = None if silent else lookup(cfg, path)
    if given is not None:  # a config that was saved before it was bound says None
        fixed = path.removeprefix("policy.") in cfg.policy.fixed_by_spaces
        if fixed and _shape(given) != _shape(value):
            problems.add(path, f"expected {value!r}, as the environment has, got {given!r}")
            problems.hints.append("what follows from the environment need not be given")
        return cfg
    *above, name = path.split(".")
    section: Any = cfg
    for key in above:
        section = section.get(key) if isinstance(section, Section) else None
    if section is None:
        return cfg  # an empty slot
    field = fields_of(type(section)).get(name)
    if field is None:
        if isinstance(section, ComponentConfig) and section is not cfg.policy:
            return cfg  # another's part that takes no such option
        problems.add(path, f"policy '{cfg.policy.type}' derives an option that it does not have")
        return cfg
    try:
        converted = convert(value, field.hint, path)
    except Mismatch as wrong:
        problems.extend(wrong.findings)
        return cfg
    if problem := range_problem(converted, field.metadata):
        problems.add(path, problem)
        return cfg
    origin[path] = SPACES
    return replace(cfg, tuple(path.split(".")), converted)


def _shape(value: Any) -> Any:
    """Writes a shape of one side as its number, any other as a tuple."""
    if not isinstance(value, list | tuple):
        return value
    return value[0] if len(value) == 1 else tuple(value)
