"""`dicore index` and `dicore search`: plugin packages, and how far they were tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs
import click

from dicore.console import plural, printable, say, write_table
from dicore.errors import UsageError
from dicore_registry import default
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json
from dicore_tools.foreign import fetch, is_web, one_line
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.json_output.written import WrittenIndex
    from dicore_tools.plugin_index.package import Package

_INDEX_EPILOG = """\b
Examples:
  dicore index -o site                     the packages that are installed here
  dicore index wheels -o site              those of the wheels in a folder
  dicore index wheels/a*.whl -o site       those of some wheels
  dicore index -o site --results results.jsonl --key KEY.pub

Writes index.json and index.html. Nothing of the packages is imported.
"""
_SEARCH_EPILOG = """\b
Examples:
  dicore search atari                                  in the packages that are installed here
  dicore search policy/ sac --index site               in an index of your own
  dicore search maze --index https://example.org/site

Without --index nothing is read from elsewhere. An index is data: nothing is installed or run.
"""
_MOST_BYTES: Final = 1 << 26
_WRITES: Final = "dicore index -o FOLDER writes FOLDER/index.json"


@click.command(name="index", cls=CommandWithExamples, epilog=_INDEX_EPILOG)
@click.argument("wheels", nargs=-1, metavar="[WHEEL|FOLDER|PACKAGE]...")
@click.option("-o", "--out", metavar="FOLDER", required=True, help="Folder of the two files.")
@click.option("--results", metavar="FILE", help="Records of dicore benchmark: packages with a row.")
@click.option("--key", "keys", metavar="KEY.pub", multiple=True, help="Whose badges are trusted.")
@AS_JSON
def command(
    wheels: Sequence[str], out: str, results: str | None, keys: Sequence[str], *, as_json: bool
) -> None:
    """Writes a page and a JSON file about plugin packages, from wheels or from those installed."""
    from dicore_tools.plugin_index import pages

    check_place(out, option="--out", folder=True)
    packages = [*_packages(wheels or _installed())]
    if results:
        records = _records(results)
        packages = [attrs.evolve(each, rows=_rows(each, records)) for each in packages]
    if keys:
        packages = _signed(packages, keys)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.json").write_text(pages.as_json(packages), encoding="utf-8")
        (folder / "index.html").write_text(pages.as_page(packages), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {folder}: {error.strerror or error}") from error
    if as_json:
        written: WrittenIndex = {
            "page": str(folder / "index.html"), "index": str(folder / "index.json"),
            "packages": [each.name for each in packages],
            "problems": {each.name: [*each.problems, *each.notes] for each in packages
                         if each.problems or each.notes},
        }  # fmt: skip
        write_json(written)
        return
    for each in packages:
        for told in (*each.problems, *each.notes):
            say(one_line(f"{each.name}: {told}"))
    say(f"{folder / 'index.html'}: {plural(len(packages), 'package')}", result=True)


@click.command(name="search", cls=CommandWithExamples, epilog=_SEARCH_EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option(
    "--index", "place", metavar="PLACE", help="A folder, file or URL that dicore index wrote."
)
@AS_JSON
@click.pass_context
def search(ctx: click.Context, words: Sequence[str], place: str | None, *, as_json: bool) -> None:
    """Finds plugin packages by words in their names, summaries and components."""
    from dicore_tools.plugin_index.package import TIERS
    from dicore_tools.plugin_index.pages import matching, read_index

    known = read_index(_text_of(place), place) if place else [*_packages(_installed())]
    found = matching(known, words)
    if as_json:
        write_json([each.facts() for each in found])
    elif found:
        rows = [
            [*map(one_line, (each.name, each.version, TIERS[each.tier], _fitting(each, words),
                             each.summary))]
            for each in found
        ]  # fmt: skip
        head = ("package", "version", "tier", "components", "summary")
        write_table(head, rows)
    else:
        say(f"none of {plural(len(known), 'package')} has {' and '.join(map(printable, words))}")
    ctx.exit(0 if found else 1)


def _installed() -> list[str]:
    registry = default()
    return sorted({entry.dist for kind in registry.kinds() for entry in registry.entries(kind)
                   if entry.dist in registry.distributions})  # fmt: skip


def _packages(names: Sequence[str]) -> Iterator[Package]:
    from dicore_tools.plugin_index.package import installed, read_wheel

    for name in names:
        path = Path(name)
        if path.is_dir() and (wheels := sorted(path.glob("*.whl"))):
            yield from map(read_wheel, wheels)
        elif name.endswith(".whl"):
            yield read_wheel(path)
        else:
            yield _found(name, installed)


def _found(name: str, installed: Callable[[str], Package]) -> Package:
    try:
        return installed(name)
    except UsageError as error:
        if not Path(name).exists():
            raise
        what = "a folder without wheels" if Path(name).is_dir() else "not a wheel"
        raise UsageError(
            f"{name}: {what}, and no package of this name is installed",
            hint="make wheels: pip wheel --no-deps -w wheels SOURCE; then dicore index wheels",
        ) from error


def _signed(packages: Sequence[Package], files: Sequence[str]) -> list[Package]:
    from dicore_tools.certificates import fingerprint, read_public_key
    from dicore_tools.plugin_index.badge import signer_of

    read = [read_public_key(file) for file in files]
    keys = {fingerprint(key): key for key in read}
    return [
        attrs.evolve(each, badge={**each.badge, "signed_by": signer_of(each.badge, keys)})
        if each.badge
        else each
        for each in packages
    ]


def _records(file: str) -> list[Any]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in filter(None, lines)]
        _ = [(each["row"], each["policy"], each["env"], {**each["versions"]}) for each in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--results: {file}: no records of dicore benchmark") from error
    return found


def _rows(package: Package, records: Sequence[Any]) -> tuple[str, ...]:
    """Returns the rows that this version of a package has a component in."""
    rows = []
    for record in records:
        parts = {f"{kind}/{str(record[kind]).rpartition('/')[2]}" for kind in ("policy", "env")}
        used = record["versions"].get(package.name) == package.version
        if used and parts & {*package.components}:
            rows.append(str(record["row"]))
    return tuple(dict.fromkeys(rows))


def _fitting(package: Package, words: Sequence[str]) -> str:
    """Returns the components in which a word is found, else how many there are."""
    fits = [each for each in package.components if any(word.lower() in each for word in words)]
    shown = ", ".join(fits[:5])
    return shown + f" and {len(fits) - 5} more" * (len(fits) > 5) or str(len(package.components))


def _text_of(place: str) -> str:
    if is_web(place):
        return _fetched(place)
    if Path(place).is_dir():
        place = str(Path(place, "index.json"))
    try:
        return Path(place).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"--index: {place}: no such file", hint=_WRITES) from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(f"--index: cannot read {place}: {why}", hint=_WRITES) from error


def _fetched(place: str) -> str:
    """Returns an index from a web server, by its own address or by that of its folder."""
    parts = urlsplit(place)
    inside = parts._replace(path=f"{parts.path.rstrip('/')}/index.json").geturl()
    is_folder = "." not in parts.path.rpartition("/")[2]
    for address in (inside, place) if is_folder else (place,):
        try:
            return fetch(address, _MOST_BYTES).decode("utf-8", "replace")
        except FileNotFoundError as error:
            missing = error
    raise UsageError(f"--index: cannot fetch {missing}: there is no such file") from missing
