"""Algorithms written against public names alone: they train by name, resume and stay short."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_contrib_envs")

from dicore.testing import isolated_registry
from tests.plugins.policies.resuming import same_after_resume

PACKAGE = "tests.plugins.policies.strangers"
FOLDER = Path(__file__).parent / "strangers"
FILES = sorted(FOLDER.glob("[a-z]*.py"))
PPO = [
    "policy.learn.batch_size=64",
    "policy.learn.epoch_per_collect=2",
    "policy.collect.n_sample=128",
]
SAC = ["policy.learn.batch_size=16", "policy.model.critic_hidden_size_list=[16]"]
DQN = ["policy.learn.batch_size=16", "policy.model.encoder_hidden_size_list=[16]"]
TRAINED = {
    "spo": ("cartpole", PPO, 512),
    "dropq": ("pendulum", [*SAC, "policy.collect.random_collect_size=80"], 160),
    "miqn": ("cartpole", DQN, 240),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_foreign_algorithm_is_short_and_needs_public_names_only(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dicore"):
            module = importlib.import_module(str(node.module))
            assert str(node.module).count(".") <= 1
            for name in (each.name for each in node.names):
                assert name in getattr(module, "__all__", vars(module)), f"{node.module}.{name}"


@pytest.mark.parametrize("name", TRAINED)
def test_a_foreign_algorithm_trains_by_name_and_resumes(name: str, tmp_path: Path) -> None:
    env, options, steps = TRAINED[name]
    with isolated_registry("dicore-plugins", "dicore-contrib-envs"):
        importlib.reload(importlib.import_module(f"{PACKAGE}.{name}"))  # registers its names here
        one, two = same_after_resume(name, env, options, tmp_path, steps)
    assert one.keys() == two.keys()
    assert all(bool((one[key] == two[key]).all()) for key in one)
