"""One training from request to result: what `dicore train` and `serial_pipeline` both do.

Nothing is made on disk before the config is compiled and bound.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dicore.config import Compiled, bind
from dicore.errors import DicoreError, PluginLoadError, UsageError
from dicore.hookspecs.manager import Plugins, load_plugins
from dicore.interfaces.hook import ILearnerHook
from dicore.interfaces.pipeline import SupportsCheck
from dicore.run.request import (
    TrainRequest,
    compile_request,
    compile_resumed,
    env_label,
    folder_name,
    nothing_left,
    refuse_changes,
    resumed_folder,
)

if TYPE_CHECKING:
    from dicore.run.folder import RunFolder
    from dicore.run.run import Run

__all__ = ["Outcome", "TrainRequest", "compile_request", "launch"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training ended.

    Args:
        policy: The trained policy; None where a second signal cut the training short.
        run: Its folder, store and result.
        exit_code: 0, or 128 + signal.
    """

    policy: Any
    run: Run
    exit_code: int


def launch(config: Any = None, *, model: Any | None = None, **wishes: Any) -> Outcome:
    """Compiles, binds, makes the run folder, and trains.

    In the main thread SIGINT and SIGTERM end the training after the present iteration.

    Args:
        config: What to train: a `TrainRequest`, or the `config` of one.
        model: A network to use instead of the configured one.
        **wishes: The other fields of a `TrainRequest`.

    Raises:
        ConfigError: the config is wrong; no folder was made.
        UsageError: another training is going on in this process; no folder was made.
        DicoreError: the training failed; `run.json` says so.
    """
    ready = isinstance(config, TrainRequest) and not wishes
    request = config if ready else TrainRequest(config=config, **wishes)
    with _alone():
        if not request.own_process:
            return _launch(request, model)
        from dicore.console import own_process

        own_process()
        gc.disable()
        try:
            return _launch(request, model)
        finally:
            gc.enable()


_LOCK = threading.Lock()
_training_in = 0
"""Id of the process that a training is going on in; a fork of it is another one."""


@contextmanager
def _alone() -> Iterator[None]:
    """Keeps a second training out of this process while the block runs."""
    global _training_in  # noqa: PLW0603 - one process, one training
    with _LOCK:
        if _training_in == os.getpid():
            raise UsageError(
                "a training is going on in this process already, and the random streams are the"
                " process's: neither could be repeated",
                hint="train one after the other, or in a process each (multiprocessing)",
            )
        _training_in = os.getpid()
    try:
        yield
    finally:
        _training_in = 0


def _launch(request: TrainRequest, model: Any | None) -> Outcome:
    plugins = load_plugins()
    folder = resumed_folder(request)
    if folder is not None and request.resume is not None:
        compiled = compile_resumed(request, folder)
    else:
        compiled = compile_request(request, plugins)
    from dicore.run.env_factory import (
        BuildContext,
        spaces_of,  # what follows imports numpy and more
    )

    compiled = bind(compiled, *spaces_of(compiled.env, compiled.seed))
    if folder is not None:
        refuse_changes(compiled, folder, trust=request.trust)
    pipeline = compiled.pipeline.build(BuildContext(seed=compiled.seed))
    if isinstance(pipeline, SupportsCheck):
        pipeline.check(compiled)
    facts = {"cfg": compiled.cfg, "provenance": compiled.components, "compiled": compiled}
    plugins.call("dicore_config_compiled", **facts)
    run = _prepare(compiled, request, folder, plugins)
    if folder is not None and (reason := nothing_left(run)):
        return _nothing_to_do(run, reason, announce=request.own_process)
    run.start()
    plugins.call("dicore_run_started", run=run)
    if request.own_process:
        run.at_first_step(_collect_again)
        _announce_start(run, request, compiled, plugins)
    with _profiled(run, wanted=request.profile) as timer:
        outcome = _train(pipeline, compiled, run, model, plugins)
    if request.own_process:
        if timer is not None:
            timer.show()
        _announce_end(run)
    return outcome


def _profiled(run: Run, *, wanted: bool) -> AbstractContextManager[Any]:
    if not wanted:
        return nullcontext()
    from dicore import profiled

    timed: AbstractContextManager[Any] = profiled(run)
    return timed


def _collect_again() -> None:
    """Turns garbage collection on; what was made so far is never looked through again."""
    gc.freeze()
    gc.enable()


def _nothing_to_do(run: Run, reason: str, *, announce: bool) -> Outcome:
    run.abandon()
    if announce:
        from dicore.console import say

        say(f"nothing to do in {run.folder}: {reason}")
    return Outcome(None, run, 0)


def _prepare(
    compiled: Compiled, request: TrainRequest, resumed: RunFolder | None, plugins: Plugins
) -> Run:
    """Makes the folder with its config, and the run with its streams and loggers."""
    from dicore.config import write_config
    from dicore.run.env_factory import BuildContext
    from dicore.run.folder import RunFolder
    from dicore.run.random import seed_everything
    from dicore.run.run import Limits, Run

    context = BuildContext(seed=compiled.seed)
    loggers = [each.build(context) for each in compiled.pipeline.logger]
    loggers += plugins.call("dicore_make_logger", cfg=compiled.cfg)
    hooks = _learner_hooks(compiled, plugins)
    if resumed is not None:
        folder = resumed
        folder.check_space()
    else:
        folder = RunFolder.prepare(folder_name(compiled, request), request.exist)
        try:
            write_config(compiled, folder.path)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
    run = Run(
        folder,
        seed_everything(compiled.seed),
        argv=request.argv,
        components=compiled.components,
        loggers=loggers,
        limits=Limits(
            compiled.pipeline.max_env_step,
            compiled.pipeline.max_train_iter,
            compiled.env.stop_value,
        ),
        resume=resumed is not None,
    )
    run.learner_hooks = hooks
    if compiled.policy.cuda:
        run.device = plugins.first("dicore_pick_device", cfg=compiled.cfg) or ""
    return run


def _learner_hooks(compiled: Compiled, plugins: Plugins) -> list[Any]:
    """Returns the learner hooks that plugins add.

    Raises:
        PluginLoadError: something else is among them.
    """
    hooks = plugins.lines("dicore_default_learner_hooks", cfg=compiled.cfg)
    for hook in hooks:
        if not isinstance(hook, ILearnerHook):
            said = f"dicore_default_learner_hooks of a plugin gave {hook!r}, no LearnerHook"
            raise PluginLoadError(f"{said}; plugins: {', '.join(plugins.labels.values())}")
    return hooks


def _train(
    pipeline: Any, compiled: Compiled, run: Run, model: Any | None, plugins: Plugins
) -> Outcome:
    from dicore.run.signals import StopNow, stop_on_signals

    def finish(status: str, error: str = "") -> None:
        run.finish(status, error)
        plugins.call("dicore_run_finished", run=run, status=status)

    try:
        with stop_on_signals(run.stop):
            policy = plugins.run(lambda: pipeline.run(compiled, run, model=model), run=run)
    except StopNow as stop:
        finish("interrupted", str(stop))
        return Outcome(None, run, 128 + stop.number)
    except BaseException as error:
        finish("failed", _brief(error))
        raise
    finish("interrupted" if run.stop.signal is not None else "done")
    return Outcome(policy, run, run.stop.exit_code)


def _brief(error: BaseException) -> str:
    text = error.message if isinstance(error, DicoreError) else str(error)
    return f"{type(error).__name__}: {text}"


def _announce_start(run: Run, request: TrainRequest, compiled: Compiled, plugins: Plugins) -> None:
    from dicore.console import say

    label = env_label(compiled, request.env)
    say(f"training {compiled.policy.type} on {label}, seed {compiled.seed}, in {run.folder}")
    if request.exist == "resume" and run.resumed_from is None:
        say("no checkpoint there to go on from: training begins")
    if not run.limits.ends:
        say("neither a budget nor env.stop_value is given: it trains until Ctrl-C, and saves then")
    for line in plugins.lines("dicore_report_header", run=run):
        say(line)


def _announce_end(run: Run) -> None:
    from dicore.console import is_quiet, number, say

    result = run.result
    best = "none" if result.best_return is None else number(result.best_return)
    ending = {True: "stop value reached", False: "budget spent"}[result.stop]
    if run.stop_requested:
        ending = "stopped"
    where = f", in {run.folder}" if is_quiet() else ""
    say(
        f"{ending}: best mean return {best} after {result.env_step} env steps,"
        f" {result.train_iter} updates, {result.wall_s:.1f} s{where}",
        result=True,
    )
    kept: Mapping[str, str] = {
        "curve": f"tensorboard --logdir {run.folder}   (numbers: {run.folder.metrics})",
        "config": str(run.folder.config),
        "checkpoint": str(run.folder.checkpoints / (run.store.best_or_latest() or "")),
        "folder": str(run.folder),
    }
    if run.stop_requested:
        kept = {"go on": f"dicore train --resume {run.folder}", **kept}
    for what, where in kept.items():
        say(f"{what + ':':<12}{where}")
