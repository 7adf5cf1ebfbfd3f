"""Samples of environments whose frame stacks share frames equal those of copied stacks."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.launch import launch
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.frames import StackedFrames
from tests.plugins.stack_envs import assert_equal, collector, copied, lazy

CALLS = {
    "single steps": [{"n_sample": 3}] * 30,
    "any number, memory used again": [{"n_sample": n, "reuse": True} for n in (1, 7, 2, 30) * 4],
    "episodes": [{"n_episode": 4}] * 5,
}


class OneByOne(BaseEnvManager):
    """Steps environments at their own pace, as far as a collector knows."""

    capabilities = BaseEnvManager.capabilities - {"lockstep"}


def samples(batch: Batch) -> Batch:
    return Batch({key: each for key, each in batch.items() if key != "env_id"}, len(batch))


@pytest.mark.parametrize("manager", [BaseEnvManager, OneByOne])
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize(("form", "nstep"), [("image", 1), ("image", 3), ("dict", 3)])
def test_collected_stored_and_drawn_samples_are_equal(
    form: str, nstep: int, calls: str, manager: Any
) -> None:
    mine, theirs = (collector(make, form, nstep, manager) for make in (lazy, copied))
    buffers = [
        NaiveReplayBuffer({"replay_buffer_size": 40}, rng=np.random.default_rng(0))
        for _ in range(2)
    ]
    kwargs = {"policy_kwargs": {"eps": 0.5}}
    for call in CALLS[calls]:
        found, wanted = (each.collect_batch(**call, **kwargs) for each in (mine, theirs))
        obs = found["obs"] if form == "image" else found["obs"]["image"]
        assert isinstance(obs, StackedFrames)
        assert_equal(found, wanted)
        for buffer, batch in zip(buffers, (found, wanted), strict=True):
            buffer.push(samples(batch))
        assert_equal(*(buffer.sample_batch(16, replace=True) for buffer in buffers))
        for one, other in zip(*(each.sample_batches(2, 1) for each in buffers), strict=True):
            assert_equal(one, other)
    for each in (mine, theirs):
        each.close()


@pytest.mark.parametrize("manager", [BaseEnvManager, OneByOne])
@pytest.mark.parametrize("form", ["image", "dict"])
def test_an_interrupted_collect_is_resumed_with_the_same_samples(form: str, manager: Any) -> None:
    kwargs = {"policy_kwargs": {"eps": 0.0}}
    reference = collector(copied, form, 3, manager)
    wanted = [reference.collect_batch(n_sample=count, **kwargs) for count in (12, 60, 30)]
    reference.close()
    for steps in range(0, 20, 4):
        asked = count()
        first, second = (collector(lazy, form, 3, manager) for _ in range(2))
        first.collect_batch(n_sample=12, **kwargs)
        stop = lambda: next(asked) >= steps  # noqa: B023, E731 - used at once
        assert not len(first.collect_batch(n_sample=60, should_stop=stop, **kwargs))
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "state"
            write_state(place, {"env": first._env.state_dict(), "collector": first.state_dict()})
            state = read_state(place)
        second._env.load_state_dict(state["env"])
        second.load_state_dict(state["collector"])
        for size, batch in zip((60, 30), wanted[1:], strict=True):
            assert_equal(second.collect_batch(n_sample=size, **kwargs), batch)
        first.close()
        second.close()


@pytest.mark.parametrize("priority", [False, True])
def test_a_training_ends_with_the_same_parameters(priority: bool, tmp_path: Path) -> None:
    def trained(wrapper: str) -> Any:
        options = [
            "env.collector_env_num=3", "env.evaluator_env_num=2", "env.n_evaluator_episode=3",
            "env.stop_value=inf", f"env.env_wrapper=['{wrapper}']", "policy.nstep=3",
            "policy.collect.n_sample=24", "policy.learn.batch_size=8",
            "policy.other.replay_buffer.replay_buffer_size=50", "pipeline.logger=[]",
            f"policy.priority={priority}", "policy.learn.update_per_collect=3",
        ]  # fmt: skip
        outcome = launch(
            env="tests.plugins.stack_envs:Frames", policy="dqn", max_env_step=240,
            exp_name=str(tmp_path / wrapper), overrides=options,
        )  # fmt: skip
        return outcome.policy.get_attribute("flat").data

    assert torch.equal(trained("lazy_frame_stack"), trained("frame_stack"))
