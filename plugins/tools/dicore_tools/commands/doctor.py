"""`dicore doctor`: finds problems of the installed packages and suggests fixes."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict

import click

import dicore_registry
from dicore.console import plural
from dicore.hookspecs.manager import Diagnostic
from dicore_registry import Registry
from dicore_registry.errors import PluginWarning

_EPILOG = """\b
Examples:
  dicore doctor
  dicore doctor --import           also import every component
  dicore doctor --strict --json    for CI: treat warnings as errors

Exit code 1 if there are errors.
"""


@click.command(name="doctor", epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--import", "imports", is_flag=True, help="Also import every component.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, strict: bool, imports: bool) -> None:
    """Finds broken, missing and conflicting components of the installed packages."""
    registry = dicore_registry.default()
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        found = examine(registry, imports=imports)
    errors = sum(each.level == "error" or strict for each in found)
    if as_json:
        _write_json(found, errors)
    else:
        _write_text(registry, found)
    ctx.exit(1 if errors else 0)


def examine(registry: Registry, *, imports: bool = False) -> list[Diagnostic]:
    """Returns all problems found, errors first.

    Args:
        registry: The registry to check.
        imports: Also import every component.
    """
    from dicore.hookspecs.manager import load_plugins
    from dicore_tools.commands.doctor_checks import check_imports, check_metadata, check_statuses

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # reported below
        found = [*check_statuses(registry), *check_metadata(registry)]
        plugins = load_plugins(registry, strict=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found += plugins.lines("dicore_doctor", registry=registry)
    problems = [*plugins.problems, *(str(warning.message) for warning in caught)]
    found += [Diagnostic("error", "", text, check="plugin") for text in problems]
    if imports:
        found += check_imports(registry)
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda each: (each.level != "error", each.about, each.text))


def _write_json(found: Sequence[Diagnostic], errors: int) -> None:
    import json

    item = {"errors": errors, "findings": [asdict(each) for each in found]}
    sys.stdout.write(json.dumps(item, indent=1) + "\n")


def _write_text(registry: Registry, found: Sequence[Diagnostic]) -> None:
    for each in found:
        about = f"{each.about}: " if each.about else ""
        sys.stdout.write(f"{each.level}: {about}{each.text}\n")
        if each.hint:
            sys.stdout.write(f"  hint: {each.hint}\n")
    if line := _env_packages(registry):
        sys.stdout.write(f"{line}\n")
    errors = sum(each.level == "error" for each in found)
    dists = {entry.dist for entry in registry.entries()}
    checked = f"{len(registry.entries())} components of {plural(len(dists), 'package')}"
    counts = f"{plural(errors, 'error')}, {plural(len(found) - errors, 'warning')}"
    sys.stdout.write(f"{checked}: {counts}\n")


def _env_packages(registry: Registry) -> str:
    """Returns a line about the packages whose environments can be used by id, with versions."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for entry in registry.entries("env"):
        if entry.name in ("gymnasium", "gym", "pettingzoo") and entry.status == "ok":
            with contextlib.suppress(PackageNotFoundError):
                found.append(f"{entry.name}:ID from {entry.name} {version(entry.name)}")
    return f"environments by id: {', '.join(found)}" if found else ""
