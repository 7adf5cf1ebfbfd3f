"""What a rule of the diagnosis says: a finding, or that its evidence was not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dicore.errors import DicoreError

__all__ = ["Change", "Finding", "MissingEvidenceError"]


class MissingEvidenceError(DicoreError):
    """The run does not record what a rule needs; the rule is listed as not checked."""


@dataclass(frozen=True, slots=True)
class Change:
    """An option to change.

    Args:
        option: Its key path, as for an override: `policy.learn.learning_rate`.
        advice: What to set it to, and why if that is not plain.
        value: Its value in the run; None: it is not set.
    """

    option: str
    advice: str
    value: object = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of learning.

    Args:
        what: One sentence that names the fault.
        cause: What most likely causes it.
        change: Options to change, the first one first.
        numbers: The evidence: what was measured, by name.
        metrics: Tags of the curves that show it, for plots.
        rule: Name of the rule; filled in by `diagnose`.
    """

    what: str
    cause: str
    change: tuple[Change, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    rule: str = ""
