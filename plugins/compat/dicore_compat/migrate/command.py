"""`dicore migrate`: configs of DI-engine and rl-zoo3 as dicore configs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import click

from dicore.console import plural, say, verbosity, write_table
from dicore.errors import ConfigError, DicoreError, UsageError

if TYPE_CHECKING:
    from dicore_compat.migrate.convert import Migrated

__all__ = ["JSON_OUTPUT", "command"]


class ConvertedOption(TypedDict):
    """An option that differs from the foreign config."""

    path: Annotated[str, "key path in the foreign config"]
    verdict: Annotated[str, "moved, changed, dropped (it has no effect) or lost"]
    text: Annotated[str, "new place, value or reason"]


class ConvertedConfig(TypedDict):
    """A foreign config, and what became of it."""

    source: Annotated[str, "the foreign file, with the name of its entry"]
    path: Annotated[str | None, "the config that was written; null: none"]
    lost: Annotated[int, "number of options whose effect dicore lacks"]
    changes: Annotated[list[ConvertedOption], "options that differ"]
    trust: Annotated[bool, "the config names code by path, so training asks for trust"]
    problem: Annotated[str, "why it cannot be converted, or not be trained here; empty if it can"]


JSON_OUTPUT = list[ConvertedConfig]

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
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
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
    as_json: bool,
) -> None:
    """Converts configs of DI-engine (Python) and rl-zoo3 (YAML).

    Exit code 2 if the file cannot become a config that can be trained, 1 if one of a folder cannot.
    """
    from dicore_tools.commands.output import write_json
    from dicore_tools.json_output.standard_output import to_standard_error
    from dicore_tools.output_place import check_place

    where, target = Path(source), None if out is None else Path(out)
    if where.is_dir() and (env_id is not None or algorithm is not None):
        raise UsageError("--env and --policy name an entry of one YAML file, not of a folder")
    if target is not None:
        check_place(target, option="--out", folder=where.is_dir(), devices=True)
    with to_standard_error() if as_json else nullcontext():  # configs and imports may print
        if where.is_dir():
            found = _folder(where, target, force=force)
        else:
            found = [(source, _file(source, target, env_id, algorithm, force=force))]
    if as_json:
        write_json([each for _, each in found])
    elif where.is_dir():
        _say_folder(target, found)
    else:
        chosen = "".join(f" {flag} {each}" for flag, each in
                         (("--env", env_id), ("-p", algorithm)) if each)  # fmt: skip
        _say_file(f"{source}{chosen}", target, found[0][1])
    ctx.exit(1 if any(each["problem"] for _, each in found) else 0)


def _file(
    source: str, out: Path | None, env_id: str | None, algorithm: str | None, *, force: bool
) -> ConvertedConfig:
    """Converts a config, and writes it if it has a place.

    Raises:
        ConfigError: it cannot be converted.
    """
    from dicore_compat.migrate.convert import migrate

    made = migrate(source, env_id, algorithm)
    if out is not None and not made.problems:
        _write(out, made, force=force)
    if made.problems:
        for change in made.changes:
            say(str(change), result=out is None)
        raise ConfigError(made.problems, hint=f"no config was made of {made.source}")
    return _converted(made, out, "" if out is None else _cannot_train(out))


def _say_file(words: str, out: Path | None, done: ConvertedConfig) -> None:
    for each in done["changes"]:
        say(f"{each['verdict']:<7} {each['path']}: {each['text']}", result=out is None)
    lost = plural(done["lost"], "option") + " lost"
    if out is None:
        say(f"{done['source']} can be converted, {lost}: dicore migrate {words} -o config.yaml")
        return
    told = f"{out}: made of {done['source']}, {lost}"
    if done["problem"]:
        say(f"{told}; it cannot be trained here: {done['problem']}", result=True)
        return
    trust = " (it names code by path)" if done["trust"] else ""
    say(f"{told}; train it: dicore train {out}{trust}", result=True)


def _converted(made: Migrated, path: Path | None, problem: str = "") -> ConvertedConfig:
    changes: list[ConvertedOption] = [
        {"path": each.path, "verdict": each.verdict, "text": each.text} for each in made.changes
    ]
    where = None if path is None else str(path)
    return {"source": made.source, "path": where, "lost": made.losses, "changes": changes,
            "trust": "py:" in str(made.tree), "problem": problem}  # fmt: skip


def _cannot_train(file: Path) -> str:
    """Returns why a training by a config fails before it makes a folder; "" if it does not."""
    from dicore.run.request import TrainRequest
    from dicore_tools.commands.config import check_request

    try:
        check_request(TrainRequest(config=str(file), argv=()))
    except DicoreError as error:
        return str(error).replace("\n", " ")
    return ""


def _folder(source: Path, out: Path | None, *, force: bool) -> list[tuple[str, ConvertedConfig]]:
    """Converts all configs below a folder; returns each with its name.

    Raises:
        UsageError: there is none.
    """
    from dicore_compat.migrate.convert import migrate

    found = [*_configs(source)]
    if not found:
        raise UsageError(
            f"{source}: no config of DI-engine or rl-zoo3 below it",
            hint="the former are Python files that define create_config, the latter YAML files"
            " named after an algorithm, such as ppo.yml",
        )
    done: list[tuple[str, ConvertedConfig]] = []
    for file, entry in found:
        name = str(file.relative_to(source).with_suffix("")) + f"_{entry}" * bool(entry)
        name = name.replace(":", "_") + (".yaml" if entry else ".py")
        try:
            made = migrate(file, entry)
            if made.problems:
                raise ConfigError(made.problems)
            path = None if out is None else out / Path(name).with_suffix(".yaml")
            if path is not None:
                _write(path, made, force=force)
            done.append((name, _converted(made, path)))
        except DicoreError as error:
            where = f"{file} ({entry})" if entry else str(file)
            problem = str(error).replace("\n", "; ")
            failed: ConvertedConfig = {"source": where, "path": None, "lost": 0, "changes": [],
                                       "trust": False, "problem": problem}  # fmt: skip
            done.append((name, failed))
    return done


def _say_folder(out: Path | None, done: Sequence[tuple[str, ConvertedConfig]]) -> None:
    rows = [
        (name, "not" if each["problem"] else "converted",
         each["problem"] or plural(each["lost"], "option") + " lost")
        for name, each in done
    ]  # fmt: skip
    write_table(("file", "", "remarks"), rows)
    where = "" if out is None else f" to {out}"
    count = sum(not each["problem"] for _, each in done)
    say(f"{count} of {plural(len(done), 'config')} converted{where}", result=True)


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
