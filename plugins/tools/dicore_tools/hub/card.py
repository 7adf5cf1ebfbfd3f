"""The page of an item, as people and hubs read it, and the learning curve of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dicore.console import number
from dicore.errors import DicoreError
from dicore.run.atomic import read_json
from dicore.run.folder import RunFolder
from dicore_tools.foreign import one_line

__all__ = ["curve_of", "own_code", "readme", "shown_number"]

_STYLE = (
    "<style>svg{background:#fff;font-family:sans-serif}text{fill:#667;font-size:12px}"
    ".grid{stroke:#dcdfe4}.axis{stroke:#667}.goal{stroke:#667;stroke-dasharray:4 4}"
    ".mean{fill:none;stroke:var(--c);stroke-width:2}</style>"
)


def own_code(folder: Path) -> list[str]:
    """Returns the code that the config of a run names by path, which no run folder holds."""
    try:
        parts = read_json(folder / "config.json")["components"].values()
        found = [each["target"] for each in parts if not each["dist"]]
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return []
    return list(dict.fromkeys(map(one_line, found)))


def readme(card: Mapping[str, Any], place: str, own: Sequence[str] = ()) -> str:
    """Returns the page (Markdown with the header that Hugging Face reads).

    Args:
        card: The card of the item.
        place: Where it is.
        own: What `own_code` returns.
    """
    name, is_run = card["name"], card["kind"] == "run"
    tags = ["reinforcement-learning", *filter(None, (card.get("env"), card.get("policy")))]
    head = ["---", *([f"license: {card['licence']}"] if card["licence"] else []),
            "library_name: dicore", f"tags: [{', '.join(map(_plain, tags))}]", "---"]  # fmt: skip
    if not is_run:
        return "\n".join([*head, "", f"# {name}", "", *_use(place, name, "train from it: see"
                          " `pipeline.dataset` in the documentation")]) + "\n"  # fmt: skip
    rows = [("environment", card["env"]), ("algorithm", card["policy"]), ("seed", card["seed"])]
    result = card["result"]
    rows += [(key.replace("_", " "), shown_number(value)) for key, value in result.items()
             if isinstance(value, int | float) and not isinstance(value, bool)]  # fmt: skip
    table = ["| | |", "|---|---|", *(f"| {key} | {_plain(value)} |" for key, value in rows)]
    use = _use(place, name, f"dicore eval {name} -n 20{' --trust' if own else ''}")
    use += ["", f"It needs code that is not here: {', '.join(map(_plain, own))}."] if own else []
    signed = ["", "Its certificate says that a second training was equal bit for bit:",
              "`dicore verify RUN --certificate KEY.pub` checks it."]  # fmt: skip
    body = [f"# {name}", "", *table, "", "![Learning curve](curve.svg)", "", *use]
    return "\n".join([*head, "", *body, *(signed if card["certificate"] else [])]) + "\n"


def curve_of(run: RunFolder) -> str:
    """Returns the curve of the evaluations of a run as SVG; "" if it has none."""
    from dicore_tools.reports.chart import chart
    from dicore_tools.reports.curves import Group, read_curve

    try:
        curve = read_curve(run)
    except DicoreError:
        return ""
    picture = chart([Group("", [curve])], x_title="env steps", y_title="mean return")
    whole = picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return whole.replace(">", f">{_STYLE}", 1) + "\n"


def shown_number(value: object) -> str:
    """Returns a number of a card; "" for anything else, and for what is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    try:
        return number(float(value))
    except OverflowError:
        return ""


def _use(place: str, name: str, then: str) -> list[str]:
    return ["```", one_line(f"dicore hub pull {place} {name}"), then, "```"]


def _plain(text: object) -> str:
    """Returns a text that means nothing in Markdown or YAML."""
    kept = "".join(each if each.isalnum() or each in " ._-/+" else " " for each in str(text))
    return " ".join(kept.split())
