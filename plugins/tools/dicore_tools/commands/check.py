"""`dicore check`: the conformance suites from the shell, for a package or a component."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

import click

import dicore_registry
from dicore.errors import UsageError

if TYPE_CHECKING:
    from dicore.testing import Check

_EPILOG = """\b
Examples:
  dicore check acme-rl             every component of a package
  dicore check env/countdown       one component; env/acme-rl/countdown where two have the name
  dicore check acme-rl -v          every check, also those that hold
  dicore check acme-rl --json

Exit code 1 if a check fails. In a test file: from dicore.testing import parametrize.
"""


@dataclass(frozen=True, slots=True)
class _Result:
    """How one check went: `ok`, `failed` or `skipped`, and why."""

    component: str
    check: str
    outcome: str
    reason: str


@click.command(name="check", epilog=_EPILOG)
@click.argument("what", metavar="DIST|KIND/NAME")
@click.option("-v", "--verbose", is_flag=True, help="Show every check, and tracebacks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
@click.pass_context
def command(ctx: click.Context, what: str, *, verbose: bool, as_json: bool) -> None:
    """Puts components to the checks of their kinds."""
    checks = _chosen(what)
    results: list[_Result] = []
    unloadable: set[str] = set()
    with _elsewhere():
        for check in checks:
            label = check.component.label
            if label in unloadable:
                result = _Result(label, check.name, "skipped", "it does not load")
            else:
                result = _run(check, verbose=verbose)
            if (check.name, result.outcome) == ("loads", "failed"):
                unloadable.add(label)
            results.append(result)
            if not as_json and (verbose or result.outcome == "failed"):
                _say(result)
    failed = sum(result.outcome == "failed" for result in results)
    if as_json:
        item = {"failed": failed, "checks": [asdict(result) for result in results]}
        sys.stdout.write(json.dumps(item, indent=1) + "\n")
    else:
        _summarise(results)
    ctx.exit(1 if failed else 0)


def _chosen(what: str) -> list[Check]:
    from dicore.testing import checks_of

    registry = dicore_registry.default()
    kind, slash, name = what.partition("/")
    if slash:
        entry = registry.find(kind, name)
        return checks_of(component=f"{entry.kind}/{entry.name}", dist=entry.dist)
    dist = dicore_registry.dist_name(what)
    known = sorted({entry.dist for entry in registry.entries()})
    if dist not in known:
        close = dicore_registry.nearest(dist, known)
        hint = f"did you mean '{close}'?" if close else f"packages: {', '.join(known)}"
        raise UsageError(f"no installed package '{what}' brings components; {hint}")
    broken = [e for e in registry.entries() if e.dist == dist and e.status == "broken"]
    if broken:
        each = "; ".join(f"{entry.kind}/{entry.name}: {entry.reason}" for entry in broken)
        raise UsageError(f"{dist} has broken entries: {each}", hint="dicore doctor")
    return checks_of(dist=dist)


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Runs checks in a folder that is thrown away; what components print goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="dicore-") as folder:
        here = Path.cwd()
        sys.path.insert(0, str(here))  # components of the working directory stay importable
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            os.chdir(here)
            sys.path.remove(str(here))


def _run(check: Check, *, verbose: bool) -> _Result:
    outcome, reason = "ok", ""
    try:
        check()
    except SkipTest as skipped:
        outcome, reason = "skipped", str(skipped)
    except Exception as error:
        outcome = "failed"
        reason = "".join(traceback.format_exception(error)) if verbose else _brief(error)
    return _Result(check.component.label, check.name, outcome, reason)


def _brief(error: Exception) -> str:
    from dicore.errors import ContractError

    text = str(error).strip()
    return text if isinstance(error, ContractError) else f"{type(error).__name__}: {text}"


def _say(result: _Result) -> None:
    reason = f": {result.reason}" if result.reason else ""
    click.echo(f"{result.outcome:<8}{result.component}:{result.check}{reason}", file=sys.__stdout__)


def _summarise(results: Sequence[_Result]) -> None:
    counts = dict.fromkeys(("ok", "skipped", "failed"), 0)
    for result in results:
        counts[result.outcome] += 1
    components = len({result.component for result in results})
    each = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    click.echo(f"{components} component{'' if components == 1 else 's'}: {each}")
