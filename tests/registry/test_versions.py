"""Versions, ranges, requirements and markers, against `packaging` where it reads the same text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.version import Version as PackagingVersion

from dicore_registry.requirements import Requirement, Version, dist_name, fits, satisfies

numbers = st.integers(0, 3).map(str)
releases = st.lists(numbers, min_size=1, max_size=3).map(".".join)
suffixes = st.sampled_from(
    ["", "a1", "b2", "rc1", ".post1", "-1", ".dev2", "rc1.dev0", ".post2.dev1", "c0", "-alpha.2"]
)
locals_ = st.sampled_from(["", "", "", "+cpu", "+cu12.1", "+1"])
epochs = st.sampled_from(["", "", "", "1!"])
versions = st.builds(lambda *parts: "".join(parts), epochs, releases, suffixes, locals_)
bounds = st.builds(lambda *parts: "".join(parts), epochs, releases, suffixes)
clauses = st.one_of(
    st.builds(
        lambda sign, bound: sign + bound,
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        bounds,
    ),
    st.builds(lambda sign, release: f"{sign}{release}.*", st.sampled_from(["==", "!="]), releases),
    st.builds(lambda release, last: f"~={release}.{last}", releases, numbers),
)


@given(versions, versions)
def test_versions_are_ordered_as_packaging_orders_them(one: str, other: str) -> None:
    assert (Version(one).key < Version(other).key) == (
        PackagingVersion(one) < PackagingVersion(other)
    )


@given(versions, st.lists(clauses, min_size=1, max_size=2).map(",".join))
def test_ranges_hold_where_packaging_says_so(version: str, specifier: str) -> None:
    expected = SpecifierSet(specifier).contains(version, prereleases=True)
    assert satisfies(version, specifier) == expected


@pytest.mark.parametrize("text", ["", "one", "1.x", "1..2", "dev"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Version(text)


def test_what_cannot_be_compared_is_let_through() -> None:
    assert fits("unknown", ">=1")
    assert fits("1.0", "weird")
    assert not fits("1.0", ">=1.1")


@pytest.mark.parametrize(
    ("text", "name", "extras", "specifier", "marker"),
    [
        ("numpy", "numpy", (), "", ""),
        ("Ale_Py>=0.8", "ale-py", (), ">=0.8", ""),
        ("dicore (<0.2,>=0.1)", "dicore", (), "<0.2,>=0.1", ""),
        (
            "gymnasium[box2d, Mu_Joco] >= 1.0, < 2",
            "gymnasium",
            ("box2d", "mu-joco"),
            ">=1.0,<2",
            "",
        ),
        ('x>=1; extra == "a"', "x", (), ">=1", 'extra == "a"'),
        ("x @ https://host/x.whl ; os_name == 'nt'", "x", (), "", "os_name == 'nt'"),
    ],
)
def test_requirements_are_read(
    text: str, name: str, extras: tuple[str, ...], specifier: str, marker: str
) -> None:
    assert Requirement.parse(text) == Requirement(name, extras, specifier, marker)


def test_a_line_that_is_no_requirement_is_none() -> None:
    assert Requirement.parse(">=1") is None


MARKERS = [
    'extra == "fast"',
    "extra == 'other'",
    'python_version >= "3.8"',
    'python_version < "3.8"',
    'python_version >= "3.8" and extra == "fast"',
    'python_version < "3.8" or extra == "fast"',
    '(python_version < "3.8" or sys_platform != "win32") and extra == "fast"',
    'sys_platform == "win32" or (extra == "fast" and os_name == "posix")',
    'python_version in "3.8 3.11 3.12"',
    'python_version not in "3.8 3.9"',
    'implementation_name == "cpython"',
    'python_full_version >= "3.11.0"',
    '"linux" in sys_platform',
    'extra == "fast" or extra == "other"',
]


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("extra", ["", "fast", "other"])
def test_markers_hold_where_packaging_says_so(marker: str, extra: str) -> None:
    requirement = Requirement.parse(f"x; {marker}")
    assert requirement is not None
    assert requirement.applies(extra) == Marker(marker).evaluate({"extra": extra})


@pytest.mark.parametrize("marker", ["extra ==", "(extra == 'a'", "moon == 'full'", "'a' or", "%"])
def test_a_marker_that_cannot_be_read_does_not_apply(marker: str) -> None:
    requirement = Requirement("x", (), "", marker)
    assert not requirement.applies("a")


def test_extras_are_told_from_what_is_always_wanted() -> None:
    assert Requirement("x", (), "", 'extra == "fast"').only_for("fast")
    assert not Requirement("x", (), "", 'extra == "fast"').only_for("other")
    assert not Requirement("x", (), "", "").only_for("fast")
    assert not Requirement("x", (), "", 'extra == "fast" or os_name != ""').only_for("fast")


def test_names_are_compared_as_the_index_does() -> None:
    assert {dist_name(name) for name in ("Acme_RL", "acme.rl", "ACME--rl")} == {"acme-rl"}
