"""`dicore collect`: saves samples of a trained policy."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import verbosity
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.commands.options import AS_JSON, CHECKPOINT, EPISODE_SEED, TRUST

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore_tools.json_output.written import Collected

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore collect runs/cartpole_dqn_s0 -n 10000 -o demo/cartpole
  dicore collect runs/cartpole_dqn_s0/ckpt/best -s 7
  dicore collect runs/cartpole_dqn_s0 -n 10000 --eps 0.3 -o demo.npz
  dicore collect runs/cartpole_dqn_s0 --episodes 10 --min-return 475 -o demo.npz
  dicore collect -e cartpole -p ./balance.py:Balance --episodes 10 -o demo.npz

The samples are saved for imitation or offline RL: in a folder as safetensors with a checksum, or,
if the name ends in .npz or .hdf5, in a file of single steps. pipeline.dataset.path trains from
them. In Python, load_demo_data(DIR) (from dicore import load_demo_data) returns the samples of a
folder as a Batch.
"""
_ENDING = re.compile(r"\.(?!v\d+$)[a-zA-Z]\w*")
"""Ending of a file, and not of a folder such as demo.v2 or eps0.3."""


@click.command(name="collect", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN|CKPT] [a.b=c]...")
@click.option("-e", "--env", metavar="NAME", help="With -p, instead of RUN: environment.")
@click.option(
    "-p",
    "--policy",
    metavar="NAME",
    help="A policy that does not learn: random, or one of your own (./file.py:Class).",
)
@click.option(
    "--episodes",
    "n_episode",
    metavar="N",
    type=click.IntRange(1),
    help="Number of whole episodes, instead of samples.",
)
@click.option(
    "--min-return",
    type=float,
    help="With --episodes, to a file: keep only episodes with at least this return.",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1),
    help="Number of samples.  [default: 1000]",
)
@click.option(
    "-o",
    "--out",
    metavar="PATH",
    default="demo_data",
    show_default=True,
    help="Output folder, or a file .npz or .hdf5.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing data set.")
@click.option(
    "--eps",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Probability of a random action, of policies with epsilon-greedy exploration.",
)
@click.option(
    "--greedy",
    is_flag=True,
    help="Act as in evaluation; otherwise policies such as sac and ppo sample actions.",
)
@click.option(
    "--outputs",
    is_flag=True,
    help="To a file: also write the network's logit, or mean and log_std, for distillation.",
)
@click.option(
    "--log-prob",
    is_flag=True,
    help="To a file: also write the log-probability of each action, for dicore eval --offline.",
)
@EPISODE_SEED
@CHECKPOINT
@TRUST
@AS_JSON
@verbosity
@says_what_was_saved("out")
def command(
    words: tuple[str, ...],
    *,
    env: str | None,
    policy: str | None,
    load_path: str | None,
    out: str,
    count: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Collects samples with a policy and saves them to a folder or a file."""
    from dicore.console import say
    from dicore.errors import UsageError
    from dicore_tools.commands.output import write_json
    from dicore_tools.commands.words import split_words
    from dicore_tools.demo_dataset import collect_demo_data

    if count is not None and given["n_episode"] is not None:
        raise UsageError(f"-n {count} and --episodes {given['n_episode']}: expected one of them")
    _check_ending(Path(out))
    places, overrides = split_words(words)
    source = _source(places, env, policy)
    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        data = collect_demo_data(
            source,
            collect_count=1000 if count is None else count,
            expert_data_path=out,
            state_dict_path=load_path,
            overrides=overrides,
            **given,
        )
    if as_json:
        told: Collected = {"path": out, "samples": len(data), "columns": [*map(str, data.keys())]}
        write_json(told)
        return
    say(f"{out}: {len(data)} samples of {', '.join(data.keys())}", result=True)


def _check_ending(out: Path) -> None:
    """Checks that the ending of a new file is that of a format."""
    from dicore.errors import UsageError
    from dicore_tools.data_files import file_endings

    if _ENDING.fullmatch(out.suffix) and not out.is_dir():
        endings = file_endings()
        if out.suffix.lower() not in endings:
            raise UsageError(
                f"{out}: unknown format '{out.suffix}'; expected {', '.join(endings)}, or a folder",
                hint=f"-o {out.with_suffix('.npz')}",
            )


def _source(named: list[str], env: str | None, policy: str | None) -> Tree:
    """Returns the run that is named, or what `-e` and `-p` describe."""
    from dicore.errors import UsageError
    from dicore.run.request import TrainRequest

    if len(named) == 1 and env is None and policy is None:
        return named[0]
    if not named and env is not None and policy is not None:
        return TrainRequest(env=env, policy=policy)
    raise UsageError(
        "expected one run or checkpoint, or -e ENV and -p POLICY",
        hint="dicore collect runs/cartpole_dqn_s0 --episodes 10 -o demo.npz",
    )
