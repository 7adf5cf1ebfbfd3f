"""`dicore eval`: mean return of a trained policy, and videos of its episodes."""

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
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.commands.options import CHECKPOINT, EPISODE_SEED, TRUST

if TYPE_CHECKING:
    from dicore_tools.evaluation.evaluate import Evaluation
    from dicore_tools.json_output.runs import Evaluation as EvaluationFacts

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore eval runs/cartpole_dqn_s0 -n 20 -s 100
  dicore eval runs/cartpole_dqn_s0 -n 3 --replay-path video
  dicore eval runs/cartpole_dqn_s0 --load-path iteration_10000 --json
  dicore eval runs/cartpole_dqn_s0/ckpt/best
  dicore eval runs/a --against runs/b -n 200         two policies of one game, as often on each side
  dicore -m eval -e cartpole -p dqn --load-path runs/x/ckpt/best --replay-path video

Nothing is written to the run folder. Without -n, -s and a.b=c, the training's evaluation episodes
are repeated, so the result equals the return that was logged for this checkpoint. The best
checkpoint was selected by that result; use -s to evaluate it on new episodes.
"""


@click.command(name="eval", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN|CKPT] [a.b=c]...")
@click.option(
    "-n",
    "--n-episode",
    "--n_episode",
    type=click.IntRange(1),
    help="Number of episodes.  [default: env.n_evaluator_episode]",
)
@EPISODE_SEED
@CHECKPOINT
@click.option(
    "--replay-path",
    "--replay_path",
    metavar="DIR",
    help="Record a video (mp4) of each episode to this folder.",
)
@click.option(
    "--against",
    metavar="RUN|CKPT",
    help="Play a game of two sides against the policy of another run.",
)
@click.option(
    "--sample",
    is_flag=True,
    help="With --against: draw actions as in training.  [default: greedy actions]",
)
@click.option("-c", "--config", metavar="FILE", help="Config file, if no run is given.")
@click.option("-e", "--env", metavar="NAME", help="Environment, if no run is given.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm, if no run is given.")
@TRUST
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@verbosity
@says_what_was_saved("replay_path")
def command(words: Sequence[str], *, as_json: bool, **given: Any) -> None:
    """Evaluates a trained policy over whole episodes; optionally records videos."""
    from dicore.console import say

    against, sample = given.pop("against"), given.pop("sample")
    if sample and against is None:
        raise UsageError("--sample has no effect without --against")
    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        if against is not None:
            played = _battle(words, against, sample=sample, **given)
        else:
            evaluation = _evaluate(words, **given)
    if against is not None:
        told = json.dumps(played.as_json(), allow_nan=False) if as_json else str(played)
        say(told, result=True)
        return
    if as_json:
        say(json.dumps(_as_json(evaluation), allow_nan=False), result=True)
        return
    for video in evaluation.videos:
        say(f"video: {video}")
    say(str(evaluation), result=True)


def _evaluate(words: Sequence[str], **given: Any) -> Evaluation:
    from dicore.console import own_process
    from dicore.run.request import TrainRequest
    from dicore_tools.commands.words import split_words
    from dicore_tools.evaluation.evaluate import eval as eval_by_config
    from dicore_tools.evaluation.evaluate import evaluate

    own_process()
    names = {name: given.pop(name) for name in ("config", "env", "policy")}
    seed, trust, load_path = given.pop("seed"), given.pop("trust"), given.pop("load_path")
    places, overrides = split_words(words)
    if len(places) == 1 and Path(places[0]).is_file():
        names["config"], places = _only(names["config"], places[0]), []
    if len(places) > 1:
        raise UsageError(f"expected one run, got {', '.join(places)}")
    if all(name is None for name in names.values()):
        if not places and load_path is None:
            raise UsageError("no run given", hint="name a run folder or the folder of a checkpoint")
        place, load_path = (places[0], load_path) if places else (load_path, None)
        options = {"seed": seed, "load_path": load_path, "overrides": overrides, "trust": trust}
        return evaluate(place, **options, **given)
    if places and load_path is not None:
        raise UsageError(f"checkpoint given twice: {places[0]} and --load-path {load_path}")
    if places and names["config"] is None and (names["env"] is None or names["policy"] is None):
        one, other = ("env", "policy") if names["policy"] is None else ("policy", "env")
        raise UsageError(
            f"--{one}: {places[0]} has its own {one}",
            hint=f"drop --{one}; for other settings name a checkpoint, --{one} and --{other}",
        )
    request = TrainRequest(**names, seed=seed, overrides=overrides, trust=trust)
    return eval_by_config(request, load_path=places[0] if places else load_path, **given)


def _battle(words: Sequence[str], against: str, *, sample: bool, **given: Any) -> Any:
    """Plays a run against another one; returns a `Battle` of dicore-agents."""
    from dicore import battle
    from dicore.console import own_process
    from dicore_tools.commands.words import split_words

    own_process()
    places, overrides = split_words(words)
    kept = ("n_episode", "seed", "load_path", "trust")
    others = {name: given[name] for name in given if name not in kept and given[name] is not None}
    if overrides or others:
        named = [*overrides, *(f"--{name.replace('_', '-')}" for name in others)]
        raise UsageError(f"--against plays a run as it was trained: drop {named[0]}")
    if len(places) != 1:
        raise UsageError("--against needs one run", hint="dicore eval RUN_A --against RUN_B -n 200")
    given = {name: given[name] for name in kept if given[name] is not None}
    return battle(places[0], against, sample=sample, **given)


def _only(config: str | None, word: str) -> str:
    if config is not None:
        raise UsageError(f"expected one config file, got {config}, {word}")
    return word


def _as_json(evaluation: Evaluation) -> EvaluationFacts:
    return {
        "mean_return": _finite(evaluation.mean_return),
        "returns": [_finite(each) for each in evaluation.returns],
        "std": _finite(evaluation.std),
        "episodes": len(evaluation.returns),
        "checkpoint": evaluation.checkpoint,
        "seed": evaluation.seed,
        "starts": evaluation.starts,
        "videos": [str(path) for path in evaluation.videos],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
