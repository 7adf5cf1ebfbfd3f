"""Versions of our presets, recorded: `python -m release.presets`.

    python -m release.presets                  # what changed without a new version; exits with 1
    python -m release.presets --record         # adds new presets and new versions
    python -m release.presets --same NAME ...  # a change that changes no result, such as a default

`preset_versions.json` of dicore-contrib-envs holds a hash of the settings of each preset.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs

import dicore_contrib_envs
from dicore_registry import default
from dicore_tools.preset_versions import Version, differences, versions

__all__ = ["FILE", "main", "recorded"]

FILE = Path(dicore_contrib_envs.__file__).with_name("preset_versions.json")
DIST = "dicore-contrib-envs"


def recorded(file: Path = FILE) -> dict[str, Version]:
    """Returns the recorded versions by full name of the preset; none without the file."""
    if not file.exists():
        return {}
    return {name: Version(**each) for name, each in json.loads(file.read_text("utf-8")).items()}


def main(argv: Sequence[str] | None = None, file: Path = FILE) -> int:
    """Compares the presets with what was recorded, or records them; returns the exit code."""
    parser = argparse.ArgumentParser(description="Versions of presets.")
    parser.add_argument("--record", action="store_true", help="add new presets and versions")
    parser.add_argument(
        "--same", nargs="+", default=[], metavar="NAME", help="results are the same"
    )
    given = parser.parse_args(argv)
    old, now = recorded(file), versions(default(), DIST)
    unknown = sorted({*given.same} - now.keys())
    if unknown:
        parser.error(f"no preset {', '.join(unknown)}")
    old |= {name: now[name] for name in given.same}
    if given.record:
        old = {**{name: each for name, each in now.items() if name not in old}, **old}
        renamed = [name for name in old if name not in now and old[name] == now.get(f"{name}_v1")]
        old = {name: each for name, each in old.items() if name not in renamed}
    if given.record or given.same:
        content = {name: attrs.asdict(each) for name, each in sorted(old.items())}
        file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    problems = [*differences(old, now)]
    for name, problem in problems:
        sys.stdout.write(f"{name}: {problem}\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
