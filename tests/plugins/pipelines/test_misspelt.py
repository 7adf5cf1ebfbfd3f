"""Every option of every preset, misspelt once: told by its path, with the right suggestion."""

from __future__ import annotations

import pytest

import dicore_registry
from dicore.config import compile_config, flatten
from dicore.errors import ConfigError

PRESETS = [entry.name for entry in dicore_registry.default().entries("preset")]


def misspelt(key: str) -> str:
    """Two letters change places, as fingers do; a short key gets one letter more."""
    half = len(key) // 2
    swapped = key[: half - 1] + key[half] + key[half - 1] + key[half + 1 :]
    return swapped if swapped != key and len(key) > 3 else key + key[-1]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_leaf_misspelt_is_found_again(preset: str) -> None:
    compiled = compile_config(preset=preset)
    paths = [path for path in flatten(compiled.cfg) if "[" not in path and "{" not in path]
    assert len(paths) > 60
    wrong = {}
    for path in paths:
        above, _, key = path.rpartition(".")
        if key in ("type", "cfg_type"):
            continue
        bad = f"{above}.{misspelt(key)}" if above else misspelt(key)
        wrong[bad] = key
    with pytest.raises(ConfigError) as caught:
        compile_config(preset=preset, overrides=[f"{bad}=1" for bad in wrong])
    told = {text.split(":", 1)[0]: text for text in caught.value.problems}
    missed = {
        bad: told.get(bad)
        for bad, key in wrong.items()
        if f"did you mean '{key}'" not in told.get(bad, "")
    }
    assert not missed
