"""Reads finished runs and ranks them: data in, data out, nothing of a run is executed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Place", "ranked", "runs_in"]


@dataclass(frozen=True, slots=True)
class Place:
    """A finished run.

    Args:
        run: Its folder.
        env: Name of its environment.
        policy: Name of its policy.
        seed: Random seed.
        best_return: Best mean return of its evaluations.
        env_step: Env steps it took.
    """

    run: str
    env: str
    policy: str
    seed: int
    best_return: float
    env_step: int


def runs_in(folder: Path) -> Iterator[Place | str]:
    """Yields the finished runs below a folder, and for others why they do not count."""
    for file in sorted(folder.rglob("run.json")):
        run = file.parent.relative_to(folder).as_posix()
        try:
            record, config = (_read(file.with_name(name)) for name in ("run.json", "config.json"))
            settings, result = config["config"], record["result"]
            yield Place(
                run=run,
                env=str(settings["env"]["type"]),
                policy=str(settings["policy"]["type"]),
                seed=int(record["seed"]),
                best_return=float(result["best_return"]),
                env_step=int(result["env_step"]),
            )
        except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
            yield f"{run}: no finished run: {type(error).__name__}: {error}"


def ranked(places: Iterable[Place]) -> list[Place]:
    """Returns runs by environment, best return first; of equal ones, the shorter first."""
    return sorted(places, key=lambda each: (each.env, -each.best_return, each.env_step, each.run))


def _read(file: Path) -> Any:
    return json.loads(file.read_bytes())
