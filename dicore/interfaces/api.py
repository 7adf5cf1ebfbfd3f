"""The api role: a public name that a package adds to `dicore`, as `from dicore import Agent`."""

from __future__ import annotations

from dicore_registry.kind import Kind

KIND = Kind(
    name="api",
    summary="a public Python name: `from dicore import <name>`",
)
