"""A small compiled config, as for middleware."""

from tests.plugins.middleware.conftest import make

__all__ = ["make"]
