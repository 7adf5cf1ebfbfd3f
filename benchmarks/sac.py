"""P19: env steps per second of SAC and TD3 on Pendulum, compared with SB3 at the same settings.

One update per env step, the same network, learning rate and batch size, one thread, no evaluation.
CPU time, which other processes do not slow.

python -m benchmarks.sac                  # networks of 2 x 64, batch 128 (and 2 x 256, batch 256)
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import compare, emit, missing
from dicore.run.launch import launch

ROUNDS, STEPS, WARM_UP, RATE = 5, 2_000, 256, 1e-3
SIZES = {64: 128, 256: 256}
"""Batch size by width of the hidden layers."""


def dicore_run(name: str, width: int) -> None:
    """Trains by the launcher."""
    options = {
        "policy.learn.batch_size": SIZES[width],
        "policy.learn.learning_rate": RATE,
        "policy.discount_factor": 0.99,
        "policy.collect.n_sample": 1,
        "policy.collect.random_collect_size": WARM_UP,
        "policy.model.actor_hidden_size_list": f"[{width},{width}]",
        "policy.model.critic_hidden_size_list": f"[{width},{width}]",
        "policy.eval.evaluator.eval_freq": 1_000_000,
        "policy.other.replay_buffer.replay_buffer_size": 10_000,
        "env.collector_env_num": 1,
        "env.evaluator_env_num": 1,
        "env.n_evaluator_episode": 1,
        "pipeline.final_eval": "false",
        "pipeline.logger": "['tensorboard']",
    }
    with tempfile.TemporaryDirectory() as folder:
        launch(
            env="Pendulum-v1", policy=name, seed=0, exp_name=f"{folder}/run", max_env_step=STEPS,
            overrides=[f"{path}={value}" for path, value in options.items()],
        )  # fmt: skip


def sb3_run(name: str, width: int) -> None:
    """Trains SB3."""
    import stable_baselines3
    from gymnasium import make

    model: Any = getattr(stable_baselines3, name.upper())(
        "MlpPolicy", make("Pendulum-v1"), learning_rate=RATE, batch_size=SIZES[width],
        learning_starts=WARM_UP, buffer_size=10_000, gamma=0.99, seed=0, device="cpu",
        policy_kwargs={"net_arch": [width, width]},
    )  # fmt: skip
    model.learn(STEPS)


def rate(run: Callable[[str, int], None], name: str, width: int) -> float:
    """Returns env steps per second of CPU time."""
    start = time.process_time()
    run(name, width)
    return STEPS / (time.process_time() - start)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    contenders = {"dicore": dicore_run, "SB3": sb3_run}
    try:
        import stable_baselines3  # noqa: F401 - fails before the long run
    except ImportError:
        missing("P19", "stable-baselines3")
        del contenders["SB3"]
    for name, width, target in (("sac", 64, 2.3), ("td3", 64, 2.3), ("sac", 256, 1.0)):
        row = f"P19 {name} 2 x {width}"
        rates: dict[str, list[float]] = {each: [] for each in contenders}
        for run in contenders.values():  # imports
            rate(run, name, width)
        for _ in range(ROUNDS):
            for each, run in contenders.items():
                rates[each].append(rate(run, name, width))
        for each, values in rates.items():
            emit(f"{row} {each}", values, "env steps/s")
        if "SB3" in rates:
            compare(row, rates["dicore"], rates["SB3"], "SB3", target)


if __name__ == "__main__":
    main()
