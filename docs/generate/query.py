"""Reads facts about dicore's own components from `dicore list --json` and `dicore show --json`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import click
from click.testing import CliRunner

from dicore.cli.group import group
from dicore_registry import Kind, Registry, default, using
from dicore_tools.levels import level, reason

OWN = (
    "dicore",
    "dicore-plugins",
    "dicore-dist",
    "dicore-tools",
    "dicore-compat",
    "dicore-agents",
    "dicore-worlds",
    "dicore-contrib",
    "dicore-contrib-envs",
)
"""The distributions whose components have a page here."""


def query(*words: str) -> Any:
    """Returns what `dicore WORDS --json` prints.

    Raises:
        RuntimeError: the command failed.
    """
    done = CliRunner().invoke(group, [*words, "--json"], catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(f"dicore {' '.join(words)}: {done.output}")
    return json.loads(done.stdout)


@cache
def components() -> tuple[dict[str, Any], ...]:
    """Returns the facts of all first-party components, sorted by kind and name.

    Raises:
        RuntimeError: a component cannot be used; its options would be missing.
    """
    with using(Registry()):
        listed = [
            item for item in query("list")
            if item["dist"] in OWN and item["status"] != "deprecated"  # told at its new name
        ]  # fmt: skip
        bad = [
            f"{item['qualified']}: {item['reason']}" for item in listed if item["status"] != "ok"
        ]
        if bad:
            raise RuntimeError("\n".join(bad))
        return tuple(query("show", f"{item['kind']}/{item['qualified']}") for item in listed)


def kinds() -> dict[str, Kind]:
    """Returns the kinds by name."""
    found = default().kinds()
    return {name: found[name] for name in sorted(found)}


def command_of(name: str) -> click.Command:
    """Returns the click command of a name."""
    found = group.get_command(click.Context(group), name)
    if found is None:
        raise RuntimeError(f"unknown command '{name}'")
    return found


def promise(name: str) -> list[str]:
    """Returns the paragraph of a name that is not stable; none for others."""
    if level(name) == "stable":
        return []
    return [f"[{level(name).capitalize()}](../../concepts/stability.md): {reason(name)}."]
