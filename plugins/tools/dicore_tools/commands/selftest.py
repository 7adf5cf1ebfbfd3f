"""`dicore selftest`: runs fault cases over the installed env managers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

import dicore_registry
from dicore.console import plural
from dicore.errors import UsageError

_EPILOG = """\b
Examples:
  dicore selftest                            all env managers that are installed
  dicore selftest -m sync_subprocess         one of them
  dicore selftest --fault hangs --fault killed
  dicore selftest --json

Each case runs two environments, one of which goes wrong; processes that the
manager starts are checked, and a case that takes too long is ended. Exit code
1 if a case fails.
"""
CASE_S = 40.0
"""Seconds after which a case is ended."""


@click.command(name="selftest", epilog=_EPILOG)
@click.option("-m", "--manager", "managers", multiple=True, metavar="NAME",
              help="Env manager; may be repeated.")  # fmt: skip
@click.option("--fault", "faults", multiple=True, metavar="NAME",
              help="Case; may be repeated. An unknown name lists all.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per case.")
@click.pass_context
def command(
    ctx: click.Context, *, managers: tuple[str, ...], faults: tuple[str, ...], as_json: bool
) -> None:
    """Tests how env managers handle failing environments on this machine."""
    failed = count = skipped = 0
    for found in results(managers, faults):
        count += 1
        failed += found["status"] == "failed"
        skipped += found["status"] == "skipped"
        sys.stdout.write(_line(found, as_json=as_json))
        sys.stdout.flush()
    if not as_json:
        sys.stdout.write(f"\n{plural(count, 'case')}, {failed} failed, {skipped} skipped\n")
    ctx.exit(1 if failed else 0)


def results(managers: tuple[str, ...] = (), faults: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yields the result of each case of some managers; none given: all.

    Raises:
        UsageError: there is no such case.
        UnknownComponentError: there is no such manager.
    """
    from dicore_tools.selftest.cases import CASES
    from dicore_tools.selftest.child import run_cases

    unknown = sorted(set(faults) - set(CASES))
    if unknown:
        raise UsageError(
            f"--fault: no case {', '.join(unknown)}",
            hint=f"one of {', '.join(filter(None, CASES))}",
        )
    registry = dicore_registry.default()
    entries = [registry.judged(each) for each in registry.entries("env_manager")]
    given = managers or sorted(each.qualified for each in entries if each.status == "ok")
    chosen = [registry.resolve("env_manager", name, "--manager").name for name in given]
    for name in dict.fromkeys(chosen):
        yield from run_cases(name, list(faults or CASES), CASE_S)


def _line(found: dict[str, Any], *, as_json: bool) -> str:
    import json

    from dicore_tools.selftest.cases import CASES

    if as_json:
        return json.dumps(found) + "\n"
    about = f"{found['manager']}: {CASES[found['fault']]}"
    why = "" if found["status"] == "ok" else f"  {found['text']}"
    return f"{found['status']:<9}{about:<64}{found['seconds']:6.2f} s{why}\n"
