"""`dicore diagnose` on a run, and the table of rules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dicore.cli import main
from dicore.run.folder import RunFolder
from dicore_registry import Registry, using
from dicore_tools.commands.diagnose import _plain
from dicore_tools.diagnosis.evidence import Evidence, evidence_of
from dicore_tools.diagnosis.finding import Change, Finding, MissingEvidenceError
from dicore_tools.diagnosis.table import KIND, ORDER, diagnose, installed_rules
from dicore_tools.reports.run_data import read_run
from tests.registry.world import World
from tests.tools.conftest import mtimes
from tests.tools.diagnosis.conftest import Recorded
from tests.tools.reports.test_report import Page


def test_causes_come_first_and_what_is_missing_is_named(recorded: Recorded) -> None:
    def fault(run: Evidence) -> Finding | None:
        return Finding("fault", "cause", ())

    def nothing(run: Evidence) -> Finding | None:
        return None

    def missing(run: Evidence) -> Finding | None:
        raise MissingEvidenceError("no buffer")

    rules = {"one": fault, "nothing": nothing, "missing": missing, "two": fault}
    found = diagnose(recorded(), rules)
    assert [each.rule for each in found.findings] == ["one", "two"]
    assert found.not_checked == {"missing": "no buffer"}


def test_rules_are_ordered_by_cause_and_those_of_others_follow() -> None:
    registry = Registry()
    with using(registry):

        @registry.register(KIND.name, "a_rule_of_others")
        def rule(run: Evidence) -> Finding | None:
            return None

        assert [*installed_rules()] == [*ORDER, "a_rule_of_others"]


def test_a_rule_that_cannot_be_imported_is_named(recorded: Recorded, world: World) -> None:
    world.add("acme", {KIND.group: {"broken": "acme_rules:broken"}})
    with using(world.registry()):
        found = diagnose(recorded())
    assert "broken" in found.not_checked


def test_the_beginning_of_a_training_is_no_fault(recorded: Recorded) -> None:
    """While it goes on, without a budget, nobody knows how long it will be."""
    weight = np.full((32, 16), 0.1)
    moments = {0: {"step": 600, "exp_avg": weight, "exp_avg_sq": weight**2}}
    policy = {
        "model": {"w": weight}, "target_model": {"w": weight + 1},
        "optimizer": {"state": moments, "param_groups": [{"lr": 1e-6}]},
    }  # fmt: skip
    eps = "policy.other.eps"
    options = {
        f"{eps}.type": "linear", f"{eps}.start": 1.0, f"{eps}.end": 0.1, f"{eps}.decay": 10**6,
        "policy.collect.random_collect_size": 1_000, "policy.learn.target_update_freq": 10_000,
    }  # fmt: skip
    state = {"learner": {"policy": policy}}
    ended = diagnose(recorded(options, {}, state, 1_600, 600)).findings
    assert {each.rule for each in ended} == {
        "hardly_any_updates", "exploration_goes_on", "frozen_target", "learning_rate_low",
    }  # fmt: skip
    assert diagnose(recorded(options, {}, state, 1_600, 600, goes_on=True)).findings == []


def test_no_rule_fails_on_a_run_without_anything(recorded: Recorded) -> None:
    found = diagnose(recorded())
    assert found.findings == []
    assert found.not_checked.keys() <= {*ORDER}


def test_every_rule_is_explained() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/diagnose.md").read_text()
    assert [name for name in ORDER if f"`{name}`" not in page] == []


def test_the_command_changes_nothing_and_prints_json(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = mtimes(run)
    assert main(["diagnose", str(run), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert mtimes(run) == before
    assert facts["format"] == 1
    assert (facts["run"], facts["env_step"]) == (str(run), 16)
    first = facts["findings"][0]  # a budget of 16 env steps is less than the warm-up
    assert first["rule"] == "hardly_any_updates"
    assert first["change"][0]["option"] == "policy.collect.random_collect_size"
    assert first["change"][0]["value"] == first["numbers"]["random_collect_size"]
    assert "kl_spikes" in facts["not_checked"]


def test_numbers_that_json_does_not_have_are_null() -> None:
    change = Change("policy.learn.max_grad_norm", "lower it", float("inf"))
    found = _plain(Finding("all", "of it", (change,), {"norm": float("nan"), "share": 0.5}))
    assert found["change"][0]["value"] is None
    assert found["numbers"] == {"norm": None, "share": 0.5}


def test_findings_have_evidence_cause_and_option(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = run / "log" / "metrics.jsonl"
    line = {
        "step": 16, "train_iter": 2, "time": 1.0, "collector/reward_min": 0.0,
        "collector/reward_max": 0.0, "collector/total_episode_count": 20.0,
    }  # fmt: skip
    metrics.write_text(json.dumps(line) + "\n")
    assert main(["diagnose", str(run), "--check", "--all"]) == 1
    out = capsys.readouterr().out
    assert "1. every episode of training has the return 0   [constant_rewards]" in out
    assert "evidence: episodes 20, return 0" in out
    assert "change:   env.env_wrapper" in out
    assert "kl_spikes: learner/approx_kl" in out


def test_a_folder_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_left_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in run.glob("ckpt/*/manifest.json"):
        file.write_text("{")
    assert main(["diagnose", str(run), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["not_checked"]["observation_scale"] == "the run has no valid checkpoint"


def test_columns_of_parts_are_not_read(recorded: Recorded) -> None:
    obs = {"image": np.zeros((4, 2)), "vector": np.zeros((4, 2))}
    run = recorded(state={"buffer": {"columns": {"obs": obs}}, "collector_env": {"running": []}})
    with pytest.raises(MissingEvidenceError):
        _ = run.observations


def test_files_of_another_form_are_told_apart(recorded: Recorded) -> None:
    odd = {
        "policy.discount_factor": "half", "policy.learn.target_theta": "x", "env.env_wrapper": 3,
        "policy.action_low": 1, "policy.other.eps.decay": True, "policy.nstep": "many",
    }  # fmt: skip
    curves = dict.fromkeys(
        ("collector/reward_min", "collector/reward_max", "learner/entropy"), [0.0] * 12
    )
    curves["collector/total_episode_count"] = [99.0]
    for state in ({"learner": {"policy": {"optimizer": {"state": {0: 1}}}}}, {"buffer": 1}):
        found = diagnose(recorded(odd, curves, state))
        assert "of another form" in found.not_checked["constant_rewards"]


def test_the_report_shows_findings_and_their_curves(run: Path, tmp_path: Path) -> None:
    metrics = run / "log" / "metrics.jsonl"
    line = {
        "collector/reward_min": 0.0, "collector/reward_max": 0.0, "collector/reward_mean": 0.0,
        "collector/total_episode_count": 20.0,
    }  # fmt: skip
    rows = [{"step": step, "train_iter": 2, "time": 1.0, **line} for step in (8, 16)]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["diagnose", str(run), "--plot", str(tmp_path / "why.html")]) == 0
    page = (tmp_path / "why.html").read_text()
    assert Page(page).open == []
    assert "What may be wrong" in page
    assert "constant_rewards" in page
    assert "<details><summary>collector/reward_mean</summary><figure><svg" in page


def test_a_page_that_cannot_be_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").touch()
    assert main(["diagnose", str(run), "--plot", str(tmp_path / "none" / "why.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_large_checkpoint_is_left_out_of_pages(run: Path) -> None:
    data = read_run(RunFolder(run))
    with pytest.raises(MissingEvidenceError, match="no valid checkpoint"):
        _ = evidence_of(data, most_bytes=1).state
    assert evidence_of(data).state


def test_a_full_buffer_is_read_from_its_oldest_sample(recorded: Recorded) -> None:
    buffer = {"columns": {"reward": np.array([4, 5, 2, 3])}, "cursor": 2, "push_count": 6}
    assert recorded(state={"buffer": buffer}).column("reward").tolist() == [2, 3, 4, 5]
    buffer |= {"cursor": 0, "push_count": 4}
    assert recorded(state={"buffer": buffer}).column("reward").tolist() == [4, 5, 2, 3]


def test_values_that_are_not_finite_are_shown(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No rule and no curve has them."""
    copy = shutil.copytree(run, tmp_path / "copy")
    assert main(["diagnose", str(copy)]) == 0
    assert "not finite, and left out" not in capsys.readouterr().out
    with (copy / "log/metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "train_iter": 9, "time": 9, "learner/x": "NaN"}\n' * 3)
    page = tmp_path / "why.html"
    assert main(["diagnose", str(copy), "--plot", str(page)]) == 0
    told = "values that are not finite, and left out: learner/x 3"
    assert told in capsys.readouterr().out
    assert told in page.read_text()
    assert main(["diagnose", str(copy), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_finite"] == {"learner/x": 3}
