"""Secrets of a config in no error, log or file, wherever an exception shows them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dicore.cli import main
from dicore.config import compile_config
from dicore.console import formatter, hide, without_secrets
from dicore.errors import EnvCreateError
from dicore.run.env_factory import spec_of
from dicore.run.launch import launch

ENV = """import gymnasium as gym
class Login(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)
    def __init__(self, password: str = "", settings: dict = {}, fails: str = "made"):
        self.told = f"cannot log in with {password} and {settings}"
        if fails == "made":
            raise ValueError(self.told)
    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}
    def step(self, action):
        raise RuntimeError(self.told)
"""
SECRETS = ["env.password=hunter2222", 'env.settings={"api_token": "tok-abcdef", "host": "h"}']
SMALL = ["env.n_evaluator_episode=1", "env.evaluator_env_num=1", "env.collector_env_num=1",
         "env.stop_value=9"]  # fmt: skip


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login.py").write_text(ENV)
    return "./login.py:Login"


def clean(text: str) -> bool:
    return "hunter2222" not in text and "tok-abcdef" not in text


@pytest.mark.parametrize("manager", ["base", "sync_subprocess"])
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_a_constructor_that_shows_its_arguments(
    login: str, manager: str, debug: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "-e", login, "-p", "dqn", *SECRETS, *SMALL, f"env.manager={manager}"]
    assert main([*debug, *words]) != 0
    said = capfd.readouterr()
    assert "cannot log in with <redacted> and {'api_token': '<redacted>', 'host'" in said.err
    assert clean(said.err + said.out)


def test_the_exception_of_a_call(login: str) -> None:
    overrides = [*SECRETS, *SMALL, "env.manager=sync_subprocess"]
    compiled = compile_config(overrides=[f"env.type={login}", "policy=dqn", *overrides])
    with pytest.raises(EnvCreateError, match="cannot log in with <redacted>") as caught:
        spec_of(compiled.env, 0)
    assert clean(str(caught.value) + str(caught.value.__cause__))


@pytest.mark.filterwarnings("ignore:.*not saved, as a secret")
def test_the_files_of_a_run(login: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="cannot log in"):
        launch(
            env=login, policy="dqn", exp_name="run", argv=["train", *SECRETS],
            overrides=[*SECRETS, *SMALL, "env.fails=step", "env.manager=sync_subprocess"],
        )  # fmt: skip
    texts = [
        file.read_text(errors="replace")
        for file in (tmp_path / "run").rglob("*.*")
        if file.is_file()
    ]
    assert any("cannot log in" in text for text in texts)
    assert all(map(clean, texts))


def test_what_gymnasium_says_of_an_environment(capfd: pytest.CaptureFixture[str]) -> None:
    secret = 'env.make_kwargs={"auth_token": "tok-abcdef"}'
    assert main(["train", "-e", "CartPole-v1", "-p", "dqn", secret, *SMALL]) == 2
    said = capfd.readouterr().err
    assert "auth_token" in said
    assert clean(said)


def test_log_records_and_short_words() -> None:
    hide("tok-abcdef")
    hide("a")
    record = logging.LogRecord("x", 30, "f", 1, "a token %s", ("tok-abcdef",), None)
    assert formatter("%(message)s").format(record) == "a token <redacted>"
    assert without_secrets("a cat") == "a cat"
