"""Secrets are never written or said (RELIABILITY E10); `${env:NAME}` is saved as it was written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config import bind, write_config
from dicore.config.redact import REDACTED, escaped, is_secret, redact_text, resolve
from dicore.config.writer import JSON, fingerprint, saved_tree
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.run.metadata import redact_word
from dicore_tools.config_formats.python_form import FORMATTED, TOTAL
from tests.core.config.conftest import least, problems_of

pytestmark = pytest.mark.filterwarnings("ignore:.*not saved, as a secret")

HUSH = "hush-4711"


def learning(**learn: Any) -> dict[str, Any]:
    return {**least(), "policy": {"type": "toy", "learn": learn}}


def holding(**free: Any) -> dict[str, Any]:
    return learning(free=free)


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("token", True),
        ("a.b.api_key", True),
        ("apikey", True),
        ("wandb_token", True),
        ("password", True),
        ("user-password", True),
        ("passwords[3]", True),
        ("Secret", True),
        ("client_secret", True),
        ("credentials", True),
        ("key", True),
        ("Authorization", True),
        ("clientSecret", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("monkey", False),
        ("token_count", False),
        ("keys", False),
        ("learn.secretary", False),
        ("secret.name", False),
    ],
)
def test_which_keys_are_secret(key: str, secret: bool) -> None:
    assert is_secret(key) is secret


def test_no_saved_form_holds_one(build: Any, tmp_path: Path) -> None:
    compiled = build(holding(token=HUSH, deep={"passwords": [HUSH, 3], "user": "me", "key": None}))
    assert compiled.policy.learn.free["token"] == HUSH
    write_config(compiled, tmp_path)
    for form in (JSON, TOTAL, FORMATTED):
        assert HUSH not in (tmp_path / form).read_text()
    free = saved_tree(compiled)["policy"]["learn"]["free"]
    assert free["token"] == REDACTED
    assert free["deep"] == {"x": 1, "passwords": [REDACTED, 3], "user": "me", "key": None}
    other = build(
        holding(token="other", deep={"passwords": ["else", 3], "user": "me", "key": None})
    )
    assert fingerprint(compiled) == fingerprint(other)


CREDENTIALS = [
    f"https://me:{HUSH}@host/x",
    f"https://{HUSH}{HUSH}@host",
    f"https://host/x?a=1&token={HUSH}#x",
    f"Authorization: Basic {HUSH}",
    f"bearer {HUSH}",
    f"https://me:{HUSH}@${{env:HOST}}",
]


@pytest.mark.parametrize("text", CREDENTIALS)
def test_credentials_in_texts_are_left_out(
    text: str, build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E10: URLs and headers under keys of any name, in files, errors and command lines."""
    monkeypatch.setenv("HOST", "h")
    write_config(build(holding(url=[text])), tmp_path)
    for form in (JSON, TOTAL, FORMATTED):
        assert HUSH not in (tmp_path / form).read_text()
    (problem,) = problems_of(build, tmp_path / JSON)
    assert problem.startswith("policy.learn.free.url[0]: was <redacted> when it was saved")
    (problem,) = problems_of(build, learning(batch_size=text.replace("${env:HOST}", "h")))
    assert HUSH not in problem
    for word in (text, f"a.url={text}", f"a.urls=[{text}]", json.dumps({"url": text})):
        assert HUSH not in redact_word(word)


@pytest.mark.parametrize(
    "text",
    ["https://git@host/x?page=2", "https://me:${env:PW}@h?token=${env:T}", "a bearer", "x=Bearer"],
)
def test_texts_without_credentials_stay(text: str) -> None:
    assert redact_text(text) == text


def test_what_was_left_out_must_be_given_again(build: Any, tmp_path: Path) -> None:
    write_config(build(holding(token=HUSH)), tmp_path)
    (problem,) = problems_of(build, tmp_path / JSON)
    assert problem.startswith(
        f"policy.learn.free.token: was {REDACTED} when it was saved; give it again, best as"
    )
    again = build(tmp_path / JSON, overrides=[f"policy.learn.free.token={HUSH}"])
    assert again.policy.learn.free["token"] == HUSH


def test_a_compiled_config_compiles_again_in_the_open(build: Any) -> None:
    compiled = build(holding(token=HUSH))
    assert build(compiled).cfg == compiled.cfg


def test_no_error_says_one(build: Any) -> None:
    main = {**least(), "policy": {"type": "vault", "model": {"token": 4711, "pin_key": HUSH}}}
    with pytest.raises(ConfigError) as caught:
        build(
            [main, {"model": {"token": 4712}}],
            overrides=["policy.model.password='" + HUSH, '{"policy.model.secret": "' + HUSH],
        )
    assert HUSH not in str(caught.value)
    assert "471" not in str(caught.value)
    told = "\n".join(caught.value.problems)
    assert f"policy.model.token: expected str, got {REDACTED}" in told
    assert "policy.model.token: is given twice and differs" in told
    assert "policy.model.pin_key: is not accepted" in told
    assert "policy.model.password: cannot read it" in told


def test_an_option_may_say_that_it_is_none(build: Any) -> None:
    main = {**least(), "policy": {"type": "vault", "model": {"obs_key": "pixels", "salt": HUSH}}}
    model = saved_tree(build(main))["policy"]["model"]
    assert (model["obs_key"], model["salt"]) == ("pixels", REDACTED)


def test_command_lines_lose_theirs() -> None:
    words = [
        "dicore",
        "train",
        f"a.token={HUSH}",
        "a.token=${env:T}",
        f'a.b={{"password": "{HUSH}", "n": 1}}',
        f"a.b=[{{password: {HUSH}}}]",
        "--cpanel",
        json.dumps({"api_key": HUSH, "lr": 0.1, "more": [{"secret": HUSH}]}),
        "policy.learn.batch_size=3",
        "{broken",
    ]
    shown = [redact_word(word) for word in words]
    assert HUSH not in " ".join(shown)
    assert shown[2:4] == [f"a.token={REDACTED}", "a.token=${env:T}"]
    assert json.loads(shown[7])["lr"] == 0.1
    assert shown[8:] == words[8:]


# ---- references, looked up when the config is compiled


def test_a_variable_is_read_when_the_config_is_compiled(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "1e-2")
    monkeypatch.setenv("WIDTH", "12")
    monkeypatch.setenv("NAME", "true")
    main = learning(
        learning_rate="${env:RATE}",
        batch_size="${env:WIDTH}",
        target="${env:KIND}",
        free={"deep": ["runs/${env:NAME}", ("${env:WIDTH}",)], "whole": "${env:NAME}"},
    )
    monkeypatch.setenv("KIND", "momentum")
    learn = build({**main, "exp_name": "${env:NAME}"}).policy.learn
    assert (learn.learning_rate, learn.batch_size, learn.target) == (0.01, 12, "momentum")
    assert learn.free["deep"] == ["runs/true", ("12",)]
    assert learn.free["whole"] == "true"  # text where text is welcome


def test_the_saved_forms_keep_the_reference(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TEST", "hush-hush")
    free = {"api_key": "${env:SECRET_OF_THE_TEST}", "list": [1, "x-${env:SECRET_OF_THE_TEST}-y"]}
    compiled = bind(build(learning(free=free)), EnvSpec(4, "discrete"))
    assert compiled.policy.learn.free["api_key"] == "hush-hush"
    write_config(compiled, tmp_path)
    for form in (JSON, TOTAL, FORMATTED):
        text = (tmp_path / form).read_text()
        assert "hush" not in text
        assert "${env:SECRET_OF_THE_TEST}" in text
        assert build(tmp_path / form).cfg == compiled.cfg
    monkeypatch.setenv("SECRET_OF_THE_TEST", "another")
    assert build(tmp_path / JSON).policy.learn.free["list"] == [1, "x-another-y"]
    assert build(compiled).policy.learn.free["api_key"] == "another"


def test_what_is_not_set_or_does_not_fit_is_told(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("APPLE", "apple")
    file = tmp_path / "a.yaml"
    file.write_text(
        "env: {type: pole, stop_value: 1, n_evaluator_episode: 1}\npolicy:\n  type: toy\n  learn:\n"
        "    batch_size: ${env:APPLE}\n    free:\n      token: [x, '${env:NOT_SET}']\n"
    )
    assert problems_of(build, file) == (
        f"policy.learn.batch_size: expected int, which ${{env:APPLE}} is not ({file}:5)",
        f"policy.learn.free.token[1]: the environment variable 'NOT_SET' is not set ({file}:7)",
    )


def test_one_more_dollar_means_the_text_itself(build: Any, tmp_path: Path) -> None:
    for written, meant in (
        ("$${env:HOME}", "${env:HOME}"),
        ("$$${env:HOME}", "$${env:HOME}"),
        ("${HOME} $x ${env:} ${other:X}", "${HOME} $x ${env:} ${other:X}"),
    ):
        compiled = build(learning(free={"x": written}))
        assert compiled.policy.learn.free["x"] == meant
        write_config(compiled, tmp_path)
        for form in (JSON, TOTAL, FORMATTED):
            assert build(tmp_path / form).cfg == compiled.cfg


@given(st.text(st.sampled_from("${}env:AZ_"), max_size=30))
def test_any_text_survives_being_escaped(text: str) -> None:
    assert resolve(escaped(text), "x", lambda name, path: "!") == text


def test_numbers_in_words_of_the_command_line_are_read(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP", "inf")
    compiled = build(overrides=["env.stop_value=${env:STOP}"])
    assert compiled.env.stop_value == math.inf
    assert compiled.origin["env.stop_value"] == "command line"
