"""What a repetition did not write is found: checkpoints, the result, and the config files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.run import RunFolder
from dicore.run.launch import launch
from dicore_tools.repetition import changed_checkpoint, changed_config_file, changed_result
from tests.tools.test_verify import SMALL


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, its repetition `again`, and `other` of another seed."""
    folder = tmp_path_factory.mktemp("trained")
    for name, seed in (("run", 0), ("again", 0), ("other", 1)):
        launch(SMALL, exp_name=str(folder / name), max_env_step=200, seed=seed)
    return folder


@pytest.fixture
def folders(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def pair(folders: Path) -> tuple[RunFolder, RunFolder]:
    return RunFolder(folders / "run"), RunFolder(folders / "again")


def test_the_files_that_are_equal_are_told(folders: Path) -> None:
    problem, files = changed_checkpoint(*pair(folders))
    names = {each.split("/")[1] for each in files}
    assert (problem, names) == ("", {each.name for each in (folders / "run" / "ckpt").iterdir()})
    assert {"best", "final"} < names, "and a periodic one"
    both = ["total_config.py", "formatted_total_config.py"]
    assert changed_config_file(*pair(folders)) == ("", both)


@pytest.mark.parametrize("pattern", ["best", "final", "iteration_*"])
def test_a_checkpoint_of_another_run_is_found(folders: Path, pattern: str) -> None:
    (mine,) = (folders / "run" / "ckpt").glob(pattern)
    (other,) = (folders / "other" / "ckpt").glob(pattern)
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    problem, files = changed_checkpoint(*pair(folders))
    assert problem.startswith(f"checkpoint '{mine.name}': learner.policy")
    assert not any(each.startswith(f"ckpt/{mine.name}/") for each in files)


def test_a_checkpoint_that_the_repetition_lacks_is_found(folders: Path) -> None:
    ckpt = folders / "run" / "ckpt"
    shutil.copytree(ckpt / "final", ckpt / "iteration_9")
    problem, _ = changed_checkpoint(*pair(folders))
    assert problem == "checkpoint 'iteration_9': the repeated training has none of this name"
    problem, files = changed_checkpoint(*pair(folders), resumed=True)
    assert problem == ""
    assert not any("iteration_9/" in each for each in files), "so it is not signed"


def test_a_forged_result_is_found_and_other_times_are_not() -> None:
    one = {"seed": 0, "result": {"best_return": 9.5, "wall_s": 1.0, "cpu_s": 1.0}}
    two = {"seed": 0, "result": {"best_return": 9.5, "wall_s": 2.0, "cpu_s": 3.0}}
    assert changed_result(one, two) == ""
    forged = {**one, "result": {**one["result"], "best_return": 500.0}}
    assert changed_result(forged, two) == "run.json: best_return was 500.0, is 9.5"
    assert changed_result({**one, "seed": 1}, two) == "run.json: seed was 1, is 0"
    assert changed_result({"seed": 0}, two) == "run.json: best_return was None, is 9.5"


def test_a_run_that_was_resumed_with_another_budget_keeps_its_first_one(folders: Path) -> None:
    for file in folders.glob("run/*total_config.py"):
        text = file.read_text()
        file.write_text(re.sub(r"(max_env_step\W+)\w+", r"\g<1>12345", text))
        assert file.read_text() != text
    assert changed_config_file(*pair(folders))[0].startswith("total_config.py: not what")
    assert changed_config_file(*pair(folders), resumed=True)[0] == ""
    file = folders / "run" / "formatted_total_config.py"
    file.write_text(file.read_text().replace("batch_size=8", "batch_size=9"))
    assert changed_config_file(*pair(folders), resumed=True)[0].startswith(file.name)


CHANGES: dict[str, Callable[[str], str]] = {
    "an option": lambda text: text.replace("'batch_size': 8", "'batch_size': 9"),
    "code": lambda text: f"{text}import os\n",
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_replaced_config_file_is_found(folders: Path, change: str) -> None:
    file = folders / "run" / "total_config.py"
    file.write_text(CHANGES[change](file.read_text()))
    problem, files = changed_config_file(*pair(folders))
    assert (problem, files) == ("total_config.py: not what the repeated training writes", [])


def test_config_files_of_another_version_are_left_out(folders: Path) -> None:
    file = folders / "run" / "config.json"
    file.write_text(file.read_text().replace('"dicore": "', '"dicore": "9', 1))
    assert changed_config_file(*pair(folders)) == ("", [])
