"""What commands about components, packages and configs print with `--json`.

Members may be added, and never change their type. Texts of others (summaries of packages, errors of
foreign code, cards of a hub) are data.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from dicore_registry import STATUSES

__all__ = [
    "CheckedConfig",
    "Checks",
    "Component",
    "ComponentFacts",
    "Differences",
    "HubCard",
    "OptionValue",
    "Package",
    "Problems",
    "SelftestCase",
]


class Component(TypedDict):
    """A component, from metadata alone."""

    kind: Annotated[str, "kind of the component, such as policy"]
    name: Annotated[str, "name by which configs ask for it"]
    qualified: Annotated[str, "package and name, which is never ambiguous"]
    status: Annotated[str, f"one of {', '.join(STATUSES)}"]
    reason: Annotated[str, "why the status is not ok; empty if it is"]
    dist: Annotated[str, "distribution that provides it"]
    version: Annotated[str, "version of the distribution"]
    summary: Annotated[str, "one line about it"]
    target: Annotated[str, "module and attribute of the entry point"]


class Option(TypedDict):
    """An option of a component."""

    path: Annotated[str, "key path in a complete config"]
    name: Annotated[str, "key path in the component"]
    type: Annotated[str, "type, as text"]
    default: Annotated[object, "default; null also if the option is required"]
    required: Annotated[bool, "whether a config must set it"]
    range: Annotated[str, "bounds, as text"]
    choices: Annotated[list[object], "values that are allowed; empty: any in the range"]
    unit: Annotated[str, "unit of the value"]
    help: Annotated[str, "what it does"]


class ComponentFacts(Component):
    """A component with all its options; its code was imported."""

    aliases: Annotated[list[str], "other names of it"]
    file: Annotated[str, "source file; empty if it was not found"]
    line: Annotated[int, "line of its definition in the file"]
    doc: Annotated[str, "its docstring"]
    section: Annotated[str, "key path of such a component in a config"]
    use: Annotated[str, "how it is used: words of a command, or Python"]
    options: Annotated[list[Option], "its options, with those of its sections"]
    tree: Annotated[object, "values of a preset, or facts about a kind; null for others"]


class Check(TypedDict):
    """One conformance test of one component."""

    component: Annotated[str, "component, with its package"]
    check: Annotated[str, "name of the test"]
    outcome: Annotated[Literal["ok", "failed", "skipped"], "what came of it"]
    reason: Annotated[str, "why it failed or was skipped"]
    summary: Annotated[str, "what is tested"]
    hint: Annotated[str, "how to mend it, of environments"]


class Checks(TypedDict):
    """Outcome of the conformance tests; exit code 1 if one failed."""

    failed: Annotated[int, "number of failed tests"]
    checks: Annotated[list[Check], "all tests"]
    advice: Annotated[list[str], "advice about an environment that passed"]


class OptionValue(TypedDict):
    """A value of a config and where it comes from."""

    value: Annotated[object, "the value"]
    origin: Annotated[str, "class default, preset, file or command line"]


class CheckedConfig(TypedDict):
    """A config that was checked; exit code 2 if one is not valid."""

    config: Annotated[str, "file, run or preset; empty: the options of the command"]
    valid: Annotated[bool, "whether it can be trained"]
    problems: Annotated[list[str], "each begins with the key path of what is wrong"]
    hint: Annotated[str, "what to write instead, if that is known"]
    summary: Annotated[str, "policy, environment, pipeline and hash of a valid config"]


class Differences(TypedDict):
    """Differences between two configs."""

    values: Annotated[dict[str, list[object]], "the two values of each option that differs"]
    components: Annotated[dict[str, list[str]], "the two components, with their packages"]


class Problem(TypedDict):
    """A problem of the installation."""

    level: Annotated[Literal["error", "warning"], "error: something cannot be used"]
    about: Annotated[str, "component, package or file"]
    text: Annotated[str, "what is wrong"]
    hint: Annotated[str, "what to do"]
    check: Annotated[str, "name of the check"]


class Problems(TypedDict):
    """What `dicore doctor` finds; exit code 1 if there are errors."""

    errors: Annotated[int, "number of errors; with --strict also of warnings"]
    findings: Annotated[list[Problem], "errors first"]


class HubFile(TypedDict):
    """A file of an item."""

    sha256: Annotated[str, "hash, in hexadecimal"]
    size: Annotated[int, "bytes"]


class HubCard(TypedDict):
    """Card of an item in a hub; others wrote it."""

    format: Annotated[Literal[1], "version of this form"]
    name: Annotated[str, "its name"]
    licence: Annotated[str, "SPDX expression; empty if it states none"]
    dicore: Annotated[str, "version that wrote it"]
    kind: Annotated[Literal["run", "dataset"], "what it is"]
    files: Annotated[dict[str, HubFile], "hashes and sizes by path"]
    env: NotRequired[Annotated[str, "environment"]]
    policy: NotRequired[Annotated[str, "algorithm"]]
    seed: NotRequired[Annotated[int | None, "random seed"]]
    status: NotRequired[Annotated[str | None, "how it ended"]]
    result: NotRequired[Annotated[dict[str, object], "best_return, env_step, train_iter, …"]]
    certificate: NotRequired[Annotated[bool, "whether it has one; dicore verify checks it"]]


class Package(TypedDict):
    """A plugin package; its texts are claims of its author."""

    name: Annotated[str, "its name"]
    version: Annotated[str, "its version"]
    summary: Annotated[str, "one line about it"]
    licence: Annotated[str, "its licence, as it states it; empty: none"]
    url: Annotated[str, "its page"]
    dicore: Annotated[str, "versions of dicore that it accepts"]
    python: Annotated[str, "versions of Python that it accepts"]
    components: Annotated[dict[str, str], "target by kind/name"]
    problems: Annotated[list[str], "what is wrong with its metadata"]
    badge: Annotated[dict[str, object], "what dicore check --badge found; empty without one"]
    rows: Annotated[list[str], "rows of a benchmark"]
    notes: Annotated[list[str], "why a badge does not count"]
    tier: Annotated[int, "0 no plugin, 1 metadata, 2 suites, 3 verified, 4 benchmark"]


class SelftestCase(TypedDict):
    """A fault case; one object a line."""

    manager: Annotated[str, "name of the env manager"]
    fault: Annotated[str, "name of the case"]
    status: Annotated[Literal["ok", "failed", "skipped"], "how it ended"]
    text: Annotated[str, "why"]
    seconds: Annotated[float, "time that it took"]
