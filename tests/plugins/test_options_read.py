"""FEATURES E12: whatever the shipped code reads of a config is declared, so it has a default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dicore
import dicore_plugins
import dicore_registry
from dicore.config import RunConfig, Section, config_class
from dicore.config.schema import fields_of
from dicore.errors import DicoreError

contrib = pytest.importorskip("dicore_contrib_envs")

FILES = sorted(
    file
    for package in (dicore, dicore_plugins, contrib)
    for file in Path(str(package.__file__)).parent.rglob("*.py")
)
HOLDS_A_CONFIG = {"cfg", "_cfg"}


def declared() -> dict[str, bool]:
    """Returns what configs have, by name: whether it holds more, of which may be read in turn."""
    registry = dicore_registry.default()
    classes: list[type[Section]] = [RunConfig]
    for entry in registry.entries():
        if entry.kind in ("command", "preset", "plugin"):
            continue  # no components
        try:
            target = registry.resolve(entry.kind, entry.name).target
            classes.append(config_class(target, entry.kind))
        except (DicoreError, TypeError):
            continue
    names: dict[str, bool] = {}
    for cls in classes:
        for name, field in fields_of(cls).items():
            nested = field.metadata.get("section")
            classes += [nested] if nested is not None and nested not in classes else []
            holds_more = nested is not None or "component" in field.metadata
            names[name] = names.get(name, False) or holds_more
        names |= {name: False for name in dir(cls) if name not in names}
    return names


def reads(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Yields line and names of each chain (`cfg.policy.learn`, `cfg.get("learn")`) of a config."""
    for node in ast.walk(tree):
        names: list[str] = []
        at: ast.AST = node
        while isinstance(at, ast.Attribute | ast.Call | ast.Subscript):
            if isinstance(at, ast.Attribute):
                if at.attr in HOLDS_A_CONFIG:
                    break
                names.append(at.attr)
                at = at.value
                continue
            key = at.slice if isinstance(at, ast.Subscript) else next(iter(at.args), None)
            by_get = isinstance(at, ast.Call) and getattr(at.func, "attr", "") == "get"
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                break
            if isinstance(at, ast.Call):
                if not by_get:
                    break
                at = at.func
            names.append(key.value)
            at = at.value  # type: ignore[attr-defined] # an attribute `get`, or a subscript
        begins = at.attr if isinstance(at, ast.Attribute) else getattr(at, "id", "")
        if names and begins in HOLDS_A_CONFIG:
            yield getattr(node, "lineno", 0), names[::-1]


def undeclared(text: str, names: dict[str, bool]) -> list[str]:
    found = []
    for line, chain in reads(ast.parse(text)):
        for name in chain:
            if name not in names:
                found.append(f"{line}: cfg.{'.'.join(chain)}")
            if not names.get(name):
                break
    return found


def test_every_option_that_is_read_is_declared() -> None:
    names = declared()
    assert len(names) > 100
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    texts = {file: text for file, text in texts.items() if "cfg" in text}
    assert sum(text.count("cfg.policy.") for text in texts.values()) > 20
    found = [f"{file}:{each}" for file, text in texts.items() for each in undeclared(text, names)]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "x = cfg.policy.lern.batch_size",
        "self._cfg.batch_sise",
        "run.cfg.policy.learn.get('tau', 0.005)",
        "cfg['policy']['tau']",
        "cfg.policy.get('learn')['tau']",
    ],
)
def test_one_that_is_not_is_found(text: str) -> None:
    assert undeclared(text, declared())


def test_what_belongs_to_no_config_is_left_alone() -> None:
    text = "cfg.type.upper()\nother.lern.x\ncfg.policy.learn.keys()\ncfg.get('policy')['nstep']"
    assert undeclared(text, declared()) == []
