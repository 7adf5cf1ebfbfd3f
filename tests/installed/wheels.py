"""Builds wheels of first-party, foreign and generated packages."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.registry.environment import MAIN, ROOT, Environment, environ

BACKENDS = {
    "hatchling": "hatchling.build",
    "setuptools": "setuptools.build_meta",
    "flit": "flit_core.buildapi",
    "pdm": "pdm.backend",
    "poetry": "poetry.core.masonry.api",
    "uv": "uv_build",
}
_BUILD = """
import importlib, os, sys
backend, out, *projects = sys.argv[1:]
module = importlib.import_module(backend)
for project in projects:
    os.chdir(project)
    print("built", module.build_wheel(out), flush=True)
"""


def build(backend: str, projects: Iterable[Path], out: Path) -> list[Path]:
    """Builds the wheels of several projects in one process, without a network."""
    out.mkdir(parents=True, exist_ok=True)
    tools = Path(sys.executable).parent  # where uv's backend looks for its program
    path = os.pathsep.join([str(tools), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, BACKENDS[backend], str(out), *map(str, projects)],
        capture_output=True, text=True, check=False, env={**environ(), "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("built ")]
    return [out / name for name in names]


def write_project(
    folder: Path,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
    *,
    version: str = "1.0",
    requires: str = "dicore>=0.1,<0.2",
    extras: Mapping[str, str] | None = None,
) -> Path:
    """Writes a project that hatchling builds and returns its folder."""
    project = folder / name
    lines = ["[build-system]", 'requires = ["hatchling"]', 'build-backend = "hatchling.build"', ""]
    lines += ["[project]", f'name = "{name}"', f'version = "{version}"']
    lines += [f'dependencies = ["{requires}"]' if requires else "dependencies = []"]
    lines += ["", "[project.optional-dependencies]"]
    lines += [f'{extra} = ["{wanted}"]' for extra, wanted in (extras or {}).items()]
    for group, entries in groups.items():
        lines += ["", f'[project.entry-points."{group}"]']
        lines += [f'{key} = "{value}"' for key, value in entries.items()]
    tops = sorted({file.partition("/")[0] for file in modules})
    lines += ["", "[tool.hatch.build.targets.wheel]", f"only-include = {tops}"]
    for file, text in modules.items():
        path = project / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    (project / "pyproject.toml").write_text("\n".join(lines) + "\n")
    return project


CLASS = '''
class {name}:
    """{doc}"""

    def __init__(self, size: int = 3) -> None:
        self.size = size
'''

SLEEPY = "sleepy was imported"
"""A file that a package leaves where it is imported."""


def write_foreign(folder: Path) -> list[Path]:
    """Writes the packages of strangers, good and bad, and returns their folders."""

    def policy(name: str, package: str, text: str, **more: str) -> Path:
        groups = {"dicore.policy": {package.partition("_")[0]: f"{package}.policy:Theirs"}}
        body = CLASS.format(name="Theirs", doc=f"The policy of {name}.")
        modules = {f"{package}/__init__.py": text, f"{package}/policy.py": body}
        return write_project(folder, name, groups, modules, **more)

    twin = {"dicore.policy": {"tedq": "{0}.sac:SAC", "{0}_only": "{0}.sac:SAC"}}

    def twins(package: str) -> Path:
        groups = {
            group: {key.format(package): value.format(package) for key, value in entries.items()}
            for group, entries in twin.items()
        }
        body = CLASS.format(name="SAC", doc=f"Soft actor-critic of {package}.")
        modules = {f"{package}/__init__.py": "", f"{package}/sac.py": body}
        return write_project(folder, package.replace("_", "-"), groups, modules)

    return [
        policy("boom-rl", "boom_rl", "raise RuntimeError('libfoo.so: undefined symbol')\n"),
        policy("old-rl", "old_rl", "raise SystemExit('imported')\n", requires="dicore<0.1"),
        policy("sleepy-rl", "sleepy_rl", f"import pathlib\n\npathlib.Path({SLEEPY!r}).touch()\n"),
        policy("dqn-rl", "dqn_rl", ""),
        policy("free-rl", "free_rl", "", requires=""),
        twins("acme_rl"),
        twins("other_rl"),
        write_project(
            folder, "typo-rl",
            {"dicore.polcy": {"vmpo": "typo_rl:VMPO"}, "dicore.policy": {"fine": "typo_rl:VMPO"}},
            {"typo_rl.py": CLASS.format(name="VMPO", doc="Trust region policy optimization.")},
        ),
        write_project(
            folder, "extra-rl",
            {"dicore.env": {
                "tennis": "extra_rl:Env [atari]", "neat": "extra_rl:Env [neat]",
                "newer": "extra_rl:Env [newer]",
            }},
            {"extra_rl.py": CLASS.format(name="Env", doc="A game.")},
            extras={"atari": "no-such-emulator>=2", "neat": "attrs>=20", "newer": "attrs>=9999"},
        ),
        write_project(
            folder, "hooks-rl",
            {"dicore.plugin": {"notes": "hooks_rl", "misspelt": "hooks_rl_misspelt"}},
            {
                "hooks_rl.py": HOOKS,
                "hooks_rl_misspelt.py": HOOKS.replace("dicore_run_started", "dicore_run_startd"),
            },
        ),
    ]  # fmt: skip


HOOKS = '''
"""Notes what happens in a run."""

from dicore.interfaces.hook import LearnerHook
from dicore.hookspecs import Diagnostic, hookimpl


def note(run, text):
    with (run.folder.path / "notes.txt").open("a") as file:
        file.write(text + "\\n")


class Count(LearnerHook):
    """Counts updates."""

    def __init__(self):
        super().__init__("count", position="after_run")

    def __call__(self, engine):
        note(engine.run, f"{engine.train_iter} updates")


@hookimpl
def dicore_run_started(run):
    note(run, "started")


@hookimpl
def dicore_run_finished(run, status):
    note(run, f"finished {status}")


@hookimpl
def dicore_report_header(run):
    return [f"notes: {run.folder}/notes.txt"]


@hookimpl
def dicore_default_learner_hooks(cfg):
    return [Count()]


@hookimpl(wrapper=True)
def dicore_run(run):
    note(run, "before")
    found = yield
    note(run, "after")
    return found


@hookimpl
def dicore_doctor(registry):
    return [Diagnostic("warning", "hooks-rl", "has something to say")]
'''

OWN = (
    *(ROOT, ROOT / "plugins", ROOT / "plugins" / "tools"),
    *(
        ROOT / "plugins" / "dist",
        ROOT / "plugins" / "compat",
        ROOT / "plugins" / "agents",
        ROOT / "plugins" / "worlds",
        ROOT / "plugins" / "contrib",
        ROOT / "contrib_envs",
    ),
    ROOT / "examples" / "dicore-hello",
)
TABULAR = Path(__file__).parent / "tabular-rl"
"""A foreign package that trains with the core alone."""
SCHOOLS = Path(__file__).parent / "schools"
"""A foreign package with algorithms of all schools."""
EXAMPLES = sorted(each.parent for each in ROOT.glob("examples/plugins/*/pyproject.toml"))
"""Packages of five kinds, which have tests and badges of their own."""


def write_generated(folder: Path, environment: Environment, kinds: Iterable[str]) -> None:
    """Lets `dicore new plugin` write a package per kind and one per backend.

    All in one process: what is tested of the command line itself is tested elsewhere.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = [["new", "plugin", f"my-{kind.replace('_', '-')}", "--kind", kind] for kind in kinds]
    words += [
        ["new", "plugin", f"by-{backend}", "--kind", "env", "--backend", backend]
        for backend in BACKENDS
    ]
    code = (
        f"from dicore.cli import main\nfor words in {words!r}:\n    assert main(words) == 0, words"
    )
    done = environment.run("-c", code, cwd=folder)
    assert done.returncode == 0, done.stderr


__all__ = ["BACKENDS", "MAIN", "OWN", "build", "write_foreign", "write_generated", "write_project"]
