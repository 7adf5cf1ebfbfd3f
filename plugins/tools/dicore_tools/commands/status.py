"""`dicore status`: whether a run goes on, and what its processes are doing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dicore.console import say, verbosity
from dicore.errors import UsageError
from dicore.run.atomic import read_json
from dicore.run.folder import RunFolder
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.output import rate_text
from dicore_tools.foreign import one_line
from dicore_tools.reports.curves import DAMAGED, unread
from dicore_tools.reports.run_data import read_run, state_of

__all__ = ["command", "read_status", "table"]

_EPILOG = """\b
Examples:
  dicore status runs/cartpole_dqn_s0
  dicore status runs/cartpole_dqn_s0 --every 2       until Ctrl-C
  dicore status runs/cartpole_dqn_s0 --collectors 4  adds or removes collectors
"""
_KILLED = "ended without a word (killed?)"
_OLD = 10.0
"""Seconds after which a status is of a run that has stalled or was killed."""


@click.command(name="status", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--every", type=click.FloatRange(0.1), help="Show it again every so many seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--collectors",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Change the number of collectors of the running training.",
)
@verbosity
def command(run: str, *, every: float | None, as_json: bool, collectors: int | None) -> None:
    """Shows whether a run goes on; of `-m parallel` and `-m dist` roles, rates and queues."""
    folder = Path(run) / "log"
    if collectors is not None:
        _wish(folder, collectors)
    try:
        while True:
            facts = read_status(folder)
            try:
                text = json.dumps(facts) if as_json else "\n".join(table(facts))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                problem = f"{folder / 'status.json'}: cannot be read: {error!r}"
                raise UsageError(problem, hint="the run writes it anew at its next step") from None
            say(text, result=True)
            if facts["killed"] and not as_json:
                from dicore_tools.hub.card import own_code

                trust = " --trust" if own_code(Path(run)) else ""
                say(f"go on from its last checkpoint: dicore train --resume {run}{trust}")
            if every is None or facts["ended"] or facts["killed"]:
                return
            time.sleep(every)
            say("", result=True)
    except KeyboardInterrupt:
        pass


def _wish(folder: Path, collectors: int) -> None:
    """Leaves a wish for the run."""
    known = read_status(folder)
    if known.get("started_by") == "commands":
        raise UsageError(
            f"{folder.parent}: collectors of -m dist come and go by their commands",
            hint="dicore -m dist --module collector --module-name collectorN; end one by SIGTERM",
        )
    if "state" in known:
        raise UsageError(f"{folder.parent}: a run in one process has no collectors to add")
    if known.get("ended") or known["killed"]:
        raise UsageError(
            f"{folder.parent} has ended",
            hint=f"dicore train --resume {folder.parent}"
            f" --allow-change pipeline.system.collector_num"
            f" pipeline.system.collector_num={collectors}",
        )
    made = folder / ".wishes.json"
    made.write_text(json.dumps({"collector_num": collectors}), encoding="utf-8")
    made.replace(folder / "wishes.json")


def read_status(folder: Path) -> dict[str, object]:
    """Returns the status of a run, and its `age` in seconds.

    Args:
        folder: The folder of its logs.

    Raises:
        UsageError: there is none.
    """
    file = folder / "status.json"
    try:
        found = read_json(file)
    except FileNotFoundError:
        if (folder.parent / "run.json").is_file():
            return _serial(folder.parent)
        what = "has no status" if folder.parent.is_dir() else "is not a folder"
        hint = "name the folder of a run; those of -m dist have a status from their first step on"
        raise UsageError(f"{folder.parent} {what}", hint=hint) from None
    except NotADirectoryError:
        raise UsageError(f"{folder.parent} is a file", hint="name the folder of a run") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {unread(error)}", hint=DAMAGED) from None
    if not isinstance(found, dict) or found.get("format") != 1:
        raise UsageError(f"{file} is of another version of dicore", hint="use that version")
    age = datetime.now().timestamp() - file.stat().st_mtime
    killed = False
    with suppress(UsageError):  # there may be no run.json
        killed = not found.get("ended") and state_of(RunFolder(folder.parent)) == "killed"
    return {**found, "age": max(age, 0.0), "killed": killed}


def _serial(run: Path) -> dict[str, object]:
    """Returns state and counts of a run in one process, from `run.json` and its metrics."""
    data = read_run(RunFolder(run))
    env_step, train_iter, wall_s = data.progress
    return {
        "state": data.state, "env_step": env_step, "train_iter": train_iter, "wall_s": wall_s,
        "ended": data.state != "running", "killed": data.state == "killed", "error": data.why,
    }  # fmt: skip


def table(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a table of all roles."""
    if "state" in facts:
        state = _KILLED if facts["killed"] else facts["state"]
        yield f"{state}: {facts['env_step']} env steps, {facts['train_iter']} updates"
        if facts["error"]:
            yield f"why: {one_line(facts['error'])}"
        return
    learner, age = facts["learner"], facts["age"]
    state = "ended" if facts["ended"] else "running" if age < _OLD else "silent"
    state = _KILLED if facts["killed"] else state
    yield f"{state}, as of {age:.0f} s ago: {learner['env_step']} env steps"
    rows = [("role", "pid", "state", "version", "lag", "per second", "queue", "restarts")]
    rate = f"{rate_text(learner['updates_per_s'])} updates, waits {learner['waited']:.0%}"
    stored = "" if learner["samples"] is None else f"{learner['samples']} stored"
    version = str(learner["train_iter"])
    rows.append(("learner", str(learner["pid"]), learner["state"], version, "", rate, stored, ""))
    for each in facts["collectors"]:
        rate = f"{rate_text(each['env_steps_per_s'])} env steps"
        numbers = str(each["version"]), str(each["lag"]), rate
        name, rest = f"collector {each['index']}", (str(each["queue"]), str(each["restarts"]))
        rows.append((name, str(each["pid"] or ""), each["state"], *numbers, *rest))
    if (one := facts.get("evaluator")) is not None:
        missing = f"{one['missing']} missing" if one["missing"] else ""
        rows.append(("evaluator", str(one["pid"] or ""), one["state"], "", "", "", "", missing))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
