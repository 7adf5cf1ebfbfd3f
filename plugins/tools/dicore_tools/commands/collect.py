"""`dicore collect`: saves samples of a trained policy."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from dicore.console import verbosity

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore collect runs/cartpole_dqn_s0 -n 10000 -o demo/cartpole
  dicore collect runs/cartpole_dqn_s0/ckpt/best -s 7

The samples are saved as safetensors with a checksum, for imitation or offline RL. In Python,
load_demo_data(DIR) (from dicore import load_demo_data) returns them as a Batch; the method
load_data(DIR) of a replay buffer fills it.
"""


@click.command(name="collect", epilog=_EPILOG)
@click.argument("run", metavar="RUN|CKPT")
@click.argument("overrides", nargs=-1, metavar="[a.b=c]...")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Number of samples.",
)
@click.option(
    "-o", "--out", metavar="DIR", default="demo_data", show_default=True, help="Output folder."
)
@click.option(
    "-s",
    "--seed",
    type=click.IntRange(0),
    help="Seed of the episodes.  [default: the run's]",
)
@click.option(
    "--load-path",
    "--load_path",
    metavar="CKPT",
    help="Name or path of a checkpoint.  [default: best, else the latest valid one]",
)
@click.option(
    "--trust",
    is_flag=True,
    help="Run code that config.json names by path (./file.py:Class, pkg.mod:Class).",
)
@verbosity
def command(run: str, *, load_path: str | None, out: str, count: int, **given: Any) -> None:
    """Collects samples with a trained policy and saves them to a folder."""
    from dicore.console import say
    from dicore_tools.demo_dataset import collect_demo_data

    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        data = collect_demo_data(
            run,
            collect_count=count,
            expert_data_path=out,
            state_dict_path=load_path,
            **given,
        )
    say(f"{out}: {len(data)} samples of {', '.join(data.keys())}", result=True)
