"""Finds and runs the snippets of a Markdown page.

A page runs from top to bottom in one empty folder and one Python namespace:

- `python` is executed; a block with a caption (`:caption: maze.py`) is written to that file.
- `console` contains lines `$ command`, each followed by its output. `…` matches anything, and a
  number matches any number. Long budgets are reduced, in `python` that of a line `STEPS = 9_000`.
- `yaml`, `toml`, `json`, `ini` are parsed, and written to a file if they have a caption.
- `text` is ignored. A comment `<!-- not run: why -->` disables the next block, and
  `<!-- run: command -->` runs a command that the page does not show.
"""

from __future__ import annotations

import configparser
import contextlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from filelock import FileLock
from markdown_it import MarkdownIt

from dicore.cli import main
from dicore.errors import ConfigWarning
from dicore_registry import Registry, using
from tests.soak import SOAK

_OPTION = re.compile(r":(?P<name>[\w-]+):[ \t]*(?P<value>.*)\n?")
_NUMBER = re.compile(r"(?:(?<!\S)-)?\d+(?:[,_]\d+)*(?:\.\d+)?(?:e-?\d+)?")
_LONG = {"--max-env-step": 1_000, "--train_iter": 100}
"""Maximum budgets of commands in the tests, of which `make test` takes three tenths."""
_STEPS = 1_000
"""Maximum number of steps that a command collects in the tests."""
_BUDGET = re.compile(r"(?m:^(?:STEPS|UPDATES) = |\b(?:max_env_)?step=(?=\d\d))\d+_?\d{3}\b")
"""Budgets of `python`, of which the tests take 7 %: the first cell of notebooks, and long ones."""
_IN_FILES = re.compile(r"(?m:^(max_env_step = )(\d+)$)")
"""Budgets in files."""
_SOLVED = () if SOAK else ("env.stop_value=50",)
"""What is reached soon by `_TO_THE_END`."""
_TO_THE_END = ["dicore", "train", "-e", "cartpole", "-p", "dqn", "-s", "0"]
"""The first command of several pages, which trains until the stop value; it is run once."""
_RUN = "runs/cartpole_dqn_s0"
"""The run folder of this command."""
SHARED: list[Path] = []
"""A folder that all processes of the tests have, as a fixture says."""
_SHOWN = {"make", "pip", "tensorboard"}
"""Programs that are not run; only their arguments are checked."""
_PARSERS = {
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "json": json.loads,
    "ini": lambda text: configparser.ConfigParser().read_string(text),
}
LANGUAGES = {"python", "console", "text", *_PARSERS}


@dataclass(frozen=True)
class Snippet:
    """A fenced code block: language, text, first line, caption, and the reason not to run it."""

    language: str
    code: str
    line: int
    caption: str = ""
    not_run: str = ""


def snippets_of(text: str) -> Iterator[Snippet]:
    """Yields the code blocks of a page; other MyST directives are skipped."""
    skip = ""
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            found = re.search(r"<!-- not run: (.+?) -->", token.content)
            skip = found[1] if found else ""
            if hidden := re.search(r"<!-- run: (.+?) -->", token.content):
                yield Snippet("console", f"$ {hidden[1]}\n", (token.map or [0])[0] + 1)
        elif token.type == "fence":
            line = (token.map or [0])[0] + 2
            language, options, code, taken = _opened(token.info.strip(), token.content)
            if language:
                yield Snippet(language, code, line + taken, options.get("caption", ""), skip)
            skip = ""
        elif token.type == "code_block":
            raise AssertionError(f"line {(token.map or [0])[0] + 1}: indented code has no language")


def _opened(info: str, content: str) -> tuple[str, dict[str, str], str, int]:
    """Returns language ("": not a code block), options, code and number of option lines."""
    directive = re.fullmatch(r"\{(?P<name>[\w-]+)\}\s*(?P<argument>.*)", info)
    if directive is None:
        return info or "(none)", {}, content, 0
    if directive["name"] not in ("code-block", "code"):
        return "", {}, "", 0
    options: dict[str, str] = {}
    taken = 0
    while match := _OPTION.match(content):
        options[match["name"]] = match["value"].strip()
        content, taken = content[match.end() :], taken + 1
    bare = content.lstrip("\n")
    return directive["argument"], options, bare, taken + len(content) - len(bare)


class Page:
    """Runs the snippets of a page in a folder, from top to bottom.

    Args:
        path: The page, for messages.
        folder: Working directory of files and commands.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.module = types.ModuleType("page_of_the_docs")
        self.registry = Registry(folder=folder)

    def run(self, snippet: Snippet) -> None:
        """Runs one snippet.

        Raises:
            AssertionError: the snippet does not work as shown.
        """
        where = f"{self.path}:{snippet.line}"
        if snippet.language not in LANGUAGES:
            raise AssertionError(f"{where}: unsupported language: {snippet.language}")
        if snippet.not_run:
            return
        if snippet.language in _PARSERS:
            _PARSERS[snippet.language](snippet.code)
        if snippet.caption:
            target = self.folder / snippet.caption
            target.parent.mkdir(parents=True, exist_ok=True)
            text = _IN_FILES.sub(
                lambda line: f"{line[1]}{at_most(line[2], '--max-env-step')}", snippet.code
            )
            target.write_text(text, encoding="utf-8")
        elif snippet.language == "python":
            text = _BUDGET.sub(_less, snippet.code)
            code = compile("\n" * (snippet.line - 1) + text, self.path, "exec")
            with self._inside(self.registry):
                exec(code, vars(self.module))
        elif snippet.language == "console":
            for command, wanted in commands_of(snippet.code):
                self._command(command, wanted, where)

    def _command(self, command: str, wanted: str, where: str) -> None:
        words = shlex.split(command, comments=True)
        if words[0] in _SHOWN:
            check_shown(words)
            return
        code, output = self._output(cut(words, in_full="stop value reached" in wanted))
        fails = re.search(r"^error:", wanted, re.MULTILINE) is not None
        if bool(code) != fails:
            raise AssertionError(f"{where}: $ {command}\nexited with {code}:\n{output}")
        if wanted and not matches(wanted, output):
            raise AssertionError(f"{where}: $ {command}\nprinted:\n{output}\nexpected:\n{wanted}")

    def _output(self, words: list[str]) -> tuple[int, str]:
        """Returns exit code and output (both streams) of a command."""
        if words == _TO_THE_END and not (self.folder / "runs").exists():
            folder, said = trained_to_the_end()
            shutil.copytree(folder / "runs", self.folder / "runs")
            return 0, said
        if words[0] == "dicore":
            out = io.StringIO()
            process = Registry(folder=self.folder)  # as in a new process
            with (
                self._inside(process),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(out),
            ):
                code = main(words[1:])
            return code, out.getvalue()
        if words[0] in ("python", "pytest"):
            words = [
                sys.executable,
                *(["-m", "pytest"] if words[0] == "pytest" else []),
                *words[1:],
            ]
        elif words[0] not in ("ls", "cat", "cp", "mkdir", "mv"):
            raise AssertionError(
                f"{self.path}: {words[0]} cannot be run; use <!-- not run: why -->"
            )
        path = os.environ.get("PYTHONPATH", "")
        done = subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "PYTHONPATH": f"{self.folder}{os.pathsep}{path}".strip(os.pathsep)},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    @contextlib.contextmanager
    def _inside(self, registry: Registry) -> Iterator[None]:
        """Changes to the folder, makes its files importable, and restores everything."""
        before, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
        sys.modules[self.module.__name__] = self.module
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        try:
            with using(registry), warnings.catch_warnings():
                warnings.simplefilter("default", ConfigWarning)  # shown, as on the command line
                warnings.filterwarnings("ignore", ".*non-interactive")  # matplotlib's show()
                yield
        finally:
            os.chdir(before)
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                file = getattr(sys.modules[name], "__file__", None) or ""
                if file.startswith(str(self.folder)) or name == self.module.__name__:
                    del sys.modules[name]


def trained_to_the_end() -> tuple[Path, str]:
    """Returns a folder with the run of `_TO_THE_END`, and what the command said.

    It is run once for all processes of the tests, in the folder `SHARED`.
    """
    folder = SHARED[0] / "trained to the end"
    said = folder / "said"
    with FileLock(f"{folder}.lock"):
        if not said.exists():
            folder.mkdir()
            page = Page(Path("trained"), folder)
            code, text = page._output([*_TO_THE_END, *_SOLVED, "--exp-name", _RUN])
            assert code == 0, text
            said.write_text(text, encoding="utf-8")
    return folder, said.read_text(encoding="utf-8")


def _less(budget: re.Match[str]) -> str:
    name, _, number = budget[0].rpartition("=")
    return f"{name}= {int(number) * 7 // 100}"


def cut(words: list[str], *, in_full: bool = False) -> list[str]:
    """Returns a command with budgets limited to those of `_LONG`, or three tenths of them."""
    before = ["", *words]
    if words[:2] == ["dicore", "collect"]:
        return [
            str(min(int(word), _STEPS)) if option == "-n" else word
            for option, word in zip(before, words, strict=False)
        ]
    return [
        at_most(word, option, in_full=in_full) if option in _LONG else word
        for option, word in zip(before, words, strict=False)
    ]


def at_most(budget: str, option: str, *, in_full: bool = SOAK) -> str:
    """Returns the budget of the tests for one of a page."""
    least = min(int(budget), _LONG[option])
    return str(least if in_full or SOAK else least * 3 // 10)


def check_shown(words: list[str]) -> None:
    """Checks the arguments of a command that is not run.

    Raises:
        AssertionError: it names a missing target, file or folder.
    """
    root = Path(__file__).parents[2]
    if words[0] == "make":
        targets = re.findall(r"^(\w+):", (root / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets), f"unknown make target: {words[1:]}"
    for option, word in itertools.pairwise(words):
        if option in ("-e", "-c", "-r"):
            assert (root / word.partition("[")[0]).exists(), f"{words}: {word} does not exist"


def commands_of(code: str) -> Iterator[tuple[str, str]]:
    """Yields each command of a console block with its expected output."""
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.replace("\\\n", " ").partition("\n")
        yield command, wanted.strip("\n")


def matches(wanted: str, output: str) -> bool:
    """Returns whether an output matches a page line by line; numbers and `…` match anything."""
    lines = re.escape(_NUMBER.sub("0", _squeezed(wanted)))
    pattern = re.sub(r"(?:\\\n)?…(?:\\\n)?", lambda _: "(?s:.*?)", lines)
    return re.search(pattern, _NUMBER.sub("0", _squeezed(output))) is not None


def _squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())
