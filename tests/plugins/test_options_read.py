"""FEATURES E12: what the code reads of a config is declared, and what is declared is read."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dicore
import dicore_agents
import dicore_compat
import dicore_contrib
import dicore_dist
import dicore_plugins
import dicore_registry
import dicore_worlds
from dicore.config import (
    ComponentConfig,
    LearnConfig,
    RunConfig,
    Section,
    config_class,
    frozen,
    option,
)
from dicore.config.schema import fields_of
from dicore.config.signature import SignatureConfig
from dicore.errors import DicoreError
from dicore_compat.agents import AgentConfig, TeamConfig
from dicore_registry.errors import RetiredWarning
from dicore_registry.metadata import FIRST_PARTY

contrib = pytest.importorskip("dicore_contrib_envs")

FILES = sorted(
    file
    for package in (
        *(dicore, dicore_plugins, dicore_dist, dicore_compat, dicore_agents, dicore_worlds),
        dicore_contrib,
        contrib,
    )
    for file in Path(str(package.__file__)).parent.rglob("*.py")
)
HOLDS_A_CONFIG = {"cfg", "_cfg"}


@cache
def declared() -> dict[str, bool]:
    """Returns what configs have, by name: whether it holds more, of which may be read in turn."""
    bases = AgentConfig, TeamConfig  # not registered: others derive from them
    classes: list[type[Section]] = [RunConfig, *bases, *(cls for _, cls in components())]
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


# ---- and whatever is declared is read: an option that does nothing is a promise that nobody keeps

SECTIONS = {"cfg", "_cfg", "config", "_config", "section"}
"""Names of variables that hold a section, beside the names of sections and slots themselves."""


@cache
def read_names(text: str, sections: frozenset[str]) -> set[str]:
    """Returns the names that a file reads of sections: `learn.x`, `self.x` in a config class, "x".

    A config class that hands itself to a function which goes through all keys reads all of them.
    """
    tree = ast.parse(text)
    names = set(strings(tree))
    unpackers = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(at, ast.Attribute) and at.attr == "keys" for at in ast.walk(node))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = getattr(node.value, "attr", getattr(node.value, "id", ""))
            names |= {node.attr} if holder in sections else set()
        elif isinstance(node, ast.ClassDef) and is_config(node):
            names |= {at.attr for at in ast.walk(node) if is_own(at)}
            calls = [at for at in ast.walk(node) if isinstance(at, ast.Call)]
            handed = {*unpackers, "builds_network"}  # all options, as arguments of a network
            if any(getattr(call.func, "id", "") in handed for call in calls):
                names |= {
                    at.target.id
                    for at in node.body
                    if isinstance(at, ast.AnnAssign) and isinstance(at.target, ast.Name)
                }
    return names


def is_config(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Config", "Section")) for base in node.bases)


def is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"


def strings(tree: ast.AST) -> Iterator[str]:
    """Yields the texts that name options: `get("x")`, `cfg["x"]`, and tuples of names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
            found = node.args[:1]
        elif isinstance(node, ast.Subscript):
            found = [node.slice]
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple):
            found = node.iter.elts
        else:
            continue
        for each in found:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def unread(classes: Iterable[type[Section]], texts: Iterable[str]) -> list[str]:
    """Returns the options of config classes that no text reads; a follower reads for its source."""
    fields = {(cls, name): field for cls in classes for name, field in fields_of(cls).items()}
    structure = {"section", "component", "components"}
    sections = frozenset(SECTIONS).union(
        name for (_, name), field in fields.items() if field.metadata.keys() & structure
    )
    read = {"type", *(name for text in texts for name in read_names(text, sections))}
    read |= {
        field.follows.rpartition(".")[2]
        for (_, name), field in fields.items()
        if field.follows and name in read
    }
    return sorted(
        {f"{field.declared_by}.{name}" for (_, name), field in fields.items() if name not in read}
    )


def unused_parameters(target: Any, options: Iterable[str]) -> list[str]:
    """Returns the parameters of a class or function that its code does not use.

    One that is only stored must be read somewhere in the module.
    """
    module = ast.parse(inspect.getsource(sys.modules[target.__module__]))
    code = ast.parse(textwrap.dedent(inspect.getsource(target)))
    nodes = list(ast.walk(code))
    used = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    loaded = {
        n.attr
        for n in ast.walk(module)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)
    }
    stored = {
        n.value.id: n.targets[0].attr
        for n in nodes
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Name)
        and isinstance(n.targets[0], ast.Attribute)
    }
    return [
        name
        for name in options
        if used[name] == 0 or (used[name] == 1 and stored.get(name, "") not in {"", *loaded})
    ]


@cache
def components() -> list[tuple[Any, type[ComponentConfig]]]:
    """Returns target and config class of every component of our packages."""
    found, registry = [], dicore_registry.default()
    for entry in registry.entries():
        ours = entry.dist in FIRST_PARTY
        if entry.kind in ("command", "preset", "plugin") or not ours:
            continue
        try:
            with warnings.catch_warnings(action="ignore", category=RetiredWarning):
                target = registry.resolve(entry.kind, entry.name).target
            found.append((target, config_class(target, entry.kind)))
        except (DicoreError, TypeError):
            continue
    return found


def config_classes() -> list[type[Section]]:
    """Returns the classes of all sections, nested ones too, that are not made from signatures."""
    classes: list[type[Section]] = [RunConfig]
    classes += [cls for _, cls in components() if not issubclass(cls, SignatureConfig)]
    for cls in classes:
        nested = (field.metadata.get("section") for field in fields_of(cls).values())
        classes += [each for each in nested if each is not None and each not in classes]
    return classes


def test_every_option_that_is_declared_is_read() -> None:
    classes = config_classes()
    assert len({field for cls in classes for field in fields_of(cls)}) > 80
    assert unread(classes, [file.read_text(encoding="utf-8") for file in FILES]) == []


def test_every_parameter_that_is_an_option_is_used() -> None:
    made = [(t, cls) for t, cls in components() if issubclass(cls, SignatureConfig)]
    assert len(made) > 15
    assert [
        f"{target.__qualname__}.{name}"
        for target, cls in made
        for name in unused_parameters(target, fields_of(cls).keys() - {"type", "cfg"})
    ] == []


@frozen(kw_only=True)
class Idle(LearnConfig):
    """Declares an option that only its own declaration names, beside one that is read."""

    idle: int = option(1, "does nothing")
    busy: int = option(1, "is read")
    source: int = option(1, "is followed")
    follower: int = option(1, "is read", follows="policy.learn.source")


@pytest.mark.parametrize(
    "text",
    [
        "busy = learn.busy; cfg.follower",
        "learn.get('busy'); cfg['follower']; idle.x",
        "class C(Config):\n def check(self):\n  return self.busy, self.follower, x.idle",
        "for name in ('busy', 'follower'): print('idle', f(idle=1))",
    ],
)
def test_one_that_nobody_reads_is_found(text: str) -> None:
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    assert unread([*config_classes(), Idle], [*texts, text]) == ["Idle.idle"]


class Stores:
    """Takes options as parameters."""

    def __init__(self, used: int, kept: int, lost: int, ignored: int) -> None:
        self.total = used + 1
        self.own_kept = kept
        self.own_lost = lost

    def read(self) -> int:
        return self.total + self.own_kept


def test_a_parameter_that_does_nothing_is_found() -> None:
    assert unused_parameters(Stores, ["used", "kept", "lost", "ignored"]) == ["lost", "ignored"]
