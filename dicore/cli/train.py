"""`dicore train`: trains from a config file, or from an environment and a policy by name."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from os.path import exists
from typing import TYPE_CHECKING, Any, Final

import click

from dicore.cli import is_command
from dicore.console import is_quiet, number, own_process, say, verbosity
from dicore.errors import UsageError
from dicore_registry.public_names import public_name

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.run.request import TrainRequest
    from dicore.run.run import Run

__all__ = ["Announcer", "command"]

_FLAG: Final = {"is_flag": True}
_EPILOG = """\b
Examples:
  dicore train -e cartpole -p dqn -s 0
  dicore train -e CartPole-v1 -p dqn -n 50000 policy.learn.batch_size=128
  dicore train config.py -s 1 --exp-name runs/x
  dicore train my_preset                 a preset by its own name
  dicore train -e cartpole -p dqn -s 0 -s 1 -s 2 --jobs 3
  dicore train -e cartpole -p dqn -s 0 -s 1 -s 2 --together
  dicore train panel.py --cpanel '{"lr": 0.001}'
  dicore train --locked runs/x           again, with the same versions of all components
  dicore train --resume runs/x --max-env-step 100000
  dicore train -e cartpole -p dqn --max-env-step 2000 --profile
  dicore -m serial --env cartpole --policy dqn --train_iter 100000 -s 0

The command line overrides the config file, which overrides the preset <env>_<policy> if it exists
and the file has no more of env and policy than their names.
Training stops at env.stop_value or a budget, whichever is reached first; without either it does not
stop. Exit code 0: stopped there. 130 or 143: stopped by SIGINT or SIGTERM, after saving a
checkpoint; a second signal exits without saving.
"""


class Count(click.IntRange):
    """A whole number, also as `1e5` or `100_000`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the number; see `click.ParamType`."""
        if isinstance(value, str) and "," in value and param.multiple:
            first = param.opts[0]
            self.fail(f"write {' '.join(f'{first} {one}' for one in value.split(','))}", param, ctx)
        if isinstance(value, str) and "e" in value.lower():
            with suppress(ValueError, OverflowError):
                value = int(value) if float(value) % 1 else int(float(value))
        return super().convert(value, param, ctx)


_OPTIONS: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("-m --mode", {"metavar": "NAME"}, "Pipeline (dicore list pipeline)."),
    ("-c --config", {"metavar": "FILE"}, "Config file: .py, .yaml, .toml or .json."),
    ("-e --env", {"metavar": "NAME"}, "Environment, or a Gymnasium id."),
    ("-p --policy", {"metavar": "NAME"}, "Algorithm (dicore list policy)."),
    ("--no-preset", _FLAG, "Begin with the defaults, not with the preset <env>_<policy>."),
    ("-s --seed seeds", {"type": Count(0), "multiple": True},
     "Random seed. Repeat to train one run per seed and print a summary."),
    ("--jobs", {"type": click.IntRange(1), "default": 1},
     "Number of seeds to train in parallel, one process each.  [default: 1]"),
    ("--together", _FLAG, "Train all seeds in this process, as one batched network."),
    ("--exp-name --exp_name", {"metavar": "DIR"},
     "Run folder; if it exists, a number is appended (runs/a-1)."
     "  [default: runs/<env>_<policy>_s<seed>]"),
    ("--max-train-iter --train-iter --train_iter --max_train_iter max_train_iter",
     {"type": Count(1)}, "Stop after this number of gradient updates."),
    ("-n --steps --max-env-step --env-step --env_step --max_env_step max_env_step",
     {"type": Count(1)}, "Stop after this number of env steps, e.g. 1e5."),
    ("--device", {"type": click.Choice(["cpu", "cuda"])}, "Device of the network (policy.cuda)."),
    ("--track track", {"metavar": "LOGGER", "multiple": True, "flag_value": "wandb",
                       "is_flag": False},
     "Add a logger (dicore list logger), without a name wandb; may be repeated."),
    ("--cpanel", {"metavar": "JSON"}, "Overrides entries of the config file's dict `cpanel`."),
    ("--locked", _FLAG,
     "Fail if an installed component differs from the recorded one (in a run or config.json)."),
    ("--from from_run", {"metavar": "RUN"}, "Begin with the network of another run (or CKPT)."),
    ("--resume", {"metavar": "RUN|auto"}, "Resume from the latest valid checkpoint; the budget may"
     " be raised. auto: resume this command's run if it exists, else start it (--exist resume)."),
    ("--exist", {"type": click.Choice(["new", "resume", "overwrite", "error"]), "default": "new",
                 "show_default": True},
     "If the folder exists: add a number, resume, delete its contents, or fail."),
    ("--allow-change", {"multiple": True, "metavar": "PATH"},
     "With --resume: an option that may have another value than the run's; may be repeated."),
    ("--ignore-missing", _FLAG,
     "With --resume: leave out loggers and hooks whose package is not installed."),
    ("--requeue", _FLAG,
     "Resume this command's run if it exists; requeue the Slurm job after SIGUSR1 or SIGUSR2."),
    ("--trust", _FLAG, "Run code that a run or its config.json names by path (./file.py:Class)."),
    ("--dry-run", _FLAG, "Check config and environment; train nothing."),
    ("--json as_json", _FLAG, "Print only JSON, at the end; everything else to standard error."),
    ("--profile", _FLAG,
     "Time middleware and learner; print a table at the end, write RUN/log/profile.json and .txt."),
)  # fmt: skip


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for flags, how, text in reversed(_OPTIONS):
        command = click.option(*flags.split(), help=text, **how)(command)
    return command


@click.command(name="train", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[FILE|RUN|PRESET] [a.b=c]...")
@_options
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: Sequence[str],
    config: str | None,
    seeds: tuple[int, ...],
    jobs: int,
    together: bool,
    dry_run: bool,
    requeue: bool,
    **given: Any,
) -> None:
    """Trains a policy; writes config, checkpoints and logs to a run folder."""
    from dicore.run.launch import TrainRequest, launch

    overrides = [word for word in words if "=" in word and not exists(word)]  # noqa: PTH110
    files = [word for word in [config, *words] if word is not None and word not in overrides]
    as_json, device, begin = (given.pop(name) for name in ("as_json", "device", "from_run"))
    overrides += [f"policy.cuda={device == 'cuda'}"] if device else []
    for word in files:
        if not exists(word) and is_command(word):  # noqa: PTH110
            raise UsageError(f"{word}: a command stands first", hint=f"dicore {word} …")
    if len(files) > 1:
        wrong = f"expected at most one config file, got {', '.join(files)}"
        names = "" if "=" in words else f"-e {files[0]} -p {files[1]}? "
        raise UsageError(wrong, hint=f"{names}Overrides: a.b=c, without spaces")
    resumes = given["resume"] or given["exist"] == "resume" or requeue
    if (given["allow_change"] or given["ignore_missing"]) and not resumes:
        raise UsageError("--allow-change and --ignore-missing have no effect without --resume RUN")
    request = TrainRequest(
        config=files[0] if files else None,
        overrides=overrides,
        argv=sys.argv,
        own_process=True,
        preset=not given.pop("no_preset"),
        seed=seeds[0] if seeds else None,
        **given,
    )
    own_process()
    request = public_name("begun_from", "--from")(request, begin) if begin else request
    if dry_run and as_json:
        raise UsageError("--dry-run prints no JSON", hint="dicore config check --json does")
    if dry_run:
        say(public_name("check_request", "--dry-run")(request), result=True)
        return
    if requeue:
        request = public_name("requeued", "--requeue")(request)
    if len(seeds) > 1 or together or as_json:
        train_seeds = public_name("train_seeds", "--json" if as_json else "--seed given twice")
        code = train_seeds(request, seeds, jobs, together=together, as_json=as_json)
    else:
        try:
            code = launch(request, observer=Announcer()).exit_code
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")
            raise
    ctx.exit(public_name("requeue")(code) if requeue else code)


class Announcer:
    """Prints start and end of a training."""

    _measure = "return"

    def started(
        self, run: Run, request: TrainRequest, compiled: Compiled, header: Sequence[str]
    ) -> None:
        """Prints what is trained, where, and the lines of plugins."""
        from dicore.run.request import env_label

        measure = str(compiled.policy.eval.evaluator.get("measure", "return"))
        self._measure = measure.replace("_", " ")
        label = env_label(compiled, request.env)
        say(f"training {compiled.policy.type} on {label}, seed {compiled.seed}, in {run.folder}")
        if request.exist == "resume" and run.resumed_from is None:
            say("no checkpoint to resume from: training starts from scratch")
        at = "env step {env_step}, update {train_iter}".format(**run.reached)
        if run.resumed_from == "best":
            say(f"no complete checkpoint: resumes from 'best', at {at};"
                " later updates and bulky parts, such as the replay buffer, are lost")  # fmt: skip
        elif run.resumed_from is not None:
            say(f"resumes from '{run.resumed_from}', at {at}")
        if not run.limits.ends:
            say("no budget and no env.stop_value: training runs until Ctrl-C, then saves")
        elif run.limits.max_env_step is run.limits.max_train_iter is None:
            stop = number(run.limits.stop_value)
            say(f"no budget: training runs until a mean return of {stop}, or Ctrl-C, which saves")
        for line in [*_about_preset(request, compiled), *header]:
            say(line)
        if is_command("watch"):
            self._print("watch", f"dicore watch {_as_word(run.folder)}")

    def ended(self, run: Run, profile: Any) -> None:
        """Prints the profile, the result, and the files of the run."""
        if profile is not None:
            profile.show()
        best = "none" if (result := run.result).best_return is None else number(result.best_return)
        end = "stopped" if run.stop else "stop value reached" if result.stop else "budget spent"
        place = f", in {run.folder}" if is_quiet() else ""
        say(
            f"{end}: best mean {self._measure} {best} after {result.env_step} env steps,"
            f" {result.train_iter} updates, {result.wall_s:.1f} s{place}",
            result=True,
        )
        at, kept = _as_word(run.folder), run.store.best_or_latest()
        if run.stop_requested:
            code = re.search(r'"(type|env_id)": "[^"]*:', run.folder.config.read_text("utf-8"))
            self._print("resume", f"dicore train --resume {at}{' --trust' * bool(code)}")
        self._print("curve", f"dicore plot {at} --text   (numbers: {run.folder}/log/metrics.jsonl)")
        self._print("config", f"{run.folder}/config.json")
        self._print("checkpoint", f"{run.folder}/ckpt/{kept}" if kept else "none was saved")
        self._print("folder", run.folder)

    def nothing_to_do(self, run: Run, reason: str) -> None:
        """Prints why there is nothing to resume."""
        say(f"nothing to do in {run.folder}: {reason}")

    def _print(self, name: str, value: object) -> None:
        say(f"{name + ':':<12}{value}")


def _as_word(folder: object) -> str:
    """Returns a folder as a word of a command line."""
    return shlex.quote(f"./{folder}" if str(folder).startswith("-") else str(folder))


def _about_preset(request: TrainRequest, compiled: Compiled) -> Iterator[str]:
    """Yields which preset is used, or that none is there for two names."""
    used = Counter(each for each in compiled.origin.values() if each.startswith("preset "))
    for name, count in used.items():
        yield f"{name} ({count} options); --no-preset for the defaults"
    if not used and request.config is None and request.resume is None:
        text = f"no preset for {request.env} and {request.policy}"
        yield f"{text if request.preset else '--no-preset'}: the defaults are used"
