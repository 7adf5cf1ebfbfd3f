"""A registry of one's own for a test: nothing installed is in it, and nothing stays behind.

In a `conftest.py`:

    pytest_plugins = ["dicore.testing.registry"]

and then:

    def test_mine(isolated_registry):
        isolated_registry.register("policy", "mine")(Mine)
        assert dicore_registry.default().find("policy", "mine")
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from dicore_registry import Registry, dist_name, using

__all__ = ["isolated", "isolated_registry"]


@contextmanager
def isolated(dists: Iterable[str] = ()) -> Iterator[Registry]:
    """Makes a registry with discovery off the one that everything uses, for the time of a block.

    It knows dicore's kinds and commands; environment and project files say nothing to it.

    Args:
        dists: Names of installed distributions that are to be in it.

    Yields:
        The registry; `@register` in the block registers with it.
    """
    wanted = {"dicore", *map(dist_name, dists)}
    found = [
        dist
        for dist in importlib.metadata.distributions()
        if dist.metadata["Name"] and dist_name(dist.metadata["Name"]) in wanted
    ]
    with using(Registry(found, environ={})) as registry:
        yield registry


@pytest.fixture
def isolated_registry() -> Iterator[Registry]:
    """Gives the test a registry in which nothing but dicore itself is installed."""
    with isolated() as registry:
        yield registry
