"""The defaults of a config class as people read and copy them: nested dicts."""

from __future__ import annotations

from typing import Any

from dicore.config.declare import REQUIRED, Section
from dicore.config.fields import Field, fields_of
from dicore.config.plain import plain
from dicore.config.signature import config_class

__all__ = ["default_config"]


def default_config(cls: type[Section]) -> dict[str, Any]:
    """Returns the defaults of a config class, those of its bases first, as nested dicts.

    Args:
        cls: A config class, or a component class that names its own in `config_class`.

    Returns:
        The options in order of declaration, stamped with `cfg_type`, the class's name. What must be
        given, and slots left to the installed packages, are missing. Compiling the dict gives the
        defaults again.
    """
    cls = cls if issubclass(cls, Section) else config_class(cls, "")
    values: dict[str, Any] = {}
    for name, field in fields_of(cls).items():
        value = _default(field)
        if value is not REQUIRED and not (name == "type" and value == ""):
            values[name] = value
    return {"cfg_type": cls.__name__, **values}


def _default(field: Field) -> Any:
    metadata = field.metadata
    if "section" in metadata:
        return default_config(metadata["section"])
    if "component" in metadata:
        default = metadata["component_default"]
        if default is None:
            return REQUIRED
        return {"type": default} if isinstance(default, str) else plain(default)
    if "components" in metadata:
        return plain(list(metadata["component_default"]))
    return field.default()
