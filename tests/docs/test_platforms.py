"""Windows and macOS: which modules and calls the code may use, and names of files."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PureWindowsPath

import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError, UsageError
from dicore.run.folder import default_name
from dicore_plugins.env_managers.subprocess.config import SyncSubprocessConfig

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("dicore", "registry", "plugins", "contrib_envs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "/templates/" not in path.as_posix() and "build" not in path.relative_to(ROOT).parts
]
POSIX = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
PROCESSES = "plugins/dicore_plugins/env_managers/subprocess/"
"""Worker processes, which a config refuses on Windows."""
LINUX = ("/distributed/", "/testing/env_manager/")
"""Ray, and the checks of worker processes."""


IMPORT = re.compile(rf"^(?:import|from) (?:{'|'.join(POSIX)})\b", re.MULTILINE)
QUESTION = re.compile(r"os\.kill\([^()\n]*, 0\)")
"""It interrupts the process on Windows; psutil.pid_exists only asks."""


def test_code_runs_on_windows_outside_of_worker_processes() -> None:
    assert len(SOURCES) > 400
    imports, questions = [], []
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if IMPORT.search(text) and not name.startswith(PROCESSES):
            imports.append(name)
        if QUESTION.search(text) and not any(part in name for part in LINUX):
            questions.append(name)
    assert imports == []
    assert questions == []
    assert IMPORT.search("import os\nfrom pwd import getpwnam")
    assert not IMPORT.search("    import fcntl\nimport pwdlib")
    assert QUESTION.search("os.kill(self.pid, 0)")


def test_worker_processes_are_refused_where_there_are_no_process_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(UsageError, match="need Linux or macOS"):
        SyncSubprocessConfig().build(None, env_fn=[])


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("C:\\own\\maze.py:Maze", "Maze_dqn_s0"),
        ("./own/maze.py:Maze", "Maze_dqn_s0"),
        ("ALE/Pong-v5", "Pong-v5_dqn_s0"),
        ('a<b>"c|d?e*f', "a_b_c_d_e_f_dqn_s0"),
        ("gymnasium:my.package:Maze-v0", "Maze-v0_dqn_s0"),
    ],
)
def test_a_run_folder_has_a_name_that_windows_takes(env: str, name: str) -> None:
    path = PureWindowsPath(default_name(env, "dqn", 0))
    assert path.parts == ("runs", name)
    assert not set('<>:"|?*\\') & set("".join(path.parts))


def test_a_file_of_windows_is_no_provider_of_environments() -> None:
    with pytest.raises(ConfigError, match=r"no file 'C:\\own\\maze\.py'"):
        compile_config({"env": "C:\\own\\maze.py:Maze", "policy": "dqn"})
