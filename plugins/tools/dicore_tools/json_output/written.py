"""What commands that train, serve or write files print with `--json`.

Members may be added, and never change their type.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

__all__ = [
    "Collected",
    "MadeRun",
    "NewPackage",
    "Plotted",
    "PlottedGroup",
    "Pulled",
    "Pushed",
    "Served",
    "Trained",
    "WrittenIndex",
]


class Trained(TypedDict):
    """A training that ended; with several seeds, one of a list."""

    run: Annotated[str | None, "its folder; null: of several seeds, it did not start"]
    status: Annotated[str, "done, interrupted or failed"]
    ending: Annotated[str, "stop value or budget; else as status"]
    error: Annotated[str, "why it failed; empty if it did not"]
    env: Annotated[str, "environment"]
    policy: Annotated[str, "algorithm"]
    preset: Annotated[str, "preset that it began with; empty: none"]
    seed: Annotated[int, "random seed"]
    env_step: Annotated[int, "env steps"]
    train_iter: Annotated[int, "gradient updates"]
    wall_s: Annotated[float, "seconds of training"]
    best_return: Annotated[float | None, "highest mean return of an evaluation; null: none"]
    last_return: Annotated[float | None, "mean return of the last evaluation; null: none"]
    measure: Annotated[str, "what the stop value is of: return, win_rate or reward_per_step"]
    best: Annotated[float | None, "highest value of the measure; null: none"]
    checkpoint: Annotated[str | None, "folder of the best checkpoint, or of the latest"]


class Collected(TypedDict):
    """Samples that were written."""

    path: Annotated[str, "folder or file"]
    samples: Annotated[int, "number of samples"]
    columns: Annotated[list[str], "what each sample holds"]


class Pushed(TypedDict):
    """An item that was copied into a hub."""

    address: Annotated[str, "its address there"]


class Pulled(TypedDict):
    """An item that was copied from a hub; others wrote it."""

    path: Annotated[str, "new folder"]
    kind: Annotated[str, "run or dataset"]
    files: Annotated[list[str], "files in it"]


class MadeRun(TypedDict):
    """A run folder that was made or changed, and not trained."""

    run: Annotated[str, "its folder"]
    file: Annotated[str, "file that was written into it: its module"]


class WrittenIndex(TypedDict):
    """An index of plugin packages."""

    page: Annotated[str, "file of the page"]
    index: Annotated[str, "JSON file that dicore search reads"]
    packages: Annotated[list[str], "names of the packages"]
    problems: Annotated[dict[str, list[str]], "what is wrong, by package"]


class PlottedGroup(TypedDict):
    """A curve of a plot."""

    label: Annotated[str, "its label"]
    runs: Annotated[list[str], "folders of its runs"]


class Plotted(TypedDict):
    """Curves that were drawn."""

    file: Annotated[str, "file that was written"]
    groups: Annotated[list[PlottedGroup], "curves; empty with --profile"]


class Served(TypedDict):
    """A page that is served from now on, until the command is stopped."""

    address: Annotated[str, "its address, on this machine only"]


class NewPackage(TypedDict):
    """A package that was made."""

    folder: Annotated[str, "its folder"]
    kind: Annotated[Literal["plugin"], "what it is"]
    component: Annotated[str, "kind and name of its component"]
