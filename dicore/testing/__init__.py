"""Conformance suites for every role, and the fakes they use; for component authors too.

`from dicore.testing import parametrize` runs all suites over a package's components; the suite of
one role is `dicore.testing.<role>`. `isolated_registry` keeps what else is installed out of a test.
"""

from dicore.testing.checks import Check, checks_of, parametrize
from dicore.testing.isolation import isolated_registry
from dicore.testing.suite import Suite

__all__ = ["Check", "Suite", "checks_of", "isolated_registry", "parametrize"]
