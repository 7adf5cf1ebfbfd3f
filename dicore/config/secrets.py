"""What must not be read by others: texts under keys like token, key, password and secret.

They are left out of saved configs, of what commands print and of errors. Give them as
`${env:NAME}` (see `references`): then a run can be made again from its own config. An option
whose name only looks like a secret is declared with `option(…, secret=False)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dicore.config.compiled import Compiled
from dicore.config.exact import dumps
from dicore.config.plain import Keys, dotted, leaves, to_dict
from dicore.config.references import escaped

__all__ = [
    "REDACTED",
    "conceal",
    "fingerprint",
    "is_secret",
    "redact_diff",
    "redact_words",
    "redacted",
    "redacted_paths",
    "saved_tree",
    "tree_fingerprint",
]

REDACTED: Final = "<redacted>"
"""Stands where a secret was."""

_SECRET = re.compile(
    r"(?:.*[_-])?(?:api|auth|access|private)?"
    r"(?:key|tokens?|passwords?|passwd|pwd|passphrase|secrets?|credentials?)",
    re.IGNORECASE,
)
_NAME = r"""(?<![\w.-])([\w.-]++)(["']?\s*[:=]\s*)"""  # never from within a word: that is quadratic
_QUOTED = re.compile(_NAME + r"""("[^"]+"|'[^']+')""")
_BARE = re.compile(_NAME + r"""("[^"]+"|'[^']+'|[^\s,}\]#]+)""")
_SETTINGS = re.compile(r"\.(ya?ml|toml|json|ini|cfg|conf|env|properties)(\.\w+)?$|/\.env$")


def is_secret(path: str) -> bool:
    """Says whether the last key of a path names a secret."""
    key = re.sub(r"(\[\d+\])+$", "", path).rpartition(".")[2]
    return _SECRET.fullmatch(key) is not None


def conceal(message: str) -> str:
    """Takes the value out of a message about one."""
    said, got, _ = message.partition(", got ")
    if got:
        return f"{said}, got {REDACTED}"
    return "is given twice and differs" if " contradicts " in message else message


def saved_tree(compiled: Compiled, *, redact: bool = True) -> dict[str, Any]:
    """Returns a config as nested dicts, as it may be written down; compiling them gives it back.

    References stand where their values were.

    Args:
        compiled: The config.
        redact: Leave out secrets that were given in the open.
    """
    tree = to_dict(compiled.cfg)
    for keys, declared, value in leaves(compiled.cfg):
        path = dotted(keys)
        secret = declared.metadata.get("secret")
        hide = redact and (is_secret(path) if secret is None else secret)
        kept = _kept(value, path, hide, redact, compiled)
        if kept is not value:
            _put(tree, keys, kept)
    return tree


def _kept(value: Any, path: str, hide: bool, redact: bool, compiled: Compiled) -> Any:
    if path in compiled.references:
        return compiled.references[path]
    if isinstance(value, str):
        if hide and value:
            return REDACTED
        return escaped(value) if "${" in value else value
    if isinstance(value, Mapping) and value:
        kept = {
            key: _kept(item, f"{path}.{key}", redact and is_secret(str(key)), redact, compiled)
            for key, item in value.items()
        }
        return kept if any(kept[key] is not value[key] for key in value) else value
    if isinstance(value, list | tuple) and value:
        items = [_kept(v, f"{path}[{i}]", hide, redact, compiled) for i, v in enumerate(value)]
        changed = any(new is not old for new, old in zip(items, value, strict=True))
        return type(value)(items) if changed else value
    return value


def _put(tree: Any, keys: Keys, value: Any) -> None:
    for key in keys[:-1]:
        tree = tree[key]
    tree[keys[-1]] = value


def redacted_paths(value: Any, path: str) -> Iterator[str]:
    """Yields where in a value a secret was left out when it was saved."""
    if isinstance(value, str):
        if value == REDACTED:
            yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from redacted_paths(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from redacted_paths(item, f"{path}[{index}]")


def fingerprint(compiled: Compiled) -> str:
    """Returns a hash of everything that is trained; equal configs have equal ones.

    The folder's name is left out, and so are secrets.
    """
    return tree_fingerprint(saved_tree(compiled))


def tree_fingerprint(tree: Mapping[str, Any]) -> str:
    """Returns the `fingerprint` of a config as it was saved."""
    import hashlib

    trained = {key: value for key, value in tree.items() if key != "exp_name"}
    return "sha256:" + hashlib.sha256(dumps(trained).encode()).hexdigest()


def redact_words(words: Sequence[str]) -> list[str]:
    """Returns a command line without its secrets: `a.token=x`, and those in JSON objects."""
    return [_redacted(word) for word in words]


def _redacted(word: str) -> str:
    if word.startswith("{"):
        try:
            return json.dumps(redacted(json.loads(word)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return word
    path, equals, value = word.partition("=")
    if equals and value:
        if value.startswith("{"):
            return f"{path}={_redacted(value)}"
        if is_secret(path.removeprefix("--")) and "${env:" not in value:
            return f"{path}={REDACTED}"
    return word


def redact_diff(patch: str) -> str:
    """Returns a patch without the texts that its lines give to secret names.

    In code these are quoted; in YAML, TOML and the like they need not be.
    """
    lines, pattern = [], _QUOTED
    for line in patch.split("\n"):
        if line.startswith("+++ "):
            pattern = _BARE if _SETTINGS.search(line.rstrip()) else _QUOTED
        elif line.startswith(("+", "-", " ")):
            line = pattern.sub(_without_secret, line)  # noqa: PLW2901 - the same line
        lines.append(line)
    return "\n".join(lines)


def _without_secret(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    hide = is_secret(name) and "${env:" not in value
    return f"{name}{between}{REDACTED}" if hide else match[0]


def redacted(value: Any, *, secret: bool = False) -> Any:
    """Returns plain data without the texts under secret keys; references stay."""
    if isinstance(value, Mapping):
        return {key: redacted(item, secret=is_secret(str(key))) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(redacted(item, secret=secret) for item in value)
    hidden = secret and isinstance(value, str) and value and "${env:" not in value
    return REDACTED if hidden else value
