"""`compile_config` of DI-engine: classes one by one, a create_config, and the folder to save in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import attrs

from dicore.config import Compiled, write_config
from dicore.config import compile_config as compile_sources
from dicore.config.layers import CREATE_PATHS
from dicore.config.paths import plain
from dicore.config.resolver import RegistryView, type_of
from dicore.config.writer import JSON
from dicore.deprecation import deprecated
from dicore.errors import UsageError
from dicore_registry import default

__all__ = ["compile_config", "compile_config_of_di_engine"]

_POSITIONS = (
    *("env_manager", "policy", "learner", "collector", "evaluator"),
    *("buffer", "env", "reward_model", "world_model"),
)
_OF_SOURCES = frozenset(inspect.signature(compile_sources).parameters)


def compile_config(
    main: Any = None,
    *by_position: object,
    auto: bool = True,
    create_cfg: Mapping[str, object] | None = None,
    save_cfg: bool = False,
    save_path: str | Path | None = None,
    renew_dir: bool = True,
    **others: Any,
) -> Compiled:
    """Compiles a config, with the arguments of DI-engine's function of this name.

    Args:
        main: As for `dicore.config.compile_config`.
        *by_position: A create_config, or classes in the order of DI-engine, from `env_manager` on.
        auto: Take types from `create_cfg` for parts without a class.
        create_cfg: The create_config by name.
        save_cfg: Write the compiled config, see `write_config`.
        save_path: Folder for it; None for `exp_name`. A name ending in `.py` stands for its folder.
        renew_dir: If the folder has a config already, write to a numbered sibling; else over it.
        **others: Component or config classes, `env_manager= policy= learner= collector= evaluator=
            buffer= env= model= …`; and arguments of `dicore.config.compile_config`.

    Raises:
        ConfigError: all mistakes, sorted by path.
        UsageError: the arguments contradict each other, or one of them is unknown.
    """
    tree = create_cfg if auto else None
    if by_position and isinstance(by_position[0], Mapping):
        if create_cfg is not None:
            raise UsageError(
                "compile_config: create_cfg is another name of create; pass one of them"
            )
        tree, *by_position = by_position  # type: ignore[assignment]
    classes = {name: others.pop(name) for name in [*others] if name not in _OF_SOURCES}
    placed = dict(zip(_POSITIONS, by_position, strict=False))
    placed = {name: given for name, given in placed.items() if given is not None}
    if len(by_position) > len(_POSITIONS) or placed.keys() & classes.keys():
        raise UsageError("compile_config: pass each part once, and seed and what follows by name")
    tree = _with_classes(tree, placed | classes, others.get("registry") or default())
    compiled = compile_sources(main, tree, **others)
    return _save(compiled, save_path, renew=renew_dir) if save_cfg else compiled


def compile_config_of_di_engine(*args: Any, **kwargs: Any) -> Compiled:
    """Receives such calls of `dicore.config.compile_config` (deprecated)."""
    what = "dicore.config.compile_config with classes, create_cfg or save_cfg"
    deprecated(what, instead="dicore_compat.entry.compile_config", since="0.1", stacklevel=3)
    return compile_config(*args, **kwargs)


def _with_classes(
    create: Mapping[str, Any] | None, classes: Mapping[str, object], registry: RegistryView
) -> dict[str, object]:
    """Returns a create_config with the types of classes that were passed as arguments."""
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


def _save(compiled: Compiled, save_path: str | Path | None, *, renew: bool) -> Compiled:
    """Writes a config where `save_path` says; returns it with the name of its folder."""
    run = Path(compiled.exp_name or ".")
    folder = run if save_path is None else Path(save_path)
    if folder.suffix == ".py":  # a bare `NAME.py` stands for the folder of the run
        folder = run if folder.parent == Path() else folder.parent
    if renew and folder.name and (folder / JSON).exists():
        siblings = (folder.with_name(f"{folder.name}-{number}") for number in count(1))
        new = next(sibling for sibling in siblings if not sibling.exists())
        if folder == run:
            compiled = replace(compiled, cfg=attrs.evolve(compiled.cfg, exp_name=str(new)))
        folder = new
    write_config(compiled, folder)
    return compiled
