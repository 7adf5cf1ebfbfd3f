"""P20: stacked 84 x 84 images from the environment to the learner, compared with SB3.

`memory_and_draws`, a part of `python -m benchmarks.buffers`, are P7 and P21 of such images.

P20 is a whole DQN run: 8 environments in worker processes that hand out single frames, 4 of them
stacked, one update of 32 samples per 4 env steps, and a network that costs next to nothing. The
clock runs from the first forward pass of the network to the last one, so that the start of the
workers does not count.

python -m benchmarks.images
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from benchmarks.measure import at_most, compare, contest, emit, missing
from dicore.data import Batch
from dicore.run.launch import launch
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.env_wrappers.frame_stack import LazyFrameStack
from dicore_plugins.frames import StackedFrames
from dicore_plugins.policies.random import RandomPolicy

ROUNDS, ENVS, DEPTH, SIDE, ACTIONS, BATCH = 5, 8, 4, 84, 4, 32
COLLECT, STEPS, CAPACITY, MEMORY = 96, 7_680, 10_000, 100_000
MANAGER = "sync_subprocess"


class Frames(gymnasium.Env[Any, Any]):
    """Hands out frames that were made before, in episodes of 200 steps."""

    observation_space = Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = Discrete(ACTIONS)

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._frames = list(rng.integers(0, 256, (64, SIDE, SIDE), np.uint8))
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return self._frames[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return self._frames[self._step % 64], 1.0, self._step == 200, False, {}


class Clock:
    """First and last time at which the network of a run collected or learned."""

    first = last = 0.0

    @classmethod
    def tick(cls) -> None:
        cls.last = time.perf_counter()
        cls.first = cls.first or cls.last


class Tiny(torch.nn.Module):
    """Reads every twelfth row and column."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(DEPTH * 7 * 7, ACTIONS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) in (ENVS, BATCH):  # not of a check of shapes or an evaluation, before the workers
            Clock.tick()
        values: torch.Tensor = self.linear(x[:, :, ::12, ::12].flatten(1).float() / 255)
        return values


def dicore_run(seed: int, wrapper: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        launch(
            env="benchmarks.images:Frames", policy="dqn", seed=seed, exp_name=f"{folder}/run",
            max_env_step=STEPS, model=Tiny(),
            overrides=[
                f"env.manager={MANAGER}", f"env.collector_env_num={ENVS}",
                "env.evaluator_env_num=1", "env.n_evaluator_episode=1", "env.stop_value=inf",
                f"env.env_wrapper=['{wrapper}']", f"policy.collect.n_sample={COLLECT}",
                "policy.collect.random_collect_size=0", f"policy.learn.batch_size={BATCH}",
                f"policy.learn.update_per_collect={COLLECT // 4}", "policy.nstep=1",
                "policy.eval.evaluator.eval_freq=100000000",
                "policy.eval.evaluator.max_episode_steps=2",
                f"policy.other.replay_buffer.replay_buffer_size={CAPACITY}",
                "pipeline.logger=[]", "policy.learn.learner.hook=[]",
            ],
        )  # fmt: skip


def sb3_run(seed: int) -> None:
    from stable_baselines3 import DQN
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    class Extract(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, DEPTH * 7 * 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) in (ENVS, BATCH):
                Clock.tick()
            return x[:, :, ::12, ::12].flatten(1) / 255

    env = VecFrameStack(SubprocVecEnv([FramesOfOneChannel] * ENVS), DEPTH, "first")
    try:
        DQN(
            "CnnPolicy", env, buffer_size=CAPACITY, learning_starts=COLLECT, batch_size=BATCH,
            train_freq=(COLLECT // ENVS, "step"), gradient_steps=COLLECT // 4, device="cpu",
            policy_kwargs={
                "features_extractor_class": Extract, "net_arch": [], "normalize_images": False,
            },
            seed=seed,
        ).learn(STEPS)  # fmt: skip
    finally:
        env.close()


class FramesOfOneChannel(Frames):
    """The same frames with the channel axis that SB3 stacks along."""

    observation_space = Box(0, 255, (1, SIDE, SIDE), np.uint8)

    def __init__(self) -> None:
        super().__init__()
        self._frames = [frame[None] for frame in self._frames]


def rate(run: Callable[[int], None], seed: int) -> float:
    """Returns the env steps per second of a run."""
    Clock.first = 0.0
    run(seed)
    return STEPS / (Clock.last - Clock.first)


def whole_runs() -> None:
    runs: dict[str, Callable[[int], None]] = {
        "dicore": lambda seed: dicore_run(seed, "lazy_frame_stack"),
        "dicore, frame_stack": lambda seed: dicore_run(seed, "frame_stack"),
    }
    try:
        import stable_baselines3  # noqa: F401
    except ImportError:
        missing("P20", "stable-baselines3")
    else:
        runs["SB3"] = sb3_run
    found: dict[str, list[float]] = {name: [] for name in runs}
    for seed in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(rate(run, seed))
    for name, values in found.items():
        emit(f"P20 {name}", values, "env steps/s")
    if "SB3" in found:
        compare("P20", found["dicore"], found["SB3"], "SB3", 2.0)


def resident() -> int:
    """Returns the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def collected(collector: SampleCollector) -> Batch:
    batch = collector.collect_batch(n_sample=COLLECT)
    columns = {key: column for key, column in batch.items() if key not in ("end", "env_id")}
    return Batch(columns, len(batch))


def filled_buffer(capacity: int) -> tuple[NaiveReplayBuffer, int, Batch]:
    """Returns a full buffer, the bytes that it took, and the last batch that was pushed."""
    manager = BaseEnvManager([lambda: LazyFrameStack(Frames(), DEPTH)] * ENVS)
    policy = RandomPolicy(action_space=Frames.action_space)
    collector = SampleCollector(None, manager, policy.collect_mode)
    buffer = NaiveReplayBuffer({"replay_buffer_size": capacity}, rng=np.random.default_rng(0))
    first = NaiveReplayBuffer({"replay_buffer_size": 4 * COLLECT}, rng=np.random.default_rng(0))
    for _ in range(8):  # what the collector keeps, and the code that it loads, is not the buffer's
        first.push(collected(collector))
    before = resident()
    for _ in range(-(-capacity // COLLECT)):
        samples = collected(collector)
        buffer.push(samples)
    used = resident() - before
    collector.close()
    return buffer, used, samples


def memory_and_draws() -> None:
    frame = SIDE * SIDE
    buffer, used, samples = filled_buffer(MEMORY)
    at_most("P21 buffer / frames", [used / (MEMORY * frame)], "x", 1.05)
    del buffer
    buffer, _, samples = filled_buffer(CAPACITY)
    state = buffer.state_dict()
    held = sum(each["frames"].nbytes for each in state["frames"])
    at_most("P21 saved frames / frames", [held / (CAPACITY * frame)], "x", 1.05)
    assert isinstance(samples["obs"], StackedFrames)
    rng = np.random.default_rng(0)
    arrays = [np.full((CAPACITY, DEPTH, SIDE, SIDE), value, np.uint8) for value in (1, 2)]
    outs = [np.empty((256, DEPTH, SIDE, SIDE), np.uint8) for _ in range(2)]

    def hand() -> None:
        slots = rng.integers(0, CAPACITY, 256)
        for array, out in zip(arrays, outs, strict=True):
            array.take(slots, 0, out, "clip")

    contenders = {"dicore": lambda: buffer.sample_batch(256, reuse=True), "copied stacks": hand}
    against = {"copied stacks": 0.9}
    contest("P7", contenders, 1, "batches/s", against=against, clock=time.process_time)
    plain = NaiveReplayBuffer({"replay_buffer_size": CAPACITY})
    copies = Batch({key: np.asarray(column) for key, column in samples.items()}, len(samples))
    pushes = {"dicore": lambda: buffer.push(samples), "copied": lambda: plain.push(copies)}
    contest("push of images", pushes, len(samples), "rows/s", against={})


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    whole_runs()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        MANAGER = sys.argv[1]
    main()
