"""The plugins of one run: loaded one by one, so that one that does not work stops nobody."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from dicore.errors import DicoreError, PluginLoadError
from dicore_registry import LOCAL, Entry, Registry, default, explain, nearest
from dicore_registry.errors import PluginWarning
from dicore_registry.plugin_filter import is_on

if TYPE_CHECKING:
    import pluggy

__all__ = ["Diagnostic", "Level", "Plugins", "load_plugins"]

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is not as it should be.

    Args:
        level: `error` for what does not work, `warning` for what may surprise.
        about: Whom it concerns: `kind/name (dist version)`, a distribution or a file.
        text: What is wrong.
        hint: What to do about it; "" where the text says so.
        check: Which check found it, in a word or two, for programs.
    """

    level: Level
    about: str
    text: str
    hint: str = ""
    check: str = ""


_PATIENCE: Final = 3
"""Failures of an observing hook after which it is not called any more."""


class Plugins:
    """The plugins that take part in one run, command or report; never shared between runs.

    Without installed plugins this is an empty shell, and pluggy is not imported.

    Args:
        manager: Holds them; None where there are none.
        labels: `'name' (dist version)` by the name under which the manager knows a plugin.
        problems: Why others were left out, one text each.
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

    def call(self, hook: str, **arguments: Any) -> list[Any]:
        """Calls a hook of all plugins and returns what they answer, without None.

        Raises:
            Exception: what a plugin raised, with a note that names it. An observing hook that
                raises is a warning instead, and is not called again after three times.
        """
        if self._manager is None:
            return []
        from dicore.hookspecs.specs import OBSERVERS

        if hook in OBSERVERS:
            return [answer for name in self.labels for answer in self._ask(hook, name, arguments)]
        caller = getattr(self._manager.hook, hook)
        with self._named(caller):
            return _as_list(caller(**arguments))

    def lines(self, hook: str, **arguments: Any) -> list[Any]:
        """Calls a hook whose answers are lists, or single texts, and returns all their items."""
        answers = self.call(hook, **arguments)
        lists = ([answer] if isinstance(answer, str) else answer for answer in answers)
        return [item for each in lists for item in each]

    def first(self, hook: str, **arguments: Any) -> Any:
        """Returns the first answer of a hook that is not None; None if nobody answers."""
        return next(iter(self.call(hook, **arguments)), None)

    def run(self, work: Callable[[], Any], *, run: Any) -> Any:
        """Does the work of a run inside the wrappers that plugins put round `dicore_run`."""
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
        with self._named(caller, innocent=raised):
            return caller(run=run, work=watched)[0]

    def _ask(self, hook: str, name: str, arguments: dict[str, Any]) -> list[Any]:
        """Calls an observing hook of one plugin; one that raises stops nobody."""
        key = (hook, name)
        if self._manager is None or self._failures.get(key, 0) >= _PATIENCE:
            return []
        others = [plugin for other, plugin in self._manager.list_name_plugin() if other != name]
        try:
            answers = _as_list(self._manager.subset_hook_caller(hook, others)(**arguments))
            return [_checked(hook, each) for each in answers]
        except (Exception, SystemExit) as error:
            self._failures[key] = count = self._failures.get(key, 0) + 1
            after = "; it is not called any more" if count == _PATIENCE else ""
            said = f"plugin {self.labels[name]}: {hook} raised {explain.brief(error)}"
            warnings.warn(said + after, PluginWarning, stacklevel=4)
            return []

    @contextmanager
    def _named(
        self, caller: pluggy.HookCaller, innocent: Sequence[BaseException] = ()
    ) -> Iterator[None]:
        """Adds to what is raised the plugin that it comes from; `innocent` only passed through."""
        try:
            yield
        except Exception as error:
            if any(error is each for each in innocent):
                raise
            owners = {
                getattr(each.function, "__code__", None): each.plugin_name
                for each in caller.get_hookimpls()
            }
            trace = error.__traceback__
            while trace is not None:
                name = owners.get(trace.tb_frame.f_code)
                if name in self.labels:
                    error.add_note(f"in {caller.name} of plugin {self.labels[name]}")
                    break
                trace = trace.tb_next
            raise


class _Core:
    """What dicore itself does where a hook wraps it."""

    @staticmethod
    def dicore_run(work: Callable[[], Any]) -> Any:
        return (work(),)  # a hook's first result must not be None; what work returns may be


def load_plugins(registry: Registry | None = None, *, strict: bool | None = None) -> Plugins:
    """Loads the installed plugins into a manager of their own.

    Args:
        registry: Where they are declared; None for everything installed.
        strict: One that does not work is an error, not a warning; None asks the environment
            (`DICORE_STRICT_PLUGINS`).

    Raises:
        PluginLoadError: a plugin does not work, and `strict`.
    """
    registry = default() if registry is None else registry
    declared = [entry for entry in registry.entries("plugin") if entry.dist != LOCAL]
    entries = [entry for entry in declared if entry.status != "disabled"]
    if not entries:
        return Plugins()
    import pluggy

    from dicore.hookspecs import specs

    manager = pluggy.PluginManager(specs.PROJECT)
    manager.add_hookspecs(specs)
    labels: dict[str, str] = {}
    problems: list[str] = []
    for entry in entries:
        try:
            if _add(manager, registry, entry):
                labels[entry.qualified] = f"'{entry.name}' ({entry.provider})"
        except DicoreError as error:
            problems.append(error.message)
        except Exception as error:  # an object that cannot even be looked at
            problems.append(f"{entry.label}: {explain.brief(error)}")
            if manager.has_plugin(entry.qualified):
                manager.unregister(name=entry.qualified)
    strict = is_on(os.environ, "DICORE_STRICT_PLUGINS") if strict is None else strict
    if problems and strict:
        raise PluginLoadError("\n".join(problems))
    for text in problems:
        warnings.warn(f"{text}; it is left out", PluginWarning, stacklevel=2)
    if not labels:
        return Plugins(problems=tuple(problems))
    manager.register(_core(specs), name="dicore")
    return Plugins(manager, labels, tuple(problems))


def _core(specs: Any) -> type[_Core]:
    """Marks what dicore does itself; it comes last, and wrappers are round it."""
    specs.hookimpl(trylast=True)(_Core.dicore_run)
    return _Core


def _add(manager: pluggy.PluginManager, registry: Registry, entry: Entry) -> bool:
    """Registers one plugin, or nothing of it; returns whether it is a new one.

    Raises:
        RegistryError: it cannot be used or imported.
        PluginLoadError: it has a hook that does not exist, or that takes what is not offered.
    """
    import pluggy

    plugin = registry.load(entry)
    if manager.is_registered(plugin):
        return False  # one module declared by two packages
    if problem := _unmarked(manager, plugin):
        raise PluginLoadError(f"{entry.label}: {problem}")
    try:
        manager.register(plugin, name=entry.qualified)
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError) as error:
        problem = _misspelt(manager, plugin) or _wrong_arguments(manager, str(error))
        if manager.is_registered(plugin):
            manager.unregister(plugin)
        raise PluginLoadError(f"{entry.label}: {problem}") from error
    return True


def _unmarked(manager: pluggy.PluginManager, plugin: Any) -> str:
    """Says which functions look like hooks and are not marked, or that there are no hooks."""
    names = [name for name in dir(plugin) if name.startswith("dicore_")]
    functions = [name for name in names if callable(getattr(plugin, name))]
    bare = [name for name in functions if manager.parse_hookimpl_opts(plugin, name) is None]
    if bare:
        return f"{bare[0]} is not marked with @hookimpl"
    marked = any(manager.parse_hookimpl_opts(plugin, name) for name in dir(plugin))
    return "" if marked else "it has no hooks"


def _misspelt(manager: pluggy.PluginManager, plugin: Any) -> str:
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            close = nearest(caller.name, _hooks(manager))
            hint = f"did you mean '{close}'?" if close else f"hooks: {', '.join(_hooks(manager))}"
            return f"no hook '{caller.name}'; {hint}"
    return ""


def _hooks(manager: pluggy.PluginManager) -> list[str]:
    callers = vars(manager.hook).items()
    return sorted(name for name, caller in callers if name[0] != "_" and caller.has_spec())


def _wrong_arguments(manager: pluggy.PluginManager, said: str) -> str:
    """Says in one line what pluggy says in four."""
    match = re.search(r"for hook '(\w+)'.*Argument\(s\) \{(.*?)\}", said, re.DOTALL)
    if match is None:
        return " ".join(said.split())
    hook, wrong = match.groups()
    spec = getattr(manager.hook, hook).spec
    offered = f"it has {', '.join(spec.argnames)}"
    plural = "s" if "," in wrong else ""
    return f"hook '{hook}' has no argument{plural} {wrong}; {offered}"


def _checked(hook: str, answer: Any) -> Any:
    """Returns an answer as a list, or a text as it is.

    Raises:
        TypeError: it is, or holds, something else than the hook is to give.
    """
    items = [answer] if isinstance(answer, str) else list(answer)
    wanted = {"dicore_doctor": Diagnostic, "dicore_report_header": str}.get(hook, object)
    for each in items:
        if not isinstance(each, wanted):
            raise TypeError(f"it gave {each!r}, no {wanted.__name__}")
    return answer if isinstance(answer, str) else items


def _as_list(found: Any) -> list[Any]:
    """Returns the answers of a hook; one whose first answer counts gives that alone."""
    return found if isinstance(found, list) else [] if found is None else [found]
