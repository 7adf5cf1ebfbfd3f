"""Fixtures of the foreign packages."""

from tests.installed.conftest import installed

__all__ = ["installed"]
