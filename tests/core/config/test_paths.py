"""Configs by path."""

from __future__ import annotations

from typing import Any

import attrs

from dicore.config.paths import replace


@attrs.frozen
class Part:
    size: int = 1
    parts: tuple[Any, ...] = ()


def test_a_value_below_an_item_of_a_list_is_replaced() -> None:
    whole = Part(1, (Part(2), Part(3, (Part(4), Part(5)))))
    found: Any = replace(whole, ("parts", 1, "parts", 0, "size"), 9)  # type: ignore[type-var] # attrs
    assert found == Part(1, (Part(2), Part(3, (Part(9), Part(5)))))
    found = replace(whole, ("parts", 0, "size"), 8)  # type: ignore[type-var]
    assert found == Part(1, (Part(8), Part(3, (Part(4), Part(5)))))
