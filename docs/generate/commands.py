"""Generates a page per command from its click declaration."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from dicore import errors
from dicore_tools.json_output.schema import members, summaries
from dicore_tools.json_output.table import has_json, output_of
from docs.generate.query import command_of, components, promise


def command_pages() -> dict[str, str]:
    """Returns a page per command and the index of them."""
    names = [facts["name"] for facts in components() if facts["kind"] == "command"]
    summaries = {
        facts["name"]: facts["summary"] for facts in components() if facts["kind"] == "command"
    }
    rows = "\n".join(
        f"| [`dicore {name.replace('_', '-')}`]({page_of(name)}.md) | {summaries[name]} |"
        for name in names
    )
    group = command_of_group()
    index = [
        "# Command line",
        _help_of(group),
        f"| Command | Summary |\n| --- | --- |\n{rows}",
        "If the first argument is an option, the command is `train`.",
        *_paragraphs(group.epilog or ""),
        _codes(),
        "```{toctree}\n:hidden:\n\n" + "\n".join(map(page_of, names)) + "\n```",
    ]
    pages = {"cli/index.md": "\n\n".join(index) + "\n"}
    for name in names:
        spelling = f"dicore {name.replace('_', '-')}"
        parts = list(_command(command_of(name), spelling, depth=1))
        pages[f"cli/{page_of(name)}.md"] = "\n\n".join(parts) + "\n"
    return pages


def page_of(name: str) -> str:
    """Returns the name of the page of a command; `index` is that of the list of them."""
    return "index_command" if name == "index" else name


def command_of_group() -> click.Command:
    """Returns the command `dicore` itself."""
    from dicore.cli.group import group

    return group


def _command(command: click.Command, spelling: str, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{spelling}`"
    yield _help_of(command)
    yield from promise(spelling)
    group = command_of_group()  # whose settings hold: `-h` beside `--help`
    above = click.Context(group, **group.context_settings)
    context = click.Context(command, info_name=spelling, parent=above)
    usage = " ".join([spelling, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    rows = [(names, text or _argument(names)) for names, text in filter(None, records)]
    if rows:
        lines = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows]
        yield "\n".join(["| Option | Meaning |", "| --- | --- |", *lines])
    yield from _paragraphs(command.epilog or "")
    if has_json(command):
        yield from _output(command, spelling.removeprefix("dicore "), depth)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, f"{spelling} {name}", depth + 1)


def _output(command: click.Command, name: str, depth: int) -> Iterator[str]:
    """Yields what a command prints with `--json`."""
    output = output_of(name, command)
    yield f"{'#' * (depth + 1)} Output of `{name} --json`"
    yield " ".join([*summaries(output), f"`dicore schema {name}` prints the JSON Schema."])
    rows = [f"| `{path}` | {kind} | {_cell(text)} |" for path, kind, text in members(output)]
    yield "\n".join(["| Member | Type | Meaning |", "| --- | --- | --- |", *rows])


def _help_of(command: click.Command) -> str:
    return "\n\n".join(_paragraphs(inspect.cleandoc(command.help or "")))


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a help text; preformatted ones become code blocks."""
    for paragraph in re.split(r"\n\s*\n(?=\S)|\n(?=\x08)", text):
        if not paragraph.strip():
            continue
        if "\b" not in paragraph:
            yield _escape(paragraph.strip())
            continue
        title, _, body = paragraph.replace("\b\n", "").partition("\n")
        yield f"{_escape(title.strip())}\n\n```text\n{textwrap.dedent(body).rstrip()}\n```"


def _escape(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text


def _argument(words: str) -> str:
    """Returns the meaning of positional arguments, for which click has no help."""
    return " ".join(_ARGUMENTS[word.strip("[].")] for word in words.split())


_ARGUMENTS = {
    "A": "A run folder, a config file or a preset.",
    "B": "The run folder, config file or preset to compare with.",
    "RUN|DATA": "A run folder, or the file or folder of a data set.",
    "PLACE": "A folder, an address that fsspec knows, or a web server.",
    "ITEM": "Name of the item in the place.",
    "WHEEL|FOLDER|PACKAGE": "Wheels, folders of wheels, or installed packages; all of those here"
    " if none is named.",
    "WORD": "Words that must all be found.",
    "PACKAGE|KIND/NAME|ENV_ID": "A package, a component, or an environment by id or file.",
    "FILE": "A file of rows in TOML, YAML or JSON.",
    "FILE|FOLDER": "A config file in Python or YAML, or a folder with configs of DI-engine.",
    "FILE|manifest": "A config file; or `manifest`, to print a manifest for Kubernetes.",
    "FILE|PRESET": "A config file or the name of a preset.",
    "FILE|RUN|PRESET": "A config file, a run folder or the name of a preset.",
    "COMMAND": "A command with `--json`; words after it are ignored.",
    "KIND": "List only this kind.",
    "KIND/NAME": "The component.",
    "NAME": "Name of the new package.",
    "RUN": "Run folders, or folders that contain runs.",
    "RUN|CKPT|ENV": "Runs, checkpoints or environments.",
    "RUN|CKPT": "A run folder or a checkpoint folder.",
    "TENSORS": "A file of safetensors or torch, or an archive of Stable-Baselines3.",
    "env.a=b": "Options of the environment, for example `env.env_wrapper=flat_obs`.",
    "a.b=c": "Config options, for example `policy.learn.batch_size=128`.",
    "{bash|zsh|fish}": "The shell.",
}


def _codes() -> str:
    by_code: dict[int, list[str]] = {}
    for name in errors.__all__:
        error = getattr(errors, name)
        if issubclass(error, errors.DicoreError):
            by_code.setdefault(error.exit_code, []).append(name)
    meanings = {
        0: "Success; also if a training used its whole budget.",
        1: "A check found errors, or the command failed while running.",
        2: "Wrong usage or config. Nothing was written.",
        3: "A package cannot be used: broken, conflicting, incompatible, or an extra is missing.",
        4: "A checkpoint cannot be read or written.",
        75: "The cluster preempted the job (SIGUSR1, SIGUSR2). The training was saved; resume it.",
        129: "The terminal was closed (SIGHUP). The training was saved.",
        130: "Ctrl-C stopped the training, which was saved. A second Ctrl-C stops immediately.",
        143: "SIGTERM stopped the training, which was saved.",
    }
    missing = sorted(by_code.keys() - meanings.keys())
    if missing:
        raise AssertionError(f"exit codes without a meaning: {missing}")
    rows = "\n".join(f"| {code} | {text} |" for code, text in sorted(meanings.items()))
    return f"## Exit codes\n\n| Code | Meaning |\n| --- | --- |\n{rows}"
