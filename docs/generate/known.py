"""Writes the names of first-party components: `python -m docs.generate.known`.

The registry has them in `dicore_registry/known.py`, to say which package is missing. Run it after
`make install` if an entry point was added.
"""

from __future__ import annotations

import re
import textwrap
from itertools import starmap
from pathlib import Path
from typing import Final

import dicore_registry

__all__ = ["table", "write"]

FILE: Final = Path(__file__).parents[2] / "registry" / "dicore_registry" / "known.py"
_DISTRIBUTIONS: Final = (
    *("dicore-plugins", "dicore-dist", "dicore-tools", "dicore-compat", "dicore-agents"),
    *("dicore-worlds", "dicore-contrib", "dicore-contrib-envs"),
)


def table() -> str:
    """Returns the table of the installed packages, in Python."""
    registry = dicore_registry.default()
    names: dict[str, dict[str, set[str]]] = {dist: {} for dist in _DISTRIBUTIONS}
    for kind in sorted({*registry.kinds(), "api", "config_format"}):
        for entry in registry.entries(kind):
            if entry.dist in names:
                name = entry.attr if kind == "api" else entry.name
                names[entry.dist].setdefault(kind, set()).add(name)
    lines = []
    for dist, kinds in names.items():
        lines += [f'    "{dist}": {{\n', *starmap(_line, kinds.items()), "    },\n"]
    return "".join(lines)


def _line(kind: str, names: set[str]) -> str:
    words = " ".join(sorted(names))
    if len(words) + len(kind) <= 85:
        return f'        "{kind}": "{words}",\n'
    width = 86 if len(words) <= 86 else 84  # as the formatter joins and splits them
    lines = textwrap.wrap(words, width, break_on_hyphens=False)
    text = "".join(f'            "{line} "\n' for line in lines[:-1])
    return f'        "{kind}": (\n{text}            "{lines[-1]}"\n        ),\n'


def write() -> None:
    """Writes the table into the file."""
    text = FILE.read_text(encoding="utf-8")
    body = re.compile(r"(_NAMES: .*? = \{\n).*?(^\}\n)", re.DOTALL | re.MULTILINE)
    FILE.write_text(body.sub(lambda hit: hit[1] + table() + hit[2], text), encoding="utf-8")


if __name__ == "__main__":
    write()
