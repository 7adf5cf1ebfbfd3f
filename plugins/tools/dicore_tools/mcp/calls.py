"""The tools of the server: what each takes, which command answers it, and what that prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, NotRequired, TypedDict

from dicore_tools.json_output.components import CheckedConfig, Component, ComponentFacts
from dicore_tools.json_output.runs import (
    Diagnosis,
    ParallelStatus,
    RunReport,
    SerialStatus,
    StartedTraining,
    StoppedTraining,
)
from dicore_tools.mcp.places import config_of, folder_of, override, runs_of

__all__ = ["READING", "WRITING", "Call", "config_words"]

Given = Mapping[str, Any]
"""Arguments of a call, which its schema has accepted."""


class Call(NamedTuple):
    """A tool.

    Args:
        about: What it does, for the client.
        takes: Type of its arguments.
        gives: Type of its result.
        words: Returns the command that answers it, without `--json`; None: the server does.
    """

    about: str
    takes: type
    gives: object
    words: Callable[[Given, Path], list[str]] | None = None


class Listing(TypedDict):
    """Which components."""

    kind: NotRequired[Annotated[str, "kind, such as policy, env, preset"]]
    match: NotRequired[Annotated[str, "regular expression that a name matches"]]


class Shown(TypedDict):
    """Which component."""

    component: Annotated[str, "kind/name, such as policy/dqn or preset/cartpole_dqn"]


class OfConfig(TypedDict):
    """A config."""

    config: NotRequired[Annotated[str, "preset, or config file (YAML, TOML, JSON), or run"]]
    env: NotRequired[Annotated[str, "environment by name, or Gymnasium id"]]
    policy: NotRequired[Annotated[str, "algorithm by name"]]
    seed: NotRequired[Annotated[int, "random seed, from 0 on"]]
    overrides: NotRequired[Annotated[list[str], "options as a.b=c, for example policy.nstep=3"]]


class Training(OfConfig):
    """What to train."""

    max_env_step: Annotated[int, "budget in env steps"]
    name: Annotated[str, "name of the new run folder, below runs"]


class OfRun(TypedDict):
    """A run."""

    run: Annotated[str, "run folder, relative to the root of this server"]


class OfRuns(TypedDict):
    """Some runs."""

    runs: Annotated[list[str], "run folders, or folders that contain runs"]


def _list(given: Given, root: Path) -> list[str]:
    match = [f"--match={given['match']}"] if "match" in given else []
    return ["list", *match, "--", *([given["kind"]] if "kind" in given else [])]


def config_words(given: Given, root: Path) -> list[str]:
    """Returns the words that describe a config, without those that begin with a dash at the end."""
    named = [f"--{name}={given[name]}" for name in ("env", "policy", "seed") if name in given]
    config = [config_of(root, given["config"])] if "config" in given else []
    return [*named, "--", *config, *map(override, given.get("overrides", ()))]


READING: Final[Mapping[str, Call]] = {
    "list": Call("Lists installed components: algorithms, environments, presets, …", Listing,
                 list[Component], _list),
    "show": Call("Shows a component with all its options.", Shown, ComponentFacts,
                 lambda given, root: ["show", "--", given["component"]]),
    "check": Call("Checks whether a config can be trained, and says what is wrong with it.",
                  OfConfig, list[CheckedConfig],
                  lambda given, root: ["config", "check", *config_words(given, root)]),
    "status": Call("Says whether a run goes on, and how far it is.", OfRun,
                   SerialStatus | ParallelStatus,
                   lambda given, root: ["status", "--", str(folder_of(root, given["run"]))]),
    "report": Call("Reports results of runs: evaluations, best returns, how they were made.",
                   OfRuns, list[RunReport],
                   lambda given, root: ["report", "--",
                                        *map(str, runs_of(root, given["runs"]))]),
    "diagnose": Call("Finds faults of learning in a run, and the options to change.", OfRun,
                     Diagnosis,
                     lambda given, root: ["diagnose", "--", str(folder_of(root, given["run"]))]),
}  # fmt: skip
"""Tools that change nothing."""
WRITING: Final[Mapping[str, Call]] = {
    "train": Call("Starts a training in a new run folder, which goes on in the background.",
                  Training, StartedTraining),
    "stop": Call("Stops a training that this server started; it is saved and can be resumed.",
                 OfRun, StoppedTraining),
}  # fmt: skip
"""Tools of a server that may write."""
