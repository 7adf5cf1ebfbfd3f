"""From what a caller hands over (dicts, a file, a preset, overrides) to layers, lowest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from dicore.config.aliases import CREATE_PATHS, expand_aliases
from dicore.config.compiled import Compiled
from dicore.config.declare import Section
from dicore.config.layers import PRESET, Layer
from dicore.config.lines import Lines
from dicore.config.merge import combine
from dicore.config.overrides import Overrides, override_tree
from dicore.config.panel import gen_params, knobs, parse_knobs
from dicore.config.plain import plain
from dicore.config.problems import Problems
from dicore.config.secrets import saved_tree
from dicore.config.slots import RegistryView, type_of
from dicore.errors import ConfigError, RegistryError, UsageError

if TYPE_CHECKING:
    from dicore.config.read import ConfigFile

__all__ = ["POSITIONS", "Sources", "by_hand"]

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
"""The order of the seeds' entry for classes given by position."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a config is compiled from.

    Args:
        main: The person's config: a dict, a pair of dicts, a file, a compiled or hand-made config.
        create: What to build, by the seeds' names (`replay_buffer`, …).
        preset: Name of a preset, below all else.
        overrides: The command line's `a.b=c`, above all else.
        seed: The seed, if given by itself.
        cpanel: Knobs of the main config's control panel, turned; a dict, or a JSON object as text.
    """

    main: Any = None
    create: Mapping[str, Any] | None = None
    preset: str | None = None
    overrides: Overrides | None = None
    seed: int | None = None
    cpanel: Mapping[str, Any] | str | None = None

    def read(self, problems: Problems) -> ConfigFile | None:
        """Reads the person's config where it is a file; what cannot be read is a problem."""
        from dicore.config.read import ConfigFile, read_file

        try:
            wanted = parse_knobs(self.cpanel) if isinstance(self.cpanel, str) else self.cpanel
            if isinstance(self.main, str | PathLike):
                return read_file(self.main, wanted)
            if isinstance(self.main, Mapping) and "gen_params" in self.main:
                panel = knobs(self.main.get("cpanel", {}), wanted, "config")
                made = gen_params(self.main["gen_params"], panel or {}, self.main, "config")
                return ConfigFile(*made, cpanel=panel)
            knobs(None, wanted, "config")
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
            problems: Takes what is no config.
            file: What `read` gave.
        """
        layers = []
        if self.preset is not None:
            layers.append(_preset_layer(self.preset, registry, problems))
        layers.append(self._main_layer(problems, file))
        if self.overrides:
            tree = override_tree(self.overrides, problems)
            layers.append(_layer("command line", tree, None, problems))
        if self.seed is not None:
            layers.append(Layer("argument seed", {"seed": self.seed}))
        return layers

    def _main_layer(self, problems: Problems, file: ConfigFile | None) -> Layer:
        main, create, name = self.main, self.create, "config"
        if isinstance(main, str | PathLike):
            name, main = str(main), None
        elif isinstance(main, Compiled):
            main, name = saved_tree(main, redact=False), "compiled config"
        if file is None:
            return _layer(name, main, create, problems)
        is_path = isinstance(self.main, str | PathLike)
        name, lines = (file.name, file.lines) if is_path else (name, None)
        return _layer(name, [file.main, file.create], create, problems, lines)


def by_hand(
    create: Mapping[str, Any] | None, given: Mapping[str, Any], registry: RegistryView
) -> dict[str, Any]:
    """Lays classes given by hand over a create_config.

    Args:
        create: What a create_config says; its options for another type than the class are dropped.
        given: Classes (or names) by the seeds' names; None is no class.
        registry: Where the classes' names are looked up.

    Raises:
        UsageError: there is no such part.
    """
    tree: dict[str, Any] = plain(create or {})
    for part, wanted in given.items():
        if part not in CREATE_PATHS:
            parts = ", ".join(CREATE_PATHS)
            raise UsageError(f"compile_config: no part '{part}'", hint=f"one of {parts}")
        if wanted is None:
            continue
        names = [name for name, path in CREATE_PATHS.items() if path == CREATE_PATHS[part]]
        held: Any = next((tree.pop(name) for name in names if name in tree), None)
        kind = "buffer" if part == "replay_buffer" else part
        name = type_of(kind, wanted, registry) if isinstance(wanted, type) else wanted
        same = isinstance(held, dict) and held.get("type", name) == name
        tree[part] = {**(held if same else {}), "type": name or wanted}
    return tree


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
    first, second = _pair(main, name, problems)
    tree: Any = expand_aliases(first, problems, layer)
    for said in (second, create or {}):

        def contradicts(path: str, held: Any, value: Any) -> None:
            text = f"{value!r} in create_config contradicts {held!r} in main_config"
            problems.add(path, text, layer)

        tree = combine(tree, expand_aliases(plain(said), problems, layer), "", contradicts)
    layer.tree.update(tree)
    return layer


def _pair(main: Any, name: str, problems: Problems) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns main and create config of whatever form a source has."""
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
