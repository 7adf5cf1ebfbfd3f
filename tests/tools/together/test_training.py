"""`dicore train -s 0 -s 1 --together`: run folders as of each seed alone; clean ends."""

from __future__ import annotations

import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.log import read_metrics
from dicore_plugins.middleware.collect import StepCollector
from dicore_tools.together import training
from tests.tools.together.test_updates import assert_near

pytestmark = pytest.mark.usefixtures("here")

ENDLESS = "env.stop_value=inf"
EVAL = [
    "policy.eval.evaluator.n_episode=2", "env.evaluator_env_num=2", "env.n_evaluator_episode=2",
]  # fmt: skip
DQN = [
    *("-e", "cartpole", "-p", "dqn", *EVAL, "policy.eval.evaluator.eval_freq=8"),
    *("policy.learn.update_per_collect=8", "policy.learn.batch_size=16"),
    *("policy.model.encoder_hidden_size_list=[16]", "policy.collect.n_sample=16"),
    *("policy.collect.random_collect_size=32", ENDLESS),
]
PPO = [
    *("-e", "cartpole", "-p", "ppo", *EVAL, "policy.eval.evaluator.eval_freq=4"),
    *("policy.learn.epoch_per_collect=2", "policy.learn.batch_size=16", ENDLESS),
    *("policy.model.encoder_hidden_size_list=[16]", "policy.collect.n_sample=32"),
]
TOGETHER = ["-s", "0", "-s", "1", "--together", "--exp-name", "both"]
_TIMES = ("time", "seconds", "_s", "cpu", "per_sec", "path", "size")


def train(*words: str) -> int:
    return main(["train", "-q", *words])


def read(file: Path | str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(file).read_text())
    return content


def newest(folder: Path | str) -> dict[str, Any]:
    """Returns the state of a run, without times."""
    _, state = CheckpointStore(Path(folder) / "ckpt").newest_state()
    state = dict(state)
    del state["run"]
    return state


def curve(folder: Path | str) -> list[dict[str, float]]:
    """Returns the logged numbers, without times."""
    lines = read_metrics(Path(folder) / "log/metrics.jsonl")
    return [
        {key: value for key, value in line.items() if not any(each in key for each in _TIMES)}
        for line in lines
    ]


def leaves(state: Any) -> dict[str, Any]:
    """Returns what a state consists of, by its path."""
    if isinstance(state, dict):
        return {
            f"{key}.{path}": leaf
            for key, each in state.items()
            for path, leaf in leaves(each).items()
        }
    if isinstance(state, list | tuple):
        return leaves(dict(enumerate(state)))
    return {"": state}


@pytest.mark.parametrize(("options", "budget"), [(DQN, "96"), (PPO, "96")])
def test_each_run_is_as_if_trained_alone(options: list[str], budget: str) -> None:
    """Samples, random generators and counters are equal, parameters within rounding."""
    assert train(*options, "-n", budget, *TOGETHER) == 0
    for seed in ("0", "1"):
        assert train(*options, "-n", budget, "-s", seed, "--exp-name", f"alone_{seed}") == 0
        both, alone = leaves(newest(f"both/seed_{seed}")), leaves(newest(f"alone_{seed}"))
        assert both.keys() == alone.keys()
        for path, expected in alone.items():
            if path.startswith(("streams", "buffer", "collector_env", "task")):
                assert np.array_equal(both[path], expected), path
            elif not path.startswith("collector.statistics"):
                assert_near(both[path], expected, path)
        assert_near(curve(f"both/seed_{seed}"), curve(f"alone_{seed}"))
        for name in ("config.json", "total_config.py", "ckpt/final"):
            assert (Path(f"both/seed_{seed}") / name).exists(), name
        record, other = read(f"both/seed_{seed}/run.json"), read(f"alone_{seed}/run.json")
        assert record.keys() == other.keys()
        assert record["status"] == "done"
        counts = ("train_iter", "env_step", "stop")
        assert [record["result"][name] for name in counts] == [
            other["result"][name] for name in counts
        ]
    assert read("both/summary.json")["seeds"] == [0, 1]


def test_commands_read_the_run_of_a_seed(capfd: pytest.CaptureFixture[str]) -> None:
    assert train(*PPO, "-n", "64", *TOGETHER) == 0
    assert main(["eval", "both/seed_1", "-n", "1"]) == 0
    assert main(["plot", "both", "--text"]) == 0
    assert "(2 runs)" in capfd.readouterr().out


def test_lines_say_whose_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *PPO, "-n", "64", *TOGETHER]) == 0
    said = capfd.readouterr().out
    for seed in (0, 1):
        assert f"seed {seed}: training ppo on cartpole, seed {seed}, in both/seed_{seed}" in said
        assert f"seed {seed}: budget spent" in said
    assert "\nbest mean return of 2 seeds" in said


def test_a_seed_that_reaches_the_stop_value_ends_and_the_others_go_on() -> None:
    stop = "env.stop_value=30"
    assert train(*DQN, stop, "-n", "600", "-s", "2", *TOGETHER) == 0
    runs = read("both/summary.json")["runs"]
    steps = [run["result"]["env_step"] for run in runs]
    assert [run["status"] for run in runs] == ["done"] * 3
    assert len(set(steps)) > 1, "else no seed went on without another"
    for run in runs:
        reached = run["result"]["stop"]
        assert reached == (run["result"]["best_return"] >= 30)
        assert reached or run["result"]["env_step"] >= 600
    assert any(run["result"]["stop"] for run in runs)


def at_update(monkeypatch: pytest.MonkeyPatch, update: int, seed: int, act: Any) -> None:
    """Calls a function before the collect of a seed that follows an update."""
    collect = StepCollector.__call__

    def acting(self: Any, ctx: Any) -> None:
        if f"seed_{seed}" in str(self._run.folder) and ctx.train_iter == update:
            act()
        collect(self, ctx)

    monkeypatch.setattr(StepCollector, "__call__", acting)


def test_a_seed_that_fails_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError("the disk is tired")

    with monkeypatch.context() as patch:
        at_update(patch, 8, 1, fail)
        assert train(*PPO, "-n", "96", "-s", "2", *TOGETHER) == 1
    assert "seed 1: OSError: the disk is tired" in capfd.readouterr().out
    status = {run["seed"]: run["status"] for run in read("both/summary.json")["runs"]}
    assert status == {0: "done", 1: "failed", 2: "done"}
    record = read("both/seed_1/run.json")
    assert (record["status"], record["error"]) == ("failed", "OSError: the disk is tired")
    assert train(*PPO, "-n", "96", "-s", "2", "--exp-name", "alone") == 0
    assert_near(curve("both/seed_2"), curve("alone"))


def test_an_update_that_fails_fails_all(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no update today")

    monkeypatch.setattr("dicore_tools.together.actor_critic.losses_of", fail)
    assert train(*PPO, "-n", "64", *TOGETHER) == 1
    runs = read("both/summary.json")["runs"]
    assert [run["error"] for run in runs] == ["ValueError: no update today"] * 2
    assert read("both/seed_1/run.json")["status"] == "failed"


@pytest.mark.parametrize("options", [DQN, PPO])
def test_a_signal_saves_all_and_a_resumed_training_is_as_one_without_it(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    with monkeypatch.context() as patch:
        at_update(patch, 8, 0, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert train(*options, "-n", "128", *TOGETHER) == 130
    for seed in (0, 1):
        assert read(f"both/seed_{seed}/run.json")["status"] == "interrupted"
        assert read(f"both/seed_{seed}/run.json")["result"]["env_step"] < 128
    assert train(*options, "-n", "128", *TOGETHER, "--exist", "resume") == 0
    whole = ["-s", "0", "-s", "1", "--together", "--exp-name", "whole"]
    assert train(*options, "-n", "128", *whole) == 0
    for seed in (0, 1):
        assert read(f"both/seed_{seed}/run.json")["status"] == "done"
        assert curve(f"both/seed_{seed}") == curve(f"whole/seed_{seed}"), "to the bit"


def test_a_seed_is_resumed_alone_as_an_ordinary_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(*PPO, "-n", "64", *TOGETHER) == 0
    assert main(["train", "-q", "--resume", "both/seed_1", "-n", "128"]) == 0
    assert train(*PPO, "-n", "128", "-s", "1", "--exp-name", "alone") == 0
    assert_near(newest("both/seed_1")["learner"]["policy"], newest("alone")["learner"]["policy"])


def test_a_seed_that_is_stopped_alone_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = StepCollector.__call__

    def stopping(self: Any, ctx: Any) -> None:
        if "seed_0" in str(self._run.folder) and ctx.train_iter >= 8:
            self._run.stop.request()
        collect(self, ctx)

    monkeypatch.setattr(StepCollector, "__call__", stopping)
    assert train(*PPO, "-n", "128", *TOGETHER) == 0
    steps = [read(f"both/seed_{seed}/run.json")["result"]["env_step"] for seed in (0, 1)]
    assert steps[0] < steps[1] == 128


def test_garbage_is_collected_while_they_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's process collects none until its first step."""
    seen: list[bool] = []
    at_update(monkeypatch, 4, 1, lambda: seen.append(gc.isenabled()))
    assert main(["train", *PPO, "-n", "64", *TOGETHER]) == 0
    assert seen == [True]


def test_a_second_signal_ends_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    at_update(monkeypatch, 4, 1, twice)
    assert train(*PPO, "-n", "128", *TOGETHER) == 143
    for seed in (0, 1):
        record = read(f"both/seed_{seed}/run.json")
        assert record["status"] == "interrupted"
        assert "second SIGTERM" in record["error"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_global_generators_of_a_seed_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code outside of dicore draws from them: what others draw changes nothing."""
    drawn: dict[str, list[float]] = {}
    collect = StepCollector.__call__

    def drawing(self: Any, ctx: Any) -> None:
        drawn.setdefault(str(self._run.folder), []).append(np.random.rand())  # noqa: NPY002
        collect(self, ctx)

    monkeypatch.setattr(StepCollector, "__call__", drawing)
    assert train(*PPO, "-n", "96", *TOGETHER) == 0
    assert train(*PPO, "-n", "96", "-s", "1", "--exp-name", "alone") == 0
    assert drawn["both/seed_1"] == drawn["alone"]
    assert drawn["both/seed_1"] != drawn["both/seed_0"]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["-p", "c51"], "policy.type"),
        (["-p", "ppo", "-m", "serial_onpolicy", "pipeline.num_threads=1", "--profile"],
         "--profile"),
        (["-p", "ppo", "policy.model.rnn=lstm", "policy.collect.unroll_len=8"],
         "policy.model.rnn"),
        (["-p", "ppo", "policy.model.activation=elu"], "policy.model.activation"),
        (["-p", "ppo", "policy.learn.recompute_adv=true"], "policy.learn.recompute_adv"),
        (["-p", "dqn", "pipeline.async_mode=true"], "pipeline.async_mode"),
        (["-p", "dqn", "policy.learn.compile=true"], "policy.learn.compile"),
        (["-p", "dqn", "policy.model.noisy=true"], "policy.model.noisy"),
        (["-p", "dqn", "policy.reward_model=rnd"], "policy.reward_model"),
        (["-e", "pendulum", "-p", "sac", "policy.model.critic_layer_norm=true"],
         "policy.model.critic_layer_norm"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_together_is_one_error_before_any_folder(
    words: list[str], path: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train("-e", "cartpole", *words, "--no-preset", "-n", "64", *TOGETHER) == 2
    said = capfd.readouterr().err
    assert path in said
    assert "leave out --together" in said
    assert not list(here.iterdir())


def test_one_process_or_several(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(*PPO, "-n", "64", *TOGETHER, "--jobs", "2") == 2
    assert "leave out --together or --jobs" in capfd.readouterr().err
    assert not list(here.iterdir())


def test_one_seed_may_be_trained_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    alone = training.alone
    monkeypatch.setattr(
        "dicore_tools.together.series.alone", lambda mode, ask: asked.append(1) or alone(mode, ask)
    )
    assert train(*PPO, "-n", "64", "-s", "3", "--together", "--exp-name", "one") == 0
    assert asked, "its own learn mode makes the updates"
    assert read("one/seed_3/run.json")["status"] == "done"
