"""`dicore diagnose`: what is wrong with the learning of a run, and which option to change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import plural, say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.diagnosis.evidence import Evidence
    from dicore_tools.diagnosis.finding import Finding
    from dicore_tools.diagnosis.table import Diagnosis
    from dicore_tools.json_output.runs import Diagnosis as Diagnosed
    from dicore_tools.json_output.runs import Finding as FindingFacts

__all__ = ["command", "facts", "lines"]

_EPILOG = """\b
Examples:
  dicore diagnose runs/cartpole_dqn_s0
  dicore diagnose runs/cartpole_dqn_s0 --plot why.html    a page with the curves that show it
  dicore diagnose runs/cartpole_dqn_s0 --json     see docs/howto/diagnose.md for the members
  dicore diagnose runs/cartpole_dqn_s0 --all      also the rules that do not apply
  dicore diagnose runs/cartpole_dqn_s0 --check    for scripts: exit code 1 if there are findings

Reads the config, the metrics and the newest checkpoint; the run may go on. No code of the run is
executed. The most likely cause comes first; those below may be consequences of it.

Exit codes: 0 the run was examined · 1 with --check: there are findings · 2 RUN is not a run.
"""


@click.command(name="diagnose", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--all", "everything", is_flag=True, help="Also name the rules that do not apply, and why."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the report of the run, with the findings and their curves (HTML).",
)
@click.option("--check", "strict", is_flag=True, help="Exit with 1 if there are findings.")
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    *,
    as_json: bool,
    everything: bool,
    plot: Path | None,
    strict: bool,
) -> None:
    """Finds faults of learning, with evidence, likely cause and the option to change."""
    from dicore.run.folder import RunFolder
    from dicore_tools.diagnosis.evidence import read_evidence
    from dicore_tools.diagnosis.table import diagnose

    if plot is not None:
        check_place(plot, option="--plot")
    evidence = read_evidence(RunFolder.open(run))
    found = diagnose(evidence)
    if as_json:
        say(json.dumps(facts(evidence, found), indent=1, default=str), result=True)
    else:
        for line in lines(evidence, found, everything=everything):
            say(line, result=True)
    if plot is not None:
        _write_page(evidence, plot)
    ctx.exit(1 if strict and found.findings else 0)


def _write_page(evidence: Evidence, file: Path) -> None:
    from dicore.run.atomic import write_file
    from dicore_tools.reports.page import page

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, page([evidence.data]).encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    click.echo(f"{file}: the report, with curves", err=True)


def facts(evidence: Evidence, found: Diagnosis) -> Diagnosed:
    """Returns what `--json` prints."""
    env_step, train_iter, _ = evidence.data.progress
    return {
        "format": 1,
        "run": str(evidence.data.folder.path),
        "state": evidence.data.state,
        "env_step": env_step,
        "train_iter": train_iter,
        "findings": [_plain(each) for each in found.findings],
        "not_checked": found.not_checked,
        "not_finite": dict(evidence.data.not_finite),
    }


def _plain(each: Finding) -> FindingFacts:
    """Returns a finding without numbers that JSON does not have."""
    plain: FindingFacts = _finite(asdict(each))
    return plain


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def lines(evidence: Evidence, found: Diagnosis, *, everything: bool = False) -> Iterator[str]:
    """Yields the report of a run.

    Args:
        evidence: The evidence.
        found: What the rules say of it.
        everything: Also name the rules that do not apply.
    """
    from dicore_tools.diagnosis.section import not_finite_lines

    env_step, train_iter, _ = evidence.data.progress
    state = f"{evidence.data.state}: {env_step} env steps, {train_iter} updates"
    yield f"{evidence.data.folder} {state}"
    for number, each in enumerate(found.findings, 1):
        yield from _finding(number, each)
    yield from not_finite_lines(evidence.data)
    missing = len(found.not_checked)
    count = plural(len(found.findings), "finding") if found.findings else "nothing was found"
    yield (
        f"{count}; {plural(missing, 'rule')} do not apply (--all names them)" if missing else count
    )
    if everything:
        yield from (f"  {rule}: {why}" for rule, why in found.not_checked.items())


def _finding(number: int, each: Finding) -> Iterator[str]:
    from dicore_tools.diagnosis.section import numbers_text

    yield f"{number}. {each.what}   [{each.rule}]"
    yield f"   evidence: {numbers_text(each.numbers)}"
    yield f"   cause:    {each.cause}"
    for change in each.change:
        now = "" if change.value is None else f" (now {change.value})"
        yield f"   change:   {change.option}{now}: {change.advice}"
