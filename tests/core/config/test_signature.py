"""A plain class or function says what it takes by its typed parameters."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from dicore.config import EnvConfig, compile_section, config_class
from dicore.config.schema import REQUIRED, ComponentConfig, fields_of, label_of
from dicore.errors import ConfigError
from tests.core.config import toy_parts as toy

if TYPE_CHECKING:
    from nowhere import Missing


def own(cls: type[ComponentConfig]) -> dict[str, tuple[Any, Any, str]]:
    base = fields_of(EnvConfig if issubclass(cls, EnvConfig) else ComponentConfig)
    return {
        name: (field.hint, field.default(), field.metadata["help"])
        for name, field in fields_of(cls).items()
        if name not in base
    }


def test_options_types_defaults_and_meanings_come_from_the_signature() -> None:
    cls = config_class(toy.Countdown, "env")
    assert own(cls) == {
        "start": (int, 5, "Number to begin with."),
        "penalty": (float, 0.01, "Lost by waiting, per step."),
        "names": (list[str] | None, None, ""),
        "verbose": (bool, False, ""),
    }
    assert cls.__doc__ is not None
    assert cls.__doc__.startswith("Counts down to zero.")
    assert label_of(cls) == "Countdown"


def test_an_env_takes_what_every_env_takes_and_is_built_with_its_own_options(build: Any) -> None:
    env = {"type": "countdown", "start": 3, "stop_value": 1, "n_evaluator_episode": 2}
    compiled = build(
        {"env": {**env, "collector_env_num": 2, "manager": "workers"}, "policy": "toy"}
    )
    assert compiled.env.manager.type == "workers"
    assert compiled.env.collector_env_num == 2
    built = compiled.env.build(None)
    assert type(built) is toy.Countdown
    assert (built.start, built.penalty) == (3, 0.01)
    with pytest.raises(ConfigError, match=r"^env.start: expected int, got float 2.5\n"):
        build({"env": {**env, "start": 2.5}, "policy": "toy"})
    with pytest.raises(ConfigError, match=r"option 'rng'; make 'rng' a parameter"):
        build({"env": {**env, "rng": 3}, "policy": "toy"})


class Open:
    """Takes more."""

    def __init__(self, size: int = 3, **more: Any) -> None: ...


def test_what_two_stars_take_is_no_option() -> None:
    for key, said in (
        ("max_steps", "make 'max_steps' a parameter"), ("siez", "did you mean 'size'"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            compile_section(config_class(Open, "env"), {key: 3})


def test_the_class_is_made_once_per_target() -> None:
    assert config_class(toy.Countdown, "env") is config_class(toy.Countdown, "env")
    assert not issubclass(config_class(toy.Countdown, "wrapper"), EnvConfig)


def test_parts_are_handed_over_at_building() -> None:
    cls = config_class(wraps, "env_wrapper")
    assert own(cls).keys() == {"noop_max", "mode", "size"}
    assert fields_of(cls)["size"].default() is REQUIRED
    config = compile_section(cls, {"size": 3, "mode": "b"})
    assert config.build(None, env="env") == ("env", 30, "b", 3)
    with pytest.raises(ConfigError, match=r"^size: must be given: size$"):
        compile_section(cls, {})


def wraps(
    env: Missing,
    noop_max: int = 30,
    *more: int,
    mode: Literal["a", "b"] = "a",
    size: int,
    rng: Missing | None = None,
    _hidden: int = 1,
    **rest: Any,
) -> tuple[Any, ...]:
    """Wraps."""
    return env, noop_max, mode, size


@dataclass
class Point:
    """A dataclass, whose constructor is generated.

    Args:
        x: Across.
    """

    x: int
    y: float = 0.5

    def sum(self) -> float:
        return self.x + self.y


def test_generated_constructors_are_read_too() -> None:
    config = compile_section(config_class(Point, "hook"), {"x": 3})
    assert config.build(None).sum() == 3.5


def test_mutable_defaults_and_values_are_not_shared() -> None:
    cls = config_class(keeps, "hook")
    first, second = cls(), cls()
    first.build(None).append(3)
    assert second.names == first.names == []


def keeps(names: list[int] = []) -> list[int]:  # noqa: B006 - what strangers write
    return names


def none_by_default(size: int = None) -> int | None:  # type: ignore[assignment] # noqa: RUF013
    return size


def test_none_as_default_is_a_value() -> None:
    cls = config_class(none_by_default, "hook")
    assert compile_section(cls, {"size": None}) == cls()


def bad(keys: int = 3) -> None:
    """Has a name that sections need."""


def test_a_name_that_every_section_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="bad: a parameter cannot be called 'keys'"):
        config_class(bad, "hook")


def test_a_class_that_names_its_config_class_has_that_one() -> None:
    assert config_class(toy.ToyPolicy, "policy") is toy.ToyPolicyConfig
    assert config_class(toy.ToyPolicyConfig, "policy") is toy.ToyPolicyConfig


class DerivedPolicy(toy.ToyPolicy):
    """Derives from a component and changes something of it."""

    def __init__(self, cfg: Any, **parts: Any) -> None:
        self.cfg, self.parts = cfg, parts


def test_a_class_that_inherits_its_options_is_the_one_that_is_built() -> None:
    cls: Any = config_class(DerivedPolicy, "policy")
    assert config_class(DerivedPolicy, "policy") is cls
    assert issubclass(cls, toy.ToyPolicyConfig)
    assert [*fields_of(cls)] == [*fields_of(toy.ToyPolicyConfig)]
    section = cls(type="derived", nstep=3)
    made = section.build(None, model="given")
    assert type(made) is DerivedPolicy
    assert (made.cfg, made.cfg.nstep, made.parts) == (section, 3, {"model": "given"})
    assert ForkingPickler.loads(ForkingPickler.dumps(section)) == section


class Manager:
    """Takes its options second, as env managers do."""

    config_class = toy.ToyPolicyConfig

    def __init__(self, env_fn: Any, cfg: Any = None) -> None:
        self.env_fn, self.cfg = env_fn, cfg


class DerivedManager(Manager):
    """Derives from a component whose options are not its first argument."""


def test_inherited_options_need_not_be_the_first_argument() -> None:
    section: Any = config_class(DerivedManager, "env_manager")(type="derived")
    made = section.build(None, env_fn=[dict])
    assert (type(made), made.env_fn, made.cfg) == (DerivedManager, [dict], section)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="hook 3 is neither a class nor a function"):
        config_class(3, "hook")


def test_it_crosses_a_process_border() -> None:
    made: Any = config_class(toy.Countdown, "env")(type="countdown", start=3, stop_value=1.0)
    again = ForkingPickler.loads(ForkingPickler.dumps(made))
    assert again == made
    assert type(again) is type(made)


def scaled(
    env: object, low: np.floating | np.integer | np.ndarray, count: np.integer | int = 1
) -> None:
    """Annotated as the bounds of gymnasium's RescaleAction are."""


def test_scalars_of_numpy_are_numbers() -> None:
    cls: Any = config_class(scaled, "env_wrapper")
    assert compile_section(cls, {"low": -1}).low == -1
    found = compile_section(cls, {"low": -0.5, "count": 3})
    assert (found.low, found.count) == (-0.5, 3)
    with pytest.raises(ConfigError, match="low: expected float or int"):
        compile_section(cls, {"low": "much"})
