"""`TrainRequest`: what to train or resume, and the compiled config."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import getitem
from os import PathLike
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dicore.config
from dicore.config import Compiled, compile_config, differences
from dicore.config.paths import plain
from dicore.config.redact import REDACTED, is_secret, redact_text, redacted_paths
from dicore.config.writer import saved_tree
from dicore.data.json_codec import loads
from dicore.errors import ConfigError, RegistryError, UnknownComponentError, UsageError
from dicore.run.folder import EXIST, Exist, RunFolder, default_name
from dicore.run.metadata import saved_member
from dicore_registry import default
from dicore_registry.public_names import public_name

if TYPE_CHECKING:
    from dicore.hookspecs.manager import Plugins
    from dicore.run.run import Run

__all__ = [
    "TrainRequest", "changes_of", "compile_request", "compile_resumed", "env_label", "folder_name",
    "nothing_left", "preset_of", "resumed_folder",
]  # fmt: skip

_ASSUMED: Final = {"env.n_evaluator_episode": 10, "env.stop_value": float("inf")}
"""Assumed if an env or a preset is requested by name and no layer sets them."""

CHANGEABLE: Final = ("pipeline.", "env.stop_value", "env.n_evaluator_episode")
"""Options that may change when a run is resumed: its length and its output, not what it learns."""
_INEXACT: Final = {
    "env.collector_env_num": "not exact: episodes start anew, samples come in another order",
    "env.evaluator_env_num": "not exact: evaluations have other episodes",
    "env.manager": "not exact: episodes may start anew",
    "policy.cuda": "not exact: another device rounds differently",
}
"""Options that may change too, and what is then no longer as in an uninterrupted run."""

_FIELDS: Final = {
    "pipeline.type": "mode",
    "env.type": "env",
    "policy.type": "policy",
    "exp_name": "exp_name",
    "pipeline.max_env_step": "max_env_step",
    "pipeline.max_train_iter": "max_train_iter",
}
"""Options that a request sets by its fields."""
_LIMITS: Final = {
    **{path: name for path, name in _FIELDS.items() if name.startswith("max_")},
    "env.stop_value": "stop_value",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What to train; None leaves a value to the config.

    Args:
        config: A dict, `[main_config, create_config]`, the path of a file or run, the name of
            a preset, or a compiled config.
        mode: Name of a pipeline.
        env: Name of an environment, or a Gymnasium id.
        policy: Name of a policy.
        preset: Whether the preset of env and policy, if there is one, lies below the config.
        seed: Random seed.
        exp_name: Run folder; if it exists, see `exist`.
        max_env_step: Budget in env steps.
        max_train_iter: Budget in gradient updates.
        track: Names of loggers besides those of the config.
        overrides: `a.b=c`, or dicts whose keys may be such paths; they override everything else.
        cpanel: Values of the config's control panel: a dict, or a JSON object as text.
        locked: Fail if an installed component differs from the one recorded in `config`, a run or
            its `config.json`.
        exist: What to do if the run folder exists: `new` (append a number), `resume`, `overwrite`
            or `error`.
        resume: Folder of a run to resume from its latest complete checkpoint. `auto`: resume the
            run of this request if it exists, else start it (`exist="resume"`).
        allow_change: Paths of options that may change when a run is resumed, with those below them.
        ignore_missing: Resume without the loggers, hooks and parts of the checkpoint whose package
            is not installed.
        trust: Run code that a saved config (a run or its `config.json`) names by path.
        profile: Time the training; the table is written to `log/profile.json` and
            `log/profile.txt`.
        argv: The command line for `run.json`.
        own_process: The process runs only this training: garbage collection is off until the first
            step, which shortens the start by a third.
    """

    config: Any = None
    mode: str | None = None
    env: str | None = None
    policy: str | None = None
    preset: bool = True
    seed: int | None = None
    exp_name: str | None = None
    max_env_step: int | None = None
    max_train_iter: int | None = None
    track: Sequence[str] = ()
    overrides: Sequence[str | Mapping[str, Any]] = ()
    cpanel: Mapping[str, object] | str | None = None
    locked: bool = False
    exist: Exist = "new"
    resume: str | PathLike[str] | None = None
    allow_change: Sequence[str] = ()
    ignore_missing: bool = False
    trust: bool = False
    profile: bool = False
    argv: Sequence[str] = field(default_factory=lambda: tuple(sys.argv))
    own_process: bool = False

    def __post_init__(self) -> None:
        if self.resume == "auto":
            object.__setattr__(self, "resume", None)
            object.__setattr__(self, "exist", "resume")

    @property
    def names_only(self) -> bool | None:
        """False allows code paths in saved configs; see `compile_config`."""
        return False if self.trust else None


def compile_request(request: TrainRequest, plugins: Plugins | None = None) -> Compiled:
    """Compiles the config of a request: preset < file < command line.

    `env` and `policy` select the preset `<env>_<policy>` if it exists and the config has no more
    of them than their names. The hook
    `dicore_config_loaded` of `plugins` receives the merged sources.

    Raises:
        UsageError: the request has neither a config nor env and policy.
        ConfigError: the config is wrong; the error lists every problem.
    """
    config, preset = _sources(request)
    names = _Names(request.preset)
    fields = {path: getattr(request, name) for path, name in _FIELDS.items()}
    given = {path: value for path, value in fields.items() if value is not None}
    overrides = [*([json.dumps(given)] if given else []), *request.overrides]

    def compile_with(*assumed: str, more: Sequence[Any] = ()) -> Compiled:
        return compile_config(
            config,
            preset=names if preset is None else preset,
            overrides=[*assumed, *overrides, *more],
            seed=request.seed,
            cpanel=request.cpanel,
            names_only=request.names_only,
            locked=request.locked,
            loaded=(lambda tree: plugins.call("dicore_config_loaded", cfg=tree))
            if plugins and not assumed and not more
            else None,
        )

    assumed: dict[str, Any] = {}
    try:
        compiled = compile_with()
    except ConfigError as error:
        by_name = any(each is not None for each in (request.env, names.env, preset))
        missing = {problem.split(":", 1)[0] for problem in error.problems}
        assumed = {path: value for path, value in _ASSUMED.items() if by_name and path in missing}
        if not assumed:
            raise
        compiled = compile_with(json.dumps(assumed))
    if not request.track:
        return compiled
    loggers = [*map(plain, compiled.pipeline.logger), *({"type": name} for name in request.track)]
    assumptions = [json.dumps(assumed)] * bool(assumed)
    return compile_with(*assumptions, more=[{"pipeline.logger": loggers}])


def _sources(request: TrainRequest) -> tuple[object, str | None]:
    """Returns config and name of the preset of a request."""
    config = request.config
    if isinstance(config, str | PathLike) and not dicore.config.is_config(config):
        if not _is_preset(str(config)):
            raise UsageError(
                f"{config}: no such config file, run or preset",
                hint=f"files are searched in {Path.cwd()}; or pass -e ENV -p POLICY",
            )
        return None, str(config)
    if config is None and not request.overrides and None in (request.env, request.policy):
        raise UsageError(
            "nothing to train: no config is given, and not both env and policy",
            hint="pass -e ENV -p POLICY (see 'dicore list'), or a config file",
        )
    return config, None


@dataclass(slots=True)
class _Names:
    """Finds the preset of an env and a policy that are given by no more than their names."""

    wanted: bool
    env: str | None = None

    def __call__(self, env: object, policy: Any) -> str | None:
        self.env = env if isinstance(env, str) else None
        if not self.wanted or not isinstance(env, str) or not isinstance(policy, str):
            return None
        return preset_of(env, policy)


def preset_of(env: str, policy: str) -> str | None:
    """Returns the name of the installed preset of an env, by name or id, and a policy."""
    if any(sign in policy for sign in ":/."):
        return None
    if ":" not in env and "/" not in env and _is_preset(f"{env}_{policy}"):
        return f"{env}_{policy}"
    from dicore.config.env_names import EnvNames

    registry, end = default(), f"_{policy.lower().replace('-', '_')}"  # in any case; versioned
    if registry.switches.names_only or not any(
        end in entry.name for entry in registry.entries("preset")
    ):
        return None
    try:
        name = EnvNames(registry).read(env).name
    except RegistryError:
        return None
    return f"{name}_{policy}" if name and _is_preset(f"{name}_{policy}") else None


def _is_preset(name: str) -> bool:
    try:
        default().find("preset", name)
    except UnknownComponentError:
        return False
    return True


def folder_name(compiled: Compiled, request: TrainRequest) -> str:
    """Returns the requested folder, or `runs/<env>_<policy>_s<seed>`; `~` is the home folder."""
    label = env_label(compiled, request.env)
    name = compiled.exp_name or default_name(label, compiled.policy.type, compiled.seed)
    return expanduser(name)  # noqa: PTH111 - a user that there is not stays as it is


def env_label(compiled: Compiled, requested: str | None) -> str:
    """Returns the name of the environment for people: as requested, its env id, or its type."""
    if requested is not None:
        return requested
    env_id = compiled.env.get("env_id")
    is_set = not str(compiled.origin.get("env.env_id", "class")).startswith("class")
    return str(env_id) if env_id and is_set else compiled.env.type


# ---- resuming


def resumed_folder(request: TrainRequest) -> RunFolder | None:
    """Returns the folder of the run to resume, or raises `UsageError`; None for a new run."""
    if request.exist not in EXIST:
        raise UsageError(f"exist: unknown value '{request.exist}'; expected {', '.join(EXIST)}")
    if request.resume is None:
        if request.exist != "resume":
            return None
        folder = RunFolder(folder_name(compile_request(request), request))
        return folder if folder.config.is_file() else None
    names = ("config", "mode", "env", "policy", "seed", "exp_name", "cpanel")
    given = [name for name in names if getattr(request, name) is not None]
    given += ["track"] * bool(request.track)
    if given:
        raise UsageError(
            f"a resumed run keeps its config; remove {', '.join(given)}",
            hint="to start a new run from its config, pass RUN/config.json as a config file",
        )
    return RunFolder.open(Path(request.resume))


def compile_resumed(request: TrainRequest, folder: RunFolder) -> Compiled:
    """Compiles the saved config of a run, with its latest limits and those of the request."""
    saved = saved_member(folder.metadata, "limits")
    limits = {path: saved[key] for path, key in _LIMITS.items() if key in saved}
    for path, value in limits.items():  # overrides are a person's: no text of the file is one
        if not isinstance(value, int | float | None):
            raise ConfigError(f"{path}: expected a number, got {value!r} ({folder.metadata})")
    if limits.get("env.stop_value", 0) is None:  # run.json has null for infinity
        limits["env.stop_value"] = float("inf")
    requested = {path: getattr(request, key, None) for path, key in _LIMITS.items()}
    limits |= {path: value for path, value in requested.items() if value is not None}
    return _saved_config(request, folder, [json.dumps(limits)] * bool(limits), request.overrides)


def _saved_config(request: TrainRequest, folder: RunFolder, *overrides: Any) -> Compiled:
    main: Any = str(folder.config)
    if request.ignore_missing:
        main = public_name("without_missing", "--ignore-missing")(folder.config)
    return compile_config(
        main,
        overrides=list(chain.from_iterable(overrides)),
        names_only=request.names_only,
        saved=request.ignore_missing,
        locked=request.locked,
    )


def _given_again(compiled: Compiled, folder: RunFolder) -> dict[str, Any]:
    """Returns the present values of the options whose secrets the saved config does not have."""
    text = (folder.read_config() or b"").decode(errors="replace")
    try:
        saved = loads(text)["config"] if REDACTED in text else {}
    except (LookupError, RecursionError, TypeError, ValueError):
        saved = {}  # which is said when it is compiled
    paths = {path.partition("[")[0] for path in redacted_paths(saved, "")}
    now = saved_tree(compiled, redact=False)
    return {path[1:]: reduce(getitem, path[1:].split("."), now) for path in paths}


def changes_of(compiled: Compiled, request: TrainRequest, folder: RunFolder) -> dict[str, str]:
    """Returns how a config differs from the saved one of a run: a line by option path.

    Raises:
        UsageError: an option differs that must not change, unless `allow_change` names it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first compilation has shown them
        before = _saved_config(request, folder, [_given_again(compiled, folder)])
    free = tuple(f"{path}{end}" for path in request.allow_change for end in (".", "["))
    free = (*CHANGEABLE, *_INEXACT, *free)
    lines, refused = {}, []
    for path, (new, old) in differences(compiled, before).items():
        follows = compiled.origin.get(path, "").removeprefix("follows ")
        if path == "exp_name" or follows.startswith(CHANGEABLE):
            continue
        if not path.startswith(free) and path not in request.allow_change:
            refused.append(path)
        why = [f" ({text})" for start, text in _INEXACT.items() if path.startswith(start)]
        shown = "" if is_secret(path) else redact_text(f": {old!r} -> {new!r}")
        lines[path] = f"changed: {path}{shown}{''.join(why)}"
    if refused:
        raise UsageError(
            f"{folder}: trained with another config, which differs in {', '.join(refused[:5])}"
            + (f" and {len(refused) - 5} more" if len(refused) > 5 else ""),
            hint=f"--allow-change {refused[0]} resumes with another value; or start a new run with"
            " --exist new",
        )
    return lines


def nothing_left(run: Run) -> str:
    """Returns why a run to resume has already ended; "" if it has not."""
    if saved_member(run.folder.metadata, "status") != "done":
        return ""  # the final evaluation or checkpoint may be missing
    limits, reached = run.limits, run.reached
    for counter, most in (("env_step", limits.max_env_step), ("train_iter", limits.max_train_iter)):
        if most is not None and reached[counter] >= most:
            option = f"--max-{counter}".replace("_", "-")
            name = counter.replace("_", "-")
            return f"{name} {reached[counter]} of at most {most}: raise {option} to continue"
    before = saved_member(run.folder.metadata, "result")
    if before.get("stop") and (before.get("best_return") or 0.0) >= limits.stop_value:
        value = f"{limits.stop_value:g}"
        return f"stop value {value} already reached; set env.stop_value=inf to continue"
    return ""
