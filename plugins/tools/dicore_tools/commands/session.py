"""`dicore session`: runs that are made but not trained, and runs as Python modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from dicore.console import own_process, say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json

if TYPE_CHECKING:
    from dicore_tools.json_output.written import MadeRun

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore session new -e cartpole -p dqn -s 0 --exp-name runs/pole    its folder, nothing trained
  dicore train --resume runs/pole                                    trains it, here or in a job
  dicore session module runs/cartpole_dqn_s0 runs/pole               runs as modules
\b
  >>> from runs import pole
  >>> pole.agent.evaluate(10).mean_return
  >>> pole.metrics("evaluator/return_mean")
"""


@click.group(name="session", epilog=_EPILOG)
def command() -> None:
    """Makes runs without training them, and makes runs Python modules."""


@command.command(name="new")
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET] [a.b=c]...")
@click.option("-m", "--mode", metavar="NAME", help="Pipeline (dicore list pipeline).")
@click.option("-e", "--env", metavar="NAME", help="Environment, or a Gymnasium id.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm (dicore list policy).")
@click.option("-s", "--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--cpanel", metavar="JSON", help="Overrides entries of the config's dict `cpanel`.")
@click.option("--exp-name", metavar="DIR", help="Run folder.  [default: runs/…]")
@click.option("--max-env-step", type=click.IntRange(1), help="Budget in env steps.")
@click.option("--max-train-iter", type=click.IntRange(1), help="Budget in gradient updates.")
@click.option(
    "--exist",
    type=click.Choice(["new", "overwrite", "error"]),
    default="new",
    show_default=True,
    help="If the folder exists: add a number, delete its contents, or fail.",
)
@click.option("--trust", is_flag=True, help="Run code that a run names by path (./file.py:Class).")
@AS_JSON
@verbosity
def new(*, words: Sequence[str], as_json: bool, **given: Any) -> None:
    """Makes a run folder with its config, and trains nothing.

    The config and the environment are checked as by dicore train --dry-run. `dicore train --resume
    RUN` trains it.
    """
    from dicore.run.request import TrainRequest
    from dicore_tools.commands.words import split_words
    from dicore_tools.sessions import create

    own_process()
    files, overrides = split_words(words)
    if len(files) > 1:
        raise UsageError(f"expected at most one config, got {', '.join(files)}")
    request = TrainRequest(config=files[0] if files else None, overrides=overrides, **given)
    with redirect_stdout(sys.stderr):  # environments may print
        folder = create(request)
    if as_json:
        made: MadeRun = {"run": str(folder), "file": str(folder.path / "__init__.py")}
        write_json(made)
        return
    say(f"{folder}: made; train it: dicore train --resume {folder}", result=True)


@command.command(name="module")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@AS_JSON
@verbosity
def module(*, runs: Sequence[str], as_json: bool) -> None:
    """Writes `__init__.py` into runs, so that Python imports them.

    `from runs import pole` gives `pole.agent`, `pole.load(checkpoint)`, `pole.checkpoints`,
    `pole.config`, `pole.result` and `pole.metrics(tag)`.
    """
    from dicore_tools.sessions import make_module

    made: list[MadeRun] = []
    for run in runs:
        file = make_module(run)
        made.append({"run": run, "file": str(file)})
        if not as_json:
            say(f"{file}: written", result=True)
    if as_json:
        write_json(made)
