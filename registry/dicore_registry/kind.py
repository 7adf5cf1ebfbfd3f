"""What a kind of component is: a role with a contract, a place in the config, and a suite."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A role that components can fill; the value of an entry of group `dicore.kind`.

    Args:
        name: The kind's name; its components are the entries of group `dicore.<name>`.
        summary: One line for people.
        contract: `module:Class` of the Protocol that components of this kind satisfy once built.
        section: Where a config asks for one (`policy.collect.collector`); "" if nowhere.
        suite: `module:Class` of the conformance suite in `dicore.testing`; "" if there is none.
    """

    name: str
    summary: str
    contract: str = ""
    section: str = ""
    suite: str = ""

    @property
    def group(self) -> str:
        """The entry-point group that components of this kind are declared in."""
        return f"dicore.{self.name}"
