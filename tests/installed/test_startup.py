"""P13 and P14 as a generous gate; `benchmarks/startup.py` has the figures.

What counts is the least processor time of a few processes, which other load disturbs little.
"""

from __future__ import annotations

import resource
from collections.abc import Callable

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


def cached(world: World) -> dict[str, str]:
    """Returns variables as after a real installation, which leaves byte code."""
    folder = world.folder.parent / "byte_code"
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]])
def test_a_crowded_path_is_listed_in_time(crowded: World, words: list[str]) -> None:
    done = crowded.dicore(*words, **cached(crowded))
    assert (done.returncode, done.stderr) == (0, "")
    if "list" in words:
        assert done.stdout.count("A policy of ") == PACKAGES
    assert least(lambda: crowded.dicore(*words, **cached(crowded))) < GATE


def least(work: Callable[[], object], runs: int = 4) -> float:
    """Returns the least processor time in seconds that a process takes, of some that `work` ran."""
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        work()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_importing_dicore_is_light(world: World) -> None:
    code = "import sys, dicore; print(*sys.modules)"
    modules = set(world.python(code).stdout.split())
    assert "dicore" in modules
    assert not modules & {"numpy", "torch", "attrs", "click", "importlib.metadata", "gymnasium"}
    assert least(lambda: world.python(code)) < GATE


def test_a_worker_finds_one_name_in_time(crowded: World) -> None:
    code = (
        "import sys\nfrom dicore_registry import default\n"
        "assert default().find('policy', 'crowd-07/part_7_policy').version == '1.0'\n"
        "print(*sys.modules)"
    )
    modules = set(crowded.python(code, **cached(crowded)).stdout.split())
    assert "dicore_registry" in modules
    assert not modules & {"importlib.metadata", "inspect", "dataclasses", "pathlib", "dicore"}
    bare = "import sys; sys.modules"  # three times as much on an idle machine
    least_bare = least(lambda: crowded.python(bare, **cached(crowded)))
    assert least(lambda: crowded.python(code, **cached(crowded))) < 8 * least_bare
