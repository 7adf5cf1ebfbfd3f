"""`dicore check`: the conformance tests of a component or of a package."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from unittest import SkipTest

import click

import dicore_registry
from dicore.console import plural, say
from dicore.errors import ConfigError, UnknownComponentError, UsageError
from dicore_registry import LOCAL, Registry, dist_name
from dicore_registry.known import known
from dicore_registry.queries import provided
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.output_place import check_place
from dicore_tools.slow_code import named_if_slow

if TYPE_CHECKING:
    from dicore.testing import Check
    from dicore_tools.commands.check_env import EnvCheck

_NEEDED = "it needs what failed before"
_EPILOG = """\b
Examples:
  dicore check acme-rl                 all that a package declares
  dicore check env/countdown           one component
  dicore check env/acme-rl/countdown   the component of this package
  dicore check CartPole-v1             an environment by id, also module:Id
  dicore check ./file.py:Class         an environment of a file, or module:Class
  dicore check ./file.py env.size=5    with options of the environment
  dicore check acme-rl -v              also print passed and skipped tests
  dicore check acme-rl --json
  dicore check acme-rl --badge         and write dicore-badge.json and .svg into the package

Exit code 1 if a test fails. For pytest: from dicore.testing import parametrize.
"""
_OUTCOMES = {"ok": "passed", "failed": "failed", "skipped": "skipped"}
"""Outcomes of tests, as a badge counts them."""
_PATIENCE = 30.0
"""Seconds after which a test that still runs is named, with the line that it is at."""
_OF_ENVS = re.compile(r"-v\d+$|\.py$")
"""How ids of environments and files end, and no package."""


@dataclass(frozen=True, slots=True)
class _Result:
    """Outcome of one test (`ok`, `failed` or `skipped`), the reason, and what was tested."""

    component: str
    check: str
    outcome: str
    reason: str
    summary: str = ""
    hint: str = ""


@click.command(name="check", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("what", metavar="PACKAGE|KIND/NAME|ENV_ID")
@click.argument("options", metavar="[env.a=b]...", nargs=-1)
@click.option("-v", "--verbose", is_flag=True, help="Print every test, and tracebacks.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--badge", is_flag=True, help="Write the outcome into the package.")
@click.option("--sign", "key", metavar="KEY", help="Sign the badge with an Ed25519 key.")
@click.option(
    "--verified",
    nargs=2,
    metavar="RUN KEY.pub",
    help="A run of it, with its certificate.",
)
@click.pass_context
def command(
    ctx: click.Context,
    what: str,
    options: tuple[str, ...],
    *,
    verbose: bool,
    as_json: bool,
    badge: bool,
    key: str | None,
    verified: tuple[str, str] | None,
) -> None:
    """Runs the conformance tests of a component, of a package or of an environment."""
    from dicore_tools.commands.check_env import EnvCheck

    write = _badge_writer(what, key, verified, wanted=badge)
    out = sys.stdout
    ctx.with_resource(_each_warning_once())
    with contextlib.redirect_stdout(sys.stderr):  # components may print
        checks = _find_checks(what, options)
    single = isinstance(checks[0], EnvCheck) or what.startswith("env/")
    if single and not as_json:
        _print_env(what, options, out)
    results: list[_Result] = []
    unloadable: set[str] = set()
    with _temporary_folder():
        for check in checks:
            label = check.component.label
            if label in unloadable:
                result = _Result(label, check.name, "skipped", _NEEDED)
            else:
                result = _run(check, verbose=verbose)
            no_spaces = check.name == "spaces" and result.reason.startswith("it has no ")
            if (check.name, result.outcome) == ("loads", "failed") or no_spaces:
                unloadable.add(label)
            failed_anew = result.outcome == "failed" and not _repeated(result, results)
            results.append(result)
            shown = failed_anew or (single and result.outcome == "ok")
            if not as_json and (verbose or shown):
                _print(result, out, summary=single)
    failed = sum(result.outcome == "failed" for result in results)
    advice = _advice(what, options) if single and not failed else []
    if as_json:
        tests = [asdict(result) for result in results]
        item = {"failed": failed, "checks": tests, "advice": advice}
        sys.stdout.write(json.dumps(item, indent=1) + "\n")
    else:
        for line in () if verbose else _repeats(results):
            click.echo(line, file=out)
        for line in advice:
            click.echo(f"advice: {line}", file=out)
        _print_summary(results)
    write(Counter(_OUTCOMES[result.outcome] for result in results))
    ctx.exit(1 if failed else 0)


def _badge_writer(
    what: str, key: str | None, verified: tuple[str, str] | None, *, wanted: bool
) -> Callable[[Mapping[str, int]], object]:
    """Returns what writes the badge of a package, after all that can be wrong was looked at."""
    if not wanted:
        if key or verified:
            raise UsageError("--sign and --verified are of a badge", hint="add --badge")
        return lambda _: None
    from dicore_tools.certificates import read_private_key, read_public_key
    from dicore_tools.plugin_index.badge import badge_folder, verified_run, write_badge

    name = dist_name(what)
    if name not in dicore_registry.default().distributions:
        raise UsageError(f"--badge: {what} is not an installed package", hint="dicore list")
    run = verified_run(Path(verified[0]), read_public_key(verified[1]), name) if verified else None
    signing = read_private_key(key) if key else None
    check_place(badge_folder(name), option="--badge", folder=True)
    return lambda counts: say(f"badge: {write_badge(name, counts, verified=run, key=signing)}")


def _find_checks(what: str, options: Sequence[str]) -> Sequence[Check | EnvCheck]:
    from dicore.testing import checks_of
    from dicore_tools.commands.check_env import Envs, checks_of_id

    registry = dicore_registry.default()
    kind, slash, name = what.partition("/")
    if ":" in what or (slash and kind not in registry.kinds() and not known(kind)):
        return checks_of_id(what, options)
    if not slash and not _is_package(registry, what):
        try:
            return checks_of_id(what, options)
        except ConfigError as error:
            if not any(problem.startswith("env.type: ") for problem in error.problems):
                raise
            raise _no_such(what, error) from error
    if options:
        raise UsageError(
            f"{options[0]}: only environments by id or file are checked with options",
            hint="dicore check ENV_ID env.a=b",
        )
    if slash:
        entry = registry.find(kind, name)
        component = f"{entry.kind}/{entry.name}"
        return checks_of(component=component, dist=entry.dist, suites={"env": Envs})
    entries = provided(registry, what)
    dist = entries[0].dist
    broken = [entry for entry in entries if entry.status == "broken"]
    if broken:
        reasons = "; ".join(f"{entry.kind}/{entry.name}: {entry.reason}" for entry in broken)
        raise UsageError(f"{dist} has broken entries: {reasons}", hint="run dicore doctor")
    return checks_of(dist=dist, suites={"env": Envs})


def _is_package(registry: Registry, what: str) -> bool:
    """Returns whether a word names a package; an environment's package may have its name, too."""
    entries, name = registry.entries(), dist_name(what)
    if what == LOCAL or any(each.dist == name for each in entries):
        return True
    is_env = any((each.kind, each.name) == ("env", what) for each in entries)
    return name in registry.distributions and not is_env


def _no_such(what: str, error: ConfigError) -> ConfigError:
    """Returns the error for what is neither an environment nor a package."""
    if _OF_ENVS.search(what):
        return error
    try:
        provided(dicore_registry.default(), what)
    except UnknownComponentError as other:
        return ConfigError([*error.problems, other.message], hint=other.hint)
    return error


@contextlib.contextmanager
def _each_warning_once() -> Iterator[None]:
    """Prints a warning once, though each test makes the environment that warns."""
    shown: set[tuple[str, type[Warning]]] = set()
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if (str(message), category) not in shown:
            shown.add((str(message), category))
            before(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    """Runs tests in a temporary folder; what components print goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="dicore-") as folder:
        here, path = Path.cwd(), list(sys.path)
        sys.path.append(str(here))  # components there stay importable and hide no other module
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            os.chdir(here)
            sys.path[:] = path


def _run(check: Check | EnvCheck, *, verbose: bool) -> _Result:
    from dicore.errors import ContractError

    outcome, reason = "ok", ""
    summary, hint = _about(check)
    try:
        with named_if_slow(f"the check '{check.name}' of {check.component.label}", _PATIENCE):
            check()
    except SkipTest as skipped:
        outcome, reason = "skipped", str(skipped)
    except (Exception, SystemExit) as error:
        outcome = "failed"
        reason = "".join(traceback.format_exception(error)) if verbose else _brief(error)
        hint = hint if isinstance(error, ContractError) else ""
    hint = hint if outcome == "failed" else ""
    return _Result(check.component.label, check.name, outcome, reason, summary, hint)


def _repeated(result: _Result, results: Sequence[_Result]) -> bool:
    """Returns whether a test before failed for the same reason, in the same component."""
    same = (result.component, "failed", result.reason)
    return any((each.component, each.outcome, each.reason) == same for each in results)


def _repeats(results: Sequence[_Result]) -> Iterator[str]:
    """Yields a line for each reason that more than one test of a component failed for."""
    counts = Counter((each.component, each.reason) for each in results if each.outcome == "failed")
    for (component, reason), count in counts.items():
        if count > 1:
            more = plural(count - 1, "more test")
            yield f"failed  {component}: {more} fail so (-v prints them): {reason}"


def _about(check: Check | EnvCheck) -> tuple[str, str]:
    """Returns what a check tests, and how to mend an environment that fails it."""
    from dicore.testing.env import HINTS
    from dicore_tools.commands.check_env import EnvCheck

    if isinstance(check, EnvCheck):
        return check.check.__doc__ or "", HINTS.get(check.name, "")
    tested = getattr(check.suite, f"test_{check.name}")
    is_env = check.component.entry.kind == "env"
    return tested.__doc__ or "", HINTS.get(check.name, "") if is_env else ""


def _brief(error: BaseException) -> str:
    from dicore.errors import ContractError, DicoreError

    text = str(error).strip()
    if not isinstance(error, ContractError):
        return f"{type(error).__name__}: {text} ({_place(error)})"
    cause = error.__cause__
    return text if cause is None or isinstance(cause, DicoreError) else f"{text} ({_place(cause)})"


def _place(error: BaseException) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{at.filename}:{at.lineno}, in {at.name}"


def _print(result: _Result, out: TextIO, *, summary: bool) -> None:
    reason = result.reason or (result.summary if summary else "")
    reason = f": {reason}" if reason else ""
    click.echo(f"{result.outcome:<8}{result.component}:{result.check}{reason}", file=out)
    if result.hint:
        click.echo(f"  hint: {result.hint}", file=out)


def _print_env(what: str, options: Sequence[str], out: TextIO) -> None:
    """Prints which environment is checked, if it can be made."""
    from dicore_tools.commands.check_env import described

    with contextlib.suppress(Exception), contextlib.redirect_stdout(sys.stderr):
        click.echo(described(what, options), file=out)


def _advice(what: str, options: Sequence[str]) -> list[str]:
    """Returns advice about an environment that passed its checks; nothing if it fails by then."""
    from dicore_tools.commands.check_advice import advice
    from dicore_tools.commands.check_env import factory_of

    with contextlib.suppress(Exception), contextlib.redirect_stdout(sys.stderr):
        return advice(factory_of(what, options, anew=False))
    return []


def _print_summary(results: Sequence[_Result]) -> None:
    counts = dict.fromkeys(("ok", "skipped", "failed"), 0)
    for result in results:
        counts[result.outcome] += 1
    components = len({result.component for result in results})
    totals = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    click.echo(f"{plural(components, 'component')}: {totals}")
