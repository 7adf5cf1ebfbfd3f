"""RELIABILITY F01-F05, FEATURES E7, E10, E11: what bad input is told, literally and all at once."""

from __future__ import annotations

import contextlib
from math import inf
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dicore.config import flatten, write_config
from dicore.config.layers import ALIASES, TRUST, Layer, Problems
from dicore.errors import ConfigError, PluginLoadError
from tests.core.config.conftest import least, problems_of
from tests.core.config.toy_parts import BarePolicyConfig


def toy(**policy: Any) -> dict[str, Any]:
    return {**least(), "policy": {"type": "toy", **policy}}


@pytest.mark.parametrize(
    ("main", "problem"),
    [
        (
            toy(learn={"lerning_rate": 0.1}),
            "policy.learn.lerning_rate: policy 'toy' has no option 'learn.lerning_rate'; did you"
            " mean 'learning_rate'?",
        ),
        (
            toy(batchsize=3),
            "policy.batchsize: policy 'toy' has no option 'batchsize'; did you mean"
            " 'policy.learn.batch_size'?",
        ),
        (
            toy(lr_of_things=3),
            "policy.lr_of_things: policy 'toy' has no option 'lr_of_things'",
        ),
        (
            toy(model={"widht": 3}),
            "policy.model.widht: model 'net' has no option 'widht'; did you mean 'width'?",
        ),
        ({**least(), "policy": ""}, "policy.type: expected a name, got ''"),
        (toy(model={"type": 3}), "policy.model.type: expected a name, got 3"),
        (toy(learn={"learning_rate": inf}), "policy.learn.learning_rate: must be < inf, got inf"),
        (
            {**least(), "polcy": {}},
            "polcy: the config has no option 'polcy'; did you mean 'policy'?",
        ),
        (
            toy(learn={"batch_size": "apple"}),
            "policy.learn.batch_size: expected int, got str 'apple'",
        ),
        (toy(learn={"batch_size": 32.7}), "policy.learn.batch_size: expected int, got float 32.7"),
        (toy(learn={"batch_size": "32"}), "policy.learn.batch_size: expected int, got str '32'"),
        (toy(learn={"batch_size": -1}), "policy.learn.batch_size: must be >= 1, got -1"),
        (toy(learn={"batch_size": None}), "policy.learn.batch_size: expected int, got None"),
        (toy(cuda=1), "policy.cuda: expected bool, got int 1"),
        (toy(discount_factor=True), "policy.discount_factor: expected float, got bool True"),
        (toy(discount_factor=1.5), "policy.discount_factor: must be <= 1.0, got 1.5"),
        (
            toy(learn={"learning_rate": float("nan")}),
            "policy.learn.learning_rate: must be a number, got nan",
        ),
        (
            toy(learn={"learning_rate": "nan"}),
            "policy.learn.learning_rate: expected float, got str 'nan'",
        ),
        (
            toy(learn={"target": "soft"}),
            "policy.learn.target: expected one of 'assign', 'momentum', got 'soft'",
        ),
        (toy(learn={"hidden": [1, "x"]}), "policy.learn.hidden[1]: expected int, got str 'x'"),
        (toy(learn={"hidden": [1, 0]}), "policy.learn.hidden: must be >= 1, got 0 at index 1"),
        (
            toy(collect={"eps": {"type": "wave"}}),
            "policy.collect.eps.type: expected one of 'exp', 'linear', got 'wave'",
        ),
        (toy(learn=3), "policy.learn: expected a section, got int 3"),
        (toy(model=3), "policy.model: expected a name or a section, got int 3"),
        ({**least(), "policy": "toyy"}, "policy.type: no policy named 'toyy'; did you mean 'toy'?"),
        ({**least(), "env": "toy"}, "env.type: no env named 'toy'; 'toy' is a policy"),
        (
            toy(other={"replay_buffer": "prio"}),
            "policy.other.replay_buffer.type: no buffer named 'prio'; installed: heap, ring"
            " (dicore list buffer)",
        ),
        ({"env": least()["env"]}, "policy: missing 'type' (see 'dicore list policy')"),
        (
            {**least(), "env": "underived"},
            "env.type: env 'underived' needs a config class derived from EnvConfig",
        ),
        ({**least(), "env": "seven"}, "env.type: env 7 is neither a class nor a function"),
        (
            toy(learn={"learner": {"hook": 3}}),
            "policy.learn.learner.hook: expected a list of components, got int 3",
        ),
        (
            toy(learn={"learner": {"hook": ["log_show", "log_shw"]}}),
            "policy.learn.learner.hook[1].type: no learner_hook named 'log_shw'; did you mean"
            " 'log_show'?",
        ),
        (
            toy(learn={"learner": {"hook": [{"type": "log_show", "feq": 3}]}}),
            "policy.learn.learner.hook[0].feq: learner_hook 'log_show' has no option 'feq'; did you"
            " mean 'freq'?",
        ),
        (toy(priority=True, nstep=6), "policy.nstep: too far for priority"),
        (
            toy(other={"replay_buffer": {"type": "heap", "alpha": 0}}),
            "policy.other.replay_buffer.alpha: no priority at all; use a ring",
        ),
        ({**least(), "seed": -1}, "seed: must be >= 0, got -1"),
        ({**least(), 3: 4}, "3: the config has no option '3'"),
        (
            {**least(), "coordinator": {"type": "x"}},
            "coordinator: the config has no option 'coordinator'",
        ),
    ],
)
def test_each_mistake_has_its_text(build: Any, main: Any, problem: str) -> None:
    found = problems_of(build, main)
    assert found == (problem,)


@pytest.mark.parametrize("main", [3, "no_such.yaml", [1, 2], [{}, {}, {}, {}], ["a"]])
def test_what_is_no_config_is_said_to_be_none(build: Any, main: Any) -> None:
    found = problems_of(build, main)
    assert any("expected a dict, or main_config" in p or "no such config file" in p for p in found)


class TestMustGive:
    """FEATURES E7: class, preset, env spec and user are all silent."""

    def test_each_missing_key_is_named_with_its_meaning(self, build: Any) -> None:
        assert problems_of(build, {"env": "pole", "policy": "bare"}) == (
            "env.n_evaluator_episode: must be given: episodes per evaluation",
            "env.stop_value: must be given: mean episode return at which training stops; inf:"
            " never",
            "policy.collect.n_sample: one of n_sample, n_episode must be given (n_sample: training"
            " samples per collect; n_episode: complete episodes per collect)",
            "policy.on_policy: must be given: train only on samples of the current policy",
        )

    def test_offline_training_needs_no_amount_of_samples(
        self, build: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(BarePolicyConfig, "offline", True)
        found = problems_of(build, {"env": "pole", "policy": "bare"})
        assert not any("n_sample" in each for each in found)

    @pytest.mark.parametrize("missing", ["env.stop_value", "env.n_evaluator_episode"])
    def test_one_missing_key_is_one_error(self, build: Any, missing: str) -> None:
        main = least()
        main["env"].pop(missing.removeprefix("env."))
        (found,) = problems_of(build, main)
        assert found.startswith(f"{missing}: must be given: ")

    def test_both_amounts_in_one_layer_are_refused(self, build: Any) -> None:
        assert problems_of(build, toy(n_sample=1, collect={"n_episode": 2})) == (
            "policy.collect.n_episode: given beside n_sample; give one of n_sample, n_episode",
        )

    def test_a_higher_layers_amount_displaces_the_other(self, build: Any) -> None:
        compiled = build(toy(n_sample=4), preset="pole_toy", overrides=["policy.n_episode=2"])
        assert (compiled.policy.collect.n_sample, compiled.policy.collect.n_episode) == (None, 2)
        assert compiled.origin["policy.collect.n_sample"] == "displaced by policy.collect.n_episode"
        assert compiled.policy.collect.collector.n_sample is None
        again = build(compiled, overrides=["policy.n_sample=5"])
        assert (again.policy.collect.n_sample, again.policy.collect.n_episode) == (5, None)

    def test_updates_per_step_displace_those_per_collect(self, build: Any, tmp_path: Any) -> None:
        compiled = build(overrides=["policy.update_per_step=0.25"])
        assert compiled.policy.learn.update_per_collect is None
        write_config(compiled, tmp_path)
        learn = build(tmp_path).policy.learn
        assert (learn.update_per_collect, learn.update_per_step) == (None, 0.25)

    def test_taking_the_only_amount_away_is_refused(self, build: Any) -> None:
        (found,) = problems_of(build, toy(n_sample=None, collect={"n_sample": None}))
        assert found.startswith("policy.collect.n_sample: one of n_sample, n_episode must be given")


def test_all_mistakes_come_at_once_sorted_by_path(build: Any) -> None:
    main = {
        "env": {"type": "pole", "length": -1, "stop_value": "high", "colour": 1},
        "policy": {"type": "toy", "learn": {"batch_size": "apple", "hidden": [0, "x"]}, "nstp": 2},
        "replay_buffer": "rng",
        "zoo": 1,
    }
    found = problems_of(build, main, overrides=["pipeline.logger=[consol]", "exp_name=3", "broken"])
    paths = [line.partition(":")[0] for line in found]
    assert paths == sorted(paths)
    assert paths == [
        "broken",
        "env.colour",
        "env.length",
        "env.n_evaluator_episode",
        "env.stop_value",
        "exp_name",
        "pipeline.logger[0].type",
        "policy.learn.batch_size",
        "policy.learn.hidden[1]",
        "policy.nstp",
        "policy.other.replay_buffer.type",
        "zoo",
    ]


def test_every_leaf_misspelt_once_is_suggested_back(build: Any) -> None:
    paths = [path for path in flatten(build().cfg) if "[" not in path and path.count(".")]
    for path in paths:
        above, _, key = path.rpartition(".")
        if len(key) < 4 or key == "type":
            continue
        for misspelt in {key[1:], key[:-1], key + "s", key[:2] + key[3] + key[2] + key[4:]} - {key}:
            if f"{above}.{misspelt}" in ALIASES:
                continue
            found = problems_of(build, overrides={f"{above}.{misspelt}": 1})
            assert found[0].endswith(f"; did you mean '{key}'?"), found


def test_a_lone_component_that_fails_to_load_keeps_its_own_error(build: Any) -> None:
    with pytest.raises(
        PluginLoadError, match=r"^env.type: env 'crashes' \(toy-parts 1.0\)"
    ) as caught:
        build({**least(), "env": "crashes"})
    assert caught.value.exit_code == 3
    with pytest.raises(ConfigError) as mixed:
        build({**least(), "env": "crashes", "zoo": 1})
    assert mixed.value.exit_code == 2
    assert len(mixed.value.problems) == 2


def test_the_error_points_into_the_file(build: Any, tmp_path: Any) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("env:\n  type: pole\n  stop_valu: 3\npolicy: toy\n")
    (problem,) = problems_of(
        build, file, overrides=["env.stop_value=1", "env.n_evaluator_episode=1"]
    )
    assert problem.endswith(f"did you mean 'stop_value'? ({file}:3)")


def test_the_error_survives_a_process_border(build: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        build(toy(nstep="x"))
    again = ForkingPickler.loads(ForkingPickler.dumps(caught.value))
    assert again.problems == caught.value.problems


def test_a_misspelt_component_hides_no_mistake_of_its_options(build: Any) -> None:
    """They are looked at as those of the component that was probably meant."""
    main = {
        **least(),
        "policy": {
            "type": "toyy",
            "nstep": 0,
            "learn": {"batch_sise": 3, "target": "assign"},
            "other": {"replay_buffer": {"type": "rnig", "size": 0, "alpha": 1}},
        },
    }
    assert problems_of(build, main) == (
        "policy.learn.batch_sise: policy 'toy' has no option 'learn.batch_sise'; did you mean"
        " 'batch_size'?",
        "policy.nstep: must be >= 1, got 0",
        "policy.other.replay_buffer.alpha: buffer 'ring' has no option 'alpha'",
        "policy.other.replay_buffer.size: must be >= 1, got 0",
        "policy.other.replay_buffer.type: no buffer named 'rnig'; did you mean 'ring'?",
        "policy.type: no policy named 'toyy'; did you mean 'toy'?",
    )
    unlike = problems_of(build, {**least(), "policy": {"type": "qmix", "nstep": 0}})
    assert [line.partition(":")[0] for line in unlike] == ["policy.type"]


def test_a_single_mistake_comes_with_the_meaning_of_its_option(build: Any) -> None:
    given = (({"batch_size": -1}, True), ({"batch_size": "x"}, True))
    for values, hinted in (*given, ({"batch_size": -1, "x": 1}, False)):
        with pytest.raises(ConfigError) as told:
            build(toy(learn=values))
        assert told.value.hint.startswith("batch_size: ") is hinted
        assert told.value.hint.endswith("(default: 64)") is hinted


SECTIONS = ["env", "env.manager", "policy", "policy.learn", "policy.other.replay_buffer"]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=2)
    | st.sampled_from(["toy", "ring", "a/b", ":", "./x.py:Y", "${env:NOT_SET}", object(), dict]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner)
        | st.dictionaries(
            st.sampled_from(["type", "agent", "keys", "a.b", ""]) | st.text(max_size=2) | st.none(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(over=st.dictionaries(st.sampled_from(SECTIONS), JUNK, max_size=3), main=JUNK)
@example(over={}, main={"²": 1, "policy": ""})
def test_whatever_is_written_is_a_config_or_a_clear_error(
    build: Any, over: dict[str, Any], main: Any
) -> None:
    for said in ({"overrides": over}, {"main": main}):
        with contextlib.suppress(ConfigError):
            assert build(**said).policy.type == "toy"


def test_long_lists_are_sorted_by_number(build: Any) -> None:
    found = problems_of(build, toy(learn={"hidden": ["x"] * 12}))
    assert [line.partition(":")[0] for line in found] == [
        f"policy.learn.hidden[{index}]" for index in range(12)
    ]


def test_a_component_of_a_package_that_is_missing_has_options_of_its_own(build: Any) -> None:
    pipeline = {"type": "serial_dyna", "world_modl": {}}  # dicore-plugins has it; near: serial
    (problem,) = problems_of(build, {**least(), "pipeline": pipeline})
    assert problem.endswith("it is provided by 'dicore-plugins': pip install dicore-plugins")


def test_a_single_code_path_has_a_single_hint() -> None:
    problems = Problems()
    problems.add_code_path("policy.type", "./file.py:Class", Layer("a.json", saved=True))
    with pytest.raises(ConfigError) as told:
        problems.raise_if_any()
    assert told.value.hint == TRUST
