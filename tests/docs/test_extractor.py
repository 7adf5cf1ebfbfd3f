"""The snippet runner finds all code blocks, and a wrong snippet fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.snippets import (
    Page,
    Snippet,
    check_shown,
    commands_of,
    cut,
    matches,
    snippets_of,
)
from tests.soak import SOAK

PAGE = """
Text with `code`.

```python
x = 1
```

```{code-block} yaml
:caption: some.yaml

a: 1
```

<!-- run: ls -->

<!-- not run: it never ends -->
```console
$ dicore train
```

```{toctree}
other
```

1. A list

   ```toml
   a = 1
   ```
"""


def test_blocks_are_found_with_language_line_and_caption() -> None:
    found = list(snippets_of(PAGE))
    assert [(each.language, each.line) for each in found] == [
        ("python", 5), ("yaml", 11), ("console", 14), ("console", 18), ("toml", 28),
    ]  # fmt: skip
    assert found[2].code == "$ ls\n"
    assert found[0].code == "x = 1\n"
    assert (found[1].caption, found[1].code) == ("some.yaml", "a: 1\n")
    assert [each.not_run for each in found] == ["", "", "", "it never ends", ""]


def test_indented_code_is_refused() -> None:
    with pytest.raises(AssertionError, match="line 3: indented code has no language"):
        list(snippets_of("Text\n\n    dicore list\n"))


@pytest.mark.parametrize(
    ("snippet", "wrong"),
    [
        (Snippet("python", "raise ValueError('oops')", 7), "oops"),
        (Snippet("python", "assert 1 == 2, 'no'", 7), "no"),
        (Snippet("python", "import no_such_module", 7), "no_such_module"),
        (Snippet("yaml", "a: [1", 7), "expected"),
        (Snippet("toml", "a = ", 7), "Invalid"),
        (Snippet("(none)", "dicore list", 7), "page.md:7: unsupported language"),
        (Snippet("bash", "dicore list", 7), "page.md:7: unsupported language"),
        (Snippet("console", "$ dicore lisst", 7), r"page.md:7: \$ dicore lisst\nexited with 2"),
        (Snippet("console", "$ dicore list buffer\nno such line", 7), "expected:\nno such"),
        (Snippet("console", "$ dicore list buffer\nerror: no buffers", 7), "exited with 0"),
        (Snippet("console", "$ rm -rf /nowhere", 7), "rm cannot be run"),
        (Snippet("console", "$ make sandwich", 7), "unknown make target"),
        (Snippet("console", "$ python nowhere.py", 7), "exited with 2"),
    ],
    ids=lambda case: case.code if isinstance(case, Snippet) else "",
)
def test_a_wrong_snippet_fails(snippet: Snippet, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=wrong):
        Page(Path("page.md"), tmp_path).run(snippet)


def test_files_and_names_stay_for_what_follows_on_the_page(tmp_path: Path) -> None:
    page = Page(Path("page.md"), tmp_path)
    page.run(Snippet("python", "VALUE = 3\n", 1, caption="part.py"))
    page.run(Snippet("python", "from part import VALUE\n", 5))
    page.run(Snippet("python", "assert VALUE == 3\n", 9))
    page.run(Snippet("console", "$ python part.py\n$ ls\npart.py", 12))
    other = Page(Path("other.md"), tmp_path / "elsewhere")
    other.folder.mkdir()
    with pytest.raises(ModuleNotFoundError):
        other.run(Snippet("python", "import part", 1))


def test_what_is_printed_is_compared_line_by_line_with_numbers_left_open() -> None:
    output = "training dqn, seed 0, in runs/a\n1/2 steps\nreturn 12.5 (best 3.0)\nfolder: runs/a"
    assert matches("training dqn, seed 0, in runs/a", output)
    assert matches("return 99.25 (best 500.0)", output)
    assert matches("training …\n…\nfolder:   runs/a", output)
    assert matches("training dqn, seed 0, in runs/a\n…\n1/2 steps", output)
    assert not matches("return of 12.5", output)
    assert not matches("training …\nfolder: runs/b", output)
    assert not matches("folder: runs/a\n…\ntraining", output)


def test_commands_are_split_with_what_they_print() -> None:
    code = "$ dicore list \\\n    policy\nKIND\n\nend\n$ ls\n"
    assert list(commands_of(code)) == [("dicore list      policy", "KIND\n\nend"), ("ls", "")]


def test_long_budgets_are_cut() -> None:
    words = ["dicore", "train", "--max-env-step", "200000", "-s", "5000", "--train_iter", "70"]
    less = ("1000", "70") if SOAK else ("300", "21")
    assert cut(words) == [*words[:3], less[0], *words[4:7], less[1]]
    words = ["dicore", "collect", "runs/x", "-n", "10000", "-o", "demo"]
    assert cut(words) == [*words[:4], "1000", *words[5:]]


def test_commands_that_are_only_shown_name_what_is_there() -> None:
    check_shown(["make", "test"])
    check_shown(["pip", "install", "-c", "constraints.txt", "-e", "contrib_envs[box2d]"])
    with pytest.raises(AssertionError):
        check_shown(["pip", "install", "-e", "no_such_folder"])
