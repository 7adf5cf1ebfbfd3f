"""P17: share of a DQN training outside env step, forward, backward and optimizer.

The loss is part of the forward pass. Run by `python -m benchmarks.share`.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gymnasium.envs.classic_control import CartPoleEnv

from benchmarks.measure import at_most, emit
from dicore.run.launch import launch
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.optimizers.flat import FlatOptimizer
from dicore_plugins.policies.base import Actor
from dicore_plugins.policies.dqn import policy as dqn

BUDGET, TARGET = 4_000, 0.07
_SPENT = {"env": 0.0, "forward": 0.0, "backward": 0.0, "optimizer": 0.0}
_CALLS = 0


def timed(what: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, wrapped to add the time of each call to `what`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        global _CALLS  # noqa: PLW0603 - the one counter of this script
        start = time.perf_counter()
        result = fn(*args, **kwargs)
        _SPENT[what] += time.perf_counter() - start
        _CALLS += 1
        return result

    return call


def timer_cost() -> float:
    """Returns the overhead of one timed call in seconds."""
    empty = timed("env", lambda: None)
    before, start = _SPENT["env"], time.perf_counter()
    for _ in range(100_000):
        empty()
    return (time.perf_counter() - start - (_SPENT["env"] - before)) / 100_000


def train(seed: int) -> float:
    """Trains once; returns the seconds of the run."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = launch(
            env="cartpole",
            policy="dqn",
            seed=seed,
            exp_name=str(Path(folder) / "run"),
            max_env_step=BUDGET,
            overrides=["env.stop_value=inf", "pipeline.logger=['tensorboard']"],
        )
    return outcome.run.result.wall_s


def main() -> None:
    global _CALLS  # noqa: PLW0603 - see `timed`
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    cart_pole: Any = CartPoleEnv
    cart_pole.step = timed("env", cart_pole.step)
    cart_pole.reset = timed("env", cart_pole.reset)
    Actor.forward = Actor.__call__ = timed("forward", Actor.forward)
    DQN.q = timed("forward", DQN.q)
    dqn.nstep_td_error = timed("forward", dqn.nstep_td_error)  # the loss
    dqn.dqn_td_target = timed("forward", dqn.dqn_td_target)
    torch.Tensor.backward = timed("backward", torch.Tensor.backward)
    FlatOptimizer.step = timed("optimizer", FlatOptimizer.step)
    FlatOptimizer.zero_grad = timed("optimizer", FlatOptimizer.zero_grad)
    train(0)  # warm-up: the first run of a process is slower
    cost = timer_cost()
    shares = []
    for seed in range(1, 4):
        _SPENT.update(dict.fromkeys(_SPENT, 0.0))
        _CALLS = 0
        wall = train(seed) - _CALLS * cost
        shares.append(1 - sum(_SPENT.values()) / wall)
        for what, seconds in _SPENT.items():
            emit(f"P17 {what}", [seconds / wall], "share")
    at_most("P17 rest", shares, "share", TARGET)


if __name__ == "__main__":
    main()
