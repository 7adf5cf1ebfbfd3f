"""`dicore enjoy`: seen or not, nothing changes in the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.run.launch import launch
from dicore_tools.evaluation.evaluate import evaluate
from dicore_tools.evaluation.play import as_text, play
from dicore_tools.evaluation.policy_loader import find_policy
from tests.tools.conftest import mtimes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "x"
    launch(env="cartpole", policy="dqn", seed=5, exp_name=str(folder), max_env_step=200,
           overrides=["pipeline.logger=[]"])  # fmt: skip
    return folder


def said(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main(["enjoy", *words]) == code
    return capfd.readouterr()


def test_a_trained_policy_plays_and_its_run_is_unchanged(
    run: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = mtimes(run)
    played = play(find_policy(run, seed=3), n_episode=2)
    wanted = evaluate(run, seed=3, n_episode=2, overrides=["env.evaluator_env_num=1"])
    assert played.returns == wanted.returns
    out = said(capfd, str(run), "--show", "video", "-o", str(tmp_path / "film"), "-s", "3").out
    [film] = (tmp_path / "film").glob("*.mp4")
    assert f"video: {film}" in out
    assert mtimes(run) == before


def test_a_folder_with_an_equals_sign_is_a_run(
    run: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "lr=0.1")
    assert "5 env steps" in said(capfd, "lr=0.1", "--show", "none", "--steps", "5").out
    for command in ("eval", "config show"):
        assert main([*command.split(), "lr=0.1"]) == 0
    assert main(["eval", "lr=0.1", "env.stop_value=7", "-n", "1"]) == 0


def test_a_video_of_half_an_episode_is_missed(
    run: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--show", "video", "-o", str(tmp_path / "film"), "--steps", "1")
    assert "no video: no episode ended within 1 env step" in said(capfd, str(run), *words).out


def test_frames_are_drawn_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    out = said(capfd, "cartpole", "--show", "text", "--steps", "3", "--delay", "0").out
    frames = [part for part in out.split("\n\n") if part.count("\n") > 10]
    assert len(frames) >= 4
    assert max(len(line) for line in out.splitlines()) <= 79
    assert "0 episodes, 3 env steps" in out
    out = said(capfd, "frozenlake", "--show", "text", "--steps", "1", "--delay", "0").out
    assert "SFFF" in out.replace("\x1b[41mS\x1b[0m", "S")  # the environment's own text


@pytest.mark.parametrize("policy", ["random", "none"])
def test_an_environment_is_played_without_a_policy_of_its_own(
    policy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("gymnasium:Acrobot-v1", "-p", policy, "--show", "none", "--steps", "5")
    assert "0 episodes, 5 env steps" in said(capfd, *words).out


def test_failing_environments_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--all", "--include", "c*", "--include", "frozen*", "--exclude", "car_*")
    more = ("--show", "none", "--steps", "20", "gymnasium:Nothing-v0")
    out = said(capfd, *words, *more, code=1).out
    assert "cartpole: " in out
    assert "frozenlake: " in out, "only a training needs its stop value"
    assert "car_racing" not in out
    assert "gymnasium:Nothing-v0: failed: " in out
    assert ", 1 failed" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "no run or environment given"),
        (("--include", "x"), "--all"),
        (("--all", "--include", "no*such"), "no installed environment matches"),
        (("cartpol", "--show", "none"), "cartpole"),
        (("cartpole", "--load-path", "best"), "no run is given"),
        (("cartpole", "-p", "dqn", "--show", "none"), "has to learn first"),
        (("cartpole", "--show", "none", "--delay", "nan"), "a delay of nan s"),
    ],
)
def test_mistakes_are_named(
    words: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert text in said(capfd, *words, code=2).err


def test_pictures_fit_the_terminal() -> None:
    frame = np.zeros((400, 600, 3), np.uint8)
    frame[:, 300:] = 255
    lines = as_text(frame, 79, 22, colour=False).split("\n")
    assert len(lines) <= 22
    assert all(len(line) <= 79 for line in lines)
    assert (lines[0][0], lines[0][-1]) == (" ", "@")
    assert "\x1b[38;2;255;255;255m" in as_text(frame, 79, 22, colour=True)


def test_without_a_display_it_says_that_nothing_is_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_tools.commands.enjoy._place_to_show", lambda: "none")
    text = "nothing is shown; --show video"
    assert text in said(capfd, "cartpole", "--steps", "3").out
    assert text not in said(capfd, "cartpole", "--steps", "3", "--show", "none").out
    assert text not in said(capfd, "cartpole", "--steps", "3", "--json").out
