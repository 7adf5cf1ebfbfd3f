"""The Python reference: a page per package, every public name of it, from the docstrings."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from dicore_registry import default

_PACKAGES = {
    "interfaces": ("dicore.interfaces", "Contracts of all roles: Protocols and their kinds."),
    "config": ("dicore.config", "Declaration of options, compilation of configs."),
    "data": ("dicore.data", "Batches of columns that also read like rows and dicts."),
    "task": ("dicore.task", "The training loop: tasks, contexts and middleware."),
    "run": ("dicore.run", "Runs: launch, folder, seeds, checkpoints, metrics."),
    "agent": (
        "dicore_tools.agent",
        "The `Agent` class: train, evaluate, record, save.",
    ),
    "report": ("dicore_tools.reports", "Learning curves of several runs and seeds."),
    "tools": ("dicore_tools", "Evaluation, demo data, several seeds, interquartile means."),
    "testing": ("dicore.testing", "Conformance suites and test doubles."),
    "functional": ("dicore_plugins.functional", "Returns, targets, losses, exploration."),
    "components": ("dicore_plugins", "What own components derive from and are made of."),
    "dist": ("dicore_dist", "Training in several processes."),
    "compat": ("dicore_compat", "What receives programs of DI-engine and Digideep."),
    "agents": ("dicore_agents", "Several agents: environments, networks, algorithms, leagues."),
    "worlds": ("dicore_worlds", "Latent world models and the algorithms that learn from them."),
    "contrib": ("dicore_contrib", "Algorithms beside the standard ones."),
    "plugins": ("dicore.hookspecs", "Plugin hooks (pluggy)."),
    "envs": ("dicore_contrib_envs", "Presets as dicts."),
    "cli": ("dicore.cli", "The command line as a function."),
    "errors": ("dicore.errors", "All exception classes with their exit codes."),
    "registry": ("dicore_registry", "Discovery and lookup of installed components."),
}
_MORE = {
    "dicore_tools": (
        "evaluation.evaluate",
        "demo_dataset",
        "multi_seed.series",
        "evaluation.offline.estimators",
        "evaluation.offline.evaluate",
        "results.statistics",
        "diagnosis.evidence",
        "diagnosis.finding",
        "diagnosis.table",
    ),
    "dicore.run": ("launch", "env_factory", "random"),
    "dicore_tools.reports": ("curves", "picture", "run_data", "text"),
    "dicore.hookspecs": ("specs",),
    "dicore_contrib_envs": ("presets",),
}
"""Modules whose public names are listed on the page of a package."""
_INTERNAL = ("compare", "inner_env", "isolation", "lazy", "scripted_env")
"""Modules that serve others of their package only."""


def api_pages() -> dict[str, str]:
    """Returns a page per package and the index of them."""
    rows = "\n".join(
        f"| [`{module}`]({name}.md) | {text} |" for name, (module, text) in _PACKAGES.items()
    )
    toctree = "\n".join(_PACKAGES)
    index = (
        "# Python reference\n\nThese names are public; others may change without notice.\n\n"
        f"| Package | Content |\n| --- | --- |\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    )
    seen: set[int] = set()
    pages = {"api/index.md": index}
    for name, (module, text) in _PACKAGES.items():
        parts = [f"# {module}", text, *_sections(module, seen)]
        pages[f"api/{name}.md"] = "\n\n".join(parts) + "\n"
    return pages


def public_names() -> dict[str, set[str]]:
    """Returns the public names of each module of the reference."""
    paths = [path for module, _ in _PACKAGES.values() for path in _modules(module)]
    names = {path: set(_public(import_module(path))) for path in paths}
    return {"dicore": {"register", *_added()}, **names}


def _added() -> set[str]:
    """Returns the public names that packages add to `dicore`."""
    return {entry.attr for entry in default().entries("api")}


def _sections(package: str, seen: set[int]) -> Iterator[str]:
    """Yields heading and directives of each module; an object is listed only once."""
    for path in _modules(package):
        module = import_module(path)
        lines = [line for name in _public(module) for line in _directive(module, name, seen)]
        if not lines:
            continue
        if path != package:
            yield f"## {path}"
        yield "```{eval-rst}\n" + "\n".join(lines) + "\n```"


def _modules(package: str) -> list[str]:
    root = import_module(package)
    found = (each.name for each in pkgutil.iter_modules(getattr(root, "__path__", ())))
    below = [name for name in found if name not in _INTERNAL]
    if package in ("dicore.interfaces", "dicore_plugins", "dicore_compat"):
        return [f"{package}.{name}" for name in below]
    if package == "dicore.testing":
        return [package, *(f"{package}.{name}" for name in below)]
    return [package, *(f"{package}.{name}" for name in _MORE.get(package, ()))]


def _public(module: ModuleType) -> list[str]:
    declared = getattr(module, "__all__", None)
    if declared is not None:
        specs = [name for name in vars(module) if name.startswith("dicore_")]  # hooks
        return [name for name in declared if not name.startswith("__")] + specs
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and (name.isupper() or getattr(value, "__module__", None) == module.__name__)
    ]


def _directive(module: ModuleType, name: str, seen: set[int]) -> list[str]:
    value: Any = getattr(module, name)
    if id(value) in seen or isinstance(value, ModuleType) or name.endswith("KIND"):
        return []
    path = f"{module.__name__}.{name}"
    home = getattr(value, "__module__", None) or ""
    if callable(value) and not home.startswith("dicore"):  # an alias of another project's class
        package = getattr(getattr(value, "func", value), "__module__", "").partition(".")[0]
        target = "``dict``" if value is dict else f"a class of ``{package}``"
        return [f".. py:data:: {path}", "", f"   Alias of {target}.", ""]
    if inspect.isclass(value) and value.__name__ != name and hasattr(module, value.__name__):
        return [f".. py:data:: {path}", "", f"   Alias of ``{value.__name__}``.", ""]
    if inspect.isclass(value):
        seen.add(id(value))
        return [f".. autoclass:: {path}", "   :members:", ""]
    if inspect.isfunction(value):
        seen.add(id(value))
        return [f".. autofunction:: {path}", ""]
    text = _text_of(module, name)
    if text:
        return [f".. py:data:: {path}", "", *(f"   {line}" for line in text), ""]
    return [f".. autodata:: {path}", "   :no-value:", ""]


def _text_of(module: ModuleType, name: str) -> list[str]:
    """Returns the text below a constant that the stub of a package takes from another module."""
    stub = Path(module.__file__ or "").with_suffix(".pyi")
    lines = stub.read_text(encoding="utf-8").splitlines() if stub.is_file() else []
    end = f" import {name} as {name}"
    homes = [line.removesuffix(end).split()[-1] for line in lines if line.endswith(end)]
    found = [ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name)) for home in homes]
    return next(filter(None, found), [])
