"""What a plan concludes from measurements, which are made up here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.run.launch import TrainRequest, compile_request
from dicore_tools.commands import config
from dicore_tools.commands.output import rate_text
from dicore_tools.planning import planner
from dicore_tools.planning.planner import Plan, make_plan
from dicore_tools.planning.trial import Trial

CONFIG = "cartpole_dqn"


def trial(changes: Mapping[str, Any] | None = None, rate: float = 100.0, **seconds: float) -> Trial:
    parts = {"environments": 1.0, "acting": 1.0, "learning": 8.0, "other": 0.0, **seconds}
    whole = sum(parts.values())
    counts = int(rate * whole), int(rate * whole / 2)
    return Trial(changes or {}, whole, *counts, parts, (300 << 20, 40 << 20), 50.0)


class Measured:
    """Takes the place of `measure`: rates by changes, and what was asked for.

    Args:
        rates: Speed by changes, as JSON; 1 for all others.
        seconds: Seconds of the parts.
    """

    def __init__(self, rates: Mapping[str, float] | None = None, **seconds: float) -> None:
        self.rates, self.seconds = rates or {}, seconds
        self.asked: list[Mapping[str, Any]] = []
        self.requests: list[TrainRequest] = []

    def __call__(self, request: TrainRequest, changes: Mapping[str, Any], **_: Any) -> Trial:
        self.asked.append(changes)
        self.requests.append(request)
        rate = 100 * self.rates.get(json.dumps(dict(changes)), 1.0)
        return trial(changes, rate, **self.seconds)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(config, "check_request", lambda request: "")  # it builds the environment


def planned(monkeypatch: pytest.MonkeyPatch, measured: Measured, **given: Any) -> Plan:
    monkeypatch.setattr(planner, "measure", measured)
    return make_plan(TrainRequest(config=CONFIG, **given), seconds=1.0)[0]


def test_threads_are_tried_where_learning_takes_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(environments=0.1, acting=0.1)
    plan = planned(monkeypatch, measured)
    assert measured.asked == [{}, {"pipeline.num_threads": 2}]
    assert plan.bottleneck == "learning"
    assert plan.best is None  # as fast


def test_environments_and_managers_are_tried_where_they_take_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = Measured({'{"env.collector_env_num": 32}': 2.0}, environments=9.0, learning=0.5)
    plan = planned(monkeypatch, measured)
    paths = [list(each) for each in measured.asked[:5]]
    assert paths == [
        [], ["env.collector_env_num"], ["env.collector_env_num"], ["env.manager.type"],
        ["env.manager.type", "env.collector_env_num"],
    ]  # fmt: skip
    assert plan.bottleneck == "environments"
    assert plan.best is not None
    assert plan.best.changes == {"env.collector_env_num": 32}
    assert plan.speedup(plan.best) == 2.0


def test_environments_are_as_many_as_share_out_the_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 32 of them, half of 16 samples would be dropped, and half of the updates with them."""
    measured = Measured(environments=9.0, learning=0.5)
    planned(monkeypatch, measured, overrides=["policy.collect.n_sample=16"])
    tried = [each["env.collector_env_num"] for each in measured.asked if len(each) == 1
             and "env.collector_env_num" in each]  # fmt: skip
    assert tried == [16]


def test_what_seems_to_help_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Passing(Measured):
        """The first measurement of more threads was lucky."""

        def __call__(
            self, request: TrainRequest, changes: Mapping[str, Any], **given: Any
        ) -> Trial:
            trial = super().__call__(request, changes, **given)
            self.rates = {} if changes else self.rates
            return trial

    rates = {'{"pipeline.num_threads": 2}': 1.2}
    measured = Passing(rates, environments=0.1, acting=0.1)
    plan = planned(monkeypatch, measured)
    threads = {"pipeline.num_threads": 2}
    assert measured.asked == [{}, threads, {}, threads]
    assert plan.speedup(plan.trials[1]) == pytest.approx(1.1, abs=0.01)
    assert plan.best is None
    again = planned(monkeypatch, Measured(rates, environments=0.1, acting=0.1))
    assert again.best is not None


def test_what_is_slower_in_the_second_pair_is_not_recommended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A lucky first measurement is not outweighed: 2.0 and then 0.9 times as fast."""

    class Lucky(Measured):
        def __call__(
            self, request: TrainRequest, changes: Mapping[str, Any], **given: Any
        ) -> Trial:
            trial = super().__call__(request, changes, **given)
            number = {'{"env.collector_env_num": 32}': 0.9}
            self.rates = {**self.rates, **number} if "32" in str(changes) else self.rates
            return trial

    rates = {'{"env.collector_env_num": 32}': 2.0, '{"env.collector_env_num": 16}': 1.3}
    measured = Lucky(rates, environments=9.0, learning=0.5)
    plan = planned(monkeypatch, measured)
    first = next(each for each in plan.trials if each.changes == {"env.collector_env_num": 32})
    assert first.refuted
    assert plan.speedup(first) >= 1.15
    assert plan.best is not None
    assert plan.best.changes == {"env.collector_env_num": 16}  # the next best, measured twice
    assert measured.asked[5:] == [{}, first.changes, {}, plan.best.changes]


def test_what_is_recommended_was_measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best is slower the second time, and then another one looks best."""

    class Slower(Measured):
        def __call__(
            self, request: TrainRequest, changes: Mapping[str, Any], **given: Any
        ) -> Trial:
            trial = super().__call__(request, changes, **given)
            if "32" in str(changes):
                self.rates = {**self.rates, '{"env.collector_env_num": 32}': 1.1}
            return trial

    rates = {'{"env.collector_env_num": 32}': 1.6, '{"env.collector_env_num": 16}': 1.5}
    measured = Slower(rates, environments=9.0, learning=0.5)
    plan = planned(monkeypatch, measured)
    assert plan.best is not None
    assert plan.best.changes == {"env.collector_env_num": 16}
    assert measured.asked.count(plan.best.changes) == 2


def test_what_cannot_be_measured_again_is_not_recommended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Measured):
        def __call__(
            self, request: TrainRequest, changes: Mapping[str, Any], **given: Any
        ) -> Trial:
            trial = super().__call__(request, changes, **given)
            again = changes and self.asked.count(changes) > 1
            return replace(trial, problem="out of memory") if again else trial

    measured = Failing({'{"pipeline.num_threads": 2}': 2.0}, environments=0.1, acting=0.1)
    plan = planned(monkeypatch, measured)
    assert plan.best is None
    assert plan.trials[1].problem == ""


@pytest.mark.parametrize(("busy", "warns"), [(90.0, True), (20.0, False)])
def test_other_work_on_the_cores_is_told(
    busy: float, warns: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planner, "measure", Measured())
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: busy)
    assert main(["plan", CONFIG]) == 0
    assert ("other work uses 90 % of the cores" in capsys.readouterr().err) == warns


def test_collectors_are_tried_on_more_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    measured = Measured()
    planned(monkeypatch, measured)
    assert measured.asked[-1] == {"pipeline.system.collector_num": 3}
    assert measured.requests[-1].mode == "parallel"
    assert measured.requests[0].mode is None


def test_a_measurement_has_no_evaluation_and_a_short_warm_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = Measured()
    planned(monkeypatch, measured)
    compiled = compile_request(measured.requests[0])
    assert compiled.policy.eval.evaluator.eval_freq == 10**12
    assert compiled.policy.collect.random_collect_size == 128
    assert compiled.pipeline.logger == ()
    assert not compiled.pipeline.final_eval


def test_time_to_the_budget_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, Measured(), max_env_step=50_000)
    assert plan.seconds_of(plan.base) == 500
    assert plan.buffer_bytes == 50 * 50_000
    assert planned(monkeypatch, Measured()).seconds_of(plan.base) is None


def test_nothing_is_compared_with_what_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fails(request: TrainRequest, changes: Mapping[str, Any], **_: Any) -> Trial:
        asked.append(changes)
        return Trial(changes, problem="out of memory")

    monkeypatch.setattr(planner, "measure", fails)
    plan, code = make_plan(TrainRequest(config=CONFIG), seconds=1.0)
    assert (plan.base.problem, code, asked) == ("out of memory", 0, [{}])


def test_the_command_prints_figures_and_what_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured({'{"pipeline.num_threads": 2}': 1.5}, environments=0.1, acting=0.1)
    monkeypatch.setattr(planner, "measure", measured)
    assert main(["plan", CONFIG, "-n", "1e6"]) == 0
    out = capsys.readouterr().out
    assert "100 env steps/s, 50 updates/s" in out
    assert "bottleneck: learning" in out
    assert "300 MiB in the training, 40 MiB in 1 worker" in out
    assert "1,000,000 env steps in 2.8 h" in out
    assert "helps:      pipeline.num_threads=2 (1.50 times as fast, measured twice)" in out


def test_small_rates_have_digits_and_measurements_are_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = replace(trial(), env_steps=23, updates=1)
    monkeypatch.setattr(planner, "measure", lambda *_, **__: slow)
    assert main(["plan", CONFIG, "--no-changes", "--seconds", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("measuring the config as it is: 2 s from its first step on\nmeasured")
    assert "2.3 env steps/s, 0.1 updates/s" in out
    assert [rate_text(each) for each in (0, 0.0523, 9.94, 9.96, 1234.5)] == [
        "0", "0.052", "9.9", "10", "1,234",
    ]  # fmt: skip


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_signal_before_all_was_measured_is_told(
    after: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped(Measured):
        def __call__(
            self, request: TrainRequest, changes: Mapping[str, Any], **given: Any
        ) -> Trial:
            if len(self.asked) == after:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().__call__(request, changes, **given)

    measured = Stopped(
        {'{"env.collector_env_num": 32}': 2.0}, environments=1, acting=8.0, learning=0.5
    )
    monkeypatch.setattr(planner, "measure", measured)
    assert main(["plan", CONFIG]) == 143
    out = capsys.readouterr().out
    assert "none of the changes" not in out
    assert "measured twice" not in out
    assert (
        "may help:   env.collector_env_num=32 (2.00 times as fast, measured once; stopped)" in out
    ) == (after >= 3)
    both = ["env.collector_env_num=16", "env.collector_env_num=32"]
    left = "; ".join(both[after - 1 :])
    assert (f"stopped; not measured: {left}\n" in out) == bool(left)


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(planner, "measure", Measured())
    assert main(["plan", CONFIG, "--json", "--no-changes"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == 1
    assert found["best"] is None
    (base,) = found["trials"]
    assert base["env_steps_per_s"] == 100
    assert base["shares"]["learning"] == 0.8
    page = (Path(__file__).parents[3] / "docs/howto/plan.md").read_text()
    assert [each for each in (*found, *base) if f"`{each}`" not in page] == []


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_copy_of_the_config_has_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str
) -> None:
    measured = Measured({'{"pipeline.num_threads": 2}': 1.5}, environments=0.1, acting=0.1)
    monkeypatch.setattr(planner, "measure", measured)
    file = tmp_path / f"faster.{suffix}"
    overrides = ["policy.learn.batch_size=32"]
    assert main(["plan", CONFIG, *overrides, "--apply", str(file)]) == 0
    compiled = compile_request(TrainRequest(config=str(file)))
    assert compiled.pipeline.num_threads == 2
    assert compiled.policy.learn.batch_size == 32
    assert compiled.policy.eval.evaluator.eval_freq == 512  # not that of the measurement
    assert main(["plan", CONFIG, "--apply", str(file)]) == 2  # it exists


def test_no_copy_is_written_if_nothing_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planner, "measure", Measured())
    file = tmp_path / "same.yaml"
    assert main(["plan", CONFIG, "--apply", str(file)]) == 0
    assert not file.exists()
    assert "nothing to change" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([CONFIG, "policy.learn.bach_size=3"], "batch_size"),
        (["no_such_preset"], "no_such_preset"),
        ([CONFIG, "--apply", "config.txt"], "not a .yaml or .json file"),
        ([CONFIG, "other.yaml"], "expected one config"),
    ],
)
def test_bad_input_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], error: str,
) -> None:  # fmt: skip
    measured = Measured()
    monkeypatch.setattr(planner, "measure", measured)
    assert main(["plan", *words]) == 2
    assert error in capsys.readouterr().err
    assert measured.asked == []
