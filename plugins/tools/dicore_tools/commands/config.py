"""`dicore config`: what a config comes to, whether it is right, and how two differ."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from dicore.errors import ConfigError, DicoreError, UsageError

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])

_SHORT = len("sha256:") + 12

_EPILOG = """\b
Examples:
  dicore config show config.py policy.learn.batch_size=128 --origin
  dicore config show -e cartpole -p dqn --yaml > frozen.yaml
  dicore config show runs/x --json
  dicore config check config.py other.yaml
  dicore config check --locked runs/x
  dicore config diff runs/a runs/b
  dicore config diff config.yaml cartpole_dqn
  dicore config schema --out dicore.json
"""

_EPILOG_SCHEMA = """\b
At the top of a config, for the editor:
  # yaml-language-server: $schema=dicore.json      (YAML)
  #:schema ./dicore.json                           (TOML, by taplo)
"""


@click.group(name="config", epilog=_EPILOG)
def command() -> None:
    """Shows, checks and compares configs: files, runs, presets and names."""


def _sources(function: F) -> F:
    """Adds the options that say what a config is made from."""
    for option in reversed(
        (
            click.option("-e", "--env", metavar="NAME", help="Environment, or a gymnasium id."),
            click.option("-p", "--policy", metavar="NAME", help="Algorithm."),
            click.option("-s", "--seed", type=click.IntRange(0), help="Seed of everything random."),
            click.option("--cpanel", metavar="JSON", help="Knobs of the file's control panel."),
        )
    ):
        function = option(function)
    return function


@command.command(name="show")
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET] [a.b=c]...")
@_sources
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a config file again.")
@click.option("--yaml", "as_yaml_", is_flag=True, help="Print YAML: a config file again.")
def show(
    *, words: Sequence[str], origin: bool, as_json: bool, as_yaml_: bool, **given: Any
) -> None:
    """Prints every value of a config.

    They are what is trained: class defaults < preset < file < command line. Of a run it is what
    was trained. JSON and YAML are config files again. Secrets are left out.
    """
    from dicore.config.exact import dumps, encode
    from dicore.config.yaml_form import yaml_source
    from dicore_tools.commands.settings import find_settings, flat, in_words, origin_of

    files, overrides = _split(words)
    if len(files) > 1:
        raise UsageError(f"one config at most, got {', '.join(files)}")
    with contextlib.redirect_stdout(sys.stderr):  # what an import prints is no answer
        found = find_settings(files[0] if files else None, _request(overrides, **given))
    if as_yaml_:
        sys.stdout.write(yaml_source(found.tree, found.origin, comments=origin))
        return
    if as_json and not origin:
        sys.stdout.write(dumps(found.tree) + "\n")
        return
    rows = [(path, value, origin_of(path, found.origin)) for path, value in flat(found.tree)]
    if as_json:
        told = {path: {"value": encode(value), "origin": from_} for path, value, from_ in rows}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    from dicore.console import write_table

    width = 3 if origin else 2
    header = ("option", "value", "origin")[:width]
    write_table(header, [(path, in_words(value), said)[:width] for path, value, said in rows])


@command.command(name="check")
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET]... [a.b=c]...")
@_sources
@click.option(
    "--locked", is_flag=True, help="Refuse components that are not those recorded in the run."
)
@click.option("--quick", is_flag=True, help="Without making the environment to see its spaces.")
@click.pass_context
def check(ctx: click.Context, /, *, words: Sequence[str], quick: bool, **given: Any) -> None:
    """Says what is wrong with configs.

    Every mistake with its file and line; exit code 2 if there is any. A config that is right can
    be trained: its components are installed, its values make sense, and the policy fits the
    environment.
    """
    from dicore.cli.report import report

    files, overrides = _split(words)
    request = _request(overrides, **given)
    wrong = 0
    names: list[str | None] = [*files] or [None]
    for name in names:
        try:
            sys.stdout.write(_fine(name, request, quick=quick) + "\n")
        except DicoreError as error:
            wrong = wrong or error.exit_code
            if len(files) > 1:
                count = len(error.problems) if isinstance(error, ConfigError) else 1
                sys.stderr.write(f"{name}: {count} mistake{'s' if count != 1 else ''}\n")
            report(error, debug=False)
    ctx.exit(wrong)


def _fine(name: str | None, request: Any, *, quick: bool) -> str:
    """Checks one config and returns the line that says that it is right.

    Raises:
        DicoreError: it is not.
    """
    from dicore.config import bind
    from dicore.config.secrets import fingerprint
    from dicore.hookspecs.manager import load_plugins
    from dicore_tools.commands.settings import compiled_of

    plugins = load_plugins()
    compiled = compiled_of(name, request, plugins)
    if not quick:
        from dicore.interfaces.pipeline import SupportsCheck
        from dicore.run.env_factory import BuildContext, spaces_of

        compiled = bind(compiled, *spaces_of(compiled.env, compiled.seed))
        pipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
        if isinstance(pipeline, SupportsCheck):
            pipeline.check(compiled)
        facts = {"cfg": compiled.cfg, "provenance": compiled.components, "compiled": compiled}
        plugins.call("dicore_config_compiled", **facts)
    env = compiled.env.get("env_id") or compiled.env.type
    parts = f"{compiled.policy.type} on {env}, {compiled.pipeline.type}"
    return f"{name or 'config'}: fine ({parts}, {fingerprint(compiled)[:_SHORT]})"


@command.command(name="diff")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
def diff(*, one: str, other: str, as_json: bool) -> None:
    """Compares two configs.

    A and B are runs, files or presets. Told are the values that differ, and the components: their
    distributions, versions and sources.
    """
    from dicore.config.bind import SPACES
    from dicore.config.differ import MISSING, tree_differences
    from dicore.config.exact import encode
    from dicore.config.locked import component_differences
    from dicore_tools.commands.settings import find_settings, in_words

    request = _request(())
    with contextlib.redirect_stdout(sys.stderr):
        left, right = find_settings(one, request), find_settings(other, request)
    values = tree_differences(left.tree, right.tree)
    if left.recorded != right.recorded:  # only a run has asked its environment
        recorded = left if left.recorded else right
        values = {
            path: both for path, both in values.items() if recorded.origin.get(path) != SPACES
        }
    parts = component_differences(left.components, right.components)
    if as_json:
        told = {"values": {path: encode(list(both)) for path, both in values.items()}}
        told["components"] = {path: list(both) for path, both in parts.items()}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    if not values and not parts:
        sys.stdout.write("no difference\n")
        return
    from dicore.console import write_table

    rows = [
        (path, *(value if value is MISSING else in_words(value) for value in both))
        for path, both in values.items()
    ]
    if rows:
        write_table(("option", one, other), rows)
    if parts:
        sys.stdout.write("\n" if rows else "")
        write_table(("component", one, other), [(path, *both) for path, both in parts.items()])


@command.command(name="schema", epilog=_EPILOG_SCHEMA)
@click.option("--out", metavar="FILE", help="Where to write it.  [default: standard output]")
def schema(out: str | None) -> None:
    """Writes a JSON Schema of configs, for editors: all options of all installed components."""
    from dicore_tools.commands.schema import write

    write(out)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    said = [word for word in words if "=" in word or word.startswith("{")]
    return [word for word in words if word not in said], said


def _request(overrides: Sequence[str], **given: Any) -> Any:
    from dicore.run.request import TrainRequest

    return TrainRequest(overrides=tuple(overrides), argv=(), **given)
