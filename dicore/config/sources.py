"""Turns the sources of `compile_config` into layers: dicts, files, presets, overrides, classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from dicore.config.layers import PRESET, Layer, Overrides, Problems, expand_aliases, override_tree
from dicore.config.paths import combine, plain
from dicore.config.resolver import RegistryView
from dicore.config.schema import Section
from dicore.errors import ConfigError, RegistryError
from dicore_registry.public_names import public_name

if TYPE_CHECKING:
    from dicore.config.reader import ConfigFile

_DICTS = ("main_config", "create_config", "system_config")


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a config is compiled from; the arguments of `compile_config` say what."""

    main: object = None
    create: Mapping[str, object] | None = None
    preset: str | Callable[[object, object], str | None] | None = None
    overrides: Overrides | None = None
    seed: int | None = None
    cpanel: Mapping[str, object] | str | None = None
    name: str = "config"
    saved: bool = False

    def read(self, problems: Problems, names_only: bool = False) -> ConfigFile | None:
        """Reads the user's config if it is a file or has a control panel."""
        main, cpanel = self.main, self.cpanel
        has_panel = isinstance(main, Mapping) and "gen_params" in main
        if not isinstance(main, str | PathLike) and not has_panel and cpanel is None:
            return None
        from dicore.config.reader import control_panel, read_file

        try:
            if isinstance(cpanel, str):
                cpanel = control_panel("cpanel").parse(cpanel)
            if isinstance(main, str | PathLike):
                return read_file(main, cpanel, names_only)
            file: ConfigFile = control_panel("cpanel").read_dict(main if has_panel else {}, cpanel)
        except ConfigError as error:
            problems.extend(("", line) for line in error.problems)
            problems.hints.append(error.hint)
            return None
        return file

    def layers(self, problems: Problems, file: ConfigFile | None = None) -> list[Layer]:
        """Returns the layers but that of the preset, aliases expanded."""
        main, name, lines = self.main, self.name, None
        saved = whole = self.saved
        if file is not None:
            if isinstance(main, str | PathLike):
                name, lines = file.name, file.lines
            main = [file.main, file.create]
            saved, whole = saved or file.is_saved, whole or file.whole
        layer = Layer(name, lines=lines, saved=saved, handed_on=self.saved, complete=whole)
        layers = [_layer(layer, main, self.create, problems)]
        if self.overrides:
            tree = override_tree(self.overrides, problems)
            layers.append(_layer(Layer("command line"), tree, None, problems))
        if self.seed is not None:
            layers.append(Layer("argument seed", {"seed": self.seed}))
        return layers

    def below(
        self, layers: Sequence[Layer], registry: RegistryView, problems: Problems
    ) -> list[Layer]:
        """Returns the layer of the preset, if there is one; what `layers` name may be imported."""
        preset = self.preset
        if callable(preset):
            preset = preset(*(_bare_name(layers, part) for part in ("env", "policy")))
        return [] if preset is None else [_preset_layer(preset, registry, problems)]


def _bare_name(layers: Sequence[Layer], part: str) -> object:
    """Returns the name of a part whose config, below the command line, is no more than a name."""
    found = None
    for layer in layers:
        given = layer.tree.get(part)
        node = given if isinstance(given, Mapping) else {"type": given}
        if layer is layers[0] and node.keys() - {"type"}:
            return None
        found = node.get("type") or found
    return found


def _preset_layer(name: str, registry: RegistryView, problems: Problems) -> Layer:
    try:
        found = registry.resolve("preset", name, "preset")
    except RegistryError as error:
        problems.add_error("preset", error)
        return Layer(f"{PRESET}{name}")
    return _layer(Layer(f"{PRESET}{found.name}"), found.target, None, problems)


def _layer(
    layer: Layer, main: object, create: Mapping[str, object] | None, problems: Problems
) -> Layer:
    def contradicts(path: str, first: object, second: object) -> None:
        text = f"{second!r} in create_config contradicts {first!r} in main_config"
        problems.add(path, text, layer)

    first, *others = _trees(main, layer.name, problems)
    tree: Any = expand_aliases(first, problems, layer)
    for each in (*others, plain(create or {})):
        tree = combine(tree, expand_aliases(each, problems, layer), "", contradicts)
    layer.tree.update(tree)
    return layer


def _trees(main: object, name: str, problems: Problems) -> list[dict[str, object]]:
    """Returns the main config of a source of any form, and those that stand beside it."""
    if main is None:
        return [{}]
    if isinstance(main, Mapping) and main.keys() and main.keys() <= set(_DICTS):
        return _trees([main.get(each) for each in _DICTS], name, problems)
    if isinstance(main, Mapping | Section):
        return [plain(main)]
    if isinstance(main, Sequence) and not isinstance(main, str) and 0 < len(main) <= len(_DICTS):
        trees = [{} if each is None else each for each in main]
        if all(isinstance(each, Mapping | Section) for each in trees):
            trees = [plain(each) for each in trees]
            return [*trees[:2], *(_system_tree(each) for each in trees[2:] if each)]
    problems.add("", f"{name}: expected a dict, or main_config and create_config, got {main!r}")
    return [{}]


def _system_tree(system: dict[str, object]) -> dict[str, object]:
    return {"pipeline": {"system": public_name("system_of_di_engine", "system_config")(system)}}
