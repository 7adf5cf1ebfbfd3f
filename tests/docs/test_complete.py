"""Every kind, component, command and hook has a page and a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dicore
from dicore.hookspecs import specs
from docs.generate import pages
from docs.generate.commands import page_of
from docs.generate.query import components, kinds

ROOT = Path(__file__).parents[2]
HOOKS = [name for name in vars(specs) if name.startswith("dicore_")]
Facts = Mapping[str, Any]


@cache
def text_of_tests() -> str:
    """Returns the text of all tests, without those that run over all components."""
    folder = ROOT / "tests"
    found = [
        path
        for path in folder.rglob("*.py")
        if not {"docs", "conformance"} & set(path.relative_to(folder).parts)
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


def without_page(found: Iterable[Facts], written: Mapping[str, str]) -> list[str]:
    """Returns the components without a section that lists every option."""
    bad = []
    for facts in found:
        page = written.get(f"components/{facts['kind']}.md", "")
        whole = f"## {facts['name']}\n" in page
        complete = all(f"`{option['path']}`" in page for option in facts["options"])
        if facts["kind"] == "command":
            whole = whole and f"cli/{page_of(facts['name'])}.md" in written
        if not (whole and complete):
            bad.append(f"{facts['kind']}/{facts['name']}")
    return bad


def without_test(found: Iterable[Facts], text: str) -> list[str]:
    """Returns the components that no test names by class or by quoted name."""
    bad, words = [], set(re.findall(r"\w+", text))
    for facts in found:
        target = facts["target"].rpartition(":")[2]
        if words & {target, target.removesuffix("Config")} - {"command"}:
            continue
        spelt = re.escape(facts["name"]).replace("_", "[_-]")
        if not re.search(rf"[\"'=/]{spelt}(_(before|after)_(run|iter))?[\"' ]", text):
            bad.append(f"{facts['kind']}/{facts['name']}")
    return bad


def test_every_kind_has_a_page_of_its_role_and_of_its_components() -> None:
    written = {path.name for path in (ROOT / "docs/concepts").glob("*.md")}
    assert [name for name in kinds() if f"{name}.md" not in written] == []
    assert [name for name in kinds() if f"components/{name}.md" not in pages()] == []
    index = (ROOT / "docs/concepts/index.md").read_text()
    assert [name for name in kinds() if f"]({name}.md)" not in index] == []


def test_every_concept_page_shows_contract_and_checks() -> None:
    for name in kinds():
        text = (ROOT / f"docs/concepts/{name}.md").read_text()
        assert f"```{{include}} ../generated/parts/{name}.md" in text
        assert "## Write one" in text


def test_an_example_of_a_role_is_short() -> None:
    for path in (ROOT / "docs/concepts").glob("*.md"):
        for block in re.findall(r":caption: \S+\n\n(.*?)```", path.read_text(), re.DOTALL):
            lines = [line for line in block.splitlines() if line.strip()]
            assert len(lines) <= 40, f"{path.name}: {len(lines)} lines"


def test_every_component_has_a_page_with_its_options() -> None:
    assert without_page(components(), pages()) == []


def test_every_component_has_a_test() -> None:
    assert without_test(components(), text_of_tests()) == []


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_across_packages_has_a_page_and_a_test(name: str) -> None:
    assert f"dicore.hookspecs.specs.{name}\n" in pages()["api/plugins.md"]
    assert re.search(rf"\b{name}\b", text_of_tests())


def test_the_architecture_names_every_folder() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = [
        "dicore/*",
        "registry/*",
        "plugins/*",
        "plugins/tools/*",
        "plugins/dist/*",
        "plugins/compat/*",
        "plugins/agents/*",
        "plugins/worlds/*",
        "plugins/contrib/*",
        "contrib_envs/*",
    ]
    inside = [path.parent for name in packages for path in ROOT.glob(f"{name}/__init__.py")]
    beside = [ROOT / name for name in ("tests", "examples", "benchmarks", "docs")]
    folders = [f"{path.relative_to(ROOT)}/" for path in inside + beside]
    assert len(folders) >= 14
    assert [name for name in folders if f"| `{name}` |" not in text] == []


def test_what_dicore_itself_exports_is_in_the_python_reference() -> None:
    text = "\n".join(text for name, text in pages().items() if name.startswith("api/"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    added = ", ".join(re.findall(r"`from dicore import ([\w, ]+)`", readme)).split(", ")
    names = [name for name in dicore.__all__ if not name.startswith("_")]
    assert len(added) >= 4
    assert [name for name in names + added if not re.search(rf"::.*\.{name}\b", text)] == []


def test_every_word_of_a_command_line_is_explained() -> None:
    found = {name: text for name, text in pages().items() if name.startswith("cli/")}
    silent = [name for name, text in found.items() if re.search(r"\|\s+\|$", text, re.MULTILINE)]
    assert silent == []
    index = found["cli/index.md"]
    for code in (0, 1, 2, 3, 4, 75, 129, 130, 143):
        assert f"| {code} | " in index
    for switch in ("--plugin", "--no-plugins", "--names-only", "--strict-plugins", "--debug"):
        assert f"\n{switch} " in index


def test_a_component_without_page_or_test_is_found() -> None:
    zebra = {
        "kind": "buffer",
        "name": "zebra",
        "target": "acme.parts:ZebraConfig",
        "options": [{"path": "policy.other.replay_buffer.depth"}],
    }
    assert without_page([zebra], pages()) == ["buffer/zebra"]
    page = {"components/buffer.md": "## zebra\n\n| `policy.other.replay_buffer.depth` |"}
    assert without_page([zebra], page) == []
    assert without_page([zebra], {"components/buffer.md": "## zebra\n"}) == ["buffer/zebra"]
    assert without_test([zebra], text_of_tests()) == ["buffer/zebra"]
    assert without_test([zebra], "made = Zebra(3)") == []
    assert without_test([zebra], "rezebra, imzebra_s") == ["buffer/zebra"]


def test_a_command_without_page_is_found() -> None:
    zebra = {"kind": "command", "name": "zebra", "target": "acme:command", "options": []}
    page = {"components/command.md": "## zebra\n"}
    assert without_page([zebra], page) == ["command/zebra"]
    assert without_page([zebra], {**page, "cli/zebra.md": ""}) == []
    assert without_test([zebra], "def test_command(): ...") == ["command/zebra"]
