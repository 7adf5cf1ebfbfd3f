"""`dicore collect`: samples of a trained policy, as data for imitation or offline training."""

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

The folder holds arrays (safetensors) and a manifest with their checksum. In Python
load_demo_data(DIR) gives them as a Batch, and buffer.load_data(DIR) fills a replay buffer.
"""


@click.command(name="collect", epilog=_EPILOG)
@click.argument("run", metavar="RUN|CKPT")
@click.argument("overrides", nargs=-1, metavar="[a.b=c]...")
@click.option(
    "-n", "--count", type=click.IntRange(1), default=1000, show_default=True, help="Samples."
)
@click.option(
    "-o", "--out", metavar="DIR", default="demo_data", show_default=True, help="Where they go."
)
@click.option(
    "-s", "--seed", type=click.IntRange(0), help="Seed of the episodes.  [default: the run's]"
)
@click.option(
    "--load-path",
    "--load_path",
    metavar="CKPT",
    help="Name or path of a checkpoint.  [default: best, else the latest that is whole]",
)
@verbosity
def command(run: str, *, load_path: str | None, out: str, count: int, **given: Any) -> None:
    """Collects samples of a trained policy into a folder."""
    from dicore.console import say
    from dicore_tools.demo_dataset import collect_demo_data

    with contextlib.redirect_stdout(sys.stderr):  # what environments print is not the answer
        data = collect_demo_data(
            run,
            collect_count=count,
            expert_data_path=out,
            state_dict_path=load_path,
            **given,
        )
    say(f"{out}: {len(data)} samples of {', '.join(data.keys())}", result=True)
