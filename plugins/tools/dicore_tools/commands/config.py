"""`dicore config`: shows, checks and compares configs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dicore.console import plural, printable, write_table
from dicore.errors import ConfigError, DicoreError, UsageError
from dicore_tools.commands.words import split_words
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore.run.request import TrainRequest
    from dicore_tools.json_output.components import CheckedConfig

__all__ = ["check_request", "checked", "command"]

F = TypeVar("F", bound=Callable[..., Any])

_SHORT = len("sha256:") + 12

_EPILOG = """\b
Examples:
  dicore config show config.py policy.learn.batch_size=128 --origin
  dicore config show -e cartpole -p dqn --yaml > frozen.yaml
  dicore config show runs/x --json
  dicore config show cartpole_dqn -o mine.yaml           a file that editors complete
  dicore config check config.py other.yaml
  dicore config check config.py --json
  dicore config check --locked runs/x
  dicore config diff runs/a runs/b
  dicore config diff config.yaml cartpole_dqn
  dicore config schema --out dicore.json
"""

_EPILOG_SCHEMA = """\b
Put this at the top of a config file:
  # yaml-language-server: $schema=dicore.json      (YAML)
  #:schema ./dicore.json                           (TOML)
  {"$schema": "./dicore.json", …}                  (JSON)

dicore config show -o, plan --apply and migrate write such a line, and dicore.schema.json beside the
file unless it is there. Nothing is fetched.
"""


@click.group(name="config", epilog=_EPILOG)
def command() -> None:
    """Shows, checks and compares configs of files, runs and presets."""


_trust = click.option(
    "--trust",
    is_flag=True,
    help="Run code that a run or its config.json names by path (./file.py:Class).",
)


def _sources(function: F) -> F:
    """Adds the options that select the config sources."""
    for option in reversed(
        (
            click.option("-e", "--env", metavar="NAME", help="Environment, or a Gymnasium id."),
            click.option("-p", "--policy", metavar="NAME", help="Algorithm."),
            click.option("-s", "--seed", type=click.IntRange(0), help="Random seed."),
            click.option("--cpanel", metavar="JSON", help="Parameters of the file's cpanel."),
            _trust,
        )
    ):
        function = option(function)
    return function


@command.command(name="show")
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET] [a.b=c]...")
@_sources
@click.option("--origin", is_flag=True, help="Print the origin of each value.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON config file.")
@click.option("--yaml", "as_yaml_", is_flag=True, help="Print a YAML config file.")
@click.option(
    "-o", "--out", metavar="FILE", help="Write a new config file (.yaml, .json) and its schema."
)
def show(
    *,
    words: Sequence[str],
    origin: bool,
    as_json: bool,
    as_yaml_: bool,
    out: str | None,
    **given: Any,
) -> None:
    """Prints all values of a config.

    These are the values used for training: class defaults < preset < file < command line. For a
    run, they are the recorded ones. The output of --json and --yaml is a valid config file.
    Secrets are redacted.
    """
    from dicore.data.json_codec import dumps, encode
    from dicore_tools.commands.config_view import flat, format_value, origin_of, view_config
    from dicore_tools.config_formats.editor_schema import FILE, check_new, write_config
    from dicore_tools.config_formats.yaml_form import yaml_source

    files, overrides = _split(words)
    if len(files) > 1:
        raise UsageError(f"expected one config, got {', '.join(files)}")
    if out is not None:
        check_new(Path(out))
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        view = view_config(files[0] if files else None, _request(overrides, **given))
    if out is not None:
        write_config(Path(out), view.tree, view.origin, comments=origin)
        sys.stdout.write(f"{out}: written; editors complete it by {FILE} beside it\n")
        return
    if as_yaml_:
        sys.stdout.write(yaml_source(view.tree, view.origin, comments=origin))
        return
    if as_json and not origin:
        sys.stdout.write(dumps(view.tree) + "\n")
        return
    rows = [(path, value, origin_of(path, view.origin)) for path, value in flat(view.tree)]
    if as_json:
        items = {path: {"value": encode(value), "origin": source} for path, value, source in rows}
        sys.stdout.write(json.dumps(items, indent=2) + "\n")
        return
    width = 3 if origin else 2
    header = ("option", "value", "origin")[:width]
    write_table(
        header, [(path, format_value(value), source)[:width] for path, value, source in rows]
    )


@command.command(name="check")
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET]... [a.b=c]...")
@_sources
@click.option(
    "--locked", is_flag=True, help="Fail if an installed component differs from the recorded one."
)
@click.option("--quick", is_flag=True, help="Do not create the environment to check its spaces.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.pass_context
def check(
    ctx: click.Context, /, *, words: Sequence[str], quick: bool, as_json: bool, **given: Any
) -> None:
    """Reports all errors in configs, with file and line.

    A config without errors can be trained: its components are installed, its values are valid and
    the policy fits the environment. Exit code 2 if there are errors.
    """
    from dicore.cli import report

    files, overrides = _split(words)
    request = _request(overrides, **given)
    exit_code = 0
    names: list[str | None] = [*files] or [None]
    if as_json:
        with contextlib.redirect_stdout(sys.stderr):
            found = [checked(name, request, quick=quick) for name in names]
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        ctx.exit(0 if all(each["valid"] for each in found) else 2)
    for name in names:
        try:
            sys.stdout.write(printable(_check(name, request, quick=quick)) + "\n")
        except DicoreError as error:
            exit_code = exit_code or error.exit_code
            if len(files) > 1:
                count = len(error.problems) if isinstance(error, ConfigError) else 1
                sys.stderr.write(f"{printable(name or '')}: {plural(count, 'error')}\n")
            report(error, debug=False, words=ctx.meta["dicore.words"])
    ctx.exit(exit_code)


def checked(name: str | None, request: TrainRequest, *, quick: bool) -> CheckedConfig:
    """Returns what `dicore config check --json` prints of one config.

    Args:
        name: A file, run or preset; None: what the request says.
        request: Overrides and names.
        quick: Do not create the environment.
    """
    problems: list[str] = []
    summary = hint = ""
    try:
        summary = _check(name, request, quick=quick)
    except DicoreError as error:
        problems = [*error.problems] if isinstance(error, ConfigError) else [error.message]
        hint = error.hint
    return {"config": name or "", "valid": not problems, "problems": problems, "hint": hint,
            "summary": summary}  # fmt: skip


def check_request(request: TrainRequest) -> str:
    """Checks a training as far as it goes before it makes a folder; returns a line about it.

    Args:
        request: What to train, or the run to resume.

    Raises:
        DicoreError: it cannot be trained.
    """
    return _check(None if request.config is None else str(request.config), request, quick=False)


def _check(name: str | None, request: TrainRequest, *, quick: bool) -> str:
    """Checks one config and returns a line about it.

    Raises:
        DicoreError: the config is invalid.
    """
    from dicore.config import bind
    from dicore.config.writer import fingerprint
    from dicore.hookspecs.manager import load_plugins
    from dicore.run.request import changes_of, compile_resumed, resumed_folder
    from dicore_tools.commands.config_view import compile_source

    plugins = load_plugins()
    folder = resumed_folder(request)
    if folder is not None and request.resume is not None:
        name = str(folder)
        compiled = compile_resumed(request, folder)
    else:
        compiled = compile_source(name, request, plugins)
    if not quick:
        from dicore.interfaces.pipeline import SupportsCheck
        from dicore.run.env_factory import BuildContext, spec_of

        compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
        if folder is not None:
            changes_of(compiled, request, folder)
        pipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
        if isinstance(pipeline, SupportsCheck):
            pipeline.check(compiled)
        facts = {"cfg": compiled.cfg, "provenance": compiled.components, "compiled": compiled}
        plugins.call("dicore_config_compiled", **facts)
    env = compiled.env.get("env_id") or compiled.env.type
    parts = f"{compiled.policy.type} on {env}, {compiled.pipeline.type}"
    return f"{name or 'config'}: valid ({parts}, {fingerprint(compiled)[:_SHORT]})"


@command.command(name="diff")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@_trust
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def diff(*, one: str, other: str, trust: bool, as_json: bool) -> None:
    """Compares two configs.

    A and B are runs, files or presets. Lists the values and components that differ; components
    differ in package, version or source code.
    """
    from dicore.config.checks import SPACES
    from dicore.config.paths import MISSING, tree_differences
    from dicore.config.writer import component_differences
    from dicore.data.json_codec import encode
    from dicore_tools.commands.config_view import format_value, view_config

    request = _request((), trust=trust)
    with contextlib.redirect_stdout(sys.stderr):
        left, right = view_config(one, request), view_config(other, request)
    values = tree_differences(left.tree, right.tree)
    if left.recorded != right.recorded:  # only a run has recorded the spaces
        recorded = left if left.recorded else right
        values = {
            path: both for path, both in values.items() if recorded.origin.get(path) != SPACES
        }
    parts = component_differences(left.components, right.components)
    if as_json:
        items = {"values": {path: encode(list(both)) for path, both in values.items()}}
        items["components"] = {path: list(both) for path, both in parts.items()}
        sys.stdout.write(json.dumps(items, indent=2) + "\n")
        return
    if not values and not parts:
        sys.stdout.write("no difference\n")
        return
    rows = [
        (path, *(value if value is MISSING else format_value(value) for value in both))
        for path, both in values.items()
    ]
    if rows:
        write_table(("option", one, other), rows)
    if parts:
        sys.stdout.write("\n" if rows else "")
        write_table(("component", one, other), [(path, *both) for path, both in parts.items()])


@command.command(name="schema", epilog=_EPILOG_SCHEMA)
@click.option("--out", metavar="FILE", help="Output file.  [default: standard output]")
def schema(out: str | None) -> None:
    """Writes a JSON Schema of configs, for editors.

    It contains the options of all installed components. Editors use it to validate and complete
    config files.
    """
    import dicore_registry
    from dicore_tools.commands.config_schema import config_schema
    from dicore_tools.commands.output import write_output

    if out is not None:
        check_place(out, option="--out", devices=True)
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        text = json.dumps(config_schema(dicore_registry.default()), indent=1) + "\n"
    write_output(text, out)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    places, _ = split_words([word for word in words if not word.startswith("{")])
    return places, [word for word in words if word not in places]


def _request(overrides: Sequence[str], **given: Any) -> Any:
    from dicore.run.request import TrainRequest

    return TrainRequest(overrides=tuple(overrides), argv=(), **given)
