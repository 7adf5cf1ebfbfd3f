"""`dicore export`: a trained policy as a file that runs without dicore."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from dicore.console import say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.commands.options import CHECKPOINT, TRUST
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.json_output.runs import Exported

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore export runs/cartpole_dqn_s0 -o cartpole.onnx
  dicore export runs/pendulum_sac_s0 -o pendulum.pt2     torch.export
  dicore export runs/x/ckpt/best -o policy.ts            TorchScript

The file maps observations to the actions that dicore eval would take; normalisation of observations
and the bounds of actions are part of it. It is compared with the policy on 256 observations of the
environment before the command says done. A page beside it (policy.onnx.md) has ten lines of Python
that run it. A policy of several groups of agents also gets a file for each, such as
policy.hunters.onnx. ONNX needs: pip install 'dicore-plugins[export]'
"""


@click.command(name="export", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("where", metavar="RUN|CKPT")
@click.option("-o", "--out", metavar="FILE", help="Output: .onnx, .pt2 or .ts.  [required]")
@CHECKPOINT
@click.option(
    "-s", "--seed", type=click.IntRange(0), default=0, help="Seed of the compared episode."
)
@TRUST
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@verbosity
@says_what_was_saved("out")
def command(
    where: str, *, out: str | None, load_path: str | None, seed: int, trust: bool, as_json: bool
) -> None:
    """Writes a trained policy to an ONNX, torch.export or TorchScript file."""
    from dicore.console import own_process
    from dicore_registry.public_names import public_name

    if out is None:
        raise UsageError(
            "missing option '-o' / '--out': a file .onnx, .pt2 (torch.export) or .ts (TorchScript)",
            hint=f"dicore export {where} -o policy.onnx",
        )
    check_place(out, option="--out")
    own_process()
    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        export_policy = public_name("export_policy", "dicore export")
        done = export_policy(where, out, load_path=load_path, seed=seed, trust=trust)
    if as_json:
        written = [_facts(each) for each in (done, *done.groups.values())]
        say(json.dumps(written, indent=1), result=True)
        return
    for each in (done, *done.groups.values()):
        same = "equal actions" if not each.largest_difference else "actions equal to 1e-5"
        say(
            f"{each.file}: {same} on {each.steps} observations; how to run it: {each.readme}",
            result=True,
        )


def _facts(done: Any) -> Exported:
    """Returns what `--json` prints of a file; the type of `done` is of another package."""
    return {
        "file": str(done.file), "readme": str(done.readme), "steps": done.steps,
        "largest_difference": float(done.largest_difference),
    }  # fmt: skip
