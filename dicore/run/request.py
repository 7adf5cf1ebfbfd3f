"""What somebody wants trained, as one object, and the config that it comes to."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dicore.config import Compiled, compile_config, is_config
from dicore.errors import ConfigError, UnknownComponentError, UsageError
from dicore.run.metadata import limits_of, result_of

if TYPE_CHECKING:
    from dicore.hookspecs.manager import Plugins
    from dicore.run.folder import Exist, RunFolder
    from dicore.run.run import Run

__all__ = [
    "TrainRequest",
    "compile_request",
    "compile_resumed",
    "env_label",
    "folder_name",
    "nothing_left",
    "refuse_changes",
    "resumed_folder",
]

_SILENT: Final = {"env.n_evaluator_episode": 10, "env.stop_value": float("inf")}
"""What is assumed where an env or a preset is asked for by name and all layers are silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What somebody wants trained; None leaves a value to the config.

    Args:
        config: A dict, `[main_config, create_config]`, the path of a file or run, the name of
            a preset, or a compiled config.
        mode: Name of a pipeline.
        env: Name of an environment, or a gymnasium id.
        policy: Name of a policy.
        seed: Seed of everything random.
        exp_name: Folder of the run; one that exists gets a numbered sibling.
        max_env_step: Budget in env steps.
        max_train_iter: Budget in updates.
        overrides: `a.b=c`, or dicts whose keys may be such paths; above everything else.
        cpanel: Knobs of the config's control panel, turned: a dict, or a JSON object as text.
        locked: Refuse components that are not those recorded in `config`, a run or its
            `config.json`.
        exist: What to do where the run's folder exists: `new` (a numbered sibling), `resume`,
            `overwrite` or `error`.
        resume: Folder of a run to go on with, from its latest complete checkpoint; `auto`: of this
            very request, if there is one, which is `exist="resume"`.
        trust: Run code that the config of a resumed run names by path.
        profile: Time the training; the table goes to `log/profile.json` and `log/profile.txt`.
        argv: What `run.json` keeps as command line.
        own_process: The process exists for this training: say on stdout where things are, and
            put off garbage collection until the first step (a third of the time to start).
    """

    config: Any = None
    mode: str | None = None
    env: str | None = None
    policy: str | None = None
    seed: int | None = None
    exp_name: str | None = None
    max_env_step: int | None = None
    max_train_iter: int | None = None
    overrides: Sequence[str | Mapping[str, Any]] = ()
    cpanel: Mapping[str, Any] | str | None = None
    locked: bool = False
    exist: Exist = "new"
    resume: str | PathLike[str] | None = None
    trust: bool = False
    profile: bool = False
    argv: Sequence[str] = field(default_factory=lambda: tuple(sys.argv))
    own_process: bool = False

    def __post_init__(self) -> None:
        if self.resume == "auto":
            object.__setattr__(self, "resume", None)
            object.__setattr__(self, "exist", "resume")


def compile_request(request: TrainRequest, plugins: Plugins | None = None) -> Compiled:
    """Compiles what a request asks for: preset < file < command line.

    `env` and `policy` alone stand for the preset `<env>_<policy>` if there is one.

    Args:
        request: What to train.
        plugins: Who is told what the sources say before it is compiled.

    Raises:
        UsageError: it names neither a config nor env and policy.
        ConfigError: everything that is wrong.
    """
    config, preset = request.config, None
    if isinstance(config, str | PathLike) and not is_config(config):
        if not _is_preset(str(config)):
            raise UsageError(
                f"{config}: no such config file, run or preset",
                hint=f"looked in {Path.cwd()}; names are given by -e ENV and -p POLICY",
            )
        config, preset = None, str(config)
    by_name = config is None and preset is None
    if by_name and not request.overrides and (request.env is None or request.policy is None):
        raise UsageError(
            "what to train is missing",
            hint="give env and policy (-e ENV -p POLICY; dicore list names them), or a file",
        )
    flags = {
        "pipeline.type": request.mode,
        "env.type": request.env,
        "policy.type": request.policy,
        "exp_name": request.exp_name,
        "pipeline.max_env_step": request.max_env_step,
        "pipeline.max_train_iter": request.max_train_iter,
    }
    given = {path: value for path, value in flags.items() if value is not None}
    overrides = [*([json.dumps(given)] if given else []), *request.overrides]
    if by_name:
        preset = _preset(request.env, request.policy)

    def compiled(below: Sequence[str] = ()) -> Compiled:
        said = [*below, *overrides]
        return compile_config(
            config,
            preset=preset,
            overrides=said,
            seed=request.seed,
            cpanel=request.cpanel,
            locked=request.locked,
            loaded=None if below or not plugins else told,
        )

    def told(tree: dict[str, Any]) -> None:
        assert plugins is not None
        plugins.call("dicore_config_loaded", cfg=tree)

    try:
        return compiled()
    except ConfigError as error:
        silent = _silent(error) if request.env is not None or preset is not None else {}
        if not silent:
            raise
    return compiled([json.dumps(silent)])


def _preset(env: str | None, policy: str | None) -> str | None:
    """Returns the name of the preset for a pair of bare names, if one is installed."""
    if env is None or policy is None or any(sign in env + policy for sign in ":/."):
        return None
    name = f"{env}_{policy}"
    return name if _is_preset(name) else None


def _is_preset(name: str) -> bool:
    from dicore_registry import default

    try:
        default().find("preset", name)
    except UnknownComponentError:
        return False
    return True


def _silent(error: ConfigError) -> dict[str, Any]:
    """Picks those of the missing keys that need not be given with an env named by itself."""
    missing = {problem.split(":", 1)[0] for problem in error.problems}
    return {path: value for path, value in _SILENT.items() if path in missing}


def folder_name(compiled: Compiled, request: TrainRequest) -> str:
    """Returns the folder that is asked for, or the usual one: `runs/<env>_<policy>_s<seed>`."""
    from dicore.run.folder import default_name

    return compiled.exp_name or default_name(
        env_label(compiled, request.env), compiled.policy.type, compiled.seed
    )


def env_label(compiled: Compiled, asked: str | None) -> str:
    """Returns what people call the environment: as they asked for it, its id, or its name."""
    if asked is not None:
        return asked
    env_id = compiled.env.get("env_id")
    told = not str(compiled.origin.get("env.env_id", "class")).startswith("class")
    return str(env_id) if env_id and told else compiled.env.type


_CHANGEABLE: Final = ("pipeline.", "env.stop_value", "env.n_evaluator_episode")
"""What a resumed run may be told anew: how long it lasts and what it shows, not what it learns."""
_FOLLOWS: Final = tuple(f"follows {path}" for path in _CHANGEABLE)

_LIMITS: Final = {
    "pipeline.max_env_step": "max_env_step",
    "pipeline.max_train_iter": "max_train_iter",
    "env.stop_value": "stop_value",
}


def resumed_folder(request: TrainRequest) -> RunFolder | None:
    """Returns the folder of the run to go on with; None for a new run.

    Raises:
        UsageError: there is no run in it, or more is asked than to go on.
    """
    from dicore.run.folder import EXIST, RunFolder

    if request.exist not in EXIST:
        raise UsageError(f"exist: no '{request.exist}'", hint=f"one of {', '.join(EXIST)}")
    if request.resume is None:
        if request.exist != "resume":
            return None
        path = Path(folder_name(compile_request(request), request))
        return RunFolder.open(path) if path.exists() else None
    names = ("config", "mode", "env", "policy", "seed", "exp_name", "cpanel")
    given = [name for name in names if getattr(request, name) is not None]
    if given:
        raise UsageError(
            f"a resumed run keeps its own config; given beside it: {', '.join(given)}",
            hint="to train something else with it, give RUN/config.json as a config file",
        )
    return RunFolder.open(Path(request.resume))


def compile_resumed(request: TrainRequest, folder: RunFolder) -> Compiled:
    """Compiles the config that a run has written, with the limits that it was given last.

    Raises:
        UsageError: something else than its limits should change.
        ConfigError: it names components that are not installed, or code by path.
    """
    said = [each if isinstance(each, str) else json.dumps(each) for each in request.overrides]
    fixed = [text for text in said if not text.startswith(_CHANGEABLE)]
    if fixed:
        raise UsageError(
            f"a resumed run keeps its own config: {', '.join(fixed)} cannot change it",
            hint=f"pipeline.* and env.stop_value can; start a new run from {folder.config} instead",
        )
    known = limits_of(folder.metadata)
    before = {path: known[key] for path, key in _LIMITS.items() if key in known}
    if before.get("env.stop_value", 0) is None:  # as a record writes what is not finite
        before["env.stop_value"] = float("inf")
    now = {path: getattr(request, key, None) for path, key in _LIMITS.items()}
    limits = {**before, **{path: value for path, value in now.items() if value is not None}}
    overrides = [*([json.dumps(limits)] if limits else []), *request.overrides]
    return compile_config(
        str(folder.config), overrides=overrides, names_only=not request.trust, locked=request.locked
    )


def refuse_changes(compiled: Compiled, folder: RunFolder, *, trust: bool) -> None:
    """Makes sure that a run goes on with the config that it has.

    Raises:
        UsageError: something else than its limits differs.
    """
    from dicore.config import differences

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of it has been said of the first one
        before = compile_config(str(folder.config), names_only=not trust)
    changed = [
        path
        for path in differences(compiled, before)
        if not path.startswith(_CHANGEABLE)
        and not compiled.origin.get(path, "").startswith(_FOLLOWS)
        and path != "exp_name"
    ]
    if changed:
        raise UsageError(
            f"{folder}: was trained with another config: {', '.join(changed[:5])}"
            + (f" and {len(changed) - 5} more" if len(changed) > 5 else ""),
            hint="--exist new starts afresh in a sibling folder",
        )


def nothing_left(run: Run) -> str:
    """Says why a run to be resumed is over already, or nothing."""
    limits, reached = run.limits, run.reached
    for what, most in (("env_step", limits.max_env_step), ("train_iter", limits.max_train_iter)):
        if most is not None and reached[what] >= most:
            return f"{what} {reached[what]} of at most {most}: give more by --max-{what}".replace(
                "_", "-"
            )
    before = result_of(run.folder.metadata)
    if before.get("stop") and (before.get("best_return") or 0.0) >= limits.stop_value:
        return f"the stop value {limits.stop_value:g} was reached; env.stop_value=inf goes on"
    return ""
