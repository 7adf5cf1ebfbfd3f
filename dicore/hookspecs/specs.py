"""The hooks that plugins can implement; arguments are passed by keyword and only ever added to.

An implementation takes the arguments it needs, in any order. Unless a hook says otherwise all
implementations are called, the last registered first; `hookimpl(tryfirst=True)` and
`hookimpl(wrapper=True)` are pluggy's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    import click

    from dicore.config import Compiled, RunConfig
    from dicore.hookspecs.manager import Diagnostic
    from dicore.interfaces.logger import ILogger
    from dicore.run.run import Run
    from dicore_registry import Registry

__all__ = ["OBSERVERS", "PROJECT", "hookimpl", "hookspec"]

PROJECT: Final = "dicore"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as an implementation of the hook of its name."""

OBSERVERS: Final = frozenset(
    {
        "dicore_add_commands",
        "dicore_doctor",
        "dicore_report_header",
        "dicore_run_finished",
        "dicore_run_started",
    }
)
"""Hooks that change no training: one that raises is a warning, and off after three times."""


@hookspec
def dicore_add_commands(group: click.Group) -> None:
    """Adds commands that the metadata does not name; called when a word is no installed command.

    A command whose name is known belongs into the group `dicore.command`, which is quicker.
    """


@hookspec
def dicore_config_loaded(cfg: Mapping[str, Any]) -> None:
    """Looks at a config as it was said, before any component is looked up; raises to refuse it.

    Args:
        cfg: Preset, file and command line as one tree, without the defaults of the components; a
            copy. A run that is resumed has no such tree: what it was made with stands.
    """


@hookspec
def dicore_config_compiled(
    cfg: RunConfig, provenance: Mapping[str, Mapping[str, Any]], compiled: Compiled
) -> None:
    """Looks at a compiled and bound config before anything is made; raises to refuse it.

    Args:
        cfg: The frozen config.
        provenance: Who supplied each component, by the path of its slot.
        compiled: The same with the origin of every value.
    """


@hookspec
def dicore_default_learner_hooks(cfg: RunConfig) -> Iterable[Any] | None:
    """Returns learner hooks that every learner of a run gets beside the configured ones."""


@hookspec
def dicore_run_started(run: Run) -> None:
    """Called once the run's folder is made and before anything is built."""


@hookspec(firstresult=True)
def dicore_run(run: Run, work: Callable[[], Any]) -> Any:
    """The training itself; only `hookimpl(wrapper=True)` makes sense here: yield once, return it.

    Args:
        run: The run.
        work: Trains; dicore itself calls it.
    """


@hookspec
def dicore_run_finished(run: Run, status: str) -> None:
    """Called when a run has ended and its result is written.

    Args:
        run: The run.
        status: `done`, `interrupted` or `failed`.
    """


@hookspec
def dicore_report_header(run: Run) -> str | Iterable[str] | None:
    """Returns lines that are shown when a training begins."""


@hookspec
def dicore_doctor(registry: Registry) -> Iterable[Diagnostic] | None:
    """Returns what `dicore doctor` should report besides its own findings."""


@hookspec(firstresult=True)
def dicore_make_logger(cfg: RunConfig) -> ILogger | None:
    """Returns a logger that every run gets beside the configured ones; the first answer counts."""


@hookspec(firstresult=True)
def dicore_pick_device(cfg: RunConfig) -> str | None:
    """Returns where tensors live (`cuda:1`), for a config that asks for CUDA; the first counts."""
