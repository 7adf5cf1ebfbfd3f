"""The preset role: a named config, overridden by files and the command line."""

from __future__ import annotations

from dicore_registry import Kind

KIND = Kind(
    name="preset",
    summary="provides a tuned config for an environment and an algorithm",
    use="dicore train {name}",
)
