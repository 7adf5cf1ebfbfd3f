"""Compile: class defaults < preset < file < command line, as one frozen and checked config.

Pure: inputs stay as they were, nothing is written, and all mistakes come in one error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as evolved
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import attrs

from dicore.config.aliases import expand_aliases
from dicore.config.checks import fill_from_spec, report_missing, run_checks
from dicore.config.compiled import Compiled
from dicore.config.declare import Section
from dicore.config.follow import apply_follows
from dicore.config.layers import Layer
from dicore.config.locked import compare_record, recorded_components
from dicore.config.merge import merge
from dicore.config.overrides import Overrides
from dicore.config.plain import dotted, join, lookup, plain, sections
from dicore.config.problems import Problems
from dicore.config.sections import EnvConfig, PolicyConfig, RunConfig
from dicore.config.slots import Node, RegistryView, Slots
from dicore.config.sources import POSITIONS, Sources, by_hand
from dicore.config.walk import Walk
from dicore.errors import ConfigError
from dicore_registry.plugin_filter import is_on

__all__ = ["compile_config", "compile_section"]

S = TypeVar("S", bound=Section)

_MISSING = object()


def compile_config(  # noqa: PLR0913 - the seeds' entry has these names, and sources are many
    main: Any = None,
    create: Any = None,
    *by_position: Any,
    preset: str | None = None,
    overrides: Overrides | None = None,
    seed: int | None = None,
    registry: RegistryView | None = None,
    strict: bool = True,
    names_only: bool = False,
    cpanel: Mapping[str, Any] | str | None = None,
    locked: bool = False,
    auto: bool = True,
    create_cfg: Mapping[str, Any] | None = None,
    save_cfg: bool = False,
    save_path: str | Path | None = None,
    renew_dir: bool = True,
    loaded: Callable[[dict[str, Any]], Any] | None = None,
    **classes: Any,
) -> Compiled:
    """Compiles a config.

    Args:
        main: A dict, `[main_config, create_config]`, `{"cpanel": …, "gen_params": …}`, the path of
            a file or of a run's folder, a hand-made or a compiled config; None for names and
            defaults alone. Of a run's folder only `config.json` is read, and only names choose
            code.
        create: A create_config; or the first of the classes below.
        *by_position: Classes in the order of the seeds' entry (see `POSITIONS`).
        preset: Name of a preset, below `main`.
        overrides: `["policy.learn.batch_size=128", …]` or a dict, above `main`.
        seed: Seed of the run, above all.
        registry: Where components are looked up; None for everything installed.
        strict: Unknown keys are errors; else warnings.
        names_only: Refuse import paths, files and `import_names`.
        cpanel: Knobs of the control panel of `main`, turned; a dict, or a JSON object as text.
        locked: Refuse components that are not those recorded in `main`, which is a run's folder or
            `config.json`; else such differences are warned of.
        auto: Take types from `create_cfg` where no class is given by hand.
        create_cfg: The seeds' name of `create`.
        save_cfg: Write the compiled config, see `write_config`.
        save_path: Folder for it; None for `exp_name`. A name ending in `.py` stands for its folder.
        renew_dir: Where a config is saved already, write into a numbered sibling; else over it.
        loaded: Called with what all sources say, as one tree, before a component is looked up.
        **classes: `env_manager= policy= learner= collector= evaluator= buffer= env= model= …`:
            component or config classes given by hand.

    Raises:
        ConfigError: everything that is wrong, sorted by path.
        RegistryError: the only thing wrong is a known component that cannot be loaded.
    """
    if create is not None and not isinstance(create, Mapping):
        create, by_position = None, (create, *by_position)
    given = {**dict(zip(POSITIONS, by_position, strict=False)), **classes}
    registry = _registry(registry)
    said = create if create is not None else create_cfg if auto else None
    create = by_hand(said, given, registry)
    problems = Problems()
    sources = Sources(main, create, preset, overrides, seed, cpanel)
    file = sources.read(problems)
    problems.raise_if_any()
    names_only = names_only or (isinstance(main, str | PathLike) and Path(main).is_dir())
    try:
        layers = sources.layers(registry, problems, file)
    except RecursionError:
        raise ConfigError("the config is nested too deeply, or contains itself") from None
    if loaded is not None:
        loaded(reduce(merge, (layer.tree for layer in layers), {}))
    names_only = names_only or is_on(os.environ, "DICORE_NAMES_ONLY")
    record = file.record if file is not None else None
    slots = Slots(registry, problems, names_only, recorded_components(record))
    compiled = _compile(layers, slots, strict=strict)
    if file is not None:
        compiled = evolved(compiled, cpanel=file.cpanel)
    elif isinstance(main, Compiled):
        compiled = evolved(compiled, cpanel=main.cpanel)
    compare_record(compiled, record, locked=locked)
    if save_cfg:
        from dicore.config.write import JSON, write_config

        folder = _saved_at(compiled, save_path)
        if renew_dir and folder.name and (folder / JSON).exists():
            from dicore.run.folder import RunFolder

            is_run = folder == Path(compiled.exp_name or ".")
            folder = RunFolder.create(folder).path
            if is_run:
                compiled = evolved(compiled, cfg=attrs.evolve(compiled.cfg, exp_name=str(folder)))
        write_config(compiled, folder)
    return compiled


def _saved_at(compiled: Compiled, save_path: str | Path | None) -> Path:
    """Returns the folder for a config; a bare `NAME.py` stands for that of the run."""
    run = Path(compiled.exp_name or ".")
    if save_path is None:
        return run
    given = Path(save_path)
    if given.suffix != ".py":
        return given
    return run if given.parent == Path() else given.parent


def compile_section(
    cls: type[S], options: Mapping[str, Any], *, registry: RegistryView | None = None
) -> S:
    """Compiles the options of one component by itself, as a constructor called by hand needs it.

    Args:
        cls: The config class.
        options: What differs from its defaults. Slots that neither these nor the class fill stay
            empty (None).
        registry: Where components of the slots are looked up.

    Raises:
        ConfigError: everything that is wrong; paths begin below the section, or with `policy` and
            `env` for these.
    """
    at = next((path for base, path in _SECTIONS.items() if issubclass(cls, base)), "")
    problems = Problems()
    layer = Layer("options", plain(options))
    if at:
        layer = Layer("options", expand_aliases({at: layer.tree}, problems, layer, below=at)[at])
    walk = Walk(Slots(_registry(registry), problems), problems, whole=False)
    section = walk.root(cls, at, [Node(layer, layer.tree)])
    walk.report_unknown(strict=True)
    if section is not None:
        report_missing(section, problems, prefix=at, whole=False)
        run_checks(section, problems, prefix=at)
    problems.raise_if_any()
    assert isinstance(section, cls)
    return section


_SECTIONS: dict[type[Section], str] = {PolicyConfig: "policy", EnvConfig: "env"}


def _compile(layers: Sequence[Layer], slots: Slots, *, strict: bool) -> Compiled:
    problems = slots.problems
    walk = Walk(slots, problems)
    cfg = walk.root(RunConfig, "", [Node(layer, layer.tree) for layer in layers])
    walk.report_unknown(strict=strict)
    if cfg is not None:
        if isinstance(cfg.env, EnvConfig):
            cfg = attrs.evolve(cfg, env=fill_from_spec(cfg.env, walk.origin, problems))

        def echoes(path: str, source: str) -> bool:
            layer = walk.given_by.get(path)
            said = lookup(layer.tree, source, _MISSING) if layer else _MISSING
            return layer is not None and said is not _MISSING and said == lookup(layer.tree, path)

        cfg = apply_follows(cfg, walk.origin, problems, echoes)
        report_missing(cfg, problems, whole=True)
        run_checks(cfg, problems, names_only=slots.names_only)
    if problems.found:
        problems.places = {path: layer.place(path) for path, layer in walk.given_by.items()}
    problems.raise_if_any()
    components = {**walk.components, **_mentioned(cfg, slots.registry)}
    return Compiled(cfg, walk.origin, components, walk.references)


def _mentioned(cfg: RunConfig, registry: RegistryView) -> dict[str, dict[str, Any]]:
    """Returns who supplies the components that free-form options name, by path."""
    found = {}
    for keys, section in sections(cfg):
        mentions = getattr(section, "mentions", None)
        for below, kind, name in mentions() if mentions is not None else ():
            path = join(dotted(keys), below)
            found[path] = registry.supplier(kind, name, path)
    return found


def _registry(given: RegistryView | None) -> RegistryView:
    if given is not None:
        return given
    from dicore_registry import default

    return default()
