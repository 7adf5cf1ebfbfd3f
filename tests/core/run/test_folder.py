"""The folder of a run: making it, opening it, and the lock of the one process that trains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dicore.errors import RunLockedError, UsageError
from dicore.run.folder import Exist, RunFolder, RunLock, default_name, process_info

HOLD = """
import sys, time, json, pathlib
from dicore.run.folder import RunLock, process_info
folder = pathlib.Path(sys.argv[1])
(folder / "run.json").write_text(json.dumps(process_info()))
lock = RunLock(folder)
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunLockedError, match=f"process {holder.pid} on ") as caught:
            RunLock(tmp_path)
        assert caught.value.context["pid"] == holder.pid
        assert "--exp-name" in caught.value.hint
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    RunLock(tmp_path).release()


def test_two_runs_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    first = RunLock(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunLockedError, match="another process"):
        RunLock(tmp_path)
    first.release()
    second = RunLock(tmp_path)
    first.release()
    with pytest.raises(RunLockedError):
        RunLock(tmp_path)
    second.release()
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_a_holder_is_told_by_process_and_host() -> None:
    assert process_info()["pid"] == os.getpid()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        RunLock(tmp_path)


# ---- what stands there already


def a_run(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "ckpt").mkdir()
    (folder / "ckpt" / "best").write_text("x")
    return folder


def test_a_new_run_takes_a_sibling(tmp_path: Path) -> None:
    a_run(tmp_path / "x")
    assert RunFolder.prepare(tmp_path / "x").path == tmp_path / "x-1"
    assert RunFolder.prepare(tmp_path / "y", "error").path == tmp_path / "y"


def test_error_refuses_and_says_what_else(tmp_path: Path) -> None:
    a_run(tmp_path / "x")
    with pytest.raises(UsageError, match="already exists") as caught:
        RunFolder.prepare(tmp_path / "x", "error")
    assert "overwrite" in caught.value.hint


def test_overwrite_empties_runs_and_nothing_else(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    (folder / "link").symlink_to(outside)
    assert RunFolder.prepare(folder, "overwrite").path == folder
    assert {each.name for each in folder.iterdir()} <= {".lock"}
    assert (outside / "kept").is_file()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="not a run folder"):
        RunFolder.prepare(precious, "overwrite")
    assert (precious / "thesis.tex").is_file()


@pytest.mark.parametrize("exist", ["error", "resume", "overwrite"])
@pytest.mark.parametrize("left", [[], [".lock"], [".lock", ".config.json.77.tmp"]])
def test_what_a_killed_start_left_is_used_as_if_new(
    tmp_path: Path, exist: Exist, left: list[str]
) -> None:
    """R-C14: killed after mkdir and before `config.json` was there."""
    (tmp_path / "x").mkdir()
    for name in left:
        (tmp_path / "x" / name).touch()
    folder = RunFolder.prepare(tmp_path / "x", exist)
    assert folder.path == tmp_path / "x"
    assert [each.name for each in folder.path.iterdir()] == [".lock"]
    with pytest.raises(RunLockedError):  # the next one finds it taken, not empty
        RunFolder.prepare(tmp_path / "x", exist)
    folder.unlock()


def test_hidden_files_of_others_are_never_deleted(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".bashrc").touch()
    for exist in ("overwrite", "resume", "error"):
        with pytest.raises(UsageError, match="not a run folder"):
            RunFolder.prepare(tmp_path, exist)
    assert {each.name for each in tmp_path.iterdir()} == {".ssh", ".bashrc"}


def test_a_run_that_is_going_on_is_not_overwritten(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "x")
    lock = RunLock(folder)
    (folder / "run.json").write_text(json.dumps(process_info()))
    with pytest.raises(RunLockedError):
        RunFolder.prepare(folder, "overwrite")
    assert (folder / "ckpt" / "best").is_file()
    lock.release()


def test_an_existing_folder_gets_a_numbered_sibling(tmp_path: Path) -> None:
    paths = [RunFolder.prepare(tmp_path / "a b é" / "x").path.name for _ in range(3)]
    assert paths == ["x", "x-1", "x-2"]


def test_processes_that_start_together_get_folders_of_their_own(tmp_path: Path) -> None:
    """R-F06."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: RunFolder.prepare(tmp_path / "x").path, range(16)))
    assert len(set(made)) == 16


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"not a folder|Not a directory") as error:
        RunFolder.prepare(tmp_path / "file" / "x")
    assert "--exp-name" in str(error.value)
    with pytest.raises(UsageError, match="cannot make"):
        RunFolder.prepare(tmp_path / ("x" * 300))


def test_opening_something_else_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        RunFolder.open(tmp_path / "x")
    with pytest.raises(UsageError, match=r"no config\.json"):
        RunFolder.open(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/x").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        RunFolder.open("x")
    assert caught.value.hint == f"it may be {Path('runs/x')}"


@pytest.mark.parametrize(
    ("env", "policy", "name"),
    [
        ("cartpole", "dqn", "runs/cartpole_dqn_s0"),
        ("CartPole-v1", "acme-rl/dqn", "runs/CartPole-v1_dqn_s0"),
        ("./my envs.py:Env", "pkg.mod:Policy", "runs/Env_Policy_s0"),
        ("envs/my_env.py", "ppo", "runs/my_env_ppo_s0"),
        ("../..", "", "runs/unnamed_unnamed_s0"),
    ],
)
def test_the_default_name_has_no_surprises_in_it(env: str, policy: str, name: str) -> None:
    assert default_name(env, policy, 0) == name
