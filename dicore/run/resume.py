"""Going on with a run: which one, with what config, and whether there is anything left to do."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dicore.config import Compiled, compile_config
from dicore.errors import UsageError
from dicore.run.metadata import limits_of, result_of
from dicore.run.request import TrainRequest, compile_request, folder_name

if TYPE_CHECKING:
    from dicore.run.folder import RunFolder
    from dicore.run.run import Run

__all__ = ["compile_resumed", "nothing_left", "refuse_changes", "resumed_folder"]

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
    known = limits_of(folder.record)
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
    before = result_of(run.folder.record)
    if before.get("stop") and (before.get("best_return") or 0.0) >= limits.stop_value:
        return f"the stop value {limits.stop_value:g} was reached; env.stop_value=inf goes on"
    return ""
