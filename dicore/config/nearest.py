"""What an unknown key was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]

_CUTOFF = 0.6
_CUTOFF_ELSEWHERE = 0.75
_SIBLING_BONUS = 0.1


def nearest(key: str, siblings: Iterable[str], paths: Iterable[str]) -> str | None:
    """Returns the likeliest correction of a misspelt or misplaced key.

    Args:
        key: The key as written.
        siblings: Keys of the section it was written in; preferred where equally near.
        paths: Paths of the whole config; compared by their last key.

    Returns:
        A sibling's name, a full path, or None if nothing is near.
    """
    best, best_score = None, _CUTOFF
    for sibling in siblings:
        score = _likeness(key, sibling)
        if score >= _CUTOFF and score + _SIBLING_BONUS > best_score:
            best, best_score = sibling, score + _SIBLING_BONUS
    for path in paths:
        score = _likeness(key, path.rpartition(".")[2])
        if score >= _CUTOFF_ELSEWHERE and score > best_score:
            best, best_score = path, score
    return best


def _likeness(first: str, second: str) -> float:
    first, second = _bare(first), _bare(second)
    if first == second:
        return 1.0
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= _CUTOFF else 0.0


def _bare(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")
