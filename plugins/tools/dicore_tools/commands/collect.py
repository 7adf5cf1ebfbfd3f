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
  dicore collect runs/cartpole_dqn_s0 -n 10000 --eps 0.3 -o demo.npz

The samples are saved for imitation or offline RL: in a folder as safetensors with a checksum, or,
if the name ends in .npz or .hdf5, in a file of single steps. pipeline.dataset.type (collected,
npz, hdf5) and pipeline.dataset.path train from them. In Python, load_demo_data(DIR) (from dicore
import load_demo_data) returns the samples of a folder as a Batch.
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
    "-o",
    "--out",
    metavar="PATH",
    default="demo_data",
    show_default=True,
    help="Output folder, or a file .npz or .hdf5.",
)
@click.option(
    "--eps",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Probability of a random action, of policies with epsilon-greedy exploration.",
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
    """Collects samples with a trained policy and saves them to a folder or a file."""
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
