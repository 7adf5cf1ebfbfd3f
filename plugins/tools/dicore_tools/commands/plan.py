"""`dicore plan`: what a training will cost, what it waits for, and what would help."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import plain_table, plural, say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.options import TRUST
from dicore_tools.commands.output import rate_text

if TYPE_CHECKING:
    from dicore.run.launch import TrainRequest
    from dicore_tools.json_output.runs import PlanOfTraining
    from dicore_tools.json_output.runs import Trial as TrialFacts
    from dicore_tools.planning.planner import Plan
    from dicore_tools.planning.trial import Trial

__all__ = ["command", "facts", "lines"]

_LOOK_S = 0.3
_BUSY = 50.0
"""Percent of all cores that others use, from which on figures are not those of rest."""
_EPILOG = """\b
Examples:
  dicore plan -e cartpole -p dqn -n 1e5
  dicore plan config.yaml --seconds 10
  dicore plan cartpole_ppo --apply faster.yaml    a copy of the config with what helps
  dicore plan config.yaml --json                  see docs/howto/plan.md for the members

Trains for some seconds in a temporary folder, as the config is and with changes that its bottleneck
suggests; all processes have ended afterwards. Evaluations are not measured. Close what else uses
the machine: the figures are of now.

Exit codes: 0 measured · 1 nothing could be measured · 2 the config is invalid · 130, 143 stopped.
"""


@click.command(name="plan", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[FILE|PRESET] [a.b=c]...")
@click.option("-e", "--env", metavar="NAME", help="Environment, or a Gymnasium id.")
@click.option("-p", "--policy", metavar="NAME", help="Algorithm.")
@click.option(
    "-n", "--steps", "--max-env-step", "max_env_step", type=click.FloatRange(1),
    help="Budget in env steps, e.g. 1e6.  [default: the config's]",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0.5), default=5.0, show_default=True,
    help="Time of each measurement, from its first step on.",
)  # fmt: skip
@click.option("--no-changes", is_flag=True, help="Measure the config as it is, and nothing else.")
@click.option(
    "--apply", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the config with the fastest change: a new file, .yaml or .json.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@TRUST
@verbosity
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: Sequence[str],
    *,
    seconds: float,
    no_changes: bool,
    file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measures a training for some seconds: rates, memory, time to the budget, what would help."""
    from dicore_tools.commands.config import check_request
    from dicore_tools.planning.planner import make_plan

    request = _request(words, **given)
    _check_file(file)
    check_request(request)
    shown = (lambda trial: None) if as_json else _progress
    begun = (lambda changes, seconds: None) if as_json else _begun
    if not no_changes:
        _warn_of_other_work()
    plan, code = make_plan(
        request, seconds=seconds, compare=not no_changes, said=shown, begun=begun
    )
    if as_json:
        say(json.dumps(facts(plan), indent=1), result=True)
    else:
        for line in lines(plan):
            say(line, result=True)
    if file is not None and not code and not plan.base.problem:
        _apply(request, plan, file)
    ctx.exit(code or int(bool(plan.base.problem)))


def _request(
    words: Sequence[str],
    *,
    env: str | None,
    policy: str | None,
    max_env_step: float | None,
    trust: bool,
) -> TrainRequest:
    from dicore.run.launch import TrainRequest

    overrides = [word for word in words if "=" in word and not exists(word)]  # noqa: PTH110
    files = [word for word in words if word not in overrides]
    if len(files) > 1:
        raise UsageError(f"expected one config, got {', '.join(files)}")
    return TrainRequest(
        config=files[0] if files else None, env=env, policy=policy, overrides=overrides,
        max_env_step=None if max_env_step is None else int(max_env_step), trust=trust,
    )  # fmt: skip


def _warn_of_other_work() -> None:
    """Warns if other processes use the cores: then more threads and processes look slow."""
    import psutil

    busy = psutil.cpu_percent(_LOOK_S)
    if busy >= _BUSY:
        click.echo(
            f"warning: other work uses {busy:.0f} % of the cores: more threads, which wait for each"
            " other without pause, and more processes are much slower than at rest",
            err=True,
        )


def _begun(changes: Mapping[str, Any], seconds: float) -> None:
    """Says what is measured now: slow environments take longer than that."""
    say(f"measuring {_changes(changes)}: {seconds:g} s from its first step on")


def _progress(trial: Trial) -> None:
    """Says what a measurement has found, as soon as it has."""
    say(f"measured {_changes(trial.changes)}: {trial.problem or _rates(trial)}")


def facts(plan: Plan) -> PlanOfTraining:
    """Returns what `--json` prints."""
    trials: list[TrialFacts] = [
        {
            "changes": dict(each.changes),
            "problem": each.problem,
            "env_steps_per_s": each.env_steps_per_s,
            "updates_per_s": each.updates_per_s,
            "speedup": plan.speedup(each),
            "seconds_to_budget": plan.seconds_of(each),
            "shares": {part: each.share(part) for part in each.parts},
            "memory_bytes": list(each.memory),
        }
        for each in plan.trials
    ]
    return {
        "format": 1,
        "budget": {"max_env_step": plan.max_env_step, "max_train_iter": plan.max_train_iter},
        "bottleneck": plan.bottleneck,
        "buffer_bytes": plan.buffer_bytes,
        "trials": trials,
        "best": None if plan.best is None else dict(plan.best.changes),
        "not_measured": [dict(each) for each in plan.not_measured],
    }


def lines(plan: Plan) -> Iterator[str]:
    """Yields the plan as text."""
    base = plan.base
    if base.problem:
        yield f"nothing was measured: {base.problem}"
        return
    yield f"speed:      {_rates(base)}"
    shares = (f"{part} {base.share(part):.0%}" for part in base.parts)
    yield f"time:       {', '.join(shares)}"
    yield f"bottleneck: {plan.bottleneck}"
    yield f"memory:     {_memory(plan)}"
    yield f"budget:     {_budget(plan)}"
    if len(plan.trials) > 1:
        yield ""
        yield from _table(plan).rstrip("\n").splitlines()
    if len(plan.trials) > 1 or plan.not_measured:
        yield from _advice(plan)


def _advice(plan: Plan) -> Iterator[str]:
    left = plan.not_measured
    if (fastest := plan.fastest) is not None:
        what, often = ("may help:  ", "once; stopped") if left else ("helps:     ", "twice")
        times = f"{plan.speedup(fastest):.2f} times as fast, measured {often}"
        yield f"{what} {_changes(fastest.changes)} ({times})"
        left = tuple(each for each in left if each != fastest.changes)
    elif not left:
        again = ", measured twice" if any(each.refuted for each in plan.trials) else ""
        yield f"none of the changes makes it faster by 15 % or more{again}"
    if left:
        yield f"stopped; not measured: {'; '.join(map(_changes, left))}"


def _rates(trial: Trial) -> str:
    rates = map(rate_text, (trial.env_steps_per_s, trial.updates_per_s))
    return "{} env steps/s, {} updates/s".format(*rates)


def _memory(plan: Plan) -> str:
    main, *workers = plan.base.memory or (0,)
    text = f"{_size(main)} in the training"
    if workers:
        text += f", {_size(sum(workers))} in {plural(len(workers), 'worker')}"
    if plan.buffer_bytes:
        text += f"; the full replay buffer {_size(plan.buffer_bytes)}"
    return text


def _size(number: float) -> str:
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _budget(plan: Plan) -> str:
    seconds = plan.seconds_of(plan.base)
    if seconds is None:
        per_million = 1e6 / max(plan.base.env_steps_per_s or plan.base.updates_per_s, 1e-9)
        return f"none is set (-n STEPS); a million steps take {_duration(per_million)}"
    what = f"{plan.max_env_step:,} env steps" if plan.max_env_step else ""
    return f"{what or f'{plan.max_train_iter:,} updates'} in {_duration(seconds)}, plus evaluations"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _changes(changes: Mapping[str, Any]) -> str:
    return " ".join(f"{path}={value}" for path, value in changes.items()) or "the config as it is"


def _table(plan: Plan) -> str:
    from dicore_tools.reports.run_data import NONE

    rows = []
    for each in plan.trials:
        if each.problem:
            rows.append([_changes(each.changes), NONE, NONE, each.problem[:60]])
        else:
            rates = rate_text(each.env_steps_per_s), rate_text(each.updates_per_s)
            rows.append([_changes(each.changes), *rates, f"{plan.speedup(each):.2f} x"])
    return plain_table(["options", "env steps/s", "updates/s", "speed"], rows, (1, 2))


def _check_file(file: Path | None) -> None:
    """Refuses a file that cannot become the copy, before anything is measured."""
    if file is None:
        return
    from dicore_tools.config_formats.editor_schema import check_new

    try:
        check_new(file)
    except UsageError as error:
        raise UsageError(f"--apply: {error.message}", hint=error.hint) from error


def _apply(request: TrainRequest, plan: Plan, file: Path) -> None:
    """Writes the config with the fastest change."""
    from dataclasses import replace

    from dicore_tools.commands.config_view import view_config
    from dicore_tools.config_formats.editor_schema import write_config
    from dicore_tools.planning.trial import COLLECTORS

    if plan.best is None:
        say(f"{file} is not written: nothing to change", result=True)
        return
    changes = [{path: value} for path, value in plan.best.changes.items()]
    mode = "parallel" if COLLECTORS in plan.best.changes else request.mode
    changed = replace(request, mode=mode, overrides=[*request.overrides, *changes])
    source = None if request.config is None else str(request.config)
    view = view_config(source, changed)
    write_config(file, view.tree, view.origin)
    say(f"{file}: the config with {_changes(plan.best.changes)}", result=True)
