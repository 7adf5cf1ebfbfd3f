"""`dicore import-weights`: weights from elsewhere as a checkpoint of a run."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import plural, say, verbosity, write_table
from dicore.errors import MissingPackageError, UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import TRUST
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dicore_tools.json_output.runs import ImportedWeights

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore import-weights policy.safetensors --run runs/x
  dicore import-weights policy.pth --run runs/x --suggest table.yaml
  dicore import-weights policy.pth --run runs/x --table table.yaml
  dicore import-weights sb3_ppo.zip --run runs/x --obs-norm norm.npz
  dicore import-weights agent_20000.pt --run runs/x --compare actions.npz
  dicore eval runs/x --load-path imported

The config of RUN describes the policy; a run of one env step is enough. Files of torch are read by
its weights-only loader and archives of Stable-Baselines3 likewise, so that no code of theirs runs.
Without a table, names must be equal. In a table, `a.*: b.*` maps all names that begin so, and
`name.T` is the transposed matrix. Target networks get the same weights; the optimizer starts anew.

Checkpoints of CleanRL, rsl_rl, skrl, Stable-Baselines3 and tianshou need no table: their layers are
recognised, and the statistics that normalise observations become part of the first one. Set
policy.model to their sizes and activation; see docs/howto/import_weights.md.
"""


@click.command(name="import-weights", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("file", metavar="TENSORS")
@click.option("--run", "where", metavar="RUN", help="Run with the policy's config.  [required]")
@click.option("--table", metavar="FILE", help="Names in the file by names of the policy (YAML).")
@click.option("--suggest", metavar="FILE", help="Only write a table by shapes, to be checked.")
@click.option(
    "--obs-norm",
    metavar="FILE",
    help="Mean and var of observations that the env normalised (.npz).",
)
@click.option(
    "--compare",
    metavar="FILE",
    help="Fail unless actions equal those in a file (.npz: obs, action).",
)
@click.option("--name", default="imported", show_default=True, help="Name of the checkpoint.")
@click.option("--partial", is_flag=True, help="Keep initial values where the file has none.")
@TRUST
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@verbosity
def command(
    file: str,
    *,
    where: str | None,
    table: str | None,
    suggest: str | None,
    trust: bool,
    as_json: bool,
    obs_norm: str | None,
    compare: str | None,
    **given: Any,
) -> None:
    """Takes weights from a file of another framework into a checkpoint of a run."""
    from dicore.console import own_process
    from dicore_registry.public_names import public_name

    if where is None:
        raise UsageError(
            "missing option '--run': a run whose policy takes the weights",
            hint=f"train one for a step, then: dicore import-weights {file} --run runs/x",
        )
    if suggest is not None:
        check_place(suggest, option="--suggest")
    own_process()
    with contextlib.redirect_stdout(sys.stderr):  # environments may print
        if suggest is not None:
            found = public_name("suggested_table", "--suggest")(where, file, trust=trust)
        else:
            rows = None if table is None else _read_table(Path(table))
            take = public_name("import_weights", "dicore import-weights")
            peer = None if rows is not None else _peer(file, obs_norm, compare)
            if peer is None:
                done = take(where, file, table=rows, trust=trust, **given)
            else:
                done = _take_peer(peer, take, where, compare=compare, trust=trust, **given)
    if suggest is not None:
        say(_write_table(Path(suggest), found), result=True)
        return
    if as_json:
        say(json.dumps(_facts(done), indent=1), result=True)
        return
    write_table(
        ("policy", "shape", "file"),
        [(own, str([*shape]), other) for own, shape, other in done.rows],
    )
    for names, text in ((done.kept, "keep initial values"), (done.unused, "not taken")):
        if names:
            say(f"{plural(len(names), 'tensor')} {text}: {', '.join(names)}")
    say(f"{done.checkpoint}: {plural(len(done.rows), 'tensor')} of {file}", result=True)


def _peer(file: str, obs_norm: str | None, compare: str | None) -> Any:
    """Returns the weights of a checkpoint of a framework that is known; None of others."""
    from dicore_registry.public_names import public_name

    try:
        found = public_name("peer_weights")(file, obs_norm=obs_norm)
    except MissingPackageError as missing:
        if obs_norm or compare:
            raise
        click.echo(f"note: {missing.message}; without it, tensors are taken by names", err=True)
        return None
    if found is None and (obs_norm or compare):
        raise UsageError(
            f"{file}: not a checkpoint of CleanRL, rsl_rl, skrl, Stable-Baselines3 or tianshou",
            hint="--obs-norm and --compare are for those",
        )
    return found


def _take_peer(
    peer: Any, take: Any, where: str, *, name: str, compare: str | None, trust: bool, partial: bool
) -> Any:
    """Imports weights by our names; the rows name the tensors of their file.

    They are checked in a checkpoint of their own, so that an earlier one stays if they do not fit.
    """
    from dataclasses import replace

    from safetensors.torch import save_file

    from dicore.run.env_factory import spec_of

    compiled = _compiled(where, name, trust=trust)
    peer.check_model(compiled.policy.get("model"))
    spec = spec_of(compiled.env, compiled.seed)
    peer.actions.check((spec.observation, spec.action), compiled.policy.get("model"))
    if compare is None:
        peer.actions.check_units(spec.action, compiled.policy)
    with tempfile.TemporaryDirectory(prefix="dicore-weights-") as folder:
        file = Path(folder) / "weights.safetensors"
        save_file(peer.tensors, file)
        given: dict[str, Any] = {"table": None, "trust": trust, "partial": partial}
        tried = take(where, file, name=f"{name}-unchecked", **given)
        try:
            peer.check_layers([own for own, *_ in tried.rows], tried.kept, tried.unused)
            if compare is not None:
                _compare(peer, tried, where, compare, trust=trust)
        finally:
            shutil.rmtree(tried.checkpoint)
        done = take(where, file, name=name, **given)
    for note in _notes(peer, compiled.env, compare):
        click.echo(f"note: {note}", err=True)
    left = [peer.sources[own] for own in done.unused]
    rows = [(own, shape, peer.sources[own]) for own, shape, _ in done.rows]
    return replace(done, rows=rows, unused=[*left, *peer.unused])


def _compiled(where: str, checkpoint: str, *, trust: bool) -> Any:
    """Returns the config of the run."""
    from dicore_tools.evaluation.policy_loader import find_policy

    return find_policy(where, checkpoint, trust=trust).compiled


def _notes(peer: Any, env: Any, compare: str | None) -> Iterator[str]:
    yield from peer.notes
    if any(each.type == "obs_norm" for each in env.env_wrapper):
        yield "the run normalises observations itself (env.env_wrapper: obs_norm), the file's too"
    if compare is None and "model.log_std" in peer.tensors:
        yield "whether means are squashed (tanh) is not in the file: --compare finds out"


def _compare(peer: Any, done: Any, where: str, file: str, *, trust: bool) -> None:
    """Compares the actions of a checkpoint with those in a file."""
    from dicore.run.env_factory import spec_of
    from dicore_registry.public_names import public_name
    from dicore_tools.agent.inference import make_act
    from dicore_tools.evaluation.policy_loader import find_policy

    trained = find_policy(where, done.checkpoint, trust=trust)
    given = trained.compiled.policy.get("model")
    model = {name: getattr(given, name, None) for name in ("activation", "layer_norm")}
    spec = spec_of(trained.compiled.env, trained.compiled.seed)
    count = public_name("compare_actions", "--compare")(
        make_act(trained), file, peer, model, (spec.observation, spec.action)
    )
    click.echo(f"{count} actions are equal to those of {peer.peer}", err=True)


def _facts(done: Any) -> ImportedWeights:
    """Returns what `--json` prints; the type of `done` is of another package."""
    return {
        "checkpoint": str(done.checkpoint),
        "rows": [{"policy": own, "shape": [*shape], "file": other}
                 for own, shape, other in done.rows],
        "kept": [*done.kept],
        "unused": [*done.unused],
    }  # fmt: skip


def _read_table(path: Path) -> dict[str, str]:
    from dicore_tools.config_formats.text_files import read_yaml

    rows = read_yaml(path)
    if not isinstance(rows, dict) or not all(isinstance(key, str) for key in rows):
        raise UsageError(f"{path}: expected rows 'name here: name in the file'")
    return {key: "" if value is None else str(value) for key, value in rows.items()}


def _write_table(path: Path, found: dict[str, str]) -> str:
    import yaml

    from dicore.run.atomic import write_file

    head = "# name here: name in the file ('' keeps initial values). By shapes only: check it.\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, (head + yaml.safe_dump(found, sort_keys=False)).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    open_rows = sum(not other for other in found.values())
    return f"{path}: {plural(len(found), 'row')}, {open_rows} without a tensor of this shape"
