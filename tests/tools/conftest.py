"""What tests of the tools share."""

from tests.core.run.conftest import toys

__all__ = ["toys"]
