"""Conformance suites for all roles, and the fakes they use, also for component authors.

`from dicore.testing import parametrize` runs all suites over a package's components; the suite of
one role is `dicore.testing.<role>`. `isolated_registry` hides other packages from a test.
"""

from dicore.testing.checks import Check, checks_of, parametrize
from dicore.testing.isolation import isolated_registry
from dicore.testing.suite import Suite

__all__ = ["Check", "Suite", "checks_of", "isolated_registry", "parametrize"]
