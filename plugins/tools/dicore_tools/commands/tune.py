"""`dicore tune`: searches for the option values with the highest return."""

from __future__ import annotations

import contextlib
import json
import sys
from math import isfinite
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from dicore.console import own_process, plural, say, verbosity, write_table
from dicore.errors import ConfigError, DicoreError, UsageError
from dicore_tools.commands.options import given_of
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.json_output.runs import Study

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore tune cartpole_dqn --space "policy.learn.learning_rate=log(1e-4,1e-2)" \\
      --space "policy.learn.batch_size=32|64|128" --max-env-step 10000 -n 30
  dicore tune pendulum_sac --space "policy.discount_factor=0.9|0.98|0.99" --grid --seeds 3
  dicore tune cartpole_dqn --space "policy.nstep=int(1,5)" --pruner median --jobs 2 -o runs/nstep
  dicore tune -o runs/nstep --show                         the results of a study
  dicore train runs/nstep/best.yaml -s 0 -s 1 -s 2         train with the best values

\b
Spaces:  log(1e-5,1e-2)  uniform(0,1)  int(1,5)  logint(16,512)  32|64|128
The folder of the study holds one run folder per trial (for dicore plot, report, eval), best.yaml,
trials.png and study.log. The same command goes on with a study that was stopped; a larger -n adds
trials. Needs: pip install 'dicore-tools[tune]'
"""


@click.command(name="tune", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[FILE|PRESET] [a.b=c]...")
@click.option("-e", "--env", metavar="NAME", help="Environment, or a Gymnasium id.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm.")
@click.option("--space", "spaces", multiple=True, metavar="a.b=VALUES", help="Option to search.")
@click.option(
    "-n",
    "--trials",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of trials, with those of earlier starts.",
)
@click.option("-o", "--out", metavar="FOLDER", help="Folder of the study.  [default: runs/tune_…]")
@click.option(
    "-s",
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="First seed; also of the sampler.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Trainings per trial; the score is their mean.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Trials at the same time, one process each.",
)
@click.option(
    "--objective",
    type=click.Choice(["final", "best", "area"]),
    default="final",
    show_default=True,
    help="Mean return of the last or best evaluation, or of all.",
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "gp", "cmaes", "qmc"]),
    default="tpe",
    show_default=True,
    help="How values are chosen.",
)
@click.option(
    "--pruner",
    type=click.Choice(["none", "median", "hyperband"]),
    default="none",
    show_default=True,
    help="How bad trials are ended early.",
)
@click.option("--grid", is_flag=True, help="Try each combination of the values once.")
@click.option("--max-env-step", type=click.IntRange(1), help="Budget of a training in env steps.")
@click.option("--max-train-iter", type=click.IntRange(1), help="Budget of a training in updates.")
@click.option("--show", is_flag=True, help="Print the results of a study; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON, at the end.")
@verbosity
@click.pass_context
def command(
    ctx: click.Context, /, *, words: tuple[str, ...], spaces: tuple[str, ...], out: str | None,
    show: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Searches for option values with which a training reaches the highest return.

    Each trial is a training in a run folder of its own. Exit code 130 if a signal stopped it, 1 if
    no trial came to its end.
    """
    from dicore_tools.tuning.study import load, optuna, tune

    own_process()
    if show:
        if out is None:
            raise UsageError("--show: which study?", hint="dicore tune -o FOLDER --show")
        _tell(load(Path(out)), Path(out), as_json=as_json)
        return
    if given["grid"] and given_of(ctx, "trials"):
        raise UsageError("-n has no effect with --grid, which tries each combination once")
    plan = _plan(words, spaces, out, given)
    check_place(plan.folder, option="--out" if out is not None else "", folder=True)
    optuna()  # or says that it is missing, before anything else
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        say(f"study in {plan.folder}: {'; '.join(each.text for each in plan.space)}")
        study = tune(plan)
    begun = sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))
    waiting = any(trial.state.name == "WAITING" for trial in study.get_trials(deepcopy=False))
    stopped = waiting or (not plan.grid and begun < plan.trials)
    _tell(study, plan.folder, as_json=as_json, stopped=stopped)
    if stopped:
        if not as_json:
            say("stopped; the same command goes on", result=True)
        ctx.exit(130)
    if not any(trial.state.name == "COMPLETE" for trial in study.get_trials(deepcopy=False)):
        ctx.exit(1)


def _plan(words: tuple[str, ...], spaces: tuple[str, ...], out: str | None, given: Any) -> Any:
    from dicore.run.launch import TrainRequest, compile_request
    from dicore_tools.commands.words import split_words
    from dicore_tools.tuning.space import is_dimension, parse_space, space_problems
    from dicore_tools.tuning.study import Plan

    spaces = (*spaces, *filter(is_dimension, words))  # also without --space
    files, overrides = split_words([word for word in words if not is_dimension(word)])
    if len(files) > 1:
        raise UsageError(f"expected one config, got {', '.join(files)}")
    names = ("env", "policy", "max_env_step", "max_train_iter")
    request = TrainRequest(
        config=files[0] if files else None,
        overrides=["pipeline.logger=[]", *overrides],
        argv=(),
        **{name: given[name] for name in names},
    )
    compiled = compile_request(request)
    pipeline, problems, hint = compiled.pipeline, [], ""
    if pipeline.max_env_step is None and pipeline.max_train_iter is None:
        problems.append("a bad trial would never end: no budget")
        hint = "add --max-env-step 20000, for example"
    try:
        space = parse_space(spaces)
        problems += space_problems(request, space)
        paths = {each.path for each in space} & {word.partition("=")[0] for word in overrides}
        problems += [f"{path}: both searched and set; leave one out" for path in sorted(paths)]
    except UsageError as error:
        problems.append(error.message)
        hint = "; ".join(filter(None, (hint, error.hint)))
    if problems:
        raise ConfigError(problems, hint=hint)
    name = f"tune_{compiled.env.type}_{compiled.policy.type}"
    rest = {key: value for key, value in given.items() if key not in (*names, "seed")}
    return Plan(
        request=request, space=space, first_seed=given["seed"],
        folder=Path(out) if out is not None else Path("runs") / name, **rest,
    )  # fmt: skip


def _tell(study: Any, folder: Path, *, as_json: bool, stopped: bool = False) -> None:
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        _results(study, folder)
    if as_json:
        say(json.dumps(_facts(study, folder, stopped=stopped), indent=1), result=True)


def _facts(study: Any, folder: Path, *, stopped: bool) -> Study:
    from dicore_tools.tuning.results import found, importances
    from dicore_tools.tuning.study import reading

    with reading(folder / "study.log"):
        rows, shares = found(study), importances(study)
    return {
        "folder": str(folder),
        "trials": [
            {"trial": row.number, "score": row.score if isfinite(row.score) else None,
             "complete": row.complete, "values": row.values, "env_step": row.env_step,
             "seconds": row.seconds, "error": row.error}
            for row in rows
        ],
        "importances": shares,
        "stopped": stopped,
    }  # fmt: skip


def _results(study: Any, folder: Path) -> None:
    from dicore_tools.tuning.results import draw, found, importances, table, write_best
    from dicore_tools.tuning.study import reading

    with reading(folder / "study.log"):
        rows = found(study)
        header, cells = table(rows, 10)
        shares = importances(study)
    if not rows:
        say("no trial has ended", result=True)
        return
    write_table(header, cells, numbers=range(len(header) - 1))
    if len(rows) > len(cells):
        say(f"the best {len(cells)} of {plural(len(rows), 'trial')}")
    if shares:
        text = ", ".join(f"{name.rpartition('.')[2]} {share:.0%}" for name, share in shares.items())
        say(f"share in the differences of the score: {text}")
    if rows[0].complete:
        write_best(rows, folder / "best.yaml")
        best = folder / "best.yaml"
        say(f"best config: {best} (train it: dicore train {quote(str(best))})")
    try:
        draw(rows, folder / "trials.png")
        say(f"picture: {folder / 'trials.png'}")
    except DicoreError as error:
        say(f"no picture: {error}")
