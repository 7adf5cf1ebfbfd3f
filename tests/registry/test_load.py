"""From a `type` to the object: names, import paths, files; and what happens when code fails."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dicore_registry import Kind, Registry, is_import_path
from dicore_registry.errors import PluginLoadError, RegistryError, UnknownComponentError
from tests.registry.world import World

TEDQ = """
    class TEDQConfig:
        '''Soft actor-critic.'''

    def make(**options):
        return {}['missing']
"""


@pytest.fixture
def registry(world: World) -> Registry:
    world.add(
        "acme-rl",
        {"dicore.policy": {"tedq": "acme_rl.tedq:TEDQConfig", "maker": "acme_rl.tedq:make"}},
        modules={"acme_rl/__init__.py": "", "acme_rl/tedq.py": TEDQ},
    )
    return world.registry()


def failure(registry: Registry, kind: str, type_: str, where: str = "policy.type") -> RegistryError:
    """Returns the error of a type that cannot be resolved."""
    with pytest.raises(RegistryError) as caught:
        registry.resolve(kind, type_, where)
    return caught.value


class TestNames:
    def test_a_name_gives_object_entry_and_exact_name(self, registry: Registry) -> None:
        resolved = registry.resolve("policy", "TEDQ", "policy.type")
        assert resolved.name == "tedq"
        assert resolved.target.__name__ == "TEDQConfig"
        assert resolved.entry is not None
        assert resolved.entry.dist == "acme-rl"

    def test_a_qualified_name_stays_qualified(self, registry: Registry) -> None:
        assert registry.resolve("policy", "Acme-RL/Tedq").name == "acme-rl/tedq"

    def test_a_bare_name_of_versions_becomes_the_exact_one(self, world: World) -> None:
        world.add(
            "num-rl",
            {"dicore.policy": {"mix_v1": "num_rl:A", "mix_v2": "num_rl:B"}},
            modules={"num_rl.py": "class A: ...\nclass B: ..."},
        )
        assert world.registry().resolve("policy", "mix").name == "mix_v2"

    def test_provenance_says_who_supplied_it(self, registry: Registry, world: World) -> None:
        file = world.folder / "acme_rl" / "tedq.py"
        assert registry.resolve("policy", "tedq").provenance == {
            "type": "tedq",
            "dist": "acme-rl",
            "version": "1.0",
            "target": "acme_rl.tedq:TEDQConfig",
            "source": "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest(),
            "editable": False,
        }

    def test_the_source_of_a_folder_is_all_its_code(self, world: World) -> None:
        """A changed `policy.py` is another policy, though its `config.py` stayed."""
        modules = {
            "big_rl/__init__.py": "",
            "big_rl/tedq/__init__.py": "",
            "big_rl/tedq/config.py": "class C: ...",
            "big_rl/tedq/policy.py": "x = 1",
            "big_rl/tedq/notes.txt": "x = 1",
        }
        world.add("big-rl", {"dicore.policy": {"huge": "big_rl.tedq.config:C"}}, modules=modules)
        folder, sources = world.folder / "big_rl" / "tedq", []
        for name in ("notes.txt", "policy.py", "config.py", "new.py"):
            sources.append(world.registry().resolve("policy", "huge").provenance["source"])
            (folder / name).write_text("class C: ...  # changed")
        sources.append(world.registry().resolve("policy", "huge").provenance["source"])
        assert sources[0] == sources[1]
        assert len(set(sources)) == 4
        (folder / "new.py").rename(folder / "newer.py")
        assert world.registry().resolve("policy", "huge").provenance["source"] not in sources

    def test_provenance_of_an_install_from_git(self, world: World) -> None:
        modules = {"git_rl.py": "class A: ..."}
        info = world.add("git-rl", {"dicore.policy": {"git": "git_rl:A"}}, modules=modules)
        (info / "direct_url.json").write_text(
            '{"url": "https://host/x", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}'
        )
        provenance = world.registry().resolve("policy", "git").provenance
        assert (provenance["editable"], provenance["commit"]) == (False, "abc123")

    def test_provenance_of_an_editable_install(self, world: World) -> None:
        info = world.add(
            "ed-rl", {"dicore.policy": {"ed": "ed_rl:A"}}, modules={"ed_rl.py": "A = 1"}
        )
        (info / "direct_url.json").write_text(
            '{"url": "file:///x", "dir_info": {"editable": true}}'
        )
        assert world.registry().resolve("policy", "ed").provenance["editable"] is True

    def test_an_error_of_a_constructor_is_its_own(self, registry: Registry) -> None:
        make = registry.resolve("policy", "maker").target
        with pytest.raises(KeyError, match="missing"):
            make(size=1)


class TestFailures:
    def test_a_module_that_is_gone(self, world: World) -> None:
        """Entry points are those of the last installation."""
        world.add("moved-rl", {"dicore.policy": {"moved": "moved_rl:Moved"}})
        assert "install its package again" in str(failure(world.registry(), "policy", "moved").hint)

    def test_an_import_that_raises(self, world: World) -> None:
        world.add(
            "other-rl",
            {"dicore.policy": {"boom": "other_rl:Boom", "fine": "fine_rl:Fine"}},
            modules={
                "other_rl.py": "raise RuntimeError('libfoo.so: undefined symbol\\nmore')",
                "fine_rl.py": "class Fine: ...",
            },
        )
        registry = world.registry()
        error = failure(registry, "policy", "boom")
        assert str(error) == (
            "policy.type: policy 'boom' (other-rl 1.0) failed to import other_rl: "
            "RuntimeError: libfoo.so: undefined symbol"
        )
        assert isinstance(error, PluginLoadError)
        assert (error.exit_code, error.hint) == (3, "")
        assert isinstance(error.__cause__, RuntimeError)
        assert registry.resolve("policy", "fine").target.__name__ == "Fine"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("import sys; sys.exit(3)", "SystemExit: 3"),
            (
                "import nowhere_to_be_found",
                "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
            ),
            ("x = 1", "AttributeError: module 'odd_rl' has no attribute 'Odd'"),
            ("raise ValueError", "ValueError"),
        ],
    )
    def test_every_way_to_fail_names_package_and_error(
        self, world: World, text: str, said: str
    ) -> None:
        world.add("odd-rl", {"dicore.policy": {"odd": "odd_rl:Odd"}}, modules={"odd_rl.py": text})
        assert str(failure(world.registry(), "policy", "odd")) == (
            f"policy.type: policy 'odd' (odd-rl 1.0) failed to import odd_rl: {said}"
        )

    def test_an_interrupt_is_no_failure_of_the_plugin(self, world: World) -> None:
        text = "raise KeyboardInterrupt"
        world.add("odd-rl", {"dicore.policy": {"odd": "odd_rl:Odd"}}, modules={"odd_rl.py": text})
        with pytest.raises(KeyboardInterrupt):
            world.registry().resolve("policy", "odd")

    @pytest.mark.parametrize("requires", [["dicore<0.1"]])
    def test_what_is_incompatible_is_not_imported(self, world: World, requires: list[str]) -> None:
        groups = {"dicore.policy": {"old": "old_rl:Old"}}
        world.add("old-rl", groups, requires=requires, modules={"old_rl.py": "class Old: ..."})
        registry = world.registry()
        entry = next(entry for entry in registry.entries("policy") if entry.name == "old")
        with pytest.raises(RegistryError, match="is incompatible"):
            registry.load(entry)
        assert "old_rl" not in sys.modules

    def test_a_kind_that_is_no_kind(self, world: World) -> None:
        world.add("k-rl", {"dicore.kind": {"odd": "k_rl:KIND"}}, modules={"k_rl.py": "KIND = 1"})
        kinds = world.registry().kinds()
        assert "odd" in kinds
        with pytest.raises(
            PluginLoadError, match=r"kind 'odd' \(k-rl 1.0\) is not a dicore_registry.Kind"
        ):
            kinds["odd"]

    def test_kinds_are_loaded_when_looked_at(self, world: World) -> None:
        kinds = world.registry().kinds()
        assert isinstance(kinds["pipeline"], Kind)
        assert kinds["pipeline"].group == "dicore.pipeline"
        assert len(kinds) == len(list(kinds)) > 10


class TestImportPath:
    def test_a_module_with_a_dot(self, registry: Registry, world: World) -> None:
        resolved = registry.resolve("policy", "acme_rl.tedq:TEDQConfig")
        assert (resolved.name, resolved.entry) == ("acme_rl.tedq:TEDQConfig", None)
        assert resolved.target.__name__ == "TEDQConfig"
        assert resolved.provenance["target"] == "acme_rl.tedq:TEDQConfig"
        assert resolved.provenance["source"].startswith("sha256:")

    def test_what_is_no_python_name_is_no_import_path(self, registry: Registry) -> None:
        assert str(failure(registry, "policy", "acme:TEDQ-v1")) == (
            "policy.type: 'acme:TEDQ-v1' is not the name of a policy\n"
            "  hint: write import paths as 'pkg.mod:Class' or './file.py:Class'"
        )

    @pytest.mark.parametrize(
        ("type_", "said"),
        [
            ("acme_rl.tedqk:TEDQConfig", "no module 'acme_rl.tedqk'"),
            ("acne_rl.tedq:TEDQConfig", "no module 'acne_rl'"),
            (
                "acme_rl.tedq:TEDQConfg",
                "'acme_rl.tedq' has no attribute 'TEDQConfg'; did you mean 'TEDQConfig'?",
            ),
            (
                "acme_rl.tedq:zzz",
                "'acme_rl.tedq' has no attribute 'zzz'; it has TEDQConfig, make",
            ),
        ],
    )
    def test_what_does_not_exist(self, registry: Registry, type_: str, said: str) -> None:
        error = failure(registry, "policy", type_)
        assert str(error) == f"policy.type: {said}"
        assert isinstance(error, UnknownComponentError)

    def test_a_module_that_raises(self, world: World) -> None:
        world.add("x", modules={"bad_rl/__init__.py": "", "bad_rl/a.py": "import gone_module"})
        assert str(failure(world.registry(), "policy", "bad_rl.a:A")) == (
            "policy.type: policy 'bad_rl.a:A' failed to import bad_rl.a: "
            "ModuleNotFoundError: No module named 'gone_module'"
        )


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("pkg.mod:Class", True),
        ("mod:Class.Inner", True),
        ("./file.py:Class", True),
        ("file.py:Class", True),
        ("C:\\\\own\\\\file.py:Class", True),
        ("gymnasium:CartPole-v1", False),
        ("gymnasium:ALE/Pong-v5", False),
        ("gymnasium:my.package:Maze-v0", False),
        ("acme-rl/dqn", False),
        ("dqn", False),
    ],
)
def test_an_import_path_is_a_file_or_a_module_and_a_python_name(text: str, is_path: bool) -> None:
    assert is_import_path(text) == is_path


class TestFile:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "buf.py").write_text("class Mine:\n    size = 1\n")
        return tmp_path

    def test_one_file_is_enough(self, registry: Registry, folder: Path) -> None:
        resolved = registry.resolve("buffer", "./buf.py:Mine")
        assert resolved.target.size == 1
        assert resolved.target.__module__.startswith("_dicore_file_")
        assert resolved.provenance["source"] == (
            "sha256:" + hashlib.sha256((folder / "buf.py").read_bytes()).hexdigest()
        )

    def test_the_same_file_gives_the_same_class(self, registry: Registry, folder: Path) -> None:
        first = registry.resolve("buffer", "./buf.py:Mine").target
        assert registry.resolve("buffer", f"{folder}/buf.py:Mine").target is first

    def test_a_changed_file_is_read_again(self, registry: Registry, folder: Path) -> None:
        registry.resolve("buffer", "./buf.py:Mine")
        (folder / "buf.py").write_text("class Mine:\n    size = 22\n")
        assert registry.resolve("buffer", "./buf.py:Mine").target.size == 22

    def test_a_file_imports_its_neighbours_now_and_later_and_in_other_processes(
        self, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", list(sys.path))
        folder = tmp_path / "own"
        folder.mkdir()
        (folder / "near_one.py").write_text("SIZE = 3\n")
        (folder / "near_two.py").write_text("SIZE = 4\n")
        (folder / "json.py").write_text("raise SystemExit('it hides no installed module')\n")
        (folder / "buf.py").write_text(
            "import json\nfrom near_one import SIZE\n\n\nclass Mine:\n    size = SIZE\n\n"
            "    def later(self):\n        import near_two\n\n        return near_two.SIZE\n"
        )
        mine = registry.resolve("buffer", "own/buf.py:Mine").target
        assert (mine.size, mine().later()) == (3, 4)
        code = (
            "import importlib, dicore_registry\n"
            f"print(importlib.import_module({mine.__module__!r}).Mine().later())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True
        )
        assert done.stdout == "4\n", done.stderr
        for name in ("near_one", "near_two"):
            sys.modules.pop(name)

    def test_an_id_is_no_attribute(self, registry: Registry, folder: Path) -> None:
        assert str(failure(registry, "env", "./buf.py:Mine-v0")).endswith(
            "no attribute 'Mine-v0'; what it registers by that name: dicore --plugin ./buf.py … and"
            " Mine-v0 alone"
        )

    def test_a_file_that_is_not_there(self, registry: Registry, folder: Path) -> None:
        error = failure(registry, "buffer", "./bof.py:Mine", "policy.other.replay_buffer.type")
        assert error.message == (
            f"policy.other.replay_buffer.type: no file './bof.py' in {folder.resolve()}"
        )
        assert "go to the folder" in str(error.hint)
        assert error.exit_code == 2

    def test_a_file_that_raises(self, registry: Registry, folder: Path) -> None:
        (folder / "bad.py").write_text("1 / 0")
        assert str(failure(registry, "buffer", "./bad.py:Mine")) == (
            "policy.type: buffer './bad.py:Mine' failed to import ./bad.py: "
            "ZeroDivisionError: division by zero"
        )
        assert not [name for name in sys.modules if name.endswith("bad%2Epy")]


class TestRetiredNames:
    MODULE = """
        from dicore_registry import removed, renamed

        class Double:
            '''Double DQN.'''

        class Twin:
            '''Twin DQN.'''

        old = renamed("double", since="0.3")
        older = renamed("old", since="0.2")
        gone = removed("use double", since="0.5")
        moved = renamed("naive_rl/twin", since="0.4")
        old_dqn = renamed("dqn", since="0.4")
        same = renamed("other_rl/same", since="0.4")
        lost = renamed("nothing", since="0.4")
        ring = renamed("gnir", since="0.1")
        gnir = renamed("ring", since="0.1")
    """

    @pytest.fixture
    def retired(self, world: World) -> Registry:
        spelt = "old older gone moved old_dqn same lost ring gnir"
        names = {name: f"ret_rl:{name}" for name in spelt.split()}
        groups = {"dicore.policy": {"double": "ret_rl:Double", **names}}
        world.add("ret-rl", groups, modules={"ret_rl.py": self.MODULE})
        world.add("naive-rl", {"dicore.policy": {"twin": "ret_rl:Twin"}})
        world.add("other-rl", {"dicore.policy": {"same": "ret_rl:Double"}})
        return world.registry()

    def test_a_renamed_one_works_and_warns_once(self, retired: Registry) -> None:
        text = r"policy.type: policy 'old' \(ret-rl 1.0\) was renamed to 'double' in 0.3"
        with pytest.warns(FutureWarning, match=text):
            resolved = retired.resolve("policy", "old", "policy.type")
        assert (resolved.name, resolved.target.__name__) == ("double", "Double")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            retired.resolve("policy", "old", "policy.type")

    def test_a_misspelt_name_never_means_a_renamed_one(self, retired: Registry) -> None:
        with pytest.raises(UnknownComponentError, match="no policy named 'moves'; installed"):
            retired.resolve("policy", "moves")

    def test_renamed_twice(self, retired: Registry) -> None:
        with pytest.warns(FutureWarning, match="renamed"):
            assert retired.resolve("policy", "older").name == "double"

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("moved", "naive-rl/twin"),
            ("old_dqn", "dicore-plugins/dqn"),
            ("ret-rl/same", "other-rl/same"),
            ("old", "ret-rl/double"),
        ],
    )
    def test_one_renamed_into_another_package(
        self, retired: Registry, name: str, found: str
    ) -> None:
        entry = retired.resolve("policy", name).entry
        assert entry is not None
        assert entry.qualified == found

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_one_renamed_to_nothing(self, retired: Registry) -> None:
        assert str(failure(retired, "policy", "lost")).startswith(
            "policy.type: no policy named 'nothing'; "
        )

    def test_a_removed_one_says_what_to_use(self, retired: Registry) -> None:
        assert str(failure(retired, "policy", "gone")) == (
            "policy.type: policy 'gone' (ret-rl 1.0) was removed in 0.5: use double"
        )

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_a_circle_ends(self, retired: Registry) -> None:
        assert "is part of a cycle of renames" in str(failure(retired, "policy", "ring"))
