"""What the project in the working directory says: `[tool.dicore]` of its `pyproject.toml`.

[tool.dicore]
plugins = ["my_policy.py"]          # files whose decorators register components
allow = ["acme-rl"]                 # of foreign packages only these take part
deny = ["other-rl", "policy/sac"]
no-plugins = false                  # true: only what dicore itself ships

[tool.dicore.prefer]
"policy/sac" = "acme-rl"            # whose `sac` is meant where several packages have one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dicore_registry.entry import canonical
from dicore_registry.nearest import nearest
from dicore_registry.requirements import dist_name

if TYPE_CHECKING:
    from pathlib import Path

_KEYS: Final = ("allow", "deny", "no-plugins", "plugins", "prefer")


class Project(NamedTuple):
    """The settings of one project; all empty where there is none.

    Args:
        file: The `pyproject.toml` that says so; None where there is none with `[tool.dicore]`.
        no_plugins: Only what dicore itself ships takes part.
        allow: If given, of foreign packages only these distributions and `kind/name` take part.
        deny: Distributions, `kind/name` or `dist/name` that do not take part.
        plugins: Files with decorators, as absolute paths.
        prefer: The distribution that a bare name means, by kind and canonical name.
        problems: What is wrong in it, one line each.
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
        """Reads the project of a folder (not of those above it); never raises."""
        place = f"{folder}/pyproject.toml"
        try:
            with open(place, encoding="utf-8") as stream:  # noqa: PTH123 - pathlib is slow here
                text = stream.read()
        except (OSError, ValueError):
            return cls()
        if "tool.dicore" not in text and not ("[tool]" in text and "dicore" in text):
            return cls()  # reading TOML takes longer than all the rest
        import tomllib  # late: most folders have nothing to say to us
        from pathlib import Path

        file = Path(place)
        try:
            table: Any = tomllib.loads(text).get("tool", {}).get("dicore")
        except (tomllib.TOMLDecodeError, AttributeError) as error:
            return cls(file, problems=(f"{file} cannot be read: {error}",))
        return cls() if table is None else _Reader(file, table).project()


class _Reader:
    """Reads one table and collects what is wrong with it."""

    def __init__(self, file: Path, table: Any) -> None:
        self._file = file
        self._problems: list[str] = []
        if not isinstance(table, dict):
            self._wrong("tool.dicore", "a table", table)
        said: dict[str, Any] = table if isinstance(table, dict) else {}
        self._table = {key.replace("_", "-"): value for key, value in said.items()}
        for key in self._table.keys() - set(_KEYS):
            close = nearest(key, _KEYS)
            hint = f"did you mean '{close}'?" if close else f"one of {', '.join(_KEYS)}"
            self._problems.append(f"{file}: tool.dicore: no key '{key}'; {hint}")

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
        for said, dist in table.items():
            kind, _, name = said.partition("/")
            if not name or not isinstance(dist, str):
                self._wrong(f'tool.dicore.prefer."{said}"', '"kind/name" = "distribution"', dist)
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
