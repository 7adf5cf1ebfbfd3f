"""Launches one training, from request to result, for `dicore train` and `serial_pipeline`.

Nothing is written to disk before the config is compiled and bound.
"""

from __future__ import annotations

import gc
import os
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from dicore.config import Compiled, bind, write_config
from dicore.config.layers import PRESET
from dicore.console import without_secrets
from dicore.data.tree import loaded_torch
from dicore.errors import ConfigError, DicoreError, PluginLoadError, UsageError
from dicore.hookspecs.manager import Plugins, load_plugins
from dicore.interfaces.hook import ILearnerHook
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.folder import RunFolder
from dicore.run.request import (
    CHANGEABLE,
    TrainRequest,
    changes_of,
    compile_request,
    compile_resumed,
    folder_name,
    nothing_left,
    resumed_folder,
)
from dicore.run.signals import StopNow, stop_on_signals
from dicore_registry.explain import brief
from dicore_registry.public_names import public_name

if TYPE_CHECKING:
    from dicore.interfaces.pipeline import IPipeline
    from dicore.run.random import Streams
    from dicore.run.run import Run

__all__ = [
    "LaunchObserver", "Outcome", "TrainRequest", "build_pipeline", "compile_for", "compile_request",
    "described", "launch", "only_training", "prepare", "recorded",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training ended; `policy` is None if a second signal ended it."""

    policy: Any
    run: Run
    exit_code: int


class LaunchObserver(Protocol):
    """Receives start and end of a training, to print them."""

    def started(
        self, run: Run, request: TrainRequest, compiled: Compiled, header: Sequence[str], /
    ) -> None:
        """The run folder is made; `header` are the lines of `dicore_report_header`."""

    def ended(self, run: Run, profile: object, /) -> None:
        """The training ended; `profile` is the timer of a profiled run, else None."""

    def nothing_to_do(self, run: Run, reason: str, /) -> None:
        """The run to resume has already ended."""


def launch(
    config: Any = None,
    *,
    model: Any | None = None,
    observer: LaunchObserver | None = None,
    **wishes: Any,
) -> Outcome:
    """Compiles and binds the config, makes the run folder, and trains.

    In the main thread, SIGINT and SIGTERM end the training after the present iteration.

    Args:
        config: A `TrainRequest`, or the `config` of one.
        model: A network to use instead of the configured one.
        observer: Receives start and end of the training.
        **wishes: The other fields of a `TrainRequest`.

    Raises:
        ConfigError: the config is wrong; no folder was made.
        UsageError: another training runs in this process; no folder was made.
        DicoreError: the training failed; `run.json` holds the error.
    """
    ready = isinstance(config, TrainRequest) and not wishes
    request = config if ready else TrainRequest(config=config, **wishes)
    with only_training(request):
        return _launch(request, model, observer)


_LOCK = threading.Lock()
_training_pid = 0
"""The process that a training runs in; its forks have another id."""


@contextmanager
def only_training(request: TrainRequest) -> Iterator[None]:
    """Refuses a second training in this process while the block runs.

    `sys.exit` of a component becomes an error. Afterwards the working folder is as before.
    """
    global _training_pid  # noqa: PLW0603 - one process, one training
    try:
        here = os.getcwd()  # noqa: PTH109 - it may not exist
    except FileNotFoundError:
        raise UsageError("the working folder was deleted", hint="change to another one") from None
    with _LOCK:
        if _training_pid == os.getpid():
            raise UsageError(
                "another training runs in this process; they share random streams, so neither"
                " would be reproducible",
                hint="train one after the other, or each in its own process (multiprocessing)",
            )
        _training_pid = os.getpid()
    try:
        if request.own_process:
            gc.disable()
        yield
    except SystemExit as error:
        calls = traceback.walk_tb(error.__traceback__)  # `exit` is a frozen object, `sys.exit` not
        *_, (frame, line) = (call for call in calls if call[0].f_code.co_filename[0] != "<")
        raise DicoreError(
            f"sys.exit({error.code!r}) was called in {frame.f_code.co_qualname}"
            f" ({frame.f_code.co_filename}:{line}); it must not end a training",
            hint="raise an exception instead; task.finish = True ends the training",
        ) from error
    finally:
        _training_pid = 0
        if request.own_process:
            gc.enable()
        with suppress(OSError):
            os.chdir(here)


def _launch(request: TrainRequest, model: Any | None, observer: LaunchObserver | None) -> Outcome:
    plugins = load_plugins()
    folder = resumed_folder(request)
    compiled, changes = compile_for(request, folder, plugins)
    pipeline = build_pipeline(compiled, plugins)
    profiler: Any = public_name("profiled", "--profile") if request.profile else nullcontext
    run = prepare(compiled, request, folder, plugins, changes)
    if folder is not None and (reason := nothing_left(run)):
        run.abandon()
        if observer is not None:
            observer.nothing_to_do(run, reason)
        return Outcome(None, run, 0)
    policy = timer = None
    with recorded(run, plugins) as stopped:
        plugins.call("dicore_run_started", run=run)
        if request.own_process:
            run.at_first_step(gc.freeze)  # objects that exist already are never searched
            run.at_first_step(gc.enable)
        if observer is not None:
            header = [*changes.values(), *plugins.lines("dicore_report_header", run=run)]
            observer.started(run, request, compiled, header)
        with profiler(run) as timer:
            policy = plugins.run(lambda: pipeline.run(compiled, run, model=model), run=run)
    if observer is not None:
        observer.ended(run, timer if request.profile else None)
    return Outcome(policy, run, 128 + stopped[0].number if stopped else run.stop.exit_code)


def _replace_config(compiled: Compiled, folder: RunFolder) -> None:
    try:
        folder.keep_config()
        write_config(compiled, folder.path)
    except OSError as error:
        raise _unwritable(folder, error) from error


@contextmanager
def recorded(run: Run, plugins: Plugins, *, signals: bool = True) -> Iterator[list[StopNow]]:
    """Starts the run, and records in `run.json` how the block ended; signals stop it.

    A second signal ends the block; it is in the list. After another error, the parts are saved as
    checkpoint `exception`, from which a run cannot be resumed: a step was not finished.
    """
    stopped: list[StopNow] = []
    status, error_text = "failed", ""
    run.start()
    try:
        with stop_on_signals(run.stop) if signals else nullcontext():
            yield stopped
        status = "interrupted" if run.stop.signal is not None else "done"
    except StopNow as stop:
        status, error_text = "interrupted", str(stop)
        stopped.append(stop)
    except BaseException as error:
        error_text = described(error)
        run.save_failed(error)
        raise
    finally:
        run.finish(status, error_text)
        plugins.call("dicore_run_finished", run=run, status=status)


def described(error: BaseException) -> str:
    """Returns class and text of an error, without its hint, even if its `__str__` raises."""
    try:
        text = error.message if isinstance(error, DicoreError) else str(error)
    except Exception:
        return brief(error)
    return without_secrets(f"{type(error).__name__}: {text}")


def compile_for(
    request: TrainRequest, folder: RunFolder | None, plugins: Plugins
) -> tuple[Compiled, dict[str, str]]:
    """Compiles the config and binds it to the spaces of its environment; see `changes_of`."""
    if folder is not None and request.resume is not None:
        compiled = compile_resumed(request, folder)
    else:
        compiled = compile_request(request, plugins)
    compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
    return compiled, {} if folder is None else changes_of(compiled, request, folder)


def build_pipeline(compiled: Compiled, plugins: Plugins) -> IPipeline:
    """Builds the pipeline, which checks that the parts fit together."""
    pipeline: IPipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
    if (check := getattr(pipeline, "check", None)) is not None:  # see `SupportsCheck`
        check(compiled)
    plugins.call(
        "dicore_config_compiled",
        cfg=compiled.cfg,
        provenance=compiled.components,
        compiled=compiled,
    )
    return pipeline


def prepare(
    compiled: Compiled,
    request: TrainRequest,
    resumed: RunFolder | None,
    plugins: Plugins,
    changes: Iterable[str] = (),
    streams: Streams | None = None,
) -> Run:
    """Makes the folder with its config, and the run with its loggers and streams (None: new)."""
    from dicore.run.random import seed_everything
    from dicore.run.run import Limits, Run

    context = BuildContext(seed=compiled.seed)
    loggers = [each.build(context) for each in compiled.pipeline.logger]
    loggers += plugins.call("dicore_make_logger", cfg=compiled.cfg)
    hooks, device = _learner_hooks(compiled, plugins), _device(compiled, plugins)
    folder = resumed or RunFolder.prepare(folder_name(compiled, request), request.exist)
    try:
        if resumed is None:
            write_config(compiled, folder.path)
        else:
            folder.check_space()
        pipeline = compiled.pipeline
        run = Run(
            folder,
            streams or seed_everything(compiled.seed),
            argv=request.argv,
            components=compiled.components,
            loggers=loggers,
            limits=Limits(pipeline.max_env_step, pipeline.max_train_iter, compiled.env.stop_value),
            resume=resumed is not None,
        )
    except BaseException as error:
        folder.unlock()
        if isinstance(error, OSError):
            raise _unwritable(folder, error) from error
        raise
    run.learner_hooks, run.device, run.ignore_missing = hooks, device, request.ignore_missing
    named = (each for each in compiled.origin.values() if each.startswith(PRESET))
    run.metadata.values["preset"] = next(named, "").removeprefix(PRESET)
    if resumed is not None and not all(path.startswith(CHANGEABLE) for path in changes):
        run.at_first_step(partial(_replace_config, compiled, resumed))  # the parts have loaded then
    return run


def _unwritable(folder: RunFolder, error: OSError) -> UsageError:
    return UsageError(f"{folder}: cannot be written: {error.strerror}")


def _device(compiled: Compiled, plugins: Plugins) -> str:
    """Returns the device of the run: `cpu`, the CUDA device that a plugin selects, or `cuda`."""
    torch = loaded_torch()
    if not compiled.policy.cuda:
        return "cpu"
    if torch is not None and not torch.cuda.is_available():
        text = "policy.cuda: no CUDA device is available"
        raise ConfigError(text, hint="set policy.cuda=False (--device cpu)")
    return plugins.first("dicore_pick_device", cfg=compiled.cfg) or "cuda"


def _learner_hooks(compiled: Compiled, plugins: Plugins) -> list[object]:
    """Returns the learner hooks that plugins add."""
    hooks = plugins.lines("dicore_default_learner_hooks", cfg=compiled.cfg)
    for hook in hooks:
        if not isinstance(hook, ILearnerHook):
            raise PluginLoadError(
                f"dicore_default_learner_hooks of a plugin returned {hook!r}, not a LearnerHook;"
                f" plugins: {', '.join(plugins.labels.values())}"
            )
    return hooks
