"""Plugins that cut across packages: pluggy modules of the entry-point group `dicore.plugin`.

A plugin is a module (or an object) with some of the hooks of `dicore.hookspecs.specs`:

    from dicore.hookspecs import hookimpl

    @hookimpl
    def dicore_report_header(run):
        return [f"on {socket.gethostname()}"]

declared in its package's metadata:

    [project.entry-points."dicore.plugin"]
    hostname = "acme_rl.hostname"

Components are no plugins in this sense: they are found by name, see `dicore_registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.hookspecs.diagnostic import Finding

if TYPE_CHECKING:
    from dicore.hookspecs.manager import Plugins, load_plugins
    from dicore.hookspecs.specs import hookimpl

__all__ = ["Finding", "Plugins", "hookimpl", "load_plugins"]


def __getattr__(name: str) -> Any:
    """Imports pluggy when it is first needed: where no plugin is installed, never."""
    if name == "hookimpl":
        from dicore.hookspecs.specs import hookimpl

        return hookimpl
    if name in ("Plugins", "load_plugins"):
        from dicore.hookspecs import manager

        return getattr(manager, name)
    raise AttributeError(f"module 'dicore.hookspecs' has no attribute '{name}'")
