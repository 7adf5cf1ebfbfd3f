"""`dicore new`: creates plugin packages from templates."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import click

import dicore_registry
from dicore.errors import UsageError
from dicore_registry import nearest
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json
from dicore_tools.licences import is_licence

if TYPE_CHECKING:
    from dicore_tools.json_output.written import NewPackage

__all__ = ["command", "write_plugin"]

_EPILOG = """\b
Examples:
  dicore new plugin mazes --kind env
  dicore new plugin acme-rl --kind policy --name acme_dqn --backend setuptools
  dicore new plugin teams --kind env --agents 2
  dicore new plugin acme-teams --kind policy --multi-agent
"""
_LICENCE: Final = "Apache-2.0"
_VERSION: Final = "0.1.0"
"""Version of what is written."""
_DICORE: Final = "dicore>=0.1,<0.2"
_BACKENDS: Final = {
    "hatchling": (
        "hatchling>=1.27",
        "hatchling.build",
        'tool.hatch.build.targets.wheel]\npackages = ["$package"]',
    ),
    "setuptools": (
        "setuptools>=77",
        "setuptools.build_meta",
        'tool.setuptools]\npackages = ["$package"]\n\n'
        '[tool.setuptools.package-data]\n$package = ["py.typed", "dicore-badge.*"]',
    ),
    "flit": ("flit_core>=3.11", "flit_core.buildapi", 'tool.flit.module]\nname = "$package"'),
    "pdm": ("pdm-backend>=2.4.4", "pdm.backend", 'tool.pdm.build]\nincludes = ["$package"]'),
    "poetry": (
        "poetry-core>=2.2",
        "poetry.core.masonry.api",
        'tool.poetry]\npackages = [{ include = "$package" }]',
    ),
    "uv": (
        "uv_build>=0.9",
        "uv_build",
        'tool.uv.build-backend]\nmodule-name = "$package"\nmodule-root = ""',
    ),
}
_BY_HAND: Final = {
    "diagnosis_rule": "Reports, `dicore watch` and `dicore diagnose RUN` apply it.",
    "executor": (
        "`task.start(async_mode=True)` uses the default executor. Make it one in this package's\n"
        '`pyproject.toml`:\n\n```toml\n[project.entry-points."dicore.default"]\n'
        'executor = "$name"\n```\n\n'
        "Then choose it in the `pyproject.toml` of your project:\n\n```toml\n"
        '[tool.dicore.prefer]\n"default/executor" = "$dist"\n```'
    ),
    "middleware": "Add it to a task: `task.use($name())` (see `examples/task_form.py`).",
    "model_wrapper": 'Wrap a model in it: `model_wrap(model, wrapper_name="$name")`.',
}
"""Usage of components that no command line option selects."""
_SLOT: Final = (
    'Declare a slot in a config class, `$kind: Any = component("$kind")`, and select `$name`\n'
    "there."
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A template: dependencies, entry point target and files."""

    needs: list[str] = field(default_factory=list)
    target: str = ""
    files: dict[str, str] = field(default_factory=dict)


def kinds() -> list[str]:
    """Returns the installed kinds that have a template."""
    names = (Path(str(each)).stem for each in files(_TEMPLATES).iterdir() if each.is_file())
    return sorted(set(names) & set(dicore_registry.default().kinds()))


_TEMPLATES: Final = "dicore_tools.templates"


class _Group(click.Group):
    """Says how a component of a kind is made, which is asked for as `dicore new env`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in kinds():
            raise UsageError(
                f"no such command '{cmd_name}'", hint=f"dicore new plugin NAME --kind {cmd_name}"
            )
        return super().get_command(ctx, cmd_name)


@click.group(name="new", cls=_Group, epilog=_EPILOG)
def command() -> None:
    """Creates a plugin package from a template."""


@command.command(name="plugin", epilog=_EPILOG)
@click.argument("dist", metavar="NAME")
@click.option(
    "--kind", metavar="KIND",
    help=f"Component kind: {', '.join(kinds())}.  [default: asked for on a terminal]",
)  # fmt: skip
@click.option("--name", help="Name of the component.  [default: the package name]")
@click.option(
    "--backend", type=click.Choice(list(_BACKENDS)), default="hatchling", show_default=True,
    help="Build backend.",
)  # fmt: skip
@click.option(
    "--licence", metavar="SPDX", default=_LICENCE, show_default=True,
    help="Under which others may use it.",
)  # fmt: skip
@click.option("--folder", metavar="DIR", help="Output folder.  [default: ./NAME]")
@click.option(
    "--agents",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    show_default=True,
    help="Agents of an environment.",
)
@click.option("--multi-agent", is_flag=True, help="A policy for several agents.")
@AS_JSON
def plugin(  # noqa: PLR0913 - the options of the command
    *,
    dist: str,
    kind: str | None,
    name: str | None,
    backend: str,
    licence: str,
    folder: str | None,
    agents: int,
    multi_agent: bool,
    as_json: bool,
) -> None:
    """Creates a package with one component and its tests.

    The component works as it is: its tests pass.
    """
    kind, agents = kind or _asked_kind(), max(agents, 2 if multi_agent else 1)
    place = write_plugin(
        dist, kind, name=name, backend=backend, licence=licence, folder=folder, agents=agents
    )
    if as_json:
        component = name or re.sub(r"[-.]+", "_", dist.strip()).lower()
        made: NewPackage = {
            "folder": str(place), "kind": "plugin",
            "component": f"{_canonical_kind(kind)}/{dicore_registry.canonical(component)}",
        }  # fmt: skip
        write_json(made)
        return
    sys.stdout.write(
        f"created {place}; next:\n  cd {place}\n  pip install -e '.[test]'\n  pytest\n"
    )
    sys.stdout.write(f"  dicore check {dicore_registry.dist_name(dist)}\n")


def write_plugin(
    dist: str,
    kind: str,
    *,
    name: str | None = None,
    backend: str = "hatchling",
    licence: str = _LICENCE,
    folder: str | Path | None = None,
    agents: int = 1,
) -> Path:
    """Writes a package and returns its folder.

    Args:
        dist: Name of the package (distribution).
        kind: Component kind.
        name: Name of the component; None takes the name of the package.
        backend: Build backend, one of `hatchling setuptools flit pdm poetry uv`.
        licence: Its licence, an SPDX expression.
        folder: Output folder; None: `dist` in the working directory.
        agents: Agents of an environment; for a policy, more than one: it is for any number of them.

    Raises:
        UsageError: a name or the licence is invalid, a name is taken, the kind has no template, or
            none for several agents, or the folder exists or cannot be written.
    """
    from dicore_tools.plugin_index.badge import badge_svg
    from dicore_tools.plugin_index.package import PICTURE

    kind = _canonical_kind(kind)
    dist = dist.strip()
    package = re.sub(r"[-.]+", "_", dist).lower()
    component = dicore_registry.canonical(package if name is None else name)
    _check_names(dist, package, kind, component)
    if not is_licence(licence):
        raise UsageError(f"--licence: {licence!r} is no SPDX expression", hint=_LICENCE)
    place = Path(dist if folder is None else folder)
    if place.exists() and any(place.iterdir() if place.is_dir() else [place]):
        raise UsageError(f"{place} already exists", hint="use another name, or --folder DIR")
    own, shared = _read_template(_template_of(kind, agents)), _read_template("project")
    words = _variables(dist, package, kind, component)
    dependencies = [_DICORE, *own.needs]
    words["dependencies"] = "\n".join(f'    "{each}",' for each in dependencies)
    words["oldest"] = _oldest(dependencies)
    requires, builder, options = _BACKENDS[backend]
    words["build_system"] = (
        f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{builder}"'
    )
    words["build_options"] = "\n[" + Template(options).substitute(words)
    words["licence"], words["version"] = licence, _VERSION
    words["agents"] = str(agents)
    words["target"] = Template(own.target).substitute(words)
    words["usage"] = _usage(kind, words)
    picture = {f"$package/{PICTURE}": badge_svg(1, _VERSION)}  # its metadata are valid
    _write_files(place, {**shared.files, **own.files, **picture}, words)
    return place


def _write_files(place: Path, files: Mapping[str, str], words: Mapping[str, str]) -> None:
    """Writes files from templates of their paths and contents."""
    for file, text in files.items():
        path = place / Template(file).substitute(words)
        body = Template(text).substitute(words).strip("\n") + "\n" * bool(text.strip())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _template_of(kind: str, agents: int) -> str:
    """Returns the name of the template.

    Raises:
        UsageError: there is none for several agents.
    """
    if agents == 1:
        return kind
    name = f"{kind}.agents"
    if not files(_TEMPLATES).joinpath(f"{name}.tmpl").is_file():
        raise UsageError(
            f"--agents, --multi-agent: no template for several agents and --kind {kind}",
            hint="--kind env --agents 2, or --kind policy --multi-agent",
        )
    return name


def _variables(dist: str, package: str, kind: str, component: str) -> dict[str, str]:
    """Returns the variables of the templates."""
    return {
        "dist": dicore_registry.dist_name(dist),
        "package": package,
        "kind": kind,
        "name": component,
        "NAME": component.upper(),
        "Class": "".join(part.capitalize() for part in component.split("_")),
        "spelling": component.replace("_", "-"),
        "article": _article(kind.replace("_", " ")).capitalize(),
    }


def _oldest(dependencies: list[str]) -> str:
    """Returns constraints of pip: the oldest version of each of dicore's packages."""
    bounds = (re.match(r"(dicore[\w-]*)>=(\d+\.\d+),", each) for each in dependencies)
    return "\n".join(f"{each[1]}=={each[2]}.0" for each in bounds if each)


def _usage(kind: str, words: Mapping[str, str]) -> str:
    """Returns how to use the installed component, as Markdown."""
    if kind in _BY_HAND:
        return Template(_BY_HAND[kind]).substitute(words)
    given = {
        **words, "item": words["name"], "position": "after_iter", "freq": "100",
        "env": "cartpole", "policy": "dqn", "verb": "train -e", "needed": "", "data": "",
    }  # fmt: skip
    usage = dicore_registry.default().kinds()[kind].usage(given)
    if words["agents"] != "1":
        usage = usage.replace("-p dqn", "-p ippo").replace("-e cartpole", "-e two_step_game")
    text = f"Use it after `pip install .`:\n\n```\n{usage}\n```"
    return text if usage else Template(_SLOT).substitute(words)


def _asked_kind() -> str:
    """Asks what the package contains; raises `UsageError` where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"what does the package contain? --kind is one of {', '.join(kinds())}",
            hint="dicore new plugin NAME --kind env",
        )
    answer: str = click.prompt("kind", type=click.Choice(kinds()), default="env")
    return answer


def _canonical_kind(kind: str) -> str:
    kind = dicore_registry.canonical(kind)
    short = {"hook": "learner_hook", "wrapper": "env_wrapper"}
    kind = short.get(kind, kind)
    if kind not in kinds():
        close = nearest(kind, kinds())
        hint = f"did you mean '{close}'?" if close else f"one of {', '.join(kinds())}"
        raise UsageError(f"--kind: no template for '{kind}'; {hint}")
    return kind


def _check_names(dist: str, package: str, kind: str, component: str) -> None:
    """Checks that the names are valid and not taken.

    Raises:
        UsageError: one of them is not.
    """
    from importlib.util import find_spec

    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?", dist):
        raise UsageError(f"invalid package name '{dist}'", hint="use letters, digits and '-'")
    if not package.isidentifier() or keyword.iskeyword(package):
        raise UsageError(f"invalid Python package name '{package}'", hint="use another name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", component):
        raise UsageError(
            f"--name: invalid component name '{component}'", hint="use letters, digits and '_'"
        )
    if package in sys.stdlib_module_names or find_spec(package) is not None:
        raise UsageError(f"Python package '{package}' already exists", hint="use another name")
    registry = dicore_registry.default()
    owner = next((e for e in registry.entries(kind) if e.name == component), None)
    if owner is not None:
        raise UsageError(
            f"{kind} '{component}' already exists in {owner.dist}",
            hint="use another --name: the same name in two packages is a conflict",
        )


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _read_template(template: str) -> _Parts:
    """Reads a template: lines `needs:` and `target:`, then files, each after `--- path`."""
    text = files(_TEMPLATES).joinpath(f"{template}.tmpl").read_text(encoding="utf-8")
    head, *sections = re.split(r"^--- (.*)$", text, flags=re.MULTILINE)
    fields = [line.partition(": ") for line in head.splitlines() if line.strip()]
    return _Parts(
        needs=[value for key, _, value in fields if key == "needs"],
        target=next((value for key, _, value in fields if key == "target"), ""),
        files=dict(zip(sections[::2], sections[1::2], strict=True)),
    )
