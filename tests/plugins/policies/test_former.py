"""Names of config classes that became defaults of a section."""

from __future__ import annotations

import pytest

from dicore.deprecation import DicoreDeprecationWarning
from dicore_plugins import policies
from dicore_plugins.policies.former import FORMER


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_warns_and_leads_to_the_class_in_its_place(name: str) -> None:
    with pytest.warns(DicoreDeprecationWarning, match=rf"{name} is deprecated .* section\("):
        cls = getattr(policies, name)
    owner, *path = FORMER[name].split(".")
    value = getattr(policies, owner)()
    for key in path:
        value = getattr(value, key)
    assert type(value) is cls


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchConfig'"):
        _ = policies.NoSuchConfig  # type: ignore[attr-defined]
