"""Where an output goes is checked before the work whose result it takes."""

from __future__ import annotations

import errno
import importlib
import os
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("torch")

from dicore import Agent
from dicore.cli import main
from dicore.errors import UsageError
from dicore_tools.output_place import check_place

T, EXPORT = "dicore_tools", "dicore_plugins.export"
WORK = {
    "benchmark PLAN -o OUT.md": f"{T}.results.training.train_missing",
    "catalogue command --out OUT": f"{T}.commands.catalogue.page",
    "check dicore-contrib-envs --badge": f"{T}.plugin_index.badge.write_badge",
    "collect RUN -o OUT": f"{T}.demo_dataset.collected",
    "collect RUN -o OUT.npz": f"{T}.demo_dataset.collected",
    "config schema --out OUT": f"{T}.commands.config_schema.config_schema",
    "diagnose RUN --plot OUT.html": f"{T}.diagnosis.evidence.read_evidence",
    "enjoy RUN --show video -o OUT": f"{T}.evaluation.video.frame_of",
    "eval RUN --replay-path OUT": f"{T}.evaluation.video.frame_of",
    "export RUN -o OUT.ts": f"{EXPORT}.policy.greedy_module",
    "hub push RUN OUT": f"{T}.hub.transfer.files_of",
    "import-weights x.pt --run RUN --suggest OUT.yaml": f"{EXPORT}.import_weights.suggested_table",
    "index -o OUT": f"{T}.plugin_index.package.installed",
    "migrate CONFIG -o OUT.yaml": "dicore_compat.migrate.convert.migrate",
    "plan cartpole_dqn --apply OUT.yaml": f"{T}.planning.planner.make_plan",
    "plot RUN -o OUT.svg": f"{T}.reports.curves.find_runs",
    "replay RUN --at 1 -o OUT.npz": f"{T}.commands.replay.replay",
    "report RUN -o OUT.html": f"{T}.reports.run_data.read_runs",
    "verify RUN --keep OUT": f"{T}.commands.verify.verify",
}
"""Commands, and what none of them reaches."""


class _Full:
    """A file on a disk that takes new files, and no content."""

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("command", WORK)
def test_nothing_is_begun_if_the_disk_is_full(
    command: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("imageio_ffmpeg")

    def begun(*_: object, **__: object) -> None:
        raise AssertionError("the work was begun")

    module, _, name = WORK[command].rpartition(".")
    monkeypatch.setattr(importlib.import_module(module), name, begun)
    monkeypatch.setattr(tempfile, "TemporaryFile", _Full)
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text("[[row]]\nenv = 'cartpole'\npolicy = 'dqn'\n")
    Path("config.py").write_text("main_config = create_config = {}\n")
    words = command.replace("RUN", str(trained)).replace("OUT", "new/place")
    words = words.replace("PLAN", "plan.toml").replace("CONFIG", "config.py")
    assert main(words.split()) == 2
    error = capfd.readouterr().err.splitlines()[-2]
    assert "cannot write " in error
    assert error.endswith(": No space left on device")
    assert not Path("new").exists()


def test_an_agent_looks_before_it_collects(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    agent = Agent.from_run(trained)
    for path in ("file/demo", "file/demo.npz"):
        with pytest.raises(UsageError, match="is not a folder"):
            agent.collect_data(10**9, tmp_path / path)
    with pytest.raises(UsageError, match="contains other data"):
        agent.collect_data(10**9, tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        agent.deploy(video=tmp_path / "file/a.mp4")


@pytest.mark.parametrize(
    ("out", "folder", "why"),
    [
        ("file/a", False, "is not a folder"),
        ("file/a/b", True, "is not a folder"),
        ("file", True, "it is a file"),
        ("folder", False, "it is a folder"),
        ("n" * 300, False, "name too long"),
    ],
)
def test_a_place_that_cannot_be_written(
    out: str, folder: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    with pytest.raises(UsageError, match=f"(?i)^-o: cannot write {out}: .*{why}"):
        check_place(out, option="-o", folder=folder)


def test_a_place_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    Path("folder").mkdir()
    for out, folder in (("file", False), ("folder", True), ("a/b", False), ("a/b", True)):
        check_place(out, folder=folder)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "folder"]
    assert Path("file").read_text() == "kept"


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no devices by name")
def test_a_device_is_written_but_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in ("/dev/stdout", "/dev/null", pipe):
        check_place(place, devices=True)
        with pytest.raises(UsageError, match="device or a pipe"):
            check_place(place)
