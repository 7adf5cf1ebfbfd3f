"""From layers to a frozen config: one walk over the schema that notes every mistake it meets."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dicore.config.aliases import ALIASES
from dicore.config.declare import ComponentConfig, Section, range_problem
from dicore.config.fields import Field, fields_of
from dicore.config.layers import Layer
from dicore.config.leaf import Mismatch, got
from dicore.config.merge import merge
from dicore.config.named import by_name, named_class
from dicore.config.nearest import nearest
from dicore.config.plain import join
from dicore.config.problems import Problems
from dicore.config.secrets import is_secret
from dicore.config.signature import SignatureConfig
from dicore.config.slots import Choice, Node, Slots
from dicore.config.values import take
from dicore.errors import ConfigWarning

__all__ = ["DEFAULT", "Walk"]

DEFAULT = "class "
"""How the origin of a value begins that no layer gave."""

_STAMP = "cfg_type"
_OF_EVERY_COMPONENT = frozenset({"type", "import_names", _STAMP})


@dataclass(frozen=True, slots=True)
class _Owner:
    """The component whose options a section holds; for messages."""

    path: str
    label: str

    def words(self, path: str) -> str:
        """Names an option that it has not: `policy 'dqn' has no option 'learn.lr'`."""
        return f"{self.label} has no option '{path.removeprefix(self.path).removeprefix('.')}'"


@dataclass(frozen=True, slots=True)
class _Unknown:
    path: str
    key: str
    siblings: tuple[str, ...]
    owner: _Owner
    layer: Layer


@dataclass(slots=True)
class Walk:
    """Builds sections out of what layers say.

    Args:
        slots: Chooses the components.
        problems: Takes the findings.
        whole: Compile a whole run; False for one section by itself, whose empty slots stay empty.
    """

    slots: Slots
    problems: Problems
    whole: bool = True
    origin: dict[str, str] = field(default_factory=dict)
    given_by: dict[str, Layer] = field(default_factory=dict)
    components: dict[str, dict[str, Any]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    unknown: list[_Unknown] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)

    def root(self, cls: type[Section], path: str, nodes: Sequence[Node]) -> Any:
        """Builds the section that everything else is part of."""
        label = f"{cls.__name__}" if path or not self.whole else "the config"
        return self._section(cls, path, nodes, _Owner(path, label))

    def report_unknown(self, *, strict: bool) -> None:
        """Notes the unknown keys, or warns of them, now that all known ones have been seen."""
        first: dict[str, str] = {}  # of several of one name the first is told anyway
        for path in self.paths:
            first.setdefault(path.rpartition(".")[2], path)
        paths = tuple(first.values())
        for found in self.unknown:
            close = nearest(found.key, found.siblings, paths)
            said = found.owner.words(found.path) + (f"; did you mean '{close}'?" if close else "")
            if strict:
                self.problems.add(found.path, said, found.layer)
            else:
                warnings.warn(f"{found.path}: {said}", ConfigWarning, stacklevel=3)

    def _section(
        self,
        cls: type[Section],
        path: str,
        nodes: Sequence[Node],
        owner: _Owner,
        choice: Choice | None = None,
    ) -> Any:
        fields = fields_of(cls)
        self._note_unknown(fields, path, nodes, owner, is_component=choice is not None)
        displaced = self._displaced(cls, path, nodes)
        values: dict[str, Any] = {}
        for name, declared in fields.items():
            at = join(path, name)
            if choice is not None and name == "type":
                values[name], self.origin[at] = choice.name, choice.said_by
            elif name in displaced:
                values[name], self.origin[at] = None, f"displaced by {displaced[name]}"
            else:
                said = [Node(node.layer, node.value[name]) for node in nodes if name in node.value]
                values[name] = self._value(declared, at, said, owner)
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            self.problems.add(path, str(error.args[0] if error.args else error))
            return None

    def _value(self, declared: Field, path: str, said: Sequence[Node], owner: _Owner) -> Any:
        self.paths.append(path)
        if "section" in declared.metadata:
            nodes = [node for one in said if (node := self._node(one, path)) is not None]
            return self._section(declared.metadata["section"], path, nodes, owner)
        if "component" in declared.metadata:
            return self._component(declared, path, said)
        if "components" in declared.metadata:
            return self._components(declared, path, said)
        return self._leaf(declared, path, said)

    def _leaf(self, declared: Field, path: str, said: Sequence[Node]) -> Any:
        default = declared.default()
        target = ALIASES.get(path) if self.whole else None
        if target is not None and declared.follows != target:
            self.problems.add(path, f"is another name of {target}; declare follows='{target}'")
        if not said:
            self.origin[path] = f"{DEFAULT}{declared.declared_by}"
            return default
        layer, value = said[-1].layer, default
        for node in said:
            value = merge(value, node.value)
        self.origin[path], self.given_by[path] = layer.origin(path), layer
        try:
            value = take(value, declared.hint, path, self.references)
        except Mismatch as wrong:
            self.problems.extend(wrong.findings, layer)
            return default
        problem = range_problem(value, declared.metadata)
        if problem:
            hide = is_secret(path) and str(value) in problem.partition(", got ")[0]
            self.problems.add(path, "is not accepted" if hide else problem, layer)
            return default
        return value

    def _component(self, declared: Field, path: str, said: Sequence[Node]) -> Any:
        default = declared.metadata["component_default"]
        lowest = Node(Layer(f"{DEFAULT}{declared.declared_by}"), default)
        nodes = [
            node
            for one in [lowest, *said]
            if (node := self._node(one, path, names=True)) is not None
        ]
        kind = declared.metadata["component"]
        silent = not any(node.value for node in nodes)
        may_stay_empty = declared.metadata.get("optional", False) or not self.whole
        if silent and may_stay_empty:
            self.origin[path] = f"{DEFAULT}{declared.declared_by}"
            return None
        wanted = _slot_class(declared.hint)
        if not declared.metadata.get("named"):
            return self._fill(kind, path, nodes, wanted)
        single, named = self._by_name(kind, path, nodes)
        if not named:
            return self._fill(kind, path, single, wanted)
        filled = {}
        for name, parts in named.items():
            at = join(path, name)
            own = [node for one in parts if (node := self._node(one, at, names=True)) is not None]
            filled[name] = self._fill(kind, at, own, wanted)
        return named_class(kind, tuple(filled))(**filled)

    def _by_name(
        self, kind: str, path: str, nodes: Sequence[Node]
    ) -> tuple[list[Node], dict[str, list[Node]]]:
        def options(single: Sequence[Node]) -> Sequence[str]:
            quiet = replace(self.slots, problems=Problems())
            choice = quiet.choose(kind, path, single)
            return tuple(fields_of(choice.config_class)) if choice is not None else ()

        def is_component(name: str) -> bool:
            return self.slots.declared(kind, name)

        return by_name(nodes, path, self.problems, options, is_component)

    def _components(self, declared: Field, path: str, said: Sequence[Node]) -> Any:
        layer = Layer(f"{DEFAULT}{declared.declared_by}")
        value: Any = declared.metadata["component_default"]
        if said:
            layer, value = said[-1].layer, said[-1].value
            self.given_by[path] = layer
        self.origin[path] = layer.origin(path)
        value = () if value is None else value
        if isinstance(value, str | Mapping | Section):
            value = (value,)
        if not isinstance(value, list | tuple):
            self.problems.add(path, f"expected a list of components, got {got(value)}", layer)
            return ()
        kind, built = declared.metadata["components"], []
        for index, item in enumerate(value):
            at = f"{path}[{index}]"
            node = self._node(Node(layer, item), at, names=True)
            if node is not None:
                built.append(self._fill(kind, at, [node], ComponentConfig))
        return tuple(item for item in built if item is not None)

    def _fill(
        self, kind: str, path: str, nodes: Sequence[Node], wanted: type[ComponentConfig]
    ) -> Any:
        choice = self.slots.choose(kind, path, nodes)
        if choice is None:
            return None
        if not issubclass(choice.config_class, wanted):
            made = issubclass(choice.config_class, SignatureConfig)  # its name says nobody anything
            said = "it needs a config class, which" if made else choice.config_class.__name__
            text = f"{kind} '{choice.name}': {said} must derive from {wanted.__name__}"
            self.problems.add(join(path, "type"), text)
            return None
        self.components[path] = choice.provenance
        owner = _Owner(path, f"{kind} '{choice.name}'")
        return self._section(choice.config_class, path, choice.nodes, owner, choice)

    def _node(self, said: Node, path: str, *, names: bool = False) -> Node | None:
        """Reads what a layer says of a section; `names` allows a component's bare name."""
        value = said.value
        if value is None:
            return None
        if names and isinstance(value, str | type):
            return Node(said.layer, {"type": value})
        if isinstance(value, Mapping):
            return Node(said.layer, dict(value))
        wanted = "a name or a section" if names else "a section"
        self.problems.add(path, f"expected {wanted}, got {got(value)}", said.layer)
        return None

    def _note_unknown(
        self,
        fields: Mapping[str, Field],
        path: str,
        nodes: Sequence[Node],
        owner: _Owner,
        *,
        is_component: bool,
    ) -> None:
        allowed = _OF_EVERY_COMPONENT if is_component else {_STAMP}
        for node in nodes:
            for key in node.value:
                if key not in fields and key not in allowed:
                    self.unknown.append(
                        _Unknown(join(path, key), str(key), tuple(fields), owner, node.layer)
                    )

    def _displaced(self, cls: type[Section], path: str, nodes: Sequence[Node]) -> dict[str, str]:
        """Finds options that give way to another of their group, said by a higher layer."""
        displaced: dict[str, str] = {}
        for group in cls.one_of:
            for node in reversed(nodes):
                given = [name for name in group if node.value.get(name) is not None]
                if len(given) > 1:
                    said = f"given beside {given[0]}; give one of {', '.join(group)}"
                    self.problems.add(join(path, given[1]), said, node.layer)
                if given:
                    others = (name for name in group if name not in given)
                    displaced.update(dict.fromkeys(others, join(path, given[0])))
                    break
        return displaced


def _slot_class(hint: Any) -> type[ComponentConfig]:
    """Returns the class that a slot's annotation asks of whatever fills it."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, ComponentConfig):
            return candidate
    return ComponentConfig
