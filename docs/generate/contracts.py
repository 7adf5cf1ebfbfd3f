"""Generates the last part of each concept page: contract and checks of a kind."""

from __future__ import annotations

import inspect

from dicore.interfaces.columns import COLUMNS
from dicore.testing.generic import ComponentContract
from dicore.testing.suite import Suite
from dicore_registry import Kind
from dicore_registry.importing import import_target
from docs.generate.query import kinds


def contract_parts() -> dict[str, str]:
    """Returns a part per kind, and one with the checks of all components."""
    parts = {f"parts/{name}.md": _part(kind) for name, kind in kinds().items()}
    parts["parts/columns.md"] = _columns()
    return {**parts, "parts/every_component.md": _checks(ComponentContract)}


def _columns() -> str:
    """Returns the table of the columns of blocks and batches."""
    shapes = {"": "one number", "...": "any", "?": "one number or a vector"}
    rows = [
        f"| `{each.name}` | {shapes[each.shape]} | {each.dtype} | {each.meaning} | {each.written} |"
        f" {each.read} |"
        for each in COLUMNS
    ]
    head = "| Column | Item | dtype | Meaning | Written by | Read by |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *rows]) + "\n"


def _part(kind: Kind) -> str:
    parts = [f"Components of this kind: [{kind.name}](../generated/components/{kind.name}.md)."]
    if kind.contract.startswith("dicore."):
        path = kind.contract.replace(":", ".")
        parts += [
            "## Contract",
            f"```{{eval-rst}}\n.. autoclass:: {path}\n   :members:\n   :no-index:\n```",
        ]
    parts.append("## Conformance checks")
    suite = _suite(kind)
    if suite is None:
        parts.append(
            "This kind has no suite of its own. Its components are tested by"
            " [the checks of every component](../howto/test_a_component.md)."
        )
    else:
        parts += [
            f"`{kind.suite.replace(':', '.')}` contains these checks, in addition to"
            " [the checks of every component](../howto/test_a_component.md):",
            _checks(suite),
        ]
    return "\n\n".join(parts) + "\n"


def _suite(kind: Kind) -> type[Suite] | None:
    module, _, name = kind.suite.partition(":")
    found: type[Suite] | None = import_target(module, name) if name else None
    return found


def _checks(suite: type[Suite]) -> str:
    rows = [
        f"| `{name}` | {_first_line(getattr(suite, f'test_{name}'))} |" for name in suite.checks()
    ]
    return "\n".join(["| Check | Requirement |", "| --- | --- |", *rows]) + "\n"


def _first_line(check: object) -> str:
    return (inspect.getdoc(check) or "").partition("\n")[0].replace("|", "\\|")
