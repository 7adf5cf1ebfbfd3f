"""A page per command, from what `--help` is made of."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generate.ask import command_of, components


def command_pages() -> dict[str, str]:
    """Returns a page per command and the index of them."""
    names = [facts["name"] for facts in components() if facts["kind"] == "command"]
    summaries = {
        facts["name"]: facts["summary"] for facts in components() if facts["kind"] == "command"
    }
    rows = "\n".join(
        f"| [`dicore {name.replace('_', '-')}`]({name}.md) | {summaries[name]} |" for name in names
    )
    group = command_of_group()
    index = [
        "# Command line",
        _help_of(group),
        f"| Command | What it does |\n| --- | --- |\n{rows}",
        "A line that begins with an option means `train`; `dicore -m eval …` means `eval`.",
        _codes(),
        "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```",
    ]
    pages = {"cli/index.md": "\n\n".join(index) + "\n"}
    for name in names:
        spelling = f"dicore {name.replace('_', '-')}"
        parts = list(_command(command_of(name), spelling, depth=1))
        pages[f"cli/{name}.md"] = "\n\n".join(parts) + "\n"
    return pages


def command_of_group() -> click.Command:
    """Returns the command `dicore` itself."""
    from dicore.cli.group import group

    return group


def _command(command: click.Command, spelling: str, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{spelling}`"
    yield _help_of(command)
    context = click.Context(command, info_name=spelling)
    usage = " ".join([spelling, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    rows = [record for record in records if record is not None]
    if rows:
        lines = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows]
        yield "\n".join(["| Option | Meaning |", "| --- | --- |", *lines])
    yield from _paragraphs(command.epilog or "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, f"{spelling} {name}", depth + 1)


def _help_of(command: click.Command) -> str:
    return "\n\n".join(_paragraphs(inspect.cleandoc(command.help or "")))


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a help text; one that is not to be rewrapped is a block of code."""
    for paragraph in text.split("\n\n"):
        if not paragraph.strip():
            continue
        if "\b" not in paragraph:
            yield _escape(paragraph.strip())
            continue
        title, _, body = paragraph.replace("\b\n", "").partition("\n")
        yield f"{_escape(title.strip())}\n\n```text\n{inspect.cleandoc(body)}\n```"


def _escape(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text


def _codes() -> str:
    return (
        "Exit codes: 0 when all went well, 1 when a check found errors, 2 for a mistake in what was"
        " asked (told in three lines at most; nothing was written), 130 and 143 when a signal ended"
        " a training after saving. `--debug` shows the traceback of an error."
    )
