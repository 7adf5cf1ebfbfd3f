"""Frames of ALE Pong per second beside SB3, with the preprocessing of the presets.

8 environments in worker processes, random actions: dicore's `sync_subprocess` with the wrappers of
`pong`, with `frame_stack` and `lazy_frame_stack`, and SB3's `SubprocVecEnv` of `AtariWrapper`s with
`VecFrameStack`. A step is four frames of the emulator. `whole runs`: a DQN from its first update
on, with the settings of `pong_dqn`, but without double DQN and n-step targets, which SB3 has not: 8
updates of 32 samples per 32 steps, with the network of Mnih et al. 2015.

python -m benchmarks.atari              # environments alone
python -m benchmarks.atari whole runs   # minutes
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.measure import compare, contest, emit, missing
from dicore.config import compile_config
from dicore.data import EnvBatch
from dicore.run.env_factory import make_env_manager
from dicore.run.launch import launch

ENVS, FRAMES, ROUNDS = 8, 4, 3
WARM_UP, STEPS = 1_000, 4_000
WRAPPERS = ("noop_reset", "max_and_skip", "eval_episode_return", "warp_frame", "clip_reward")
ACTIONS = np.random.default_rng(0).integers(0, 6, (1_000, ENVS))


def of_dicore(stack: str) -> tuple[Callable[[int], None], Callable[[], None]]:
    overrides = {
        "env.manager.type": "sync_subprocess",
        "env.collector_env_num": ENVS,
        "env.env_wrapper": [*WRAPPERS, stack],
    }
    config = compile_config({"env": {"type": "pong"}, "policy": {"type": "random"}},
                            overrides=overrides)  # fmt: skip
    manager = make_env_manager(config.env, "collector", 0)
    manager.launch()

    def step(at: int) -> None:
        ready = manager.ready_obs
        manager.step_into(EnvBatch(ready.env_id, {"action": ACTIONS[at]}))

    return step, manager.close


def game_of_sb3() -> Any:
    import ale_py
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    gymnasium.register_envs(ale_py)
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25)
    return AtariWrapper(gymnasium.wrappers.RecordEpisodeStatistics(game))


def sb3_env() -> Any:
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack, VecTransposeImage

    return VecTransposeImage(VecFrameStack(SubprocVecEnv([game_of_sb3] * ENVS), 4))


def of_sb3() -> tuple[Callable[[int], None], Callable[[], None]]:
    env = sb3_env()
    env.reset()
    return (lambda at: env.step(ACTIONS[at])), env.close


def environments() -> None:
    try:
        import ale_py  # noqa: F401
        import cv2  # noqa: F401
    except ImportError:
        return missing("Pong", "ale-py or opencv")
    made = {"dicore": of_dicore("frame_stack"), "dicore lazy": of_dicore("lazy_frame_stack")}
    try:
        made["SB3"] = of_sb3()
    except ImportError:
        missing("Pong", "stable-baselines3")

    def hundred(step: Callable[[int], None]) -> Callable[[], None]:
        def run() -> None:
            for at in range(100):
                step(at)

        return run

    try:
        runs = {name: hundred(step) for name, (step, _) in made.items()}
        contest("Pong", runs, 100 * ENVS * FRAMES, "frames/s", against={"SB3": 1.0}, round_s=2.0)
    finally:
        for _, close in made.values():
            close()


def dicore_run(seed: int) -> float:
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for steps in (WARM_UP + 32, STEPS):
            begun = time.perf_counter()
            launch(
                "pong_dqn", seed=seed, exp_name=f"{folder}/{steps}", max_env_step=steps,
                overrides=[
                    "env.manager.type=sync_subprocess", f"env.collector_env_num={ENVS}",
                    f"env.env_wrapper={[*WRAPPERS, 'lazy_frame_stack']!r}",
                    "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
                    "policy.eval.evaluator.max_episode_steps=2", "policy.nstep=1",
                    "policy.learn.double=false",
                    "policy.eval.evaluator.eval_freq=100000000", "pipeline.final_eval=false",
                    f"policy.collect.random_collect_size={WARM_UP}",
                    "policy.other.replay_buffer.replay_buffer_size=10000",
                    "pipeline.logger=[]", "policy.learn.learner.hook=[]",
                ],
            )  # fmt: skip
            marks.append(time.perf_counter() - begun)
    return (STEPS - WARM_UP - 32) / (marks[1] - marks[0])


def sb3_run(seed: int) -> float:
    from stable_baselines3 import DQN

    marks: list[float] = []
    for steps in (WARM_UP + 32, STEPS):
        begun = time.perf_counter()
        env = sb3_env()
        try:
            DQN(
                "CnnPolicy", env, buffer_size=10_000, learning_starts=WARM_UP, batch_size=32,
                learning_rate=1e-4, train_freq=(4, "step"), gradient_steps=8, seed=seed,
                target_update_interval=2_000, exploration_fraction=1.0, device="cpu",
            ).learn(steps)  # fmt: skip
        finally:
            env.close()
        marks.append(time.perf_counter() - begun)
    return (STEPS - WARM_UP - 32) / (marks[1] - marks[0])


def whole_runs() -> None:
    found: dict[str, list[float]] = {"dicore": [], "SB3": []}
    for seed in range(ROUNDS):
        for name, run in (("dicore", dicore_run), ("SB3", sb3_run)):
            found[name].append(run(seed) * FRAMES)
    for name, values in found.items():
        emit(f"Pong DQN {name}", values, "frames/s")
    compare("Pong DQN", found["dicore"], found["SB3"], "SB3", 1.0)


def main() -> None:
    whole_runs() if "whole" in sys.argv else environments()


if __name__ == "__main__":
    main()
