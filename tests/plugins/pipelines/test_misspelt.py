"""Every option of every algorithm, misspelt once: told by its path, with the right suggestion."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dicore_registry
from dicore.config import compile_config, flatten
from dicore.config.layers import ALIASES
from dicore.errors import ConfigError
from tests.soak import some

NAMES = [entry.name for entry in dicore_registry.default().entries("preset")]
PRESETS = list({name.rpartition("_")[2]: name for name in reversed(NAMES)}.values())
"""One of each algorithm."""


def leaves(preset: str) -> list[str]:
    paths = [path for path in flatten(compile_config(preset=preset).cfg) if "[" not in path]
    assert len(paths) > 60
    return [path for path in paths if path.rpartition(".")[2] not in ("type", "cfg_type")]


def misspelt(key: str, slip: str, at: int) -> str:
    """Returns what fingers make of a key: a letter too few, too many, wrong, or two swapped."""
    at %= len(key) - 1
    if slip == "drop" and len(key) > 4:
        return key[:at] + key[at + 1 :]
    if slip == "swap" and key[at] != key[at + 1] and len(key) > 4:
        return key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    if slip == "wrong" and len(key) > 4:
        return key[:at] + "x" + key[at + 1 :]
    return key[: at + 1] + key[at] + key[at + 1 :]


def told(preset: str, wrong: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        compile_config(preset=preset, overrides=[f"{bad}=1" for bad in wrong])
    problems = caught.value.problems
    assert len(problems) == len(wrong)
    paths = [text.split(":", 1)[0] for text in problems]
    assert paths == sorted(paths, key=lambda path: path.split("."))
    return dict(zip(paths, problems, strict=True))


@pytest.mark.parametrize("preset", some(PRESETS, 8, "misspelt"))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_leaf_misspelt_is_found_again(preset: str, data: st.DataObject) -> None:
    paths = leaves(preset)
    wrong = {}
    for path in paths:
        above, dot, key = path.rpartition(".")
        slip = data.draw(st.sampled_from(["drop", "double", "swap", "wrong"]))
        bad = f"{above}{dot}{misspelt(key, slip, data.draw(st.integers(0, 30)))}"
        if bad not in paths and bad not in ALIASES:
            wrong[bad] = key
    found = told(preset, wrong)
    missed = {
        bad: found.get(bad)
        for bad, key in wrong.items()
        if f"did you mean '{key}'?" not in found.get(bad, "")
    }
    assert not missed


def test_the_report_of_300_mistakes_takes_milliseconds() -> None:
    """It takes 8 times as long as that of one mistake, 50 ms at rest; 16 times is a fault."""
    paths, wrong = leaves(PRESETS[0]), dict[str, str]()
    for turn in range(300):
        path = paths[turn % len(paths)]
        wrong[f"{path}{'x' * (1 + turn // len(paths))}"] = path
    one = dict([wrong.popitem()])
    times: dict[int, list[float]] = {len(one): [], len(wrong): []}
    for each in (one, wrong) * 5:
        start = time.process_time()
        told(PRESETS[0], each)
        times[len(each)].append(time.process_time() - start)
    assert min(times[len(wrong)]) < 16 * min(times[len(one)])
