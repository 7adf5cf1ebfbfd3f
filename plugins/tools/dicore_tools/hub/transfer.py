"""Pushes runs and data sets to a hub, pulls them, and lists what is there.

An item is a folder with its files, `card.json`, and `README.md` for people. The card is written
last: what has none is not complete. It holds a hash of each file; a file that differs is not taken.
Nothing that is pulled is imported or executed, and no file is written outside of its new folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dicore import __version__
from dicore.console import say
from dicore.errors import UsageError
from dicore.run.folder import RunFolder
from dicore_tools.certificates import NAME as CERTIFICATE
from dicore_tools.foreign import is_web, one_line, without_user
from dicore_tools.hub.card import curve_of, own_code, readme
from dicore_tools.hub.contents import content, files_of, path_problem
from dicore_tools.hub.damage import check_whole
from dicore_tools.hub.store import Store, open_store
from dicore_tools.licences import is_licence
from dicore_tools.output_place import check_place
from dicore_tools.reports.run_data import RunData, read_record

__all__ = ["Card", "listed", "pull", "push"]

_LOG = logging.getLogger("dicore.hub")
FORMAT: Final = 1
_CARD, _INDEX = "card.json", "hub.json"
_CARD_BYTES: Final = 1 << 24
_TRIES: Final = 5
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
Card = Mapping[str, Any]


def push(
    source: str | Path,
    place: str,
    *,
    name: str | None = None,
    licence: str = "",
    everything: bool = False,
    overwrite: bool = False,
) -> str:
    """Copies a run, or a data set, into a place; returns its address there.

    Args:
        source: A run folder; or the file or folder of a data set.
        place: A folder or an address that fsspec knows.
        name: Its name there; None: that of the folder or file.
        licence: Under which others may use it, an SPDX name.
        everything: All files of a run, not only config, metrics and the best and last checkpoint.
            A run with a certificate is pushed whole. Secrets and links never are.
        overwrite: Replace an item of this name.

    Raises:
        UsageError: there is nothing to push, the name is taken, or the place cannot be written.
        SchemaError: a file of a data set is damaged.
        CheckpointError: a checkpoint, or the folder of a data set, is damaged.
    """
    path = Path(source)
    name = name or path.name
    _check_words(name, licence)
    if "://" not in place:
        check_place(place, folder=True)
    store, shown = open_store(place), without_user(place)
    if is_web(place):
        raise UsageError(
            f"{shown}: a web server is only read",
            hint=f"push {source} to the folder or store that it serves",
        )
    old = _card(store, name)
    if not overwrite and old is not None:
        raise UsageError(
            f"{shown}: there is a '{name}'", hint="choose another --name, or --overwrite"
        )
    is_run = (path / "config.json").is_file()
    files = dict(files_of(path, is_run=is_run, everything=everything))
    if is_run and not any(each.startswith("ckpt/") for each in files):
        say(f"{path} has no checkpoint: its policy is not pushed")
    card: dict[str, Any] = {"format": FORMAT, "name": name, "licence": licence,
                            "dicore": __version__, **_facts(path, is_run=is_run)}  # fmt: skip
    card["files"] = {each: _stamp(content(file)) for each, file in files.items()}
    _check_files(path, card)
    check_whole(files, str(path))
    extra = _pages(path, card, shown)
    if old is not None:
        store.write(f"{name}/{_CARD}", _json({"format": FORMAT, "incomplete": True}))
    _send(store, card, files, extra)
    _forget(store, old, {*files, *extra})
    _enter(store)
    return f"{shown.rstrip('/')}/{name}"


def pull(place: str, name: str, out: str | Path) -> Card:
    """Copies an item from a place into a new folder; returns its card.

    Raises:
        UsageError: there is no such item, its card or a file of it is wrong, or the folder exists.
        DicoreError: it was damaged before it was pushed, see `push`.
    """
    target, shown = Path(out), without_user(place)
    if os.path.lexists(target):
        raise UsageError(f"{target} exists", hint="choose another folder: -o FOLDER")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r}: not the name of an item", hint="dicore hub list PLACE")
    store = open_store(place)
    card = _card(store, name)
    if card is None:
        raise UsageError(f"{shown}: there is no '{name}'", hint=f"dicore hub list {shown}")
    wanted = _checked(card, f"{shown}/{name}")
    beside = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".hub-", dir=target.parent))
        for path, facts in wanted.items():
            _fetch(store, f"{name}/{path}", beside / path, facts)
        check_whole({each: beside / each for each in wanted}, f"{shown}/{name}")
        beside.chmod(0o755)
        beside.rename(target)
    except FileNotFoundError as error:
        raise UsageError(f"{shown}/{name}: incomplete: {error} is missing") from error
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
    return card


def listed(place: str) -> list[Card]:
    """Returns the cards of a place, by name; those of a web server as `hub.json` has them.

    Raises:
        UsageError: the place cannot be read.
    """
    store, place = open_store(place), without_user(place)
    names = store.names()
    if names is not None:
        return _cards(store, names)
    try:
        found = json.loads(store.read(_INDEX, _CARD_BYTES))
        return [dict(each) for each in found["items"]]
    except FileNotFoundError as error:
        raise UsageError(f"{place}: there is no {_INDEX}; is it a hub?") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{place}/{_INDEX}: not written by dicore hub push") from error


def _check_words(name: str, licence: str) -> None:
    if not _NAME.fullmatch(name) or name.casefold() in (_CARD, _INDEX):
        raise UsageError(
            f"{name!r}: not a name of letters, digits and . _ -, or one of the hub",
            hint="set --name",
        )
    if licence and not is_licence(licence):
        raise UsageError(
            f"--licence: {licence!r} is no SPDX expression", hint="Apache-2.0, MIT OR BSD-3-Clause"
        )


def _check_files(source: Path, card: Card) -> None:
    """Refuses what could not be pulled."""
    for each in card["files"]:
        if problem := path_problem(each):
            raise UsageError(f"{source}: {problem}", hint="give the file another name")
        if each.casefold() == _CARD:
            raise UsageError(
                f"{source / each}: the card of the item has this name", hint="rename the file"
            )
    if len(_json(card)) > _CARD_BYTES:
        raise UsageError(f"{source}: too many files for one card", hint="pack them into archives")


def _pages(path: Path, card: Card, place: str) -> dict[str, bytes]:
    """Returns the files for people, but for those that the item has itself."""
    code = own_code(path) if card["kind"] == "run" else []
    pages = {"README.md": readme(card, place, code).encode("utf-8", "replace")}
    if card["kind"] == "run" and (picture := curve_of(RunFolder(path))):
        pages["curve.svg"] = picture.encode()
    own = {each.casefold() for each in card["files"]}
    return {each: data for each, data in pages.items() if each.casefold() not in own}


def _send(store: Store, card: Card, files: Mapping[str, Path], pages: Mapping[str, bytes]) -> None:
    """Writes an item, its card last."""
    for each, file in files.items():
        data = content(file)
        if _stamp(data) != card["files"][each]:
            raise UsageError(f"{file}: it changed while it was pushed", hint="push it again")
        store.write(f"{card['name']}/{each}", data)
    for each, data in pages.items():
        store.write(f"{card['name']}/{each}", data)
    store.write(f"{card['name']}/{_CARD}", _json(card))


def _stamp(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def _forget(store: Store, old: Card | None, kept: set[str]) -> None:
    """Removes the files of an item that was replaced."""
    files = old.get("files") if old else None
    if old is None or not isinstance(files, Mapping):
        return
    for each in {*files, "README.md", "curve.svg"} - kept:
        if not path_problem(each):
            store.remove(f"{old['name']}/{each}")


def _facts(path: Path, *, is_run: bool) -> dict[str, Any]:
    if not is_run:
        return {"kind": "dataset"}
    record, config = read_record(RunFolder(path))
    data = RunData(RunFolder(path), record, config, {})
    kept = ("best_return", "env_step", "train_iter", "stop", "wall_s")
    return {
        "kind": "run",
        "env": one_line(data.env_name),
        "policy": one_line(data.type_of("policy")),
        "seed": record.get("seed"),
        "status": record.get("status"),
        "result": {key: data.result[key] for key in kept if key in data.result},
        "certificate": (path / CERTIFICATE).is_file(),
    }


def _card(store: Store, name: str) -> Card | None:
    try:
        card = json.loads(store.read(f"{name}/{_CARD}", _CARD_BYTES))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        return None
    return card if isinstance(card, dict) and card.get("name") == name else None


def _cards(store: Store, names: Iterable[str]) -> list[Card]:
    """Returns the cards that can be read, and warns of the others: others wrote them."""
    cards = []
    for name in names:
        try:
            card = _card(store, name)
        except UsageError as error:
            _LOG.warning("left out: %s", one_line(error.message))
            continue
        if card is not None:
            cards.append(card)
    return cards


def _checked(card: Card, where: str) -> dict[str, Mapping[str, Any]]:
    """Returns the files of a card if all of their paths lead into the folder."""
    if card.get("format") != FORMAT:
        raise UsageError(f"{where}: format {card.get('format')}, expected {FORMAT}")
    files = card.get("files")
    if not isinstance(files, Mapping) or not files:
        raise UsageError(f"{where}: its card names no files")
    for path, facts in files.items():
        if problem := path_problem(str(path)):
            raise UsageError(f"{where}: {problem}")
        size = facts.get("size") if isinstance(facts, Mapping) else None
        if not isinstance(size, int) or size < 0 or not isinstance(facts.get("sha256"), str):
            raise UsageError(f"{where}: {path}: size or hash is missing")
    return dict(files)


def _fetch(store: Store, path: str, target: Path, facts: Mapping[str, Any]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()

    with target.open("xb") as file:

        def take(part: bytes) -> None:
            digest.update(part)
            file.write(part)

        store.read(path, facts["size"], take)
    if digest.hexdigest() != facts["sha256"]:
        raise UsageError(f"{path}: not the file of its card: it was changed or cut off")


def _enter(store: Store) -> None:
    """Writes the list that web servers have, by the cards that are there."""
    written = None
    for _ in range(_TRIES):  # another push may have written an older list meanwhile
        cards = _cards(store, store.names() or [])
        items = [{key: value for key, value in card.items() if key != "files"} for card in cards]
        if items == written:
            return
        store.write(_INDEX, _json({"format": FORMAT, "items": items}))
        written = items


def _json(value: object) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()
