"""The options of one component by its registered name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config.compiler import compile_section
from dicore.config.schema import ComponentConfig
from dicore.config.signature import config_class
from dicore.errors import ConfigError
from dicore_registry import default


def section_of(kind: str, cfg: ComponentConfig | Mapping[str, object] | str) -> ComponentConfig:
    """Returns the compiled section of a component.

    Args:
        kind: Its kind: `policy`, `model`, ….
        cfg: A compiled section, which is returned as it is; or `{"type": name, **options}`; or a
            name alone.

    Raises:
        ConfigError: `type` is missing, or an option is unknown or invalid.
        UnknownComponentError: no installed package provides a component of that name.
    """
    if isinstance(cfg, ComponentConfig):
        return cfg
    options = {"type": cfg} if isinstance(cfg, str) else dict(cfg)
    return compile_section(config_class(target_of(kind, options), kind), options)


def target_of(kind: str, cfg: ComponentConfig | Mapping[str, object] | str) -> Any:
    """Returns what a package registered: the class of the options, or the component itself.

    Raises:
        ConfigError: `type` is missing.
        UnknownComponentError: no installed package provides a component of that name.
    """
    name = cfg if isinstance(cfg, str) else cfg.get("type")
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{kind}.type: must be given: the registered name of a {kind}",
            hint=f"set {kind}.type; names: dicore list {kind}",
        )
    return default().resolve(kind, name, where=f"{kind}.type").target
