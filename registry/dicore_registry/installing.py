"""The command that installs a package of dicore: by its name, or from the checkout in use."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@cache
def install_line(dist: str) -> str:
    """Returns `pip install DIST`, or `pip install -e FOLDER …` if dicore itself is a checkout.

    The folders are that of the package and, before it, those of what it needs and lacks.

    Args:
        dist: A first-party package, such as `dicore-compat`.
    """
    import shlex

    root = _checkout()
    folders = {} if root is None else _folders(root)
    wanted: list[str] = []

    def add(name: str) -> None:
        for needed in folders[name][1]:
            if needed in folders and not _is_installed(needed):
                add(needed)
        if name not in wanted:
            wanted.append(name)

    if dist not in folders:
        return f"pip install {dist}"
    add(dist)
    places = [os.path.relpath(folders[name][0]) for name in wanted]
    if any(place.startswith("..") for place in places):
        places = [str(folders[name][0]) for name in wanted]
    return f"pip install {' '.join(f'-e {shlex.quote(place)}' for place in places)}"


def comes_with(name: str, dist: str) -> str:
    """Returns the message for a command or a name of a package that is not installed."""
    return f"'{name}' comes with {dist}: {install_line(dist)}"


def _checkout() -> Path | None:
    """Returns the folder from which dicore is installed to be edited; None: it is a copy."""
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        found = json.loads(metadata.distribution("dicore").read_text("direct_url.json") or "{}")
        editable = found["dir_info"]["editable"]
        return Path(url2pathname(urlsplit(found["url"]).path)) if editable else None
    except (metadata.PackageNotFoundError, KeyError, TypeError, ValueError):
        return None


def _folders(root: Path) -> dict[str, tuple[Path, list[str]]]:
    """Returns the folder of each package of a checkout, and the packages that it needs."""
    import tomllib

    found = {}
    for file in (*root.glob("*/pyproject.toml"), *root.glob("plugins/*/pyproject.toml")):
        try:
            project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
            needs = [need.partition(">")[0] for need in project.get("dependencies", ())]
            found[project["name"]] = file.parent, needs
        except (OSError, KeyError, ValueError):
            continue
    return found


def _is_installed(dist: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(dist)
    except metadata.PackageNotFoundError:
        return False
    return True
