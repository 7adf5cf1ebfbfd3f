"""Bind fills in what follows from the spaces, and changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dicore.config import bind, derived_options, flatten, write_config
from dicore.deprecation import DicoreDeprecationWarning
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from tests.core.config import toy_parts as toy
from tests.core.config.conftest import problems_of


def test_silent_values_are_filled_and_given_ones_stay(build: Any) -> None:
    compiled = build()
    before = flatten(compiled.cfg)
    bound = bind(compiled, EnvSpec(4, "discrete"))
    assert bound.policy.model.obs_shape == 4
    assert bound.origin["policy.model.obs_shape"] == "spaces"
    assert flatten(compiled.cfg) == before
    given = bind(build(overrides=["policy.model.obs_shape=[4]"]), EnvSpec(4, "discrete"))
    assert given.policy.model.obs_shape == (4,)
    assert given.origin["policy.model.obs_shape"] == "command line"


@pytest.mark.parametrize(
    ("said", "observation"), [("[3,84,84]", 4), ("5", 4), ("[4]", (4, 4)), ("4", (4, 4))]
)
def test_a_shape_that_contradicts_the_environment_is_refused(
    build: Any, said: str, observation: Any
) -> None:
    compiled = build(overrides=[f"policy.model.obs_shape={said}"])
    (problem,) = problems_of(bind, compiled, EnvSpec(observation, "discrete"))
    wanted = f"policy.model.obs_shape: expected {observation!r}, as the environment has, got "
    assert problem.startswith(wanted)


def test_a_saved_shape_that_contradicts_is_told_with_its_line(build: Any, tmp_path: Path) -> None:
    file = write_config(bind(build(), EnvSpec(4, "discrete")), tmp_path)
    line = next(n for n, t in enumerate(file.read_text().splitlines(), 1) if '"obs_shape"' in t)
    with pytest.raises(ConfigError, match=rf"obs_shape: expected 6, .*got 4 \({file}:{line}\)"):
        bind(build(tmp_path), EnvSpec(6, "discrete"))


def test_what_follows_a_filled_value_follows_it(build: Any) -> None:
    bound = bind(build(), EnvSpec(4, "discrete"))
    assert bound.policy.collect.unroll_len == 2
    assert bound.policy.collect.collector.unroll_len == 2
    assert (
        bind(build(overrides=["policy.unroll_len=5"]), EnvSpec(4, "d")).policy.collect.unroll_len
        == 5
    )


def test_binding_again_uses_the_newer_spaces(build: Any) -> None:
    assert bind(bind(build(), EnvSpec(4, "d")), EnvSpec(6, "d")).policy.model.obs_shape == 6


def test_a_bound_config_compiles_to_itself(build: Any) -> None:
    bound = bind(build(), EnvSpec(4, "discrete"))
    again = build(bound)
    assert again.cfg == bound.cfg
    assert bind(again, EnvSpec(4, "discrete")).cfg == bound.cfg


def test_a_part_that_takes_no_shape_is_left_alone(build: Any) -> None:
    bound = bind(build(overrides=["policy.model=table"]), EnvSpec(4, "discrete"))
    assert bound.policy.model == toy.TableConfig(type="table")


@pytest.mark.parametrize(
    ("observation", "action", "problem"),
    [
        (4, "box", "policy.type: 'toy' needs discrete actions"),
        ("four", "d", "policy.model.obs_shape: expected int or tuple[int, ...] or None, got str"),
        (4, "bad author", "policy.learn.no_such: policy 'toy' derives an option"),
    ],
)
def test_what_does_not_fit_is_refused(
    build: Any, observation: Any, action: Any, problem: str
) -> None:
    assert problems_of(bind, build(), EnvSpec(observation, action))[0].startswith(problem)


def test_two_spaces_are_taken_with_a_warning_that_names_the_successor(build: Any) -> None:
    """`bind` of a config, and of a policy that was written for two spaces."""
    with pytest.warns(DicoreDeprecationWarning, match=r"use an EnvSpec\(observation, action\)"):
        assert bind(build(), 4, "discrete").policy.model.obs_shape == 4  # type: ignore[arg-type]
    with pytest.warns(DicoreDeprecationWarning, match=r"OldPolicyConfig.bind.*use bind\(spec\)"):
        derived = derived_options(toy.OldPolicyConfig(), EnvSpec(4, "discrete"))
    assert derived["model.obs_shape"] == 4
