"""`get` and `build`: components by registered name, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config import ComponentConfig, compile_section, config_class
from dicore.errors import UsageError
from dicore_registry import default

__all__ = ["build", "get"]


def get(kind: str, name: str) -> Any:
    """Returns what is registered under a name: a config class, a class or a function.

    Args:
        kind: Kind of the component (`dicore list kind`).
        name: Its name (`dicore list KIND`), or an import path.

    Raises:
        UnknownComponentError: no installed package provides it.
        RegistryError: it cannot be used; the message says why.
    """
    return default().resolve(kind, name).target


def build(
    kind: str, cfg: str | Mapping[str, Any] | ComponentConfig, ctx: Any = None, **parts: Any
) -> Any:
    """Builds a component from its name and options: `build("buffer", {"type": "naive"})`.

    Args:
        kind: Kind of the component (`dicore list kind`).
        cfg: Its name, `{"type": name, **options}`, or a section of a compiled config.
        ctx: What a config cannot hold (`dicore.run.BuildContext`): spaces, device, run.
        **parts: The components that it is made from, by role (`env_manager=…`).

    Raises:
        UsageError: `cfg` has no `type`.
        ConfigError: an option is unknown, missing or wrong.
        RegistryError: no installed package provides the component, or it cannot be used.
    """
    from dicore.run.env_factory import BuildContext

    if not isinstance(cfg, ComponentConfig):
        options = {"type": cfg} if isinstance(cfg, str) else dict(cfg)
        name = options.get("type")
        if not isinstance(name, str) or not name:
            raise UsageError(f"{kind}: no name is given", hint=f"set 'type' (dicore list {kind})")
        cfg = compile_section(config_class(get(kind, name), kind), options)
    return cfg.build(BuildContext() if ctx is None else ctx, **parts)
