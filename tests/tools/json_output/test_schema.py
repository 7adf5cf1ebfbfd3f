"""JSON Schema made from types, and what a page says of them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

import jsonschema
import pytest

from dicore_tools.json_output.schema import json_schema, members, summaries


class Leaf(TypedDict):
    """A leaf."""

    size: Annotated[float | None, "in metres"]
    colour: NotRequired[Literal["red", "green"]]


class Tree(TypedDict):
    """A tree."""

    leaves: Annotated[list[Leaf], "all of them"]
    below: NotRequired[dict[str, Tree]]
    any: object


def valid(value: object, *, closed: bool = False) -> bool:
    schema = json_schema(Tree, closed=closed)
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    "value",
    [
        {"leaves": [], "any": [1]},
        {"leaves": [{"size": 1}, {"size": None, "colour": "red"}], "any": None},
        {"leaves": [], "any": 1, "below": {"x": {"leaves": [], "any": 2}}},
        {"leaves": [], "any": 1, "more": "of a later version"},
    ],
)
def test_what_has_the_type_passes(value: object) -> None:
    assert valid(value)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"leaves": []},
        {"leaves": [{}], "any": 1},
        {"leaves": [{"size": "large"}], "any": 1},
        {"leaves": [{"size": 1, "colour": "blue"}], "any": 1},
        {"leaves": [], "any": 1, "below": {"x": {}}},
    ],
)
def test_what_has_another_type_does_not(value: object) -> None:
    assert not valid(value)


def test_a_closed_schema_refuses_members_that_are_not_declared() -> None:
    assert not valid({"leaves": [], "any": 1, "more": 1}, closed=True)
    assert valid({"leaves": [], "any": 1}, closed=True)


def test_members_have_path_type_and_description() -> None:
    assert [*members(list[Leaf])] == [
        ("[].size", "number or null", "in metres"),
        ("[].colour", '"red" or "green"', ""),
    ]
    assert ("leaves[].size", "number or null", "in metres") in [*members(dict[str, Leaf] | Box)]


class Box(TypedDict):
    """A box."""

    leaves: list[Leaf]


def test_summaries_are_those_of_all_it_may_be() -> None:
    assert summaries(list[Leaf] | Box) == ["An array: a leaf.", "A box."]


def test_a_type_that_json_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="bytes"):
        json_schema(list[bytes])
