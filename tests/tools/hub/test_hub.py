"""`dicore hub`: what is pushed is what is pulled, and what is pulled is data."""

from __future__ import annotations

import functools
import http.server
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from dicore.cli import main
from dicore.errors import CheckpointError, SchemaError, UsageError
from dicore.run.checkpoint_io import write_state
from dicore_dist.links.token_file import kept_token
from dicore_tools.hub import store, transfer
from dicore_tools.hub.store import open_store
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
    Path("hub").mkdir(exist_ok=True)

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
    assert "CartPole-v1" in told
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


def test_what_is_no_whole_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, "runs/bare", ignore=lambda *_: ["ckpt"])
    push("runs/bare", "hub")
    assert capsys.readouterr().out == "runs/bare has no checkpoint: its policy is not pushed\n"
    with pytest.raises(UsageError, match="runs: a folder of runs") as caught:
        push("runs", "hub")
    assert caught.value.hint == "push one of them: runs/bare"


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


def recorded(file: str) -> None:
    """Writes a file of recorded steps."""
    np.savez(file, reward=np.arange(3.0))


def test_a_data_set_is_an_item_too(capsys: pytest.CaptureFixture[str]) -> None:
    recorded("data.npz")
    push("data.npz", "hub")
    card = pull("hub", "data.npz", "mine")
    assert card["kind"] == "dataset"
    assert Path("mine/data.npz").read_bytes() == Path("data.npz").read_bytes()
    assert main(["hub", "pull", "hub", "data.npz", "-o", "ours"]) == 0
    assert "ours: 1 files; a data set: ours/data.npz\n" in capsys.readouterr().out


@pytest.fixture
def item() -> Path:
    """An item with one file; returns its card."""
    Path("data").mkdir()
    recorded("data/a.npz")
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
        (lambda card: Path("hub/data/a.npz").write_bytes(b"n" * 9999), "larger than the"),
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
    recorded("data/tokens.npz")
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
    token = secrets.token_hex(8)  # not in the text of this test: code.diff may have that
    monkeypatch.setenv("DICORE_TOKEN", token)
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
        assert each.is_dir() or token.encode() not in each.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["push", "nothing", "hub"], "no such file or folder"),
        (["push", "data", "hub", "--name", "../x"], "not a name"),
        (["push", "data", "nosuch://hub"], "nosuch"),
        (["push", "data", "http://127.0.0.1:1/hub"], "only read\n  hint: push data to the folder"),
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


def test_a_password_of_a_place_is_written_and_printed_nowhere(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "memory://bob:PASSW0RD@team/safe"
    assert main(["hub", "push", str(run), place, "--name", "a"]) == 0
    assert main(["hub", "push", str(run), place, "--name", "a"]) == 2
    assert main(["hub", "pull", place, "never", "-o", "x"]) == 2
    assert main(["hub", "list", "http://bob:PASSW0RD@127.0.0.1:1/x?key=PASSW0RD"]) == 2
    told = capsys.readouterr()
    assert "memory://team/safe/a" in told.out
    assert "PASSW0RD" not in told.out + told.err
    card = pull(place, "a", "a")
    page = open_store(place).read("a/README.md", 1 << 20).decode()
    assert "dicore hub pull memory://team/safe a" in page
    assert "PASSW0RD" not in page + json.dumps(card)


def test_a_data_set_keeps_its_own_page() -> None:
    Path("data").mkdir()
    Path("data/README.md").write_text("mine")
    Path("data/curve.svg").write_text("<svg/>")
    push("data", "hub")
    pull("hub", "data", "again")
    assert Path("again/README.md").read_text() == "mine"
    assert Path("again/curve.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("name", ["card.json", "a:b", "a\\b", "a\nb", "a\udcffb"])
def test_what_could_not_be_pulled_is_not_pushed(name: str) -> None:
    Path("data").mkdir()
    (Path("data") / name).write_text("x")
    with pytest.raises(UsageError, match=r"card of the item|no path in its folder"):
        push("data", "hub")
    assert not Path("hub").exists()


def test_a_card_that_is_too_large_is_not_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore_tools.hub.transfer._CARD_BYTES", 100)
    recorded("a.npz")
    with pytest.raises(UsageError, match="too many files"):
        push("a.npz", "hub")
    assert not Path("hub").exists()


def test_a_card_that_is_too_large_stops_nobody_else(
    item: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("hub/large").mkdir()
    Path("hub/large/card.json").write_text(" " * 5000)
    monkeypatch.setattr(transfer, "_CARD_BYTES", 4000)
    push("data", "hub", name="two")
    capsys.readouterr()
    assert main(["hub", "list", "hub", "--json"]) == 0
    assert [card["name"] for card in json.loads(capsys.readouterr().out)] == ["data", "two"]
    assert "left out: hub/large/card.json" in caplog.text


def test_an_item_that_is_replaced_is_incomplete_meanwhile(
    item: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the files that it had before are gone afterwards."""
    Path("data/a.npz").rename("data/b.npz")
    with monkeypatch.context() as broken:
        broken.setattr(transfer, "_forget", lambda *_: None)
        write = store._Files.write

        def failing(self: Any, path: str, data: bytes) -> None:
            if path.endswith("b.npz"):
                raise UsageError("the disk is full")
            write(self, path, data)

        broken.setattr(store._Files, "write", failing)
        with pytest.raises(UsageError, match="full"):
            push("data", "hub", overwrite=True)
    with pytest.raises(UsageError, match="there is no 'data'"):
        pull("hub", "data", "mine")
    recorded("data/a.npz")
    push("data", "hub", overwrite=True)
    Path("data/a.npz").unlink()
    push("data", "hub", overwrite=True)
    assert sorted(each.name for each in item.parent.iterdir()) == [
        "README.md", "b.npz", "card.json",
    ]  # fmt: skip


def test_the_list_is_made_of_the_cards_that_are_there(
    item: Path, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged one is mended by the next push, and so is one of a push at the same time."""
    Path("hub/hub.json").write_text("{")
    push("data", "hub", name="two")
    assert [card["name"] for card in listed(served)] == ["data", "two"]
    write, others = store._Files.write, ["four"]

    def late(self: Any, path: str, data: bytes) -> None:
        if path == "hub.json" and others:
            push("data", "hub", name=others.pop())
        write(self, path, data)

    monkeypatch.setattr(store._Files, "write", late)
    push("data", "hub", name="three")
    assert [card["name"] for card in listed(served)] == ["data", "four", "three", "two"]


def test_a_card_cannot_forge_rows_of_a_table(
    item: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = json.loads(item.read_text())
    card |= {"policy": "x\nforged  run\u2028\x1b[2J", "licence": "a\ud800\rb"}
    item.write_text(json.dumps(card | {"result": {"best_return": 10**400}}))
    assert main(["hub", "list", "hub"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert (head.split()[0], len(rows)) == ("name", 1)
    assert "x forged run [2J" in rows[0]
    assert rows[0].endswith("a b")


@pytest.mark.parametrize(
    ("licence", "good"),
    [
        ("MIT", True),
        ("(MIT OR Apache-2.0) AND GPL-2.0+ WITH Classpath-exception-2.0", True),
        ("MIT\nlicense: other", False),
        ("MIT and more", False),
        ("(MIT", False),
        ("MIT" * 100, False),
    ],
)
def test_a_licence_is_an_spdx_expression(licence: str, *, good: bool) -> None:
    recorded("a.npz")
    assert main(["hub", "push", "a.npz", "hub", "--licence", licence]) == (0 if good else 2)
    assert Path("hub").exists() == good


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["push", "data", "hub", "--name", "hub.json"], "one of the hub"),
        (["push", "data", "hub", "--name", "Card.json"], "one of the hub"),
        (["push", "data", ""], "no place is named"),
        (["list", ""], "no place is named"),
        (["list", "http://[bad"], "no address"),
        (["list", "http://127.0.0.1:x/"], "no address"),
        (["list", "http://exa mple/"], "cannot be read"),
        (["pull", "hub", "data", "-o", "data/a.npz/below"], "cannot be written"),
        (["pull", "hub", "data", "-o", "a" * 300], "cannot be written"),
    ],
)
def test_wrong_words_are_one_error(
    item: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("run.json", "[]", "not one that dicore wrote"),
        ("run.json", "null", "not one that dicore wrote"),
        ("run.json", "{", "not JSON"),
        ("run.json", '{"result": {"best_return": 1e400}}', "not one that dicore wrote"),
        ("run.json", '{"seed": "x"}', "not one that dicore wrote"),
        ("config.json", "{}", "not one that dicore wrote"),
        ("config.json", "", "it is empty"),
    ],
)
def test_a_damaged_run_is_one_error(run: Path, name: str, content: str, told: str) -> None:
    mine = shutil.copytree(run, Path("run"))
    (mine / name).write_text(content)
    with pytest.raises(UsageError, match=f"{name}: .*{told}"):
        push(mine, "hub")
    assert not Path("hub").exists()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    file.write_text("null")


def zero(file: Path) -> None:
    """Changes the values, not the size."""
    data = file.read_bytes()
    file.write_bytes(data.replace(np.arange(3.0).tobytes(), bytes(24)))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("set/tensors.safetensors", cut),
        ("set/manifest.json", empty),
        ("set/manifest.json", cut),
        ("set/tensors.safetensors", Path.unlink),
        ("a.npz", cut),
        ("a.npz", zero),
        ("a.hdf5", cut),
        ("a.hdf5", empty),
    ],
)
def test_what_is_damaged_is_neither_pushed_nor_pulled(
    name: str, damage: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(Path("set"), {"columns": {"reward": np.zeros(3)}})
    recorded("a.npz")
    if name == "a.hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File("a.hdf5", "w") as file:
            file["reward"] = np.zeros(300)
    source = Path(name).parts[0]
    push(source, "whole")
    pull("whole", source, "copy")
    damage(Path(name))
    with pytest.raises((CheckpointError, SchemaError), match=rf"^{source}"):
        push(source, "hub")
    assert not Path("hub").exists()
    with monkeypatch.context() as older:
        older.setattr(transfer, "check_whole", lambda *_: None)
        push(source, "hub")
    with pytest.raises((CheckpointError, SchemaError), match=f"^hub/{source}"):
        pull("hub", source, "mine")
    assert not Path("mine").exists()


def test_an_archive_that_packs_well_is_checked_and_a_bomb_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez_compressed("a.npz", reward=np.zeros(10**6))
    push("a.npz", "hub")
    data = bytearray(Path("a.npz").read_bytes())
    data[-200] ^= 255  # within what is packed
    Path("a.npz").write_bytes(data)
    with pytest.raises(SchemaError, match=r"^a\.npz: cannot be read"):
        push("a.npz", "hub", overwrite=True)
    monkeypatch.setattr("dicore_tools.hub.damage._MOST_BYTES", 10**6)
    push("a.npz", "hub", overwrite=True)
    assert "a.npz: not checked for damage: it grows to 0.0 GiB" in capsys.readouterr().out


def test_a_file_of_hdf5_may_begin_with_what_a_user_wrote() -> None:
    h5py = pytest.importorskip("h5py")
    Path("sub").mkdir()
    with h5py.File("sub/a.h5", "w", userblock_size=1024) as file:
        file["reward"] = np.zeros(300)
    push("sub/a.h5", "hub")
    Path("sub/a.h5").write_bytes(b"text" * 999)
    with pytest.raises(SchemaError, match=r"^sub/a\.h5: .* not an HDF5 file"):
        push("sub/a.h5", "hub", overwrite=True)


def test_the_checkpoint_of_a_run_that_is_pushed_is_whole(run: Path) -> None:
    mine = shutil.copytree(run, Path("run"))
    cut(mine / "ckpt/final/tensors.safetensors")
    with pytest.raises(CheckpointError, match=r"^run/ckpt/final: "):
        push(mine, "hub")


def test_a_manifest_of_something_else_is_no_damage() -> None:
    Path("data").mkdir()
    Path("data/manifest.json").write_text('{"version": 3}')
    push("data", "hub")
    assert pull("hub", "data", "mine")["kind"] == "dataset"


def test_code_that_a_run_needs_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = shutil.copytree(run, Path("run"))
    saved = json.loads((mine / "config.json").read_text())
    saved["components"]["env"] |= {"dist": "", "target": "./corridor.py:Corridor"}
    (mine / "config.json").write_text(json.dumps(saved))
    push(mine, "hub")
    assert "dicore eval run -n 20 --trust" in Path("hub/run/README.md").read_text()
    assert main(["hub", "pull", "hub", "run", "-o", "theirs"]) == 0
    told = capsys.readouterr().out
    assert "dicore eval --trust theirs\n" in told
    assert "not in theirs: ./corridor.py:Corridor" in told


def test_a_web_server_is_only_read(
    item: Path, served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "push", "data", served]) == 2
    assert "a web server is only read" in capsys.readouterr().err


def test_a_return_that_is_too_large_is_left_out_of_the_page(run: Path) -> None:
    mine = shutil.copytree(run, Path("large"))
    record = json.loads((mine / "run.json").read_text())
    record["result"]["best_return"] = 10**400
    (mine / "run.json").write_text(json.dumps(record))
    push(mine, "hub")
    assert "| best return |  |" in Path("hub/large/README.md").read_text()
