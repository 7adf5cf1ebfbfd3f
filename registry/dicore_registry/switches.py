"""Which installed packages may take part: `DICORE_NO_PLUGINS`, `DICORE_PLUGINS_ALLOW`, `…_DENY`.

They are for reproducibility, applied before anything is loaded; an installed package is trusted
code all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dicore_registry.entry import canonical
from dicore_registry.requirements import dist_name

_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Switches:
    """What the user turned off.

    Args:
        no_plugins: Only what dicore itself ships takes part.
        allow: If given, of the others only these distributions and `kind/name` take part.
        deny: Distributions, `kind/name` or `dist/name` that do not take part.
    """

    no_plugins: bool = False
    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Switches:
        """Reads the three variables."""
        allow = environ.get("DICORE_PLUGINS_ALLOW", "")
        return cls(
            no_plugins=environ.get("DICORE_NO_PLUGINS", "").strip().lower() not in _OFF,
            allow=_items(allow) if allow.strip() else None,
            deny=_items(environ.get("DICORE_PLUGINS_DENY", "")),
        )

    def reason(self, dist: str, kind: str, name: str, *, first_party: bool) -> str:
        """Says which switch turns a component off; "" if none does."""
        if not (self.no_plugins or self.deny or self.allow is not None):
            return ""
        spellings = {dist, f"{kind}/{name}", f"{dist}/{name}"}
        if spellings & self.deny:
            return "switched off by DICORE_PLUGINS_DENY"
        if first_party:
            return ""
        if self.no_plugins:
            return "switched off by DICORE_NO_PLUGINS"
        if self.allow is not None and not spellings & self.allow:
            return "not in DICORE_PLUGINS_ALLOW"
        return ""


def _items(text: str) -> frozenset[str]:
    return frozenset(_item(item.strip()) for item in text.split(",") if item.strip())


def _item(item: str) -> str:
    left, slash, name = item.partition("/")
    if not slash:
        return dist_name(left)
    # The left side is a kind (spelt with "_") or a distribution (spelt with "-").
    kind = canonical(left) if "_" in left else dist_name(left)
    return f"{kind}/{canonical(name)}"
