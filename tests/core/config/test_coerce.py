"""How a constructor called by hand takes its options."""

from __future__ import annotations

import pytest

from dicore.config import as_config
from dicore.errors import ConfigError
from tests.core.config import toy_parts as toy


def test_a_section_a_dict_and_nothing_are_all_options() -> None:
    section = toy.RingConfig(size=3)
    assert as_config(section, toy.RingConfig) is section
    assert as_config({"size": 3}, toy.RingConfig) == section
    assert as_config(None, toy.RingConfig) == toy.RingConfig()


def test_a_foreign_section_passes_for_its_options() -> None:
    foreign = toy.TableConfig()
    assert as_config(foreign, toy.RingConfig) is foreign  # type: ignore[comparison-overlap]


def test_a_dict_is_checked() -> None:
    with pytest.raises(
        ConfigError, match="siz: RingConfig has no option 'siz'; did you mean 'size'"
    ):
        as_config({"siz": 3}, toy.RingConfig)
