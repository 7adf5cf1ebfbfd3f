"""FEATURES E19: values that reach the sections of the parts that need them."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import to_dict
from dicore.errors import ConfigError
from tests.core.config.conftest import least


def test_the_evaluators_own_section_holds_the_envs_values(build: Any) -> None:
    compiled = build()
    evaluator = compiled.policy.eval.evaluator
    assert (evaluator.stop_value, evaluator.n_episode) == (475.0, 10)
    assert compiled.origin["policy.eval.evaluator.stop_value"] == "follows env.stop_value"


def test_the_collectors_own_section_holds_amounts_and_lengths(build: Any) -> None:
    compiled = build(overrides=["policy.n_sample=5", "policy.unroll_len=3"])
    collector = compiled.policy.collect.collector
    assert (collector.n_sample, collector.unroll_len, collector.twice) == (5, 3, 5)
    by_episode = build(overrides=["policy.n_episode=5"]).policy.collect.collector
    assert (by_episode.n_sample, by_episode.twice) == (None, None)


def test_giving_the_evaluators_value_gives_the_envs(build: Any) -> None:
    main = least()
    main["env"].pop("stop_value")
    compiled = build({**main, "evaluator": {"stop_value": 7}})
    assert compiled.env.stop_value == compiled.policy.eval.evaluator.stop_value == 7.0


def test_a_value_of_its_own_is_kept(build: Any) -> None:
    compiled = build(overrides=["policy.eval.evaluator.batch=9"])
    assert (compiled.policy.learn.batch_size, compiled.policy.eval.evaluator.batch) == (64, 9)


def test_an_echo_of_the_followed_value_goes_on_following(build: Any) -> None:
    saved = to_dict(build().cfg)
    assert saved["policy"]["eval"]["evaluator"]["batch"] == 64
    again = build(saved, overrides=["policy.learn.batch_size=5"])
    assert again.policy.eval.evaluator.batch == 5
    saved["policy"]["eval"]["evaluator"]["batch"] = 9
    assert build(saved).policy.eval.evaluator.batch == 9


def test_what_is_followed_and_missing_is_named_once(build: Any) -> None:
    main = least()
    main["env"].pop("stop_value")
    with pytest.raises(ConfigError) as caught:
        build(main)
    assert [line.partition(":")[0] for line in caught.value.problems] == ["env.stop_value"]
