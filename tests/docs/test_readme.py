"""The README's import lines, commands and examples work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
IMPORTS = re.findall(r"`(from [\w.]+ import [^`…]+)`", README)


def test_the_import_lines_are_there() -> None:
    assert len(IMPORTS) > 15
    assert len({module for module, _ in SHORTENED}) == 4


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_line_works(line: str) -> None:
    exec(line, {})  # the README's own text


SHORTENED = [
    (module, name)
    for names, module in re.findall(
        r"^\| (.*) \| `from ([\w.]+) import …` \|$", README, re.MULTILINE
    )
    for name in re.findall(r"`(\w+)`", names)
]


@pytest.mark.parametrize(("module", "name"), SHORTENED)
def test_the_names_of_a_shortened_line_exist(module: str, name: str) -> None:
    exec(f"from {module} import {name}", {})


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from dicore.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_the_documents_form_of_the_command_trains(tmp_path: Path) -> None:
    line = next(line for line in README.splitlines() if line.startswith("$ dicore -m serial --env"))
    words = line.split("#")[0].split()[2:]
    words[words.index("--train_iter") + 1] = "50"
    done = run(*words, "pipeline.logger=[]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "run.json").read_text())
    assert record["result"]["train_iter"] == 50
    assert record["seed"] == 0


@pytest.mark.parametrize("example", ["custom_main.py", "task_form.py"])
def test_the_examples_run(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), "--max-env-step", "700"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "return" in done.stdout
