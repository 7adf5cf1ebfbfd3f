"""`dicore migrate`: configs of DI-engine and rl-zoo3 as dicore configs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dicore.console import plural, say, verbosity, write_table
from dicore.errors import ConfigError, DicoreError, UsageError

if TYPE_CHECKING:
    from dicore_compat.migrate.convert import Migrated

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore migrate cartpole_dqn_config.py                  print what changes
  dicore migrate cartpole_dqn_config.py -o cartpole.yaml
  dicore migrate dizoo/classic_control -o configs        a whole folder, also of rl-zoo3
  dicore migrate hyperparams/ppo.yml --env CartPole-v1 -o cartpole_ppo.yaml
  dicore train cartpole.yaml

A Python file is run to read it, in a process of its own and for 20 s at most; the packages that it
imports need not be installed. The first lines of the written config say what was moved, changed,
dropped because it has no effect, and lost because dicore has nothing that does it.
"""


@click.command(name="migrate", epilog=_EPILOG)
@click.argument("source", metavar="FILE|FOLDER")
@click.option("-o", "--out", metavar="FILE|FOLDER", help="File (.yaml .json .py), or a folder.")
@click.option("-e", "--env", "env_id", metavar="ID", help="Entry of a YAML file of rl-zoo3.")
@click.option("-p", "--policy", "algorithm", metavar="NAME", help="Its algorithm.  [default: FILE]")
@click.option("--force", is_flag=True, help="Write over existing files.")
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    source: str,
    out: str | None,
    env_id: str | None,
    algorithm: str | None,
    force: bool,
) -> None:
    """Converts configs of DI-engine (Python) and rl-zoo3 (YAML).

    Exit code 2 if the file cannot become a config that can be trained, 1 if one of a folder cannot.
    """
    from dicore_compat.migrate.convert import migrate

    if Path(source).is_dir():
        if env_id is not None or algorithm is not None:
            raise UsageError("--env and --policy name an entry of one YAML file, not of a folder")
        ctx.exit(_folder(Path(source), None if out is None else Path(out), force=force))
    made = migrate(source, env_id, algorithm)
    if out is not None and not made.problems:
        _write(Path(out), made, force=force)
    for change in made.changes:
        say(str(change), result=out is None)
    if made.problems:
        raise ConfigError(made.problems, hint=f"no config was made of {made.source}")
    lost = plural(made.losses, "option") + " lost"
    if out is None:
        say(f"{made.source} can be converted, {lost}: dicore migrate {source} -o config.yaml")
        return
    trust = " (it names code by path)" if "py:" in str(made.tree) else ""
    told = f"{out}: made of {made.source}, {lost}"
    if problem := _cannot_train(Path(out)):
        say(f"{told}; it cannot be trained here: {problem}", result=True)
        ctx.exit(1)
    say(f"{told}; train it: dicore train {out}{trust}", result=True)


def _cannot_train(file: Path) -> str:
    """Returns why a training by a config fails before it makes a folder; "" if it does not."""
    from dicore.run.request import TrainRequest
    from dicore_tools.commands.config import check_request

    try:
        check_request(TrainRequest(config=str(file), argv=()))
    except DicoreError as error:
        return str(error).replace("\n", " ")
    return ""


def _folder(source: Path, out: Path | None, *, force: bool) -> int:
    """Converts all configs below a folder, and prints a table; returns the exit code."""
    from dicore_compat.migrate.convert import migrate

    found = [*_configs(source)]
    if not found:
        raise UsageError(
            f"{source}: no config of DI-engine or rl-zoo3 below it",
            hint="the former are Python files that define create_config, the latter YAML files"
            " named after an algorithm, such as ppo.yml",
        )
    rows, failed = [], 0
    for file, entry in found:
        name = str(file.relative_to(source).with_suffix("")) + f"_{entry}" * bool(entry)
        name = name.replace(":", "_") + (".yaml" if entry else ".py")
        try:
            made = migrate(file, entry)
            if made.problems:
                raise ConfigError(made.problems)
            if out is not None:
                _write(out / Path(name).with_suffix(".yaml"), made, force=force)
            rows.append((name, "converted", plural(made.losses, "option") + " lost"))
        except DicoreError as error:
            failed += 1
            rows.append((name, "not", str(error).replace("\n", "; ")))
    write_table(("file", "", "remarks"), rows)
    where = "" if out is None else f" to {out}"
    say(f"{len(found) - failed} of {plural(len(found), 'config')} converted{where}", result=True)
    return 1 if failed else 0


def _configs(source: Path) -> Iterator[tuple[Path, str | None]]:
    """Yields the configs below a folder: Python files, and YAML files with each entry."""
    from dicore_compat.migrate.sb3_defaults import DEFAULTS
    from dicore_compat.migrate.zoo import entries

    for file in sorted(source.rglob("*.py")):
        if _is_config(file):
            yield file, None
    for file in sorted([*source.rglob("*.yml"), *source.rglob("*.yaml")]):
        if file.stem in DEFAULTS:
            with suppress(ConfigError):
                yield from ((file, entry) for entry in entries(file) if entry != "default")


def _is_config(file: Path) -> bool:
    text = file.read_text(encoding="utf-8", errors="replace")
    return "create_config" in text and ("main_config" in text or "_config = dict(" in text)


def _write(file: Path, made: Migrated, *, force: bool) -> None:
    from dicore_compat.migrate.convert import migrated_text
    from dicore_tools.config_formats.editor_schema import write_schema

    if file.exists() and not force:
        raise UsageError(f"{file} exists", hint="name another file, or add --force")
    text = migrated_text(made, file.suffix)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if file.suffix != ".py":
        write_schema(file.parent)
