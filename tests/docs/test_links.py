"""Links to files of the repository have a target; Sphinx also checks links between pages."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from benchmarks.files_entered import files_entered
from dicore.cli import main
from docs.generate import pages
from docs.generate.path import NAMES, PAGE, limits, listed, traced
from tests.warm import cold

ROOT = Path(__file__).parents[2]
WRITTEN = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "generated"} & set(path.relative_to(ROOT).parts)
)


def links_of(text: str) -> Iterator[str]:
    """Yields the targets of links and images."""
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        for token in block.children or ():
            for name in ("href", "src"):
                if target := token.attrGet(name):
                    yield str(target)


def broken(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """Returns the links of a page whose target neither exists nor is generated."""
    made = {f"docs/generated/{name}" for name in pages()}
    bad = []
    for target in links_of(text):
        if re.match(r"\w+:|#", target):
            continue
        file = (root / path.parent / target.partition("#")[0]).resolve()
        known = file.is_relative_to(root.resolve()) and str(file.relative_to(root.resolve()))
        if not file.exists() and known not in made:
            bad.append(target)
    return bad


@pytest.mark.parametrize("path", WRITTEN, ids=str)
def test_the_links_of_a_page_have_targets(path: Path) -> None:
    assert broken(path, (ROOT / path).read_text(encoding="utf-8")) == []


def test_the_links_of_the_generated_pages_have_targets() -> None:
    bad = {
        name: broken(Path("docs/generated") / name, text.replace("](#", "](http:#"))
        for name, text in pages().items()  # made here: not by each process that collects tests
        if not name.startswith("parts/")
    }
    assert len(bad) > 50
    assert {name: targets for name, targets in bad.items() if targets} == {}


def test_a_broken_link_is_found() -> None:
    text = "[a](nowhere.md) [b](README.md) ![c](docs/images/none.svg) [d](https://x.org) [e](#f)"
    assert broken(Path("README.md"), text) == ["nowhere.md", "docs/images/none.svg"]
    assert broken(Path("docs/index.md"), "[a](generated/cli/train.md) [b](generated/no.md)") == [
        "generated/no.md"
    ]


# ---- path


TEXT = PAGE.read_text(encoding="utf-8")
AGAIN = "run python -m docs.generate.path"


@pytest.mark.parametrize("name", NAMES)
def test_a_list_names_the_files_that_a_value_passes(name: str) -> None:
    passed = [file for file, _ in traced(name)]
    assert len(passed) <= limits(TEXT)[name]
    assert set(passed) - set(listed(name, TEXT)) == set(), f"missing on the page; {AGAIN}"
    assert set(listed(name, TEXT)) - set(passed) == set(), f"not on the path; {AGAIN}"
    assert listed(name, TEXT) == passed, AGAIN


def test_each_step_of_a_walk_names_a_function_of_its_file() -> None:
    steps = re.findall(r"^\d+\. `([^`]+)`, `([^`]+)`", TEXT, re.MULTILINE)
    assert len(steps) > 80
    missing = [step for step in steps if not defines(ROOT / step[0], step[1])]
    assert missing == []


def defines(path: Path, function: str) -> bool:
    """Returns whether a file defines `Class.method`; what is inside of a function is skipped."""
    node: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for name in function.split(".<", maxsplit=1)[0].split("."):
        found = [each for each in ast.walk(node) if getattr(each, "name", "") == name]
        if not found:
            return False
        node = found[-1]
    return True


def test_a_training_enters_no_more_files_than_the_page_says() -> None:
    with cold():  # a class body runs where its module is imported, not in a fork
        command, env_step = files_entered()
    assert len(command) <= limits(TEXT)["command_to_optimizer"]
    assert len(env_step) <= limits(TEXT)["env_step_to_optimizer"]
    assert f"at most {limits(TEXT)['command_to_optimizer']} files" in TEXT


# ---- readme


README = (ROOT / "README.md").read_text(encoding="utf-8")
IMPORTS = re.findall(r"`(from [\w.]+ import [^`…]+)`", README)


def test_the_import_lines_are_there() -> None:
    assert len(IMPORTS) > 15
    assert len({module for module, _ in SHORTENED}) == 5


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


def test_the_documents_form_of_the_command_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(line for line in README.splitlines() if line.startswith("$ dicore -m serial --env"))
    words = line.split("#")[0].split()[2:]
    words[words.index("--train_iter") + 1] = "50"
    assert main([*words, "pipeline.logger=[]"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "run.json").read_text())
    assert record["result"]["train_iter"] == 50
    assert record["seed"] == 0


EXAMPLES = {"custom_main": 700, "custom_main_ppo": 512, "custom_main_td3": 1_010, "task_form": 700}
"""Env steps of each: one process runs them in turn, so that torch is imported once."""
RUN = """
import json, runpy, sys
for file, steps in json.loads(sys.argv[1]).items():
    print("example", file)
    sys.argv[1:] = ["--max-env-step", str(steps)]
    runpy.run_path(file, run_name="__main__")
"""


def test_the_examples_run(tmp_path: Path) -> None:
    files = {str(ROOT / "examples" / f"{name}.py"): steps for name, steps in EXAMPLES.items()}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(files)],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.split("example ")[1:]
    assert [each.partition("\n")[0] for each in said] == list(files)
    assert all("return" in each for each in said)
