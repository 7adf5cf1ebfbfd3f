"""Stateless seeds: the same facts give the same number, in any process and under any hash seed.

The mixing function is SplitMix64's finalizer (Steele, Lea, Flood 2014, "Fast splittable
pseudorandom number generators", OOPSLA), applied once per part, the number of parts first.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from hashlib import blake2b

__all__ = ["episode_seed", "hash_seed"]

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15
_MIX_1 = 0xBF58_476D_1CE4_E5B9
_MIX_2 = 0x94D0_49BB_1331_11EB


def hash_seed(*parts: int | str) -> int:
    """Returns a number that depends on every part, its type and its place.

    Args:
        *parts: Integers, taken modulo 2**64, and strings.

    Returns:
        uint64.

    Raises:
        TypeError: a part is neither an integer nor a string.
    """
    mixed = _finish(len(parts) + _GOLDEN)
    for part in parts:
        word = part if part.__class__ is int else _word(part)
        mixed = _finish(mixed + word + _GOLDEN & _MASK)
    return mixed


def episode_seed(run_seed: int, role: str, env_id: int, episode: int) -> int:
    """Returns the seed of one episode: no state, so any manager computes the same one.

    Args:
        run_seed: Seed of the run.
        role: Who plays the episode: `collector`, `evaluator`, …
        env_id: Number of the environment within its manager.
        episode: Number of the episode within its environment.

    Returns:
        A number in [0, 2**31), which is what every environment's `reset(seed=…)` takes.
    """
    mixed = _prefix(run_seed, role) + env_id * _MIX_1 + episode * _GOLDEN & _MASK
    return _finish(mixed) >> 33


def _finish(mixed: int) -> int:
    mixed = (mixed ^ (mixed >> 30)) * _MIX_1 & _MASK
    mixed = (mixed ^ (mixed >> 27)) * _MIX_2 & _MASK
    return mixed ^ (mixed >> 31)


@lru_cache(maxsize=1024)
def _prefix(run_seed: int, role: str) -> int:
    return hash_seed(run_seed, role)


def _word(part: int | str) -> int:
    return _text_word(part) if isinstance(part, str) else operator.index(part)


@lru_cache(maxsize=1024)
def _text_word(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"dicore")
    return int.from_bytes(digest.digest(), "little")
