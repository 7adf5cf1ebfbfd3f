"""The pictures of a benchmark for the page of `dicore report`."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from dicore.errors import UsageError
from dicore_tools.results.page import SUMMARY, collect_results, draw_pictures
from dicore_tools.results.plan import read_plan
from dicore_tools.results.records import RecordFile

__all__ = ["benchmark_section"]


def benchmark_section(file: Path, records: Path | None = None) -> list[str]:
    """Returns what `dicore benchmark` draws, drawn again from its records, as pieces of HTML.

    Args:
        file: The file with the rows.
        records: Its records; None: those beside the page that it writes by default.

    Raises:
        ConfigError: the file is wrong.
        UsageError: there are no records, or none that can be drawn.
    """
    plan = read_plan(file)
    found = file.with_suffix(".jsonl") if records is None else records
    if not found.is_file():
        raise UsageError(
            f"--records {found}: there is no such file",
            hint="name the .jsonl beside the page that dicore benchmark has written",
        )
    results = collect_results(plan, RecordFile(found).read())
    with tempfile.TemporaryDirectory(prefix="dicore-report-") as folder:
        drawn = draw_pictures(plan, results, Path(folder))
        pieces = [*_figures({name: file.read_bytes() for name, file in drawn.items()})]
    if not pieces:
        raise UsageError(f"{found}: no record is of a row of {file} as it is now")
    return [f"<h2>{escape(plan.title)}</h2>", *pieces]


def _figures(pictures: dict[str, bytes]) -> Iterator[str]:
    """Yields the pictures of all environments, then one per environment."""
    for name in sorted(pictures, key=lambda name: name not in SUMMARY):
        caption = escape(SUMMARY.get(name, f"{name}: mean return, and published returns as lines"))
        data = base64.b64encode(pictures[name]).decode("ascii")
        yield f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        yield f"<figcaption>{caption}</figcaption></figure>"
