"""Defaults of a config class, also for older runs, and what a constructor accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dicore.config import as_config, compile_config, default_config, frozen
from dicore.config.writer import write_config
from dicore.errors import ConfigError
from dicore_registry import using
from tests.core.config import toy_parts as toy
from tests.core.config.conftest import least


def test_a_subclass_that_overrides_one_key_keeps_the_others() -> None:
    defaults = default_config(toy.ToyPolicyConfig)
    assert defaults["cfg_type"] == "ToyPolicyConfig"
    assert defaults["learn"]["cfg_type"] == "ToyLearnConfig"
    assert defaults["learn"]["update_per_collect"] == 3
    assert defaults["learn"]["batch_size"] == 64
    assert defaults["model"] == {"type": "net", "width": 16}
    assert list(defaults["learn"])[:2] == ["cfg_type", "batch_size"]


def test_what_must_be_given_is_missing() -> None:
    assert default_config(toy.BarePolicyConfig).keys() & {"on_policy", "type"} == set()
    assert default_config(toy.EvaluatorConfig) == {"cfg_type": "EvaluatorConfig", "batch": 1}
    assert default_config(toy.LearnerConfig)["hook"] == ["log_show"]


def test_a_component_class_gives_those_of_its_config_class() -> None:
    assert default_config(toy.ToyPolicy) == default_config(toy.ToyPolicyConfig)  # type: ignore[arg-type]


def test_each_call_gives_memory_of_its_own() -> None:
    default_config(toy.ToyPolicyConfig)["learn"]["free"]["deep"]["x"] = "spoilt"
    assert default_config(toy.ToyPolicyConfig)["learn"]["free"]["deep"] == {"x": 1}


def test_slots_hold_the_defaults_of_their_default_components(registry: Any) -> None:
    """FEATURES B26."""
    with using(registry):
        defaults = default_config(toy.ToyPolicyConfig)
    assert defaults["other"]["replay_buffer"] == {
        "type": "ring", "cfg_type": "RingConfig", "size": 1000,
    }  # fmt: skip
    assert defaults["learn"]["learner"]["type"] == "plain"
    assert defaults["collect"]["collector"].keys() == {"type", "cfg_type"}, "all follow another"
    assert default_config(toy.BarePolicyConfig)["model"] is None


def test_the_dict_compiles_to_the_defaults(registry: Any, build: Any) -> None:
    with using(registry):
        defaults = default_config(toy.ToyPolicyConfig)
    assert build({**least(), "policy": {"type": "toy", **defaults}}).cfg == build().cfg
    more = {"policy.n_sample": 3, "env.stop_value": 7}
    compiled = build({**least(), "policy": {"type": "toy", **defaults}}, overrides=more)
    assert compiled.cfg == build(overrides=more).cfg


def test_a_section_a_dict_and_nothing_are_all_options() -> None:
    section = toy.RingConfig(size=3)
    assert as_config(section, toy.RingConfig) is section
    assert as_config({"size": 3}, toy.RingConfig) == section
    assert as_config(None, toy.RingConfig) == toy.RingConfig()


def test_a_foreign_section_passes_for_its_options() -> None:
    foreign = toy.TableConfig()
    assert as_config(foreign, toy.RingConfig) is foreign  # type: ignore[comparison-overlap]


def test_a_dict_is_checked() -> None:
    with pytest.raises(
        ConfigError, match="siz: RingConfig has no option 'siz'; did you mean 'size'"
    ):
        as_config({"siz": 3}, toy.RingConfig)


def test_an_option_implies_other_defaults_below_its_section(registry: Any) -> None:
    @frozen(kw_only=True)
    class Implying(toy.ToyPolicyConfig):
        """Learns from larger batches if it has priorities."""

        implies: ClassVar[Any] = {"priority": {"learn": {"batch_size": 7}}}

    with using(registry):
        assert as_config({}, Implying).learn.batch_size == 64
        assert as_config({"priority": False}, Implying).learn.batch_size == 64
        assert as_config({"priority": True}, Implying).learn.batch_size == 7
        assert (
            as_config({"priority": True, "learn": {"batch_size": 9}}, Implying).learn.batch_size
            == 9
        )


def test_options_that_are_newer_than_a_run_are_as_they_were(
    registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run was trained with is in its config; without it, the run is older."""
    monkeypatch.setattr(toy.ToyLearnConfig, "formerly", {"batch_size": 5})
    toys = {**least(), "policy": {"type": "toy"}}

    def size(config: Any, **options: Any) -> int:
        found: int = compile_config(
            config, registry=registry, **options
        ).cfg.policy.learn.batch_size
        return found

    file = write_config(compile_config(toys, registry=registry), tmp_path)
    saved = json.loads(file.read_text())
    assert (size(toys), size(file)) == (64, 64)
    del saved["config"]["policy"]["learn"]["batch_size"]
    file.write_text(json.dumps(saved))
    assert size(file) == 5
    assert size(file, overrides="policy.learn.batch_size=2") == 2
    file.write_text(json.dumps({**toys, "policy": {"type": "toy", "learn": {}}}))
    assert size(file) == 64, "it is written by hand"
