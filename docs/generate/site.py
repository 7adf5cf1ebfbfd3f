"""Builds the pages of this checkout as one version of a site that has several: `make site`.

    python -m docs.generate.site -o SITE                as the version of this checkout, `0.1.0`
    python -m docs.generate.site -o SITE --name dev     as `dev`

Every version is a folder of SITE; building one leaves the others as they are. It has every page as
Markdown, too, and `llms.txt`, the list of these. All pages have a list of the versions, which leads
to the same page of another version, and those of an older one a note.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from dicore.console import say
from docs.generate.texts import write_texts

__all__ = ["build", "versions", "write_index"]

DOCS = Path(__file__).parents[1]
_DEV = "dev"
_NAME = re.compile(r"dev|\d+(\.\d+)*([abrc.+-]\w+)*")
_START = """<!doctype html>
<meta charset="utf-8">
<title>dicore</title>
<meta http-equiv="refresh" content="0; url={name}/index.html">
<a href="{name}/index.html">dicore {name}</a>
"""


def build(out: Path, name: str) -> None:
    """Builds one version, and the list of all.

    Args:
        out: Folder of the site.
        name: `dev` or the number of a version.

    Raises:
        ValueError: the name is neither.
        SystemExit: Sphinx reports a warning.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}': expected dev or a version such as 1.2.0")
    # -a: a build that was interrupted leaves a search index that cannot be completed
    words = ["-W", "-n", "--keep-going", "-a", "-q", "-A", f"site_version={name}", "-b", "html"]
    doctrees = ["-d", str(DOCS / "_build" / "doctrees-site")]
    command = [sys.executable, "-m", "sphinx", *words, *doctrees, str(DOCS), str(out / name)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - our own words
    if code:
        raise SystemExit(code)
    write_texts(DOCS, out / name)
    write_index(out)


def versions(out: Path) -> list[str]:
    """Returns the versions of a site: the newest release first, `dev` last."""
    found = [each.parent.name for each in out.glob("*/index.html")]
    return sorted((name for name in found if _NAME.fullmatch(name)), key=_order, reverse=True)


def write_index(out: Path) -> None:
    """Writes the list of versions, and the start page that leads to the first of them.

    Raises:
        ValueError: the site has no version.
    """
    names = versions(out)
    if not names:
        raise ValueError(f"{out}: no version")
    facts = [{"name": name, "pages": _pages(out / name)} for name in names]
    (out / "versions.js").write_text(f"window.dicoreVersions?.({json.dumps(facts)});\n")
    (out / "index.html").write_text(_START.format(name=names[0]), encoding="utf-8")


def _pages(folder: Path) -> list[str]:
    hidden = ("_static", "_sources", "_modules", "_downloads")
    pages = (path.relative_to(folder) for path in folder.rglob("*.html"))
    return sorted(path.as_posix() for path in pages if path.parts[0] not in hidden)


def _order(name: str) -> tuple[tuple[int, int | str], ...]:
    """Returns what sorts versions: `dev` first, `1.0rc1` before `1.0`, `1.9` before `1.10`."""
    if name == _DEV:
        return ()
    parts = re.findall(r"\d+|[a-z]+", name)
    return (*((1, int(part)) if part.isdigit() else (-1, part) for part in parts), (0, ""))


if __name__ == "__main__":
    from docs.generate import version

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=DOCS / "_build" / "site")
    parser.add_argument("--name", default=version())
    arguments = parser.parse_args()
    build(arguments.out.resolve(), arguments.name)
    say(f"{arguments.out / 'index.html'}: {', '.join(versions(arguments.out))}")
