"""`dicore verify`: trains a run again and compares numbers and parameters bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import Any, Final

import click

from dicore.console import plural, printable, say, verbosity
from dicore.errors import UsageError
from dicore.run import RunFolder, read_metrics
from dicore.run.atomic import read_json
from dicore.run.launch import launch
from dicore.run.request import TrainRequest
from dicore.run.signals import StopNow
from dicore_tools import certificates
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.output_place import check_place
from dicore_tools.repetition import (
    CLOCK,
    changed_checkpoint,
    changed_config_file,
    changed_result,
    chosen_of,
    same,
)

__all__ = ["Verdict", "command", "verify"]

_EPILOG = """\b
Examples:
  dicore verify runs/cartpole_dqn_s0                 the whole run, and its last parameters
  dicore verify runs/hopper_sac_s0 --until 20000     its first 20,000 env steps
  dicore verify runs/cartpole_dqn_s0 --json > verdict.json
  dicore verify runs/cartpole_dqn_s0 --sign KEY      and sign it, if it is equal
  dicore verify runs/cartpole_dqn_s0 --certificate KEY.pub
                                                     train nothing; check who signed these files
"""
_MADE_BY: Final = ("versions", "platform", "git", "dirty")
_READ: Final = ("config.json", "log/metrics.jsonl")
"""Files of a run that its repetition was made of, or that were compared up to its end."""
_NOT_COMPARED: Final = (
    "config.json: all but config, from which it was trained again",
    "log/metrics.jsonl: times and rates; rows from `until` on, if that is set",
    "run.json: all but seed and result without its times",
    "ckpt: what is no array and not of the policy; the log and the clocks",
)
"""What a signature covers though no training repeats it."""


@dataclass
class Verdict:
    """What a second training says about a run.

    Args:
        run: The run.
        until: Env step up to which its metrics were compared; None: all.
        rows: Rows of metrics that are equal.
        parameters: Whether parameters, optimizers and random streams at the end, and all arrays of
            each checkpoint, are equal; None: they were not compared, as the second training ended
            earlier.
        problem: The first difference; "" if there is none.
        differs: What trained otherwise then: a version, the code, the data set.
        compared: Files of the run that were compared, or that it was trained again from.
        resumed: Env steps at which the run was resumed.
    """

    run: str
    until: int | None
    rows: int = 0
    parameters: bool | None = None
    problem: str = ""
    differs: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether no difference was found."""
        return not self.problem


@click.command(name="verify", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--until", type=click.IntRange(1), metavar="N", help="Compare up to this env step.")
@click.option("--keep", metavar="DIR", help="Keep the second training in this folder.")
@click.option("--sign", "key", metavar="KEY", help="Sign an equal run with this private key.")
@click.option(
    "--certificate",
    "public_key",
    metavar="KEY",
    help="Train nothing: check that the holder of this public key signed the run as it is.",
)
@click.option("--trust", is_flag=True, help="Run code that the saved config names by path.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@verbosity
@says_what_was_saved("keep")
def command(
    run: str,
    *,
    until: int | None,
    keep: str | None,
    key: str | None,
    public_key: str | None,
    trust: bool,
    as_json: bool,
) -> None:
    """Trains a run again and compares its metrics and parameters bit for bit.

    Times and rates are left out. Ends with 1 if something differs, and says which library or which
    code trained otherwise then.
    """
    if public_key is not None:
        if key is not None or until is not None or keep is not None:
            raise UsageError(
                "--certificate trains nothing", hint="remove --sign, --until and --keep"
            )
        _tell_statement(run, public_key, as_json=as_json)
        return
    if keep is not None:
        check_place(keep, option="--keep", folder=True)
    signing = None if key is None else _Signing(run, key)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # what the training prints
        verdict = verify(run, until=until, keep=keep, trust=trust)
    certificate = signing.sign(verdict) if signing is not None and verdict.equal else None
    if as_json:
        more = {} if key is None else {"certificate": certificate and str(certificate)}
        sys.stdout.write(json.dumps({**asdict(verdict), "equal": verdict.equal, **more}) + "\n")
    else:
        for line in _told(verdict):
            say(line, result=True)
        if certificate is not None:
            say(f"{certificate}: signed", result=True)
    if not verdict.equal:
        click.get_current_context().exit(1)


class _Signing:
    """Signs a run as it was when it was read, before it was trained again.

    Args:
        run: The run.
        key: File of the private key.
    """

    def __init__(self, run: str, key: str) -> None:
        self._key = certificates.read_private_key(key)
        self._folder = RunFolder.open(run).path
        self._files = certificates.hashes(self._folder)

    def sign(self, verdict: Verdict) -> Path:
        """Writes the certificate of an equal run.

        Raises:
            CertificateError: the run was changed since, or the certificate cannot be written.
        """
        if certificates.hashes(self._folder) != self._files:
            raise certificates.CertificateError(
                f"{self._folder}: changed while it was verified; it is not signed"
            )
        found = {
            name: value
            for name, value in asdict(verdict).items()
            if name not in ("problem", "compared")
        }
        statement = {
            **found,
            "run": self._folder.name,
            "made_by": {name: read_json(self._folder / "run.json").get(name) for name in _MADE_BY},
            "signed": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": {n: each for n, each in self._files.items() if n in verdict.compared},
            "left_out": [name for name in self._files if name not in verdict.compared],
            "not_compared": list(_NOT_COMPARED),
        }
        return certificates.sign(self._folder, statement, self._key)


def _tell_statement(run: str, public_key: str, *, as_json: bool) -> None:
    """Prints what the certificate of a run states, if it is right."""
    key = certificates.read_public_key(public_key)
    statement = certificates.check_certificate(Path(run), key)
    if as_json:
        sys.stdout.write(json.dumps(statement) + "\n")
        return
    until = statement.get("until")
    part = "the whole run" if until is None else f"up to env step {until}"
    left_out = statement.get("left_out") or []
    say(
        f"{run}: {plural(len(statement['files']), 'file')} as signed on"
        f" {printable(str(statement.get('signed')))} by {certificates.fingerprint(key)}",
        result=True,
    )
    say(f"verified: {part}, {statement.get('rows')} rows of metrics were equal", result=True)
    if left_out:
        names = printable(", ".join(map(str, left_out)))
        say(f"not compared and not signed: {names}", result=True)


def verify(
    run: str | Path,
    *,
    until: int | None = None,
    keep: str | Path | None = None,
    trust: bool = False,
) -> Verdict:
    """Trains a run again in another folder, and compares.

    Args:
        run: The run.
        until: Env step after which the second training may end; None: it ends as the run did.
        keep: Folder of the second training; None: it is deleted.
        trust: Run code that the saved config names by path.

    Raises:
        UsageError: the folder is no run, has no metrics (up to `until`), or its training has not
            ended.
        DicoreError: the second training failed.
        StopNow: a signal ended it.
    """
    folder = RunFolder.open(run)
    if not folder.metrics.is_file():
        raise UsageError(f"{run}: there is nothing to compare", hint="it has no log/metrics.jsonl")
    record, wanted = read_json(folder.metadata), [*map(_exact, read_metrics(folder.metrics))]
    end = None if until is None else _boundary(wanted, until)
    if end is None and record.get("status") != "done":
        raise UsageError(f"{run}: its training has not ended", hint="compare a part: --until N")
    steps = [int(row["step"]) for row in read_metrics(folder.metrics)]
    if end is not None and not any(step < end for step in steps):
        raise UsageError(
            f"{run}: nothing was logged before env step {end}",
            hint=f"compare more: --until {end + 1}, or the whole run",
        )
    verdict = Verdict(str(run), end, resumed=[*_resumed(record)])
    with ExitStack() as stack:
        place = keep if keep is not None else tempfile.mkdtemp(prefix="dicore-verify-")
        if keep is None:
            stack.callback(shutil.rmtree, place, ignore_errors=True)
        again = RunFolder(Path(place) / "run")
        outcome = launch(
            TrainRequest(
                config=str(folder), exp_name=str(again), exist="error", trust=trust,
                overrides=[taken] if (taken := chosen_of(record)) else [],
                max_env_step=_limit(record, "max_env_step") if end is None else end,
                max_train_iter=_limit(record, "max_train_iter") if end is None else None,
            )
        )  # fmt: skip
        if outcome.exit_code:
            raise StopNow(max(outcome.exit_code - 128, signal.SIGINT))
        found = map(_exact, read_metrics(again.metrics))
        verdict.rows, verdict.problem = _compared(wanted, found, end)
        verdict.compared = [*_READ]
        if end is None:
            _compare_end(verdict, folder, again)
        verdict.differs = [*_differences(record, read_json(again.metadata))]
    return verdict


def _compare_end(verdict: Verdict, folder: RunFolder, again: RunFolder) -> None:
    """Compares what both trainings left at their end."""
    resumed = bool(verdict.resumed)
    changed, files = changed_checkpoint(folder, again, resumed=resumed)
    verdict.parameters = not changed
    result = changed_result(read_json(folder.metadata), read_json(again.metadata))
    taken = chosen_of(read_json(folder.metadata))  # their configs say what was taken, and `auto`
    config, more = ("", []) if taken else changed_config_file(folder, again, resumed=resumed)
    verdict.problem = verdict.problem or changed or result or config
    verdict.compared += [*files, "run.json", *more]


def _resumed(record: Mapping[str, Any]) -> Iterator[int]:
    found = record.get("resumed")
    for each in found if isinstance(found, list) else []:
        step = each.get("env_step") if isinstance(each, Mapping) else None
        if isinstance(step, int):
            yield step


def _limit(record: Mapping[str, Any], name: str) -> int | None:
    value = (record.get("limits") or {}).get(name)
    return value if isinstance(value, int) else None


def _exact(row: Mapping[str, Any]) -> dict[str, object]:
    """Returns what a training repeats of a row."""
    return {name: value for name, value in row.items() if not CLOCK.search(name)}


def _boundary(rows: list[dict[str, Any]], until: int) -> int:
    """Returns the first logged env step from `until` on: a training can end there as it went on."""
    steps = [int(row["step"]) for row in rows if int(row["step"]) >= until]
    return steps[0] if steps else until


def _compared(
    wanted: list[dict[str, Any]], found: Iterator[dict[str, Any]], end: int | None
) -> tuple[int, str]:
    """Returns the number of equal rows, and the first difference."""
    if end is not None:  # the last step may log more: the second training ended there
        wanted = [row for row in wanted if int(row["step"]) < end]
    rows = 0
    for one, two in zip_longest(wanted, found):
        if one is None:
            return rows, "" if end is not None else f"row {rows + 1} is new, at {_place(two)}"
        if two is None:
            return rows, f"row {rows + 1} is missing, at {_place(one)}"
        for name in (*one, *two):
            if not same(one.get(name), two.get(name)):
                return rows, (
                    f"row {rows + 1}, at {_place(one)}: {name} was {one.get(name)!r}, is"
                    f" {two.get(name)!r}"
                )
        rows += 1
    return rows, ""


def _place(row: Mapping[str, Any]) -> str:
    return f"env step {row.get('step')}, update {row.get('train_iter')}"


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yields what trained otherwise."""
    for name in _MADE_BY:
        one, two = then.get(name), now.get(name)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            for key in sorted({*one, *two}):
                had, has = (each.get(key, "not installed") for each in (one, two))
                if had != has:
                    yield f"{key} {had}, now {has}"
        elif one != two:
            yield f"{name} {one}, now {two}"
    one, two = ((each.get("dataset") or {}).get("fingerprint") for each in (then, now))
    if one != two:
        yield f"data set {one}, now {two}"


def _told(verdict: Verdict) -> Iterator[str]:
    part = "the whole run" if verdict.until is None else f"up to env step {verdict.until}"
    yield f"{verdict.run}, {part}: {verdict.rows} rows of metrics are equal"
    if verdict.parameters:
        yield "parameters, optimizers and random streams at its end are equal"
    if verdict.problem:
        yield f"first difference: {verdict.problem}"
    yield from (f"trained otherwise: {each}" for each in verdict.differs)
    steps = [step for step in verdict.resumed if 0 < step < (verdict.until or inf)]
    if verdict.problem and steps:
        shown = ", ".join(map(str, steps))
        yield (
            f"the run was resumed at env step {shown}: if its budget was raised there, or it went"
            " on from 'best' without its buffer (run.json: resumed), rows from there on differ from"
            f" those of one training; compare the part before: --until {steps[0]}"
        )
    elif verdict.problem and not verdict.differs:
        yield "versions and code are the same: processor, threads or the environment may differ"
