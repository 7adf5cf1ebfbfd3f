"""Writes a compiled config into a run's folder in its three forms, each complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.config.aliases import CREATE_PATHS
from dicore.config.compiled import Compiled
from dicore.config.exact import dumps
from dicore.config.plain import plain
from dicore.config.python_form import python_source
from dicore.config.secrets import fingerprint, redacted, saved_tree
from dicore.config.yaml_form import yaml_source

__all__ = ["FORMATTED", "JSON", "TOTAL", "as_pair", "write_config"]

JSON = "config.json"
TOTAL = "total_config.py"
FORMATTED = "formatted_total_config.py"
PANEL = "cpanel.json"
PARAMS = "params.yaml"


def write_config(compiled: Compiled, folder: str | os.PathLike[str]) -> Path:
    """Writes `config.json`, `total_config.py` and `formatted_total_config.py`.

    `config.json` is what programs read: exact, and beside the config it holds who supplied each
    component, where each value came from, a fingerprint, and the version of dicore. The Python
    files hold `main_config` and `create_config` for people; either compiles to the same config. The
    knobs of a control panel go to `cpanel.json`, and into `config.json` too; what they made then
    also stands in `params.yaml`.

    Secrets given in the open are left out, see `dicore.config.secrets`.

    Args:
        compiled: What to write.
        folder: Where; made if it is missing.

    Returns:
        The path of `config.json`.

    Raises:
        TypeError: a free-form option holds something that is no plain data.
    """
    from dicore import __version__

    target = Path(folder)
    record = {
        "dicore": __version__,
        "fingerprint": fingerprint(compiled),
        "config": saved_tree(compiled),
        "components": plain(compiled.components),
        "origin": plain(compiled.origin),
    }
    main, create = as_pair(compiled)
    variables = {"main_config": main, "create_config": create}
    doc = f"The whole config of one run, as compiled by dicore {__version__}."
    panel = None if compiled.cpanel is None else redacted(compiled.cpanel)
    if panel is not None:
        record["cpanel"] = panel
    texts = {
        JSON: dumps(record) + "\n",
        TOTAL: python_source(variables, doc, formatted=False),
        FORMATTED: python_source(variables, doc, formatted=True),
    }
    if panel is not None:
        texts[PANEL] = dumps(panel) + "\n"
        texts[PARAMS] = yaml_source(record["config"], compiled.origin)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write(target / name, text)
    return target / JSON


def as_pair(compiled: Compiled) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits a config into the documents' two dicts: all values, and what to build."""
    main = saved_tree(compiled)
    create: dict[str, Any] = {}
    for part, path in CREATE_PATHS.items():
        node = main
        for key in path.split("."):
            node = node.get(key) if isinstance(node, Mapping) else None  # type: ignore[assignment]
        if isinstance(node, dict) and "type" in node:
            create[part] = {"type": node.pop("type")}
    return main, create


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
