"""A run that is stopped at a checkpoint goes on as it would have, whatever its buffer."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore.run.run import Run
from dicore.testing.buffer import numbered_rows
from dicore_compat.deque import DequeReplayBuffer
from dicore_plugins.buffers import (
    EpisodeReplayBuffer,
    FileReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)

OPTIONS: dict[str, list[str]] = {
    "sequence": ["policy.nstep=3", "policy.priority=true", "policy.other.replay_buffer.alpha=0.9"],
    "episode": ["policy.learn.batch_size=2"],
    "file": ["policy.other.replay_buffer.max_use=6"],
    "deque": ["policy.priority=true", "policy.other.replay_buffer.max_staleness=60"],
}


KINDS = [NaiveReplayBuffer, SequenceReplayBuffer, EpisodeReplayBuffer, FileReplayBuffer,
         DequeReplayBuffer]  # fmt: skip


class Killed(Exception):
    """The process is gone, as far as the run is concerned."""


def train(folder: Path, buffer: str) -> None:
    launch(
        env="cartpole", policy="dqn", seed=1, max_env_step=320, exp_name=str(folder),
        overrides=[
            "policy.learn.update_per_collect=16", "policy.collect.random_collect_size=128",
            "policy.collect.n_sample=64", "policy.model.encoder_hidden_size_list=[16]",
            "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
            f"policy.other.replay_buffer.type={buffer}",
            "policy.other.replay_buffer.replay_buffer_size=200",
            "policy.learn.batch_size=8", "env.stop_value=inf", "pipeline.logger=[]",
            'policy.learn.learner.hook={"save_ckpt_after_iter": 24}', *OPTIONS[buffer],
        ],
    )  # fmt: skip


def final(folder: Path) -> dict[str, Any]:
    return load_file(folder / "ckpt/final/tensors.safetensors")


@pytest.mark.parametrize("buffer", OPTIONS)
def test_a_killed_run_goes_on_to_the_same_end(
    buffer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path / "whole", buffer)
    save = Run.save_due

    def killed_after_it(run: Run, train_iter: int) -> None:
        due = run.due
        save(run, train_iter)
        if due:
            raise Killed

    monkeypatch.setattr(Run, "save_due", killed_after_it)
    with pytest.raises(Killed):
        train(tmp_path / "killed", buffer)
    monkeypatch.setattr(Run, "save_due", save)
    launch(resume=str(tmp_path / "killed"))
    one, other = final(tmp_path / "whole"), final(tmp_path / "killed")
    assert one.keys() == other.keys()
    wrong = [key for key in one if not np.array_equal(one[key], other[key], equal_nan=True)]
    assert not wrong
    assert any(key.startswith("buffer") for key in one)
    assert not (tmp_path / "whole/replay_buffer").exists()


@pytest.mark.parametrize("make", [SequenceReplayBuffer, EpisodeReplayBuffer, DequeReplayBuffer])
def test_a_state_is_that_of_one_moment(make: Any) -> None:
    """It waits for a push of another thread, which is half done."""
    buffer = make({}, rng=np.random.default_rng(0))
    buffer.push(numbered_rows(4))
    lock = buffer.buffer.store.lock if make is DequeReplayBuffer else buffer._lock
    with ThreadPoolExecutor(1) as pool:
        with lock:
            state = pool.submit(buffer.state_dict)
            with pytest.raises(TimeoutError):
                state.result(0.05)
        assert state.result(60)


@pytest.mark.parametrize("make", KINDS)
def test_a_loaded_state_draws_as_the_saved_one_goes_on(make: Any) -> None:
    """Also in a buffer whose generator was elsewhere."""
    buffer, other = (make({}, rng=np.random.default_rng(seed)) for seed in (0, 1))
    for first in range(0, 40, 4):
        rows = numbered_rows(4, first)
        buffer.push(Batch({**rows.columns, "end": np.arange(4) == 3}))
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    one, two = (
        [each.sample_batch(3)["action"].tolist() for _ in range(4)] for each in (buffer, other)
    )
    assert one == two
    assert len({*map(str, one)}) > 1


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("saved", KINDS)
def test_a_state_of_another_kind_is_refused(make: Any, saved: Any) -> None:
    buffer, other = make({}), saved({})
    buffer.push(numbered_rows(2))
    other.push(numbered_rows(3))
    if make is saved or (make, saved) == (NaiveReplayBuffer, SequenceReplayBuffer):
        buffer.load_state_dict(other.state_dict())
        assert buffer.count() == 3
        return
    with pytest.raises(UsageError, match="the state is of a buffer that has no"):
        buffer.load_state_dict(other.state_dict())
    assert buffer.count() == 2
