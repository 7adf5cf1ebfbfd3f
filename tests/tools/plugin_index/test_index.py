"""`dicore index`, `dicore search`, `dicore check --badge`: what a package is, by its files."""

from __future__ import annotations

import http.server
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from dicore.cli import main
from dicore.errors import UsageError
from dicore_tools.certificates import fingerprint, hashes, sign
from dicore_tools.plugin_index.badge import badge_svg, signer_of, verified_run
from dicore_tools.plugin_index.package import BADGE, Package, digest_of, installed, read_wheel
from dicore_tools.plugin_index.pages import as_json, as_page, matching, read_index
from tests.registry.world import World

pytestmark = pytest.mark.usefixtures("here")
METADATA = """Metadata-Version: 2.4
Name: acme-rl
Version: 0.3
Summary: Mazes
License-Expression: MIT
Requires-Python: >=3.11
Requires-Dist: dicore<0.2,>=0.1
Requires-Dist: wandb; extra == "wandb"
Project-URL: Source, https://example.org/acme
"""
POINTS = "[dicore.env]\nmaze = acme_rl.maze:Maze\n[console_scripts]\nacme = acme_rl:main\n"
CODE = {"acme_rl/__init__.py": "raise SystemExit('imported')\n", "acme_rl/maze.py": "Maze = 1\n"}


def wheel(place: Path = Path("acme_rl-0.3-py3-none-any.whl"), **changes: str) -> Path:
    """Writes a wheel; `metadata`, `points` and `badge` replace what it holds."""
    files = {
        **CODE,
        "acme_rl-0.3.dist-info/METADATA": changes.get("metadata", METADATA),
        "acme_rl-0.3.dist-info/entry_points.txt": changes.get("points", POINTS),
        "acme_rl-0.3.dist-info/RECORD": "",
    }
    if "badge" in changes:
        files[f"acme_rl/{BADGE}"] = changes["badge"]
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return place


def badge(**changes: Any) -> dict[str, Any]:
    digest = digest_of([*CODE], lambda path: CODE[path].encode())
    facts = {"format": 1, "name": "acme-rl", "version": "0.3", "dicore": "0.1.0", "passed": 9}
    return {**facts, "failed": 0, "skipped": 1, "verified": None, "digest": digest, **changes}


def test_the_facts_of_a_wheel_are_read_and_nothing_is_imported() -> None:
    found = read_wheel(wheel())
    assert found.facts() == {
        "name": "acme-rl", "version": "0.3", "summary": "Mazes", "licence": "MIT",
        "url": "https://example.org/acme", "dicore": "<0.2,>=0.1", "python": ">=3.11",
        "components": {"env/maze": "acme_rl.maze:Maze"}, "problems": (), "badge": {}, "rows": (),
        "tier": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Requires-Dist: dicore<0.2,>=0.1\n", "", "does not require dicore"),
        ("dicore<0.2,>=0.1", "dicore-plugins<0.2", "does not require dicore"),
        ("dicore<0.2,>=0.1", "dicore>=0.1", "without an upper bound"),
        ("License-Expression: MIT\n", "", "states no licence"),
        ("Summary: Mazes\n", "", "has no summary"),
    ],
)
def test_wrong_metadata_are_told_and_have_no_tier(old: str, new: str, told: str) -> None:
    found = read_wheel(wheel(metadata=METADATA.replace(old, new)))
    assert [told in problem for problem in found.problems] == [True]
    assert found.tier == 0


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ("[other]\na = b:c\n", "declares no component"),
        ("[dicore.enviroment]\nmaze = acme_rl:Maze\n", "there is no kind 'enviroment'"),
        ("[dicore.env]\nmaze = acme rl\n", "'acme rl' is no target"),
    ],
)
def test_wrong_entry_points_are_told(points: str, told: str) -> None:
    assert any(told in each for each in read_wheel(wheel(points=points)).problems)


@pytest.mark.parametrize(
    ("changes", "tier"),
    [
        ({}, 2),
        ({"failed": 1}, 1),
        ({"passed": 0}, 1),
        ({"verified": {"components": ["env/maze"]}}, 3),
    ],
)
def test_a_badge_of_these_files_gives_a_tier(changes: dict[str, Any], tier: int) -> None:
    found = read_wheel(wheel(badge=json.dumps(badge(**changes))))
    assert (found.tier, found.problems) == (tier, ())


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(badge(digest="0")),
        json.dumps(badge(version="0.4")),
        json.dumps(badge(name="other")),
        json.dumps(badge(format=2)),
        "[]",
        "{",
        "[" * 100_000,
    ],
    ids=["files", "version", "name", "format", "list", "broken", "deep"],
)
def test_a_badge_of_something_else_is_none(text: str) -> None:
    found = read_wheel(wheel(badge=text))
    assert found.tier == 0
    assert BADGE in found.problems[0]
    assert found.badge == {}


@pytest.mark.parametrize("content", [b"", b"PK nothing", None], ids=["empty", "text", "missing"])
def test_what_is_no_wheel_is_one_error(content: bytes | None) -> None:
    if content is not None:
        Path("a.whl").write_bytes(content)
    with pytest.raises(UsageError, match=r"^a\.whl: no wheel"):
        read_wheel(Path("a.whl"))
    assert main(["index", "a.whl", "-o", "site"]) == 2
    assert not Path("site").exists()


def test_metadata_of_any_size_are_not_read() -> None:
    with pytest.raises(UsageError, match="METADATA has 5000"):
        read_wheel(wheel(metadata=METADATA + "x" * 5_000_000))


def test_the_index_is_written_read_and_searched(capsys: pytest.CaptureFixture[str]) -> None:
    """What packages say of themselves is shown as text."""
    evil = METADATA.replace("Mazes", "<script>alert(1)</script>").replace(
        "https://example.org/acme", "javascript:alert(1)"
    )
    assert main(["index", str(wheel(metadata=evil)), "dicore-agents", "-o", "site"]) == 0
    page = Path("site/index.html").read_text()
    assert "<script>alert" not in page
    assert "javascript:" not in page
    assert "acme-rl" in page
    assert main(["search", "MAZE", "acme", "--index", "site/index.json"]) == 0
    assert "env/maze" in capsys.readouterr().out
    assert main(["search", "nothing-of-it", "--index", "site/index.json"]) == 1
    assert main(["search", "qmix", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert [each["name"] for each in found] == ["dicore-agents"]


@pytest.fixture
def served() -> Iterator[str]:
    """The address of a server of the working folder, on this machine."""
    folder = str(Path.cwd())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=folder)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_index_is_fetched_where_it_is_asked_for(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("index.json").write_text(as_json([read_wheel(wheel())]))
    assert main(["search", "maze", "--index", f"{served}/index.json"]) == 0
    assert "acme-rl" in capsys.readouterr().out
    assert main(["search", "maze", "--index", f"{served}/none.json"]) == 2
    assert "cannot fetch" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "packages": [1]}'])
def test_what_is_no_index_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match="not an index"):
        read_index(text, "x.json")


def test_an_index_is_what_was_written_and_sorted() -> None:
    low = read_wheel(wheel())
    high = attrs.evolve(low, name="Best", badge=badge(verified={"a": 1}), rows=("maze_dqn",))
    assert (low.tier, high.tier) == (1, 4)
    again = read_index(as_json([low, high]), "x")
    assert again == [high, low]
    assert "maze_dqn" in as_page(again)
    assert matching(again, ["best"]) == [high]
    with pytest.raises(UsageError, match="format 2, expected 1"):
        read_index('{"format": 2}', "x")


def test_rows_of_a_benchmark_are_those_of_this_version() -> None:
    record = {"row": "maze_dqn", "policy": "dqn", "env": "acme-rl/maze",
              "versions": {"acme-rl": "0.3"}}  # fmt: skip
    other = {**record, "row": "old", "versions": {"acme-rl": "0.2"}}
    Path("r.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(other)}\n")
    file = wheel(badge=json.dumps(badge(verified={"a": 1})))
    assert main(["index", str(file), "-o", "site", "--results", "r.jsonl"]) == 0
    (found,) = read_index(Path("site/index.json").read_text(), "x")
    assert (found.rows, found.tier) == (("maze_dqn",), 4)
    Path("r.jsonl").write_text("{}\n")
    assert main(["index", str(file), "-o", "site", "--results", "r.jsonl"]) == 2


@pytest.fixture
def keys() -> tuple[Ed25519PrivateKey, str, str]:
    """A key, and the files of it and of its public part."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Path("k").write_bytes(private)
    Path("k.pub").write_bytes(public)
    return key, "k", "k.pub"


def test_a_badge_is_signed_and_counts_for_these_files(
    keys: tuple[Ed25519PrivateKey, str, str],
) -> None:
    from dicore_tools.plugin_index import badge as module

    key, _, public = keys
    made = badge()
    made["key"] = fingerprint(key.public_key())
    signature = key.sign(module._signed(made))
    made["signature"] = module.base64.b64encode(signature).decode()
    known = {made["key"]: key.public_key()}
    assert signer_of(made, known) == made["key"]
    assert signer_of({**made, "passed": 10}, known) == ""
    assert signer_of({**made, "signature": "??"}, known) == ""
    assert signer_of(made, {}) == ""
    file = wheel(badge=json.dumps(made))
    assert main(["index", str(file), "-o", "site", "--key", public]) == 0
    (found,) = read_index(Path("site/index.json").read_text(), "x")
    assert found.badge["signed_by"] == made["key"]


def test_a_verified_run_is_resumed_and_of_the_package(
    here: Path, keys: tuple[Ed25519PrivateKey, str, str]
) -> None:
    run = here / "run"
    run.mkdir()
    record = {"seed": 3, "result": {"env_step": 5, "best_return": 1.5},
              "components": {"env": {"name": "maze", "dist": "acme-rl"}}}  # fmt: skip
    (run / "run.json").write_text(json.dumps(record))
    sign(run, {"files": hashes(run), "resumed": [2]}, keys[0])
    found = verified_run(run, keys[0].public_key(), "acme-rl")
    assert (found["components"], found["seed"], found["resumed"]) == (["env/maze"], 3, [2])
    with pytest.raises(UsageError, match="no component of other-rl"):
        verified_run(run, keys[0].public_key(), "other-rl")
    sign(run, {"files": {k: v for k, v in hashes(run).items() if k == "run.json"}}, keys[0])
    with pytest.raises(UsageError, match="never resumed"):
        verified_run(run, keys[0].public_key(), "acme-rl")


def test_check_writes_the_badge_into_the_package(world: World) -> None:
    """And its wheel would hold it; a file that is changed afterwards makes it nothing."""
    code = "import click\n@click.command()\ndef command():\n    'Says hello.'\n"
    world.add(
        "fresh-rl",
        {"dicore.command": {"hello": "fresh_rl.hello:command"}},
        modules={"fresh_rl/__init__.py": "", "fresh_rl/hello.py": code},
    )
    done = world.dicore("check", "fresh-rl", "--badge")
    assert done.returncode == 0, done.stderr + done.stdout
    package = world.folder / "fresh_rl"
    told = json.loads((package / BADGE).read_text())
    assert (told["name"], told["version"], told["failed"]) == ("fresh-rl", "1.0", 0)
    assert told["passed"] > 0
    assert "suites pass" in (package / "dicore-badge.svg").read_text()
    assert world.dicore("index", "fresh-rl", "-o", "one").returncode == 0
    (package / "hello.py").write_text(code + "# changed\n")
    assert "of other files" in world.dicore("index", "fresh-rl", "-o", "two").stdout
    tiers = [
        json.loads((world.folder / place / "index.json").read_text())["packages"][0]["badge"]
        for place in ("one", "two")
    ]
    assert [bool(each) for each in tiers] == [True, False]


def test_what_is_not_a_package_has_no_badge(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "CartPole-v1", "--badge"]) == 2
    assert "not an installed package" in capsys.readouterr().err
    assert main(["check", "dicore-tools", "--sign", "k"]) == 2
    assert "add --badge" in capsys.readouterr().err


def test_the_picture_says_the_tier() -> None:
    assert "suites pass · 0.3" in badge_svg(2, "0.3")
    assert "&lt;" in badge_svg(1, "<")


def test_an_installed_package_is_as_its_wheel_says() -> None:
    found: Package = installed("dicore-agents")
    assert found.problems == ()
    assert found.components["policy/qmix"].startswith("dicore_agents.")
    with pytest.raises(UsageError, match="no such package"):
        installed("never-installed")
