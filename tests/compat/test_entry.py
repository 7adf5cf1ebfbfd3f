"""FEATURES E17: the seeds' entry, with classes by hand or from a create_config."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dicore.config import compile_config as compile_sources
from dicore.config import default_config, frozen, read_config
from dicore.config.sections import PolicyConfig
from dicore.deprecation import DicoreDeprecationWarning
from dicore.errors import ConfigError, MissingPackageError, UsageError
from dicore_compat.entry import compile_config
from dicore_registry import Registry, using
from tests.core.config import toy_parts as toy
from tests.core.config.conftest import problems_of, registry
from tests.registry.world import World

__all__ = ["registry"]

MAIN = {
    "env": {"stop_value": 475, "n_evaluator_episode": 10, "manager": {"workers": 3}},
    "policy": {"nstep": 2, "other": {"replay_buffer": {"alpha": 0.5}}},
}
CREATE = {
    "env": {"type": "pole"},
    "env_manager": {"type": "workers"},
    "policy": {"type": "toy"},
    "learner": {"type": "plain"},
    "collector": {"type": "sample"},
    "evaluator": {"type": "episodes"},
    "replay_buffer": {"type": "heap"},
}
CLASSES = {
    "env": toy.PoleEnvConfig,
    "env_manager": toy.WorkersManager,
    "policy": toy.ToyPolicy,
    "learner": toy.LearnerConfig,
    "collector": toy.CollectorConfig,
    "evaluator": toy.EvaluatorConfig,
    "buffer": toy.HeapConfig,
}


@pytest.fixture
def build(registry: Registry) -> Any:
    return partial(compile_config, registry=registry)


def test_the_old_place_takes_the_same_calls_and_warns(registry: Registry) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), CLASSES),
        ((toy.WorkersManager, toy.ToyPolicy), {"env": toy.PoleEnvConfig, "buffer": "heap"}),
        ((), {"create_cfg": CREATE}),
    ]
    for args, kwargs in calls:
        with pytest.warns(DicoreDeprecationWarning, match=r"dicore_compat\.entry") as told:
            old = compile_sources(MAIN, *args, seed=3, registry=registry, **kwargs)
        assert [each.filename for each in told] == [__file__]
        assert old == compile_config(MAIN, *args, seed=3, registry=registry, **kwargs)
        assert old.seed == 3


def test_without_this_package_the_old_place_names_it(tmp_path: Path) -> None:
    world = World(tmp_path / "site", tmp_path / "house")
    world.own("dicore")
    text = "'compile_config with policy' comes with dicore-compat: pip install dicore-compat"
    with using(world.registry()), pytest.raises(MissingPackageError, match=text):
        compile_sources({"env": "cartpole"}, policy="dqn")


def test_hand_and_auto_give_the_same(build: Any) -> None:
    auto = build(MAIN, seed=3, auto=True, create_cfg=CREATE)
    by_hand = build(MAIN, seed=3, **CLASSES)
    assert auto.cfg == by_hand.cfg
    assert auto.origin == by_hand.origin
    assert auto.components == by_hand.components
    assert auto.policy.other.replay_buffer == toy.HeapConfig(type="heap", alpha=0.5)


def test_classes_by_position_stand_in_the_seeds_order(build: Any) -> None:
    order = ["env_manager", "policy", "learner", "collector", "evaluator", "buffer", "env"]
    by_position = build(MAIN, *(CLASSES[name] for name in order), seed=3)
    assert by_position.cfg == build(MAIN, seed=3, **CLASSES).cfg


def test_what_has_no_place_by_position_is_refused(build: Any) -> None:
    """DI-engine's seed follows the classes; by position it would be lost."""
    with pytest.raises(UsageError, match="seed and what follows by name"):
        build(MAIN, *[None] * 9, 3)
    with pytest.raises(UsageError, match="each part once"):
        build(MAIN, toy.WorkersManager, env_manager="base")


def test_none_by_position_leaves_a_part_to_the_config(build: Any) -> None:
    """`compile_config(cfg, None, Policy)`: no class for the env manager, one for the policy."""
    main = {**MAIN, "env_manager": "workers"}
    compiled = build(main, None, toy.ToyPolicy, env=toy.PoleEnvConfig, buffer="heap")
    assert compiled.policy.type == "toy"


def test_a_class_by_hand_wins_over_the_create_config(build: Any) -> None:
    main = {**MAIN, "policy": {}}
    create = {**CREATE, "replay_buffer": {"type": "heap", "alpha": 0.25}}
    ring, heap, none = (
        build(main, create_cfg=create, buffer=cls).policy.other.replay_buffer
        for cls in (toy.RingConfig, toy.HeapConfig, None)
    )
    assert ring == toy.RingConfig(type="ring")
    assert heap == none == toy.HeapConfig(type="heap", alpha=0.25)


def test_without_auto_the_create_config_is_not_looked_at(build: Any) -> None:
    with pytest.raises(ConfigError, match="policy: missing 'type'"):
        build({"env": MAIN["env"]}, create_cfg=CREATE, auto=False, env=toy.PoleEnvConfig)


def test_a_create_config_by_both_of_its_names_is_a_wrong_call(build: Any) -> None:
    with pytest.raises(UsageError, match="create_cfg is another name of create"):
        build(MAIN, CREATE, create_cfg=CREATE)


def test_an_unknown_part_is_a_wrong_call(build: Any) -> None:
    with pytest.raises(UsageError, match="compile_config: no part 'bufer'"):
        build(MAIN, bufer=toy.RingConfig)


def test_a_class_without_a_name_is_refused(build: Any) -> None:
    @frozen(kw_only=True)
    class Nameless(PolicyConfig):
        """Of a script."""

    (problem,) = problems_of(
        build, MAIN, policy=Nameless, env=toy.PoleEnvConfig, env_manager="workers", buffer="heap"
    )
    assert problem.startswith("policy.type: policy class ")
    assert problem.endswith('; register it: @register("policy", "nameless") above the class')


def test_a_derived_class_is_not_taken_for_the_one_above_it(build: Any) -> None:
    """The config class that it inherits has a name; it has none."""

    class Derived(toy.ToyPolicy):
        """Of a script."""

    with pytest.raises(ConfigError, match=r"policy class .*Derived has no name"):
        build(MAIN, policy=Derived, env=toy.PoleEnvConfig, env_manager="workers", buffer="heap")


def test_an_importable_class_that_is_not_registered_is_named_by_its_path(build: Any) -> None:
    compiled = build({**MAIN, "policy": {}}, CREATE, policy=toy.LatePolicyConfig, buffer="ring")
    assert compiled.policy.type.endswith((":LatePolicyConfig", "late_toy"))


def test_default_configs_are_accepted_as_they_are(build: Any, registry: Any) -> None:
    """Also where the create_config fills a slot with another component than they do."""
    with using(registry):
        main = {**MAIN, "policy": {**default_config(toy.ToyPolicy), "nstep": 2}}  # type: ignore[arg-type]
    assert main["policy"]["other"]["replay_buffer"]["type"] == "ring"
    policy = build(main, CREATE).policy
    assert (policy.nstep, policy.other.replay_buffer.type) == (2, "heap")


def test_the_compiled_config_is_saved_on_request(build: Any, tmp_path: Any) -> None:
    compiled = build({**MAIN, "exp_name": str(tmp_path / "a")}, CREATE, save_cfg=True)
    assert read_config(tmp_path / "a/config.json")[0]["policy"]["nstep"] == 2
    build(MAIN, CREATE, save_cfg=True, save_path=tmp_path / "b" / "total_config.py")
    assert build(tmp_path / "b/formatted_total_config.py").policy == compiled.policy
    named = build(
        {**MAIN, "exp_name": str(tmp_path / "d")}, CREATE, save_cfg=True, save_path="t.py"
    )
    assert named.exp_name == str(tmp_path / "d")
    assert (tmp_path / "d/total_config.py").is_file()
    build(MAIN, CREATE, save_path=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_config_that_is_saved_already_is_left_alone_unless_wished(
    build: Any, tmp_path: Any
) -> None:
    """E16, E17: `renew_dir`."""
    main = {**MAIN, "exp_name": str(tmp_path / "a")}
    first = build(main, CREATE, save_cfg=True)
    second = build(main, CREATE, save_cfg=True, seed=1)
    assert (first.exp_name, second.exp_name) == (str(tmp_path / "a"), str(tmp_path / "a-1"))
    assert read_config(tmp_path / "a/config.json")[0]["seed"] == 0
    assert read_config(tmp_path / "a-1/config.json")[0]["exp_name"] == str(tmp_path / "a-1")
    over = build(main, CREATE, save_cfg=True, seed=2, renew_dir=False)
    assert over.exp_name == str(tmp_path / "a")
    assert read_config(tmp_path / "a/config.json")[0]["seed"] == 2
