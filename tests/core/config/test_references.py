"""`${env:NAME}`: looked up when compiled, kept as it was written in every saved form."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config import bind, write_config
from dicore.config.redact import escaped, resolve
from dicore.config.writer import JSON
from dicore_tools.config_formats.python_form import FORMATTED, TOTAL
from tests.core.config.conftest import least, problems_of


def toy(**learn: Any) -> dict[str, Any]:
    return {**least(), "policy": {"type": "toy", "learn": learn}}


def test_a_variable_is_read_when_the_config_is_compiled(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "1e-2")
    monkeypatch.setenv("WIDTH", "12")
    monkeypatch.setenv("NAME", "true")
    main = toy(
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
    compiled = bind(build(toy(free=free)), 4, "discrete")
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
        compiled = build(toy(free={"x": written}))
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
