"""The budget of env steps of `-m dist`: kept by collectors that collect at the same time."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore_dist.coordinator.budget import EnvStepBudget
from dicore_dist.coordinator.commander import NaiveCommander
from dicore_dist.coordinator.flow import BlockBuffer, Replay
from dicore_dist.coordinator.journal import Journal
from dicore_dist.coordinator.rounds import Rounds, Share
from tests.dist import test_roles as roles

learner, collectors, places = roles.learner, roles.collectors, roles.places


class Mode:
    """A collect mode with samples of several env steps."""

    def __init__(self, **facts: Any) -> None:
        self.get_attribute = facts.__getitem__


def budget(most: int | None, used: int = 0, **facts: Any) -> EnvStepBudget:
    cfg = SimpleNamespace(
        pipeline=SimpleNamespace(max_env_step=most), env=SimpleNamespace(collector_env_num=2)
    )
    made = EnvStepBudget(cfg, used)
    made.of(Mode(**facts))
    return made


def never() -> bool:
    return False


def test_what_one_collector_was_told_is_not_left_for_others() -> None:
    shared = budget(100, used=40)
    amount = {"n_sample": 16}
    assert shared.claim("a", amount, never) == {"within": 60}
    assert shared.claim("b", amount, never) == {"within": 60 - 16}
    shared.made("a", 16)
    assert (shared.used, shared.is_spent) == (56, False)
    shared.made("b", 0)  # it was lost: its steps are left again
    assert shared.claim("a", amount, never) == {"within": 44}


def test_a_collector_waits_for_what_others_were_told_until_that_is_made() -> None:
    shared, ended = budget(16), threading.Event()
    amount = {"n_sample": 16}
    assert shared.claim("a", amount, never) == {"within": 16}
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(shared.claim("b", amount, ended.is_set)))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    shared.made("a", 12)
    waiting.join(60)
    assert found == [{"within": 4}]
    ended.set()
    assert shared.claim("a", amount, ended.is_set) is None
    shared.made("b", 4)
    assert shared.is_spent


@pytest.mark.parametrize(
    ("facts", "amount", "left"),
    [
        ({}, {"n_sample": 15}, 100 - 16),
        ({"sample_len": 3, "sample_stride": 1}, {"n_sample": 16}, 100 - 16 - 2 * 2),
        ({"sample_len": 20, "sample_stride": 10}, {"n_sample": 4}, 100 - 40 - 10 * 2),
        ({"sample_len": "episode"}, {"n_sample": 16}, 100),
        ({}, {"n_episode": 5}, 100),
    ],
)
def test_env_steps_of_samples_of_several_rows(
    facts: dict[str, Any], amount: dict[str, int], left: int
) -> None:
    shared = budget(100, **facts)
    shared.claim("a", amount, never)
    assert shared.claim("b", amount, never) == {"within": left}


def test_only_the_first_collect_of_a_process_has_steps_without_a_sample() -> None:
    shared, amount = budget(100, sample_len=3, sample_stride=1), {"n_sample": 16}
    shared.claim("a", amount, never)
    shared.made("a", 20)
    shared.claim("a", amount, never)
    assert shared.claim("b", amount, never) == {"within": 100 - 20 - 16}
    shared.made("a", 0)  # another process takes its place
    shared.claim("a", amount, never)
    shared.made("b", 20)
    assert shared.claim("b", amount, never) == {"within": 100 - 40 - 20}


def test_without_a_budget_nobody_waits() -> None:
    shared = budget(None)
    assert shared.claim("a", {"n_sample": 1 << 40}, never) == {}
    assert not shared.is_spent


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (roles.PPO, []),
        ({}, ["policy.nstep=3"]),
        ({}, ["policy.collect.random_collect_size=500"]),  # the budget ends the warm-up
    ],
    ids=["rounds", "replay", "warm-up"],
)
def test_a_training_ends_at_its_budget_and_its_updates_are_made(
    learner: Any, collectors: Any, places: dict[str, Any], policy: dict[str, Any], more: list[str]
) -> None:
    """As a serial run: not by whole blocks of each collector."""
    options = ["pipeline.max_env_step=200", "pipeline.max_train_iter=null"]
    config = roles.compiled(*options, *more, **policy)
    coordinator = roles.coordinated(config, learner, collectors, places, NaiveCommander())
    mode = config.cfg.policy.build(roles.WorkerConfig.of(roles.info_of(config)).ctx).collect_mode
    coordinator.budget.of(mode)
    coordinator.run(lambda: False)
    assert coordinator.env_step == 200
    assert not coordinator.flow.owes_updates
    if not policy:
        owed = coordinator.flow.ratio.earned
        assert 0 < owed == coordinator.train_iter


def test_samples_are_drawn_for_the_updates_that_are_owed() -> None:
    """Else a buffer with `max_use` is asked for more than a serial run draws."""
    drawn: list[int] = []

    def sample(size: int, train_iter: int) -> list[dict[str, Any]]:
        drawn.append(size)
        return [{"row": range(size)}]

    buffer: Any = SimpleNamespace(sample=sample)
    flow = Replay(buffer, roles.compiled("policy.learn.batch_size=16").cfg)
    flow.ratio.collected(64, 7.5)
    flow.ratio.learned(4)
    flow.draw(160, 4)
    flow.draw(32, 4)
    flow.ratio.learned(8)  # of a checkpoint that a resumed learner had
    flow.draw(160, 4)
    assert drawn == [4 * 16, 32, 16]


@pytest.mark.parametrize(
    ("most", "more", "steps"),
    [(1, ["policy.nstep=3"], 2), (50, ["policy.nstep=3"], 50), (101, ["policy.nstep=5"], 102)],
)
def test_env_steps_that_complete_no_sample_end_the_training(
    learner: Any, collectors: Any, places: dict[str, Any], most: int, more: list[str], steps: int
) -> None:
    """They are made and counted as in a serial run, but not exceeded for a sample."""
    options = [f"pipeline.max_env_step={most}", "pipeline.max_train_iter=null"]
    config = roles.compiled(*options, *more)
    coordinator = roles.coordinated(config, learner, collectors, places, NaiveCommander())
    mode = config.cfg.policy.build(roles.WorkerConfig.of(roles.info_of(config)).ctx).collect_mode
    coordinator.budget.of(mode)
    coordinator.run(lambda: False)
    assert coordinator.env_step == steps
    file = Path(places["path_policy"]) / "journal.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(each for each in lines if "finished" not in each))
    journal = Journal(file)  # that a restarted coordinator would read
    assert journal.env_step == steps
    journal.close()


def test_on_policy_the_last_collect_of_a_budget_is_learned_from_without_the_rest() -> None:
    """As in a serial run, which then learns from fewer samples."""
    removed: list[str] = []
    flow = Rounds("n_sample", 32, 2, SimpleNamespace(remove=removed.append), 5.0)  # type: ignore[arg-type]
    flow.begin(0)
    one, other = flow.claim(never), flow.claim(never)
    assert one is not None
    assert other is not None
    flow.making(one)
    flow.put(one, {"file_path": "one", "policy_iter": 0})
    assert not flow.owes_updates  # the other share is missing
    flow.making(other)
    flow.end()
    assert flow.owes_updates
    assert not flow._is_complete()  # it is being made
    flow.give_back(other)
    assert flow.wait_to_learn(never)
    assert flow.draw(0, 0) == [{"file_path": "one"}]
    flow.learned({"learner_step": 4})
    assert removed == ["one"]
    assert not flow.owes_updates


def test_updates_are_left_out_that_the_buffer_refuses_as_in_a_serial_run() -> None:
    buffer = "policy.other.replay_buffer"
    options = [f"{buffer}.type=advanced", f"{buffer}.max_use=1", "policy.learn.batch_size=16"]
    cfg = roles.compiled(*options).cfg
    store: Any = SimpleNamespace(remove=lambda name: None)
    blocks = BlockBuffer(cfg.policy.other.replay_buffer.build(None), store, 16)
    flow = Replay(blocks, cfg)
    flow.put(Share({}), {"count": 40, "env_step": 40, "file_path": "one", "policy_iter": 0})
    assert flow.ratio.earned == 4  # updates of 16 samples, each used once
    metas = flow.draw(160, 0)
    rows = np.concatenate([meta["row"] for meta in metas])
    assert len({*rows.tolist()}) == len(rows) == 32
    assert flow.ratio.earned == 2
    flow.ratio.learned(1)
    assert flow.draw(160, 1) == []
    assert not flow.owes_updates
