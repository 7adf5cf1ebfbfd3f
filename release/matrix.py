"""Runs the smoke test of the wheels under every supported Python and NumPy: `make matrix`.

    python release/matrix.py --python python3.11 --python python3.12 --python python3.13

Interpreters that are not installed are named at the end and are no failure unless `--strict` is
given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dist import PROJECTS, run, smoke

PYTHONS = ("python3.11", "python3.12", "python3.13")
NUMPYS = ("numpy>=1.26,<2", "numpy>=2,<3")


def main(pythons: list[str], *, strict: bool) -> None:
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
                rows.append((python, numpy, _outcome(place, wheels, python, numpy)))
    for row in rows:
        print("{:<12} {:<18} {}".format(*row), flush=True)
    bad = [row for row in rows if row[2] != "ok" and (strict or row[2] != "not installed")]
    raise SystemExit(1 if bad else 0)


def _outcome(place: Path, wheels: Path, python: str, numpy: str) -> str:
    found = interpreter(python)
    if found is None:
        return "not installed"
    try:
        smoke(place, wheels, found, numpy)
    except SystemExit as error:
        return f"failed ({error.code})"
    finally:
        shutil.rmtree(place)  # each holds a torch
    return "ok"


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    main(arguments.python or list(PYTHONS), strict=arguments.strict)
