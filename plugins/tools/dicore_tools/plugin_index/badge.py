"""Badges: what the conformance suites found of the files of a package, as JSON and as a picture.

A badge lies in the import package, so it is part of the wheel. It holds a hash of the package's
files, and counts for these only. It may be signed (Ed25519): its JSON without the signature.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from html import escape
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dicore import __version__
from dicore.errors import UsageError
from dicore.run.atomic import read_json, write_file
from dicore_registry import default
from dicore_tools.certificates import check_certificate, fingerprint
from dicore_tools.plugin_index.package import (
    BADGE,
    FORMAT,
    PICTURE,
    TIERS,
    Package,
    digest_of,
    folder_of,
    installed,
    tops_of,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["badge_folder", "badge_svg", "signer_of", "verified_run", "write_badge"]

_PURPOSE: Final = b"dicore badge 1\n"
"""Begins what is signed, so that the signature of something else is none of a badge."""
_COLOURS: Final = ("#999", "#6b7f99", "#4c8bf5", "#2e9d5b", "#b8860b")


def write_badge(
    name: str,
    counts: Mapping[str, int],
    *,
    verified: Mapping[str, Any] | None = None,
    key: Ed25519PrivateKey | None = None,
) -> Path:
    """Writes the badge of an installed package into its import package; returns the JSON file.

    Args:
        name: Name of the distribution.
        counts: Number of tests by outcome: `passed`, `failed`, `skipped`.
        verified: What `verified_run` returns.
        key: Signs the badge.

    Raises:
        UsageError: the package is a single module, or its folder cannot be written.
    """
    package, folder = installed(name), badge_folder(name)
    files = [
        f"{folder.name}/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file()
    ]
    badge: dict[str, Any] = {
        "format": FORMAT,
        "name": package.name,
        "version": package.version,
        "digest": digest_of(
            files, lambda path: (folder.parent / path).open("rb"), distribution(name)
        ),
        "dicore": __version__,
        **{outcome: counts.get(outcome, 0) for outcome in ("passed", "failed", "skipped")},
        "verified": dict(verified) if verified else None,
    }
    if key is not None:
        badge["key"] = fingerprint(key.public_key())
        badge["signature"] = base64.b64encode(key.sign(_signed(badge))).decode()
    tier = 1 if badge["failed"] or not badge["passed"] else 2 if not verified else 3
    try:
        write_file(folder / BADGE, f"{json.dumps(badge, indent=1)}\n".encode())
        write_file(folder / PICTURE, badge_svg(tier, package.version).encode())
    except OSError as error:
        raise UsageError(f"--badge: cannot write {folder}: {error.strerror or error}") from error
    return folder / BADGE


def verified_run(folder: Path, key: Ed25519PublicKey, dist: str) -> dict[str, Any]:
    """Returns what a badge says of a run: who trained, and how far it was compared.

    Args:
        folder: A run that `dicore verify --sign` found equal, after it had been resumed.
        key: The public key of its certificate.
        dist: The package, of which the run has a component.

    Raises:
        CertificateError: there is no certificate of this key, or a file of the run was changed.
        UsageError: the run has no component of this version of the package, was never resumed, or
            its end was not compared.
    """
    package = installed(dist)
    statement = check_certificate(folder, key)
    record = read_json(folder / "run.json")
    parts = _parts(record.get("components"), package, folder)
    if not statement.get("resumed"):
        raise UsageError(
            f"--verified: {folder} was never resumed, so its end says nothing about that",
            hint="stop the training once, go on with dicore train --resume, then verify --sign",
        )
    if statement.get("until") is not None or "run.json" not in statement["files"]:
        raise UsageError(
            f"--verified: {folder} was compared up to env step {statement.get('until')}, not to its"
            " end",
            hint="dicore verify RUN --sign KEY, without --until",
        )
    result = record.get("result") or {}
    return {
        "components": parts,
        "seed": record.get("seed"),
        "env_step": result.get("env_step"),
        "best_return": result.get("best_return"),
        "resumed": statement["resumed"],
        "key": fingerprint(key),
    }


def _parts(components: object, package: Package, run: Path) -> list[str]:
    """Returns which components of this version of a package a run has.

    Raises:
        UsageError: it has none, or those of another version or other code.
    """
    known = {target: name for name, target in package.components.items()}
    registry = default()
    own = (each for kind in registry.kinds() for each in registry.entries(kind)
           if each.dist == package.name)  # fmt: skip
    sources = {each.target: str(registry.provenance(each)["source"]) for each in own}
    parts = set()
    for path, facts in components.items() if isinstance(components, Mapping) else ():
        if not isinstance(facts, Mapping) or facts.get("dist") != package.name:
            continue
        if facts.get("version") != package.version:
            raise UsageError(
                f"--verified: {run} is of {package.name} {facts.get('version')}, and"
                f" {package.version} is installed",
                hint="train it again with this version",
            )
        source = sources.get(str(facts.get("target")))
        if source and facts.get("source") != source:
            raise UsageError(
                f"--verified: {path}: the code of {facts.get('target')} was changed after {run}",
                hint="train it again with this code",
            )
        kind = path.rpartition(".")[2]
        name = str(facts.get("type")).rpartition("/")[2]
        parts.add(known.get(str(facts.get("target")), f"{kind}/{name}"))
    if not parts:
        raise UsageError(f"--verified: {run} has no component of {package.name}")
    return sorted(parts)


def signer_of(badge: Mapping[str, Any], keys: Mapping[str, Ed25519PublicKey]) -> str:
    """Returns which of the keys a badge is signed by, as its fingerprint; "" for none of them."""
    from cryptography.exceptions import InvalidSignature

    key = keys.get(str(badge.get("key")))
    if key is None:
        return ""
    try:
        key.verify(base64.b64decode(str(badge.get("signature")), validate=True), _signed(badge))
    except (InvalidSignature, binascii.Error, ValueError):
        return ""
    return str(badge["key"])


def badge_svg(tier: int, version: str) -> str:
    """Returns a picture of a tier: `dicore | suites pass`."""
    left, right = "dicore plugin", f"{TIERS[tier]} · {version}"
    widths = [12 + 6.6 * len(text) for text in (left, right)]
    whole = sum(widths)
    label = escape(f"{left}: {right}")
    texts = "".join(
        f'<text x="{x:.0f}" y="14">{escape(text)}</text>'
        for x, text in ((widths[0] / 2, left), (widths[0] + widths[1] / 2, right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole:.0f}" height="20" role="img"'
        f' aria-label="{label}"><title>{label}</title>'
        f'<rect width="{widths[0]:.0f}" height="20" fill="#444"/>'
        f'<rect x="{widths[0]:.0f}" width="{widths[1]:.0f}" height="20" fill="{_COLOURS[tier]}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif"'
        f' font-size="11">{texts}</g></svg>\n'
    )


def badge_folder(name: str) -> Path:
    """Returns the folder of the import package of an installed package, where its badge is.

    Raises:
        UsageError: it has several import packages, or a single module.
    """
    tops = tops_of(installed(name).components)
    folders = [folder for top in tops if (folder := folder_of(top)) is not None]
    if len(folders) != 1:
        found = ", ".join(tops) or "none"
        raise UsageError(
            f"--badge: {name}: expected components of one import package, found {found}",
            hint="a badge is a file in the package: make a folder of a single module",
        )
    return folders[0]


def _signed(badge: Mapping[str, Any]) -> bytes:
    rest = {name: value for name, value in badge.items() if name != "signature"}
    return _PURPOSE + json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
