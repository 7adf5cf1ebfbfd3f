"""The preset role: a whole config under one name, below everything that a person writes."""

from __future__ import annotations

from dicore_registry import Kind

KIND = Kind(
    name="preset",
    summary="a whole config by name: what an env and an algorithm need to work together",
)
