"""A section with other defaults, and what a section requires of its options."""

from __future__ import annotations

import pickle  # noqa: TID251 - of what this process wrote
from typing import Any, ClassVar

import cloudpickle
import pytest

from dicore.config import OtherConfig, default_config, frozen, option, section
from dicore.config.checks import run_checks
from dicore.config.layers import Problems
from dicore.config.schema import Section, component, fields_of, required_by
from dicore.errors import UsageError


@frozen(kw_only=True)
class Eps(Section):
    """A schedule."""

    start: float = option(0.9, "first", ge=0, le=1)
    decay: int = option(10, "length", ge=1)
    names: list[str] = option(["a"], "of things")


@frozen(kw_only=True)
class Exploring(OtherConfig):
    """Options of exploration."""

    eps: Eps = section(Eps, "how it explores")


@frozen(kw_only=True)
class Quiet(Section):
    """A section of others."""

    requires: ClassVar[Any] = {
        "other.eps.decay": (10, "counts to ten; set it to 10"),
        "first": (1, "begins with one"),
    }

    first: int = option(1, "a number")
    other: Exploring = section(
        Exploring,
        eps={"start": 0.0, "names": ["b"]},
        replay_buffer={"type": "advanced", "alpha": 0.5},
    )
    named: Eps = section(Eps, decay=option(3, "how often", ge=3))


@frozen(kw_only=True)
class Loud(Quiet):
    """Lifts two rules: one by name, one by another default."""

    requires: ClassVar[Any] = {"first": None}

    other: Exploring = section(type(Quiet().other), eps={"decay": 7})


@frozen(kw_only=True)
class Stern(Loud):
    """Requires another value than the default that it inherits."""

    requires: ClassVar[Any] = {"first": (2, "begins with two")}


def test_values_replace_defaults_at_any_depth_and_leave_the_class_as_it_was() -> None:
    made = Quiet()
    assert (made.other.eps.start, made.other.eps.decay, made.other.eps.names) == (0.0, 10, ["b"])
    assert (Eps().start, Eps().names) == (0.9, ["a"])
    assert isinstance(made.other, Exploring)
    assert isinstance(made.other.eps, Eps)
    made.other.eps.names.append("c")
    assert Quiet().other.eps.names == ["b"], "each has a list of its own"


def test_help_ranges_and_slots_are_those_of_the_class_unless_an_option_says_more() -> None:
    other = fields_of(type(Quiet().other))
    assert other["eps"].metadata["help"] == "how it explores"
    assert other["replay_buffer"].metadata["component_default"]["alpha"] == 0.5
    assert other["replay_buffer"].declared_by == "Exploring"
    with pytest.raises(ValueError, match="must be <= 1, got 2"):
        type(Quiet().other.eps)(start=2.0)
    named = fields_of(type(Quiet().named))["decay"]
    assert (named.metadata["help"], named.default()) == ("how often", 3)
    with pytest.raises(ValueError, match="must be >= 3, got 1"):
        type(Quiet().named)(decay=1)
    assert default_config(Quiet)["other"]["eps"]["start"] == 0.0


@frozen(kw_only=True)
class Further(type(Quiet().named)):  # type: ignore[misc] # a class of a value
    """Derived from a class with other defaults."""

    more: int = option(1, "an option of its own")


@pytest.mark.parametrize("by", [pickle, cloudpickle])
def test_a_copy_in_another_process_is_equal(by: Any) -> None:
    made = Quiet()
    again = by.loads(by.dumps(made))
    assert again == made
    assert type(again.named) is type(made.named)
    assert by.loads(by.dumps(Loud())) == Loud(), "of defaults in place of defaults"
    assert by.loads(by.dumps(Further(more=5))) == Further(more=5)


def test_a_name_that_the_class_lacks_and_a_default_of_another_type_are_told() -> None:
    with pytest.raises(TypeError, match="Eps has no option 'stop'"):
        section(Eps, stop=1)
    with pytest.raises(TypeError, match="Eps has no such default: decay: expected int, got str"):
        section(Quiet, other={"eps": {"decay": "many"}})


@pytest.mark.parametrize(("hint", "default"), [("int", "3"), ("str | None", 3), ("bool", 1)])
def test_a_default_of_another_type_is_told_where_the_class_is_made(
    hint: str, default: object
) -> None:
    body = {"__annotations__": {"size": hint}, "size": option(default, "how many")}
    made = type("Wrong", (Section,), body)
    with pytest.raises(TypeError, match=rf"Wrong has no such default: size: expected {hint[:3]}"):
        frozen(kw_only=True)(made)


def told(cfg: Section) -> list[str]:
    problems = Problems()
    run_checks(cfg, problems)
    return [f"{path}: {message}" for path, message, *_ in problems.found]


def test_what_is_required_is_told_and_a_subclass_may_lift_it() -> None:
    assert told(Quiet()) == []
    other = Exploring(eps=Eps(decay=11))
    assert told(Quiet(first=2, other=other)) == [
        "other.eps.decay: Quiet counts to ten; set it to 10",
        "first: Quiet begins with one",
    ]
    assert told(Loud(first=2)) == []
    assert required_by(Loud) == {}
    assert told(Stern()) == ["first: Stern begins with two"]


def test_a_slot_may_be_overridden_by_a_component() -> None:
    made = section(Exploring, replay_buffer=component("buffer", default="ring", help="a ring"))
    facts = fields_of(made.metadata["section"])["replay_buffer"].metadata
    assert (facts["component_default"], facts["help"]) == ("ring", "a ring")


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"first": 1}, r"Odd.requires\['first'\]: expected a value and why, or None, got 1"),
        ({"other.epss.decay": (1, "has one")}, "Odd.requires: it has no option 'other.epss.decay'"),
    ],
)
def test_a_rule_without_a_reason_or_an_option_is_told(rules: Any, problem: str) -> None:
    @frozen(kw_only=True)
    class Odd(Quiet):
        """A wrong rule."""

        requires: ClassVar[Any] = rules

    with pytest.raises(UsageError, match=problem):
        told(Odd())
