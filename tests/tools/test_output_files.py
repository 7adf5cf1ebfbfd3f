"""Commands that write a file make the folders that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("torch")

from dicore.cli import main

COMMANDS = (
    "catalogue command --out",
    "config schema --out",
    "config show cartpole_dqn -o",
    "diagnose RUN --plot",
    "export RUN -o",
    "plot RUN -o",
    "replay RUN --at 1 -o",
    "report RUN -o",
    "schema list -o",
)
SUFFIXES = {"config show": ".yaml", "export": ".ts", "plot": ".svg", "replay": ".npz"}


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_folders_are_made(
    command: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suffix = next((SUFFIXES[name] for name in SUFFIXES if command.startswith(name)), ".out")
    words = command.replace("RUN", str(trained)).split()
    assert main([*words, f"a/b/file{suffix}"]) == 0
    assert Path(f"a/b/file{suffix}").stat().st_size > 0
    Path("c").touch()  # not a folder
    assert main([*words, f"c/b/file{suffix}"]) == 2
