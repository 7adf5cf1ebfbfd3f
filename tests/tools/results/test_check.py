"""`dicore benchmark --check`: short trainings beside recorded intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_tools.multi_seed.process_pool import SeedRun
from dicore_tools.results import check, expected
from dicore_tools.results.expected import compared, measures, read_expected, recorded
from dicore_tools.results.plan import Plan, read_plan
from dicore_tools.results.records import Record

TABLE = """
seeds = [0, 1, 2]
n_episode = 2
check_metrics = ["collector/reward_mean"]
[[row]]
env = "cartpole"
policy = "ppo"
max_env_step = 512
overrides = ["env.stop_value=inf", "env.evaluator_env_num=2", "pipeline.logger=[]"]
"""

OFFLINE = """
[[row]]
env = "cartpole"
policy = "discrete_cql"
overrides = ["pipeline.type=serial_offline", "pipeline.dataset.type=npz",
             "pipeline.dataset.path={path}"]
"""


class InTurn:
    """Trains one run after the other in this process."""

    started: list[int]

    def __init__(self, jobs: int) -> None: ...

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, requests: Any) -> Any:
        for request in requests:
            self.started.append(request.seed)
            yield request, SeedRun.of(request.seed, launch(request))


@pytest.fixture
def gate(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of one row; its code is a name that tests change."""
    monkeypatch.setattr("dicore_tools.results.training.ProcessPool", InTurn)
    monkeypatch.setattr(check, "installed_code", lambda: "code")
    InTurn.started = []
    file = here / "gate.toml"
    file.write_text(TABLE)
    return file


def record(plan: Plan, seed: int, **values: Any) -> Record:
    row = plan.rows[0]
    return Record(**{
        "row": row.name, "settings": plan.settings(row), "env": "cartpole", "policy": "ppo",
        "seed": seed, "stop": False, "env_step": 512, "train_iter": 1, "wall_s": 1.0,
        "returns": (9.0,), "last_returns": (20.0,), "curve": ((0, 5.0), (256, 10.0), (512, 20.0)),
        "logged": {"collector/reward_mean": 0.5}, **values,
    })  # fmt: skip


def test_a_check_passes_fails_and_continues(
    gate: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["benchmark", str(gate), "--check"]
    assert main(words) == 2
    assert "record the intervals: --check --record" in capfd.readouterr().err
    assert main([*words, "--record"]) == 0
    assert InTurn.started == [0, 1, 2]
    file = gate.with_suffix(".expected.json")
    found = json.loads(file.read_text())["cartpole_ppo"]
    assert list(found["measures"]) == ["curve", "last", "collector/reward_mean"]
    capfd.readouterr()

    assert main([*words, "-q"]) == 0
    assert InTurn.started == [0, 1, 2], "runs of the same code are not trained again"
    assert capfd.readouterr().out == "1 row, 3 measures: all within\n"

    monkeypatch.setattr(check, "installed_code", lambda: "changed")
    found["measures"]["last"].update(low=600.0, high=700.0)
    file.write_text(json.dumps({"cartpole_ppo": found}))
    assert main([*words, "-q"]) == 1
    assert InTurn.started == [0, 1, 2, 0, 1], "runs of changed code are"
    out = capfd.readouterr().out.splitlines()
    assert out[0].split() == ["ROW", "MEASURE", "FOUND", "LOW", "HIGH"]
    assert out[1].split()[:2] == ["cartpole_ppo", "last"]
    assert out[1].split()[3:] == ["600", "700"]
    assert out[2] == "1 row, 3 measures: 1 of 1 row outside"


@pytest.mark.parametrize(
    "change", [("512", "1024"), ("pipeline.logger=[]", "policy.discount_factor=0.9"),
               ('["collector/reward_mean"]', "[]"), ("[0, 1, 2]", "[3, 1, 2]")], ids=str,
)  # fmt: skip
def test_intervals_of_other_options_are_refused(
    gate: Path, change: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    plan = read_plan(gate)
    found = recorded(plan, plan.rows, [record(plan, seed) for seed in range(3)])
    expected.write_expected(gate.with_suffix(".expected.json"), found)
    gate.write_text(TABLE.replace(*change))
    assert main(["benchmark", str(gate), "--check"]) == 2
    err = capfd.readouterr().err
    assert "no intervals for the present options of cartpole_ppo" in err
    assert "--check --record --only cartpole_ppo" in err
    assert not InTurn.started


@pytest.mark.parametrize(
    "change", [lambda all_: all_.clear(), lambda all_: all_.pop("last"),
               lambda all_: all_.pop("collector/reward_mean"),
               lambda all_: all_.update(more=all_["last"]),
               lambda all_: all_["last"].update(low=-float("inf"), high=float("inf")),
               lambda all_: all_["last"].update(low=float("nan")),
               lambda all_: all_["last"].update(low=2.0, high=1.0)],
    ids=["none", "no last", "no metric", "one more", "infinite", "nan", "empty"],
)  # fmt: skip
def test_measures_that_are_missing_or_have_no_bounds_are_refused(
    gate: Path, change: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """Else nothing would be compared, and the check passed."""
    plan, file = read_plan(gate), gate.with_suffix(".expected.json")
    found = recorded(plan, plan.rows, [record(plan, seed) for seed in range(3)])
    expected.write_expected(file, found)
    content = json.loads(file.read_text())
    change(content["cartpole_ppo"]["measures"])
    file.write_text(json.dumps(content))
    assert main(["benchmark", str(gate), "--check"]) == 2
    err = capfd.readouterr().err
    assert "not one finite interval for each measure of cartpole_ppo" in err
    assert "record these rows again: --check --record --only cartpole_ppo" in err
    assert not InTurn.started


@pytest.mark.parametrize("name", ["data.npz", "data/part.npz"])
def test_records_of_another_data_set_do_not_count(gate: Path, name: str) -> None:
    """A file, or a folder of files: the same content has the same records, another has others."""
    data = gate.parent / name
    data.parent.mkdir(exist_ok=True)
    data.write_bytes(b"one")
    named = Path(name).parts[0]
    gate.write_text(OFFLINE.format(path=named))
    plan = read_plan(gate)

    def records() -> Path:
        return check.Gate(plan, plan.rows, gate.with_suffix(".json"), gate.parent).file.path

    first = records()
    data.write_bytes(b"two")
    assert records() != first
    data.write_bytes(b"one")
    assert records() == first


def test_an_interval_holds_for_the_mean_of_the_checked_seeds(gate: Path) -> None:
    """4 s (1/3 + 1/2)^0.5 = 3.65 s with s = 2; equal seeds have 1 % of their mean."""
    plan = read_plan(gate)
    lasts = [(18.0,), (20.0,), (22.0,)]
    records = [record(plan, seed, last_returns=last) for seed, last in enumerate(lasts)]
    found = recorded(plan, plan.rows, records)["cartpole_ppo"].measures
    assert found["last"].mean == 20.0
    assert found["last"].high - 20.0 == pytest.approx(7.303, abs=1e-3)
    assert found["curve"].mean == 15.0, "without the evaluation before the first update"
    assert (found["curve"].low, found["curve"].high) == (14.85, 15.15)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_or_missing_is_outside(gate: Path, value: float) -> None:
    plan = read_plan(gate)
    whole = [record(plan, seed) for seed in range(3)]
    intervals = recorded(plan, plan.rows, whole)
    odd = record(plan, 1, logged={"collector/reward_mean": value})
    outside = [each.measure for each in compared(plan.rows, intervals, [whole[0], odd])
               if each.outside]  # fmt: skip
    assert outside == ["collector/reward_mean"]
    assert all(each.outside for each in compared(plan.rows, intervals, whole[:1])), "seed 1 failed"
    assert not any(each.outside for each in compared(plan.rows, intervals, whole[:2]))
    with pytest.raises(UsageError, match="row cartpole_ppo: collector/reward_mean was"):
        recorded(plan, plan.rows, [*whole, odd])


def test_an_interval_needs_three_seeds(gate: Path) -> None:
    plan = read_plan(gate)
    with pytest.raises(UsageError, match="needs 3 seeds, there are 2"):
        recorded(plan, plan.rows, [record(plan, 0), record(plan, 1)])


def test_a_run_without_evaluations_has_no_curve(gate: Path) -> None:
    found = measures(record(read_plan(gate), 0, curve=(), last_returns=()))
    assert all(found[name] != found[name] for name in ("curve", "last"))


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"x": 1}', '{"x": {"options": {}, "seeds": "a"}}', "\xff"], ids=str
)
def test_a_broken_file_of_intervals_is_one_error(here: Path, text: str) -> None:
    (here / "x.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="not a file of expected intervals"):
        read_expected(here / "x.json")


@pytest.mark.parametrize("word", ["--report", "--list", "-o=x.md"])
def test_options_of_the_page_are_refused(
    gate: Path, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(gate), "--check", *word.split("=")]) == 2
    assert "cannot be used with --check" in capfd.readouterr().err
    assert main(["benchmark", str(gate), "--record"]) == 2
    assert "--record needs --check" in capfd.readouterr().err


def test_the_code_is_what_is_installed(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """A changed source of any package with components changes it; other files do not."""
    (here / "strangers").mkdir()
    source = here / "strangers" / "__init__.py"
    source.write_text("ONE = 1")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr(check, "_packages", lambda: {"strangers", "not_there"})
    first = check.installed_code()
    (here / "strangers" / "notes.txt").write_text("x")
    assert check.installed_code() == first
    source.write_text("ONE = 2")
    assert check.installed_code() != first
    monkeypatch.undo()
    assert {"dicore", "dicore_plugins", "dicore_tools"} <= check._packages()
