"""Exported policies: they select the actions of the policy, without dicore."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Discrete

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_plugins.export.formats import FORMATS
from dicore_plugins.export.greedy_module import greedy_module
from dicore_plugins.export.policy import export_policy
from dicore_plugins.policies.random import RandomPolicy

POLICIES = {
    "discrete": ("cartpole", "dqn", ()),
    "distribution": ("cartpole", "c51", ("policy.model.noisy=true",)),
    "actor": ("cartpole", "ppo", ("policy.model.obs_norm=true",)),
    "gaussian": ("pendulum", "ppo", ()),
    "squashed": ("pendulum", "sac", ("policy.collect.random_collect_size=32",)),
    "categories": ("frozenlake", "dqn", ()),
    "dict": ("bit_flip", "dqn", ()),
    "image": ("mini_breakout", "dqn", ("env.env_wrapper=obs_transpose", "policy.model.conv=small")),
}
SUFFIXES = {name: [".ts"] for name in POLICIES}
SUFFIXES["discrete"] = [".ts", ".pt2", ".onnx"]


def train(folder: Path, env: str, policy: str, options: tuple[str, ...]) -> Path:
    launch(
        env=env, policy=policy, seed=0, exp_name=str(folder), max_env_step=64,
        overrides=["pipeline.logger=[]", "env.stop_value=inf", "policy.collect.n_sample=32",
                   "env.n_evaluator_episode=1", "env.evaluator_env_num=1", *options],
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("name", POLICIES)
def test_the_file_selects_the_actions_of_the_policy(name: str, tmp_path: Path) -> None:
    env, policy, options = POLICIES[name]
    run = train(tmp_path / "run", env, policy, options)
    for suffix in SUFFIXES[name]:
        done = export_policy(run, tmp_path / f"policy{suffix}")
        assert done.steps == 256
        assert done.largest_difference <= 1e-5
        if name == "discrete":
            run_page(done.readme)


def run_page(readme: Path) -> None:
    """Runs the lines of the page where dicore cannot be imported."""
    usage = re.search(r"```python\n(.*)```", readme.read_text(), re.DOTALL)
    assert usage is not None
    blocked = "import sys\nsys.modules.update(dicore=None, dicore_plugins=None)\n"
    shown = subprocess.run(
        [sys.executable, "-c", blocked + usage[1]],
        cwd=readme.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert shown.stdout.startswith("[")


def test_what_cannot_be_exported_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path), "-o", "policy.h5"]) == 2
    assert ".onnx, .pt2, .ts" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no network"):
        greedy_module(RandomPolicy(action_space=Discrete(2)))


def test_a_file_that_acts_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(tmp_path / "run", "cartpole", "dqn", ())
    form = FORMATS[".ts"]

    def load(file: Path) -> Any:
        right = form.load(file)
        return lambda obs: 1 - right(obs)

    monkeypatch.setattr("dicore_plugins.export.policy.FORMATS", {".ts": form._replace(load=load)})
    file = tmp_path / "policy.ts"
    file.write_text("the last one that was right")
    with pytest.raises(UsageError, match="256 of 256 actions differ"):
        export_policy(run, file)
    assert file.read_text() == "the last one that was right"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["policy.ts", "run"]
