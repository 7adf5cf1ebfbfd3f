"""Versions of presets: settings that change results get a new number, as Gymnasium's ids do.

A preset without a number in its name is version 1. When its settings change, the old ones are kept
as `NAME_v1`, and the new ones are `NAME_v2`; the plain name then stands for the newest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from dicore.data.json_codec import encode
from dicore_registry import Registry
from dicore_registry.entry import family

__all__ = ["Version", "differences", "preset_of", "shown", "version_of", "versions"]

_LAYER: Final = "preset "
"""Begins the origin of a value that a preset sets."""


@attrs.frozen
class Version:
    """A version of a preset.

    Args:
        version: Its number.
        sha256: Hash of its settings.
    """

    version: int
    sha256: str


def version_of(name: str) -> int:
    """Returns the version of a preset by its full name; without a number it is the first."""
    return family(name)[1] or 1


def shown(name: str) -> str:
    """Returns name and version of a preset, `cartpole_dqn v1`; "" for ""."""
    return f"{family(name)[0]} v{version_of(name)}" if name else ""


def preset_of(origin: Mapping[str, str]) -> str:
    """Returns the full name of the preset of a config; "" without one.

    Args:
        origin: Origin of each value, by path.
    """
    found = (each.removeprefix(_LAYER) for each in origin.values() if each.startswith(_LAYER))
    return next(found, "")


def versions(registry: Registry, dist: str) -> dict[str, Version]:
    """Returns the versions of the presets of a package, by full name.

    Args:
        registry: Has the presets, which are imported.
        dist: The package.
    """
    found = {}
    for entry in registry.entries("preset"):
        if entry.dist == dist and entry.status in ("ok", "unavailable"):
            text = json.dumps(encode(registry.load(entry)), sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()
            found[entry.name] = Version(version_of(entry.name), digest)
    return dict(sorted(found.items()))


def differences(
    recorded: Mapping[str, Version], found: Mapping[str, Version]
) -> Iterable[tuple[str, str]]:
    """Yields name and problem of each preset that is not what was recorded."""
    for name, old in recorded.items():
        new = found.get(name)
        if new is None:
            first = f"{family(name)[0]}_v{old.version}"
            if found.get(first) != old:
                yield name, f"is gone; keep its settings as {first}"
        elif new != old:
            stem, number = family(name)[0], old.version
            yield (
                name,
                (
                    f"its settings changed: keep the old ones as {stem}_v{number}, and declare the"
                    f" new ones as {stem}_v{number + 1}"
                ),
            )
    for name in found.keys() - recorded.keys():
        unnumbered = recorded.get(family(name)[0])
        if unnumbered is None or unnumbered != found[name]:
            yield name, "is not recorded"
