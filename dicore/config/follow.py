"""Cross-copies: options that take another's value where nobody gives them one of their own."""

from __future__ import annotations

from collections.abc import Callable

from dicore.config.declare import REQUIRED
from dicore.config.leaf import Mismatch, convert
from dicore.config.plain import dotted, leaves, lookup, replace
from dicore.config.problems import Problems
from dicore.config.sections import RunConfig
from dicore.config.walk import DEFAULT

__all__ = ["FOLLOWS", "apply_follows"]

FOLLOWS = "follows "
"""How the origin of a value begins that was taken from another path."""

_CHAIN = 8


def apply_follows(
    cfg: RunConfig,
    origin: dict[str, str],
    problems: Problems,
    echoes: Callable[[str, str], bool] = lambda path, source: False,
) -> RunConfig:
    """Copies values to the options that follow them.

    Args:
        cfg: The config; not changed.
        origin: Updated with what each copied value follows.
        problems: Takes values that do not fit where they are copied to.
        echoes: Says whether a value was given, but by a source that gave the followed path the
            same one (a saved config does): then it goes on following.

    Returns:
        The config with the copies in place.
    """
    for _ in range(_CHAIN):  # one may follow another that follows a third
        changed = cfg
        for keys, field, value in leaves(cfg):
            source = field.follows
            if source is None:
                continue
            path = dotted(keys)
            silent = origin.get(path, DEFAULT).startswith((DEFAULT, FOLLOWS))
            wanted = lookup(cfg, source, REQUIRED)
            if wanted is REQUIRED or problems.below(source):
                continue
            if not (silent or echoes(path, source)):
                continue
            try:
                copied = convert(wanted, field.hint, path)
            except Mismatch as wrong:
                if wanted is not None:  # an empty source has nothing to copy
                    problems.extend(wrong.findings)
                continue
            origin[path] = f"{FOLLOWS}{source}"
            if copied != value:
                changed = replace(changed, keys, copied)
        if changed is cfg:
            break
        cfg = changed
    return cfg
