"""`--profile`: where the time of a training goes, and that looking changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from dicore.errors import NonFiniteError
from dicore.run.launch import launch
from dicore_plugins.optimizers.flat_adam import FlatAdam
from tests.conformance.test_all import SMALL

FEW = ("pipeline.logger=[]", "pipeline.max_env_step=96", "env.stop_value=inf")


def train(place: Path, *, profile: bool, **more: Any) -> Any:
    return launch(SMALL, exp_name=str(place), overrides=FEW, profile=profile, **more)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("profile") / "run", profile=True)


def rows_of(outcome: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    document = json.loads((outcome.run.folder.log / "profile.json").read_text())
    return {tuple(row["path"]): row for row in document["rows"]}


def test_each_middleware_and_the_inside_of_the_learner_are_told(profiled: Any) -> None:
    rows = rows_of(profiled)
    updates = profiled.run.result.train_iter
    learner = ("OffPolicyLearner", "learner")
    assert rows[learner]["calls"] == updates > 0
    inside = {
        path[3:]: row["calls"] for path, row in rows.items() if path[:3] == (*learner, "update")
    }
    assert inside == {
        (): updates, ("backward",): updates, ("optimizer",): updates,
        ("forward and loss",): updates,
    }  # fmt: skip
    for path in (
        ("StepCollector", "env step"), ("OffPolicyLearner", "sample"), ("data_pusher.push", "push"),
        (*learner, "hook log_show_after_iter"), ("outside of middleware",),
    ):  # fmt: skip
        assert path in rows


def test_the_times_add_up(profiled: Any) -> None:
    document = json.loads((profiled.run.folder.log / "profile.json").read_text())
    rows = rows_of(profiled)
    outer = sum(row["seconds"] for path, row in rows.items() if len(path) == 1)
    assert outer == pytest.approx(document["wall_s"], rel=1e-3, abs=1e-4)
    assert document["wall_s"] >= profiled.run.result.wall_s
    for path, row in rows.items():
        inner = [each["seconds"] for other, each in rows.items() if other[:-1] == path]
        assert sum(inner) <= row["seconds"] + 1e-5
        assert all(each >= 0 for each in inner)
    text = (profiled.run.folder.log / "profile.txt").read_text().splitlines()
    assert len(text) == len(rows) + 1


def test_what_was_timed_is_left_as_it_was(profiled: Any) -> None:
    assert torch.Tensor.backward.__module__ == "torch._tensor"
    assert FlatAdam.step.__qualname__ == "FlatAdam.step"
    for part in profiled.run.parts.values():
        assert not {"train", "sample_batch", "step", "eval"} & set(vars(part))
    from dicore_plugins.learners.base.profile import TimedHook

    hooks = profiled.run.parts["learner"].hooks
    assert not any(isinstance(hook, TimedHook) for each in hooks.values() for hook in each)


def test_a_training_is_the_same_with_and_without(profiled: Any, tmp_path: Path) -> None:
    plain = train(tmp_path / "run", profile=False)
    assert not (plain.run.folder.log / "profile.json").exists()
    one, other = (each.policy.learn_mode.state_dict()["model"] for each in (plain, profiled))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_failed_training_leaves_a_profile_and_nothing_patched(tmp_path: Path) -> None:
    class Failing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
            if torch.is_grad_enabled():
                raise NonFiniteError("planted")
            return {"logit": self.layer(obs)}

    with pytest.raises(NonFiniteError, match="planted"):
        train(tmp_path / "run", profile=True, model=Failing())
    rows = json.loads((tmp_path / "run" / "log" / "profile.json").read_text())["rows"]
    assert ["OffPolicyLearner"] in [row["path"] for row in rows]
    assert torch.Tensor.backward.__module__ == "torch._tensor"


def test_the_command_shows_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore.cli.train import command

    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    words = ["small.json", "--profile", "--exp-name", "x", *FEW]
    told = CliRunner().invoke(command, words, catch_exceptions=False).stdout.splitlines()
    (start,) = (number for number, line in enumerate(told) if line.startswith("what "))
    table = (tmp_path / "x" / "log" / "profile.txt").read_text().splitlines()
    assert told[start : start + len(table)] == table
