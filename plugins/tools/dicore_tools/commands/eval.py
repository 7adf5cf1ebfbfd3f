"""`dicore eval`: the mean return of a trained policy, and videos of its episodes."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import verbosity
from dicore.errors import UsageError

if TYPE_CHECKING:
    from dicore_tools.evaluation.evaluate import Evaluation

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore eval runs/cartpole_dqn_s0 -n 20 -s 100
  dicore eval runs/cartpole_dqn_s0 -n 3 --replay-path video
  dicore eval runs/cartpole_dqn_s0 --load-path iteration_10000 --json
  dicore eval runs/cartpole_dqn_s0/ckpt/best
  dicore -m eval -e cartpole -p dqn --load-path runs/x/ckpt/best --replay-path video

Nothing is written into the run. Without -n, -s and a.b=c, a checkpoint that the training measured
is measured on the same episodes: the number is the log's. -s gives episodes that did not choose
the checkpoint. With --json stdout holds one JSON object and nothing else.
"""


@click.command(name="eval", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN|CKPT] [a.b=c]...")
@click.option(
    "-n",
    "--n-episode",
    "--n_episode",
    type=click.IntRange(1),
    help="Episodes.  [default: env.n_evaluator_episode]",
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
@click.option(
    "--replay-path",
    "--replay_path",
    metavar="DIR",
    help="Record each episode into this folder (mp4).",
)
@click.option("-c", "--config", metavar="FILE", help="Config file, where there is no run.")
@click.option("-e", "--env", metavar="NAME", help="Environment, where there is no run.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm, where there is no run.")
@click.option(
    "--trust",
    is_flag=True,
    help="Run code that config.json names by path (./file.py:Class, pkg.mod:Class).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
@verbosity
def command(words: Sequence[str], *, as_json: bool, **given: Any) -> None:
    """Measures a trained policy: mean return over whole episodes, with videos if asked."""
    from dicore.console import say

    with contextlib.redirect_stdout(sys.stderr):  # what environments print is not the answer
        found = _measured(words, **given)
    if as_json:
        say(json.dumps(_answer(found), allow_nan=False), result=True)
        return
    for video in found.videos:
        say(f"video: {video}")
    say(str(found), result=True)


def _measured(words: Sequence[str], **given: Any) -> Evaluation:
    from dicore.console import own_process
    from dicore.run.request import TrainRequest
    from dicore_tools.evaluation.evaluate import eval as eval_by_config
    from dicore_tools.evaluation.evaluate import evaluate

    own_process()
    names = {name: given.pop(name) for name in ("config", "env", "policy")}
    seed, trust, load_path = given.pop("seed"), given.pop("trust"), given.pop("load_path")
    where = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    if len(where) == 1 and Path(where[0]).is_file():
        names["config"], where = _only(names["config"], where[0]), []
    if len(where) > 1:
        raise UsageError(f"one run at a time, got {', '.join(where)}")
    if all(name is None for name in names.values()):
        if not where and load_path is None:
            raise UsageError(
                "what to evaluate is missing", hint="name the folder of a run or of a checkpoint"
            )
        place, load_path = (where[0], load_path) if where else (load_path, None)
        own = {"seed": seed, "load_path": load_path, "overrides": overrides, "trust": trust}
        return evaluate(place, **own, **given)
    if where and load_path is not None:
        raise UsageError(f"{where[0]}: a checkpoint is named by --load-path already")
    request = TrainRequest(**names, seed=seed, overrides=overrides)
    return eval_by_config(request, load_path=where[0] if where else load_path, **given)


def _only(config: str | None, word: str) -> str:
    if config is not None:
        raise UsageError(f"one config file at most, got {config}, {word}")
    return word


def _answer(found: Evaluation) -> dict[str, Any]:
    return {
        "mean_return": _json(found.mean_return),
        "returns": [_json(each) for each in found.returns],
        "std": _json(found.std),
        "episodes": len(found.returns),
        "checkpoint": found.checkpoint,
        "seed": found.seed,
        "starts": found.starts,
        "videos": [str(path) for path in found.videos],
    }


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None
