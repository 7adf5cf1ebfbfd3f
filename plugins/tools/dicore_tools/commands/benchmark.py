"""`dicore benchmark`: re-makes a table of results from a list of environments and algorithms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dicore.console import verbosity
from dicore.errors import UsageError
from dicore_registry.importing import STRANGE
from dicore_tools.commands.options import TRUST
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.json_output.runs import ListedRow, MeasuredRow
    from dicore_tools.results.check import Gate
    from dicore_tools.results.expected import Finding
    from dicore_tools.results.plan import Plan, Row
    from dicore_tools.results.training import Finished

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore benchmark benchmarks/results.toml -o docs/results.md
  dicore benchmark FILE --only 'cartpole_*' --jobs 2
  dicore benchmark FILE --report                  only write the page again
  dicore benchmark FILE --list                    what is there and what is missing
  dicore benchmark benchmarks/check.toml --check  compare short trainings with intervals

\b
FILE in TOML (or YAML, JSON):
  seeds = [0, 1, 2]
  max_env_step = 200_000
  [[row]]
  env = "cartpole"
  policy = "dqn"
  overrides = ["policy.learn.batch_size=64"]

A row has env and policy (with their preset, if there is one), or config; name, seeds, stop_value,
max_env_step, n_episode, overrides, check_seeds, check_metrics and note are optional. The command
can be stopped and started again: runs with a record are not trained again, an interrupted run is
resumed. Rows whose options or presets have changed since are trained again.

\b
--check trains the first check_seeds (2) seeds of each row, and compares the mean return of the
evaluations, of the last checkpoint, and of each of check_metrics with FILE.expected.json. Runs of
changed code are trained again.
"""


@click.command(name="benchmark", epilog=_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Markdown page; records and curves are written beside it.  [default: FILE with .md]",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Train only rows whose name matches, e.g. 'cartpole_*'. Can be repeated.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of runs in parallel, one process each.",
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("runs/benchmark"),
    show_default=True,
    help="Folder of the run folders.",
)
@click.option("--report", is_flag=True, help="Train nothing; write the page from the records.")
@click.option("--list", "list_rows", is_flag=True, help="Train nothing; print what is missing.")
@click.option("--overwrite", is_flag=True, help="Train the selected rows again.")
@click.option(
    "--check",
    is_flag=True,
    help="Train the first seeds and compare with the intervals of FILE with .expected.json; exit"
    " with 1 if a measure is outside.",
)
@TRUST
@click.option("--record", is_flag=True, help="With --check: train all seeds, write the intervals.")
@click.option("--json", "as_json", is_flag=True, help="With --list or --check: print only JSON.")
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path,
    *,
    out: Path | None,
    only: Sequence[str],
    jobs: int,
    runs: Path,
    as_json: bool,
    **how: bool,
) -> None:
    """Trains rows of environment, algorithm and seeds, and writes a page with the results."""
    from dicore.console import plural, say
    from dicore_tools.results.page import collect_results, write_page
    from dicore_tools.results.plan import read_plan
    from dicore_tools.results.records import RecordFile
    from dicore_tools.results.training import missing_runs, train_missing

    _refuse_together(how, out)
    if as_json and (how["record"] or not (how["list_rows"] or how["check"])):
        raise UsageError("--json prints what --list and --check find", hint="add one of them")
    plan = read_plan(file)
    rows = _selected(plan, only)
    if how["check"]:
        from dicore_tools.results.check import Gate

        gate = Gate(plan, rows, file.with_suffix(".expected.json"), runs)
        ctx.exit(_check(gate, jobs, as_json=as_json, **_only(how, "record", "overwrite")))
    page = out if out is not None else file.with_suffix(".md")
    records = RecordFile(page.with_suffix(".jsonl"))
    missing = missing_runs(plan, rows, records)
    if how["list_rows"]:
        _print_rows(plan, rows, missing, as_json=as_json)
        return
    check_place(page, option="--out" if out is not None else "")
    pairs = [(row, seed) for row in rows for seed in row.seeds] if how["overwrite"] else missing
    ended: list[Finished] = []
    if pairs and not how["report"]:
        names = {row.name for row, _ in pairs}
        say(f"training {plural(len(pairs), 'run')} of {plural(len(names), 'row')}")
        ended = train_missing(
            plan, pairs, records, runs, jobs=jobs, after=_say_run,
            **_only(how, "overwrite", "trust"),
        )  # fmt: skip
        if any(each.error and STRANGE in each.error for each in ended) and not how["trust"]:
            say("--trust resumes runs whose saved configs name code by path", result=True)
    words = f"dicore benchmark {file}" + (f" -o {out}" if out is not None else "")
    for path in write_page(plan, collect_results(plan, records.read()), page, words):
        say(str(path))
    rest = len(missing_runs(plan, rows, records))
    of = f" of {plural(len(rows), 'selected row')}" if len(rows) < len(plan.rows) else ""
    counts = f"{plural(len(plan.rows), 'row')}, {plural(rest, 'run')} missing{of}"
    say(f"{page}: {counts}", result=True)
    ctx.exit(next((each.exit_code for each in ended if each.exit_code), 0))


def _refuse_together(how: Mapping[str, bool], out: Path | None) -> None:
    if how["record"] and not how["check"]:
        raise UsageError("--record needs --check", hint="add --check")
    odd = {"--report": how["report"], "--list": how["list_rows"], "--out": out is not None}
    if how["check"] and any(odd.values()):
        names = " and ".join(name for name, given in odd.items() if given)
        raise UsageError(
            f"{names} cannot be used with --check", hint="a check writes no page: remove it"
        )


def _only(how: Mapping[str, bool], *names: str) -> dict[str, bool]:
    return {name: how[name] for name in names}


def _check(gate: Gate, jobs: int, *, as_json: bool, record: bool, overwrite: bool) -> int:
    """Trains what a check needs and prints what is outside; returns the exit code."""
    from dicore.console import plural, say

    if not record:
        gate.check_expected()
    pairs = gate.pairs(all_seeds=record) if overwrite else gate.missing(all_seeds=record)
    if pairs and not as_json:
        say(f"training {plural(len(pairs), 'run')} in {gate.file.path.parent}")
    after = (lambda finished: None) if as_json else _say_run
    ended = gate.train(pairs, jobs=jobs, overwrite=overwrite, after=after)
    if stopped := next((each.exit_code for each in ended if each.exit_code > 128), 0):
        say("interrupted; the same command continues", result=True)
        return stopped
    if record:
        failed = next((each.exit_code for each in ended if each.exit_code), 0)
        if not failed:
            gate.record()
            say(f"{gate.expected}: intervals of {plural(len(gate.rows), 'row')}", result=True)
        return failed
    findings = gate.findings()
    return _print_findings(findings) if as_json else _say_findings(findings)


def _print_findings(findings: Sequence[Finding]) -> int:
    from dicore.console import say

    measured: list[MeasuredRow] = [
        {"row": each.row, "measure": each.measure, "low": each.low, "high": each.high,
         "found": each.found if isfinite(each.found) else None, "outside": each.outside}
        for each in findings
    ]  # fmt: skip
    say(json.dumps(measured, indent=1), result=True)
    return int(any(each.outside for each in findings))


def _say_findings(findings: Sequence[Finding]) -> int:
    from dicore.console import plural, say, write_table

    outside = [each for each in findings if each.outside]
    names = {each.row for each in findings}
    red = {each.row for each in outside}
    if outside:
        lines = [
            (each.row, each.measure, *(f"{n:.4g}" for n in (each.found, each.low, each.high)))
            for each in outside
        ]
        write_table(("ROW", "MEASURE", "FOUND", "LOW", "HIGH"), lines, (2, 3, 4))
    counts = f"{plural(len(names), 'row')}, {plural(len(findings), 'measure')}"
    say(
        f"{counts}: "
        + (f"{len(outside)} of {plural(len(red), 'row')} outside" if red else "all within"),
        result=True,
    )
    return int(bool(outside))


def _selected(plan: Plan, only: Sequence[str]) -> list[Row]:
    found = [
        row
        for row in plan.rows
        if not only or any(fnmatchcase(row.name, pattern) for pattern in only)
    ]
    for pattern in only:
        if not any(fnmatchcase(row.name, pattern) for row in plan.rows):
            names = ", ".join(row.name for row in plan.rows)
            raise UsageError(f"--only: no row matches '{pattern}'", hint=f"rows: {names}")
    return found


def _print_rows(
    plan: Plan, rows: Sequence[Row], missing: Sequence[tuple[Row, int]], *, as_json: bool
) -> None:
    from dicore.console import say, write_table

    if as_json:
        listed: list[ListedRow] = [
            {"row": row.name, "env": plan.task(row), "policy": plan.algorithm(row),
             "seeds": [*row.seeds], "missing": [seed for each, seed in missing if each is row]}
            for row in rows
        ]  # fmt: skip
        say(json.dumps(listed, indent=1), result=True)
        return
    lines = []
    for row in rows:
        rest = [str(seed) for each, seed in missing if each is row]
        done = str(len(row.seeds) - len(rest))
        lines.append((row.name, plan.task(row), plan.algorithm(row), done, ", ".join(rest)))
    write_table(("ROW", "ENV", "POLICY", "SEEDS DONE", "MISSING SEEDS"), lines, (3,))


def _say_run(finished: Finished) -> None:
    from dicore.console import number, say

    name = f"{finished.row.name}, seed {finished.seed}"
    record = finished.record
    if record is None:
        with suppress(OSError):  # other runs are not done
            say(f"{name}: {finished.error}", result=True)
        return
    how = "stop value reached" if record.stop else "budget spent"
    say(
        f"{name}: {how} after {record.env_step} env steps, {record.wall_s:.1f} s;"
        f" mean return {number(record.mean_return)}"
    )
