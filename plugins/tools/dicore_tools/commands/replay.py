"""`dicore replay`: stops at one update of a run, with its batch and gradients at hand."""

from __future__ import annotations

import code
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dicore.console import printable, say, write_table
from dicore.errors import UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.output_place import check_place
from dicore_tools.replaying import PARTS, replay

if TYPE_CHECKING:
    from dicore_tools.json_output.runs import ArrayFacts, Replayed
    from dicore_tools.replaying import Moment

_EPISODE = re.compile(r"env/\d+\.")
_EPILOG = """\b
Examples:
  dicore replay runs/a --at 48213              what was in the batch, what came of it
  dicore replay runs/a --at 48213 -o at.npz    all arrays, for NumPy
  dicore replay runs/a --at 48213 --shell      look at it in Python

The arrays are of the batch, the results of the update, the parameters before and after it, the
gradients, and the environments: last observations, and for each running episode its seed and
actions, or the state of an environment that has one (get_state). In a state, integers of more than
64 bits, None and bytes are text, from which ast.literal_eval returns them.

The run is copied and goes on from the nearest checkpoint before the update; it is not changed.
Runs of one process on the CPU repeat themselves; others may differ, which is told.
"""


@click.command(name="replay", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--at", type=int, required=True, metavar="N", help="Number of the update, from 1.")
@click.option("-o", "--out", metavar="FILE", help="Write all arrays to this .npz file.")
@click.option("--shell", is_flag=True, help="Open Python there: moment, learner, batch, grad, env.")
@click.option("--trust", is_flag=True, help="Run code that the saved config names by path.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@says_what_was_saved("out")
def command(run: str, *, at: int, out: str | None, shell: bool, trust: bool, as_json: bool) -> None:
    """Trains a copy of a run until one update and shows its batch, gradients and parameters."""
    if shell and as_json:
        raise UsageError("--json and --shell do not go together")
    if out is not None and Path(out).suffix != ".npz":
        raise UsageError(f"--out: {out} does not end in .npz")
    if out is not None:
        check_place(out, option="--out")
    aside = redirect_stdout(sys.stderr) if as_json else nullcontext()  # what the training prints
    with _ended_by_signals(), aside:
        moment = replay(run, at, trust=trust)
    if as_json:
        sys.stdout.write(json.dumps(_facts(moment), indent=1) + "\n")
    else:
        _tell(moment)
    if out is not None:
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            _write(moment, out)
    if shell:
        names = (*PARTS, "learner")
        known = {"moment": moment, **{name: getattr(moment, name) for name in names}}
        banner = f"update {moment.train_iter}: moment, {', '.join(names)}; Ctrl-D ends"
        code.interact(banner=banner, local=known, exitmsg="")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Lets signals that end a process end the block, so that it cleans up."""
    from dicore.run.signals import StopNow

    def end(number: int, frame: object) -> None:
        raise StopNow(number)

    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    except StopNow as stop:
        raise SystemExit(128 + stop.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(moment: Moment) -> None:
    begin = f"checkpoint {moment.began}" if moment.began else "the beginning"
    say(f"update {moment.train_iter}, replayed from {begin}", result=True)
    if moment.differs:
        say(f"warning: this may not be what happened: {moment.differs}", result=True)
    elif not moment.compared:
        say("nothing was logged before it, so nothing says whether this is what happened")
    if moment.error:
        say(printable(f"it failed: {moment.error}"), result=True)
    facts = _facts(moment)["arrays"]
    inner = [name for name in facts if _EPISODE.match(name)]
    rows = [[name, *map(str, each.values())] for name, each in facts.items() if name not in inner]
    write_table(("array", "shape", "min", "mean", "max", "not finite"), rows, range(2, 6))
    if inner:
        say(f"and {len(inner)} arrays of running episodes, to bring them back: --out, --shell")
    if moment.env_missing:
        say(f"the state of the environments is not at hand: {printable(moment.env_missing)}")
    if moment.not_stored:
        say(printable(f"not at hand, as no array holds it: {', '.join(moment.not_stored)}"))
    wrong = moment.not_finite()
    if wrong:
        say(f"the first that is not finite: {wrong[0]}", result=True)


def _facts(moment: Moment) -> Replayed:
    import numpy as np

    arrays: dict[str, ArrayFacts] = {}
    for name, each in moment.arrays().items():
        finite = each[np.isfinite(each)] if each.dtype.kind == "f" else each
        low, mean, high = (
            (f"{float(f(finite)):.3g}" for f in (np.min, np.mean, np.max))
            if finite.size and finite.dtype.kind in "fiub"
            else ("", "", "")
        )
        arrays[name] = {
            "shape": "x".join(map(str, each.shape)) or "1",
            "min": low,
            "mean": mean,
            "max": high,
            "not_finite": int(each.size - finite.size),
        }
    return {
        "train_iter": moment.train_iter,
        "began": moment.began,
        "error": moment.error,
        "differs": moment.differs,
        "compared": moment.compared,
        "env_missing": moment.env_missing,
        "not_stored": moment.not_stored,
        "not_finite": moment.not_finite(),
        "arrays": arrays,
    }


def _write(moment: Moment, out: str) -> None:
    import numpy as np

    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        with Path(out).open("wb") as file:
            np.savez(file, **moment.arrays())  # type: ignore[arg-type] # its stub has options only
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror or error}") from error
    say(f"{out}: {len(moment.arrays())} arrays")
