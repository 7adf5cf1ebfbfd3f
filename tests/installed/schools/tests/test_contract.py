"""All components satisfy the contracts of their kinds."""

from dicore.testing import parametrize


@parametrize(dist="schools-rl")
def test_component(check):
    check()
