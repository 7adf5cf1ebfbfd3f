"""P13 and P14 as a generous gate; `benchmarks/startup.py` has the figures."""

from __future__ import annotations

import statistics
import time

import pytest

from tests.registry.world import World

GATE = 0.3
PACKAGES, PARTS = 50, ("policy", "buffer", "env", "learner_hook")


@pytest.fixture
def crowded(world: World) -> World:
    """Returns a world with 50 foreign packages of 4 components each."""
    for number in range(PACKAGES):
        package = f"crowd_{number:02d}"
        world.add(
            package,
            {
                f"dicore.{kind}": {f"part_{number}_{kind}": f"{package}.{kind}:Part"}
                for kind in PARTS
            },
            modules={
                f"{package}/__init__.py": "raise RuntimeError('imported')",
                **{
                    f"{package}/{kind}.py": f'class Part:\n    """A {kind} of {number}."""\n'
                    for kind in PARTS
                },
            },
        )
    return world


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]])
def test_a_crowded_path_is_listed_in_time(crowded: World, words: list[str]) -> None:
    # As after a real installation, which leaves byte code.
    cached = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(crowded.folder.parent / "byte_code"),
    }
    crowded.dicore(*words, **cached)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = crowded.dicore(*words, **cached)
        times.append(time.perf_counter() - start)
        assert (done.returncode, done.stderr) == (0, "")
    if "list" in words:
        assert done.stdout.count("A policy of ") == PACKAGES
    assert statistics.median(times) < GATE


def test_importing_dicore_is_light(world: World) -> None:
    code = "import sys, dicore; print(*sys.modules)"
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = world.python(code)
        times.append(time.perf_counter() - start)
    modules = set(done.stdout.split())
    assert "dicore" in modules
    assert not modules & {"numpy", "torch", "attrs", "click", "importlib.metadata", "gymnasium"}
    assert statistics.median(times) < GATE
