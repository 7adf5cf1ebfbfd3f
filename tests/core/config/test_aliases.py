"""FEATURES E8, E9, E19 and slip Z5: short forms, second names and values that follow others."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import flatten, frozen, option, to_dict
from dicore.config.layers import ALIASES, CREATE_PATHS, Problems, expand_aliases
from dicore.config.sections import PolicyConfig
from dicore.errors import ConfigError
from tests.core.config.conftest import least, problems_of

SCALARS = {
    alias: path
    for alias, path in ALIASES.items()
    if path.rpartition(".")[2] not in ("hook", "manager", "replay_buffer", "model")
    and alias not in CREATE_PATHS
}


@pytest.mark.parametrize(("alias", "path"), SCALARS.items())
def test_the_short_form_means_the_full_path(build: Any, alias: str, path: str) -> None:
    main = least()
    for key in ("stop_value", "n_evaluator_episode"):
        if path == f"env.{key}":
            main["env"].pop(key)
    value: Any = True if path.endswith("multi_gpu") else 1
    short, full = (build(main, overrides={where: value}) for where in (alias, path))
    assert flatten(short.cfg)[path] == value
    assert short.cfg == full.cfg
    assert short.origin[path] == "command line"


@pytest.mark.parametrize(("alias", "path"), SCALARS.items())
def test_both_forms_with_one_value_are_fine_and_with_two_are_refused(
    build: Any, alias: str, path: str
) -> None:
    one, two = (True, False) if path.endswith("multi_gpu") else (1, 2)
    same = build(overrides={alias: one, path: one})
    assert flatten(same.cfg)[path] == one
    assert problems_of(build, overrides={alias: two, path: one}) == (
        f"{alias}: {two!r} contradicts {path}, which is {one!r}; give one of them",
    )


def test_nstep_under_learn_is_the_policys(build: Any) -> None:
    compiled = build({**least(), "policy": {"type": "toy", "learn": {"nstep": 3}}})
    assert compiled.policy.nstep == 3


def test_a_higher_layers_short_form_wins_over_a_lower_full_path(build: Any) -> None:
    main = {**least(), "policy": {"type": "toy", "learn": {"batch_size": 8}}}
    assert build(main, overrides=["policy.batch_size=16"]).policy.learn.batch_size == 16


def test_a_subtree_moves_as_a_whole_and_joins_what_is_there(build: Any) -> None:
    main = {
        **least(),
        "env_manager": "workers",
        "policy": {"type": "toy", "replay_buffer": {"alpha": 0.25}},
        "replay_buffer": {"type": "heap"},
    }
    main["env"]["manager"] = {"workers": 7}
    compiled = build(main)
    assert (compiled.env.manager.type, compiled.env.manager.workers) == ("workers", 7)
    assert compiled.policy.other.replay_buffer.alpha == 0.25
    main["env"]["manager"] = {"type": "base"}
    with pytest.raises(ConfigError, match=r"^env_manager\.type: 'workers' contradicts"):
        build(main)


def test_a_short_form_below_something_that_is_no_section(build: Any) -> None:
    assert "model: stands for policy.model, whose section is not a dict" in problems_of(
        build, {**least(), "model": "net", "policy": 3}
    )


def test_the_table_is_sound() -> None:
    assert not ALIASES.keys() & set(ALIASES.values())
    tree: dict[str, Any] = {"policy": {"batch_size": None, "type": "x"}}
    assert expand_aliases(tree, Problems()) == {"policy": {"type": "x"}}


@frozen(kw_only=True)
class HidesConfig(PolicyConfig):
    """Declares what is a short form already."""

    on_policy: bool = option(False, "only fresh data")
    batch_size: int = option(3, "would never be reached")


def test_an_option_hidden_by_a_short_form_is_the_authors_mistake(build: Any, registry: Any) -> None:
    registry.register("policy", "hides")(HidesConfig)
    with pytest.raises(ConfigError, match=r"policy.batch_size: is another name of policy.learn"):
        build({**least(), "policy": {"type": "hides", "n_sample": 1}})


# ---- values that reach the sections of the parts that need them


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
    assert [line.partition(":")[0] for line in problems_of(build, main)] == ["env.stop_value"]
