"""`dicore hub`: what is pushed is what is pulled, and what is pulled is data."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from dicore.cli import main
from dicore.errors import UsageError
from dicore_dist.links.token_file import kept_token
from dicore_tools.hub.transfer import listed, pull, push
from tests.tools.conftest import SMALL

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run."""
    folder = tmp_path_factory.mktemp("pushed") / "small"
    words = ["-e", "cartpole", "-p", "dqn", "--no-preset", *SMALL, "-q", "pipeline.logger=[]"]
    assert main(["train", *words, "--exp-name", str(folder)]) == 0
    return folder


@pytest.fixture
def served() -> Iterator[str]:
    """The address of a web server of the folder `hub`, on this machine."""
    Path("hub").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(Path("hub").absolute()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_run_goes_to_a_folder_and_comes_back_from_a_web_server(
    run: Path, served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "push", str(run), "hub", "--licence", "MIT"]) == 0
    assert main(["hub", "list", served]) == 0
    told = capsys.readouterr().out
    assert "small" in told
    assert "cartpole" in told
    assert main(["hub", "pull", served, "small", "-o", "theirs"]) == 0
    taken = {str(f.relative_to("theirs")) for f in Path("theirs").rglob("*") if f.is_file()}
    assert {"config.json", "run.json", "log/metrics.jsonl"} <= taken
    assert all((run / name).read_bytes() == (Path("theirs") / name).read_bytes() for name in taken)
    assert not any(name.endswith(".py") for name in taken)
    assert main(["eval", "theirs", "-n", "1"]) == 0
    page = Path("hub/small/README.md").read_text()
    assert "license: MIT" in page
    assert "dicore hub pull hub small" in page
    assert Path("hub/small/curve.svg").read_text().startswith("<svg xmlns=")


def test_any_store_of_fsspec_will_do(run: Path) -> None:
    place = "memory://team/hub"
    assert push(run, place, name="a") == f"{place}/a"
    assert push(run, place, name="b", everything=True) == f"{place}/b"
    assert [card["name"] for card in listed(place)] == ["a", "b"]
    few, all_ = pull(place, "a", "a"), pull(place, "b", "b")
    assert {*few["files"]} < {*all_["files"]}
    with pytest.raises(UsageError, match="there is a 'a'"):
        push(run, place, name="a")
    push(run, place, name="a", overwrite=True)


def test_a_data_set_is_an_item_too() -> None:
    Path("data.npz").write_bytes(b"numbers")
    push("data.npz", "hub")
    card = pull("hub", "data.npz", "mine")
    assert card["kind"] == "dataset"
    assert Path("mine/data.npz").read_bytes() == b"numbers"


@pytest.fixture
def item() -> Path:
    """An item with one file; returns its card."""
    Path("data").mkdir()
    Path("data/a.npz").write_bytes(b"numbers")
    push("data", "hub")
    return Path("hub/data/card.json")


@pytest.mark.parametrize(
    "path",
    [
        "../evil",
        "/tmp/evil",
        "a/../../evil",
        ".ssh/authorized_keys",
        "a//b",
        "a\\..\\evil",
        "C:evil",
        "",
    ],
)
def test_a_path_out_of_the_folder_is_refused(item: Path, path: str) -> None:
    card = json.loads(item.read_text())
    card["files"][path] = card["files"]["a.npz"]
    item.write_text(json.dumps(card))
    with pytest.raises(UsageError, match="no path in its folder"):
        pull("hub", "data", "mine")
    assert not Path("mine").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda card: Path("hub/data/a.npz").write_bytes(b"NUMBERS"), "changed or cut off"),
        (lambda card: Path("hub/data/a.npz").write_bytes(b"num"), "changed or cut off"),
        (lambda card: Path("hub/data/a.npz").write_bytes(b"n" * 99), "larger than the 7 bytes"),
        (lambda card: Path("hub/data/a.npz").unlink(), "incomplete"),
        (lambda card: card.update(format=2), "format 2, expected 1"),
        (lambda card: card.update(files=[]), "names no files"),
        (lambda card: card["files"].update({"a.npz": {"size": -1}}), "size or hash is missing"),
        (lambda card: card.update(name="other"), "there is no 'data'"),
    ],
)
def test_a_wrong_item_is_one_error_and_leaves_nothing(item: Path, change: Any, told: str) -> None:
    card = json.loads(item.read_text())
    change(card)
    item.write_text(json.dumps(card))
    with pytest.raises(UsageError, match=told):
        pull("hub", "data", "mine")
    assert sorted(each.name for each in Path().iterdir()) == ["data", "hub"]


def test_links_and_secrets_of_a_folder_are_not_pushed(
    item: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data/link").symlink_to("/etc/passwd")
    Path("data/.env").write_text("KEY=1")
    Path("data/id_ed25519").write_text("KEY")
    Path("data/tokens.npz").write_text("words")
    assert main(["hub", "push", "data", "hub", "--name", "two"]) == 0
    told = capsys.readouterr().out
    assert "not pushed: link: a link" in told
    assert "not pushed: id_ed25519: it may be a secret" in told
    assert {*pull("hub", "two", "two")["files"]} == {"a.npz", "tokens.npz"}


@pytest.mark.parametrize("certified", [False, True])
def test_the_secrets_of_a_run_on_several_machines_are_not_pushed(
    run: Path, monkeypatch: pytest.MonkeyPatch, *, certified: bool
) -> None:
    """Its token, by which anybody could join the training, and what only its owner may read."""
    monkeypatch.setenv("DICORE_TOKEN", "swordfish-1")
    mine = shutil.copytree(run, Path("dist"))
    for folder in (mine / "policy", mine / "elsewhere"):
        folder.mkdir(mode=0o700)
        kept_token(folder)
    (mine / "policy" / "journal.jsonl").write_text("{}")
    (mine / "policy" / "journal.jsonl").chmod(0o600)
    (mine / "notes.txt").write_text("for all")
    (mine / "notes.txt").chmod(0o644)
    if certified:
        (mine / "certificate.json").write_text("{}")
    push(mine, "hub", everything=not certified)
    there = {str(each.relative_to("hub/dist")) for each in Path("hub/dist").rglob("*")}
    assert {"notes.txt", "log/metrics.jsonl", "run.json"} <= there
    assert not [each for each in there if each.startswith(("policy", "elsewhere"))]
    for each in Path("hub").rglob("*"):
        assert each.is_dir() or b"swordfish" not in each.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["push", "nothing", "hub"], "no such file or folder"),
        (["push", "data", "hub", "--name", "../x"], "not a name"),
        (["push", "data", "nosuch://hub"], "nosuch"),
        (["push", "data", "http://127.0.0.1:1/hub"], "cannot be read"),
        (["pull", "hub", "never"], "there is no 'never'"),
        (["pull", "hub", "data", "-o", "data"], "data exists"),
        (["pull", "http://127.0.0.1:1", "data", "-o", "x"], "cannot be read"),
        (["list", "nowhere"], "no such place"),
    ],
)
def test_mistakes_end_with_2(
    item: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", *words]) == 2
    assert told in capsys.readouterr().err
