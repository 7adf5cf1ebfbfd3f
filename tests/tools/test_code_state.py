"""FEATURES E15: what code a run started from; no repository is no error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dicore.run.metadata import RunMetadata
from dicore_tools.code_state import code_state, redact_diff


def changed_code(folder: Path) -> str | None:
    return code_state(folder)[1]


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def revision(folder: Path) -> str | None:
    return code_state(folder)[0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_changed_file_is_seen_and_a_new_one_is_not(repository: Path) -> None:
    below = repository / "below"
    below.mkdir()
    assert changed_code(repository) == changed_code(below) == ""
    (below / "run.log").write_text("new")
    assert changed_code(repository) == ""
    (repository / "code.py").write_text("x = 2\n")
    assert "-x = 1\n+x = 2\n" in (changed_code(below) or "")


def test_without_a_repository_a_revision_or_git_nothing_is_said(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert changed_code(elsewhere) is None
    git(elsewhere, "init", "-q")
    assert changed_code(elsewhere) is None
    monkeypatch.setenv("PATH", str(repository))
    assert changed_code(repository) is None


def test_a_patch_is_cut_and_holds_no_secret(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E10: a config under version control may hold what no copy of it should."""
    (repository / "c.yaml").write_text("a: 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "two")
    (repository / "c.yaml").write_text("api_token: hush1\ntoken: ${env:MY_TOKEN}\nmonkey: 2\n")
    (repository / "code.py").write_text(
        'x = 1\ncfg = dict(password=\'hush2\', n=3)\nd = {"token": "hush3", "b": 4}\n'
        "y = sorted(z, key=len)\n"
    )
    patch = changed_code(repository) or ""
    assert "hush" not in patch
    for kept in (
        "+api_token: <redacted>", "+token: ${env:MY_TOKEN}", "+monkey: 2", "n=3)", '"b": 4}',
        "key=len)",
    ):  # fmt: skip
        assert kept in patch
    monkeypatch.setattr("dicore_tools.code_state._MAX_PATCH_CHARS", 100)
    assert (changed_code(repository) or "").endswith(" more characters)\n")


HUSH = "hush4711"
HIDDEN = {
    "a.py": [
        'os.environ["API_KEY"] = "hush4711"',
        'os.environ.setdefault("WANDB_API_KEY", "hush4711")',
        'token: str | None = "hush4711"',
        'if token == "hush4711":',
        'token = """a\nhush4711\n"""',
        'token = rb"""\nhush4711\n"""',
        'token = (\n    "hush4711"\n    "hush4711"\n)',
        'token = \\\n    "hush4711"',
        'd = {"token":\n  "hush4711"}',
        'tokens = ["hush4711", "x"]',
        'tokens = [\n "x",\n "hush4711",\n]',
        'token = "a" + f"hush4711" "hush4711"',
        'password = "esc\\"hush4711"',
        'login(password=("hush4711"), clientSecret="hush4711")',
        'run("API_TOKEN=hush4711 cmd")',
        'h = {"Authorization": "Bearer hush4711"}',
        'h = "Authorization: Basic hush4711"',
        'url = "https://me:hush4711@host/x"',
        'url = "https://host/x?a=1&api_key=hush4711"',
        'pem = """-----BEGIN RSA PRIVATE KEY-----\nhush4711\n-----END RSA PRIVATE KEY-----"""',
    ],
    "a.ipynb": ['"token = \\"hush4711\\"\\n",', '"e[\\"API_KEY\\"] = \\"hush4711\\"\\n",'],
    "c.yaml": [
        "token: |\n  hush4711\n\n  hush4711",
        "token: >-\n\n  hush4711",
        "token:\n  hush4711",
        "tokens:\n- hush4711",
        "tokens:\n  - hush4711",
        'token: "a\n  hush4711"',
        "token: a, hush4711",
        "- name: API_TOKEN\n  value: hush4711",
        "- API_TOKEN=hush4711",
        "Authorization: Bearer hush4711",
    ],
    "a.json": ['"token": [\n  "hush4711"\n]', '"Authorization": "token hush4711"'],
    "a.toml": ['token = """\nhush4711\n"""', 'tokens = [\n  "hush4711",\n]'],
    "x/.env": ["export API_TOKEN=hush4711", 'API_TOKEN="a\nhush4711"'],
    "run.sh": [
        "API_TOKEN=hush4711 python x",
        'curl -H "Authorization: Bearer hush4711" x',
        "curl -u me:hush4711 x",
        "dicore train a.token=hush4711",
        "mysql --password hush4711",
    ],
    "Dockerfile": ["ENV API_TOKEN=hush4711", "ENV API_TOKEN hush4711", "ARG TOKEN=hush4711"],
}


@pytest.mark.parametrize(
    ("file", "text"), [(file, text) for file, texts in HIDDEN.items() for text in texts]
)
def test_secrets_are_found_in_every_form(file: str, text: str) -> None:
    """R-E10: assignments of every kind, over several lines, added, removed and as context."""
    for sign in "+- ":
        lines = [f"{sign}{line}" for line in text.split("\n")]
        patch = "\n".join([f"--- a/{file}", f"+++ b/{file}", "@@ -1 +1 @@", *lines, "+kept = 1"])
        shown = redact_diff(patch)
        assert HUSH not in shown
        assert shown.endswith("+kept = 1")


def test_each_side_of_a_patch_has_texts_of_its_own() -> None:
    """The old text ends before the new one does."""
    lines = [
        '@@ -1,9 +1,9 @@ token = "hush"', ' token = """', '-hush"""', "+hush", '+hush"""',
        " kept = 1",
    ]  # fmt: skip
    assert redact_diff("\n".join(["+++ b/a.py", *lines])).split("\n") == [
        "+++ b/a.py", "@@ -1,9 +1,9 @@ token = <redacted>", " token = <redacted>", "-<redacted>",
        "+<redacted>", "+<redacted>", " kept = 1",
    ]  # fmt: skip


def test_code_that_only_looks_like_a_secret_is_kept() -> None:
    code = [
        "+y = sorted(z, key=len)", '+monkey = "see"', "+token = read_token()", "+if key:",
        '+print("token", count)', "+url = 'https://git@host/x?page=2'", "+bearer = who",
    ]  # fmt: skip
    patch = "\n".join(["+++ b/a.py", "@@ -1 +1 @@", *code])
    assert redact_diff(patch) == patch


def test_no_half_of_a_secret_is_left_where_a_patch_is_cut(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "code.py").write_text("x = 2\ntoken = 'hush hush hush hush hush hush'\n")
    whole = changed_code(repository) or ""
    assert "+token = <redacted>" in whole
    monkeypatch.setattr("dicore_tools.code_state._MAX_PATCH_CHARS", whole.index("+token") + 15)
    assert "hush" not in (changed_code(repository) or "")


def test_a_line_that_is_one_long_word_takes_no_time(repository: Path) -> None:
    """Data under version control has such lines; quadratic, this one would take minutes."""
    (repository / "code.py").write_text("a" * 500_000 + "\n")
    assert len(changed_code(repository) or "") > 500_000


def test_the_record_holds_revision_state_and_a_command_line_without_secrets(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.chdir(repository)
    (repository / "code.py").write_text("x = 2\n")
    argv = ["dicore", "train", "pipeline.logger=[]", "a.token=hush"]
    RunMetadata(repository / "run.json", seed=0, argv=argv).write("running")
    record = json.loads((repository / "run.json").read_text())
    assert record["argv"] == [*argv[:3], "a.token=<redacted>"]
    assert (len(record["git"]), record["dirty"]) == (40, True)
    assert "+x = 2\n" in (repository / "code.diff").read_text()


def test_a_run_that_goes_on_keeps_both_patches(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    for number in (2, 3):
        (repository / "code.py").write_text(f"x = {number}\n")
        record = RunMetadata(repository / "run.json", seed=0, argv=[])
        if number == 3:
            record.resume("iteration_1", 1, 1)
        record.write("running")
        record.write("done")
    assert "+x = 2\n" in (repository / "code.diff").read_text()
    assert "+x = 3\n" in (repository / "code_1.diff").read_text()


def test_the_git_revision_is_what_git_says(tmp_path: Path) -> None:
    assert revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert revision(tmp_path) is None, "no commit yet"
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a")
    (tmp_path / "deep").mkdir()
    assert revision(tmp_path / "deep") == git(tmp_path, "rev-parse", "HEAD")
    linked = tmp_path / "linked"
    git(tmp_path, "worktree", "add", "-q", str(linked))
    git(linked, "commit", "-q", "--allow-empty", "-m", "b")
    assert revision(linked) == git(linked, "rev-parse", "HEAD") != revision(tmp_path)
