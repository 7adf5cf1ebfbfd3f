"""Writes the pages of `docs/notebooks` as Jupyter notebooks, and runs them.

    python -m docs.generate.notebooks --run -o docs/_build/notebooks

Blocks of `python` become code cells, and the commands of `console` blocks cells with `!`; the rest
is text. `--run` executes each notebook in a kernel of its own, in an empty folder, and stores the
outputs; it needs `nbclient` and `ipykernel`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dicore.console import say

__all__ = ["PAGES", "executed", "notebook", "notebooks"]

FOLDER = Path(__file__).parents[1] / "notebooks"
PAGES = tuple(sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index"))
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
_CELL_TIMEOUT_S = 600
_CHECK = "assert not _exit_code, f'exit code {_exit_code} of the command above'"


def notebooks() -> dict[str, str]:
    """Returns each notebook as JSON, by its path below `docs/generated`."""
    return {
        f"notebooks/{name}.ipynb": json.dumps(notebook(name), indent=1) + "\n" for name in PAGES
    }


def notebook(name: str) -> dict[str, Any]:
    """Returns a page in the format of Jupyter (nbformat 4.5), without outputs."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    cells: list[dict[str, Any]] = []
    for kind, source in _cells(text):
        cell = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cells(text: str) -> Iterator[tuple[str, str]]:
    """Yields kind and source of each cell."""
    at = 0
    for block in _BLOCK.finditer(text):
        yield from _prose(text[at : block.start()])
        code = block[2].rstrip("\n")
        if block[1] == "console":
            commands = [line[2:] for line in code.splitlines() if line[:2] == "$ "]
            yield from (("code", f"!{command}") for command in commands)
        else:
            yield "code", code
        at = block.end()
    yield from _prose(text[at:])


def _prose(text: str) -> Iterator[tuple[str, str]]:
    if text := text.strip():
        yield "markdown", _LINK.sub(r"\1 (docs/\2)", text)


def executed(made: dict[str, Any], folder: Path) -> Any:
    """Runs a notebook in a kernel; returns it with its outputs.

    Args:
        made: The notebook.
        folder: Its working folder.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised, or a command in it failed.
    """
    import nbformat
    from nbclient import NotebookClient

    client = NotebookClient(
        nbformat.from_dict({**made, "cells": list(_checked(made["cells"]))}),
        timeout=_CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    done: Any = client.execute(env={**os.environ, "PATH": os.pathsep.join(places)})
    done.cells = [each for each in done.cells if each.source != _CHECK]
    return done


def _checked(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields cells, and after those with a command one that fails if the command did."""
    for cell in cells:
        yield cell
        if cell["source"].startswith("!"):
            yield {**cell, "id": f"{cell['id']}-check", "source": _CHECK}


def main(out: Path, *, run: bool) -> None:
    """Writes the notebooks."""
    import nbformat

    out.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        made: Any = nbformat.from_dict(notebook(name))
        began = time.monotonic()
        if run:
            with tempfile.TemporaryDirectory(prefix="dicore-notebook-") as folder:
                made = executed(made, Path(folder))
        nbformat.write(made, out / f"{name}.ipynb")
        say(f"{out / name}.ipynb: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="execute them")
    parser.add_argument("-o", "--out", type=Path, default=FOLDER.parent / "_build/notebooks")
    arguments = parser.parse_args()
    main(arguments.out, run=arguments.run)
