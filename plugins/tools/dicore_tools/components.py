"""`get` and `build`: components by registered name, for scripts and notebooks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dicore.config import ComponentConfig, compile_section, config_class
from dicore.config.schema import fields_of
from dicore.config.signature import SignatureConfig
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
        cfg: Its name, `{"type": name, **options}`, or a section of a compiled config. Among the
            options of a plain class or function may be parts, which no config can hold.
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
        target = get(kind, name)
        cls = config_class(target, kind)
        if issubclass(cls, SignatureConfig):
            others = inspect.signature(target).parameters.keys() - fields_of(cls).keys()
            parts = {**{key: options.pop(key) for key in others & options.keys()}, **parts}
        cfg = compile_section(cls, options)
    return cfg.build(BuildContext() if ctx is None else ctx, **parts)
