"""The code that a run starts from: git revision, and uncommitted changes without secrets."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dicore.config.redact import REDACTED, is_secret, redact_text

__all__ = ["code_state"]

_CODE = re.compile(r"\.(py[xi]?|ipynb|[ch](pp|c|xx)?|cu|rs|go|jl?|[jt]sx?|java|kt|rb|lua|m)$")
"""Files in which only a quoted text is a value; in settings and scripts any text is."""
_ASSIGNED = re.compile(
    r"""(?<![\w.-])([\w.-]++)"""  # not from inside a word: that is quadratic
    r"""\\?(?:["']?\]?(?:\s*:[\w.\[\]| ]{0,60})?\s*(?:=>|[:=!]=|[:=])|["']\s*(,))[ \t]*"""
)
_STRING = re.compile(r"""[rbufRBUF]{0,2}(\\?(?:"{3}|'{3}|["']))""")
_VARIABLE = re.compile(r"""(?<![\w.-])([A-Z][A-Z\d_]*+)(=)([^\s"'\\)]+)""")
_FLAG = re.compile(r"(?<!\S)(?:--|(?<=ENV ))([\w-]++)([ \t]+)([^\s-]\S*)")
_LOGIN = re.compile(r"(\s(?:-u|--user)[ =]?[^\s:]+:)[^\s\"']+")
_NAMED = re.compile(r"""\bname["']?\s*[:=]\s*["']?([\w.-]+)""")
_VALUE = re.compile(r"""(\bvalue["']?\s*[:=]\s*).+""")
_BLOCK = re.compile(r"\s*([|>][+-]?\d?|\[|\{)?\s*(#.*)?")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_GIT_TIMEOUT_S: Final = 2.0
_MAX_PATCH_CHARS: Final = 2 << 20
_REVISION: Final = ("rev-parse", "--verify", "HEAD")
_DIFF: Final = (
    *("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/"),
)


def code_state(folder: Path) -> tuple[str | None, str | None]:
    """Returns the commit checked out around `folder`, and a patch of the uncommitted changes.

    Both are None without git or a commit, or if git takes more than two seconds. Secrets in the
    patch are redacted; it is cut at 2 MiB.
    """
    revision, diff = (_start_git(folder, command) for command in (_REVISION, _DIFF))
    commit, patch = _output(revision), _output(diff)
    if patch is not None and len(patch) > _MAX_PATCH_CHARS:
        whole = patch[:_MAX_PATCH_CHARS].rpartition("\n")[0]  # a cut line might show half a secret
        patch = f"{whole}\n({len(patch) - len(whole)} more characters)\n"
    return commit and commit.strip(), patch and redact_diff(patch)


def _start_git(folder: Path, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    try:
        return subprocess.Popen(  # noqa: S603 - the command is constant
            ("git", *command),  # noqa: S607 - the git of PATH
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _output(process: subprocess.Popen[bytes] | None) -> str | None:
    if process is None:
        return None
    with process:
        try:
            out, _ = process.communicate(timeout=_GIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    return out.decode("utf-8", "replace") if process.returncode == 0 else None


def redact_diff(patch: str) -> str:
    """Returns a patch without the texts that its lines assign to secret names.

    In code these texts are quoted; in settings and scripts they need not be. Texts that span lines
    are redacted whole, and so are credentials in URLs and headers.
    """
    lines: list[str] = []
    sides: dict[str, _Redactor] = {}
    is_code = False
    for line in patch.split("\n"):
        if line.startswith("+++ "):
            is_code = _CODE.search(line.rstrip()) is not None
        elif line.startswith("@@"):
            sides = {sign: _Redactor(is_code=is_code) for sign in "+-"}
            head, at, context = line.rpartition("@@")
            line = head + at + _Redactor(is_code=is_code).line(context)  # noqa: PLW2901 - the same line
        elif sides and line.startswith(("+", "-")):
            line = line[0] + sides[line[0]].line(line[1:])  # noqa: PLW2901
        elif sides and line.startswith(" "):
            open_, found = [], []
            for side in sides.values():
                open_.append(side.is_open)
                found.append(side.line(line[1:]))
            chosen = found[0] if open_[0] or not open_[1] else found[1]
            line = " " + (REDACTED if all(open_) and found[0] != found[1] else chosen)  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


class _Redactor:
    """Redacts the lines of one side of a hunk."""

    def __init__(self, *, is_code: bool) -> None:
        self.is_code = is_code
        self.until = ""  # what ends the text that a line left open
        self.indent = -1  # the lines of a block begin to the right of it
        self.depth = 0  # open brackets of a value
        self.waits = False  # for the value of the name that a line ended with
        self.named = False  # `name: API_KEY` was read; `value: …` follows

    @property
    def is_open(self) -> bool:
        """Whether a line left a value open."""
        return bool(self.until) or self.indent >= 0 or self.depth > 0 or self.waits or self.named

    def line(self, text: str) -> str:
        at, out = 0, ""
        bare = text.lstrip()
        column = len(text) - len(bare)
        if self.until:
            end = text.find(self.until)
            if end < 0:
                return REDACTED
            at, out, self.until = end + len(self.until), REDACTED, ""
        elif self.indent >= 0:
            if not bare:
                return text
            if column > self.indent or (column == self.indent and bare.startswith("-")):
                return text[:column] + REDACTED
            self.indent = -1
        if self.depth or self.waits:
            more, at = self._strings(text, column if not out else at)
            out = (out or text[:column]) + more
        return out + self._rest(text, at)

    def _rest(self, text: str, at: int) -> str:
        out = ""
        start = at
        while found := _ASSIGNED.search(text, at):
            name, at = found[1], found.end(1)
            if is_secret(name) and (found[2] is None or name.isupper() or name.startswith("--")):
                out += text[start : found.end()]
                more, start = self._value(text, found)
                out, at = out + more, start
        return self._words(out + text[start:])

    def _value(self, text: str, found: re.Match[str]) -> tuple[str, int]:
        at = found.end()
        if not self.is_code:
            self.indent = found.start(1)
            if not _STRING.match(text, at):
                keep = "${env:" in text[at:] or _BLOCK.fullmatch(text, at) is not None
                return text[at:] if keep else REDACTED, len(text)
        return self._strings(text, at)

    def _strings(self, text: str, at: int) -> tuple[str, int]:
        """Redacts the strings that begin at a position, up to the end of their expression."""
        out, some = "", False
        while at < len(text):
            if quoted := _STRING.match(text, at):
                end = self._end(text, quoted)
                out += text[at:end] if "${env:" in text[at:end] else REDACTED
                at, some = end, True
                continue
            if text[at] in "([{":
                self.depth += 1
            elif text[at] in ")]}" and self.depth:
                self.depth -= 1
            elif not self.depth and text[at] not in " \t+\\":
                break
            out += text[at]
            at += 1
        is_end = at == len(text) and not self.until and not self.depth
        self.waits = self.is_code and is_end and (not some or text.endswith("\\"))
        return out, at

    def _end(self, text: str, quoted: re.Match[str]) -> int:
        """Returns where a string ends; one that its line does not end stays open."""
        quote, end = quoted[1], quoted.end()
        while (end := text.find(quote, end)) > 0 and len(quote) == 1 and text[end - 1] == "\\":
            end += 1
        if end >= 0:
            return end + len(quote)
        if not self.is_code or len(quote) > 2 or text.endswith("\\"):
            self.until = quote
        return len(text)

    def _words(self, text: str) -> str:
        """Redacts what no assignment of the language gives: variables, flags, keys, URLs."""
        if self.named:
            text = _VALUE.sub(rf"\1{REDACTED}", text)
        match = _NAMED.search(text)
        self.named = match is not None and is_secret(match[1])
        text = _VARIABLE.sub(_redact_match, text)
        if not self.is_code:
            text = _LOGIN.sub(rf"\1{REDACTED}", _FLAG.sub(_redact_match, text))
        if _PRIVATE_KEY.search(text) and "-----END" not in text:
            self.until = "-----END"
        return redact_text(text)


def _redact_match(match: re.Match[str]) -> str:
    hide = is_secret(match[1]) and "${env:" not in match[3] and REDACTED not in match[3]
    return match[0][: match.start(3) - match.start()] + REDACTED if hide else match[0]
