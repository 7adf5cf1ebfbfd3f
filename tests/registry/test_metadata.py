"""Which distributions are found: in folders, in archives, by finders of others."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dicore_registry import Registry, dist_name, using
from dicore_registry.metadata import everywhere, installed
from dicore_tools.commands.doctor import examine
from tests.registry.world import VERSION, World

ENTRY = "[dicore.policy]\n{name} = zipped_rl:P\n"


def write_zip(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}_rl-1.0.dist-info/METADATA", f"Name: {name}-rl\nVersion: 1.0\n")
        file.writestr(f"{name}_rl-1.0.dist-info/entry_points.txt", ENTRY.format(name=name))
        file.writestr("zipped_rl.py", "class P:\n    '''Out of a zip.'''\n")


def test_what_is_installed_here_is_what_python_says() -> None:
    theirs = {dist_name(dist.metadata["Name"]) for dist in importlib.metadata.distributions()}
    ours = installed()
    assert set(ours) == theirs
    for name in sorted(theirs):
        version = importlib.metadata.version(name)
        assert ours[name].version == version


def test_an_archive_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zip(tmp_path / "bundle.pex", "zipped")
    (tmp_path / "none.zip").write_text("no archive")
    for name in ("bundle.pex", "none.zip", "missing.zip"):
        monkeypatch.syspath_prepend(str(tmp_path / name))
    found = installed()["zipped-rl"]
    assert (found.version, [line.name for line in found.lines]) == ("1.0", ["zipped"])
    try:
        registry = Registry(environ={})
        assert registry.resolve("policy", "zipped").target.__doc__ == "Out of a zip."
    finally:
        sys.modules.pop("zipped_rl", None)


def test_a_finder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zip(tmp_path / "hidden.bin", "hooked")

    class Finder:
        @staticmethod
        def find_spec(*_: Any) -> None:
            return None

        @staticmethod
        def find_distributions(context: Any) -> Any:
            where = importlib.metadata.DistributionFinder.Context(
                path=[str(tmp_path / "hidden.bin")]
            )
            return importlib.metadata.MetadataPathFinder.find_distributions(where)

    class Broken(Finder):
        @staticmethod
        def find_distributions(context: Any) -> Any:
            raise RuntimeError("no")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path, Finder()])
    found = [dist for dist in everywhere() if dist.name == "hooked-rl"]
    assert [dist.version for dist in found] == ["1.0"]
    assert "dicore" in installed()


def test_of_two_in_one_folder_the_later_version_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.9", "1.10"):
        info = tmp_path / f"twice_rl-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: twice-rl\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed()["twice-rl"].version == "1.10"


def test_what_pip_could_not_delete_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "~cme_rl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: acme-rl\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY.format(name="left"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "acme-rl" not in installed()
    assert all(entry.name != "left" for entry in Registry().entries("policy"))


def test_what_is_no_text_on_the_path_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [Path("/nonesuch"), *sys.path])
    assert "dicore" in installed()


def test_an_egg_info_is_a_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "old_rl.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Name: old.rl\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(ENTRY.format(name="old"))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = installed()["old-rl"]
    assert (found.version, [line.name for line in found.lines]) == ("0.3", ["old"])


def test_a_legacy_egg_info_has_a_range_and_extras(world: World) -> None:
    """`setup.py develop` writes `requires.txt` instead of `Requires-Dist`."""
    info = world.folder / "old_rl.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Name: old-rl\nVersion: 0.3\n")
    (info / "requires.txt").write_text(
        "numpy\ndicore>=0.1\n\n[:python_version < '3']\ndicore<0.1\n\n[atari]\nale-of-the-test\n"
    )
    text = "[dicore.policy]\nold = old_rl:P\ntennis = old_rl:P [atari]\nx = old_rl:P [none]\n"
    (info / "entry_points.txt").write_text(text)
    entries = {entry.name: entry for entry in world.registry().entries("policy")}
    assert entries["old"].status == "ok"
    assert entries["tennis"].reason == "needs ale-of-the-test: pip install 'old-rl[atari]'"
    assert entries["x"].reason == "old-rl defines no extra 'none'"
    (info / "requires.txt").write_text("dicore<0.1\n")
    (old, *_) = (entry for entry in world.registry().entries("policy") if entry.name == "old")
    assert (old.status, old.reason) == ("incompatible", f"needs dicore<0.1 (installed: {VERSION})")


def test_an_egg_info_may_be_a_single_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "older_rl-0.2.egg-info").write_text("Name: older.rl\nVersion: 0.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = installed()["older-rl"]
    assert (found.version, found.lines, found.fault) == ("0.2", [], "")


@pytest.mark.parametrize("text", ["[]", '{"dir_info": []}', '{"vcs_info": "x"}', "{", "null"])
def test_a_direct_url_that_says_nothing(world: World, text: str) -> None:
    folder = world.add("acme-rl", {"dicore.policy": {"tedq": "acme_rl:TEDQ"}})
    (folder / "direct_url.json").write_text(text)
    registry = world.registry()
    assert registry.provenance(registry.find("policy", "tedq"))["editable"] is False


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"[dicore.policy\ntedq = a:B\n", "entry_points.txt is damaged at '[dicore.policy'"),
        (b"\xff\xfe[dicore.policy]\ntedq = a:B\n", "entry_points.txt is damaged at "),
        (b"tedq = a:B\n[dicore.env]\nx = a:C\n", "entry_points.txt is damaged at 'tedq = a:B'"),
        (b"[dicore.env]\nx = a:C\ndicore.policy]\ntedq = a:B\n",
         "entry_points.txt is damaged at 'dicore.policy]'"),
        (b"[dicore.policy]\ntedq a:B\nx = a:C\n", "entry_points.txt is damaged at 'tedq a:B'"),
        (b"[dicore.policy]\n= a:B\n", "entry_points.txt is damaged at '= a:B'"),
        (None, "entry_points.txt cannot be read: Is a directory"),
    ],
)  # fmt: skip
def test_damaged_metadata_is_skipped_and_told(world: World, text: bytes | None, fault: str) -> None:
    """G09: what cannot be read stops nobody, and nothing of it is guessed."""
    world.add("good-rl", {"dicore.policy": {"good": "good_rl:G"}})
    file = world.add("bad-rl") / "entry_points.txt"
    if text is None:
        file.mkdir()
    else:
        file.write_bytes(text)
    registry = world.registry()
    assert registry.distributions["bad-rl"].fault.startswith(fault)
    assert registry.find("policy", "good").dist == "good-rl"
    assert {e.name for e in registry.entries() if e.dist == "bad-rl"} <= {"x"}
    with using(registry):
        found = {each.about: each for each in examine(registry) if each.check == "meta"}
    assert found["bad-rl"].level == "warning"
    assert found["bad-rl"].text.startswith(fault)


def test_one_name_is_found_as_among_all(world: World) -> None:
    """Looking for one name, or one kind, gives what a look at everything gives."""
    for name in ("acme", "other"):
        world.add(
            f"{name}-rl",
            {
                "dicore.policy": {
                    "tedq": f"{name}_rl:TEDQ", "dqn": f"{name}_rl:D", "td_v1": f"{name}_rl:T",
                    f"TD-v{len(name)}": f"{name}_rl:T2", "bad name": "x:Y", "gone": "nothing",
                },
                "dicore.kind": {"okapi": f"{name}_rl:KIND"},
                "dicore.okapi": {"tedq": f"{name}_rl:Z"},
            },
        )  # fmt: skip
    whole = world.registry({"DICORE_PLUGINS_DENY": "policy/gone"})
    everything = whole.entries()
    assert {entry.status for entry in everything} >= {"ok", "conflict", "shadowed", "broken"}
    for kind in [*whole.kinds(), "kind", "default"]:
        fresh = world.registry({"DICORE_PLUGINS_DENY": "policy/gone"})
        assert fresh.entries(kind) == whole.entries(kind)
    for entry in everything:
        if entry.kind not in whole.kinds() or entry.status == "broken":
            continue
        fresh = world.registry({"DICORE_PLUGINS_DENY": "policy/gone"})
        assert said(fresh, entry.kind, entry.name) == said(whole, entry.kind, entry.name)
        assert said(fresh, entry.kind, entry.qualified) == said(whole, entry.kind, entry.qualified)


def said(registry: Registry, kind: str, name: str) -> object:
    try:
        return registry.find(kind, name)
    except Exception as error:
        return str(error)
