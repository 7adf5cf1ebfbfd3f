"""Start-up times with 50 third-party packages of 4 components each on the path (P13, P14, P31).

One JSON line per figure: the median wall time of whole processes in milliseconds, including the
start of the interpreter; `bare_interpreter` is that start alone.

    python -m benchmarks.startup [--runs 15]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import at_most, emit

PACKAGES = 50
COMPONENTS = 4
LIMITS = {"p13_list_piped": 100, "p13_help": 100, "p14_import_dicore": 60}
"""Most milliseconds, of the targets."""
KINDS = ("policy", "buffer", "env", "learner_hook")
SCAN = """
import time
from dicore_registry import Registry
start = time.perf_counter()
assert len(Registry().entries()) > 200
print((time.perf_counter() - start) * 1e3)
"""
"""Prints the milliseconds of the first scan in a process, without imports."""
FIND = """
from dicore_registry import default
assert default().find("policy", "foreign-07/part_7_0").version == "1.7"
"""
"""Finds one component by its name in a new worker process; the whole process is timed."""
MAIN = "import sys; from dicore.cli import main; sys.exit(main())"

CONFIG = '''"""Configuration of package {number}."""

from __future__ import annotations

from dicore.config import ComponentConfig, frozen, option


@frozen(kw_only=True)
class Part{part}Config(ComponentConfig):
    """Part {part} of package {number}, with a summary of one line."""

    size: int = option(10, "size of the part", ge=1)
'''


def write_packages(folder: Path) -> None:
    """Writes packages in the form of installed wheels."""
    for number in range(PACKAGES):
        package = folder / f"foreign_{number:02d}"
        info = folder / f"foreign_{number:02d}-1.{number}.dist-info"
        groups = []
        for part in range(COMPONENTS):
            module = package / f"part_{part}"
            module.mkdir(parents=True)
            (module / "__init__.py").write_text("")
            (module / "config.py").write_text(CONFIG.format(number=number, part=part))
            target = f"{package.name}.part_{part}.config:Part{part}Config"
            groups.append(f"[dicore.{KINDS[part]}]\npart_{number}_{part} = {target}\n")
        (package / "__init__.py").write_text("")
        info.mkdir()
        (info / "entry_points.txt").write_text("\n".join(groups))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: foreign-{number:02d}\nVersion: 1.{number}\n"
            "Requires-Dist: dicore<0.2,>=0.1\nRequires-Dist: numpy>=1.26\n\nA package.\n"
        )


def wall(command: list[str], environ: dict[str, str]) -> float:
    """Runs a process; returns its wall time in ms, or the time that it prints."""
    start = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    took = (time.perf_counter() - start) * 1e3
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.decode()}")
    return float(done.stdout) if SCAN in command else took


def measure(runs: int) -> dict[str, list[float]]:
    """Measures all figures; the processes take turns, so that other load affects all of them."""
    python = sys.executable
    commands = {
        "bare_interpreter": [python, "-c", "pass"],
        "p13_list_piped": [python, "-c", MAIN, "list"],
        "p13_list_json": [python, "-c", MAIN, "list", "--json"],
        "p13_help": [python, "-c", MAIN, "--help"],
        "p14_import_dicore": [python, "-c", "import dicore"],
        "scan_50_dists": [python, "-c", SCAN],
        "worker_finds_one_name": [python, "-c", FIND],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        write_packages(Path(folder))
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
        environ = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": f"{folder}/.byte-code"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have byte code
        for command in commands.values():
            wall(command, environ)  # fills byte code and file cache
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(wall(command, environ))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    times = measure(parser.parse_args().runs)
    for name, taken in times.items():
        if name in LIMITS:
            at_most(name, taken, "ms", LIMITS[name])
        else:
            emit(name, taken, "ms")
    bare = times["bare_interpreter"]
    slower = [a / b for a, b in zip(times["p13_list_json"], bare, strict=True)]
    at_most("p31_list_json / bare_interpreter", slower, "x", 5)


if __name__ == "__main__":
    main()
