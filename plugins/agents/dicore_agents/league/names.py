"""Names of what a league writes to the folder of its run."""

from __future__ import annotations

from typing import Final

__all__ = ["COPIES", "FILE"]

FILE: Final = "league.json"
"""Table of the league: participants, ratings, win rates."""
COPIES: Final = "league"
"""Folder with a checkpoint of each frozen copy."""
