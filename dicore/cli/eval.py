"""`dicore eval`: the mean return of a run's policy over fresh episodes."""

from __future__ import annotations

import contextlib
import json
import math
import sys

import click

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore eval runs/cartpole_dqn_s0 -n 20 -s 100
  dicore eval runs/cartpole_dqn_s0 -n 20 --json
  dicore eval runs/cartpole_dqn_s0 --load-path iteration_10000

Nothing is written into the run. With --json stdout holds one JSON object and nothing else.
"""


@click.command(name="eval", epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option(
    "-n",
    "--n-episode",
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
    "--trust",
    is_flag=True,
    help="Run code that config.json names by path (./file.py:Class, pkg.mod:Class).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
def command(
    run: str,
    n_episode: int | None,
    seed: int | None,
    load_path: str | None,
    *,
    trust: bool,
    as_json: bool,
) -> None:
    """Measures the policy of a run: mean return over fresh episodes."""
    from dicore.run.console import say
    from dicore.run.evaluate import evaluate

    with contextlib.redirect_stdout(sys.stderr):  # what environments print is not the answer
        found = evaluate(run, n_episode=n_episode, seed=seed, load_path=load_path, trust=trust)
    returns = found.returns
    if as_json:
        answer = {
            "mean_return": _json(found.mean_return),
            "returns": [_json(each) for each in returns],
            "std": _json(found.std),
            "episodes": len(returns),
            "checkpoint": found.checkpoint,
            "seed": found.seed,
        }
        say(json.dumps(answer, allow_nan=False))
        return
    say(
        f"mean return {found.mean_return:.2f} (std {found.std:.2f}, min {min(returns):.2f},"
        f" max {max(returns):.2f}) over {len(returns)} episodes, seed {found.seed},"
        f" checkpoint {found.checkpoint}"
    )


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None
