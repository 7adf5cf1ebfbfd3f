"""A world of foreign packages in a folder, laid out as installed wheels leave them."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from dicore_registry import Registry
from tests.registry.environment import MAIN, ROOT, environ, hermetic

__all__ = ["MAIN", "ROOT", "VERSION", "World"]

SOURCES = (
    "",
    "registry",
    "plugins",
    "plugins/dist",
    "plugins/tools",
    "plugins/compat",
    "plugins/agents",
    "plugins/worlds",
    "plugins/contrib",
    "contrib_envs",
)
PROJECTS = tuple(
    f"{folder}/pyproject.toml".removeprefix("/") for folder in SOURCES if folder != "registry"
)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

Groups = Mapping[str, Mapping[str, str]]


class World:
    """Foreign distributions in one folder, beside dicore's own as the tree declares them now.

    Args:
        folder: Where the foreign packages go.
        house: Where the metadata of the first-party distributions goes.
    """

    def __init__(self, folder: Path, house: Path) -> None:
        self.folder, self.house = folder, house
        folder.mkdir()
        house.mkdir()

    def own(self, *names: str) -> None:
        """Writes the metadata of dicore's distributions; without names, of all three."""
        for file in PROJECTS:
            project = tomllib.loads((ROOT / file).read_text())["project"]
            if not names or project["name"] in names:
                write_metadata(
                    self.house,
                    project["name"],
                    project["version"],
                    groups=project.get("entry-points", {}),
                    requires=project["dependencies"],
                    extras=project.get("optional-dependencies", {}),
                )

    def add(
        self,
        name: str,
        groups: Groups | None = None,
        *,
        version: str = "1.0",
        requires: Iterable[str] = ("dicore>=0.1",),
        extras: Mapping[str, Iterable[str]] | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> Path:
        """Installs a foreign package: its metadata and its modules (path to text)."""
        for file, text in (modules or {}).items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return write_metadata(
            self.folder, name, version, groups=groups or {}, requires=requires, extras=extras or {}
        )

    def distributions(self) -> list[importlib.metadata.Distribution]:
        """Returns what is installed in this world, and nothing else."""
        path = [str(self.folder), str(self.house)]
        return list(importlib.metadata.distributions(path=path))

    def registry(self, environ: Mapping[str, str] | None = None) -> Registry:
        """Returns a registry of this world alone."""
        return Registry(self.distributions(), environ=environ or {})

    def environ(self, **changes: str) -> dict[str, str]:
        """Returns the environment of a process that lives in this world, the tree behind it."""
        path = [self.house, self.folder, *(ROOT / place for place in SOURCES)]
        return {**environ(), "PYTHONPATH": os.pathsep.join(map(str, path)), **changes}

    def python(self, code: str, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Runs a piece of Python in this world, its output piped."""
        return subprocess.run(
            [str(hermetic().python_path), "-c", code, *words],
            env=self.environ(**changes),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def dicore(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Runs `dicore` with these words in this world, its output piped."""
        return self.python(MAIN, *words, **changes)


def write_metadata(
    folder: Path,
    name: str,
    version: str,
    *,
    groups: Groups,
    requires: Iterable[str],
    extras: Mapping[str, Iterable[str]],
) -> Path:
    """Writes a `.dist-info` folder and returns it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {wanted}" for wanted in requires]
    for extra, wants in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {wanted}; extra == "{extra}"' for wanted in wants]
    (info / "METADATA").write_text("\n".join(lines) + "\n\nRequires-Dist: no header\n")
    text = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items()) + "\n"
        for group, entries in groups.items()
    )
    if text:
        (info / "entry_points.txt").write_text(text)
    return info
