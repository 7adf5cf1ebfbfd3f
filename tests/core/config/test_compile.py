"""Layers, precedence, types of components, origins: what a compiled config holds."""

from __future__ import annotations

import copy
import math
import sys
import time
import warnings
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from dicore.config import RunConfig, compile_config, compile_section, flatten, to_dict
from dicore.errors import ConfigError, ConfigWarning
from tests.conftest import printed
from tests.core.config import toy_parts as toy
from tests.core.config.conftest import least, problems_of


def test_the_seeds_outline_compiles_and_reads_by_attribute_and_by_item(build: Any) -> None:
    compiled = build(
        {
            "exp_name": "runs/x",
            "env": {"manager": {}, "type": "pole", "stop_value": 1, "n_evaluator_episode": 2},
            "policy": {
                "type": "toy",
                "model": {},
                "collect": {},
                "learn": {},
                "eval": {},
                "other": {"replay_buffer": {}},
            },
        }
    )
    cfg = compiled.cfg
    assert isinstance(cfg, RunConfig)
    assert cfg.policy.learn.batch_size == cfg["policy"]["learn"]["batch_size"] == 64
    assert compiled.policy is compiled["policy"] is cfg.policy
    assert compiled.env.manager.type == "base"
    assert cfg.policy.other.replay_buffer == toy.RingConfig(type="ring")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        cfg.policy.nstep = 3


def test_class_defaults_lie_below_preset_below_file_below_command_line(
    build: Any, tmp_path: Any
) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("policy: {learn: {batch_size: 48, learning_rate: 1e-2}}\n")
    compiled = build(file, preset="pole_toy", overrides=["policy.learn.learning_rate=0.5"], seed=7)
    got = {
        path: (flatten(compiled.cfg)[path], compiled.origin[path])
        for path in (
            "policy.learn.update_per_collect",
            "policy.learn.optimizer",
            "policy.collect.n_sample",
            "policy.learn.batch_size",
            "policy.learn.learning_rate",
            "seed",
        )
    }
    assert got == {
        "policy.learn.update_per_collect": (3, "class ToyLearnConfig"),
        "policy.learn.optimizer": (None, "class LearnConfig"),
        "policy.collect.n_sample": (16, "preset pole_toy"),
        "policy.learn.batch_size": (48, f"{file}:1"),
        "policy.learn.learning_rate": (0.5, "command line"),
        "seed": (7, "argument seed"),
    }


def test_every_value_has_an_origin_and_every_component_a_provider(build: Any) -> None:
    compiled = build()
    assert flatten(compiled.cfg).keys() <= compiled.origin.keys()
    slots = {path.removesuffix(".type") for path in flatten(compiled.cfg) if path.endswith(".type")}
    assert compiled.components.keys() == slots - {"policy.collect.eps"}
    policy = compiled.components["policy"]
    assert (policy["type"], policy["dist"], policy["version"]) == ("toy", "toy-parts", "1.0")
    assert policy["target"] == f"{toy.__name__}:ToyPolicyConfig"
    assert policy["source"].startswith("sha256:")


def test_compiling_is_pure_and_repeatable(build: Any) -> None:
    main = {**least(), "policy": {"type": "toy", "learn": {"hidden": [1], "free": {"b": [2]}}}}
    create = {"replay_buffer": {"type": "heap", "alpha": 0.5}}
    preset = copy.deepcopy(toy.POLE_TOY)
    before = copy.deepcopy((main, create))
    first = build(main, create, preset="pole_toy")
    first.policy.learn.free["b"].append("spoilt")
    second = build(main, create, preset="pole_toy")
    assert (main, create) == before
    assert preset == toy.POLE_TOY
    assert second.policy.learn.free == {"a": 1, "deep": {"x": 1}, "b": [2]}
    assert first.policy.learn.hidden == second.policy.learn.hidden


def test_free_form_dicts_recurse_and_lists_are_replaced(build: Any) -> None:
    free, hidden = {"deep": {"y": 2}}, [8, 8]
    compiled = build(
        {**least(), "policy": {"type": "toy", "learn": {"free": free, "hidden": hidden}}}
    )
    assert compiled.policy.learn.free == {"a": 1, "deep": {"x": 1, "y": 2}}
    assert compiled.policy.learn.hidden == [8, 8]


def test_a_bare_name_a_node_and_a_qualified_name_mean_the_same(build: Any) -> None:
    nodes = [
        "toy",
        {"type": "toy"},
        {"type": "TOY"},
        {"type": "tests.core.config.toy_parts:ToyPolicyConfig"},
    ]
    bare, node, upper, path = (build({**least(), "policy": form}) for form in nodes)
    assert bare.cfg == node.cfg == upper.cfg
    assert path.policy.type == "tests.core.config.toy_parts:ToyPolicyConfig"
    qualified = build({**least(), "policy": "toy-parts/toy"})
    assert qualified.policy.type == "toy-parts/toy"
    assert attrs.evolve(qualified.policy, type="toy") == bare.policy


def test_create_config_lands_at_the_documented_paths(build: Any) -> None:
    main = {
        "env": {"stop_value": 1, "n_evaluator_episode": 2, "length": 0.1},
        "policy": {"nstep": 3},
    }
    create = {
        "env": {"type": "pole"},
        "env_manager": {"type": "workers", "workers": 4},
        "policy": "toy",
        "model": {"type": "table"},
        "learner": {"type": "plain"},
        "collector": {"type": "sample"},
        "evaluator": {"type": "episodes"},
        "replay_buffer": {"type": "heap"},
        "pipeline": {"type": "serial"},
    }
    compiled = build([main, create])
    assert compiled.env.manager == toy.WorkersConfig(type="workers", workers=4)
    assert compiled.policy.model == toy.TableConfig(type="table")
    assert compiled.policy.other.replay_buffer.type == "heap"
    assert (compiled.env.length, compiled.policy.nstep) == (0.1, 3)
    assert build(main, create).cfg == compiled.cfg


def test_main_and_create_must_agree(build: Any) -> None:
    assert problems_of(build, [least(), {"policy": {"type": "bare"}}]) == (
        "policy.type: 'bare' in create_config contradicts 'toy' in main_config",
    )


class TestTypeOfAComponent:
    """The highest layer that names one decides; options for another are dropped."""

    def test_options_of_another_type_below_are_dropped(self, build: Any) -> None:
        main = {**least(), "policy": {"type": "toy", "learn": {"target": "momentum"}, "nstep": 4}}
        compiled = build(main, overrides=["policy=other", "policy.gae=0.5"])
        assert compiled.policy.type == "other"
        assert (compiled.policy.gae, compiled.policy.nstep) == (0.5, 1)
        assert compiled.origin["policy.type"] == "command line"

    def test_the_same_type_again_keeps_them(self, build: Any) -> None:
        main = {**least(), "policy": {"type": "toy", "nstep": 4}}
        assert build(main, overrides=["policy=Toy"]).policy.nstep == 4

    def test_untyped_options_below_the_first_type_are_kept(self, build: Any) -> None:
        main = {"env": least()["env"], "policy": {"nstep": 4}}
        assert build(main, overrides={"policy": "toy"}).policy.nstep == 4

    def test_a_default_node_is_the_lowest_layer(self, build: Any) -> None:
        compiled = build()
        assert compiled.policy.model == toy.NetConfig(type="net", width=16)
        assert compiled.origin["policy.model.width"] == "class ToyPolicyConfig"
        assert build(overrides=["policy.model.width=8"]).policy.model.width == 8
        assert build(overrides=["policy.model=net"]).policy.model.width == 16
        assert build(overrides=["policy.model=table"]).policy.model == toy.TableConfig(type="table")

    def test_the_kinds_default_fills_a_silent_slot(self, build: Any) -> None:
        compiled = build()
        assert compiled.policy.collect.collector.type == "sample"
        assert compiled.origin["policy.collect.collector.type"] == "default collector"
        assert (
            build(overrides=["policy.other.replay_buffer.size=5"]).policy.other.replay_buffer.size
            == 5
        )

    def test_an_optional_slot_stays_empty(self, build: Any) -> None:
        policy = {"type": "other", "n_sample": 1}
        assert build({**least(), "policy": policy}).policy.model is None
        with pytest.raises(
            ConfigError,
            match=r"policy.model: missing 'type' \(see 'dicore list model'\)",
        ):
            build({**least(), "policy": {**policy, "model": {"width": 3}}})

    def test_a_list_of_components_is_replaced_as_a_whole(self, build: Any) -> None:
        assert build().policy.learn.learner.hook[0].freq == 100
        hook = ["save_ckpt", {"type": "log_show", "freq": 3}]
        compiled = build({**least(), "learner": {"hook": hook}})
        first, second = compiled.policy.learn.learner.hook
        assert (first.type, second.type, second.freq) == ("save_ckpt", "log_show", 3)
        assert second.build(None).freq == 3
        assert compiled.origin["policy.learn.learner.hook[1].freq"] == "config"
        assert build(compiled).cfg == compiled.cfg
        assert build(overrides=["policy.learn.learner.hook=[]"]).policy.learn.learner.hook == ()
        assert (
            build(overrides=["policy.learn.hook=save_ckpt"]).policy.learn.learner.hook[0].type
            == "save_ckpt"
        )


class TestEnvNames:
    """`PROVIDER:ID`, and names that only the default provider knows."""

    FACTS: ClassVar[dict[str, Any]] = {"stop_value": 1, "n_evaluator_episode": 2}

    def test_provider_and_id_in_one_word(self, build: Any) -> None:
        compiled = build({"env": {"type": "provider:Pole-v1", **self.FACTS}, "policy": "toy"})
        assert (compiled.env.type, compiled.env.env_id) == ("provider", "Pole-v1")

    def test_a_name_that_the_default_provider_knows(self, build: Any) -> None:
        compiled = build({"env": "Known/Pole-v1", "policy": "toy"})
        assert (compiled.env.type, compiled.env.env_id) == ("provider", "Known/Pole-v1")
        assert compiled.origin["env.stop_value"] == "env spec"
        assert (compiled.env.stop_value, compiled.env.n_evaluator_episode) == (195.0, 5)
        assert compiled.policy.eval.evaluator.stop_value == 195.0
        assert build(compiled).cfg == compiled.cfg

    def test_a_given_value_is_not_asked_of_the_spec(self, build: Any) -> None:
        compiled = build({"env": {"type": "Known-v0", "stop_value": 3}, "policy": "toy"})
        assert (compiled.env.stop_value, compiled.env.n_evaluator_episode) == (3.0, 5)

    def test_another_id_of_the_same_provider_is_another_env(self, build: Any) -> None:
        main = {"env": {"type": "provider:Pole-v1", **self.FACTS}, "policy": "toy"}
        compiled = build(main, overrides=["env=provider:Known-2"])
        assert (compiled.env.env_id, compiled.env.stop_value) == ("Known-2", 195.0)
        kept = build(main, overrides=["env.env_id=Other"])
        assert (kept.env.env_id, kept.env.stop_value) == ("Other", 1.0)

    def test_an_import_path_is_no_provider(self, build: Any) -> None:
        compiled = build(
            {"env": {"type": f"{toy.__name__}:Countdown", **self.FACTS}, "policy": "toy"}
        )
        assert compiled.env.type == f"{toy.__name__}:Countdown"

    @pytest.mark.parametrize(
        ("env", "problem"),
        [
            (
                "nowhere:Pole-v1",
                "env.type: no env 'nowhere:Pole-v1'; tried in order: ENV:ID",
            ),
            ("Unheard-v1", "env.type: no env named 'Unheard-v1'"),
            (
                {"type": "provider:A", "env_id": "B", **FACTS},
                "env.env_id: 'B' contradicts env.type",
            ),
            ({"type": "pole:X", **FACTS}, "env.env_id: env 'pole' has no option 'env_id'"),
            ("provider", "env.env_id: must be given: id of the env"),
            (
                "provider:Known-broken",
                "env: env 'provider' cannot be described: KeyError: 'no spec'",
            ),
            ("provider:Known-odd", "env.stop_value: expected float, got str 'high'"),
            ("provider:Known-odd", "env.n_evaluator_episode: must be >= 1, got 0"),
        ],
    )
    def test_what_does_not_work_says_why(self, build: Any, env: Any, problem: str) -> None:
        with pytest.raises(ConfigError) as caught:
            build({"env": env, "policy": "toy"})
        assert any(line.startswith(problem) for line in caught.value.problems), (
            caught.value.problems
        )


class TestImportNames:
    """Old configs name modules to import; they are imported, and never needed."""

    def test_they_are_accepted_imported_and_warned_about(self, build: Any) -> None:
        sys.modules.pop("this", None)
        node = {"type": "toy", "import_names": ["antigravity_of_old", "colorsys"]}
        sys.modules.pop("colorsys", None)
        with pytest.warns(ConfigWarning, match=r"policy.type: .* needs no import_names") as caught:
            compiled = build([{**least(), "policy": {}}, {"policy": node}])
        assert "No module named 'antigravity_of_old'" in str(caught[0].message)
        assert compiled.cfg == build().cfg
        assert "colorsys" in sys.modules

    def test_a_refused_import_is_warned_about(self, build: Any) -> None:
        sys.modules.pop("colorsys", None)
        node = {"type": "toy", "import_names": ["colorsys"]}
        with pytest.warns(ConfigWarning, match=r"policy.type: import_names is refused: .*colorsys"):
            build({**least(), "policy": node}, names_only=True)
        assert "colorsys" not in sys.modules

    def test_a_needed_import_that_fails_is_a_problem(self, build: Any) -> None:
        node = {"type": "unheard", "import_names": ["no_such_module_at_all"]}
        first, second = problems_of(build, {**least(), "policy": node})
        assert first.startswith("policy.import_names: cannot import 'no_such_module_at_all'")
        assert second.startswith("policy.type: no policy named 'unheard'")

    def test_a_needed_import_registers_the_component(
        self, build: Any, registry: Any, tmp_path: Any, monkeypatch: Any
    ) -> None:
        (tmp_path / "old_style_parts.py").write_text(
            "from tests.core.config import toy_parts\nHOOK()\n".replace("HOOK", "toy_parts.HOOK")
        )
        monkeypatch.syspath_prepend(tmp_path)
        late = lambda: registry.register("policy", "late_toy")(toy.LatePolicyConfig)  # noqa: E731
        monkeypatch.setattr(toy, "HOOK", late, raising=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            node = {"type": "late_toy", "import_names": ["old_style_parts"]}
            assert build({**least(), "policy": node}).policy.type == "late_toy"


def test_names_only_refuses_to_run_code(build: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"policy.type: '\./my.py:Mine' is a code path, which --names"
    ) as caught:
        build({**least(), "policy": "./my.py:Mine"}, names_only=True)
    assert caught.value.hint == "omit --names-only to allow it"
    assert (
        build({"env": "provider:Known-v1", "policy": "toy"}, names_only=True).env.env_id
        == "Known-v1"
    )


def test_unknown_keys_can_be_warnings(build: Any) -> None:
    with pytest.warns(ConfigWarning, match="policy.lrr: policy 'toy' has no option 'lrr'"):
        compiled = build({**least(), "policy": {"type": "toy", "lrr": 1}}, strict=False)
    assert compiled.cfg == build().cfg


def test_numpy_scalars_and_inf_are_taken_as_their_python_kin(build: Any) -> None:
    main = least()
    main["env"]["stop_value"] = np.float32(math.inf)
    main["policy"] = {"type": "toy", "nstep": np.int64(3)}
    compiled = build(main)
    assert compiled.env.stop_value == math.inf
    assert type(compiled.policy.nstep) is int


def test_whatever_was_compiled_compiles_to_itself(build: Any) -> None:
    compiled = build(
        {
            **least(),
            "replay_buffer": "heap",
            "policy": {"type": "toy", "n_episode": 3},
            "exp_name": "x",
        },
        seed=3,
    )
    for form in (compiled, compiled.cfg, to_dict(compiled.cfg), [to_dict(compiled.cfg), {}]):
        assert build(form).cfg == compiled.cfg
    assert build(compiled, overrides=["env.stop_value=9"]).policy.eval.evaluator.stop_value == 9.0


def test_hand_made_sections_can_stand_in_a_config(build: Any) -> None:
    policy = toy.ToyPolicyConfig(nstep=3, model=toy.NetConfig(width=5))
    compiled = build({**least(), "policy": policy})
    assert (compiled.policy.type, compiled.policy.nstep) == ("toy", 3)
    assert compiled.policy.model == toy.NetConfig(type="net", width=5)


class TestOneSection:
    """A component made by hand takes a plain dict of its own options."""

    def test_options_are_checked_like_in_a_whole_config(self, registry: Any) -> None:
        assert compile_section(toy.HeapConfig, {"alpha": 1}) == toy.HeapConfig(alpha=1.0)
        assert problems_of(
            compile_section, toy.HeapConfig, {"alpa": 1, "alpha": 2}, registry=registry
        ) == (
            "alpa: HeapConfig has no option 'alpa'; did you mean 'alpha'?",
            "alpha: must be <= 1, got 2.0",
        )
        with pytest.raises(ConfigError, match="alpha: no priority at all; use a ring"):
            compile_section(toy.HeapConfig, {"alpha": 0})

    def test_of_a_policy_short_forms_work_and_open_slots_stay_empty(self, registry: Any) -> None:
        options = {"batch_size": 5, "learn": {"nstep": 3}, "cfg_type": "ToyPolicyConfig"}
        section = compile_section(toy.ToyPolicyConfig, options, registry=registry)
        assert (section.learn.batch_size, section.nstep) == (5, 3)
        assert section.model == toy.NetConfig(type="net", width=16)
        assert section.learn.learner is None
        with pytest.raises(
            ConfigError, match=r"policy.learn.bach_size: .* did you mean 'batch_size'"
        ):
            compile_section(toy.ToyPolicyConfig, {"learn": {"bach_size": 5}}, registry=registry)

    def test_what_must_be_given_must_be_given(self, registry: Any) -> None:
        with pytest.raises(ConfigError, match=r"^env.env_id: must be given: id of the env"):
            compile_section(toy.ProviderConfig, {"stop_value": 1, "n_evaluator_episode": 1})
        open_ = compile_section(toy.EvaluatorConfig, {"n_episode": 3})
        assert open_.n_episode == 3


def test_compiling_takes_milliseconds(build: Any) -> None:
    build(preset="pole_toy")
    times = []
    for _ in range(5):
        start = time.process_time()
        build(preset="pole_toy")
        times.append(time.process_time() - start)
    assert min(times) < 0.02


def test_importing_config_imports_nothing_heavy() -> None:
    code = (
        "import sys, dicore.config;"
        "heavy = {'numpy', 'torch', 'yaml', 'gymnasium', 'pluggy', 'click', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert printed(code).strip() == "[]"


def test_the_process_registry_is_the_default() -> None:
    with pytest.raises(ConfigError, match="no policy named 'surely_not_installed'"):
        compile_config({"policy": "surely_not_installed"})
