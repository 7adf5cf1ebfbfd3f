"""A registry of one's own for a test: what else is installed is not seen, and nothing is left."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager

from dicore_registry import Registry, using

__all__ = ["isolated_registry"]


@contextmanager
def isolated_registry(*dists: str) -> Iterator[Registry]:
    """Limits the registry to dicore and the given packages during a block.

        @pytest.fixture
        def registry():
            with isolated_registry("my-package") as registry:
                yield registry

    Args:
        *dists: Installed distributions to include besides dicore.

    Raises:
        importlib.metadata.PackageNotFoundError: one of them is not installed.
    """
    found = [importlib.metadata.distribution(name) for name in ("dicore", *dists)]
    with using(Registry(found, environ={})) as registry:
        yield registry
