"""Whether a config still gets the components that it was recorded with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from dicore.config.compiled import Compiled
from dicore.errors import ConfigError, ConfigWarning

__all__ = ["compare_record", "component_differences", "recorded_components"]

_HINT = "install what was recorded, or leave out --locked"
_SHORT = len("sha256:") + 8


def component_differences(
    recorded: Mapping[str, Mapping[str, Any]], here: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[str, str]]:
    """Returns what two sets of components do not agree on, by path, as texts of both sides.

    Compared are name, distribution, version, target and the hash of the source file.

    Args:
        recorded: Components by the path of their slot, as in `config.json`.
        here: The same of another config, or of this machine.
    """
    found = {}
    for path in dict.fromkeys([*recorded, *here]):
        one, other = recorded.get(path), here.get(path)
        if one is None or other is None:
            found[path] = (_named(one), _named(other))
            continue
        for told in (_named, _target, _source):
            texts = told(one), told(other)
            if texts[0] != texts[1] and all(texts):
                found[path] = texts
                break
    return found


def _named(facts: Mapping[str, Any] | None) -> str:
    if facts is None:
        return "(none)"
    provider = f"{facts.get('dist', '')} {facts.get('version', '')}".strip()
    name = str(facts.get("type", "")).removeprefix(f"{facts.get('dist', '')}/")
    return f"'{name}'" + (f" of {provider}" if provider else "")


def _target(facts: Mapping[str, Any]) -> str:
    return f"{_named(facts)}, {facts['target']}" if facts.get("target") else ""


def _source(facts: Mapping[str, Any]) -> str:
    source = str(facts.get("source") or "")
    return f"{_named(facts)}, source {source[:_SHORT]}" if source else ""


def recorded_components(record: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns who supplied the components of a config when it was written, by path.

    Args:
        record: All of a `config.json`; None where the config is no record.
    """
    told = (record or {}).get("components")
    return told if isinstance(told, Mapping) else {}


def compare_record(compiled: Compiled, record: Mapping[str, Any] | None, *, locked: bool) -> None:
    """Compares the components of a config with those that it was recorded with.

    Args:
        compiled: The config, compiled here.
        record: All of a `config.json`; None where the config is no record.
        locked: Refuse differences; else warn of those in one and the same component.

    Raises:
        ConfigError: `locked`, and there is a difference or no record.
    """
    if record is None:
        if locked:
            raise ConfigError(
                "--locked: the config has no record of its components",
                hint="give a run, or the config.json of one",
            )
        return
    recorded = recorded_components(record)
    found = component_differences(recorded, compiled.components)
    if locked:
        said = [
            f"{path}: recorded {one}, here {other}" for path, (one, other) in sorted(found.items())
        ]
        if (core := _core(record)) is not None:
            said.insert(0, core)
        if said:
            raise ConfigError(said, hint=_HINT)
        return
    changed = [
        f"{path} ({one} -> {other})"
        for path, (one, other) in found.items()
        if _name(recorded, path) == _name(compiled.components, path)
    ]
    if changed:
        some = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        text = f"not the components that the config was made with: {some}"
        warnings.warn(text, ConfigWarning, stacklevel=3)


def _core(record: Mapping[str, Any]) -> str | None:
    from dicore import __version__

    told = record.get("dicore", __version__)
    return None if told == __version__ else f"dicore: recorded {told}, here {__version__}"


def _name(components: Mapping[str, Mapping[str, Any]], path: str) -> Any:
    return components.get(path, {}).get("type")
