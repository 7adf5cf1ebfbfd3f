"""Comm learner and collectors, coordinator and commander in one process, over HTTP and files."""

from __future__ import annotations

import errno
import itertools
import json
import re
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dicore.config import bind, compile_config
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.errors import CheckpointWriteError, DicoreError, UsageError
from dicore.run.env_factory import spec_of
from dicore_dist import BaseCommCollector, BaseCommLearner
from dicore_dist.commands.pipeline import flow_of
from dicore_dist.coordinator.commander import NaiveCommander, SoloCommander
from dicore_dist.coordinator.coordinator import Coordinator, Observer
from dicore_dist.coordinator.flow import BlockBuffer, Worth
from dicore_dist.coordinator.journal import Journal
from dicore_dist.links.errors import PeerError, RemoteTaskError
from dicore_dist.links.exchange import FileStore
from dicore_dist.links.master import Connection
from dicore_dist.workers.collector import FlaskFileSystemCollector
from dicore_dist.workers.collector_parts import CollectorParts
from dicore_dist.workers.learner import FlaskFileSystemLearner, _annealed, _Hook
from dicore_dist.workers.serving import _AddressFile
from dicore_dist.workers.worker_config import WorkerConfig
from dicore_plugins.messages import load_file

TOKEN = "a token of the tests"


def compiled(*overrides: str, **policy: Any) -> Any:
    tree = {
        "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 2,
                "n_evaluator_episode": 2, "stop_value": 195},
        "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [16]},
                   "learn": {"batch_size": 16, "update_per_collect": 4},
                   "collect": {"n_sample": 16}},
        "pipeline": {"type": "dist", "system": {"collect_blocks": 3}},
    }  # fmt: skip
    tree["policy"] = policy or tree["policy"]
    found = compile_config(tree, overrides=["pipeline.max_train_iter=40", *overrides])
    return bind(found, spec_of(found.env, found.seed))


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
    learner: FlaskFileSystemLearner,
    collectors: Any,
    places: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FEATURES I22-I32: demands, samples from files, learn info, two endings, residency."""
    monkeypatch.chdir(tmp_path)
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
    assert policy_file(places)["version"] == 10
    assert not Path("default_experiment").exists()  # the learner itself saves nothing


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
    waiting.join(60)
    assert "no task runs" in str(waiting.error)
    assert learner.wait(60)


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


def test_close_ends_a_learner_that_is_being_created(learner: FlaskFileSystemLearner) -> None:
    """Its thread would run on, and refuse all later tasks."""
    master = Connection(learner.address, TOKEN)
    create, begun, go_on = learner._create_learner, threading.Event(), threading.Event()

    def slowly(info: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return create(info)

    learner._create_learner = slowly  # type: ignore[method-assign]
    starting = master.new_task("learner_start_task", {"task_info": info_of(compiled())}).start()
    assert begun.wait(60)
    master.process("learner_close_task")
    go_on.set()
    starting.join(60)
    assert "closed while it started" in str(starting.error)
    assert not master.process("resource_task")["busy"]
    master.process("learner_start_task", {"task_info": info_of(compiled())})
    master.process("learner_close_task")


def coordinated(
    config: Any, learner: Any, collectors: Any, places: dict[str, Any], commander: Any = None
) -> Coordinator:
    names = {"learner0": learner.address}
    names |= {f"collector{index}": each.address for index, each in enumerate(collectors)}
    policies = Path(places["path_policy"])
    journal = Journal(policies / "journal.jsonl")
    job = {**info_of(config), "job_id": journal.job_id}
    flow = flow_of(config.cfg, FileStore(Path(places["path_data"]), TOKEN), journal.blocks)
    commander = commander or NaiveCommander()
    return Coordinator(config.cfg, job, flow, commander, journal, Known(names, TOKEN))


@dataclass
class Known:
    """Addresses by name."""

    names: dict[str, str]
    token: str

    def address_of(self, name: str) -> str | None:
        return self.names.get(name)

    def collectors(self) -> list[str]:
        return [name for name in self.names if name != "learner0"]


@pytest.mark.parametrize("commander", ["naive", "solo"])
def test_a_whole_training_keeps_the_ratio_and_shuts_all_down(
    learner: FlaskFileSystemLearner,
    collectors: Any,
    places: dict[str, Any],
    commander: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FEATURES I36, I37; RELIABILITY I05, I07: updates and samples stay in proportion.

    The wall clock jumps by an hour, forth and back. At the end collectors are ahead of the learner;
    with `solo`, one evaluates once more.
    """
    clock, jumps = time.time, itertools.cycle((3600.0, -3600.0))  # noqa: TID251 - it is patched
    monkeypatch.setattr(time, "time", lambda: clock() + next(jumps))
    made = NaiveCommander() if commander == "naive" else SoloCommander(eval_interval=1e9)
    config = compiled("pipeline.system.collect_blocks=1000")
    coordinator = coordinated(config, learner, collectors, places, made)
    coordinator.run(lambda: False)
    assert coordinator.train_iter == 40
    samples = coordinator.flow.ratio.samples
    assert samples + 5 * 4 + 16 >= 40 * 4
    assert samples * 0.25 <= 40 + 10 + 2 * 4 + 2 * 4
    assert learner.wait(60)
    assert all(each.wait(60) for each in collectors)
    files = {each.name for each in Path(places["path_data"]).iterdir()}
    assert not [name for name in files if name.endswith(".part")]


def test_a_restarted_coordinator_goes_on_and_gives_no_task_twice(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """RELIABILITY I03: the journal is on disk; learner and collectors stay."""
    config = compiled("pipeline.max_train_iter=60")
    first = coordinated(config, learner, collectors, places)
    first._close_all = lambda wait_s: None  # type: ignore[method-assign] # as if it was killed
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


def test_a_task_that_does_not_say_that_it_evaluates_collects(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """As those of the commander that `dicore new plugin` writes."""

    class Terse(NaiveCommander):
        def get_collector_task(self) -> Any:
            task = super().get_collector_task()
            return None if task is None else {"task_id": task["task_id"]}

    config = compiled("pipeline.max_train_iter=4")
    coordinator = coordinated(config, learner, collectors, places, Terse())
    coordinator.run(lambda: False)
    assert coordinator.train_iter == 4


def test_a_failing_task_is_retried_and_then_ends_the_run_with_its_text(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    config = compiled("pipeline.system.max_restarts=1", "pipeline.system.collector_num=1")
    tries = []

    def fail(task_info: Any) -> Any:
        tries.append(threading.current_thread().name)
        raise ValueError("environments cannot be built")

    collectors[0]._create_collector = fail
    with pytest.raises(RemoteTaskError, match="environments cannot be built"):
        coordinated(config, learner, collectors[:1], places).run(lambda: False)
    assert len(tries) == 2


def test_an_environment_that_exits_is_the_error_of_each_try(
    collectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FEATURES I36: the next try has environments of its own, not those that were left behind."""
    config = compiled()
    collector, steps = collectors[0], []

    def exit_(*args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        raise KeyboardInterrupt("of an environment")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(CollectorParts, "collect", exit_)
            with pytest.raises(RemoteTaskError, match="KeyboardInterrupt: of an environment"):
                collected(collector, config)
        assert collector._parts is None
    assert len(steps) == 2
    assert collected(collector, config)["count"] == 16


def test_a_learner_whose_thread_ends_ends_the_wait_for_it(
    learner: FlaskFileSystemLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FEATURES I36: by SystemExit, or without a word."""
    master = Connection(learner.address, TOKEN)
    for end, text in ((SystemExit("of a hook"), "SystemExit: of a hook"), (None, "has ended")):

        def start(end: BaseException | None = end) -> None:
            if end is not None:
                raise end

        made = learner._create_learner

        def create(info: Any, start: Any = start, made: Any = made) -> Any:
            found = made(info)
            found.start = start
            return found

        monkeypatch.setattr(learner, "_create_learner", create)
        master.process("learner_start_task", {"task_info": info_of(compiled())})
        with pytest.raises(RemoteTaskError, match=text):
            master.process("learner_get_data_task")
        master.process("learner_close_task")


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
    from dicore_dist.coordinator import flow
    from dicore_plugins.buffers import NaiveReplayBuffer

    monkeypatch.setattr(flow, "_KEEP_S", 0.0)
    stored = BlockBuffer(NaiveReplayBuffer({"replay_buffer_size": 8}), FileStore(tmp_path), 4)
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


def policy_file(places: dict[str, Any]) -> Any:
    return load_file(Path(places["path_policy"]) / "policy.frame", TOKEN.encode())


PPO = {
    "type": "ppo",
    "model": {"encoder_hidden_size_list": [16]},
    "learn": {"batch_size": 16, "epoch_per_collect": 2},
    "collect": {"n_sample": 64},
}


@pytest.mark.parametrize("batch_size", [16, None])
def test_on_policy_rounds_use_each_sample_once_by_the_version_that_collected_it(
    batch_size: int | None, learner: FlaskFileSystemLearner, collectors: Any,
    places: dict[str, Any],
) -> None:  # fmt: skip
    """PPO: all collectors share n_sample, act by one version, and the learner uses all at once."""
    config = compiled(**{**PPO, "learn": {"batch_size": batch_size, "epoch_per_collect": 2}})
    coordinator = coordinated(config, learner, collectors, places)
    sizes: list[int] = []
    train = learner._create_learner

    def created(task_info: Any) -> Any:
        made = train(task_info)
        real = made.train
        made.train = lambda data, *args: (sizes.append(len(data)), real(data, *args))[1]
        return made

    learner._create_learner = created  # type: ignore[method-assign] # to see its batches
    coordinator.run(lambda: False)
    lines = (Path(places["path_policy"]) / "journal.jsonl").read_text().splitlines()
    blocks = [json.loads(each) for each in lines if '"block"' in each]
    used = [each for each in blocks if each["policy_iter"] < coordinator.train_iter]
    updates = 8 if batch_size else 2
    assert sizes == [64] * (40 // updates)
    assert [each["policy_iter"] for each in used] == sorted([*range(0, 40, updates)] * 2)
    assert {each["count"] for each in blocks} == {32}
    assert coordinator.train_iter == 40
    assert sum(each["env_step"] for each in blocks) == coordinator.env_step
    assert policy_file(places)["version"] == 40


def test_the_last_updates_are_published_and_saved_at_the_end_of_a_task(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """Another task of the same job continues after the last update, not after the last save."""
    learner._policy_freq = 100
    master, meta = Connection(learner.address, TOKEN), collected(collectors[0], compiled())
    info = info_of(compiled(), number=1)
    master.process("learner_start_task", {"task_info": info})
    master.process("learner_get_data_task")
    master.process("learner_learn_task", {"data": drawn(meta, 80)})
    master.process("learner_close_task")
    assert policy_file(places)["version"] == 5
    again = {"task_info": {**info, "number": 2}}
    assert master.process("learner_start_task", again)["learner_step"] == 5


def test_a_learner_that_was_replaced_publishes_nothing(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """RELIABILITY I08: it was stopped, another one took its task, and it goes on.

    It leaves no checkpoint in the working folder either.
    """
    master, meta = Connection(learner.address, TOKEN), collected(collectors[0], compiled())
    master.process("learner_start_task", {"task_info": info_of(compiled(), number=1)})
    master.process("learner_get_data_task")
    other = FlaskFileSystemLearner(**places)
    other.start()
    try:
        second = Connection(other.address, TOKEN)
        second.process("learner_start_task", {"task_info": info_of(compiled(), number=2)})
        with pytest.raises(RemoteTaskError, match="was replaced by that of task 2"):
            master.process("learner_learn_task", {"data": drawn(meta, 80)})
        assert learner._thread is not None
        learner._thread.join(60)
    finally:
        other.close()
    assert policy_file(places)["epoch"] == 2
    assert not Path("default_experiment").exists()  # after an error, too


def test_parameters_of_another_training_or_an_older_learner_are_not_used(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    config = compiled()
    collected(collectors[0], config)
    parts = collectors[0]._parts
    state = parts.policy.collect_mode.state_dict()
    for job, epoch, version, wanted in (
        ("another", 9, 7, -1),
        ("job", 2, 5, 5),
        ("job", 1, 8, 5),
        ("job", 2, 4, 4),
        ("job", 3, 1, 1),
    ):
        origin = {"job_id": job, "epoch": epoch, "version": version}
        learner._task_info = {"policy_id": "policy"}
        learner.send_policy({**origin, "state": state})
        collectors[0]._look()
        assert parts.version == wanted


def test_tasks_of_a_coordinator_that_was_replaced_are_refused(collectors: Any) -> None:
    """RELIABILITY I08: fenced by the number of the coordinator in its job."""
    old, new = (
        Connection(collectors[0].address, TOKEN, master=("job", number)) for number in (1, 2)
    )
    assert not old.process("resource_task")["busy"]
    assert not new.process("resource_task")["busy"]
    with pytest.raises(RemoteTaskError, match="number 1, was replaced by number 2"):
        old.process("collector_close_task", {"shutdown": True})
    other = Connection(collectors[0].address, TOKEN, master=("next job", 1))
    assert not other.process("resource_task")["busy"]


def test_two_coordinators_never_write_one_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(UsageError, match="another coordinator of this training is running"):
        Journal(tmp_path / "journal.jsonl")
    journal.close()
    again = Journal(tmp_path / "journal.jsonl")
    again.close()
    assert (again.job_id, again.epoch) == (journal.job_id, 2)


def test_a_full_disk_is_an_error_with_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal._file.close()
    journal._file = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closed below
    with pytest.raises(CheckpointWriteError, match=r"journal\.jsonl: cannot be written: No space"):
        journal.write("updates", train_iter=1)
    journal.close()
    assert not (tmp_path / "journal.jsonl.lock").exists()


def test_a_training_in_which_nothing_happens_ends_with_what_all_do(
    learner: FlaskFileSystemLearner, collectors: Any, places: dict[str, Any]
) -> None:
    """A commander that assigns nothing; no wait is without an end."""
    limits = "pipeline.system.task_timeout=0.6", "pipeline.system.start_timeout=1.2"
    coordinator = coordinated(compiled(*limits), learner, collectors, places)
    for name in ("get_learner_task", "get_collector_task"):
        setattr(coordinator._commander, name, lambda: None)
    with pytest.raises(DicoreError, match=r"no env step, update or evaluation for 2\.4 s"):
        coordinator.run(lambda: False)


def test_a_full_disk_of_another_process_has_the_exit_code_of_a_serial_run(
    collectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dicore_plugins.messages.private_folder", full)
    with pytest.raises(RemoteTaskError, match="No space left") as caught:
        collected(collectors[0], compiled())
    assert caught.value.exit_code == CheckpointWriteError.exit_code == 4


def test_a_task_before_the_start_is_one_error(
    learner: FlaskFileSystemLearner, collectors: Any
) -> None:
    for address, name in (
        (learner.address, "learner_learn_task"),
        (learner.address, "learner_get_data_task"),
        (collectors[0].address, "collector_data_task"),
    ):
        with pytest.raises(RemoteTaskError, match="ClosedError: no task runs"):
            Connection(address, TOKEN).process(name, {"data": []})


def test_a_collector_that_takes_the_place_of_another_has_other_seeds() -> None:
    """It would begin with the same episodes and the same random actions."""
    config = compiled()
    seeds = [
        WorkerConfig.of(info_of(config, number=number), "collector", index).cfg.seed
        for number, index in ((1, 0), (2, 1), (2, 0), (7, 0), (9, 0))
    ]
    assert seeds[0] == seeds[2]
    assert len(set(seeds)) == 4


def test_a_collector_joins_while_training_and_a_lost_one_does_not_end_it(
    learner: FlaskFileSystemLearner,
    collectors: Any,
    places: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FEATURES I38, RELIABILITY I01: the configured one never starts, another one collects."""
    monkeypatch.setattr("dicore_dist.coordinator.coordinator._LOOK_S", 0.0)
    config = compiled("pipeline.system.start_timeout=30", "pipeline.system.collector_num=1")
    coordinator = coordinated(config, learner, [], places)
    peers = Known({"learner0": learner.address, "collector7": collectors[1].address}, TOKEN)
    coordinator._peers = peers
    coordinator.run(lambda: False)
    assert coordinator.train_iter == 40


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ([], "--module learner --module-name learner0"),
        (["pipeline.system.start=processes"], r"log/learner0/output\.txt"),
    ],
)
def test_a_learner_that_never_starts_ends_the_run_with_its_command(
    collectors: Any, learner: Any, places: dict[str, Any], options: list[str], hint: str
) -> None:
    config = compiled("pipeline.system.start_timeout=0.3", *options)
    coordinator = coordinated(config, learner, collectors, places)
    names = {f"collector{index}": each.address for index, each in enumerate(collectors)}
    coordinator._peers = Known(names, TOKEN)
    with pytest.raises(PeerError, match=r"learner0 has not started, for 0\.3 s") as caught:
        coordinator.run(lambda: False)
    assert re.search(hint, caught.value.hint)


def test_the_last_collector_has_as_long_as_any_to_come_back(
    collectors: Any, learner: Any, places: dict[str, Any]
) -> None:
    coordinator = coordinated(compiled(), learner, collectors, places)
    coordinator._threads = dict.fromkeys(("learner0", "collector0", "collector1"))  # type: ignore[arg-type]
    limit = coordinator._system.start_timeout
    now = time.monotonic()
    coordinator._lost = {"collector0": now - 2 * limit, "collector1": now - limit / 2}
    coordinator._is_lost("collector0", PeerError("gone"))
    assert coordinator._error is None
    coordinator._lost["collector1"] = now - 2 * limit
    coordinator._is_lost("collector0", PeerError("gone"))
    assert "gone, for 120 s" in str(coordinator._error)
    coordinator._journal.close()


@pytest.mark.parametrize(
    ("start", "hint"),
    [("none", "^is it running?"), ("threads", "^is it"), ("processes", r"^see log/learner0/out")],
)
def test_the_hint_for_a_lost_process_is_the_log_of_one_that_was_started_here(
    collectors: Any, learner: Any, places: dict[str, Any], start: str, hint: str
) -> None:
    config = compiled(f"pipeline.system.start={start}", "pipeline.system.max_restarts=0")
    coordinator = coordinated(config, learner, collectors, places)
    coordinator.restarts.lost("learner0")
    coordinator._is_lost("learner0", PeerError("gone", hint="is it running?"))
    assert re.search(hint, getattr(coordinator._error, "hint", ""))
    coordinator._journal.close()


def test_collectors_that_end_again_and_again_before_a_result_end_the_run(
    collectors: Any, learner: Any, places: dict[str, Any]
) -> None:
    """However long each of them lives: on a busy machine a start takes as long as work."""
    config = compiled("pipeline.system.max_retries=1")
    coordinator = coordinated(config, learner, collectors, places)
    coordinator._threads = dict.fromkeys(("learner0", "collector0", "collector1"))  # type: ignore[arg-type]

    def lost(*names: str) -> None:
        for name in names:
            coordinator._is_back(name)
            coordinator._is_lost(name, PeerError("gone"))

    lost("collector0", "collector0", "collector0", "collector1")
    assert coordinator._error is None  # the other one may work
    assert coordinator._collected("collector1", Blocks()) is not None
    lost("collector1", "collector0")
    assert coordinator._error is None
    lost("collector1")
    assert "gone; lost 2 times, with nothing done in between" in str(coordinator._error)
    coordinator._journal.close()


class Blocks:
    """A collector that answers at once."""

    def process(self, name: str, data: Any, timeout: float) -> dict[str, Any]:
        return {"count": 0, "env_step": 1, "policy_iter": 0}


@pytest.mark.parametrize(
    ("learn", "collect", "blocks", "wanted"),
    [
        ({"update_per_collect": 4}, {"n_sample": 16}, [16, 16, 16], [0, 4, 4]),
        ({"update_per_collect": 4}, {"n_episode": 2}, [20, 30, 9], [0, 4, 4]),
        (
            {"update_per_collect": 4},
            {"n_sample": 16, "random_collect_size": 48},
            [16, 16, 16, 16],
            [0, 0, 4, 4],
        ),
        ({"update_per_step": 0.5}, {"n_sample": 16}, [16, 16, 16], [0, 1, 8]),
        (
            {"update_per_step": 2.0},
            {"n_sample": 16, "random_collect_size": 20},
            [16, 16, 16],
            [0, 1, 32],
        ),
    ],
)
def test_blocks_are_worth_the_updates_of_a_serial_run(
    learn: dict[str, Any], collect: dict[str, Any], blocks: list[int], wanted: list[float]
) -> None:
    options = {"batch_size": 32, "update_per_step": None, "update_per_collect": None, **learn}
    worth = Worth(SimpleNamespace(**options), collect)
    assert [worth.of({"count": n, "env_step": n}) for n in blocks] == wanted


def test_annealed_options_reach_the_learner() -> None:
    seen: list[Any] = []
    mode = namedtuple("Mode", "forward")(lambda data, **kwargs: seen.append(kwargs))
    command = SimpleNamespace(get_setting_learn=lambda info: {"clip_ratio": info["envstep"] / 10})
    policy = SimpleNamespace(learn_mode=mode, command_mode=command)
    engine = SimpleNamespace(envstep=5, last_iter=1)
    _annealed(policy, lambda: engine).forward(None)
    assert seen == [{"clip_ratio": 0.5}]


def test_hooks_run_once_in_some_updates_or_after_each_batch_even_without_an_update() -> None:
    """A batch may make several updates at once, or none."""
    calls: list[tuple[str, int]] = []
    hooks = [
        _Hook(
            name, "after_iter", lambda engine, name=name: calls.append((name, engine.last_iter)), n
        )
        for name, n in (("some", 10), ("each", 0))
    ]
    for step in (4, 13, 13, 19, 41):
        for hook in hooks:
            hook(SimpleNamespace(last_iter=step))
    assert [at for name, at in calls if name == "some"] == [13, 41]
    assert [at for name, at in calls if name == "each"] == [4, 13, 13, 19, 41]


def test_of_two_processes_with_one_name_the_first_ends(tmp_path: Path) -> None:
    """RELIABILITY I08: a stopped process that was replaced ends when it goes on."""
    old = _AddressFile(tmp_path / "learner0.address", "127.0.0.1:1")
    assert not old.is_of_another()
    new = _AddressFile(tmp_path / "learner0.address", "127.0.0.1:2")
    assert old.is_of_another()
    old.remove()
    assert new.content
    new.remove()
    assert not [*tmp_path.iterdir()]


def test_consecutive_evaluations_are_counted_over_all_collectors(
    learner: Any, collectors: Any, places: dict[str, Any]
) -> None:
    """Whoever evaluates: one that reaches the stop value, after one that did, too."""
    config = compiled("policy.eval.evaluator.consecutive=2")
    coordinator = coordinated(config, learner, collectors, places)
    seen: list[bool] = []

    class Told(Observer):
        def evaluated(self, result: Any) -> None:
            seen.append(result["stop"])

    coordinator.observers.append(Told())
    for number, stop in enumerate((True, False, True, True)):
        meta = {"task_id": f"t{number}", "policy_iter": number, "mean_return": 0.0, "stop": stop}
        assert coordinator._evaluated(meta)["stop"] is (number == 3)
    assert seen == [False, False, False, True]
    coordinator._journal.close()
