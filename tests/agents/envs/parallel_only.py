"""A module as PettingZoo has them, without the API of turns."""

from __future__ import annotations

from typing import Any


def parallel_env(**kwargs: object) -> Any:
    """Makes nothing; it is not called."""
    raise NotImplementedError
