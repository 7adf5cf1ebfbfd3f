"""Pictures of components: pipelines and presets as graphs, environments as frames."""

from __future__ import annotations

import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.task import task
from dicore_tools.pictures.draw import png
from dicore_tools.pictures.graph import graph_svg
from dicore_tools.pictures.middleware import Stage, stages_of


def test_show_draws_the_middleware_of_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "pipeline/serial_onpolicy", "--graph"]) == 0
    assert "StepCollector → " in capfd.readouterr().out
    root = ET.fromstring((tmp_path / "serial_onpolicy.svg").read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"StepCollector", "train_iter", "writes"} <= set(texts)
    assert not task.running
    assert [path.name for path in tmp_path.iterdir()] == ["serial_onpolicy.svg"]


@pytest.mark.parametrize("name", ["pipeline/serial_offline", "preset/cartpole_ppo"])
def test_the_stages_are_those_of_a_real_training(name: str) -> None:
    stages = {stage.name: stage for stage in stages_of(name)}
    assert stages["termination_checker.check"].reads
    assert any("train_iter" in stage.writes for stage in stages.values())
    assert any(stage.summary for stage in stages.values())


def test_every_pipeline_has_a_picture_with_its_middleware() -> None:
    """After a change of a pipeline: `python -m docs.generate.pictures`."""
    from docs.generate.pictures import PIPELINES, names

    drawn = set(names("pipeline")) - {"dist", "league"}  # whose roles, or players, have their own
    assert {path.stem for path in PIPELINES.glob("*.svg")} == drawn
    for name in ("serial", "serial_dyna", "serial_offline", "serial_sqil"):
        text = (PIPELINES / f"{name}.svg").read_text(encoding="utf-8")
        assert [s.name for s in stages_of(f"pipeline/{name}") if f">{s.name}" not in text] == []


def test_names_are_escaped_and_one_stage_is_enough() -> None:
    text = graph_svg("a<b", [Stage("x&y", "does 'it'", (), ("<field>",), (), True)])
    assert "&lt;field&gt;" in text
    ET.fromstring(text)


def test_show_renders_a_frame_of_an_environment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pole.png"
    assert main(["show", "env/cartpole", "--frame", str(file)]) == 0
    assert "observations Box(" in capfd.readouterr().out
    import matplotlib.image

    picture = matplotlib.image.imread(file)
    assert picture.shape == (400, 600, 3)
    assert picture.min() < 0.5 < picture.max()


def test_a_png_holds_every_pixel() -> None:
    frame = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    data = png(frame)
    packed = data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(5, 22)
    assert (rows[:, 1:].reshape(5, 7, 3) == frame).all()
    assert not rows[:, 0].any()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("buffer/naive", "--graph"), "has no picture"),
        (("pipeline/serial", "--graph", "x.png"), "is a file .svg"),
        (("pipeline/nothing", "--graph"), "nothing"),
        (("env/nothing", "--frame"), "nothing"),
        (("env/recorded", "--frame"), "its path and format must be set"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    words: tuple[str, ...], text: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["show", *words]) == 2
    assert text in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
