"""`ditask`: runs a main function in several processes whose tasks exchange events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dicore.cli import main as cli
from dicore.console import own_process
from dicore.errors import UsageError

__all__ = ["command", "main"]

_EPILOG = """\b
Examples:
  dicore ditask --main programs.cartpole.main --parallel-workers 3 --topology star
\b
Two terminals, one job:
  DICORE_TOKEN=secret dicore ditask --main cartpole.main --protocol tcp --ports 50515
  DICORE_TOKEN=secret dicore ditask --main cartpole.main --protocol tcp --ports 50525 \\
      --node-ids 1 --attach-to tcp://127.0.0.1:50515
"""


@click.command(name="ditask", epilog=_EPILOG)
@click.option("-p", "--package", metavar="DIR", default=".", show_default=True,
              help="Folder from which the main function is imported.")  # fmt: skip
@click.option("--main", "main_", metavar="MODULE.FUNCTION", required=True,
              help="Main function, called in each process without arguments.")  # fmt: skip
@click.option("--parallel-workers", type=click.IntRange(1), default=1, show_default=True,
              help="Number of processes.")  # fmt: skip
@click.option("--protocol", type=click.Choice(["tcp", "ipc"]), default="tcp", show_default=True,
              help="ipc: Unix sockets, for processes of this command only.")  # fmt: skip
@click.option("--address", metavar="HOST",
              help="Host name at which the processes listen.  [default: 127.0.0.1]")  # fmt: skip
@click.option("--ports", metavar="PORT[,PORT...]",
              help="Port of each process, or of the first.  [default: free ports]")  # fmt: skip
@click.option("--attach-to", metavar="ADDRESS[,ADDRESS...]",
              help="Processes of another command to connect to, tcp://host:port.")  # fmt: skip
@click.option("--topology", type=click.Choice(["mesh", "star", "alone"]), default="mesh",
              show_default=True, help="mesh: all processes are connected; star: all to the first, "
              "or to --attach-to; alone: none.")  # fmt: skip
@click.option("--labels", metavar="LABEL[,LABEL...]",
              help="Labels of every task, besides node.<id>.")  # fmt: skip
@click.option("--node-ids", metavar="ID[,ID...]",
              help="Number of each process, or of the first.  [default: from 0]")  # fmt: skip
@click.option("--mq-type", metavar="NAME", default="tcp", show_default=True,
              help="Message queue (dicore list message_queue).")  # fmt: skip
@click.option("--platform", type=click.Choice(["local", "slurm"]), default="local",
              show_default=True, help="slurm: one process of the job per Slurm task.")  # fmt: skip
@click.option("--auto-recover", is_flag=True, help="Restart processes that fail.")
@click.option("--max-retries", type=click.IntRange(0), metavar="N",
              help="Restarts of each process.  [default: 10]")  # fmt: skip
@click.option("--startup-interval", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
              help="Time between the starts of two processes.  [default: 0]")  # fmt: skip
def command(package: str, main_: str, platform: str, **given: Any) -> None:
    """Runs a main function in several processes whose tasks exchange events."""
    from dicore_compat.comm.parallel import Parallel

    own_process()
    folder = str(Path(package).resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    function = _function(main_)
    retries = given.pop("max_retries")
    options = {
        "n_parallel_workers": given.pop("parallel_workers"),
        "ports": _numbers("--ports", given.pop("ports")),
        "node_ids": _numbers("--node-ids", given.pop("node_ids")),
        "attach_to": _words(given.pop("attach_to")),
        "labels": _words(given.pop("labels")),
        "max_retries": 10 if retries is None else retries,
        **given,
    }
    if platform == "slurm":
        from dicore_compat.comm.slurm import ditask_options

        _check_alone(options)
        topology = str(options["topology"])
        options.update(ditask_options(first_port=options["ports"], topology=topology))
    Parallel.runner(**options)(function)


def _check_alone(options: Mapping[str, Any]) -> None:
    """Refuses what the variables of a Slurm job decide."""
    told = [name for name in ("address", "attach_to", "node_ids") if options[name] is not None]
    told += ["parallel_workers"] if options["n_parallel_workers"] > 1 else []
    if told:
        raise UsageError(
            f"--{told[0].replace('_', '-')} has no effect with --platform slurm",
            hint="each task of the job is one process; srun --ntasks says how many",
        )


def _function(name: str) -> Callable[..., object]:
    """Imports a function by `package.module.function`."""
    module, _, attribute = name.rpartition(".")
    if not module:
        raise UsageError(f"--main {name}: expected MODULE.FUNCTION, such as programs.main")
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--main {name}: no module '{error.name}'", hint="--package DIR is where it is"
        ) from error
    if not callable(found):
        raise UsageError(f"--main {name}: module '{module}' has no function '{attribute}'")
    function: Callable[..., Any] = found
    return function


def _words(text: str | None) -> list[str] | None:
    return [each for each in text.split(",") if each] if text else None


def _numbers(option: str, text: str | None) -> list[int] | None:
    words = _words(text)
    if words is None:
        return None
    if not all(each.isdecimal() for each in words):
        raise UsageError(f"{option}: expected numbers with commas between them, got '{text}'")
    return [int(each) for each in words]


def main() -> None:
    """Runs the command as `ditask`."""
    sys.exit(cli(["ditask", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
