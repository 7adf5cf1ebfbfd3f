"""Writes the lists of files in `docs/path.md`: `python -m docs.generate.path`.

A list stands between the comments `<!-- NAME -->` and `<!-- end -->`. The text of a file is the
first line of its docstring.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs.generate.trace import path_of

__all__ = ["NAMES", "PAGE", "limits", "listed", "write"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "path.md"
NAMES = ("learning_rate", "observation")
_FOLDERS = {
    "dicore": "",
    "dicore_registry": "registry/",
    "dicore_plugins": "plugins/",
    "dicore_tools": "plugins/tools/",
    "dicore_compat": "plugins/compat/",
    "dicore_agents": "plugins/agents/",
    "dicore_worlds": "plugins/worlds/",
    "dicore_contrib": "plugins/contrib/",
    "dicore_dist": "plugins/dist/",
    "dicore_contrib_envs": "contrib_envs/",
}


def listed(name: str, page: str) -> list[str]:
    """Returns the files of a list of the page."""
    found = _list(name).search(page)
    return re.findall(r"^\d+\. `([^`]+)`", found["lines"] if found else "", re.MULTILINE)


def limits(page: str) -> dict[str, int]:
    """Returns the largest number of files that the page allows for each count."""
    return {name: int(number) for name, number in re.findall(r"<!-- (\w+) <= (\d+) -->", page)}


def traced(name: str) -> list[tuple[str, str]]:
    """Returns files, as paths in the repository, and functions that a value passes."""
    return [(_FOLDERS[file.partition("/")[0]] + file, function) for file, function in path_of(name)]


def write() -> None:
    """Traces each value again and writes its list."""
    page = PAGE.read_text(encoding="utf-8")
    for name in NAMES:
        lines = [
            f"{number}. `{file}`, `{function}`: {_summary(file)}"
            for number, (file, function) in enumerate(traced(name), 1)
        ]
        text = "\n".join([f"<!-- {name} -->", "", *lines, "", "<!-- end -->"])
        page = _list(name).sub(lambda _, text=text: text, page)
    PAGE.write_text(page, encoding="utf-8")


def _list(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {name} -->\n(?P<lines>.*?)<!-- end -->", re.DOTALL)


def _summary(file: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    write()
