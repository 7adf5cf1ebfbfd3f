"""The registry: lists declared components, finds them by name and imports them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from dicore_registry import explain
from dicore_registry.entry import (
    LOCAL,
    Entry,
    Kind,
    Kinds,
    Removed,
    Renamed,
    Resolved,
    canonical,
    depth,
    family,
)
from dicore_registry.entry_status import RESERVED, candidates, judge, lacking, newest
from dicore_registry.errors import (
    PluginLoadError,
    RegistryError,
    RetiredWarning,
    UnknownComponentError,
)
from dicore_registry.importing import (
    NAMES_ONLY,
    import_target,
    is_import_path,
    resolve_path,
    source_digest,
)
from dicore_registry.metadata import Dist, installed
from dicore_registry.plugin_filter import Project, Switches
from dicore_registry.requirements import dist_name
from dicore_registry.source import Place, Sources

if TYPE_CHECKING:
    import importlib.metadata
    from pathlib import Path

    from dicore_registry.local import Local

T = TypeVar("T")

_BEFORE_FILES = ("api", "command", "default", "kind")
"""Kinds that are looked up without importing the project's files, to keep `--help` fast."""


class Registry:
    """Finds components by name; reads the metadata once, on first use.

    Args:
        distributions: The distributions to search; None: all installed ones.
        environ: The environment variables (`DICORE_NO_PLUGINS` …); None: those of the process.
        folder: The folder of the project's `pyproject.toml`; None: the working directory, or no
            project if `distributions` are given.
    """

    def __init__(
        self,
        distributions: Iterable[importlib.metadata.Distribution] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._given = None if distributions is None else list(distributions)
        self._environ = environ
        self._folder = folder
        self._failed: list[Entry] | None = None
        self._local: dict[tuple[str, str], Local] = {}
        self._index: dict[str, list[Entry]] = {}
        self._found: dict[tuple[str, str], list[Entry]] = {}
        self._warned: set[str] = set()
        self._sources = Sources()

    @cached_property
    def _dists(self) -> dict[str, Dist]:
        return installed(self._given)

    @cached_property
    def _declared(self) -> list[Entry]:
        return judge(self._dists, self.switches)

    @cached_property
    def project(self) -> Project:
        """The settings in the project's `pyproject.toml`."""
        if self._folder is None and self._given is not None:
            return Project()
        try:
            return Project.read(self._folder or os.getcwd())  # noqa: PTH109 - pathlib is slow here
        except OSError:  # the working directory has been deleted
            return Project()

    @cached_property
    def switches(self) -> Switches:
        """What the user disabled and added, by environment and project."""
        return Switches.read(os.environ if self._environ is None else self._environ, self.project)

    @property
    def distributions(self) -> Mapping[str, Dist]:
        """The searched distributions, by normalised name."""
        return self._dists

    def rescan(self) -> None:
        """Reads the metadata again, after an installation; keeps what decorators registered."""
        self._sources = Sources()
        self._forget()
        self._failed = None
        for name in ("_dists", "_declared", "project", "switches"):
            self.__dict__.pop(name, None)

    def kinds(self) -> Mapping[str, Kind]:
        """Returns the kinds by name; each `Kind` is imported on access."""
        return Kinds(self.entries("kind"), self.load)

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Returns the declared entries, sorted by kind, name and distribution.

        Args:
            kind: A kind, or `api`, `kind`, `default` or `plugin`; None: the components of all kinds
                and all broken entries.
        """
        if kind is not None:
            kind = canonical(kind)
            failed = (self._failed or []) if kind == "plugin" else []
            return [*self._named(kind, ""), *failed]
        self._load_files()
        return [
            entry
            for name, found in self._by_kind().items()
            for entry in found
            if name not in RESERVED or entry.status == "broken"
        ] + (self._failed or [])

    def find(self, kind: str, name: str, where: str = "") -> Entry:
        """Returns the entry of a component that can be used.

        Args:
            kind: The kind's name.
            name: `name` or `dist/name`, in any case and with `-` or `_`; `name` also finds the
                highest of `name_v1`, `name_v2` …
            where: Config path of the name, which begins every error message.

        Raises:
            UnknownComponentError: no installed package declares this name.
            PluginConflictError: several packages declare it.
            PluginVersionError: it requires another version of dicore.
            MissingDependencyError: an extra that it needs is not installed.
            PluginLoadError: its declaration is broken.
        """
        kind = self._known_kind(kind, where)
        if kind not in _BEFORE_FILES and self.project.problems:
            raise RegistryError("\n".join(self.project.problems))
        key, matches = self._matches(kind, name, where)
        if not matches:
            raise self._unknown(kind, name.strip(), key, where)
        usable = [e for e in matches if e.status not in ("incompatible", "disabled", "broken")]
        if not usable:
            raise explain.unusable(newest(matches, key), where)
        rivals = {entry.dist: entry for entry in usable}
        if len(rivals) > 1:
            best = [newest([e for e in usable if e.dist == dist], key) for dist in sorted(rivals)]
            raise explain.ambiguous(kind, key, best, where)
        return self._available(newest(usable, key), where)

    def _matches(self, kind: str, name: str, where: str) -> tuple[str, list[Entry]]:
        """Returns the canonical unqualified name, and the entries that a written name may mean."""
        provider, _, bare = name.strip().rpartition("/")
        key, provider = canonical(bare), dist_name(provider)
        found = [e for e in self._named(kind, key) if key in (e.name, family(e.name)[0])]
        if not found and kind == "preset" and key.endswith("_v1"):  # without a number it is 1
            found = [e for e in self._named(kind, key[:-3]) if e.name == key[:-3]]
        wanted = provider or self.switches.prefer.get((kind, key), "")
        if not provider and (not wanted or any(entry.dist == LOCAL for entry in found)):
            return key, candidates(found)
        found = [entry for entry in found if entry.dist == wanted]
        if not provider and not found:
            raise explain.preferred(kind, key, wanted, where)
        return key, found

    def _unknown(self, kind: str, written: str, key: str, where: str) -> UnknownComponentError:
        entries = [self.judged(each) if each.kind == kind else each for each in self.entries()]
        error = explain.unknown(kind, written, entries, self._order(key), where)
        failed = [f"{entry.file}: {entry.reason}" for entry in self._failed or ()]
        if failed and not error.hint:
            error.hint = f"it may be in a file that failed to load: {'; '.join(failed)}"
        return error

    def load(self, entry: Entry, where: str = "") -> Any:
        """Imports the target of an entry.

        Raises:
            PluginLoadError: the import raised, or the module lacks the attribute; the message names
                the package, its version and the exception, which is the cause.
        """
        if entry.status in ("incompatible", "disabled", "broken", "unavailable"):
            raise explain.unusable(entry, where)
        if entry.dist == LOCAL:
            return self._local[entry.kind, entry.name].target
        try:
            return import_target(entry.module, entry.attr)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit
            raise explain.failed(entry.label, entry.module, error, where) from error

    def resolve(self, kind: str, type_string: str, where: str = "") -> Resolved:
        """Finds and imports the component of a config's `type`.

        Args:
            kind: The kind of component at this place in the config.
            type_string: A name as for `find`, `pkg.mod:Class` or `./file.py:Class`.
            where: Config path of the value, which begins every error message.

        Raises:
            UnknownComponentError: the component, module, file or attribute does not exist.
            RegistryError: see `find` and `load`.
        """
        if is_import_path(type_string):
            if self.switches.names_only:
                text = f"'{type_string}' is a code path, which --names-only forbids"
                raise RegistryError(explain.at(where, text), hint=NAMES_ONLY)
            return resolve_path(self._known_kind(kind, where), type_string, where)
        if ":" in type_string:
            raise UnknownComponentError(
                explain.at(where, f"'{type_string}' is not the name of {explain.article(kind)}"),
                hint="write import paths as 'pkg.mod:Class' or './file.py:Class'",
            )
        entry = self.find(kind, type_string, where)
        target = self.load(entry, where)
        passed: set[str] = set()
        while isinstance(target, Renamed | Removed):
            entry = self._moved(entry, target, passed, where)
            target = self.load(entry, where)
        preferred = self.switches.prefer.get((entry.kind, family(entry.name)[0])) == entry.dist
        qualified = preferred or "/" in type_string or entry.status in ("conflict", "shadowed")
        name = entry.qualified if qualified else entry.name
        return Resolved(name, target, entry, partial(self.provenance, entry, name))

    def default(self, kind: str, where: str = "") -> str | None:
        """Returns the name of a kind's default component, if there is one.

        Raises:
            PluginConflictError: several third-party packages set it.
        """
        found = [e for e in self.entries("default") if e.name == kind]
        rivals = [entry for entry in found if entry.status == "conflict"]
        if rivals:
            raise explain.default_conflict(kind, rivals, where)
        return next((entry.target for entry in found if entry.status == "ok"), None)

    def register(self, kind: str, name: str, *, override: bool = False) -> Callable[[T], T]:
        """Registers the decorated object in this process, with provider `local`.

        Args:
            kind: The kind's name.
            name: The component's name.
            override: Replace another component with this name.

        Raises:
            PluginConflictError: the name is in use; the message names both files.
        """
        from dicore_registry.local import caller

        return self.registering(kind, name, caller(1), override=override)

    def summary(self, entry: Entry) -> str:
        """Returns the first docstring line of a target, without importing it; "" if it has none.

        For a dict or another value, this is the string directly below it.
        """
        place = self.place(entry)
        return place.summary if place is not None else ""

    def place(self, entry: Entry) -> Place | None:
        """Returns file, line and docstring of a target, without importing it; None if not found."""
        if entry.kind == "default" or entry.status == "broken":
            return None
        if entry.dist == LOCAL:
            return self._local[entry.kind, entry.name].place
        return self._sources.place(entry.target)

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Within the block, looks places up in the index of the environment, and adds to it."""
        from dicore_registry.index import PlaceIndex, cache_file

        index = self._sources.index = PlaceIndex(cache_file())
        try:
            yield
        finally:
            self._sources.index = None
            index.save()

    def judged(self, entry: Entry) -> Entry:
        """Returns it, `deprecated` or `broken` if its source says so: renamed, or a constant."""
        place = self.place(entry) if entry.status in ("ok", "conflict", "shadowed") else None
        return entry if place is None else place.judge(entry)

    def provenance(self, entry: Entry, name: str = "") -> dict[str, Any]:
        """Returns the origin of a component: type, dist, version, target, source, editable.

        Args:
            entry: The component.
            name: Its name in a config; "" for its canonical name.
        """
        place = self.place(entry)
        file = "" if place is None else place.file
        if entry.dist == LOCAL and file:
            file = self._local[entry.kind, entry.name].defined_in
        dist = self._dists.get(entry.dist)
        return {
            "type": name or entry.name,
            "dist": entry.dist,
            "version": entry.version,
            "target": entry.target,
            "source": source_digest(file) if file else "",
            **(dist.origin if dist is not None else {"editable": False}),
        }

    def supplier(self, kind: str, type_string: str, where: str = "") -> dict[str, Any]:
        """Returns the provenance of a `type`; imports it only if it is an import path.

        Args:
            kind: The kind of component at this place in the config.
            type_string: As for `resolve`.
            where: Config path of the value, which begins every error message.

        Raises:
            RegistryError: see `resolve` and `find`.
        """
        if is_import_path(type_string):
            return self.resolve(kind, type_string, where).provenance
        return self.provenance(self.find(kind, type_string, where))

    def _by_kind(self) -> dict[str, list[Entry]]:
        if not self._index:
            for entry in self._with_local(self._declared, None, ""):
                self._index.setdefault(entry.kind, []).append(entry)
        return self._index

    def _named(self, kind: str, start: str) -> list[Entry]:
        """Returns the entries of a kind with this prefix, without reading all others."""
        if kind not in (*_BEFORE_FILES, "plugin"):
            self._load_files()
        if self._index:
            return [e for e in self._index.get(kind, ()) if e.name.startswith(start)]
        if (kind, start) not in self._found:
            declared = judge(self._dists, self.switches, (kind, start))
            self._found[kind, start] = self._with_local(declared, kind, start)
        return self._found[kind, start]

    def _with_local(self, declared: list[Entry], kind: str | None, start: str) -> list[Entry]:
        """Adds the components that decorators registered, of one kind or all, and sorts."""
        found = [self._overridden(entry) for entry in declared]
        found += [
            local.entry
            for local in self._local.values()
            if kind in (None, local.entry.kind) and local.entry.name.startswith(start)
        ]
        return sorted(found, key=lambda entry: (entry.kind, entry.name, entry.dist))

    def _forget(self) -> None:
        self._index = {}
        self._found = {}

    def _load_files(self) -> None:
        """Imports the project's files once; their decorators register components here.

        Raises:
            RegistryError: `--names-only` forbids one that the user added.
        """
        if self._failed is None:
            for file in self.switches.forbidden:
                what = f"plugin {file} is executed, which --names-only forbids"
                raise RegistryError(what, hint=NAMES_ONLY)
            self._failed = []  # before the import: decorators look names up
            if not self.switches.files:
                return
            from dicore_registry.local import load_file

            with using(self):
                failed = [load_file(path) for path in self.switches.files]
            self._failed = [entry for entry in failed if entry is not None]

    def _known_kind(self, kind: str, where: str) -> str:
        name = canonical(kind)
        if name not in self.kinds() and name not in RESERVED:
            raise explain.unknown_kind(kind, self.kinds(), where)
        return name

    def _order(self, name: str) -> list[str]:
        """Sorts the kinds of a name by the depth of their config section."""
        kinds = self.kinds()
        having = {e.kind for e in self.entries() if e.name == name} & set(kinds)
        return sorted(having, key=lambda kind: depth(kinds, kind))

    def _overridden(self, entry: Entry) -> Entry:
        local = self._local.get((entry.kind, entry.name))
        if local is None or entry.status in ("broken", "disabled", "incompatible"):
            return entry
        return entry._replace(status="shadowed", reason=f"overridden at {local.entry.file}")

    def _available(self, entry: Entry, where: str) -> Entry:
        if entry.status in ("conflict", "shadowed") and (lacks := lacking(entry, self._dists)):
            entry = entry._replace(status="unavailable", reason=lacks)
        if entry.status == "unavailable":
            raise explain.unusable(entry, where)
        return entry

    def _moved(
        self, entry: Entry, retired: Renamed | Removed, passed: set[str], where: str
    ) -> Entry:
        text = f"{entry.label} was {retired.reason}"
        if isinstance(retired, Removed):
            raise UnknownComponentError(explain.at(where, text))
        if entry.qualified in passed:
            raise PluginLoadError(explain.at(where, f"{entry.label} is part of a cycle of renames"))
        passed.add(entry.qualified)
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(explain.at(where, text), RetiredWarning, stacklevel=4)
        own = f"{entry.dist}/{retired.to}"
        in_own = "/" not in retired.to and self._matches(entry.kind, own, where)[1]
        return self.find(entry.kind, own if in_own else retired.to, where)

    def registering(
        self, kind: str, name: str, file: str, *, override: bool = False
    ) -> Callable[[T], T]:
        """Implements `register` for a caller at `file` (`path:line`)."""
        from dicore_registry.local import declare, same, taken

        known = self._known_kind(kind, "")

        def put(target: T) -> T:
            new = declare(known, name, target, file)
            key = (known, new.entry.name)
            old = self._local.get(key)
            if not override and old is not None and not same(new, old):
                raise taken(new, old.entry.file)
            if not override and old is None:
                for entry in self.entries(known):
                    if entry.name == new.entry.name and entry.status not in ("broken", "disabled"):
                        if entry.target == new.entry.target:
                            return target  # an entry point declares it
                        raise taken(new, self._whereabouts(entry))
            self._local[key] = new
            self._forget()
            return target

        return put

    def _whereabouts(self, entry: Entry) -> str:
        where = f"{place.file}:{place.line}" if (place := self.place(entry)) else entry.target
        return f"{where} ({entry.provider})"


_registries: list[Registry] = []


def default() -> Registry:
    """Returns the registry of all installed packages; one per process."""
    if not _registries:
        _registries.append(Registry())
    return _registries[-1]


@contextmanager
def using(registry: Registry) -> Iterator[Registry]:
    """Makes `default()` return another registry during a block, in all threads."""
    _registries.append(registry)
    try:
        yield registry
    finally:
        _registries.remove(registry)


def register(kind: str, name: str, *, override: bool = False) -> Callable[[T], T]:
    """Registers the decorated object with `default()`; see `Registry.register`."""
    from dicore_registry.local import caller

    return default().registering(kind, name, caller(1), override=override)
