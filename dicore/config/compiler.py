"""Compiles a config: class defaults < preset < file < command line, as one frozen, checked tree.

Pure: inputs are not changed, nothing is written, and all mistakes are raised in one error.
"""

from __future__ import annotations

import os
import typing
import warnings
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as evolved
from functools import reduce
from typing import Any, TypeVar, cast

import attrs

from dicore.config.checks import (
    DEFAULT,
    fill_from_spec,
    fill_linked_defaults,
    report_missing,
    run_checks,
)
from dicore.config.convert import Mismatch, describe_value, resolve_value, shortened
from dicore.config.layers import ALIASES, Layer, Overrides, Problems, expand_aliases
from dicore.config.paths import dotted, join, lookup, merge, plain, sections
from dicore.config.redact import is_secret, words_in
from dicore.config.resolver import (
    ComponentResolver,
    LayerValue,
    RegistryView,
    ResolvedComponent,
    named_class,
)
from dicore.config.schema import ComponentConfig, Field, Section, fields_of, range_problem
from dicore.config.sections import Compiled, EnvConfig, PolicyConfig, RunConfig
from dicore.config.signature import untyped_parameters
from dicore.config.sources import Sources
from dicore.config.writer import compare_record, recorded_components, saved_tree
from dicore.errors import ConfigError, ConfigWarning, RegistryError
from dicore_registry import code_paths, default, nearest
from dicore_registry.plugin_filter import is_on
from dicore_registry.public_names import public_name

S = TypeVar("S", bound=Section)
C = TypeVar("C", bound=ComponentConfig)

_STAMP = "cfg_type"
_OF_EVERY_COMPONENT = frozenset({"type", "import_names", _STAMP})
_ABSENT = object()
_MOST_HINTS = 1000


def compile_config(  # noqa: PLR0913 - sources are many
    main: object = None,
    create: Mapping[str, object] | None = None,
    *parts: Any,
    preset: str | Callable[[object, object], str | None] | None = None,
    overrides: Overrides | None = None,
    seed: int | None = None,
    registry: RegistryView | None = None,
    strict: bool = True,
    names_only: bool | None = None,
    cpanel: Mapping[str, object] | str | None = None,
    saved: bool = False,
    locked: bool = False,
    loaded: Callable[[dict[str, Any]], Any] | None = None,
    **more: object,
) -> Compiled:
    """Compiles a config.

    Args:
        main: A dict, `[main_config, create_config]` (and a `system_config`, whose options are those
            of `pipeline.system`), `{"cpanel": …, "gen_params": …}`, the path of a file or of a run
            folder, a hand-made or a compiled config; None for names and defaults alone. Of a run
            folder only `config.json` is read.
        create: A create_config.
        *parts: Classes of parts, in another framework's order (deprecated).
        preset: Name of a preset, below `main`; or a function that returns it for env and policy
            (None for one of which `main` has more than the name).
        overrides: `"policy.learn.batch_size=128"`, a list of these, or a dict; above `main`.
        seed: Random seed of the run, above all.
        registry: Where components are looked up; None for everything installed.
        strict: Unknown keys are errors; else warnings.
        names_only: Refuse code that is named by import path, file or `import_names`; None refuses
            it in a `config.json`, which may come from others.
        saved: `main` is such a config, whose text this program has read by itself.
        cpanel: Overrides parameters of the control panel of `main`; a dict, or JSON as text.
        locked: Fail if a component differs from the one recorded in `main`, which is a run folder
            or its `config.json`; else such differences are warnings.
        loaded: Called with the merged tree of all sources, before a component is looked up.
        **more: Classes of parts by name, and other arguments of that framework (deprecated).

    Raises:
        ConfigError: all mistakes, sorted by path.
        RegistryError: the only mistake is a known component that cannot be loaded.
    """
    if parts or more or not isinstance(create, Mapping | None):
        asked = f"compile_config with {', '.join(more) or 'classes'}"
        more |= {"preset": preset, "overrides": overrides, "seed": seed, "registry": registry}
        more |= {"strict": strict, "names_only": names_only, "cpanel": cpanel, "saved": saved}
        more |= {"locked": locked, "loaded": loaded}
        adapter = public_name("compile_config_of_di_engine", asked)
        return cast(Compiled, adapter(main, create, *parts, **more))
    registry = registry if registry is not None else default()
    sources = Sources(main, create, preset, overrides, seed, cpanel, saved=saved)
    names_only = is_on(os.environ, "DICORE_NAMES_ONLY") or names_only
    problems = Problems()
    if isinstance(main, Compiled):
        tree, saved = saved_tree(main, redact=False), main.saved
        sources = evolved(sources, main=tree, name="compiled config", saved=saved)
    file = sources.read(problems, bool(names_only))
    problems.raise_if_any()
    record = file.record if file is not None else None
    resolver = ComponentResolver(registry, problems, names_only, recorded_components(record))
    try:
        layers = sources.layers(problems, file)
    except RecursionError:
        raise ConfigError("the config is nested too deeply, or contains itself") from None
    resolver.admit(layers)
    lowest = sources.below(layers, registry, problems)
    resolver.admit(lowest)
    layers = [*lowest, *layers]
    if loaded is not None:
        loaded(reduce(merge, (layer.tree for layer in layers), {}))
    compiled = Compiler(resolver, problems).compile(layers, strict=strict)
    source = main if file is None and isinstance(main, Compiled) else file
    panel = None if source is None else source.cpanel
    foreign = any(layer.saved and resolver.only_names(layer) for layer in layers)
    compiled = evolved(compiled, saved=foreign, cpanel=panel)
    compare_record(compiled, record, locked=locked)
    return compiled


def compile_section(
    cls: type[S], options: Mapping[str, object], *, registry: RegistryView | None = None
) -> S:
    """Compiles the options of one component, for a constructor that is called by hand.

    Raises:
        ConfigError: all mistakes; paths begin below the section, or with `policy` and `env` for
            these.
    """
    at = "policy" if issubclass(cls, PolicyConfig) else "env" if issubclass(cls, EnvConfig) else ""
    problems = Problems()
    layer = Layer("options", plain(options))
    if at:
        layer = Layer("options", expand_aliases({at: layer.tree}, problems, layer, below=at)[at])
    registry = registry if registry is not None else default()
    compiler = Compiler(ComponentResolver(registry, problems), problems, whole=False)
    section = compiler.section(cls, at, [LayerValue(layer, layer.tree)], (at, cls.__name__))
    compiler.report_unknown(strict=True)
    if section is not None:
        report_missing(section, problems, prefix=at, whole=False)
        run_checks(section, problems, prefix=at)
    problems.raise_if_any()
    assert isinstance(section, cls)
    return section


def as_config(cfg: C | Mapping[str, object] | None, config_class: type[C]) -> C:
    """Returns a section of any class unchanged, and compiles a dict of options into one."""
    return cfg if isinstance(cfg, ComponentConfig) else compile_section(config_class, cfg or {})


@dataclass(slots=True)
class Compiler:
    """Builds sections from the layers' values."""

    resolver: ComponentResolver
    problems: Problems
    whole: bool = True
    origin: dict[str, str] = field(default_factory=dict)
    given_by: dict[str, Layer] = field(default_factory=dict)
    components: dict[str, dict[str, object]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    unknown: list[tuple[str, str, type[Section], tuple[str, str], Layer]] = field(
        default_factory=list
    )
    references: dict[str, str] = field(default_factory=dict)

    def compile(self, layers: Sequence[Layer], *, strict: bool) -> Compiled:
        """Builds and checks a whole run."""
        problems = self.problems
        nodes = [LayerValue(layer, layer.tree) for layer in layers]
        cfg = self.section(RunConfig, "", nodes, ("", "the config"))
        self.report_unknown(strict=strict)
        if cfg is not None:
            if isinstance(cfg.env, EnvConfig):
                cfg = attrs.evolve(cfg, env=fill_from_spec(cfg.env, self.origin, problems))
            cfg = fill_linked_defaults(cfg, self.origin, problems, self._repeats)
            report_missing(cfg, problems, whole=True)
            run_checks(cfg, problems)
        if problems.found:
            problems.places = {path: layer.place(path) for path, layer in self.given_by.items()}
        problems.raise_if_any()
        return Compiled(cfg, self.origin, self.components | self._mentioned(cfg), self.references)

    def _repeats(self, path: str, source: str) -> bool:
        """Returns whether the layer that gives a value gives `source` the same one."""
        layer = self.given_by.get(path)
        value = lookup(layer.tree, source, _ABSENT) if layer else _ABSENT
        return layer is not None and value is not _ABSENT and value == lookup(layer.tree, path)

    def _mentioned(self, cfg: RunConfig) -> dict[str, dict[str, object]]:
        """Returns the packages of the components that free-form options name, by path."""
        suppliers = {}
        for keys, section in sections(cfg):
            mentions = getattr(section, "mentions", None)
            for below, kind, name in mentions() if mentions is not None else ():
                path = join(dotted(keys), below)
                suppliers[path] = self.resolver.registry.supplier(kind, name, path)
        return suppliers

    def report_unknown(self, *, strict: bool) -> None:
        """Adds the unknown keys to the problems, or warns of them, once all paths are known."""
        first: dict[str, str] = {}
        for path in self.paths:
            first.setdefault(path.rpartition(".")[2], path)
        paths = tuple(first.values())
        for index, (path, key, cls, (above, label), layer) in enumerate(self.unknown):
            message = f"{label} has no option '{path.removeprefix(above).removeprefix('.')}'"
            message += _hint(key, cls, paths, {*self.paths}) if index < _MOST_HINTS else ""
            if strict:
                self.problems.add(path, message, layer)
            else:
                warnings.warn(f"{path}: {message}", ConfigWarning, stacklevel=3)

    def section(
        self,
        cls: type[Section],
        path: str,
        nodes: Sequence[LayerValue],
        owner: tuple[str, str],
        chosen: ResolvedComponent | None = None,
    ) -> Any:
        """Builds a section; `owner` is the path and the label of the nearest component."""
        fields = fields_of(cls)
        allowed = _OF_EVERY_COMPONENT if chosen is not None else {_STAMP}
        self.unknown += [
            (join(path, key), str(key), cls, owner, node.layer)
            for node in nodes
            for key in node.value
            if key not in fields and key not in allowed
        ]
        told = ChainMap(*(node.value for node in reversed(nodes)))
        implied = [(f"implied by {key}", cls.implies[key]) for key in cls.implies if told.get(key)]
        code_paths.allow(words_in(implied))
        if cls.formerly and any(node.layer.complete for node in nodes):
            implied.append(("as it was before the option existed", cls.formerly))
        nodes = [*(LayerValue(Layer(why), tree) for why, tree in implied), *nodes]
        displaced = self._displaced(cls, path, nodes)
        values: dict[str, object] = {}
        for name, declared in fields.items():
            at = join(path, name)
            if chosen is not None and name == "type":
                values[name], self.origin[at] = chosen.name, chosen.origin
            elif name in displaced:
                values[name], self.origin[at] = None, f"displaced by {displaced[name]}"
            else:
                given = [LayerValue(n.layer, n.value[name]) for n in nodes if name in n.value]
                values[name] = self._value(declared, at, given, owner)
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            self.problems.add(path, str(error.args[0] if error.args else error))
            return None

    def _value(
        self, declared: Field, path: str, given: Sequence[LayerValue], owner: tuple[str, str]
    ) -> object:
        self.paths.append(path)
        if "section" in declared.metadata:
            nodes = [node for each in given if (node := self._node(each, path)) is not None]
            return self.section(declared.metadata["section"], path, nodes, owner)
        if "component" in declared.metadata:
            return self._component(declared, path, given)
        if "components" in declared.metadata:
            return self._components(declared, path, given)
        return self._leaf(declared, path, given)

    def _leaf(self, declared: Field, path: str, given: Sequence[LayerValue]) -> object:
        default = declared.default()
        code_paths.allow(words_in(default))
        target = ALIASES.get(path) if self.whole else None
        if target is not None and declared.follows != target:
            self.problems.add(path, f"is another name of {target}; declare follows='{target}'")
        if not given:
            self.origin[path] = f"{DEFAULT}{declared.declared_by}"
            return default
        for each in given:
            if isinstance(each.value, dict | list | tuple):
                self.resolver.check_names(each, path)
        layer = given[-1].layer
        value = reduce(merge, (each.value for each in given), default)
        self.origin[path], self.given_by[path] = layer.origin(path), layer
        meaning = declared.metadata.get("help", "")
        about = f"{declared.name}: {meaning} (default: {shortened(default)})" if meaning else ""
        try:
            value = resolve_value(value, declared.hint, path, self.references)
        except Mismatch as wrong:
            self.problems.extend(wrong.findings, layer)
            self.problems.about = about
            return default
        if path in self.references and self.whole and not self.resolver.only_names(layer):
            code_paths.allow([value] if isinstance(value, str) else ())
        problem = range_problem(value, declared.metadata)
        if problem:
            hide = is_secret(path) and str(value) in problem.partition(", got ")[0]
            self.problems.add(path, "is not accepted" if hide else problem, layer)
            self.problems.about = about
            return default
        return value

    def _component(self, declared: Field, path: str, given: Sequence[LayerValue]) -> object:
        facts = declared.metadata
        code_paths.allow(words_in(facts["component_default"]))
        lowest = LayerValue(Layer(f"{DEFAULT}{declared.declared_by}"), facts["component_default"])
        emptied = [at for at, each in enumerate(given) if each.value is None]
        if emptied and facts["optional"]:  # None hides what lower layers put into the slot
            lowest, given = given[emptied[-1]], given[emptied[-1] + 1 :]
        nodes = self._nodes([lowest, *given], path)
        if not any(node.value for node in nodes) and (facts["optional"] or not self.whole):
            self.origin[path] = lowest.layer.origin(path)
            return None
        kind, wanted = facts["component"], _slot_class(declared.hint)
        if not facts.get("named"):
            return self._fill(kind, path, nodes, wanted)
        single, named = self.resolver.split_named_components(kind, path, nodes)
        if not named:
            return self._fill(kind, path, single, wanted)
        filled = {
            name: self._fill(kind, join(path, name), self._nodes(each, join(path, name)), wanted)
            for name, each in named.items()
        }
        return named_class(kind, tuple(filled))(**filled)

    def _components(self, declared: Field, path: str, given: Sequence[LayerValue]) -> object:
        layer = Layer(f"{DEFAULT}{declared.declared_by}")
        value: Any = declared.metadata["component_default"]
        code_paths.allow(words_in(value))
        if given:
            layer, value = given[-1].layer, given[-1].value
            self.given_by[path] = layer
        self.origin[path] = layer.origin(path)
        value = () if value is None else value
        if isinstance(value, str | Mapping | Section):
            value = (value,)
        if not isinstance(value, list | tuple):
            message = f"expected a list of components, got {describe_value(value)}"
            self.problems.add(path, message, layer)
            return ()
        kind, built = declared.metadata["components"], []
        for index, item in enumerate(value):
            at = f"{path}[{index}]"
            if nodes := self._nodes([LayerValue(layer, item)], at):
                built.append(self._fill(kind, at, nodes, ComponentConfig))
        return tuple(item for item in built if item is not None)

    def _fill(
        self, kind: str, path: str, nodes: Sequence[LayerValue], wanted: type[ComponentConfig]
    ) -> object:
        chosen = self.resolver.choose(kind, path, nodes)
        if chosen is None:
            return None
        if not issubclass(chosen.config_class, wanted):
            message = f"{kind} '{chosen.name}' needs a config class derived from {wanted.__name__}"
            self.problems.add(join(path, "type"), message)
            return None
        self.components[path] = chosen.provenance
        owner = (path, f"{kind} '{chosen.name}'")
        return self.section(chosen.config_class, path, chosen.values, owner, chosen)

    def _nodes(self, given: Sequence[LayerValue], path: str) -> list[LayerValue]:
        return [node for one in given if (node := self._node(one, path, names=True)) is not None]

    def _node(self, given: LayerValue, path: str, *, names: bool = False) -> LayerValue | None:
        """Reads a layer's value of a section; `names` allows a component's bare name."""
        value = given.value
        if value is None:
            return None
        if names and isinstance(value, str | type):
            return LayerValue(given.layer, {"type": value})
        if isinstance(value, Mapping):
            return LayerValue(given.layer, dict(value))
        wanted = "a name or a section" if names else "a section"
        self.problems.add(path, f"expected {wanted}, got {describe_value(value)}", given.layer)
        return None

    def _displaced(
        self, cls: type[Section], path: str, nodes: Sequence[LayerValue]
    ) -> dict[str, str]:
        """Returns the options that another of their group, set by a higher layer, displaces."""
        displaced: dict[str, str] = {}
        for group in cls.one_of:
            for node in reversed(nodes):
                given = [name for name in group if node.value.get(name) is not None]
                if len(given) > 1:
                    message = f"given beside {given[0]}; give one of {', '.join(group)}"
                    self.problems.add(join(path, given[1]), message, node.layer)
                if given:
                    others = (name for name in group if name not in given)
                    displaced.update(dict.fromkeys(others, join(path, given[0])))
                    break
        return displaced


def _hint(key: str, cls: type[Section], paths: Sequence[str], every: Set[str]) -> str:
    """Returns the end of a message about an unknown option: what it may be called here."""
    siblings, loose = tuple(fields_of(cls)), untyped_parameters(cls)
    if key in loose or ("**" in loose and not nearest(key, siblings)):
        return f"; make '{key}' a parameter of a plain type, or pass it in a function: ./F.py:f"
    with suppress(AttributeError, RegistryError):  # the table comes with another package
        path = public_name("meant_option")(key, every)
        if "." in path or path in siblings:  # a whole component only where it stands
            return f"; '{key}' is {path} here{public_name('unit_of_word')(key)}"
    close = nearest(key, siblings, paths)
    if not close and "make_kwargs" in siblings:
        return f"; an argument of the environment is env.make_kwargs.{key}"
    said = f"did you mean '{close}'?" if close != key else f"'{key}' stands at the top of a config"
    return f"; {said}" if close else ""


def _slot_class(hint: object) -> type[ComponentConfig]:
    """Returns the class that the annotation of a slot requires."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, ComponentConfig):
            return candidate
    return ComponentConfig
