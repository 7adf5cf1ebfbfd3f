"""Arguments of the methods of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from dicore.errors import UsageError
from dicore_tools.neighbour_words import meant_option

__all__ = ["count_of", "overrides_of", "refuse_words", "whole"]


def refuse_words(method: str, words: Mapping[str, object], meant: Mapping[str, str]) -> None:
    """Raises UsageError for arguments that a method does not have.

    Args:
        method: Name of the method.
        words: The arguments.
        meant: Arguments of the method by the option of the config that counts the same.
    """
    if not words:
        return
    word = next(iter(words))
    if word.startswith(("callback", "hook")):
        raise UsageError(
            f"{method}() has no argument '{word}'; a learner hook is called during training",
            hint="Agent(…, policy__learn__learner__hook={'mine': {'type': './f.py:Hook'}}), or"
            " a name of 'dicore list learner_hook'; docs/howto/own_hook.md shows how to write one",
        )
    own = meant.get(meant_option(word), "")
    raise UsageError(
        f"{method}() has no argument '{word}'{f'; it is {own} here' if own else ''}",
        hint=f"{method}() takes {' and '.join(meant.values())}; see help(Agent.{method})",
    )


def count_of(name: str, value: Any) -> Any:
    """Returns a whole number >= 1, or None."""
    return None if value is None else whole(name, value, least=1)


def whole(name: str, value: Any, *, least: int) -> int:
    """Returns a whole number.

    Raises:
        UsageError: it is none, or less than `least`.
    """
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if not is_whole or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}={value!r}: {name} must be a whole number >= {least}")
    return int(value)


def overrides_of(given: Mapping[str, object]) -> list[dict[str, object]]:
    """Returns keyword arguments as options of a config; `__` stands for a dot."""
    tree = {name.replace("__", "."): value for name, value in given.items()}
    return [tree] if tree else []
