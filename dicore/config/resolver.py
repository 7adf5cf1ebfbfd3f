"""Which component fills a slot, and which options of the layers apply to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Protocol

from dicore.config.layers import Layer, Problems
from dicore.config.paths import join
from dicore.config.redact import reads_variable, texts_in, words_in
from dicore.config.schema import ComponentConfig, Section, component, fields_of, frozen
from dicore.config.signature import config_class
from dicore.errors import ConfigError, ConfigWarning, RegistryError, UnknownComponentError
from dicore_registry import Entry, Resolved, canonical, code_paths, nearest
from dicore_registry.explain import beside, gone
from dicore_registry.known import known

_NAMELESS = object()
"""Stands for the name of a class that has none."""


class RegistryView(Protocol):
    """What config needs of a registry."""

    def resolve(self, kind: str, type_: str, where: str = ...) -> Resolved: ...
    def find(self, kind: str, name: str, where: str = ...) -> Entry: ...
    def supplier(self, kind: str, type_string: str, where: str = ...) -> dict[str, object]: ...
    def default(self, kind: str, where: str = ...) -> str | None: ...
    def entries(self, kind: str) -> Iterable[Entry]: ...
    def judged(self, entry: Entry) -> Entry: ...


@dataclass(frozen=True, slots=True)
class LayerValue:
    """The value of one layer for one key; for a section or component, a dict of its own memory."""

    layer: Layer
    value: Any


@dataclass(frozen=True, slots=True)
class ResolvedComponent:
    """The component that fills a slot."""

    name: str
    config_class: type[ComponentConfig]
    provenance: dict[str, Any]
    values: tuple[LayerValue, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class ComponentResolver:
    """Chooses components; every failure is added to the problems."""

    registry: RegistryView
    problems: Problems
    names_only: bool | None = None
    recorded: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)

    def only_names(self, layer: Layer) -> bool:
        """Returns whether code paths of a layer are refused: all, none, or those of saved ones."""
        return layer.saved if self.names_only is None else self.names_only

    def _refuses(self, layer: Layer, text: str) -> bool:
        """Returns whether a layer may not name code by a path, or a module."""
        known = self.names_only is None and layer.handed_on and code_paths.is_given(text)
        return self.only_names(layer) and not known

    def admit(self, layers: Sequence[Layer]) -> None:
        """Allows code paths and references that a person gave; no others, if one is a stranger's.

        Once for the process: parts are built later, some in other threads.
        """
        for layer in layers:
            if not self.only_names(layer):
                code_paths.allow(words_in(layer.tree))
                continue
            code_paths.close()
            if not layer.saved:  # --names-only forbids no references
                code_paths.allow(filter(reads_variable, words_in(layer.tree)))

    def check_names(self, given: LayerValue, path: str) -> None:
        """Adds the code paths that an option's value, a dict or list, gives as types."""
        for at, text in texts_in(given.value, path) if self.only_names(given.layer) else ():
            if at.endswith(".type") and ":" in text and self._refuses(given.layer, text):
                self.problems.add_code_path(at, text, given.layer, bool(self.names_only))

    def choose(
        self, kind: str, path: str, values: Sequence[LayerValue]
    ) -> ResolvedComponent | None:
        """Returns the component that the highest layer names, else the kind's default.

        Returns:
            The component; None if a problem was added.
        """
        kept, typed = self._of_one_type(kind, path, values)
        if typed is not None:
            return self._load(kind, path, typed.value["type"], kept, typed.layer)
        top = kept[-1].layer if kept else None
        try:
            name = self.registry.default(kind, path)
        except RegistryError as error:
            self.problems.add_error(path, error, top)
            return None
        if name is None:
            none = "" if self.registry.entries(kind) else f"; no {kind} is installed"
            self.problems.add(path, f"missing 'type' (see 'dicore list {kind}'){none}", top)
            return None
        return self._load(kind, path, name, kept, Layer(f"default {kind}"))

    def _of_one_type(
        self, kind: str, path: str, values: Sequence[LayerValue]
    ) -> tuple[list[LayerValue], LayerValue | None]:
        """Drops the options of lower layers for another type than the chosen one."""
        kept: list[LayerValue] = []
        typed: LayerValue | None = None
        for value in values:
            expanded = self._expanded(kind, path, value)
            if "type" in expanded.value:
                if typed is not None and not self._same(kind, typed.value, expanded.value):
                    kept = []
                typed = expanded
            kept.append(expanded)
        return kept, typed

    def _expanded(self, kind: str, path: str, node: LayerValue) -> LayerValue:
        """Replaces a class by its name, and `PROVIDER:ID` of an env by provider and `env_id`."""
        wanted = node.value.get("type")
        if isinstance(wanted, type):
            name = type_of(kind, wanted, self.registry)
            if name is None:
                message = f"{kind} class {wanted.__qualname__} has no name that a config can hold"
                how = f'@register("{kind}", "{wanted.__name__.lower()}")'
                self.problems.add(
                    join(path, "type"), f"{message}; register it: {how} above the class", node.layer
                )
            return replace(node, value={**node.value, "type": name or _NAMELESS})
        if wanted is None:
            return replace(node, value={k: v for k, v in node.value.items() if k != "type"})
        if kind != "env" or not isinstance(wanted, str):
            return node
        try:
            provider, env_id = self._env_id(wanted, node.layer)
        except RegistryError as error:
            self.problems.add_error(join(path, "type"), error, node.layer)
            return replace(node, value={**node.value, "type": _NAMELESS})
        if env_id is None:
            return replace(node, value={**node.value, "type": provider})
        given = node.value.get("env_id", env_id)
        if given != env_id:
            self.problems.add(
                join(path, "env_id"), f"{given!r} contradicts {path}.type {wanted!r}", node.layer
            )
        return replace(node, value={**node.value, "type": provider, "env_id": env_id})

    def _env_id(self, wanted: str, layer: Layer) -> tuple[str, str | None]:
        """Returns the registered env or import path that a text means, and the id within it."""
        if ":" not in wanted and self.declared("env", wanted):
            return wanted, None
        from dicore.config.env_names import EnvNames

        choice = EnvNames(self.registry).read(wanted, imports=not self.only_names(layer))
        no_name = ":" in wanted or wanted.endswith(".py")
        if choice.tried and (no_name or wanted != canonical(wanted)):
            self.tried[wanted] = f"; tried in order: {', '.join(choice.tried)}"
            if no_name:
                meant = beside(wanted) if "::" in wanted else ""
                raise UnknownComponentError(meant or f"no env '{wanted}'{self.tried[wanted]}")
        return choice.type, choice.env_id

    def _same(self, kind: str, low: Mapping[str, object], high: Mapping[str, object]) -> bool:
        if "env_id" in high and low.get("env_id", high["env_id"]) != high["env_id"]:
            return False
        if "env_id" in low and "env_id" in high and low["type"] == self.registry.default("env"):
            return True  # one id, by two names
        if low["type"] == high["type"]:
            return True
        entry = self._entry(kind, high["type"])
        return entry is not None and entry == self._entry(kind, low["type"])

    def declared(self, kind: str, name: str) -> bool:
        """Returns whether a name is known, usable or not."""
        try:
            self.registry.find(kind, name)
        except RegistryError as error:
            return not isinstance(error, UnknownComponentError)
        return True

    def _entry(self, kind: str, name: object) -> Entry | None:
        try:
            return self.registry.find(kind, name) if isinstance(name, str) else None
        except RegistryError:
            return None

    def _load(
        self, kind: str, path: str, wanted: object, values: list[LayerValue], layer: Layer
    ) -> ResolvedComponent | None:
        where = join(path, "type")
        if wanted is _NAMELESS:
            return None  # a problem already
        if not isinstance(wanted, str) or not wanted:
            self.problems.add(where, f"expected a name, got {wanted!r}", layer)
            return None
        if ":" in wanted and self._refuses(layer, wanted):
            self.problems.add_code_path(where, wanted, layer, bool(self.names_only))
            return None
        wanted = self._as_recorded(kind, path, wanted)
        try:
            resolved = self._resolve(kind, wanted, where, values)
            cls = config_class(resolved.target, kind)
        except RegistryError as error:
            unknown = isinstance(error, UnknownComponentError)
            supplier = self._supplier(path, wanted) if unknown else None
            if supplier is not None:
                self.problems.add(where, gone(kind, wanted, *supplier), layer)
                return None
            more = self.tried.get(wanted, "") if kind == "env" else ""
            self.problems.add_error(where, error, layer, more)
            meant = self._meant(kind, wanted) if unknown else None
            if meant is None:
                return None
            resolved, cls = meant  # its options may be wrong too
        except ConfigError as error:
            self.problems.extend(((where, line) for line in error.problems), layer)
            return None
        provenance = dict(resolved.provenance)
        return ResolvedComponent(resolved.name, cls, provenance, tuple(values), layer.origin(where))

    def _supplier(self, path: str, name: str) -> tuple[str, str] | None:
        """Returns package and version from which the recorded run took a component."""
        facts = self.recorded.get(path, {})
        if facts.get("type") != name:
            return None
        dist = facts.get("dist")
        return (dist, str(facts.get("version"))) if isinstance(dist, str) and dist else None

    def _as_recorded(self, kind: str, path: str, name: str) -> str:
        """Qualifies a name of a recorded run if another package has the bare name now."""
        supplier = self._supplier(path, name)
        if supplier is None or "/" in name or ":" in name:
            return name
        qualified = f"{supplier[0]}/{name}"
        here, recorded = self._entry(kind, name), self._entry(kind, qualified)
        return name if recorded is None or here == recorded else qualified

    def _meant(self, kind: str, wanted: str) -> tuple[Resolved, type[ComponentConfig]] | None:
        """Returns the component that a misspelt name probably means."""
        exists = ":" in wanted or canonical(wanted) in known(kind)  # in a package that is missing
        judged = () if exists else map(self.registry.judged, self.registry.entries(kind))
        if not (close := nearest(wanted, (e.name for e in judged if e.status == "ok"))):
            return None
        try:
            resolved = self.registry.resolve(kind, close)
            return resolved, config_class(resolved.target, kind)
        except (RegistryError, ConfigError):
            return None

    def _resolve(
        self, kind: str, wanted: str, where: str, values: Sequence[LayerValue]
    ) -> Resolved:
        """Resolves a name, after importing the modules of `import_names` if it needs them."""
        asked = [(value, name) for value in values for name in _import_names(value)]
        imports = [each for each in asked if not self._refuses(each[0].layer, each[1])]
        refused = ", ".join(name for value, name in asked if self._refuses(value.layer, name))
        if refused and self.names_only is not None:
            warnings.warn(f"{where}: import_names is refused: {refused}", ConfigWarning, 2)
        if not imports:
            return self.registry.resolve(kind, wanted, where)
        needed = not self.declared(kind, wanted)
        failed = [(value, reason) for value, name in imports if (reason := _import(name))]
        if needed:
            at = f"{where.removesuffix('type')}import_names"
            for value, reason in failed:
                self.problems.add(at, reason, value.layer)
        else:
            names = ", ".join([name for _, name in imports] + [reason for _, reason in failed])
            text = f"{where}: {kind} '{wanted}' is installed and needs no import_names ({names})"
            warnings.warn(text, ConfigWarning, stacklevel=2)
        return self.registry.resolve(kind, wanted, where)

    def split_named_components(
        self, kind: str, path: str, values: Sequence[LayerValue]
    ) -> tuple[list[LayerValue], dict[str, list[LayerValue]]]:
        """Separates the values of one component from those of several by name.

        Returns:
            The values of the one component, and those of each name. If there are names, the slot
            holds several components.
        """
        single: list[LayerValue] = []
        named: dict[str, list[LayerValue]] = {}
        for each in values:
            value = each.value
            if not value:
                continue
            if "type" in value:
                single, named = ([] if named else single) + [each], {}
            elif self._holds_names(kind, value) and not self._are_options(
                kind, path, value, single
            ):
                self._add_named(named, each, path)
            elif named:
                key = next(iter(value))
                names = ", ".join(named)
                text = f"ambiguous, several are configured ({names}); write "
                text += f"{join(path, next(iter(named)))}.{key}"
                self.problems.add(join(path, key), text, each.layer)
            else:
                single.append(each)
        return single, named

    def _add_named(self, named: dict[str, list[LayerValue]], each: LayerValue, path: str) -> None:
        known = list(named)
        for name, value in each.value.items():
            at = join(path, name)
            has_type = "type" in value if isinstance(value, Mapping) else value is not None
            is_new = known and name not in named and not has_type
            close = nearest(name, known) if is_new else ""
            if name in _RESERVED or name.startswith("_"):
                text = f"'{name}' is reserved and cannot name a component"
                self.problems.add(at, text, each.layer)
            elif close:
                text = f"unknown name; expected {', '.join(known)}; did you mean '{close}'?"
                self.problems.add(at, text, each.layer)
            elif value is None:
                named.pop(name, None)
            else:
                named.setdefault(name, []).append(replace(each, value=value))

    def _holds_names(self, kind: str, value: Mapping[object, object]) -> bool:
        return all(
            isinstance(name, str)
            and name.isidentifier()
            and (
                item is None
                or isinstance(item, Mapping | Section | type)
                or (isinstance(item, str) and self.declared(kind, item))
            )
            for name, item in value.items()
        )

    def _are_options(
        self, kind: str, path: str, value: Mapping[str, object], single: Sequence[LayerValue]
    ) -> bool:
        """Returns whether nested mappings are a section of one component, maybe misspelt."""
        chosen = replace(self, problems=Problems()).choose(kind, path, single)
        known = tuple(fields_of(chosen.config_class)) if chosen is not None else ()
        return any(nearest(name, known) for name in value)


def _import(name: str) -> str:
    """Imports a module; returns why that failed, or ""."""
    try:
        code_paths.import_module(name)
    except Exception as error:
        return f"cannot import '{name}': {type(error).__name__}: {error}"
    return ""


def _import_names(value: LayerValue) -> list[str]:
    names = value.value.get("import_names") or []
    return [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]


def type_of(kind: str, cls: type, registry: RegistryView) -> str | None:
    """Returns the name by which a config asks for a class, or for the component it configures.

    Returns:
        The registered name; without one, its import path; None for a class of a script.
    """
    # an inherited config class is that of another component
    candidates = [cls, vars(cls).get("config_class", cls)]
    targets = [f"{each.__module__}:{each.__qualname__}" for each in candidates]
    for target in targets:
        entry = next((entry for entry in registry.entries(kind) if entry.target == target), None)
        if entry is not None:
            found = registry.find(kind, entry.name)
            return str(entry.name if found == entry else entry.qualified)
    is_importable = "." in cls.__module__ and "<locals>" not in cls.__qualname__
    return targets[0] if is_importable else None


@frozen(kw_only=True)
class NamedConfig(Section):
    """Components of one kind by name; reads like any section (`replay_buffer.demo`)."""

    _kind: ClassVar[str]

    def build(self, ctx: Any, **parts: Any) -> dict[str, Any]:
        """Builds each component; returns them by name."""
        return {name: getattr(self, name).build(ctx, **parts) for name in self.keys()}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._kind, tuple((name, getattr(self, name)) for name in self.keys()))


_RESERVED = frozenset(dir(NamedConfig)) | {"type", "check", "bind", "import_names", "cfg_type"}


@cache
def named_class(kind: str, names: tuple[str, ...]) -> type[NamedConfig]:
    """Returns the section class of components of a kind with these names, in order."""
    namespace: dict[str, object] = {
        "__annotations__": dict.fromkeys(names, ComponentConfig),
        "__doc__": f"The {kind}s {', '.join(names)}.",
        "__module__": __name__,
        "_kind": kind,
        **{name: component(kind) for name in names},
    }
    return frozen(kw_only=True)(type("NamedConfig", (NamedConfig,), namespace))


def _rebuild(kind: str, values: tuple[tuple[str, object], ...]) -> NamedConfig:
    return named_class(kind, tuple(name for name, _ in values))(**dict(values))
