"""`dicore index`, `dicore search`, `dicore check --badge`: what a package is, by its files."""

from __future__ import annotations

import http.server
import json
import os
import threading
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from io import BytesIO
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
from dicore_registry import default
from dicore_tools.certificates import fingerprint, hashes, sign
from dicore_tools.plugin_index.badge import badge_svg, signer_of, verified_run
from dicore_tools.plugin_index.package import (
    BADGE,
    Package,
    digest_of,
    installed,
    read_wheel,
    tops_of,
)
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


class Declared(Distribution):
    """What declares the entry points and requirements of the wheel."""

    def read_text(self, filename: str) -> str | None:
        return {"entry_points.txt": POINTS, "METADATA": METADATA}.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        raise NotImplementedError


def wheel(place: Path = Path("acme_rl-0.3-py3-none-any.whl"), *more: str, **changes: str) -> Path:
    """Writes a wheel; `metadata`, `points` and `badge` replace what it holds, `more` are files."""
    files = {
        **CODE,
        "acme_rl-0.3.dist-info/METADATA": changes.get("metadata", METADATA),
        "acme_rl-0.3.dist-info/entry_points.txt": changes.get("points", POINTS),
        "acme_rl-0.3.dist-info/RECORD": "",
    }
    if "badge" in changes:
        files[f"acme_rl/{BADGE}"] = changes["badge"]
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in (files | dict.fromkeys(more, "evil")).items():
            archive.writestr(name, text)
    return place


def badge(**changes: Any) -> dict[str, Any]:
    digest = digest_of([*CODE], lambda path: BytesIO(CODE[path].encode()), Declared())
    facts = {"format": 1, "name": "acme-rl", "version": "0.3", "dicore": "0.1.0", "passed": 9}
    return {**facts, "failed": 0, "skipped": 1, "verified": None, "digest": digest, **changes}


def test_the_facts_of_a_wheel_are_read_and_nothing_is_imported() -> None:
    found = read_wheel(wheel())
    assert found.facts() == {
        "name": "acme-rl", "version": "0.3", "summary": "Mazes", "licence": "MIT",
        "url": "https://example.org/acme", "dicore": "<0.2,>=0.1", "python": ">=3.11",
        "components": {"env/maze": "acme_rl.maze:Maze"}, "problems": (), "badge": {}, "rows": (),
        "notes": (), "tier": 1,
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
        json.dumps(badge(passed="9")),
        json.dumps(badge(verified="yes")),
        json.dumps(badge()) + " " * (1 << 22),
    ],
    ids=["files", "version", "name", "format", "list", "broken", "deep", "text", "word", "large"],
)
def test_a_badge_of_something_else_is_none(text: str) -> None:
    found = read_wheel(wheel(badge=text))
    assert (found.tier, found.problems) == (1, ())
    assert BADGE in found.notes[0]
    assert found.badge == {}
    assert BADGE in as_page([found])
    assert read_index(as_json([found]), "x") == [found]


@pytest.mark.parametrize(
    "file",
    [
        "acme_rl/maze.pyc",
        "acme_rl/__init__.pyc",
        "acme_rl/__pycache__/maze.cpython-311.pyc",
        "acme_rl/data/" + BADGE,
        "acme_rl-0.3.data/purelib/acme_rl/maze.py",
        "evil.pth",
        "acme_rl.py",
        "sitecustomize/__init__.py",
    ],
)
def test_a_badge_does_not_count_beside_a_file_that_it_does_not_cover(file: str) -> None:
    found = read_wheel(wheel(Path("a.whl"), file, badge=json.dumps(badge())))
    assert (found.badge, found.tier) == ({}, 1)
    assert "of other files" in found.notes[0] or file in found.notes[0]


def test_a_badge_is_of_the_entry_points_too() -> None:
    """They say what runs: a command of the same name may be made another."""
    points = POINTS.replace("acme_rl:main", "acme_rl.maze:Maze")
    found = read_wheel(wheel(points=points, badge=json.dumps(badge())))
    assert "of other files" in found.notes[0]


def test_no_badge_says_itself_who_signed_it(tmp_path: Path) -> None:
    forged = json.dumps(badge(signed_by="SHA256:of-somebody-known"))
    assert main(["index", str(wheel(badge=forged)), "-o", "site"]) == 0
    assert "somebody" not in Path("site/index.html").read_text()
    assert "somebody" not in Path("site/index.json").read_text()


@pytest.mark.parametrize("content", [b"", b"PK nothing", None], ids=["empty", "text", "missing"])
def test_what_is_no_wheel_is_one_error(content: bytes | None) -> None:
    if content is not None:
        Path("a.whl").write_bytes(content)
    with pytest.raises(UsageError, match=r"^a\.whl: (not a wheel: |no such file)"):
        read_wheel(Path("a.whl"))
    assert main(["index", "a.whl", "-o", "site"]) == 2
    assert not Path("site").exists()


@pytest.mark.parametrize("left_out", ["Name: acme-rl\n", "Version: 0.3\n"])
def test_a_wheel_without_name_or_version_is_one_error(left_out: str) -> None:
    with pytest.raises(UsageError, match="not a wheel: METADATA without"):
        read_wheel(wheel(metadata=METADATA.replace(left_out, "")))


@pytest.mark.parametrize(
    "change", ["no metadata", "twice", "garbage", "encrypted", "compression", "points"]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_damaged_wheel_is_one_error(change: str) -> None:
    file = wheel(badge=json.dumps(badge()))
    if change == "points":
        file = wheel(points="[dicore.env]\nmaze\n")
    elif change in ("no metadata", "twice"):
        with zipfile.ZipFile(file, "w") as archive:
            for _ in range(2):
                archive.writestr("acme_rl-0.3.dist-info/RECORD", "")
                if change == "twice":
                    archive.writestr("acme_rl-0.3.dist-info/METADATA", METADATA)
    else:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("acme_rl-0.3.dist-info/METADATA", METADATA * 9)
        data = bytearray(file.read_bytes())
        central = data.index(b"PK\x01\x02")
        if change == "garbage":
            data[80:central] = b"\xff" * (central - 80)
        elif change == "encrypted":
            data[central + 8] |= 1
            data[6] |= 1
        else:
            data[central + 10] = data[8] = 77
        file.write_bytes(data)
    with pytest.raises(UsageError, match=r"not a wheel: "):
        read_wheel(file)


def test_an_address_of_a_package_that_is_none_is_no_link() -> None:
    found = read_wheel(wheel(metadata=METADATA.replace("https://example.org/acme", "http:[bad")))
    assert "href" not in as_page([found])
    found = read_wheel(wheel(metadata=METADATA.replace("//example.org/acme", "//[bad")))
    assert "acme-rl" in as_page([found])


def test_a_summary_cannot_forge_rows_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    forged = attrs.evolve(read_wheel(wheel()), summary="Mazes\nforged  1.0\x1b[2J\ud800")
    Path("i.json").write_text(as_json([forged]))
    assert main(["search", "maze", "--index", "i.json"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1
    assert rows[0].endswith("Mazes forged 1.0 [2J")


@pytest.mark.parametrize("place", ["http://[bad", "http://exa mple/", "http://127.0.0.1:1/i.json"])
def test_an_address_that_is_none_is_one_error(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "maze", "--index", place]) == 2
    assert "Traceback" not in capsys.readouterr().err


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


def test_a_folder_of_wheels_and_that_of_an_index_will_do(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = wheel()
    Path("wheels").mkdir()
    file.rename(Path("wheels") / file.name)
    assert main(["index", "wheels", "-o", "site"]) == 0
    for place in ("site", f"{served}/site", f"{served}/site/"):
        assert main(["search", "maze", "--index", place]) == 0
        assert "acme-rl" in capsys.readouterr().out
    Path("index.v1").write_bytes(Path("site/index.json").read_bytes())
    Path("plain").write_bytes(Path("site/index.json").read_bytes())
    for place in (f"{served}/index.v1", f"{served}/plain"):
        assert main(["search", "maze", "--index", place]) == 0


def test_a_file_that_is_missing_is_told_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("")
    for words, said in (
        (["index", "a.whl", "-o", "site"], "a.whl: no such file\n  hint: name a wheel, "),
        (["search", "x", "--index", "a.json"], "--index: a.json: no such file\n  hint: dicore ind"),
        (["search", "x", "--index", "."], "--index: index.json: no such file\n  hint: dicore ind"),
        (["index", ".", "-o", "site"], ".: a folder without wheels, and no package of this name"),
        (["index", "a.txt", "-o", "site"], "a.txt: not a wheel, and no package of this name"),
    ):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith(f"error: {said}")


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


@pytest.fixture
def verified(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package acme-rl 0.3 is installed."""
    world.add("acme-rl", {"dicore.env": {"maze": "acme_rl.maze:Maze"}}, version="0.3")
    monkeypatch.syspath_prepend(str(world.folder))


def trained(
    key: Ed25519PrivateKey,
    version: str = "0.3",
    components: dict[str, Any] | None = None,
    **statement: Any,
) -> Path:
    """Writes a run of acme-rl, or of other components, with its certificate."""
    run = Path("run")
    run.mkdir(exist_ok=True)
    facts = {"type": "maze", "dist": "acme-rl", "version": version, "target": "acme_rl.maze:Maze"}
    other = {"type": "naive", "dist": "acme-rl", "version": version, "target": "acme_rl:Naive"}
    record = {"seed": 3, "result": {"env_step": 5, "best_return": 1.5},
              "components": components or {"env": facts, "policy.other.replay_buffer": other},
              }  # fmt: skip
    (run / "run.json").write_text(json.dumps(record))
    sign(run, {"files": hashes(run), "resumed": [2], **statement}, key)
    return run


@pytest.mark.usefixtures("verified")
def test_a_verified_run_is_resumed_and_of_the_package(
    keys: tuple[Ed25519PrivateKey, str, str],
) -> None:
    public = keys[0].public_key()
    found = verified_run(trained(keys[0]), public, "acme-rl")
    assert (found["components"], found["seed"]) == (["env/maze", "replay_buffer/naive"], 3)
    assert found["resumed"] == [2]
    with pytest.raises(UsageError, match="no component of dicore-agents"):
        verified_run(trained(keys[0]), public, "dicore-agents")
    with pytest.raises(UsageError, match="never resumed"):
        verified_run(trained(keys[0], resumed=[]), public, "acme-rl")


@pytest.mark.usefixtures("verified")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": "0.2"}, "is of acme-rl 0.2, and 0.3 is installed"),
        ({"until": 1}, "compared up to env step 1, not to its end"),
        ({"files": {}, "left_out": ["run.json"]}, "not to its end"),
    ],
)
def test_a_run_of_another_version_or_of_a_part_is_not_verified(
    keys: tuple[Ed25519PrivateKey, str, str], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        verified_run(trained(keys[0], **changes), keys[0].public_key(), "acme-rl")


def test_a_run_of_code_that_was_changed_is_not_verified(
    keys: tuple[Ed25519PrivateKey, str, str],
) -> None:
    """The version of a package stays the same while its author changes it."""
    facts = default().provenance(default().find("policy", "qmix"))
    public = keys[0].public_key()
    found = verified_run(trained(keys[0], components={"policy": facts}), public, "dicore-agents")
    assert found["components"] == ["policy/qmix"]
    changed = {"policy": {**facts, "source": "sha256:0"}}
    with pytest.raises(UsageError, match=r"policy: the code of .* was changed"):
        verified_run(trained(keys[0], components=changed), public, "dicore-agents")


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
    built = Path("fresh.whl")
    with zipfile.ZipFile(built, "w") as archive:
        for file in world.folder.rglob("*"):
            if file.is_file() and not {"__pycache__", "plugins"} & {*file.parts}:
                archive.write(file, file.relative_to(world.folder))
    assert read_wheel(built).badge == told
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


def test_a_default_names_a_component_and_no_import_package() -> None:
    points = POINTS + "[dicore.default]\ncollector = json\n"
    found = read_wheel(wheel(points=points, badge=json.dumps(badge())))
    assert tops_of(found.components) == ["acme_rl"]


def test_a_badge_counts_for_the_requirements_it_was_made_with() -> None:
    """Another version of what a package needs may be another program."""
    made = json.dumps(badge())
    assert read_wheel(wheel(badge=made)).tier == 2
    other = METADATA.replace("dicore<0.2,>=0.1", "dicore<0.2,>=0.1.5")
    found = read_wheel(wheel(badge=made, metadata=other))
    assert (found.tier, "of other files" in found.notes[0]) == (1, True)
