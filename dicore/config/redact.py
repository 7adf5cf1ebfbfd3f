"""Secrets and references: what must not be written to files, and `${env:NAME}`.

Texts under keys such as token, key, password and secret are left out of saved configs, output and
errors, and so are credentials in URLs and headers. Pass a secret as `${env:NAME}`. Declare an
option whose name only looks like a secret with `option(…, secret=False)`.

`${env:NAME}` is the text of an environment variable, read when a config is compiled; saved files
keep the reference. In those of a stranger it is refused. Other options than texts take the value
that the command line would take. `${cpanel.NAME}` is the value of a control-panel parameter.
Double the dollar to get the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dicore.console import HIDDEN, hide

REDACTED: Final = HIDDEN
"""Replaces a secret."""

ENV = re.compile(r"(\$+)\{env:([A-Za-z_]\w*)\}")
KNOB = re.compile(r"(\$+)\{cpanel\.([\w.-]+)\}")

_SECRET = re.compile(
    r"(?:.*[_-]|(?-i:.*[a-z\d](?=[A-Z])))?(?:api|auth|access|private)?(?:authorization|bearer|cookie"
    r"|key(?:_id)?|tokens?|passwords?|passwd|pwd|passphrase|secrets?|credentials?)",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(
    r"""(?P<url>://)[^\s/@:'"]*:[^\s/@'"]+(?=@)|(?P<id>://)[^\s/@:'"]{16,}(?=@)"""
    r"""|(?P<query>[?&](?P<name>[\w.-]+)=)[^&\s"'#]+"""
    r"""|(?P<header>\bauthorization\\?["']?\s*[:=,]\s*\\?["']?(?:[a-z]+\s+)?)[^\s"',;\\]+"""
    r"""|(?P<bearer>\bbearer\s+)[\w.~+/=-]{4,}""",
    re.IGNORECASE,
)


def is_secret(path: str, value: object = "", default: object = None) -> bool:
    """Returns whether the last key of a path names a secret; a default that is a word is none."""
    word = value == default and re.fullmatch(r"[a-z_]{1,16}", str(value))
    key = re.sub(r"(\[\d+\])+$", "", path).rpartition(".")[2]
    return not word and _SECRET.fullmatch(key) is not None


def redact_text(text: str) -> str:
    """Returns a text without the credentials in its URLs and headers; references stay."""

    def hide(match: re.Match[str]) -> str:
        shown = "${env:" in match[0] or (match["name"] and not is_secret(match["name"]))
        start = next(filter(None, match.group("url", "id", "query", "header", "bearer")))
        return match[0] if shown else start + REDACTED

    return _CREDENTIAL.sub(hide, text)


def conceal(message: str) -> str:
    """Removes the value from a message about a secret option."""
    text, got, _ = message.partition(", got ")
    if got:
        return f"{text}, got {REDACTED}"
    return "is given twice and differs" if " contradicts " in message else message


def redacted(value: Any, *, secret: bool = False) -> object:
    """Returns plain data without the texts under secret keys, and credentials; references stay."""
    if isinstance(value, Mapping):
        return {key: redacted(item, secret=is_secret(str(key))) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(redacted(item, secret=secret) for item in value)
    if not isinstance(value, str):
        return value
    return REDACTED if secret and value and "${env:" not in value else redact_text(value)


def redacted_paths(value: object, path: str) -> Iterator[str]:
    """Returns the paths in a saved value whose secrets were left out."""
    return (at for at, text in texts_in(value, path) if REDACTED in text)


def texts_in(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yields path and text of every text in nested dicts, lists and tuples."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_in(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from texts_in(item, f"{path}[{index}]")


def hide_secrets(value: object, path: str, secret: bool | None, default: object) -> None:
    """Leaves the texts of a secret option, and under secret keys of a dict, out of errors.

    Args:
        value: The option's value.
        path: Its path.
        secret: What it is declared as; None: its name tells.
        default: Its default, which may be in code and no secret.
    """
    for at, text in texts_in(value, path):
        if is_secret(at, text, default) if secret is None or at != path else secret:
            hide(text)


def words_in(value: object) -> Iterator[str]:
    """Yields every key and text of nested dicts, lists and tuples."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        yield from (key for key in value if isinstance(value, Mapping) and isinstance(key, str))
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from words_in(item)


def names_in(value: object, pattern: re.Pattern[str] = ENV) -> bool:
    """Returns whether a text, or any item of a container, contains a reference."""
    return any("${" in text and pattern.search(text) for _, text in texts_in(value, ""))


def reads_variable(text: str) -> bool:
    """Returns whether a text has a reference that `resolve` looks up."""
    return any(match[1] == "$" for match in ENV.finditer(text))


def is_whole(text: str, pattern: re.Pattern[str] = ENV) -> str | None:
    """Returns the name if a text is one reference and nothing else, else None."""
    match = pattern.fullmatch(text)
    return match[2] if match is not None and match[1] == "$" else None


def resolve(
    value: Any,
    path: str,
    find: Callable[[str, str], object] | None = None,
    pattern: re.Pattern[str] = ENV,
    noted: dict[str, str] | None = None,
) -> Any:
    """Replaces the references in a value, in the items of lists and dicts too."""
    if isinstance(value, Mapping):
        return {
            key: resolve(item, f"{path}.{key}", find, pattern, noted) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            resolve(item, f"{path}[{i}]", find, pattern, noted) for i, item in enumerate(value)
        )
    if not isinstance(value, str) or not names_in(value, pattern):
        return value
    read = find or (lambda name, _: os.environ[name])
    if noted is not None and any(match[1] == "$" for match in pattern.finditer(value)):
        noted[path] = value
    if (name := is_whole(value, pattern)) is not None:
        return read(name, path)

    def written(match: re.Match[str]) -> str:
        return str(read(match[2], path)) if match[1] == "$" else match[0][1:]

    return pattern.sub(written, value)


def escaped(text: str) -> str:
    """Returns a text that `resolve` turns back into this one, references or not."""
    return ENV.sub(lambda match: f"${match[0]}", text) if "${env:" in text else text
