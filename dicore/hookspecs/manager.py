"""The plugins of one run, loaded one by one; a plugin that fails to load is left out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from dicore.errors import DicoreError, PluginHookError, PluginLoadError
from dicore_registry import LOCAL, Entry, Registry, default, explain, nearest
from dicore_registry.errors import PluginWarning
from dicore_registry.plugin_filter import is_on

if TYPE_CHECKING:
    import pluggy

    from dicore.run.run import Run

__all__ = ["Diagnostic", "Level", "Plugins", "hooks_of", "load_plugins"]

Level = Literal["error", "warning"]

_MAX_FAILURES: Final = 3
"""Failures of an observing hook after which it is no longer called."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem that `dicore doctor` reports, about a component, a distribution or a file."""

    level: Level
    about: str
    text: str
    hint: str = ""
    check: str = ""


class Plugins:
    """The plugins of one run, command or report; never shared between runs.

    Without installed plugins, all methods do nothing and pluggy is not imported. `labels` holds
    `'name' (dist version)` of each plugin, `problems` a text for each that was left out.
    """

    def __init__(
        self,
        manager: pluggy.PluginManager | None = None,
        labels: dict[str, str] | None = None,
        problems: tuple[str, ...] = (),
    ) -> None:
        self._manager = manager
        self.labels = labels or {}
        self.problems = problems
        self._failures: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return self._manager is not None

    def call(self, hook: str, **arguments: object) -> list[Any]:
        """Calls a hook of all plugins and returns their results, without None.

        Errors name the plugin. Those of an observing hook are warnings; after
        three, the hook is no longer called.
        """
        if self._manager is None:
            return []
        from dicore.hookspecs.specs import OBSERVERS

        if hook in OBSERVERS:
            return [
                result for name in self.labels for result in self._observe(hook, name, arguments)
            ]
        caller = getattr(self._manager.hook, hook)
        with self._named(caller):
            return _as_list(caller(**arguments))

    def lines(self, hook: str, **arguments: Any) -> list[Any]:
        """Calls a hook that returns lists or single texts, and returns all items."""
        results = self.call(hook, **arguments)
        lists = ([result] if isinstance(result, str) else result for result in results)
        return [item for each in lists for item in each]

    def first(self, hook: str, **arguments: object) -> Any:
        """Returns the first result of a hook that is not None; None if there is none."""
        return next(iter(self.call(hook, **arguments)), None)

    def run(self, work: Callable[[], object], *, run: Run) -> Any:
        """Calls `work` inside the `dicore_run` wrappers of the plugins."""
        if self._manager is None:
            return work()
        raised: list[BaseException] = []

        def watched() -> Any:
            try:
                return work()
            except BaseException as error:
                raised.append(error)
                raise

        caller = self._manager.hook.dicore_run
        with self._named(caller, not_theirs=raised):
            return caller(run=run, work=watched)[0]

    def _observe(self, hook: str, name: str, arguments: dict[str, object]) -> list[object]:
        """Calls an observing hook of one plugin; turns its errors into warnings."""
        key = (hook, name)
        if self._manager is None or self._failures.get(key, 0) >= _MAX_FAILURES:
            return []
        others = [plugin for other, plugin in self._manager.list_name_plugin() if other != name]
        try:
            results = _as_list(self._manager.subset_hook_caller(hook, others)(**arguments))
            return [_checked(hook, each) for each in results]
        except (Exception, SystemExit) as error:
            self._failures[key] = count = self._failures.get(key, 0) + 1
            after = "; it is no longer called" if count == _MAX_FAILURES else ""
            text = f"plugin {self.labels[name]}: {hook} raised {explain.brief(error)}"
            warnings.warn(text + after, PluginWarning, stacklevel=4)
            return []

    @contextmanager
    def _named(
        self, caller: pluggy.HookCaller, not_theirs: Sequence[BaseException] = ()
    ) -> Iterator[None]:
        """Names the plugin in its errors; `not_theirs` only pass through plugins."""
        try:
            yield
        except Exception as error:
            if any(error is each for each in not_theirs):
                raise
            owners = {
                getattr(each.function, "__code__", None): each.plugin_name
                for each in caller.get_hookimpls()
            }
            trace = error.__traceback__
            while trace is not None:
                name = owners.get(trace.tb_frame.f_code)
                if name in self.labels:
                    label = f"plugin {self.labels[name]}"
                    if isinstance(error, DicoreError):
                        error.add_note(f"in {caller.name} of {label}")
                        break
                    text = f"{label}: {caller.name} raised {explain.brief(error)}"
                    raise PluginHookError(text, hint="--debug shows the traceback") from error
                trace = trace.tb_next
            raise


class _Core:
    """The innermost implementation of hooks that plugins wrap."""

    @staticmethod
    def dicore_run(work: Callable[[], object]) -> object:
        return (work(),)  # the first result of a hook must not be None; that of work may be


def _new_manager() -> pluggy.PluginManager:
    import pluggy

    from dicore.hookspecs import specs

    manager = pluggy.PluginManager(specs.PROJECT)
    manager.add_hookspecs(specs)
    specs.hookimpl(trylast=True)(_Core.dicore_run)
    manager.register(_Core, name="dicore")
    return manager


def load_plugins(registry: Registry | None = None, *, strict: bool | None = None) -> Plugins:
    """Loads the installed plugins, or those of `registry`, into a manager of their own.

    With `strict` (None: if `DICORE_STRICT_PLUGINS` is set) a plugin that fails to load raises
    `PluginLoadError`; else it is left out with a warning.
    """
    registry = default() if registry is None else registry
    declared = [entry for entry in registry.entries("plugin") if entry.dist != LOCAL]
    entries = [entry for entry in declared if entry.status != "disabled"]
    if not entries:
        return Plugins()
    manager = _new_manager()
    labels: dict[str, str] = {}
    problems: list[str] = []
    for entry in entries:
        try:
            if _add(manager, registry, entry):
                labels[entry.qualified] = f"'{entry.name}' ({entry.provider})"
        except DicoreError as error:
            problems.append(error.message)
        except Exception as error:  # even dir() of a plugin may fail
            problems.append(f"{entry.label}: {explain.brief(error)}")
    strict = is_on(os.environ, "DICORE_STRICT_PLUGINS") if strict is None else strict
    if problems and strict:
        raise PluginLoadError("\n".join(problems))
    for text in problems:
        warnings.warn(f"{text}; the plugin is not used", PluginWarning, stacklevel=2)
    return Plugins(manager if labels else None, labels, tuple(problems))


def hooks_of(registry: Registry, entry: Entry) -> list[str]:
    """Returns the hooks that a plugin implements; raises `PluginLoadError` if it is broken."""
    manager = _new_manager()
    _add(manager, registry, entry)
    return sorted(each.name for each in manager.get_hookcallers(registry.load(entry)) or ())


def _add(manager: pluggy.PluginManager, registry: Registry, entry: Entry) -> bool:
    """Registers one plugin; returns whether it is a new one."""
    from pluggy import PluginValidationError

    plugin = registry.load(entry)
    if manager.is_registered(plugin):
        return False  # two packages declare the same module
    if problem := _problem(manager, plugin):
        raise PluginLoadError(f"{entry.label}: {problem}")
    try:
        manager.register(plugin, name=entry.qualified)
    except (PluginValidationError, ValueError) as error:
        if manager.is_registered(plugin):
            manager.unregister(plugin)
        raise PluginLoadError(f"{entry.label}: {' '.join(str(error).split())}") from error
    return True


def _problem(manager: pluggy.PluginManager, plugin: object) -> str:
    """Returns why a plugin cannot be registered, or ""."""
    from pluggy import HookImpl

    options = {name: manager.parse_hookimpl_opts(plugin, name) for name in dir(plugin)}
    for name, marked in options.items():
        if name.startswith("dicore_") and marked is None and callable(getattr(plugin, name)):
            return f"{name} is not marked with @hookimpl"
    hooks = {name: caller.spec for name, caller in vars(manager.hook).items() if name[0] != "_"}
    found = {name: marked for name, marked in options.items() if marked is not None}
    for name, marked in found.items():
        hook = marked["specname"] or name
        spec = hooks.get(hook)
        if spec is None:
            if marked["optionalhook"]:
                continue
            close = nearest(hook, hooks)
            hint = f"did you mean '{close}'?" if close else f"hooks: {', '.join(sorted(hooks))}"
            return f"no hook '{hook}'; {hint}"
        implementation = HookImpl(plugin, name, getattr(plugin, name), marked)
        if wrong := sorted(set(implementation.argnames) - set(spec.argnames)):
            names = ", ".join(map(repr, wrong))
            return (
                f"hook '{hook}' has no argument{'s' * (len(wrong) > 1)} {names};"
                f" it has {', '.join(spec.argnames)}"
            )
    return "" if found else "it has no hooks"


def _checked(hook: str, result: Any) -> object:
    """Returns a hook's result as a list, or a text unchanged; raises `TypeError`."""
    items = [result] if isinstance(result, str) else list(result)
    expected = {"dicore_doctor": Diagnostic, "dicore_report_header": str}.get(hook, object)
    for each in items:
        if not isinstance(each, expected):
            raise TypeError(f"expected {expected.__name__}, got {each!r}")
    return result if isinstance(result, str) else items


def _as_list(results: Any) -> list[object]:
    """Returns a hook's results as a list; a `firstresult` hook has one or None."""
    return results if isinstance(results, list) else [] if results is None else [results]
