"""Comm learner and collectors, coordinator and commander in one process, over HTTP and files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dicore.config import bind, compile_config
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.run.env_factory import spaces_of
from dicore_plugins.comm import BaseCommCollector, BaseCommLearner
from dicore_plugins.comm.collector import FlaskFileSystemCollector
from dicore_plugins.comm.commander import NaiveCommander, SoloCommander
from dicore_plugins.comm.coordinator import Coordinator
from dicore_plugins.comm.errors import RemoteTaskError
from dicore_plugins.comm.flow import BlockBuffer
from dicore_plugins.comm.frames import load_file
from dicore_plugins.comm.journal import Journal
from dicore_plugins.comm.learner import FlaskFileSystemLearner
from dicore_plugins.comm.master import Connection

TOKEN = "a token of the tests"


def compiled(*overrides: str) -> Any:
    tree = {
        "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 2,
                "n_evaluator_episode": 2, "stop_value": 195},
        "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [16]},
                   "learn": {"batch_size": 16, "update_per_collect": 4},
                   "collect": {"n_sample": 16}},
        "pipeline": {"type": "dist", "system": {"collect_blocks": 3}},
    }  # fmt: skip
    found = compile_config(tree, overrides=["pipeline.max_train_iter=40", *overrides])
    return bind(found, *spaces_of(found.env, found.seed))


def info_of(config: Any, **more: Any) -> dict[str, Any]:
    text = dumps(saved_tree(config))
    ids = {"policy_id": "policy", "buffer_id": "buffer", "job_id": "job"}
    return {"config": text, "task_id": "task_1", **ids, **more}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Any]:
    return {
        "path_data": str(tmp_path / "data"),
        "path_policy": str(tmp_path / "policy"),
        "token": TOKEN,
    }


@pytest.fixture
def learner(places: dict[str, Any]) -> Iterator[FlaskFileSystemLearner]:
    made = FlaskFileSystemLearner(**places, send_policy_freq=1, send_learn_info_freq=5)
    made.start()
    yield made
    made.close()


@pytest.fixture
def collectors(places: dict[str, Any]) -> Iterator[list[FlaskFileSystemCollector]]:
    made = [FlaskFileSystemCollector(**places) for _ in range(2)]
    for each in made:
        each.start()
    yield made
    for each in made:
        each.close()


def collected(collector: FlaskFileSystemCollector, config: Any) -> Any:
    """Returns the metadata of one block."""
    connection = Connection(collector.address, TOKEN)
    more = {"eval_flag": False, "amount": {"n_sample": 16}, "blocks": 1}
    connection.process("collector_start_task", {"task_info": info_of(config, **more)})
    info = {"envstep": 0, "learner_step": 0, "random": True}
    return connection.process("collector_data_task", info)


def drawn(meta: Any, size: int) -> list[Any]:
    import numpy as np

    rows = np.arange(size) % meta["count"]
    return [{"file_path": meta["file_path"], "row": rows, "at": np.arange(size)}]


def test_the_five_tasks_of_a_learner_two_in_a_row(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """FEATURES I22-I32: demands, samples from files, learn info, two endings, residency."""
    assert isinstance(learner, BaseCommLearner)
    assert isinstance(collectors[0], BaseCommCollector)
    config = compiled("pipeline.max_train_iter=10")
    meta = collected(collectors[0], config)
    assert (meta["count"], meta["collector_done"], meta["cur_sample"]) == (16, True, 16)
    master = Connection(learner.address, TOKEN)
    with pytest.raises(RemoteTaskError, match=r"no task runs"):
        master.process("learner_get_data_task")
    with pytest.raises(RemoteTaskError, match=r"unknown task 'dance'; expected resource_task"):
        master.process("dance")
    for task in ("first", "second"):
        info = info_of(config, task_id=task, job_id=task)
        assert master.process("learner_start_task", {"task_info": info})["message"] == "ok"
        steps = []
        while True:
            demand = master.process("learner_get_data_task")
            assert demand["task_id"] == task
            assert demand["batch_size"] == 5 * 16
            answer = master.process("learner_learn_task", {"data": drawn(meta, 80)})
            steps.append((demand["cur_learner_iter"], answer["info"]["learner_step"]))
            if answer["info"]["learner_done"]:
                break
        assert steps == [(0, 5), (5, 10)]
        assert not master.process("resource_task")["busy"]
    assert load_file(Path(places["path_policy"]) / "policy.frame")["version"] == 10


def test_close_ends_a_learner_that_waits_for_data(
    learner: FlaskFileSystemLearner, collectors: Any
) -> None:
    """FEATURES I31: while it is blocked in get_data."""
    master = Connection(learner.address, TOKEN)
    master.process("learner_start_task", {"task_info": info_of(compiled())})
    master.process("learner_get_data_task")
    waiting = master.new_task("learner_get_data_task").start()
    with pytest.raises(RemoteTaskError, match=r"still running|busy"):
        master.process("learner_start_task", {"task_info": info_of(compiled())})
    master.process("learner_close_task", {"shutdown": True})
    waiting.join(10)
    assert "no task runs" in str(waiting.error)
    assert learner.wait(10)


def test_the_error_of_a_learner_is_reported_with_its_text(
    learner: FlaskFileSystemLearner, collectors: Any
) -> None:
    master = Connection(learner.address, TOKEN)
    master.process("learner_start_task", {"task_info": info_of(compiled())})
    master.process("learner_get_data_task")
    lost = [{"file_path": "nowhere.frame", "row": [0], "at": [0]}]
    with pytest.raises(RemoteTaskError, match=r"nowhere\.frame"):
        master.process("learner_learn_task", {"data": lost})
    assert not master.process("resource_task")["busy"]


def coordinated(
    config: Any, learner: Any, collectors: Any, places: dict[str, Any], commander: Any = None
) -> Coordinator:
    names = {"learner0": learner.address}
    names |= {f"collector{index}": each.address for index, each in enumerate(collectors)}
    policies = Path(places["path_policy"])
    journal = Journal(policies / "journal.jsonl")
    job = {**info_of(config), "job_id": journal.job_id}
    buffer = config.cfg.policy.other.replay_buffer.build(None)
    stored = BlockBuffer(buffer, Path(places["path_data"]), 16)
    commander = commander or NaiveCommander()
    return Coordinator(config.cfg, job, stored, commander, journal, names.get, TOKEN)


def test_a_whole_training_keeps_the_ratio_and_shuts_all_down(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """FEATURES I36, I37: naive; RELIABILITY I05: updates and samples stay in proportion."""
    coordinator = coordinated(compiled(), learner, collectors, places)
    coordinator.run(lambda: False)
    assert coordinator.train_iter == 40
    samples = coordinator.ratio.samples
    assert samples + 5 * 4 + 16 >= 40 * 4
    assert samples * 0.25 <= 40 + 10 + 2 * 4 + 2 * 4
    assert learner.wait(10)
    assert all(each.wait(10) for each in collectors)
    files = {each.name for each in Path(places["path_data"]).iterdir()}
    assert not [name for name in files if name.endswith(".part")]


def test_a_restarted_coordinator_goes_on_and_gives_no_task_twice(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """RELIABILITY I03: the journal is on disk; learner and collectors stay."""
    config = compiled("pipeline.max_train_iter=60")
    first = coordinated(config, learner, collectors, places)
    first._close_all = lambda: None  # type: ignore[method-assign] # as if it was killed
    first.run(lambda: first.train_iter >= 20)
    second = coordinated(config, learner, collectors, places)
    assert second._journal.resumed
    assert second.env_step == first.env_step
    assert second.train_iter >= 20
    second.run(lambda: False)
    assert second.train_iter == 60
    lines = (Path(places["path_policy"]) / "journal.jsonl").read_text().splitlines()
    given = [line for line in lines if '"task"' in line]
    assert len(given) == len(set(given))
    third = Journal(Path(places["path_policy"]) / "journal.jsonl")
    third.close()
    assert not third.resumed


def test_a_failing_task_is_retried_and_then_ends_the_run_with_its_text(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    config = compiled("pipeline.system.max_retries=1", "pipeline.system.collector_num=1")
    tries = []

    def fail(task_info: Any) -> Any:
        tries.append(threading.current_thread().name)
        raise ValueError("environments cannot be built")

    collectors[0]._create_collector = fail
    with pytest.raises(RemoteTaskError, match="environments cannot be built"):
        coordinated(config, learner, collectors[:1], places).run(lambda: False)
    assert len(tries) == 2


def test_solo_evaluates_and_stops_at_the_stop_value() -> None:
    commander = SoloCommander(eval_interval=0.0)
    assert commander.get_collector_task() == {"task_id": "collector_task_1", "eval_flag": False}
    task = commander.get_learner_task()
    assert task == {"task_id": "learner_task_1"}
    assert commander.get_learner_task() is None
    commander.update_learner_info("learner_task_1", {"learner_step": 5})
    evaluation = commander.get_collector_task()
    assert evaluation is not None
    assert evaluation["eval_flag"]
    commander.notify_fail_collector_task(evaluation)
    again = commander.get_collector_task()
    assert again is not None
    assert again["eval_flag"]
    assert again["task_id"] != evaluation["task_id"]
    assert not commander.finish_collector_task(again["task_id"], {"stop": False})
    last = commander.get_collector_task()
    assert last is not None
    assert commander.finish_collector_task(last["task_id"], {"stop": True})
    assert commander.get_collector_task() is None


def test_solo_evaluates_once_more_after_the_learner_has_ended() -> None:
    commander = SoloCommander(eval_interval=1e9)
    commander.get_learner_task()
    assert not commander.finish_learner_task("learner_task_1", {})
    last = commander.get_collector_task()
    assert last is not None
    assert last["eval_flag"]
    assert commander.get_collector_task() is None
    assert commander.finish_collector_task(last["task_id"], {"stop": False})


def test_files_of_samples_that_left_the_buffer_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dicore_plugins.buffers import NaiveReplayBuffer
    from dicore_plugins.comm import flow

    monkeypatch.setattr(flow, "_KEEP_S", 0.0)
    stored = BlockBuffer(NaiveReplayBuffer({"replay_buffer_size": 8}), tmp_path, 4)
    for number in range(6):
        (tmp_path / f"{number}.frame").touch()
        stored.push({"count": 4, "file_path": f"{number}.frame"})
    assert {each.name for each in tmp_path.iterdir()} <= {"3.frame", "4.frame", "5.frame"}
    assert {meta["file_path"] for meta in stored.sample(64, 0)} == {"4.frame", "5.frame"}


def test_one_that_was_cut_off_in_the_journal_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.write("task", kind="learner", number=3)
    journal.close()
    with path.open("a") as file:
        file.write('{"event": "task", "kind": "lear')
    again = Journal(path)
    again.close()
    assert (again.resumed, again.tasks["learner"], again.job_id) == (True, 3, journal.job_id)
