"""Turns what `compile_config` is given into layers: dicts, files, presets, overrides, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from dicore.config.layers import (
    CREATE_PATHS,
    PRESET,
    Layer,
    Lines,
    Overrides,
    Problems,
    expand_aliases,
    override_tree,
)
from dicore.config.paths import combine, plain
from dicore.config.resolver import RegistryView, type_of
from dicore.config.schema import Section
from dicore.errors import ConfigError, RegistryError, UsageError

if TYPE_CHECKING:
    from dicore.config.reader import ConfigFile

POSITIONS = (
    "env_manager",
    "policy",
    "learner",
    "collector",
    "evaluator",
    "buffer",
    "env",
    "reward_model",
    "world_model",
)
"""Order of the classes that DI-engine's `compile_config` takes by position."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a config is compiled from.

    Args:
        main: The user's config: a dict, a pair of dicts, a file, a hand-made config.
        create: What to build, by DI-engine's names (`replay_buffer`, …).
        preset: Name of a preset, below all else.
        overrides: The command line's `a.b=c`, above all else.
        seed: The seed, if given by itself.
        cpanel: Parameters of the main config's control panel to override; a dict, or a JSON object
            as text.
        name: Name of a main config that is not a file.
    """

    main: Any = None
    create: Mapping[str, Any] | None = None
    preset: str | None = None
    overrides: Overrides | None = None
    seed: int | None = None
    cpanel: Mapping[str, Any] | str | None = None
    name: str = "config"

    def read(self, problems: Problems) -> ConfigFile | None:
        """Reads the user's config if it is a file or has a control panel."""
        has_panel = isinstance(self.main, Mapping) and "gen_params" in self.main
        cpanel: Any = self.cpanel
        if not (has_panel or cpanel is not None or isinstance(self.main, str | PathLike)):
            return None
        from dicore.config.reader import control_panel, read_file

        try:
            panel = control_panel("cpanel") if has_panel or cpanel is not None else None
            if isinstance(cpanel, str):
                cpanel = panel.parse(cpanel)
            if isinstance(self.main, str | PathLike):
                return read_file(self.main, cpanel)
            return panel.read_dict(self.main if has_panel else {}, cpanel)
        except ConfigError as error:
            problems.extend(("", line) for line in error.problems)
            problems.hints.append(error.hint)
        return None

    def layers(
        self, registry: RegistryView, problems: Problems, file: ConfigFile | None = None
    ) -> list[Layer]:
        """Returns the layers, aliases expanded.

        Args:
            registry: Where a preset is looked up.
            problems: Takes what is not a config.
            file: What `read` returned.
        """
        layers = []
        if self.preset is not None:
            layers.append(_preset_layer(self.preset, registry, problems))
        main, name, lines = self.main, self.name, None
        if isinstance(main, str | PathLike):
            main, name = None, str(main)
            if file is not None:
                name, lines = file.name, file.lines
        if file is not None:
            main = [file.main, file.create]
        layers.append(_layer(name, main, self.create, problems, lines))
        if self.overrides:
            tree = override_tree(self.overrides, problems)
            layers.append(_layer("command line", tree, None, problems))
        if self.seed is not None:
            layers.append(Layer("argument seed", {"seed": self.seed}))
        return layers


def _preset_layer(name: str, registry: RegistryView, problems: Problems) -> Layer:
    try:
        found = registry.resolve("preset", name, "preset")
    except RegistryError as error:
        problems.add_error("preset", error)
        return Layer(f"{PRESET}{name}")
    return _layer(f"{PRESET}{found.name}", found.target, None, problems)


def _layer(
    name: str,
    main: Any,
    create: Mapping[str, Any] | None,
    problems: Problems,
    lines: Lines | None = None,
) -> Layer:
    layer = Layer(name, lines=lines)

    def contradicts(path: str, first: Any, second: Any) -> None:
        text = f"{second!r} in create_config contradicts {first!r} in main_config"
        problems.add(path, text, layer)

    main, own_create = _pair(main, name, problems)
    tree: Any = expand_aliases(main, problems, layer)
    for each in (own_create, plain(create or {})):
        tree = combine(tree, expand_aliases(each, problems, layer), "", contradicts)
    layer.tree.update(tree)
    return layer


def _pair(main: Any, name: str, problems: Problems) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns main and create config of a source of any form."""
    if main is None:
        return {}, {}
    if isinstance(main, Section):
        return plain(main), {}
    if isinstance(main, Mapping):
        if main.keys() and main.keys() <= {"main_config", "create_config"}:
            return _pair([main.get("main_config"), main.get("create_config")], name, problems)
        return plain(main), {}
    if isinstance(main, Sequence) and not isinstance(main, str) and len(main) in (1, 2):
        halves = [{} if half is None else half for half in main]
        if all(isinstance(half, Mapping | Section) for half in halves):
            first, *rest = halves
            return plain(first), plain(rest[0]) if rest else {}
    problems.add("", f"{name}: expected a dict, or main_config and create_config, got {main!r}")
    return {}, {}


def classes_by_position(classes: Sequence[Any]) -> dict[str, Any]:
    """Returns the classes that DI-engine's `compile_config` takes by position, by part."""
    return dict(zip(POSITIONS, classes, strict=False))


def lay_classes_over(
    create: Mapping[str, Any] | None, classes: Mapping[str, Any], registry: RegistryView
) -> dict[str, Any]:
    """Returns a create_config with the types of classes that were passed as arguments.

    Args:
        create: The create_config; its options for another type than the class are dropped.
        classes: Classes (or names) by part; None is no class.
        registry: Where the classes' names are looked up.

    Raises:
        UsageError: there is no such part.
    """
    tree: dict[str, Any] = plain(create or {})
    for part, wanted in classes.items():
        if part not in CREATE_PATHS:
            parts = ", ".join(CREATE_PATHS)
            raise UsageError(f"compile_config: no part '{part}'", hint=f"one of {parts}")
        if wanted is None:
            continue
        names = [name for name, path in CREATE_PATHS.items() if path == CREATE_PATHS[part]]
        old: Any = next((tree.pop(name) for name in names if name in tree), None)
        kind = "buffer" if part == "replay_buffer" else part
        name = type_of(kind, wanted, registry) if isinstance(wanted, type) else wanted
        same = isinstance(old, dict) and old.get("type", name) == name
        tree[part] = {**(old if same else {}), "type": name or wanted}
    return tree
