"""Resuming where the command line asks for more: a Slurm queue, packages that are missing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from dicore.data.json_codec import loads
from dicore.errors import ConfigError, ConfigWarning, RegistryError, UsageError
from dicore.run.atomic import read_json
from dicore.run.launch import TrainRequest
from dicore_registry import default

__all__ = ["requeue", "requeued", "without_missing"]

_LOGGER = "pipeline.logger["
_HOOK = "policy.learn.learner.hook."
_PREEMPTED = 75
"""Exit code of a training that a preemption signal stopped, after saving."""
_TIMEOUT_S = 60

_log = logging.getLogger(__name__)


class _BeforeTheRun:
    """Handler of preemption signals while nothing is to be saved yet: requeues and exits."""

    until_run = True
    """The run replaces it by its own handler."""

    def __call__(self, number: int, frame: object) -> None:
        code = requeue(_PREEMPTED)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)  # an exception could end in the code of an environment


def requeued(request: TrainRequest) -> TrainRequest:
    """Returns the request of a job that may be requeued: it resumes the run if there is one.

    From now on a preemption signal requeues the job, also before the run begins.

    Raises:
        UsageError: the request overwrites the run, or there is no Slurm job.
    """
    if request.exist not in ("new", "resume"):
        raise UsageError(
            f"--requeue resumes the run; --exist {request.exist} does not",
            hint="remove --exist",
        )
    if "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            "--requeue: this is not a Slurm job (SLURM_JOB_ID is not set)",
            hint="remove --requeue; elsewhere, start the command again with --exist resume if its"
            f" exit code is {_PREEMPTED}",
        )
    if sys.platform != "win32":  # it has no Slurm
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, _BeforeTheRun())
    return request if request.resume is not None else replace(request, exist="resume")


def requeue(exit_code: int) -> int:
    """Puts the Slurm job of this process back into the queue if the training was preempted.

    Returns:
        The exit code of the training.
    """
    if exit_code == _PREEMPTED:
        command = ["scontrol", "requeue", os.environ["SLURM_JOB_ID"]]
        try:
            subprocess.run(command, check=True, timeout=_TIMEOUT_S)  # noqa: S603 - constant
        except (OSError, subprocess.SubprocessError) as error:
            _log.warning("the job is not requeued: %s: %s", " ".join(command), error)
    return exit_code


def without_missing(config: Path) -> dict[str, object]:
    """Returns the config of a run without the loggers and hooks that are not installed.

    Args:
        config: The run's `config.json`.

    Raises:
        ConfigError: the file is not a run's config.
    """
    try:
        record = read_json(config, loads)
        tree, components = record["config"], record["components"]
        loggers, hooks = tree["pipeline"]["logger"], tree["policy"]["learn"]["learner"]["hook"]
        missing = [
            (path, each)
            for path, each in components.items()
            if path.startswith((_LOGGER, _HOOK)) and _is_missing(path, each)
        ]
        dropped = {path for path, _ in missing}
        kept = [each for i, each in enumerate(loggers) if f"{_LOGGER}{i}]" not in dropped]
        tree["pipeline"]["logger"] = kept
        for path in dropped:
            if path.startswith(_HOOK):
                hooks.pop(path.removeprefix(_HOOK), None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{config}: not the config of a run: {error!r}") from error
    for path, each in missing:
        source = f"{each.get('dist')} {each.get('version')}"
        text = f"{path}: left out: {each.get('type')} of {source} is not installed"
        warnings.warn(text, ConfigWarning, stacklevel=2)
    return dict(tree)


def _is_missing(path: str, component: dict[str, Any]) -> bool:
    kind = "logger" if path.startswith(_LOGGER) else "learner_hook"
    try:
        default().find(kind, component["type"])
    except RegistryError:
        return True
    return False
