"""Self-play: the commander `one_vs_one` and the opponents of collectors."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.config import bind, compile_config
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.errors import UsageError
from dicore.run.env_factory import spec_of
from dicore_dist import OneVsOneCommander
from dicore_dist.links.master import Connection
from dicore_dist.workers.collector import FlaskFileSystemCollector
from dicore_plugins.messages import load_file, save_file

TOKEN = "a token of the tests"
NIM = {
    "env": {
        "type": "nim", "heap_max": 9, "collector_env_num": 2, "evaluator_env_num": 4,
        "n_evaluator_episode": 20,
        "env_wrapper": [{"type": "versus", "opponent": "scripted", "side": 0}],
    },
    "policy": {
        "type": "dqn", "discount_factor": 0.97, "model": {"encoder_hidden_size_list": [32]},
        "learn": {"batch_size": 32, "update_per_collect": 8, "learning_rate": 0.003},
        "collect": {"n_sample": 32},
        "other": {"eps": {"type": "exp", "start": 1.0, "end": 0.1, "decay": 1000}},
    },
    "pipeline": {"type": "dist", "system": {"commander": {"type": "one_vs_one"}}},
}  # fmt: skip


def evaluated(commander: OneVsOneCommander, **result: Any) -> Any:
    """Lets a commander give an evaluation, which ends with a result; returns the task."""
    commander.update_learner_info("learner_task_1", {"learner_step": 1})
    task = commander.get_collector_task()
    assert task is not None
    assert task["eval_flag"]
    commander.finish_collector_task(task["task_id"], {"eval_flag": True, "stop": False, **result})
    return task


def test_collectors_play_against_frozen_policies_and_the_newest() -> None:
    commander = OneVsOneCommander(collector_task_space=10**4, eval_interval=0.0, pool=2)
    assert commander.get_collector_task() == {
        "task_id": "collector_task_1", "eval_flag": False, "opponent": ""
    }  # fmt: skip
    frozen = [evaluated(commander)["freeze"] for _ in range(3)]
    assert frozen == ["opponent1", "opponent0", "opponent1"]  # the newest two
    commander._interval = 1e9
    given = Counter(commander.get_collector_task()["opponent"] for _ in range(400))  # type: ignore[index]
    assert given.keys() == {"", "opponent0", "opponent1"}
    assert 150 < given[""] < 250
    assert 60 < given["opponent0"] < 140


def test_what_was_not_evaluated_is_no_opponent() -> None:
    commander = OneVsOneCommander(eval_interval=0.0, newest=0.0)
    commander.update_learner_info("learner_task_1", {"learner_step": 1})
    task = commander.get_collector_task()
    assert task is not None
    commander.notify_fail_collector_task(task)
    commander._interval = commander._evaluated_at = 1e9
    assert commander.get_collector_task()["opponent"] == ""  # type: ignore[index]


def test_it_ends_at_the_stop_value() -> None:
    commander = OneVsOneCommander(eval_interval=0.0)
    evaluated(commander)
    assert not commander.finished
    evaluated(commander, stop=True)
    assert commander.finished
    assert commander.get_collector_task() is commander.get_learner_task() is None


@pytest.mark.parametrize(
    "options",
    [{"pool": 0}, {"newest": 1.5}, {"newest": -0.1}, {"eval_interval": -1.0},
     {"collector_task_space": 0}, {"learner_task_space": 0}],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(options: Any) -> None:
    """Without a task space, nobody is given a task, for ever."""
    with pytest.raises(UsageError, match=f"{next(iter(options))} must be"):
        OneVsOneCommander(**options)


def test_wrong_options_are_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["-m", "dist", "-e", "cartpole", "-p", "dqn", "--max-env-step", "100"]
    assert main([*command, "pipeline.system.commander.collector_task_space=0"]) == 2
    text = "pipeline.system.commander: collector_task_space must be >= 1, got 0"
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[FlaskFileSystemCollector]:
    made = FlaskFileSystemCollector(path_data=str(tmp_path), path_policy=str(tmp_path), token=TOKEN)
    made.start()
    yield made
    made.close()


def test_a_collector_gives_its_environments_the_opponent_of_a_task(
    collector: FlaskFileSystemCollector, tmp_path: Path
) -> None:
    """The frozen one, the newest one, or its own first parameters; evaluations freeze."""
    compiled = compile_config(NIM)
    config = bind(compiled, spec_of(compiled.env, 0))
    connection = Connection(collector.address, TOKEN)
    ids = {"config": dumps(saved_tree(config)), "policy_id": "policy", "buffer_id": "buffer",
           "job_id": "job", "amount": {"n_sample": 32}, "blocks": 9}  # fmt: skip

    def started(number: int, **more: Any) -> None:
        info = {**ids, "task_id": f"collector_task_{number}", "eval_flag": False, **more}
        connection.process("collector_start_task", {"task_info": info})

    def facing() -> Any:
        found = load_file(tmp_path / "job_collector0.opponent.frame")
        assert found["config"] == ids["config"]
        return list(found["state"]["model"].values())[-1].tolist()

    def saved(name: str, job: str, value: float) -> None:
        state = copy.deepcopy(collector._parts.policy.collect_mode.state_dict())  # type: ignore[union-attr]
        list(state["model"].values())[-1][:] = value
        found = {"job_id": job, "version": 1, "epoch": 1, "state": state}
        save_file(tmp_path / name, found, TOKEN.encode())

    started(1, opponent="")
    own = collector._parts.policy.collect_mode.state_dict()["model"]  # type: ignore[union-attr]
    assert facing() == list(own.values())[-1].tolist()
    saved("policy.frame", "an earlier job", 1.0)
    started(2, opponent="")
    assert facing() == list(own.values())[-1].tolist()
    saved("policy.frame", "job", 2.0)
    saved("job_opponent1.frame", "job", 3.0)
    started(3, opponent="")
    assert facing() == [2.0] * 3
    started(4, opponent="opponent1")
    assert facing() == [3.0] * 3
    meta = connection.process("collector_data_task", {"envstep": 0, "learner_step": 0})
    assert meta["count"] == 32
    envs = collector._parts.env.env_attr("_snapshot")  # type: ignore[union-attr]
    assert [list(each._mode.state_dict()["model"].values())[-1].tolist() for each in envs] == [
        [3.0] * 3
    ] * 2  # they play against it
    started(5, eval_flag=True, freeze="opponent0")
    meta = connection.process("collector_data_task", {"envstep": 0, "learner_step": 0})
    assert -1 <= meta["mean_return"] <= 1
    frozen = load_file(tmp_path / "job_opponent0.frame", TOKEN.encode())["state"]["model"]
    assert list(frozen.values())[-1].tolist() == [2.0] * 3
    collector.close()
    assert not (tmp_path / "job_collector0.opponent.frame").exists()


def test_nim_is_learned_by_self_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FEATURES I37: the perfect opponent is met in evaluations only; all games are won."""
    monkeypatch.chdir(tmp_path)
    Path("nim.json").write_text(json.dumps(NIM))
    words = ["pipeline.system.start=threads", "pipeline.system.commander.eval_interval=0.3"]
    command = ["-m", "dist", "-c", "nim.json", "-s", "0", "--max-env-step", "20000", *words]
    assert main([*command, "--exp-name", "job"]) == 0
    result = json.loads(Path("job/run.json").read_text())["result"]
    assert result["stop"]
    assert result["best_return"] == 1.0
    assert sorted(each.name for each in Path("job/policy").glob("*opponent*")) == []


def test_one_vs_one_needs_an_environment_with_an_opponent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["-m", "dist", "-e", "cartpole", "-p", "dqn", "--max-env-step", "100"]
    assert main([*command, "pipeline.system.commander.type=one_vs_one"]) == 2
    assert (
        "env.env_wrapper: expected versus, for the commander one_vs_one" in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []
