"""`dicore report`: one HTML page about runs, to keep, send or publish."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dicore.console import plural, say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import given_of
from dicore_tools.output_place import check_place
from dicore_tools.preset_versions import shown

if TYPE_CHECKING:
    from dicore_tools.json_output.runs import RunReport
    from dicore_tools.reports.run_data import RunData

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore report runs/cartpole_dqn_s0
  dicore report runs -o results.html --title "CartPole, three algorithms"
  dicore report runs/a runs/b --open                 and show it in the browser
  dicore report runs --json                          results as JSON
  dicore report runs/benchmark --benchmark benchmarks/results.toml --records docs/results.jsonl

The page has learning curves, a table of results, the options that differ, and how each run was made
(command, versions, commit). It is one file without links to the outside: it can be opened offline,
sent and archived. Unfinished runs are included. With --benchmark, it begins with the pictures that
the page of dicore benchmark has: curves with published returns as lines, score profiles, costs.
"""


@click.command(name="report", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="Output file.",
)
@click.option("--title", help="Title of the page.  [default: algorithm and environment]")
@click.option(
    "--benchmark",
    "rows",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of the `dicore benchmark` that made the runs: draws its pictures, too.",
)
@click.option(
    "--records",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Records of the benchmark.  [default: the file of --benchmark with .jsonl]",
)
@click.option("--open", "show", is_flag=True, help="Show the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Write no page; print only JSON.")
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    places: Sequence[str],
    *,
    out: Path,
    title: str | None,
    rows: Path | None,
    records: Path | None,
    show: bool,
    as_json: bool,
) -> None:
    """Writes one HTML page about runs: curves, results, options, provenance."""
    from dicore.run.atomic import write_file
    from dicore_tools.reports.curves import find_runs
    from dicore_tools.reports.page import page
    from dicore_tools.reports.run_data import read_runs

    if records is not None and rows is None:
        raise UsageError("--records: of which benchmark?", hint="add --benchmark FILE")
    if as_json and (unused := given_of(ctx, "out", "title", "rows", "records", "show")):
        raise UsageError(
            f"--json writes no page: {unused} would have no effect",
            hint="print JSON and write the page by two commands",
        )
    if not as_json:
        check_place(out)
    runs, problems = read_runs(find_runs(places))
    if as_json:
        for problem in problems:
            click.echo(f"warning: left out {problem}", err=True)
        say(json.dumps([_facts(each) for each in runs], indent=1, allow_nan=False), result=True)
        return
    benchmark: list[str] = []
    if rows is not None:
        from dicore_tools.results.in_report import benchmark_section

        benchmark = benchmark_section(rows, records)
    text = page(runs, title=title, problems=problems, benchmark=benchmark)
    content = text.encode("utf-8", "replace")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_file(out, content)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    for problem in problems:
        click.echo(f"warning: left out {problem}", err=True)
    say(f"{out}: {plural(len(runs), 'run')}, {len(content) / 1024:.0f} KiB", result=True)
    if show:
        click.launch(out.resolve().as_uri())


def _facts(run: RunData) -> RunReport:
    """Returns what `--json` prints of a run."""
    curve, (env_step, train_iter, wall_s) = run.curve(), run.progress
    points = () if curve is None else zip(curve.x.tolist(), curve.y.tolist(), strict=True)
    versions = run.record.get("versions")
    seed = run.record.get("seed")
    return {
        "run": str(run.folder.path),
        "state": run.state,
        "env": run.type_of("env"),
        "policy": run.type_of("policy"),
        "preset": shown(str(run.record.get("preset") or "")),
        "seed": seed if isinstance(seed, int) else None,
        "env_step": env_step,
        "train_iter": train_iter,
        "wall_s": wall_s,
        "best_return": run.best_return,
        "evaluations": [{"env_step": int(x), "mean_return": y} for x, y in points],
        "versions": {str(name): str(each) for name, each in versions.items()}
        if isinstance(versions, Mapping)
        else {},
    }
