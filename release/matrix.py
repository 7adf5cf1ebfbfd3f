"""Runs the smoke test of the wheels under every supported Python and NumPy: `make matrix`.

    python release/matrix.py --python python3.11 --python python3.13 --python python3.14

What cannot be tried is named at the end and is no failure unless `--strict` is given: interpreters
that are not installed, pairs without wheels (NumPy 1.26 has none for Python 3.13), and a torch that
brings CUDA, which is several GB per pair. For a torch without it, name an index of CPU builds:

    PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make matrix
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dist import PROJECTS, ROOT, requirements, run, smoke

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
NUMPYS = ("numpy>=1.26,<2", "numpy>=2,<3")
UNTRIED = ("not installed", "no wheels", "CUDA only")
"""How outcomes begin that are no failures."""


def main(pythons: list[str], *, strict: bool, cuda: bool) -> None:
    """Builds the wheels once and runs every pair; ends with 1 if a pair fails or is missing."""
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="dicore-matrix-") as folder:
        wheels = Path(folder) / "wheels"
        for project in PROJECTS:
            words = ["--no-isolation", "--wheel", "-o", str(wheels), str(project)]
            run([sys.executable, "-m", "build", *words])
        for number, python in enumerate(pythons):
            for numpy in NUMPYS:
                place = Path(folder) / f"{number}-{NUMPYS.index(numpy)}"
                place.mkdir()
                rows.append((python, numpy, _outcome(place, wheels, python, numpy, cuda=cuda)))
    for row in rows:
        print("{:<12} {:<18} {}".format(*row), flush=True)
    bad = [row for row in rows if row[2] != "ok" and (strict or not row[2].startswith(UNTRIED))]
    raise SystemExit(1 if bad else 0)


def _outcome(place: Path, wheels: Path, python: str, numpy: str, *, cuda: bool) -> str:
    found = interpreter(python)
    if found is None:
        return "not installed"
    pins = (numpy, tested_torch())
    against = obstacle(found, [*requirements(wheels), *pins], cuda=cuda)
    if against is not None:
        return against
    try:
        smoke(place, wheels, found, *pins)
    except SystemExit as error:
        return f"failed ({error.code})"
    finally:
        shutil.rmtree(place)  # each holds a torch
    return "ok"


def tested_torch() -> str:
    """Returns the requirement of the torch that CI tests."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def obstacle(python: str, wanted: list[str], *, cuda: bool = False) -> str | None:
    """Returns why an installation should not be tried; None if it may.

    Reads metadata from the index, and downloads no packages that have it there.

    Args:
        python: The interpreter.
        wanted: Requirements, as pip takes them.
        cuda: Packages of CUDA may be installed.
    """
    with tempfile.TemporaryDirectory(prefix="dicore-matrix-") as folder:
        report = Path(folder) / "report.json"
        words = [python, "-m", "pip", "install", "--dry-run", "-q", "--ignore-installed"]
        words += ["--only-binary", "numpy", "--report", str(report), *wanted]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            return f"no wheels: {done.stderr.strip().splitlines()[-1]}"
        chosen = [each["metadata"] for each in json.loads(report.read_bytes())["install"]]
    large = [each["name"] for each in chosen if each["name"].startswith(("nvidia-", "cuda-"))]
    if cuda or not large:
        return None
    [torch] = [f"torch {each['version']}" for each in chosen if each["name"] == "torch"]
    return f"CUDA only: {torch} brings {len(large)} packages of CUDA; see --help"


def interpreter(python: str) -> str | None:
    """Returns the interpreter of a name, from the path or from pyenv; None if there is none."""
    version = python.removeprefix("python")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(python), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if found is not None and _makes_environments(str(found)):
            return str(found)
    return None


def _makes_environments(python: str) -> bool:
    """Returns whether it runs and has venv; pyenv puts names on the path that do not run."""
    words = [python, "-c", "import ensurepip, venv"]
    return not subprocess.run(words, capture_output=True, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--cuda", action="store_true", help="install CUDA, where torch brings it")
    given = parser.parse_args()
    main(given.python or list(PYTHONS), strict=given.strict, cuda=given.cuda)
