"""Builds the distributions, checks them, and runs them from a new environment: `make dist`.

    python release/dist.py --out dist

Wheels and source archives of all distributions are written to the output folder, each built twice:
the bytes must be equal. A wheel holds its bill of materials (`release/sbom.py`). `twine check`
reads their metadata. Then the wheels are installed into a new virtual environment, where a training
is run, resumed, evaluated and reported from an empty folder, so that nothing of this checkout can
help. Needs a package index, or pip's settings for a folder of wheels.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from sbom import add_sbom

ROOT = Path(__file__).parents[1]
PROJECTS = (
    ROOT,
    ROOT / "plugins",
    ROOT / "plugins/dist",
    ROOT / "plugins/tools",
    ROOT / "plugins/compat",
    ROOT / "plugins/agents",
    ROOT / "plugins/worlds",
    ROOT / "plugins/contrib",
    ROOT / "contrib_envs",
)
EXTRAS = {"dicore_contrib_envs": "[classic-control]"}
SMOKE = (
    ("dicore", "--version"),
    ("dicore", "list", "policy"),
    ("dicore", "doctor"),
    ("dicore", "train", "-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", "400",
     "--exp-name", "runs/a", "pipeline.logger=[console,csv]"),
    ("dicore", "train", "--resume", "runs/a", "--max-env-step", "600"),
    ("dicore", "eval", "runs/a", "-n", "2", "-s", "7"),
    ("dicore", "report", "runs", "-o", "report.html"),
    ("dicore", "show", "pipeline/serial", "--graph"),
)  # fmt: skip
"""Commands of the smoke test, in order."""


def main(out: Path, python: str) -> None:
    """Builds, checks, installs and runs; ends with the code of the first failure."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.whl"), *out.glob("*.tar.gz")):
        old.unlink()
    files = build(out)
    with tempfile.TemporaryDirectory(prefix="dicore-dist-") as folder:
        checker = new_environment(Path(folder) / "twine", python)
        run([checker, "-m", "pip", "install", "-q", "twine"])
        run([checker, "-m", "twine", "check", "--strict", *files])
        smoke(Path(folder), out, python)
    print(f"{out}: {len(files)} files, checked", flush=True)


def build(out: Path, projects: Sequence[Path] = PROJECTS) -> list[str]:
    """Builds wheels with their bills of materials, and source archives, twice; returns the files.

    Raises:
        SystemExit: a build fails, or the bytes of two builds differ.
    """
    digests: list[dict[str, str]] = []
    for _ in range(2):
        for project in projects:
            run([sys.executable, "-m", "build", "--no-isolation", "-o", str(out), str(project)])
        for wheel in out.glob("*.whl"):
            add_sbom(wheel)
        found = sorted((*out.glob("*.whl"), *out.glob("*.tar.gz")))
        digests.append({each.name: sha256(each.read_bytes()).hexdigest() for each in found})
    differing = [name for name in digests[0] if digests[0][name] != digests[1].get(name)]
    if differing:
        raise SystemExit(f"not reproducible: two builds of {', '.join(differing)} differ")
    lines = [f"{digest}  {name}\n" for name, digest in digests[0].items()]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    assert len(found) == 2 * len(projects), found
    return [*map(str, found)]


def smoke(folder: Path, out: Path, python: str, *pins: str) -> None:
    """Installs the wheels into a new environment and runs the smoke test.

    Args:
        folder: An empty folder.
        out: The folder of the wheels.
        python: The interpreter.
        *pins: Further requirements, such as `numpy<2`.
    """
    began = time.monotonic()
    inside = new_environment(folder / "env", python)
    limits = [] if pins else ["-c", str(ROOT / "constraints.txt")]
    run([inside, "-m", "pip", "install", "-q", *limits, *requirements(out), *pins])
    place = folder / "work"
    place.mkdir()
    for program, *words in SMOKE:
        run([str(Path(inside).with_name(program)), *words], place)
    for name in ("report.html", "serial.svg", "runs/a/log/progress.csv"):
        assert (place / name).stat().st_size > 0, name
    print(f"installed and run in {time.monotonic() - began:.0f} s", flush=True)


def requirements(out: Path) -> list[str]:
    """Returns the wheels of a folder as pip takes them, with the extras of the smoke test."""
    wheels = sorted(out.glob("*.whl"))
    return [f"{wheel}{EXTRAS.get(wheel.name.split('-')[0], '')}" for wheel in wheels]


def new_environment(folder: Path, python: str) -> str:
    """Creates a virtual environment; returns its interpreter."""
    if Path(python).resolve() == Path(sys.executable).resolve():
        venv.create(folder, with_pip=True)
    else:
        run([python, "-m", "venv", str(folder)])
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    return str(folder / scripts / "python")


def run(words: Sequence[str], folder: Path = ROOT) -> None:
    """Runs a program; ends this one with its code if it fails."""
    print("$", *words, flush=True)
    code = subprocess.run(words, cwd=folder, check=False).returncode  # noqa: S603 - our own words
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", default=sys.executable, help="interpreter to install with")
    arguments = parser.parse_args()
    main(arguments.out.resolve(), arguments.python)
