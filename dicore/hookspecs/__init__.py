"""Plugins: pluggy modules that implement hooks of `dicore.hookspecs.specs`.

    from dicore.hookspecs import hookimpl

    @hookimpl
    def dicore_report_header(run):
        return [f"on {socket.gethostname()}"]

A package declares them in its metadata:

    [project.entry-points."dicore.plugin"]
    hostname = "acme_rl.hostname"

Components are not plugins in this sense: they are selected by name, see `dicore_registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.hookspecs.manager import Diagnostic, Plugins, load_plugins

if TYPE_CHECKING:
    from dicore.hookspecs.specs import hookimpl

__all__ = ["Diagnostic", "Plugins", "hookimpl", "load_plugins"]


def __getattr__(name: str) -> object:
    """Imports pluggy when `hookimpl` is first used: without installed plugins, never."""
    if name == "hookimpl":
        from dicore.hookspecs.specs import hookimpl

        return hookimpl
    raise AttributeError(f"module 'dicore.hookspecs' has no attribute '{name}'")
