"""Reads configs of DI-engine where dicore reads its own, if no option would be lost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.config.layers import Lines
from dicore.config.reader import ConfigFile
from dicore.errors import ConfigError, ConfigWarning
from dicore_compat.migrate.di_engine import convert
from dicore_compat.migrate.process import config_dicts, pair
from dicore_compat.migrate.process import entry as entry_of

__all__ = ["config_of_di_engine", "read_config_of_di_engine"]


def read_config_of_di_engine(file: Path, label: str, what: str) -> ConfigFile:
    """Reads a config of DI-engine, without its packages, if dicore can do all that it says.

    Args:
        file: The file.
        label: The path as the user wrote it.
        what: Name of the config in messages.

    Raises:
        ConfigError: some of it would be lost.
    """
    hint = f"to leave these out: dicore migrate {label} -o config.yaml"
    tree = config_of_di_engine(*pair(file, config_dicts(file)), entry_of(file), what, hint)
    return ConfigFile(tree, {}, Lines({}), None)


def config_of_di_engine(
    main: Mapping[str, Any],
    create: Mapping[str, Any],
    entry: str = "",
    what: str = "a config of DI-engine",
    hint: str = "leave these options out",
) -> dict[str, object]:
    """Converts a main and a create config of DI-engine; warns of what differs.

    Args:
        main: DI-engine's main config.
        create: Its create config.
        entry: Entry function that is called with them: `serial_pipeline_sqil`.
        what: Name of the config in messages.
        hint: What to do if something would be lost.

    Raises:
        ConfigError: some of it would be lost.
    """
    tree, changes = convert(main, create, entry)
    lost = [f"{each.path}: {each.text}" for each in changes if each.verdict == "lost"]
    if lost:
        raise ConfigError([what, *lost], hint=hint)
    other = [f"  {each.path}: {each.text}" for each in changes if each.verdict != "moved"]
    if other:
        text = "\n".join([f"{what}, read as", *other])
        warnings.warn(text, ConfigWarning, stacklevel=2)
    return tree
