"""A registered component under test: its entry, its options, and how to build it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import attrs

from dicore.config.schema import REQUIRED, ComponentConfig
from dicore.run.env_factory import BuildContext
from dicore_registry import Entry, Registry
from dicore_registry.entry_status import RESERVED

__all__ = ["Component"]


@dataclass(frozen=True)
class Component:
    """One entry of the registry, imported on first use.

    Args:
        entry: Its declaration.
        registry: Its registry.
    """

    entry: Entry
    registry: Registry

    @property
    def label(self) -> str:
        """`kind/name`."""
        return f"{self.entry.kind}/{self.entry.name}"

    @cached_property
    def target(self) -> Any:
        """The registered object."""
        return self.registry.load(self.entry)

    @property
    def takes_options(self) -> bool:
        """Whether it has options; presets, commands and what is no component have none."""
        return self.entry.kind not in ("preset", "command", *RESERVED)

    @cached_property
    def config_class(self) -> type[ComponentConfig]:
        """The class of its options, generated from its signature if it has none."""
        from dicore.config.signature import config_class

        return config_class(self.target, self.entry.kind)

    def config(self, options: Mapping[str, object] | None = None) -> ComponentConfig:
        """Compiles options to its section; adds `type`."""
        from dicore.config.compiler import compile_section

        return compile_section(self.config_class, {"type": self.entry.qualified, **(options or {})})

    def example(self) -> ComponentConfig:
        """Compiles the defaults, with an example for each required option."""
        return self.config(
            {
                field.name: field.metadata.get("example", _EXAMPLES.get(_type_name(field)))
                for field in attrs.fields(self.config_class)
                if field.default is REQUIRED
            }
        )

    def build(
        self,
        options: Mapping[str, object] | None = None,
        *,
        ctx: BuildContext | None = None,
        **parts: Any,
    ) -> Any:
        """Compiles options and builds the component."""
        return self.config(options).build(ctx or BuildContext(), **parts)


_EXAMPLES: dict[str, object] = {"int": 10, "float": 1.0, "bool": False, "str": "x"}


def _type_name(field: Any) -> str:
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    return str(kind or field.type).partition(" | ")[0]
