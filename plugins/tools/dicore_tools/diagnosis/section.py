"""The part of a report that says what may be wrong with its runs, with curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from dicore_tools.diagnosis.evidence import evidence_of
from dicore_tools.diagnosis.finding import Change, Finding
from dicore_tools.diagnosis.table import diagnose
from dicore_tools.reports.chart import SMALL, chart
from dicore_tools.reports.curves import AXES, Group
from dicore_tools.reports.run_data import RunData

__all__ = ["not_finite_lines", "numbers_text", "section"]

_MOST_RUNS: Final = 20
_MOST_BYTES: Final = 64 << 20
"""A larger checkpoint takes too long to read for a page that is renewed every few seconds."""


def section(runs: Sequence[RunData]) -> Iterator[str]:
    """Yields the section; nothing if nothing was found, or there are many runs.

    Args:
        runs: The runs of the report.
    """
    if len(runs) > _MOST_RUNS:
        return
    found = [(run, diagnose(evidence_of(run, _MOST_BYTES)).findings) for run in runs]
    if not any(findings or run.not_finite for run, findings in found):
        return
    yield "<h2>What may be wrong</h2>"
    for run, findings in found:
        if findings or run.not_finite:
            yield f"<h3>{escape(run.folder.path.name)}</h3>"
            yield from (f'<p class="note">{escape(line)}</p>' for line in not_finite_lines(run))
        if findings:
            yield f"<ol>{''.join(_item(run, each) for each in findings)}</ol>"


def not_finite_lines(run: RunData) -> Iterator[str]:
    """Yields a line if values of a run are not finite: no curve and no rule has them."""
    if run.not_finite:
        counts = ", ".join(f"{tag} {count}" for tag, count in sorted(run.not_finite.items()))
        yield f"values that are not finite, and left out: {counts}"


def _item(run: RunData, each: Finding) -> str:
    changes = "".join(f"<p>Change {_change(change)}</p>" for change in each.change)
    return (
        f"<li><p><b>{escape(each.what)}</b> <code>{escape(each.rule)}</code></p>"
        f'<p class="note">{escape(numbers_text(each.numbers))}</p>'
        f"<p>Likely cause: {escape(each.cause)}.</p>{changes}{''.join(_curves(run, each))}</li>"
    )


def _change(change: Change) -> str:
    now = "" if change.value is None else f" (now {escape(str(change.value))})"
    return f"<code>{escape(change.option)}</code>{now}: {escape(change.advice)}"


def _curves(run: RunData, each: Finding) -> Iterator[str]:
    """Yields the curves that show a finding."""
    for tag in each.metrics:
        curve = run.curve(tag)
        if curve is not None and len(curve.x) > 1:
            title = AXES["env_step"][1]
            picture = chart([Group(tag, [curve])], x_title=title, y_title=tag, size=SMALL)
            yield f"<details><summary>{escape(tag)}</summary><figure>{picture}</figure></details>"


def numbers_text(numbers: Mapping[str, float]) -> str:
    """Writes the evidence of a finding in a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())
