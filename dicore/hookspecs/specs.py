"""The hooks that plugins can implement.

An implementation declares the arguments that it needs, in any order; later versions of dicore only
add arguments. Unless a hook says otherwise all implementations are called, the last registered
first; `hookimpl(tryfirst=True)` and `hookimpl(wrapper=True)` are pluggy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pluggy

from dicore_registry import Registry

if TYPE_CHECKING:
    import click

    from dicore.config import Compiled, RunConfig
    from dicore.hookspecs.manager import Diagnostic
    from dicore.interfaces.logger import ILogger
    from dicore.run.run import Run

__all__ = ["OBSERVERS", "PROJECT", "hookimpl", "hookspec"]

PROJECT: Final = "dicore"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as an implementation of the hook with its name."""

OBSERVERS: Final = frozenset(
    {
        "dicore_add_commands",
        "dicore_doctor",
        "dicore_report_header",
        "dicore_run_finished",
        "dicore_run_started",
    }
)
"""Hooks that do not affect training: errors are warnings; after three, the hook is disabled."""


@hookspec
def dicore_add_commands(group: click.Group) -> None:
    """Adds commands that are not in the metadata; called for an unknown command.

    Declare commands with a fixed name in the entry-point group `dicore.command`, which is faster.
    """


@hookspec
def dicore_config_loaded(cfg: Mapping[str, object]) -> None:
    """Receives the merged sources of a config before components are resolved; raises to reject it.

    `cfg` is a copy of preset, file and command line as one tree, without defaults. The hook is not
    called for resumed runs, which keep their config.
    """


@hookspec
def dicore_config_compiled(
    cfg: RunConfig, provenance: Mapping[str, Mapping[str, object]], compiled: Compiled
) -> None:
    """Receives the compiled and bound config before the run starts; raises to reject it.

    `cfg` is the frozen config, `compiled` adds the origin of every value, `provenance` the package
    that provides each component, by option path.
    """


@hookspec
def dicore_default_learner_hooks(cfg: RunConfig) -> Iterable[object] | None:
    """Returns learner hooks to add to the configured ones, for every learner of a run."""


@hookspec
def dicore_run_started(run: Run) -> None:
    """Called when the run folder is made, before the components are built."""


@hookspec(firstresult=True)
def dicore_run(run: Run, work: Callable[[], object]) -> object:
    """Wraps the training `work`; implement it with `hookimpl(wrapper=True)`: `return (yield)`."""


@hookspec
def dicore_run_finished(run: Run, status: str) -> None:
    """Called after the result is written; `status` is `done`, `interrupted` or `failed`."""


@hookspec
def dicore_report_header(run: Run) -> str | Iterable[str] | None:
    """Returns lines to print when a training starts."""


@hookspec
def dicore_doctor(registry: Registry) -> Iterable[Diagnostic] | None:
    """Returns diagnostics to add to those of `dicore doctor`."""


@hookspec(firstresult=True)
def dicore_make_logger(cfg: RunConfig) -> ILogger | None:
    """Returns a logger to add to the configured ones; the first one is used."""


@hookspec(firstresult=True)
def dicore_pick_device(cfg: RunConfig) -> str | None:
    """Returns a device (`cuda:1`) for configs with CUDA; the first one is used."""
