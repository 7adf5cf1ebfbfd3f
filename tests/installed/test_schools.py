"""A foreign package of algorithms of all schools, written against the documented names alone."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path

import pytest

from tests.installed.conftest import InstalledWheels, Shell
from tests.installed.wheels import SCHOOLS
from tests.soak import SOAK

FILES = sorted((SCHOOLS / "schools_rl").glob("*.py"))
CHECKED = ("policy/school_r2d2",)
"""Of its components; all of them in a soak."""
FAST = ["env.n_evaluator_episode=1", "env.evaluator_env_num=1", "pipeline.logger=[]"]
TRAINED = {
    "school_ppo": ["-e", "cartpole", "--max-env-step", "2048"],
    "school_sac": ["-e", "pendulum", "--max-env-step", "300", "policy.model.hidden=[16]"],
    "school_r2d2": ["-e", "recall", "--max-env-step", "600"],
    "reinforce": ["-e", "cartpole", "--max-train-iter", "3"],
}


@pytest.fixture
def schools(installed: InstalledWheels, tmp_path: Path) -> Shell:
    return Shell(installed.schools, tmp_path)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_imports_public_names_only(file: Path) -> None:
    """What is imported of dicore is in `__all__` of its module, if that has one."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("dicore"):
            continue
        module = importlib.import_module(str(node.module))
        depth = str(node.module).count(".")
        assert depth <= 1 or str(node.module).startswith("dicore.interfaces."), node.module
        for name in (each.name for each in node.names):
            assert name in getattr(module, "__all__", vars(module)), f"{node.module}.{name}"


@pytest.mark.installed
class TestInstalled:
    @pytest.mark.parametrize("name", TRAINED)
    def test_it_trains_by_name(self, name: str, schools: Shell) -> None:
        done = schools.dicore("train", "-p", name, *TRAINED[name], *FAST, "--exp-name", "run")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        record = json.loads((schools.folder / "run" / "run.json").read_text())
        assert record["components"]["policy"]["dist"] == "schools-rl"
        assert record["result"]["train_iter"] > 0

    def test_it_imitates_what_was_collected(self, schools: Shell) -> None:
        words = ["train", "-e", "cartpole", "-p", "dqn", "--max-env-step", "600", *FAST]
        assert schools.dicore(*words, "--exp-name", "expert").returncode == 0
        done = schools.dicore("collect", "expert", "-n", "500", "-o", "samples")
        assert done.returncode == 0, done.stderr
        words = ["-e", "cartpole", "-p", "cloning", "--max-train-iter", "50", *FAST]
        words += ["pipeline.dataset.type=recorded", "pipeline.dataset.path=samples"]
        done = schools.dicore("train", *words, "--exp-name", "run")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout

    @pytest.mark.parametrize(
        "name", ["targets", "memory", "prioritized", pytest.param("resume", marks=pytest.mark.soak)]
    )
    def test_its_own_tests_pass(self, name: str, schools: Shell) -> None:
        file = SCHOOLS / "tests" / f"test_{name}.py"
        words = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", str(file)]
        done = schools.run("-m", "pytest", *words, timeout=280)
        assert done.returncode == 0, done.stdout[-3000:]

    @pytest.mark.timeout(600)
    def test_it_passes_its_suites(self, schools: Shell) -> None:
        for what in ("schools-rl",) if SOAK else CHECKED:
            done = schools.dicore("check", what, timeout=580)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr
