"""Signed certificates of verified runs: what was compared, and a hash of its files (Ed25519).

A certificate is `certificate.json` in the folder of the run: a statement, and its signature. It is
checked with a public key that the reader brings; nothing of the folder is executed, and no file but
the certificate is read before the signature is known to be right.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dicore.errors import DicoreError, MissingDependencyError, UsageError
from dicore.run.atomic import open_regular, read_json, read_regular, write_file
from dicore_registry.explain import brief

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = [
    "NAME", "CertificateError", "check_certificate", "fingerprint", "hashes", "read_private_key",
    "read_public_key", "sign",
]  # fmt: skip

NAME: Final = "certificate.json"
"""Name of the file in the folder of a run."""
_PURPOSE: Final = b"dicore certificate 1\n"
"""Begins what is signed, so that the signature of something else is none of a certificate."""
_LATER: Final = ("video",)
"""Folders to which commands add files after a training."""
_SHOWN: Final = 3
_CHUNK_BYTES: Final = 1 << 20
_MOST_KEY_BYTES: Final = 1 << 16
_MAKE_KEY: Final = "make one: openssl genpkey -algorithm ed25519 -out KEY"
_MAKE_PUBLIC: Final = "write it: openssl pkey -in KEY -pubout -out KEY.pub"


class CertificateError(DicoreError):
    """A certificate is missing, is not signed by the key, or its run was changed."""


def hashes(folder: Path) -> dict[str, str]:
    """Returns the sha256 of each file of a run by its path in the folder; not of hidden files.

    Raises:
        CertificateError: a file is a link or no regular file, or cannot be read.
    """
    found = {}
    for name in _files(folder):
        try:
            with open_regular(folder / name) as file:
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                found[name] = digest.hexdigest()
        except OSError as error:
            raise CertificateError(f"{folder / name}: {error.strerror or error}") from error
    return found


def _files(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in sorted([*files, *linked]):
            path = (Path(place) / name).relative_to(folder)
            if path.parts[0] not in (NAME, *_LATER) and not path.name.startswith("."):
                yield path.as_posix()


def sign(folder: Path, statement: Mapping[str, Any], key: Ed25519PrivateKey) -> Path:
    """Writes the certificate of a run.

    Args:
        folder: The run.
        statement: What is stated, with `files`: hashes, and `left_out`: names of the others.
        key: The private key.

    Raises:
        CertificateError: it cannot be written.
    """
    public = key.public_key()
    content = {
        "statement": dict(statement),
        "key": fingerprint(public),
        "signature": base64.b64encode(key.sign(_signed(statement))).decode(),
    }
    file = folder / NAME
    try:
        write_file(file, f"{json.dumps(content, indent=1)}\n".encode())
    except OSError as error:
        raise CertificateError(f"cannot write {file}: {error.strerror or error}") from error
    return file


def check_certificate(folder: Path, key: Ed25519PublicKey) -> dict[str, Any]:
    """Returns what a certificate states of a run whose files are as they were signed.

    Files that the statement leaves out (`left_out`) may be there, changed or not.

    Args:
        folder: The run.
        key: The public key of whom the reader trusts.

    Raises:
        CertificateError: there is none, it is signed by another key or was changed, or a file was
            changed, removed, or added.
    """
    file = folder / NAME
    try:
        content = read_json(file)
        statement, by = dict(content["statement"]), str(content["key"])
        signature = base64.b64decode(content["signature"], validate=True)
        signed = _signed(statement)
    except FileNotFoundError as error:
        raise CertificateError(
            f"{folder}: there is no {NAME}", hint="verify and sign it: dicore verify RUN --sign KEY"
        ) from error
    except (OSError, ValueError, TypeError, LookupError, binascii.Error) as error:
        raise CertificateError(f"{file}: not a certificate: {brief(error)}") from error
    _check_signature(file, key, signature, signed, by)
    if not isinstance(statement.get("files"), Mapping):
        raise CertificateError(f"{file}: it states no files")
    left_out = statement.get("left_out", [])
    if not isinstance(left_out, list):
        raise CertificateError(f"{file}: left_out is not a list")
    _check_files(folder, statement["files"], left_out)
    return statement


def _check_signature(
    file: Path, key: Ed25519PublicKey, signature: bytes, signed: bytes, by: str
) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, signed)
    except InvalidSignature as error:
        mine = fingerprint(key)
        if by != mine:
            raise CertificateError(
                f"{file}: signed by another key: {by}, not {mine}",
                hint="ask its author for the public key; trust none that comes with the run",
            ) from error
        raise CertificateError(
            f"{file}: the certificate was changed after it was signed"
        ) from error


def _check_files(folder: Path, wanted: Mapping[str, str], left_out: Sequence[str]) -> None:
    _refuse(folder, "missing", [n for n in wanted if not os.path.lexists(folder / n)])
    found = hashes(folder)
    _refuse(folder, "changed", [name for name, each in wanted.items() if found.get(name) != each])
    added = [name for name in found if name not in wanted and name not in left_out]
    _refuse(folder, "added", added)


def _refuse(folder: Path, what: str, names: Sequence[str]) -> None:
    if names:
        rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        shown = ", ".join(sorted(names)[:_SHOWN])
        raise CertificateError(f"{folder}: {what} since the run was signed: {shown}{rest}")


def _signed(statement: Mapping[str, Any]) -> bytes:
    """Returns the bytes that are signed: the same for equal statements."""
    return _PURPOSE + json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def fingerprint(key: Ed25519PublicKey) -> str:
    """Returns what names a public key in messages, as `ssh-keygen -l` does."""
    raw = key.public_bytes_raw()
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + raw
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def read_private_key(path: str | Path) -> Ed25519PrivateKey:
    """Reads an Ed25519 key without a password, in PEM or OpenSSH format.

    Raises:
        UsageError: there is no such key in the file.
        MissingDependencyError: the package `cryptography` is not installed.
    """
    key = _parsed(path, private=True)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path}: a key of another kind, not Ed25519", hint=_MAKE_KEY)
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """Reads an Ed25519 public key in PEM or OpenSSH format.

    Raises:
        UsageError: there is no such key in the file.
        MissingDependencyError: the package `cryptography` is not installed.
    """
    key = _parsed(path, private=False)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path}: a key of another kind, not Ed25519", hint=_MAKE_PUBLIC)
    return key


def _parsed(path: str | Path, *, private: bool) -> object:
    try:
        from cryptography.hazmat.primitives import serialization as keys
    except ImportError as error:
        raise MissingDependencyError(
            f"certificates need a package that is not installed: {error}",
            hint="pip install 'dicore-tools[sign]'",
        ) from error
    what, hint = ("private", _MAKE_KEY) if private else ("public", _MAKE_PUBLIC)
    try:
        data = read_regular(os.path.realpath(path), at_most=_MOST_KEY_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read the {what} key {path}: {reason}", hint=hint) from error
    try:
        if private:
            is_ssh = b"OPENSSH PRIVATE KEY" in data
            return (keys.load_ssh_private_key if is_ssh else keys.load_pem_private_key)(data, None)
        is_ssh = data.startswith(b"ssh-")
        return (keys.load_ssh_public_key if is_ssh else keys.load_pem_public_key)(data)
    except TypeError as error:  # it has a password
        raise UsageError(f"{path}: the key has a password", hint="use one without") from error
    except Exception as error:  # of other formats the library raises errors of many kinds
        raise UsageError(f"{path}: not a {what} key in PEM or OpenSSH format", hint=hint) from error
