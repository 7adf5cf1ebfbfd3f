"""Pages, examples and templates import public names only: those of the Python reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dicore_tools.commands.new import kinds, write_plugin
from docs.generate.api import public_names
from tests.docs.snippets import snippets_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md"),
                *ROOT.glob("docs/concepts/*.md"), ROOT / "README.md"])  # fmt: skip
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))


def private_imports(code: str) -> list[str]:
    """Returns the imports from dicore's packages that are not in the reference."""
    public = public_names()
    bad = []
    for module, name in _imports(code):
        if module.split(".")[0] not in {path.split(".")[0] for path in public}:
            continue
        if name and f"{module}.{name}" in public:
            continue  # a module of the reference
        if module not in public or (name and name not in public[module]):
            bad.append(f"{module}:{name}".rstrip(":"))
    return bad


def _imports(code: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, each.name) for each in node.names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    found = snippets_of(page.read_text(encoding="utf-8"))
    code = [each.code for each in found if each.language == "python"]
    assert [name for each in code for name in private_imports(each)] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples(file: Path) -> None:
    assert private_imports(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", ["worlds", "contrib"])
def test_shelves_are_written_as_packages_of_a_stranger(name: str) -> None:
    """`lazy`, which makes a stub the public names of a package, is the only exception."""
    files = sorted((ROOT / f"plugins/{name}/dicore_{name}").rglob("*.py"))
    found = {name for file in files for name in private_imports(file.read_text(encoding="utf-8"))}
    assert len(files) > 5
    assert {each for each in found if not each.startswith(f"dicore_{name}.")} == {
        "dicore_plugins.lazy:lazy"
    }


@pytest.mark.parametrize(
    ("kind", "agents"), [*((each, 1) for each in kinds()), ("env", 2), ("policy", 2)]
)
def test_templates(kind: str, agents: int, tmp_path: Path) -> None:
    place = write_plugin("fresh-public", kind, folder=tmp_path / "fresh", agents=agents)
    code = [path.read_text(encoding="utf-8") for path in place.rglob("*.py")]
    assert [name for each in code for name in private_imports(each)] == []


def test_a_private_import_is_found() -> None:
    code = """
import dicore, dicore.run, dicore.run._secret, numpy.core
from dicore import Agent, register, Agnet
from dicore.config import option, _option
from dicore.config.schema import _SIGNS
from dicore_plugins.policies import DQNPolicy
from dicore_plugins.policies.value.dqn import DQNPolicy
"""
    assert private_imports(code) == [
        "dicore.run._secret",
        "dicore:Agnet",
        "dicore.config:_option",
        "dicore.config.schema:_SIGNS",
        "dicore_plugins.policies.value.dqn:DQNPolicy",
    ]
