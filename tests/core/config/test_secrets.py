"""RELIABILITY E10: nothing under a key like token, key, password or secret is written or said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dicore.config import write_config
from dicore.config.redact import REDACTED, is_secret
from dicore.config.writer import JSON, fingerprint, saved_tree
from dicore.errors import ConfigError
from dicore.run.metadata import redact_words
from dicore_tools.config_formats.python_form import FORMATTED, TOTAL
from tests.core.config.conftest import least, problems_of

HUSH = "hush-4711"


def toy(**free: Any) -> dict[str, Any]:
    return {**least(), "policy": {"type": "toy", "learn": {"free": free}}}


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
    compiled = build(toy(token=HUSH, deep={"passwords": [HUSH, 3], "user": "me", "key": None}))
    assert compiled.policy.learn.free["token"] == HUSH
    write_config(compiled, tmp_path)
    for form in (JSON, TOTAL, FORMATTED):
        assert HUSH not in (tmp_path / form).read_text()
    free = saved_tree(compiled)["policy"]["learn"]["free"]
    assert free["token"] == REDACTED
    assert free["deep"] == {"x": 1, "passwords": [REDACTED, 3], "user": "me", "key": None}
    other = build(toy(token="other", deep={"passwords": ["else", 3], "user": "me", "key": None}))
    assert fingerprint(compiled) == fingerprint(other)


def test_what_was_left_out_must_be_given_again(build: Any, tmp_path: Path) -> None:
    write_config(build(toy(token=HUSH)), tmp_path)
    (problem,) = problems_of(build, tmp_path / JSON)
    assert problem.startswith(
        f"policy.learn.free.token: was {REDACTED} when it was saved; give it again, best as"
    )
    again = build(tmp_path / JSON, overrides=[f"policy.learn.free.token={HUSH}"])
    assert again.policy.learn.free["token"] == HUSH


def test_a_compiled_config_compiles_again_in_the_open(build: Any) -> None:
    compiled = build(toy(token=HUSH))
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
        "--cpanel",
        json.dumps({"api_key": HUSH, "lr": 0.1, "more": [{"secret": HUSH}]}),
        "policy.learn.batch_size=3",
        "{broken",
    ]
    shown = redact_words(words)
    assert HUSH not in " ".join(shown)
    assert shown[2:4] == [f"a.token={REDACTED}", "a.token=${env:T}"]
    assert json.loads(shown[6])["lr"] == 0.1
    assert shown[7:] == words[7:]
