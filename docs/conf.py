"""How the documentation is built: `make docs`, without warnings."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ["DICORE_NO_PLUGINS"] = "1"  # the pages show what dicore itself ships

from docs import generate  # noqa: E402 - beside this file

project = "dicore"
author = "the dicore contributors"
copyright = "the dicore contributors, Apache-2.0"  # noqa: A001 - Sphinx's name for it
version = release = generate.version()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "generated/parts/*"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]

html_theme = "furo"
html_title = f"dicore {release}"
html_static_path = ["_static"]
html_css_files = ["dicore.css"]
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88

# Names of other projects cannot be looked up offline; ours have to be there.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!dicore[._]).*"),
    (r"py:.*", r"dicore[\w.]*\.(_\w+|[A-Z]|RegistryView)"),  # private names and type variables
]

_CODE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?!`)")
_INTRODUCED = re.compile(r"(?<![:\s]):$")


def _mark_code(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Writes code of docstrings as Sphinx does: `x` as literal, a block behind `…:` as block."""
    for at, line in enumerate(lines):
        lines[at] = _CODE.sub(r"``\1``", line)
        below = lines[at + 1 : at + 3]
        opens = _INTRODUCED.search(line) and len(below) == 2 and not below[0].strip()
        if opens and below[1].startswith(" " * (_indent(line) + 4)):
            lines[at] += ":"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Any) -> None:
    """Writes the generated pages, before Sphinx looks for pages."""
    generate.write(HERE / "generated")
    app.connect("autodoc-process-docstring", _mark_code, priority=100)
