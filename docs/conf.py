"""Sphinx configuration; `make docs` treats warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ["DICORE_NO_PLUGINS"] = "1"  # the pages list first-party components only

from sphinx.domains.python import PythonDomain  # noqa: E402

from docs import generate  # noqa: E402 - beside this file

project = "dicore"
author = "the dicore contributors"
copyright = "the dicore contributors, Apache-2.0"  # noqa: A001 - Sphinx's name for it
version = release = generate.version()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "generated/parts/*", "generated/notebooks/*"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]

html_theme = "furo"
html_title = f"dicore {release}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["dicore.css"]
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88

# Names of other projects cannot be resolved offline.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!dicore[._]).*"),
    (r"py:class", r"dicore\.task\.middleware\.Role"),  # made by a call of StrEnum
]

_CODE = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)")
_INTRODUCED = re.compile(r"(?<![:\s]):$")


class _Domain(PythonDomain):
    """Knows at once which names are none of ours: a search compares each with all objects."""

    _last_words: frozenset[str] = frozenset()
    _known = 0

    def find_obj(
        self, env: Any, modname: Any, classname: Any, name: str, *more: Any, **options: Any
    ) -> Any:
        if len(self.objects) != self._known:
            self._known = len(self.objects)
            self._last_words = frozenset(name.rpartition(".")[2] for name in self.objects)
        if name.removesuffix("()").rpartition(".")[2] not in self._last_words:
            return []
        found = super().find_obj(env, modname, classname, name, *more, **options)
        own = [each for each in found if not each[1].aliased]
        return found if len(found) < 2 or len(own) == 1 else []  # several: no link is right


def _mark_code(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Converts `x` in docstrings to literals and indented text to literal blocks."""
    lines[:] = _CODE.sub(r"``\1``", "\n".join(lines)).split("\n")
    for at in range(len(lines) - 2, 0, -1):
        block = _indent(lines[at + 1]) - _indent(lines[at - 1])
        if lines[at - 1].strip() and not lines[at].strip() and block >= 4:
            if _INTRODUCED.search(lines[at - 1]):
                lines[at - 1] += ":"
            else:
                lines[at:at] = ["", "::"]


def _resolve(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Links a bare name (`EnvStateError`) if it is unique; leaves types without a page as text.

    Only explicit references must have a target.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    name = node["reftarget"].rpartition(".")[2]
    found = {each for each, _ in domain.find_obj(env, None, None, name, None, 1)}
    if len(found) == 1:
        hits = domain.resolve_any_xref(env, node["refdoc"], app.builder, found.pop(), node, shown)
        return hits[0][1]
    return None if "refexplicit" in node else shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Any) -> None:
    """Writes the generated pages before Sphinx reads the sources."""
    generate.write(HERE / "generated")
    app.add_domain(_Domain, override=True)
    app.connect("autodoc-process-docstring", _mark_code, priority=100)
    app.connect("missing-reference", _resolve)
