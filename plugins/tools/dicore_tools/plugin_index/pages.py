"""The index of plugin packages: a JSON file, and a page that shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from dicore import __version__
from dicore.errors import UsageError
from dicore_tools.plugin_index.package import FORMAT, TIERS, Package

__all__ = ["as_json", "as_page", "matching", "read_index"]

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;
color:#222;background:#fff}table{border-collapse:collapse;width:100%}td,th{padding:.4rem .6rem;
text-align:left;vertical-align:top;border-bottom:1px solid #ddd}code{font-size:.9em}
.bad{color:#a33}input{font:inherit;padding:.3rem .6rem;width:20rem}@media(prefers-color-scheme:dark)
{body{color:#ddd;background:#181818}td,th{border-color:#444}.bad{color:#f88}a{color:#8cf}}"""
_SCRIPT = """document.querySelector('input').oninput=e=>{const w=e.target.value.toLowerCase();
for(const r of document.querySelectorAll('tbody tr'))
r.hidden=!r.textContent.toLowerCase().includes(w)}"""


def as_json(packages: Sequence[Package]) -> str:
    """Returns the index as JSON: `format`, version of dicore, `packages` with their facts."""
    found = [package.facts() for package in _sorted(packages)]
    body = {"format": FORMAT, "dicore": __version__, "packages": found}
    return json.dumps(body, indent=1) + "\n"


def as_page(packages: Sequence[Package]) -> str:
    """Returns the index as one HTML page, without anything from elsewhere."""
    rows = "".join(_row(each) for each in _sorted(packages))
    tiers = ", ".join(f"{number} {text}" for number, text in enumerate(TIERS) if number)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Plugins of dicore</title><style>{_STYLE}</style></head><body>"
        f"<h1>Plugins of dicore</h1><p>{len(packages)} packages. Tiers: {tiers}.</p>"
        '<p><input type="search" placeholder="Search" aria-label="Search"></p>'
        '<table><thead><tr><th scope="col">Package</th><th scope="col">Tier</th>'
        '<th scope="col">Components</th><th scope="col">Needs</th><th scope="col">Licence</th>'
        f"</tr></thead><tbody>{rows}</tbody></table><script>{_SCRIPT}</script></body></html>\n"
    )


def read_index(text: str, where: str) -> list[Package]:
    """Returns the packages of an index; what it says is data.

    Raises:
        UsageError: it is no index, or one of another format.
    """
    try:
        body = json.loads(text)
        if body["format"] != FORMAT:
            raise UsageError(f"{where}: format {body['format']}, expected {FORMAT}")
        return [_read(each) for each in body["packages"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{where}: not an index of plugins", hint="dicore index -o FOLDER writes one"
        ) from error


def matching(packages: Iterable[Package], words: Sequence[str]) -> list[Package]:
    """Returns the packages in which each word is found: in names, summary or components."""
    found = []
    for package in _sorted(packages):
        text = " ".join([package.name, package.summary, *package.components]).lower()
        if all(word.lower() in text for word in words):
            found.append(package)
    return found


def _sorted(packages: Iterable[Package]) -> list[Package]:
    return sorted(packages, key=lambda each: (-each.tier, each.name.lower(), each.version))


def _read(facts: Mapping[str, Any]) -> Package:
    texts = ("name", "version", "summary", "licence", "url", "dicore", "python")
    told: dict[str, Any] = {name: str(facts[name]) for name in texts}
    told |= {name: tuple(map(str, facts[name])) for name in ("problems", "rows")}
    told["notes"] = tuple(map(str, facts.get("notes", ())))
    parts = {str(name): str(target) for name, target in facts["components"].items()}
    return Package(**told, components=parts, badge=dict(facts["badge"]))


def _row(package: Package) -> str:
    name = escape(package.name)
    if re.match("https?://", package.url):
        name = f'<a href="{escape(package.url, quote=True)}" rel="nofollow">{name}</a>'
    bad = "".join(
        f'<br><span class="bad">{escape(each)}</span>'
        for each in (*package.problems, *package.notes)
    )
    parts = "<br>".join(f"<code>{escape(each)}</code>" for each in package.components)
    needs = [f"{what} {each}" for what, each in (("dicore", package.dicore),
             ("Python", package.python)) if each]  # fmt: skip
    cells = (
        f"{name} {escape(package.version)}<br>{escape(package.summary)}{bad}",
        "<br>".join(_tier(package)),
        parts,
        "<br>".join(map(escape, needs)),
        escape(package.licence),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _tier(package: Package) -> Iterator[str]:
    yield f"{package.tier} {escape(TIERS[package.tier])}"
    if package.badge:
        yield escape(
            f"{package.badge.get('passed')} tests with dicore {package.badge.get('dicore')}"
        )
    if signer := package.badge.get("signed_by"):
        yield escape(f"signed by {signer}")
    yield from map(escape, package.rows)
