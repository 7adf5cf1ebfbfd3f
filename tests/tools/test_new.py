"""`dicore new plugin`: what it writes and refuses; `tests/installed` builds and tests it."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from dicore.cli import main
from dicore.errors import UsageError
from dicore_registry import Registry, default, using
from dicore_tools.commands.new import kinds, write_plugin
from dicore_tools.plugin_index.package import BADGE, PICTURE, read_wheel
from tests.soak import SOAK, some

SELECTED = [name for name, kind in default().kinds().items() if kind.use.startswith("dicore ")]
QUICK = ["env.evaluator_env_num=1", "env.n_evaluator_episode=1"]


pytestmark = pytest.mark.usefixtures("here")


def test_there_is_a_template_for_every_kind() -> None:
    ours = (
        *("dicore", "dicore-plugins", "dicore-dist", "dicore-compat", "dicore-agents"),
        *("dicore-tools", "dicore-worlds", "dicore-contrib"),
    )
    own = [e.name for e in default().entries("kind") if e.dist in ours]
    assert kinds() == sorted(own)


def test_a_package(here: Path) -> None:
    place = write_plugin("Acme.Mazes", "env", name="grid-maze")
    assert place == Path("Acme.Mazes")
    files = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    assert files == [
        ".github/workflows/publish.yml",
        ".github/workflows/test.yml",
        ".gitignore",
        ".readthedocs.yaml",
        "README.md",
        "acme_mazes/__init__.py",
        "acme_mazes/dicore-badge.svg",
        "acme_mazes/env.py",
        "acme_mazes/py.typed",
        "docs/conf.py",
        "docs/index.md",
        "oldest.txt",
        "pyproject.toml",
        "tests/test_behaviour.py",
        "tests/test_contract.py",
    ]
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert project["name"] == "acme-mazes"
    assert project["dependencies"][0] == "dicore>=0.1,<0.2"
    assert project["license"] == "Apache-2.0"
    assert project["entry-points"] == {"dicore.env": {"grid_maze": "acme_mazes.env:GridMaze"}}
    assert "class GridMaze(" in (place / "acme_mazes" / "env.py").read_text()


def test_without_a_kind_the_user_is_asked_or_told_all(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("buffer\n"))
    assert main(["new", "plugin", "mine"]) == 2
    assert f"--kind is one of {', '.join(kinds())}\n" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["new", "plugin", "mine"]) == 0
    assert (here / "mine" / "mine" / "buffer.py").is_file()


@pytest.mark.parametrize(("short", "kind"), [("hook", "learner_hook"), ("wrapper", "env_wrapper")])
def test_short_names_of_kinds(short: str, kind: str) -> None:
    text = (write_plugin("mine", short) / "pyproject.toml").read_text()
    assert f'"dicore.{kind}"' in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mazes", "enw"), "--kind: no template for 'enw'; did you mean 'env'?"),
        (("a b", "env"), "invalid package name 'a b'"),
        (("class", "env"), "invalid Python package name 'class'"),
        (("json", "env"), "Python package 'json' already exists"),
        (("dqn", "policy"), "policy 'dqn' already exists in dicore-plugins"),
        (("cartpole", "env"), "env 'cartpole' already exists in dicore-contrib-envs"),
        (("full", "env"), "full already exists"),
    ],
)
def test_what_cannot_be_is_refused(here: Path, words: tuple[str, str], said: str) -> None:
    (here / "full").mkdir()
    (here / "full" / "mine.txt").touch()
    with pytest.raises(UsageError) as caught:
        write_plugin(*words)
    assert caught.value.message.startswith(said)
    assert [path.name for path in here.iterdir()] == ["full"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"folder": "file/mine"}, r"cannot write file/mine/pyproject.toml: Not a dir"),
        ({"name": "2fast"}, "invalid component name '2fast'"),
        ({"licence": 'MIT"\nversion = "9'}, "is no SPDX expression"),
    ],
)
def test_options_that_cannot_be(here: Path, options: dict[str, str], said: str) -> None:
    (here / "file").touch()
    with pytest.raises(UsageError, match=said):
        write_plugin("mine", "env", **options)  # type: ignore[arg-type] # each is a str


def test_it_is_tested_with_the_oldest_dicore_that_it_allows(here: Path) -> None:
    place = write_plugin("fresh-rl", "policy")
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    needs = {each.name: each.specifier for each in map(Requirement, project["dependencies"])}
    pins = [Requirement(line) for line in (place / "oldest.txt").read_text().split()]
    assert {pin.name for pin in pins} == {name for name in needs if name.startswith("dicore")}
    for pin in pins:
        (oldest,) = pin.specifier
        assert oldest.operator == "=="
        assert oldest.version in needs[pin.name]
        below = f"{int(oldest.version[0])}.{int(oldest.version[2]) - 1}.0"
        assert oldest.version.endswith(".0")
        assert below not in needs[pin.name]


def test_its_workflows_test_and_publish_without_a_password(here: Path) -> None:
    place = write_plugin("fresh-rl", "env")
    jobs = yaml.safe_load((place / ".github/workflows/test.yml").read_text())["jobs"]
    test, docs = jobs["test"], jobs["docs"]
    assert test["strategy"]["matrix"]["dicore"] == ["oldest", "newest"]
    runs = [step["run"] for step in test["steps"] if "run" in step]
    assert runs == [
        "pip install -c oldest.txt '.[test]'", "pip install --upgrade '.[test]'", "pytest",
        "dicore check fresh-rl",
    ]  # fmt: skip
    assert docs["steps"][-1]["run"] == "sphinx-build -W docs site"
    text = (place / ".github/workflows/publish.yml").read_text()
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert (publish["permissions"], publish["needs"]) == ({"id-token": "write"}, "build")
    assert "password" not in text.replace("no password", "")


@pytest.mark.soak
def test_its_pages_are_built_without_a_warning(here: Path) -> None:
    place = write_plugin("fresh-rl", "env")
    info = place / "fresh_rl-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fresh-rl\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[dicore.env]\nfresh_rl = fresh_rl.env:FreshRl\n")
    path = {**os.environ, "PYTHONPATH": str(place.resolve())}
    write = "import sys; from dicore.cli import main; sys.exit(main())"
    words = ["-c", write, "catalogue", "--package", "fresh-rl", "--out", "docs/components.md"]
    for each in (words, ["-m", "sphinx", "-W", "-q", "docs", "site"]):
        done = subprocess.run(
            [sys.executable, *each], cwd=place, env=path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "max_steps" in (place / "site/components.html").read_text()
    assert (place / "site/index.html").is_file()


def test_its_wheel_states_the_licence_and_holds_a_badge(here: Path) -> None:
    """Without a licence, `dicore index` would give it no tier."""
    words = ["new", "plugin", "mine-rl", "--kind", "env", "--licence", "MIT"]
    assert main([*words, "--backend", "setuptools"]) == 0
    place = here / "mine-rl"
    for name in (BADGE, PICTURE):
        (place / "mine_rl" / name).write_text("{}")
    build = "from setuptools.build_meta import build_wheel as b; b('.')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = place.glob("*.whl")
    assert read_wheel(wheel).licence == "MIT"
    assert read_wheel(wheel).problems == ()
    assert {f"mine_rl/{BADGE}", f"mine_rl/{PICTURE}"} <= {*zipfile.ZipFile(wheel).namelist()}


@pytest.mark.parametrize(
    ("kind", "agents"),
    [*some([(each, 1) for each in SELECTED], 7, "readmes"), ("env", 3), ("policy", 2)],
)
def test_what_its_readme_says_works(
    kind: str, agents: int, here: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As if installed: the package and its metadata on the path, the command as it is written."""
    place = write_plugin(f"fresh-{kind.replace('_', '-')}-{agents}", kind, agents=agents)
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    info = place / f"{project['name'].replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n"
    )
    ((group, entries),) = project["entry-points"].items()
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(place))
    readme = (place / "README.md").read_text()
    command = re.findall(r"^dicore (?!catalogue).*$", readme, re.MULTILINE)[-1]
    words = shlex.split(command)[1:]
    if words[0] == "train":
        words += ["--max-env-step", "300", *QUICK]
    with using(Registry(folder=here)):
        assert main(words) == 0, capsys.readouterr().err
    if words[0] == "train" and kind != "preset":
        (record,) = here.glob("runs/*/run.json")
        assert project["name"] in record.read_text(), "the component took part"
    if agents > 1:
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        tests.append("tests" if SOAK else "tests/test_behaviour.py")
        path = {**os.environ, "PYTHONPATH": str(place.resolve())}
        done = subprocess.run(
            tests, cwd=place, env=path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_several_agents_are_for_environments_and_policies(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "plugin", "mine", "--kind", "model", "--multi-agent"]) == 2
    assert "no template for several agents and --kind model" in capsys.readouterr().err
    assert main(["new", "plugin", "mine", "--kind", "env", "--agents", "4"]) == 0
    assert "AGENTS = 4\n" in (here / "mine" / "mine" / "env.py").read_text()
    assert "-p ippo" in (here / "mine" / "README.md").read_text()


def test_every_readme_says_how_to_use_what_is_made() -> None:
    for kind in kinds():
        text = (write_plugin(f"mine-{kind}", kind) / "README.md").read_text()
        assert len(text.rpartition("some are skipped\n```")[2].strip()) > 20, kind
