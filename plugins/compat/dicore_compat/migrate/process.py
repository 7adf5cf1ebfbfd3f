"""Runs a foreign config file in a process of its own, with a time limit."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.errors import ConfigError
from dicore_compat.migrate import read_config
from dicore_tools.import_probe import MARK, kill_group

__all__ = ["TIME_LIMIT", "config_dicts", "entry", "pair"]

TIME_LIMIT = 20.0
"""Seconds that a config file may run."""
_PROGRAMS = {
    "stable_baselines3": "Stable-Baselines3", "sb3_contrib": "Stable-Baselines3",
    "tianshou": "tianshou", "ray.rllib": "RLlib", "skrl": "skrl", "tyro": "CleanRL",
}  # fmt: skip
"""Packages that programs import which train."""
_SYSTEM = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
"""Without it Python does not start on Windows."""


def config_dicts(file: Path, time_limit: float = TIME_LIMIT) -> dict[str, object]:
    """Returns all dicts that a Python file defines, by name; its code runs in another process.

    Packages that it imports are replaced by stand-ins: nothing but Python itself is needed, and no
    environment or network is made. It is run in an empty folder, without the user's environment
    variables.

    Args:
        file: A file of a person's choice: its code is executed.
        time_limit: Seconds after which it is ended.

    Raises:
        ConfigError: it cannot be run, with the line of the file, or it takes too long.
    """
    _refuse_program(file)
    command = [sys.executable, "-I", read_config.__file__, str(file.resolve())]
    mark = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="dicore-migrate-") as folder,
        tempfile.TemporaryFile("w+") as printed,  # what it started could keep a pipe open
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(  # noqa: S603 - the own script; the user names the file
            command, cwd=folder, env={**_SYSTEM, MARK: mark}, stdin=subprocess.DEVNULL,
            stdout=printed, stderr=told, text=True, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            process.wait(time_limit)
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{file}: still running after {time_limit:g} s; it was ended",
                hint="a config file only defines dicts; move what trains below "
                'if __name__ == "__main__":',
            ) from None
        finally:
            kill_group(process, mark)
        for stream in (printed, told):
            stream.seek(0)
        output, errors = printed.read(), told.read()
    if process.returncode:
        raise ConfigError(_failure(file, errors))
    try:
        return dict(json.loads(output))
    except ValueError:
        raise ConfigError(f"{file}: it ended the process before its dicts could be read") from None


def _refuse_program(file: Path) -> None:
    """Raises ConfigError for a program of another library, which would train."""
    text = file.read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"^\s*(?:from|import)\s+({'|'.join(_PROGRAMS)})\b", text, re.MULTILINE)
    if found and "_config" not in text:
        raise ConfigError(
            f"{file}: a program of {_PROGRAMS[found[1]]}, not a config; programs are not converted",
            hint="what its lines are here: docs/howto/from_rl_zoo.md; weights that it saved: dicore"
            " import-weights; files of hyper-parameters of rl-zoo3 (YAML) are converted",
        )


def pair(file: Path, dicts: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the main and the create config of a file's dicts.

    Raises:
        ConfigError: one of them is missing, or there are several.
    """
    found = []
    for name, create in (("main_config", False), ("create_config", True)):
        if name in dicts:
            found.append(dict(dicts[name]))
            continue
        names = [
            each
            for each in dicts
            if each.endswith("_config")
            and each.endswith("create_config") == create
            and each not in ("main_config", "create_config", "system_config")
        ]
        if len(names) != 1:
            some = f"; it has {', '.join(names)}" if names else ""
            raise ConfigError(
                f"{file}: no '{name}'{some}", hint=f"define {name} = dict(...) in the file"
            )
        found.append(dict(dicts[names[0]]))
    return found[0], found[1]


def entry(file: Path) -> str:
    """Returns the entry function that a file calls when it is run; "" for none."""
    text = file.read_text(encoding="utf-8", errors="replace")
    called = re.findall(r"^ +(serial_pipeline\w*)\(", text, re.MULTILINE)
    return called[-1] if called else ""


def _failure(file: Path, stderr: str) -> str:
    """Returns the error of a file's code, with the line of the file where it was raised."""
    lines = stderr.strip().splitlines() or ["it ended the process"]
    places = [each for each in lines if f'"{file.resolve()}"' in each and ", line " in each]
    line = places[-1].partition(", line ")[2].partition(",")[0] if places else ""
    return f"{file}:{line}: {lines[-1]}" if line else f"{file}: {lines[-1]}"
