"""Host lists of Slurm."""

from __future__ import annotations

import pytest

from dicore.errors import UsageError
from dicore_dist.links.slurm import hosts_of


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("10-10-10-[11-12]", ["10-10-10-11", "10-10-10-12"]),
        ("10-10-10-10", ["10-10-10-10"]),
        ("a,b-[1,3-4],c", ["a", "b-1", "b-3", "b-4", "c"]),
        ("n[08-10]x", ["n08x", "n09x", "n10x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_ranges_are_expanded(text: str, hosts: list[str]) -> None:
    """FEATURES K8."""
    assert hosts_of(text) == hosts


@pytest.mark.parametrize("text", ["", "a[1-2", "a]", "a[2-1]", "a[x]", "a,,b", "a[1-9999999]"])
def test_what_is_not_a_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        hosts_of(text)
