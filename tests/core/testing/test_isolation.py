"""A registry of one's own for a test."""

from __future__ import annotations

import importlib.metadata

import pytest

from dicore.testing import isolated_registry
from dicore_registry import default, register


def test_only_what_was_named_is_seen_and_nothing_is_left() -> None:
    before = default()
    with isolated_registry() as registry:
        assert default() is registry
        assert {entry.dist for entry in registry.entries()} == {"dicore"}
        assert not registry.entries("policy")

        @register("policy", "dqn")
        class Mine:
            """A policy of this test."""

        assert registry.resolve("policy", "dqn").target is Mine
    assert default() is before
    assert before.find("policy", "dqn").dist == "dicore-plugins"


def test_more_packages_are_named() -> None:
    with isolated_registry("dicore-plugins") as registry:
        assert {entry.dist for entry in registry.entries()} == {"dicore", "dicore-plugins"}
    with pytest.raises(importlib.metadata.PackageNotFoundError), isolated_registry("no-such-dist"):
        pass
