"""`dicore eval`: mean return of a trained policy, videos of its episodes, or offline estimates."""

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
  dicore eval runs/a --sample -n 100                 actions drawn as in training
  dicore eval runs/a --against runs/b -n 200         two policies of one game, as often on each side
  dicore eval runs/a --offline demo.npz              from recorded episodes, without the environment
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
    help="Draw actions as in training, with the least exploration.  [default: greedy actions]",
)
@click.option(
    "--offline",
    metavar="DATA",
    help="Estimate the discounted return from recorded episodes: a file, folder or id.",
)
@click.option(
    "--estimator",
    "estimators",
    type=click.Choice(["fqe", "wis", "dr"]),
    multiple=True,
    help="With --offline: fitted Q, weighted importance sampling, doubly robust; may be repeated."
    "  [default: all that apply]",
)
@click.option(
    "--updates",
    type=click.IntRange(1),
    help="With --offline: gradient updates of the fitted Q values.  [default: 5000]",
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

    against, offline, sample = (given.pop(name) for name in ("against", "offline", "sample"))
    estimates = {name: given.pop(name) for name in ("estimators", "updates")}
    _check_together(against, offline, **estimates)
    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        if against is not None:
            played = _battle(words, against, sample=sample, **given)
        elif offline is not None:
            played = _offline(words, offline, sample=sample, **estimates, **given)
        else:
            evaluation = _evaluate(words, sample=sample, **given)
    if against is not None or offline is not None:
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
    from dicore_tools.evaluation.policy_loader import check_foreign

    own_process()
    names = {name: given.pop(name) for name in ("config", "env", "policy")}
    seed, trust, load_path = given.pop("seed"), given.pop("trust"), given.pop("load_path")
    places, overrides = split_words(words)
    if len(places) == 1 and Path(places[0]).is_file():
        check_foreign(places[0])
        if load_path is None and Path(places[0]).with_name("run.json").is_file():
            folder = Path(places[0]).parent
            raise UsageError(f"{places[0]} is a file of a run", hint=f"dicore eval {folder}")
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


def _check_together(
    against: str | None,
    offline: str | None,
    *,
    estimators: Sequence[str],
    updates: int | None,
) -> None:
    """Checks that no option is given without the one that it belongs to."""
    if against is not None and offline is not None:
        raise UsageError("--against plays games, --offline plays none", hint="give one of them")
    if offline is None and (estimators or updates is not None):
        name = "--estimator" if estimators else "--updates"
        raise UsageError(f"{name} has no effect without --offline DATA")


def _offline(words: Sequence[str], data: str, *, updates: int | None, **given: Any) -> Any:
    """Estimates returns from recorded episodes; returns an `OfflineEvaluation`."""
    from dicore.console import own_process
    from dicore_tools.commands.words import split_words
    from dicore_tools.evaluation.offline.evaluate import evaluate_offline

    own_process()
    places, overrides = split_words(words)
    kept = ("estimators", "load_path", "sample", "seed", "trust")
    others = [name for name in given if name not in kept and given[name] is not None]
    if others:
        raise UsageError(f"--offline evaluates a run: drop --{others[0].replace('_', '-')}")
    if len(places) != 1:
        raise UsageError("--offline needs one run", hint="dicore eval RUN --offline demo.npz")
    given = {name: given[name] for name in kept}
    updates = 5000 if updates is None else updates
    return evaluate_offline(places[0], data, overrides=overrides, updates=updates, **given)


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
        "sampled": evaluation.sampled,
        "measured": {name: _finite(each) for name, each in evaluation.measured.items()},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
