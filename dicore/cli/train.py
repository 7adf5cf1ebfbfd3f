"""`dicore train`: one training, from a config file or by names alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from dicore.console import verbosity
from dicore.errors import UsageError

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore train -e cartpole -p dqn -s 0
  dicore train -e CartPole-v1 -p dqn --max-env-step 50000 policy.learn.batch_size=128
  dicore train config.py -s 1 --exp-name runs/x
  dicore train my_preset                 a preset by its own name
  dicore train -e cartpole -p dqn -s 0 -s 1 -s 2 --jobs 3
  dicore train panel.py --cpanel '{"lr": 0.001}'
  dicore train --locked runs/x           anew, if the very same components are installed
  dicore train --resume runs/x --max-env-step 100000
  dicore train -e cartpole -p dqn --max-env-step 2000 --profile
  dicore -m serial --env cartpole --policy dqn --train_iter 100000 -s 0

The config is the preset <env>_<policy> if there is one, below the config file, below the command
line. Training ends at the first of env.stop_value and the budgets. Exit code 0 either way, 130 or
143 when a signal ended it after saving; a second signal stops at once.
"""


@click.command(name="train", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET] [a.b=c]...")
@click.option("-m", "--mode", metavar="NAME", help="Pipeline (dicore list pipeline).")
@click.option("-c", "--config", metavar="FILE", help="Config file: .py, .yaml, .toml or .json.")
@click.option("-e", "--env", metavar="NAME", help="Environment, or a gymnasium id.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm (dicore list policy).")
@click.option(
    "-s",
    "--seed",
    "seeds",
    type=click.IntRange(0),
    multiple=True,
    help="Seed of everything random; given several times: a run each, and a summary.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    help="Runs of several seeds that train at a time, in processes of their own.  [default: 1]",
)
@click.option(
    "--exp-name",
    "--exp_name",
    metavar="DIR",
    help="Folder of the run; an existing one gets a numbered sibling."
    "  [default: runs/<env>_<policy>_s<seed>]",
)
@click.option(
    "--max-train-iter",
    "--train-iter",
    "--train_iter",
    "--max_train_iter",
    "max_train_iter",
    type=click.IntRange(1),
    help="Stop after so many updates.",
)
@click.option(
    "--max-env-step",
    "--env-step",
    "--env_step",
    "--max_env_step",
    "max_env_step",
    type=click.IntRange(1),
    help="Stop after so many env steps.",
)
@click.option("--cpanel", metavar="JSON", help="Knobs of the file's control panel, as an object.")
@click.option(
    "--locked",
    is_flag=True,
    help="Refuse components that are not those recorded in a run or its config.json.",
)
@click.option(
    "--resume",
    metavar="RUN|auto",
    help="Go on with a run from its latest whole checkpoint; a larger budget may be given. auto:"
    " with the run of this very line, if there is one (--exist resume).",
)
@click.option(
    "--exist",
    type=click.Choice(["new", "resume", "overwrite", "error"]),
    default="new",
    show_default=True,
    help="Where the folder exists: a numbered sibling, go on, empty it, or refuse.",
)
@click.option(
    "--trust",
    is_flag=True,
    help="With --resume: run code that the run's config names by path (./file.py:Class).",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Time each middleware and the inside of the learner; a table at the end, kept in"
    " RUN/log/profile.json and profile.txt.",
)
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: Sequence[str],
    config: str | None,
    seeds: tuple[int, ...],
    jobs: int,
    **given: Any,
) -> None:
    """Trains a policy in an environment and keeps the run in a folder."""
    from dicore.run.launch import TrainRequest, launch

    files = [word for word in words if "=" not in word]
    if config is not None:
        files.insert(0, config)
    if len(files) > 1:
        raise UsageError(
            f"one config file at most, got {', '.join(files)}",
            hint="an override is written a.b=c, without spaces",
        )
    request = TrainRequest(
        config=files[0] if files else None,
        overrides=[word for word in words if "=" in word],
        argv=sys.argv,
        own_process=True,
        seed=seeds[0] if seeds else None,
        **given,
    )
    if len(seeds) > 1:
        from dicore import train_seeds

        ctx.exit(train_seeds(request, seeds, jobs))
    ctx.exit(launch(request).exit_code)
