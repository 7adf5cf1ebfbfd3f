"""The site builds without warnings, and a wrong page fails the build."""

from __future__ import annotations

import inspect
import io
import pkgutil
import re
import runpy
import subprocess
import sys
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from docutils.frontend import get_default_settings
from docutils.nodes import substitution_reference
from docutils.parsers.rst import Parser
from docutils.utils import new_document
from sphinx.ext.napoleon import Config, GoogleDocstring

from docs.generate.api import public_names

ROOT = Path(__file__).parents[2]


def build(
    source: Path, out: Path, *options: str, builder: str = "html"
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-N", *options]
    return subprocess.run(
        [*words, "-d", str(out / "doctrees"), "-b", builder, str(source), str(out / "html")],
        cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(1600)  # two minutes of one core, which other processes may need too
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    # The navigation of each page would hold all classes and methods, and furo writes it with its
    # icons: two thirds of the time. The next test has the theme.
    done = build(ROOT / "docs", tmp_path, "-D", "toc_object_entries=0", "-D", "html_theme=basic")
    assert done.stderr == ""
    assert done.returncode == 0
    html = tmp_path / "html"
    for page in ("index", "quickstart", "generated/components/policy", "generated/cli/train"):
        assert (html / f"{page}.html").is_file()
    policy = (html / "generated/components/policy.html").read_text(encoding="utf-8")
    assert 'href="https://doi.org/10.1038/nature14236"' in policy
    buffer = (html / "concepts/buffer.html").read_text(encoding="utf-8")
    assert "overwrites_the_oldest_samples" in buffer  # the checks
    assert 'href="../generated/api/errors.html#dicore.errors.SchemaError"' in buffer  # Raises:


EXCLUDED = "exclude_patterns=_build,generated/*"
_REFERENCE = re.compile(r".*: py:\w+ reference target not found: (dicore[\w.]+) \[ref\.\w+\]")
_PAGE = re.compile(r".* document '(generated/[\w/-]+)' \[(?:myst.xref_missing|toc.not_read\w+)\]")


def test_the_written_pages_have_no_warning(tmp_path: Path) -> None:
    """What a page names of those that are generated must be there; a soak builds these too."""
    more = ("toc_object_entries=0", "html_theme=basic", "smartquotes=0", EXCLUDED)
    options = [word for each in more for word in ("-D", each)]
    done = build(ROOT / "docs", tmp_path, *options, builder="dummy")
    wrong = []
    for line in done.stderr.splitlines():
        named = _REFERENCE.fullmatch(line)
        page = _PAGE.fullmatch(line)
        try:
            if named:
                pkgutil.resolve_name(named[1])
        except (ImportError, AttributeError):
            named = None
        if not named and not (page and (ROOT / "docs" / f"{page[1]}.md").is_file()):
            wrong.append(line)
    assert wrong == []
    assert done.stderr  # it has run: what is generated is excluded


def test_a_class_that_the_reference_names_as_an_attribute_is_in_it() -> None:
    """Sphinx links these; `config_class` of a network or a policy is one."""
    found = [getattr(import_module(path), n) for path, ns in public_names().items() for n in ns]
    classes = {each for each in found if isinstance(each, type)}
    missing = {
        f"{shown.__module__}.{shown.__qualname__}.{name}: {value.__qualname__}"
        for shown in classes
        for name, value in vars(shown).items()
        if isinstance(value, type) and value.__module__.startswith("dicore")
        and "." not in value.__qualname__ and value not in classes
    }  # fmt: skip
    assert len(classes) > 500
    assert missing <= {"dicore.task.task.Task.role: Role"}  # made by a call: docs/conf.py


def test_the_docstrings_of_the_reference_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICORE_NO_PLUGINS", "1")
    mark_code = runpy.run_path(str(ROOT / "docs" / "conf.py"))["_mark_code"]
    wrong: dict[str, str] = {}
    seen: set[str] = set()
    for module, names in public_names().items():
        for name in names:
            made = getattr(import_module(module), name)
            members = vars(made).values() if isinstance(made, type) else ()
            for each in (made, *(m for m in members if callable(m) or isinstance(m, property))):
                ours = str(getattr(getattr(each, "fget", each), "__module__", "")).startswith(
                    "dicore"
                )
                text = each.__doc__
                if not ours or not isinstance(text, str) or text in seen:
                    continue
                seen.add(text)
                if _MARKUP.search(text) and (said := problems(text, mark_code)):
                    wrong[f"{module}.{name}: {getattr(each, '__name__', each)}"] = said
    assert len(seen) > 1000
    assert wrong == {}


_MARKUP = re.compile(r"[`*|_:<>\\\n]")
"""What a line without is a paragraph, whatever else it says."""


@cache
def settings_of_docutils() -> Any:
    settings = get_default_settings(Parser)
    settings.report_level, settings.halt_level = 2, 5
    return settings


def problems(docstring: str, mark_code: Any) -> str:
    """Returns what docutils says about a docstring in Google style; roles are known to Sphinx."""
    lines = inspect.cleandoc(docstring).splitlines()
    mark_code(None, "", "", None, None, lines)
    said = io.StringIO()
    settings = copy(settings_of_docutils())
    settings.warning_stream = said
    document = new_document("docstring", settings)
    Parser().parse(str(GoogleDocstring(lines, Config(napoleon_use_ivar=True))), document)
    substitutions = [each.astext() for each in document.findall(substitution_reference)]
    return "\n".join(
        [*(line for line in said.getvalue().splitlines() if "nknown" not in line), *substitutions]
    )


def test_a_malformed_docstring_is_found() -> None:
    def unchanged(*_: object) -> None:
        pass

    assert "unexpected unindent" in problems("Sums.\n\nOne:\n    two\n  three\n", unchanged)
    assert problems("Sums |a - b| and |c|.", unchanged)
    assert (
        problems("Sums.\n\nArgs:\n    one: Two.\n\nRaises:\n    ValueError: three.", unchanged)
        == ""
    )


def test_a_wrong_link_and_a_wrong_reference_fail_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text(
        "extensions = ['myst_parser', 'sphinx.ext.autodoc']\nnitpicky = True\nhtml_theme = 'furo'\n"
        f"templates_path = ['{ROOT}/docs/_templates']\nhtml_context = {{'site_version': '0.1'}}\n"
    )
    (source / "index.md").write_text("# Page\n\n[a](nowhere.md) {py:class}`dicore.run.Rum`\n")
    done = build(source, tmp_path)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert "dicore.run.Rum" in done.stderr
    assert len(done.stderr.splitlines()) == 2  # the theme and our templates have no warning
    assert "versions.js" in (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
