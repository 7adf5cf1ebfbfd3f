"""Which installed packages and files are used, and which code a config may name.

Read from the environment (`DICORE_NO_PLUGINS`, `DICORE_PLUGINS_ALLOW`, `DICORE_PLUGINS_DENY`,
`DICORE_PLUGINS`, `DICORE_NAMES_ONLY`) and from `pyproject.toml` in the working directory:

[tool.dicore]
plugins = ["my_policy.py"]          # files whose decorators register components
allow = ["acme-rl"]                 # the only third-party packages to use
deny = ["other-rl", "policy/sac"]   # packages and components not to use
no-plugins = false                  # true: use first-party packages only

[tool.dicore.prefer]
"policy/sac" = "acme-rl"            # the package to use where several provide `sac`

The filters are for reproducibility, not for security: installed packages are trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dicore_registry.entry import canonical
from dicore_registry.explain import nearest
from dicore_registry.requirements import dist_name

if TYPE_CHECKING:
    from pathlib import Path

_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Returns whether an environment variable is set and not `0`, `false`, `no` or `off`."""
    return environ.get(name, "").strip().lower() not in _OFF


class Switches(NamedTuple):
    """What the user disabled, and which files the user added.

    Args:
        no_plugins: The setting that disables third-party packages; "" if none does.
        allow: The only third-party distributions and `kind/name` to use; None: all.
        allow_by: The setting of `allow`.
        deny: Disabled distributions, `kind/name` or `dist/name`, each with its setting.
        files: Python files whose decorators register components.
        names_only: Configs choose code by name only, never by path.
        forbidden: Files of `DICORE_PLUGINS` that `names_only` forbids.
        prefer: The distribution that an unqualified name means, by kind and canonical name.
    """

    no_plugins: str = ""
    allow: frozenset[str] | None = None
    allow_by: str = ""
    deny: Mapping[str, str] = MappingProxyType({})
    files: tuple[Path, ...] = ()
    names_only: bool = False
    forbidden: tuple[Path, ...] = ()
    prefer: Mapping[tuple[str, str], str] = MappingProxyType({})

    @classmethod
    def read(cls, environ: Mapping[str, str], project: Project | None = None) -> Switches:
        """Reads the environment and the project; an allow list of the environment takes precedence.

        Args:
            environ: The environment variables.
            project: The settings of the project in the working directory.
        """
        project = project or Project()
        table = f"[tool.dicore] of {project.file.name if project.file else ''}"
        off = table if project.no_plugins else ""
        allow, allow_by = project.allow, f"allow in {table}"
        if allowed := environ.get("DICORE_PLUGINS_ALLOW", "").strip():
            allow, allow_by = tuple(allowed.split(",")), "DICORE_PLUGINS_ALLOW"
        denied = environ.get("DICORE_PLUGINS_DENY", "").split(",")
        deny = dict.fromkeys(_items(project.deny), f"deny in {table}")
        deny |= dict.fromkeys(_items(denied), "DICORE_PLUGINS_DENY")
        off = "DICORE_NO_PLUGINS" if is_on(environ, "DICORE_NO_PLUGINS") else off
        added = environ.get("DICORE_PLUGINS", "").split(os.pathsep)
        given = _paths([name for name in added if name.strip()])
        files = [*project.plugins, *given]
        names_only = is_on(environ, "DICORE_NAMES_ONLY")
        return cls(
            no_plugins=off,
            allow=None if allow is None else _items(allow),
            allow_by=allow_by,
            deny=deny,
            files=() if off else tuple(dict.fromkeys(files)),
            names_only=names_only,
            forbidden=() if off or not names_only else tuple(given),
            prefer=project.prefer,
        )

    def reason(self, dist: str, kind: str, name: str, *, first_party: bool) -> str:
        """Returns why a component is disabled; "" if it is not."""
        if not (self.no_plugins or self.deny or self.allow is not None):
            return ""
        spellings = {dist, f"{kind}/{name}", f"{dist}/{name}"}
        denied = sorted(spellings & self.deny.keys())
        if denied:
            return f"switched off by {self.deny[denied[0]]}"
        if first_party:
            return ""
        if self.no_plugins:
            return f"switched off by {self.no_plugins}"
        if self.allow is not None and not spellings & self.allow:
            return f"not in {self.allow_by}"
        return ""


def _paths(names: list[str]) -> list[Path]:
    if not names:
        return []
    from pathlib import Path  # late: a slow import

    return [Path(name) for name in names]


def _items(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_item(item.strip()) for item in texts if item.strip())


def _item(item: str) -> str:
    left, slash, name = item.partition("/")
    if not slash:
        return dist_name(left)
    # The left side is a kind (spelt with "_") or a distribution (spelt with "-").
    kind = canonical(left) if "_" in left else dist_name(left)
    return f"{kind}/{canonical(name)}"


_KEYS: Final = ("allow", "deny", "no-plugins", "plugins", "prefer")


class Project(NamedTuple):
    """The settings of one project.

    Args:
        file: The `pyproject.toml`; None if there is none with `[tool.dicore]`.
        no_plugins: Use first-party packages only.
        allow: The only third-party distributions and `kind/name` to use; None: all.
        deny: Distributions, `kind/name` or `dist/name` not to use.
        plugins: Files with decorators, as absolute paths.
        prefer: The distribution that an unqualified name means, by kind and canonical name.
        problems: The invalid settings, one line each.
    """

    file: Path | None = None
    no_plugins: bool = False
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    prefer: Mapping[tuple[str, str], str] = MappingProxyType({})
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path | str) -> Project:
        """Reads the project of a folder (parent folders are ignored); never raises."""
        place = f"{folder}/pyproject.toml"
        try:
            with open(place, encoding="utf-8") as stream:  # noqa: PTH123 - pathlib is slow here
                text = stream.read()
        except (OSError, ValueError):
            return cls()
        if "tool.dicore" not in text and not ("[tool]" in text and "dicore" in text):
            return cls()  # parsing TOML is slow
        import tomllib  # late: few folders need it
        from pathlib import Path

        file = Path(place)
        try:
            table: Any = tomllib.loads(text).get("tool", {}).get("dicore")
        except (tomllib.TOMLDecodeError, AttributeError) as error:
            return cls(file, problems=(f"{file} cannot be read: {error}",))
        return cls() if table is None else _Reader(file, table).project()


class _Reader:
    """Reads one table and collects its problems."""

    def __init__(self, file: Path, table: Any) -> None:
        self._file = file
        self._problems: list[str] = []
        if not isinstance(table, dict):
            self._wrong("tool.dicore", "a table", table)
        items = table.items() if isinstance(table, dict) else ()
        self._table: dict[str, Any] = {key.replace("_", "-"): value for key, value in items}
        for key in self._table.keys() - set(_KEYS):
            close = nearest(key, _KEYS)
            hint = f"did you mean '{close}'?" if close else f"expected one of {', '.join(_KEYS)}"
            self._problems.append(f"{file}: tool.dicore: unknown key '{key}'; {hint}")

    def project(self) -> Project:
        allow = self._texts("allow")
        plugins = tuple(self._file.parent / name for name in self._texts("plugins") or ())
        return Project(
            file=self._file,
            no_plugins=bool(self._take("no-plugins", "true or false", _is_bool)),
            allow=allow,
            deny=self._texts("deny") or (),
            plugins=plugins,
            prefer=self._preferences(),
            problems=tuple(sorted(self._problems)),
        )

    def _take(self, key: str, wanted: str, fits: Callable[[Any], bool]) -> Any:
        value = self._table.get(key)
        if value is None or fits(value):
            return value
        self._wrong(f"tool.dicore.{key}", wanted, value)
        return None

    def _texts(self, key: str) -> tuple[str, ...] | None:
        value = self._take(key, "a list of strings", _is_list)
        return None if value is None else tuple(value)

    def _preferences(self) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        table = self._take("prefer", 'a table of "kind/name" = "distribution"', _is_table) or {}
        for key, dist in table.items():
            kind, _, name = key.partition("/")
            if not name or not isinstance(dist, str):
                self._wrong(f'tool.dicore.prefer."{key}"', '"kind/name" = "distribution"', dist)
                continue
            found[canonical(kind), canonical(name)] = dist_name(dist)
        return found

    def _wrong(self, path: str, wanted: str, value: Any) -> None:
        self._problems.append(f"{self._file}: {path}: expected {wanted}, got {value!r}")


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)
