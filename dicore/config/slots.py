"""Which component fills a slot, and which of the layers' options are meant for it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dicore.config.declare import ComponentConfig
from dicore.config.layers import Layer
from dicore.config.nearest import nearest
from dicore.config.plain import join
from dicore.config.problems import Problems
from dicore.config.signature import config_class
from dicore.errors import ConfigError, ConfigWarning, RegistryError, UnknownComponentError

__all__ = ["Choice", "Node", "RegistryView", "Slots"]

_NAMELESS = object()
"""Stands for the name of a class that has none."""


class RegistryView(Protocol):
    """What config needs of a registry."""

    def resolve(self, kind: str, type_: str, where: str = ...) -> Any: ...

    def find(self, kind: str, name: str, where: str = ...) -> Any: ...

    def supplier(self, kind: str, type_string: str, where: str = ...) -> dict[str, Any]: ...

    def default(self, kind: str, where: str = ...) -> str | None: ...

    def entries(self, kind: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Node:
    """What one layer says about one key: for a section or component, a dict of its own memory."""

    layer: Layer
    value: Any


@dataclass(frozen=True, slots=True)
class Choice:
    """The component that fills a slot.

    Args:
        name: Its exact registered name, as the compiled config holds it.
        config_class: The class of its options.
        provenance: Who supplied it.
        nodes: What the layers say about it, lowest first; options for another type are left out.
        said_by: The source that chose it.
    """

    name: str
    config_class: type[ComponentConfig]
    provenance: dict[str, Any]
    nodes: tuple[Node, ...]
    said_by: str


@dataclass(frozen=True, slots=True)
class Slots:
    """Chooses components; everything it cannot do is a problem, never an exception.

    Args:
        registry: Where names are looked up.
        problems: Takes the findings.
        names_only: Refuse import paths and files, which run code that nobody installed.
        recorded: Who supplied the components of the run whose config it is, by path.
    """

    registry: RegistryView
    problems: Problems
    names_only: bool = False
    recorded: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, kind: str, path: str, nodes: Sequence[Node]) -> Choice | None:
        """Takes the type of the highest layer that gives one, else the kind's default.

        Args:
            kind: What the slot takes.
            path: Where the slot is.
            nodes: What the layers say, lowest first.

        Returns:
            The choice; None when a problem was noted.
        """
        kept, typed = self._of_one_type(kind, path, nodes)
        if typed is not None:
            return self._load(kind, path, typed.value["type"], kept, typed.layer)
        try:
            name = self.registry.default(kind, path)
        except RegistryError as error:
            self.problems.add_error(path, error, _top(kept))
            return None
        if name is None:
            none = "" if self.registry.entries(kind) else f"; no {kind} is installed"
            self.problems.add(path, f"missing 'type' (which {kind}?){none}", _top(kept))
            return None
        return self._load(kind, path, name, kept, Layer(f"default {kind}"))

    def _of_one_type(
        self, kind: str, path: str, nodes: Sequence[Node]
    ) -> tuple[list[Node], Node | None]:
        """Drops what lower layers say about another type than the one chosen."""
        kept: list[Node] = []
        typed: Node | None = None
        for said in nodes:
            node = self._expanded(kind, path, said)
            if "type" in node.value:
                if typed is not None and not self._same(kind, typed.value, node.value):
                    kept = []
                typed = node
            kept.append(node)
        return kept, typed

    def _expanded(self, kind: str, path: str, node: Node) -> Node:
        """Writes a class as its name, and `PROVIDER:ID` of an env as provider and `env_id`."""
        wanted = node.value.get("type")
        if isinstance(wanted, type):
            name = type_of(kind, wanted, self.registry)
            if name is None:
                said = f"{kind} class {wanted.__qualname__} has no name that a config can hold"
                how = f'@register("{kind}", "{wanted.__name__.lower()}")'
                self.problems.add(
                    join(path, "type"), f"{said}; register it: {how} above the class", node.layer
                )
            return replace(node, value={**node.value, "type": name or _NAMELESS})
        if wanted is None:
            return replace(node, value={k: v for k, v in node.value.items() if k != "type"})
        if kind != "env" or not isinstance(wanted, str):
            return node
        provider, env_id = self._env_id(wanted)
        if env_id is None:
            return node
        held = node.value.get("env_id", env_id)
        if held != env_id:
            self.problems.add(
                join(path, "env_id"), f"{held!r} contradicts {path}.type {wanted!r}", node.layer
            )
        return replace(node, value={**node.value, "type": provider, "env_id": env_id})

    def _env_id(self, wanted: str) -> tuple[str, str | None]:
        """Splits the name of an env that a provider knows by an id of its own."""
        if ":" in wanted:
            left, _, right = wanted.partition(":")
            is_import_path = any(sign in left for sign in "./\\")
            return (wanted, None) if is_import_path else (left, right)
        try:
            provider = self.registry.default("env")
        except RegistryError:
            return wanted, None
        if provider is None or self.declared("env", wanted):
            return wanted, None
        try:
            cls = config_class(self.registry.resolve("env", provider, "env.type").target, "env")
        except (RegistryError, ConfigError):
            return wanted, None
        knows = getattr(cls, "knows", None)
        return (provider, wanted) if knows is not None and knows(wanted) else (wanted, None)

    def _same(self, kind: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> bool:
        if "env_id" in high and low.get("env_id", high["env_id"]) != high["env_id"]:
            return False
        if low["type"] == high["type"]:
            return True
        entry = self._entry(kind, high["type"])
        return entry is not None and entry == self._entry(kind, low["type"])

    def declared(self, kind: str, name: str) -> bool:
        """Says whether a name is known, be it usable or not."""
        try:
            self.registry.find(kind, name)
        except UnknownComponentError:
            return False
        except RegistryError:
            return True
        return True

    def _entry(self, kind: str, name: Any) -> Any:
        try:
            return self.registry.find(kind, name) if isinstance(name, str) else None
        except RegistryError:
            return None

    def _load(
        self, kind: str, path: str, wanted: Any, nodes: list[Node], said_by: Layer
    ) -> Choice | None:
        where = join(path, "type")
        if wanted is _NAMELESS:
            return None  # noted already
        if not isinstance(wanted, str) or not wanted:
            self.problems.add(where, f"expected a name, got {wanted!r}", said_by)
            return None
        if self.names_only and ":" in wanted:
            self.problems.add(where, f"{wanted!r} runs code of a file; only names here", said_by)
            return None
        imports = [(node, name) for node in nodes for name in _import_names(node)]
        wanted = self._as_recorded(kind, path, wanted)
        try:
            resolved = self._resolve(kind, wanted, where, imports)
            cls = config_class(resolved.target, kind)
        except RegistryError as error:
            unknown = isinstance(error, UnknownComponentError)
            had = self._supplier(path, wanted) if unknown else None
            more = f"; the run had it of {' '.join(had)}" if had else ""
            self.problems.add_error(where, error, said_by, more)
            meant = self._meant(kind, wanted) if unknown else None
            if meant is None:
                return None
            resolved, cls = meant  # its options may hold mistakes too
        except ConfigError as error:
            self.problems.extend(((where, line) for line in error.problems), said_by)
            return None
        return Choice(
            resolved.name, cls, dict(resolved.provenance), tuple(nodes), said_by.origin(where)
        )

    def _supplier(self, path: str, name: str) -> tuple[str, str] | None:
        """Returns package and version that a run had a component of, where it was recorded."""
        facts = self.recorded.get(path)
        told = facts if isinstance(facts, Mapping) and facts.get("type") == name else {}
        dist, version = told.get("dist"), told.get("version")
        return (dist, str(version)) if isinstance(dist, str) and dist else None

    def _as_recorded(self, kind: str, path: str, name: str) -> str:
        """Names the package of a recorded run where another package has taken the name since."""
        supplier = self._supplier(path, name)
        if supplier is None or "/" in name or ":" in name:
            return name
        qualified = f"{supplier[0]}/{name}"
        here, recorded = self._entry(kind, name), self._entry(kind, qualified)
        return name if recorded is None or here == recorded else qualified

    def _meant(self, kind: str, wanted: str) -> tuple[Any, type[ComponentConfig]] | None:
        """Returns the component that a misspelt name was probably meant to be."""
        names = (entry.name for entry in self.registry.entries(kind) if entry.status == "ok")
        close = nearest(wanted, names, ()) if ":" not in wanted else None
        if close is None:
            return None
        try:
            resolved = self.registry.resolve(kind, close)
            return resolved, config_class(resolved.target, kind)
        except (RegistryError, ConfigError):
            return None

    def _resolve(
        self, kind: str, wanted: str, where: str, imports: Sequence[tuple[Node, str]]
    ) -> Any:
        if not imports or self.names_only:
            return self.registry.resolve(kind, wanted, where)
        needed = not self.declared(kind, wanted)
        failed = [(node, said) for node, name in imports if (said := _import(name))]
        if needed:
            at = f"{where.removesuffix('type')}import_names"
            for node, said in failed:
                self.problems.add(at, said, node.layer)
        else:
            said = ", ".join([name for _, name in imports] + [said for _, said in failed])
            text = f"{where}: {kind} '{wanted}' is installed and needs no import_names ({said})"
            warnings.warn(text, ConfigWarning, stacklevel=2)
        return self.registry.resolve(kind, wanted, where)


def _import(name: str) -> str:
    """Imports a module; returns why that failed, or ""."""
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"cannot import '{name}': {type(error).__name__}: {error}"
    return ""


def type_of(kind: str, cls: type, registry: RegistryView) -> str | None:
    """Returns the name under which a config asks for a class, or for what it configures.

    Args:
        kind: What it is.
        cls: A registered class, its config class, or a component class that names its
            `config_class`.
        registry: Where to look.

    Returns:
        The registered name; without one, its import path; None for a class of a script.
    """
    # an inherited config class is that of another component
    candidates = [cls, vars(cls).get("config_class", cls)]
    targets = [f"{found.__module__}:{found.__qualname__}" for found in candidates]
    for target in targets:
        entry = next((entry for entry in registry.entries(kind) if entry.target == target), None)
        if entry is not None:
            found = registry.find(kind, entry.name)
            return str(entry.name if found == entry else entry.qualified)
    is_importable = "." in cls.__module__ and "<locals>" not in cls.__qualname__
    return targets[0] if is_importable else None


def _import_names(node: Node) -> list[str]:
    names = node.value.get("import_names") or []
    return [names] if isinstance(names, str) else list(names)


def _top(nodes: Sequence[Node]) -> Layer | None:
    return nodes[-1].layer if nodes else None
