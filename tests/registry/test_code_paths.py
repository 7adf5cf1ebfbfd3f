"""Which code paths a process imports once it has read a stranger's config."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dicore_registry import CodePathError, Registry, code_paths
from dicore_registry.errors import UnknownComponentError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    (tmp_path / "theirs.py").write_text("raise SystemExit('it ran')\n")
    return tmp_path


def test_the_classes_of_a_file_are_found_without_running_it(file: Path) -> None:
    for text, wanted in (
        ("raise SystemExit\nclass A:\n    class B: pass\n", ["A"]),
        ("class A: pass\nclass B: pass\n", ["A", "B"]),
        ("class _A: pass\nclass B: pass\n", ["B"]),
        ("class A: pass\nclass B(gym.Env): pass\n", ["B"]),
        ("class C: pass\nclass A(Env): pass\nclass B(A): pass\n", ["A", "B"]),
        ("", []),
    ):
        (file / "envs.py").write_text(text)
        assert code_paths.classes_of("envs.py") == wanted
    for text in ("class", "class A: pass\0"):
        (file / "envs.py").write_text(text)
        with pytest.raises(UnknownComponentError, match=r"envs\.py: "):
            code_paths.classes_of("envs.py")
    for none in ("none.py", "."):
        with pytest.raises(UnknownComponentError, match=f"{none}: .* "):
            code_paths.classes_of(none)


def test_whoever_asks_is_refused_in_any_thread(file: Path) -> None:
    registry = Registry()
    assert registry.resolve("policy", "./mine.py:Mine").target
    code_paths.close()
    found: list[BaseException] = []

    def ask() -> None:
        for call in (registry.resolve, registry.supplier):
            try:
                call("learner_hook", "./theirs.py:X", "policy.hook")
            except CodePathError as error:
                found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert [str(each).partition("\n")[0] for each in found] == [
        "policy.hook: './theirs.py:X' is a code path, and a saved config may be a stranger's"
    ] * 2
    assert "--trust" in found[0].hint


def test_names_only_is_the_reason_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICORE_NAMES_ONLY", "1")  # before a config is read, as `check` imports
    with pytest.raises(
        CodePathError, match=r"'json\.tool' is a code path, which --names"
    ) as caught:
        code_paths.import_module("json.tool", "env.env_id")
    assert caught.value.hint == "omit --names-only to allow it"


def test_what_was_given_before_or_later_may_be_imported(file: Path) -> None:
    registry = Registry()
    code_paths.allow(["./mine.py:Mine"])
    code_paths.close()
    assert registry.resolve("policy", "./mine.py:Mine").target
    assert registry.resolve("policy", "dqn").name == "dqn"
    code_paths.allow(["./theirs.py:X"])
    with pytest.raises(Exception, match="it ran"):
        registry.resolve("policy", "./theirs.py:X")


def test_parts_of_a_given_text_may_be_imported() -> None:
    code_paths.allow(["gymnasium:json.tool:Maze-v0"])
    code_paths.close()
    code_paths.import_module("json.tool")
    with pytest.raises(CodePathError, match=r"env\.env_id: 'json\.decoder'"):
        code_paths.import_module("json.decoder", "env.env_id")


def test_arguments_that_name_objects_are_checked() -> None:
    code_paths.close()
    code_paths.check_arguments({"size": 3, "url": "http://127.0.0.1:80/x y", "text": "a b"})
    for text in ("os:system", "os: no id", "über:X", "a-b:X", " os:", "os://x"):
        with pytest.raises(CodePathError, match=f"'{text}'"):
            code_paths.check_arguments({"nested": [{"env_id": text}]})


def test_the_rule_is_carried_and_never_loosened() -> None:
    code_paths.allow(["mine:X"])
    loose = code_paths.state()
    code_paths.close()
    code_paths.restore(loose)
    code_paths.check("mine:X")
    with pytest.raises(CodePathError):
        code_paths.check("theirs:X")
