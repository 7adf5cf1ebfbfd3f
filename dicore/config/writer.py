"""Writes a compiled config into a run folder, and compares its components with recorded ones.

The core writes `config.json`, which is exact. Other files of a run are entries of
`dicore.run_file`: functions of the compiled config and its record that return texts by file name.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.config.paths import dotted, leaves, plain, to_dict
from dicore.config.redact import REDACTED, escaped, is_secret, redact_text, redacted, redacted_paths
from dicore.config.schema import REQUIRED
from dicore.config.sections import Compiled
from dicore.errors import ConfigError, ConfigWarning
from dicore_registry import default

JSON = "config.json"

_DIGEST = len("sha256:") + 8


def write_config(compiled: Compiled, folder: str | os.PathLike[str]) -> Path:
    """Writes `config.json` and the files that installed packages add, such as Python forms.

    `config.json` is what programs read: beside the exact config it holds the package of each
    component, the origin of each value, a fingerprint, and the version of dicore. The files of
    dicore-tools (`total_config.py`, …) compile to the same config. Secrets are left out.

    Args:
        compiled: What to write.
        folder: Where; created if missing.

    Returns:
        The path of `config.json`.

    Raises:
        TypeError: a free-form option holds a value that is not plain data.
    """
    from dicore import __version__
    from dicore.data.json_codec import dumps

    tree = saved_tree(compiled)
    record = {
        "dicore": __version__,
        "fingerprint": fingerprint(compiled, tree),
        "config": tree,
        "components": plain(compiled.components),
        "origin": plain(compiled.origin),
    }
    if at := ", ".join(path[1:] for path in redacted_paths(tree, "")):
        warnings.warn(f"{at}: not saved, as a secret; rename or use ${{env:…}}", ConfigWarning, 2)
    if compiled.cpanel is not None:
        record["cpanel"] = redacted(compiled.cpanel)
    texts = {JSON: dumps(record) + "\n"}
    registry = default()
    for entry in registry.entries("run_file"):
        if entry.status == "ok" and (entry.name != "cpanel" or compiled.cpanel is not None):
            texts.update(registry.load(entry)(compiled, record))
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        unfinished = target / f".{name}.{os.getpid()}.tmp"
        try:
            with unfinished.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(target / name)
        finally:
            unfinished.unlink(missing_ok=True)
    return target / JSON


def saved_tree(compiled: Compiled, *, redact: bool = True) -> dict[str, Any]:
    """Returns a config as nested dicts that compile to it; references replace their values."""
    tree = to_dict(compiled.cfg)
    for keys, declared, value in leaves(compiled.cfg):
        path = dotted(keys)
        secret = declared.metadata.get("secret")
        hide = is_secret(path, value, declared.default()) if secret is None else secret
        if value is not REQUIRED:
            saved = _saved(value, path, redact and hide, redact, compiled.references)
            section: Any = tree
            for key in keys[:-1]:
                section = section[key]
            section[keys[-1]] = saved
    return tree


def _saved(
    value: object, path: str, hide: bool, redact: bool, references: Mapping[str, str]
) -> object:
    if path in references:
        return redact_text(references[path]) if redact else references[path]
    if isinstance(value, str):
        if hide and value:
            return REDACTED
        value = redact_text(value) if redact else value
        return escaped(value) if "${" in value else value
    if isinstance(value, Mapping):
        return {
            key: _saved(item, f"{path}.{key}", redact and is_secret(str(key)), redact, references)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        items = (_saved(v, f"{path}[{i}]", hide, redact, references) for i, v in enumerate(value))
        return type(value)(items)
    return value


def fingerprint(compiled: Compiled, tree: Mapping[str, object] | None = None) -> str:
    """Returns a hash of a config without its folder and secrets; `tree` is its `saved_tree`."""
    import hashlib

    from dicore.data.json_codec import dumps

    tree = saved_tree(compiled) if tree is None else tree
    trained = {key: value for key, value in tree.items() if key != "exp_name"}
    return "sha256:" + hashlib.sha256(dumps(trained).encode()).hexdigest()


def recorded_components(record: Mapping[str, object] | None) -> dict[str, Mapping[str, object]]:
    """Returns the components that a `config.json` records, by the path of their slot."""
    components = (record or {}).get("components")
    items = components.items() if isinstance(components, Mapping) else ()
    return {path: facts for path, facts in items if isinstance(facts, Mapping)}


def component_differences(
    recorded: Mapping[str, Mapping[str, object]], here: Mapping[str, Mapping[str, object]]
) -> dict[str, tuple[str, str]]:
    """Returns the descriptions of components that differ in two configs, by path.

    Compared are name, distribution, version, target and the hash of the source file.
    """
    differing = {}
    for path in dict.fromkeys([*recorded, *here]):
        pairs = zip(_texts(recorded.get(path)), _texts(here.get(path)), strict=False)
        if different := [pair for pair in pairs if all(pair) and pair[0] != pair[1]]:
            differing[path] = different[0]
    return differing


def _texts(metadata: Mapping[str, object] | None) -> list[str]:
    """Describes a component by name and package, then with its target, then with its source."""
    if metadata is None:
        return ["(none)"]
    dist, source = metadata.get("dist", ""), str(metadata.get("source") or "")
    provider = f"{dist} {metadata.get('version', '')}".strip()
    name = f"'{str(metadata.get('type', '')).removeprefix(f'{dist}/')}'"
    name += f" of {provider}" if provider else ""
    target = f"{name}, {metadata['target']}" if metadata.get("target") else ""
    return [name, target, f"{name}, source {source[:_DIGEST]}" if source else ""]


def compare_record(
    compiled: Compiled, record: Mapping[str, object] | None, *, locked: bool
) -> None:
    """Compares the components of a config with those of its record, if it has one.

    With `locked`, any difference is an error; else a component that has the same name and differs
    is a warning.
    """
    if record is None:
        if locked:
            raise ConfigError(
                "--locked: the config has no record of its components",
                hint="give a run folder, or the config.json of one",
            )
        return
    recorded = recorded_components(record)
    differing = component_differences(recorded, compiled.components)
    if locked:
        from dicore import __version__

        version = record.get("dicore", __version__)
        lines = [f"dicore: recorded {version}, here {__version__}"] * (version != __version__)
        lines += [f"{path}: recorded {a}, here {b}" for path, (a, b) in sorted(differing.items())]
        if lines:
            raise ConfigError(lines, hint="install the recorded versions, or omit --locked")
        return
    changed = [
        f"{path} ({one} -> {other})"
        for path, (one, other) in differing.items()
        if recorded.get(path, {}).get("type") == compiled.components.get(path, {}).get("type")
    ]
    if changed:
        some = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        text = f"components differ from those recorded in the config: {some}"
        warnings.warn(text, ConfigWarning, stacklevel=3)
