"""How a component takes its options by hand: a compiled section, a plain dict, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dicore.config.declare import ComponentConfig

C = TypeVar("C", bound=ComponentConfig)


def as_config(cfg: C | Mapping[str, Any] | None, config_class: type[C]) -> C:
    """Returns a section as it is, and compiles a plain dict of options into one.

    Args:
        cfg: A section (of a compiled config, or made by hand), a dict of options, or None for all
            defaults.
        config_class: The section's class.

    Raises:
        ConfigError: the dict has unknown keys or wrong values.
    """
    if isinstance(cfg, ComponentConfig):
        return cfg  # also a foreign class of equal options
    from dicore.config.compile import compile_section

    return compile_section(config_class, cfg or {})
