"""The config and the task of the tests of middleware."""

from tests.plugins.middleware.conftest import make, running

__all__ = ["make", "running"]
