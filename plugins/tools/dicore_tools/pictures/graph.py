"""Draws middleware as an SVG: one row each, one column per field of the context."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from dicore_tools.pictures.middleware import Stage

__all__ = ["graph_svg"]

_ROW, _COLUMN, _TOP, _LEFT = 40, 34, 128, 24
_CHAR_PX: Final = 7.3
"""Width of a character of a name."""
_STYLE: Final = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2937}"
    ".name{font-weight:600}.small{font-size:11px;fill:#4b5563}"
    ".box{fill:#eef4fb;stroke:#0072b2}.lane{stroke:#c8ced6}"
    ".flow{stroke:#0072b2;fill:none;stroke-width:1.5}"
    ".write{fill:#d55e00;stroke:#d55e00}.read{fill:#fff;stroke:#0072b2;stroke-width:2}"
    ".optional{fill:#fff;stroke:#0072b2;stroke-width:1.5;stroke-dasharray:2 2}"
)
_LEGEND: Final = (("write", "writes"), ("read", "reads"), ("optional", "reads if set"))


def graph_svg(title: str, stages: Sequence[Stage]) -> str:
    """Returns the picture of a step of a task: its middleware from top to bottom.

    A field of the context is a column. A filled dot in it: the middleware writes the field; a
    circle: it reads it; a dashed circle: it reads it if it is set.

    Args:
        title: Title of the picture.
        stages: The middleware in order.
    """
    fields = list(dict.fromkeys(
        field for stage in stages for field in (*stage.reads, *stage.writes, *stage.optional)
    ))  # fmt: skip
    box = max(len(stage.name) for stage in stages) * _CHAR_PX + 40
    lanes = _LEFT + box + 40
    width = max(lanes + len(fields) * _COLUMN + 100, 520)
    bottom = _TOP + len(stages) * _ROW
    height = bottom + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}"'
        f' width="{width:.0f}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#fff"/>',
        f'<text class="name" x="{_LEFT}" y="26">{escape(title)}</text>',
    ]
    for index, field in enumerate(fields):
        parts += _lane(field, lanes + index * _COLUMN, bottom)
    for index, stage in enumerate(stages):
        parts += _stage(stage, index, len(stages), box)
        parts += _dots(stage, fields, lanes, _TOP + index * _ROW + _ROW / 2)
    parts += [*_loop(len(stages), box), *_legend(bottom + 28), "</svg>"]
    return "\n".join(parts) + "\n"


def _lane(field: str, x: float, bottom: float) -> list[str]:
    return [
        f'<line class="lane" x1="{x:.0f}" y1="{_TOP - 4}" x2="{x:.0f}" y2="{bottom}"/>',
        f'<text class="small" transform="translate({x + 3:.0f} {_TOP - 12}) rotate(-50)">'
        f"{escape(field)}</text>",
    ]


def _stage(stage: Stage, index: int, count: int, box: float) -> list[str]:
    """Returns the box of a middleware, with the arrow to the next one."""
    y = _TOP + index * _ROW + 5
    middle = _LEFT + box / 2
    mark = " ↩" if stage.yields else ""
    made = [
        f'<g><title>{escape(stage.summary)}</title><rect class="box" x="{_LEFT}" y="{y}"'
        f' width="{box:.0f}" height="{_ROW - 10}" rx="5"/>',
        f'<text class="name" x="{middle:.0f}" y="{y + 19}" text-anchor="middle">'
        f"{escape(stage.name)}{mark}</text></g>",
    ]
    if index < count - 1:
        down = y + _ROW - 10
        made.append(f'<path class="flow" d="M{middle:.0f} {down}v9m-3 -4l3 4l3 -4"/>')
    return made


def _dots(stage: Stage, fields: Sequence[str], lanes: float, y: float) -> list[str]:
    made = []
    for index, field in enumerate(fields):
        x = lanes + index * _COLUMN
        kinds = [name for name, own in (("optional", stage.optional), ("read", stage.reads),
                                        ("write", stage.writes)) if field in own]  # fmt: skip
        for kind in kinds:
            radius = 3.5 if kind == "write" and len(kinds) > 1 else 6
            made.append(f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="{radius:g}"/>')
    return made


def _loop(count: int, box: float) -> list[str]:
    """Returns the arrow from the last middleware back to the first one."""
    first, last, x = _TOP + _ROW // 2, _TOP + count * _ROW - _ROW // 2, _LEFT
    return [
        f'<path class="flow" d="M{x} {last}h-12v{first - last}h12m-5 -3l5 3l-5 3"/>'
        if count > 1
        else f'<path class="flow" d="M{x} {last}h-12"/>'
    ]


def _legend(y: float) -> list[str]:
    made, x = [], _LEFT + 6.0
    for kind, text in _LEGEND:
        made.append(f'<circle class="{kind}" cx="{x:.0f}" cy="{y - 4:.0f}" r="5"/>')
        made.append(f'<text class="small" x="{x + 10:.0f}" y="{y:.0f}">{text}</text>')
        x += 30 + len(text) * _CHAR_PX
    made.append(
        f'<text class="small" x="{x:.0f}" y="{y:.0f}">↩ has a second part, in reverse order</text>'
    )
    return made
