"""What an unknown key was probably meant to be."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

__all__ = ["nearest"]

_CUTOFF = 0.6
_CUTOFF_ELSEWHERE = 0.75
_SIBLING_BONUS = 0.1
_LONGEST = 100
"""Letters of a key that may still be a misspelt one."""


def nearest(key: str, siblings: Iterable[str], paths: Iterable[str]) -> str | None:
    """Returns the likeliest correction of a misspelt or misplaced key.

    Args:
        key: The key as written.
        siblings: Keys of the section it was written in; preferred where equally near.
        paths: Paths of the whole config; compared by their last key.

    Returns:
        A sibling's name, a full path, or None if nothing is near.
    """
    if len(key) > _LONGEST:
        return None
    wanted, siblings = _word(key), list(siblings)
    best, best_score = None, _CUTOFF
    for sibling in siblings:
        least = max(_CUTOFF, best_score - _SIBLING_BONUS)
        score = _likeness(wanted, _word(sibling), least)
        if score >= _CUTOFF and score + _SIBLING_BONUS > best_score:
            best, best_score = sibling, score + _SIBLING_BONUS
    for path in paths:
        score = _likeness(wanted, _last(path), max(_CUTOFF_ELSEWHERE, best_score))
        if score >= _CUTOFF_ELSEWHERE and score > best_score:
            best, best_score = path, score
    if best is None and wanted.size > 1:  # `lr`
        best = next((each for each in siblings if _initials(each) == wanted.text), None)
    return best


def _initials(key: str) -> str:
    return "".join(word[0] for word in key.lower().split("_") if word)


class _Word(NamedTuple):
    """A key without case and dashes, made ready to be compared with many others.

    Args:
        text: The letters.
        size: How many.
        bag: A bit for each letter and each time it occurs.
    """

    text: str
    size: int
    bag: int


@lru_cache(maxsize=4096)
def _word(key: str) -> _Word:
    text = key.lower().replace("_", "").replace("-", "")
    bag, seen = 0, Counter[int]()
    for letter in text:
        code = ord(letter) & 127
        bag |= 1 << (code + 128 * seen[code])
        seen[code] += 1
    return _Word(text, len(text), bag)


@lru_cache(maxsize=4096)
def _last(path: str) -> _Word:
    return _word(path.rpartition(".")[2])


def _likeness(first: _Word, second: _Word, least: float) -> float:
    """Returns how alike two words are, from 0 to 1; 0.0 where it is less than `least`."""
    text, size, bag = second
    if first.text == text:
        return 1.0
    if 2 * (first.bag & bag).bit_count() < least * (first.size + size):
        return 0.0  # as many letters as they have in common, in whatever order
    return difflib.SequenceMatcher(None, first.text, text, autojunk=False).ratio()
