"""`[tool.dicore]` of the working directory, and the files it names."""

from __future__ import annotations

import subprocess
import sys
import warnings
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from dicore_registry import LOCAL, Registry
from dicore_registry.errors import PluginConflictError, PluginWarning, RegistryError
from dicore_registry.plugin_filter import Project
from tests.registry.world import World

MINE = """
from dicore_registry import register

@register("policy", "mine")
class Mine:
    '''A policy of one file.'''
"""


@pytest.fixture
def two(world: World) -> World:
    module = "class TEDQ: ...\nclass TEDQ2: ..."
    for name in ("acme", "other"):
        world.add(
            f"{name}-rl",
            {"dicore.policy": {"tedq": f"{name}:TEDQ"}},
            modules={f"{name}.py": module},
        )
    world.add(
        "big-rl",
        {"dicore.policy": {"dqn": "acme:TEDQ", "td_v1": "acme:TEDQ", "td_v2": "acme:TEDQ2"}},
    )
    return world


def project(world: World, text: str, **environ: str) -> Registry:
    """Returns a registry of the world in a folder whose pyproject.toml says this."""
    folder = world.folder.parent / "project"
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return Registry(world.distributions(), environ=environ, folder=folder)


def statuses(registry: Registry, name: str) -> dict[str, tuple[str, str]]:
    found = [entry for entry in registry.entries("policy") if entry.name == name]
    return {entry.dist: (entry.status, entry.reason) for entry in found}


class TestPrefer:
    def test_a_preference_settles_a_conflict(self, two: World) -> None:
        registry = project(two, '[tool.dicore.prefer]\n"policy/TEDQ" = "Other_RL"')
        assert statuses(registry, "tedq") == {
            "acme-rl": ("shadowed", "the project prefers 'other-rl'; write 'acme-rl/tedq'"),
            "other-rl": ("ok", ""),
        }
        resolved = registry.resolve("policy", "tedq")
        assert resolved.target.__module__ == "other"
        assert resolved.name == "other-rl/tedq"  # means the same where nothing is preferred
        assert registry.resolve("policy", "acme-rl/tedq").target.__module__ == "acme"

    def test_even_a_name_of_dicore(self, two: World) -> None:
        registry = project(two, '[tool.dicore.prefer]\n"policy/dqn" = "big-rl"')
        assert registry.find("policy", "dqn").dist == "big-rl"
        assert statuses(registry, "dqn")["dicore-plugins"][0] == "shadowed"

    def test_the_numbered_versions_of_a_name(self, two: World) -> None:
        registry = project(two, '[tool.dicore.prefer]\n"policy/td" = "big-rl"')
        assert registry.resolve("policy", "td").name == "big-rl/td_v2"

    def test_a_package_that_does_not_provide_it_is_an_error(self, two: World) -> None:
        registry = project(two, '[tool.dicore.prefer]\n"policy/tedq" = "third-rl"')
        with pytest.raises(RegistryError) as caught:
            registry.find("policy", "tedq", "policy.type")
        assert str(caught.value) == (
            "policy.type: the project prefers 'third-rl/tedq', but no installed package 'third-rl' "
            "provides it\n  hint: pip install third-rl, or edit tool.dicore.prefer in "
            "pyproject.toml"
        )


class TestSwitches:
    @pytest.mark.parametrize(
        ("text", "environ", "reason"),
        [
            ('deny = ["other_rl"]', {}, "switched off by deny in [tool.dicore] of pyproject.toml"),
            ('allow = ["acme-rl"]', {}, "not in allow in [tool.dicore] of pyproject.toml"),
            (
                'allow = ["other-rl"]',
                {"DICORE_PLUGINS_ALLOW": "acme-rl"},
                "not in DICORE_PLUGINS_ALLOW",
            ),
            (
                'deny = ["other-rl"]',
                {"DICORE_PLUGINS_DENY": "other-rl"},
                "switched off by DICORE_PLUGINS_DENY",
            ),
        ],
    )
    def test_they_may_stand_in_the_project(
        self, two: World, text: str, environ: dict[str, str], reason: str
    ) -> None:
        registry = project(two, f"[tool.dicore]\n{text}", **environ)
        assert statuses(registry, "tedq") == {
            "acme-rl": ("ok", ""),
            "other-rl": ("disabled", reason),
        }

    def test_no_plugins_turns_the_files_off_too(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nno-plugins = true\nplugins = ["gone.py"]')
        assert statuses(registry, "tedq")["acme-rl"] == (
            "disabled",
            "switched off by [tool.dicore] of pyproject.toml",
        )
        assert registry.find("policy", "dqn").dist == "dicore-plugins"

    def test_names_only_refuses_code_by_path(self, two: World) -> None:
        registry = project(two, "", DICORE_NAMES_ONLY="1")
        assert registry.resolve("policy", "acme-rl/tedq").name == "acme-rl/tedq"
        for type_ in ("./mine.py:Mine", "pkg.mod:Mine"):
            with pytest.raises(
                RegistryError, match="is a code path, which --names-only forbids"
            ) as caught:
                registry.resolve("policy", type_, "policy.type")
            assert caught.value.message.startswith(f"policy.type: '{type_}'")


class TestFiles:
    def test_what_a_file_decorates_is_found(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["src/mine.py"]')
        file = two.folder.parent / "project" / "src" / "mine.py"
        file.parent.mkdir()
        file.write_text(MINE)
        entry = registry.find("policy", "mine")
        assert (entry.dist, entry.file) == (LOCAL, f"{file.resolve()}:4")
        assert registry.summary(entry) == "A policy of one file."
        assert "mine" in [e.name for e in registry.entries()]

    def test_names_only_refuses_files_beside_the_project(self, two: World) -> None:
        registry = project(
            two, '[tool.dicore]\nplugins = ["mine.py"]', DICORE_NAMES_ONLY="1",
            DICORE_PLUGINS="added.py",
        )  # fmt: skip
        (two.folder.parent / "project" / "mine.py").write_text("raise SystemExit('it ran')")
        for _ in range(2):
            with pytest.raises(
                RegistryError, match=r"added\.py is executed, which --names"
            ) as told:
                registry.find("policy", "dqn")
            assert told.value.hint == "omit --names-only to allow it"

    def test_names_only_keeps_files_of_the_project(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["mine.py"]', DICORE_NAMES_ONLY="1")
        (two.folder.parent / "project" / "mine.py").write_text(MINE)
        assert registry.find("policy", "mine").dist == LOCAL

    def test_nothing_is_imported_for_the_commands(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["mine.py"]')
        file = two.folder.parent / "project" / "mine.py"
        file.write_text(f"import pathlib; pathlib.Path({str(file.parent / 'touched')!r}).touch()")
        assert registry.entries("command")
        assert not (file.parent / "touched").exists()
        registry.entries()
        assert (file.parent / "touched").exists()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (None, "file not found"),
            ("1 / 0", "failed to import: ZeroDivisionError: division by zero"),
            ("import sys; sys.exit()", "failed to import: SystemExit"),
        ],
    )
    def test_one_that_fails_stops_nobody(self, two: World, text: str | None, said: str) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["bad.py", "mine.py"]')
        folder = two.folder.parent / "project"
        (folder / "mine.py").write_text(MINE)
        if text is not None:
            (folder / "bad.py").write_text(text)
        with pytest.warns(PluginWarning) as caught:
            assert registry.find("policy", "mine").dist == LOCAL
        assert [str(each.message) for each in caught if said in str(each.message)]
        assert registry.find("policy", "dqn").dist == "dicore-plugins"
        broken = [entry for entry in registry.entries() if entry.status == "broken"]
        assert [(e.kind, e.name, e.reason.startswith(said)) for e in broken] == [
            ("plugin", "bad.py", True)
        ]
        with pytest.raises(RegistryError) as failure:
            registry.find("policy", "nowhere")
        assert f"a file that failed to load: {folder / 'bad.py'}" in failure.value.hint

    def test_one_that_takes_a_name_is_told_so(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["mine.py"]')
        folder = two.folder.parent / "project"
        (folder / "mine.py").write_text(MINE.replace('"mine"', '"dqn"'))
        with pytest.warns(PluginWarning, match="is already registered"):
            assert registry.find("policy", "dqn").dist == "dicore-plugins"

    def test_the_environment_names_files_too(self, two: World) -> None:
        file = two.folder / "mine.py"
        file.write_text(MINE)
        registry = project(two, "", DICORE_PLUGINS=str(file))
        assert registry.find("policy", "mine").dist == LOCAL

    def test_a_changed_file_counts_after_a_fresh_look(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["mine.py"]')
        file = two.folder.parent / "project" / "mine.py"
        file.write_text(MINE)
        registry.find("policy", "mine")
        file.write_text(MINE.replace("A policy of one", "Another"))
        registry.rescan()
        assert registry.summary(registry.find("policy", "mine")) == "Another file."

    def test_another_process_finds_its_classes(self, two: World) -> None:
        registry = project(two, '[tool.dicore]\nplugins = ["my.own.py"]')
        file = two.folder.parent / "project" / "my.own.py"
        file.write_text(MINE.replace("dicore_registry import", "dicore import"))
        sent = bytes(ForkingPickler.dumps(registry.resolve("policy", "mine").target))
        code = (
            "import sys, pickle, dicore_registry; "
            "print(pickle.load(sys.stdin.buffer).__doc__, dicore_registry.default().find("
            "'policy', 'mine').dist)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], input=sent, capture_output=True, check=False
        )
        assert done.stdout.decode().strip() == "A policy of one file. local", done.stderr.decode()


class TestProblems:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "[tool.dicore]\nplugin = []",
                "tool.dicore: unknown key 'plugin'; did you mean 'plugins'?",
            ),
            (
                "[tool.dicore]\nzzz = 1",
                "tool.dicore: unknown key 'zzz'; "
                "expected one of allow, deny, no-plugins, plugins, prefer",
            ),
            (
                "[tool.dicore]\nallow = 'acme'",
                "tool.dicore.allow: expected a list of strings, got 'acme'",
            ),
            (
                "[tool.dicore]\nno_plugins = 1",
                "tool.dicore.no-plugins: expected true or false, got 1",
            ),
            (
                "[tool.dicore.prefer]\ntedq = 'acme'",
                'tool.dicore.prefer."tedq": expected "kind/name" = "distribution", got \'acme\'',
            ),
            ("[tool]\ndicore = 3", "tool.dicore: expected a table, got 3"),
        ],
    )
    def test_a_mistake_is_an_error_where_something_is_looked_up(
        self, two: World, text: str, said: str
    ) -> None:
        registry = project(two, text)
        assert registry.entries("policy")  # what can be listed is listed
        assert registry.find("command", "list")
        with pytest.raises(RegistryError) as caught:
            registry.find("policy", "dqn")
        assert caught.value.message == f"{registry.project.file}: {said}"

    def test_a_file_that_is_no_toml(self, two: World) -> None:
        with pytest.raises(RegistryError, match=r"pyproject.toml cannot be read: "):
            project(two, "[tool.dicore\n").find("policy", "dqn")

    @pytest.mark.parametrize("text", [None, "", "[tool.ruff]\n", "name = 'dicore'\n[project]\n"])
    def test_a_folder_that_has_nothing_to_say(self, tmp_path: Path, text: str | None) -> None:
        if text is not None:
            (tmp_path / "pyproject.toml").write_text(text)
        assert Project.read(tmp_path) == Project()


class TestRetired:
    def test_a_tombstone_shows_without_an_import(self, world: World) -> None:
        module = """
            import nowhere_to_be_found
            from dicore_registry import removed, renamed
            old = renamed("new", since="0.3")
            gone: object = removed(
                "use new", since='0.5')
            def older(): return {}
            named = renamed(to="acme-rl/new", since="0.4")
            '''A name of another package.'''
            reused = make("renamed", since=3)
            """
        names = ("old", "gone", "older", "named", "reused")
        world.add(
            "old-rl",
            {"dicore.policy": {name: f"old_rl:{name}" for name in names}},
            modules={"old_rl.py": module},
        )
        registry = world.registry()
        found = [registry.judged(registry.find("policy", name)) for name in names]
        assert [(entry.status, entry.reason) for entry in found] == [
            ("deprecated", "renamed to 'new' in 0.3"),
            ("deprecated", "removed in 0.5: use new"),
            ("ok", ""),
            ("deprecated", "renamed to 'acme-rl/new' in 0.4"),
            ("ok", ""),
        ]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ("5", "policy", "con_rl:X is of type int, not a class or function"),
        ("-0.5", "policy", "con_rl:X is of type float, not a class or function"),
        ("'C'", "kind", "con_rl:X is of type str, not a class or function"),
        ("[\n    C,\n    1,\n]", "policy", ""),
        ("[\n    1,\n]", "preset", "con_rl:X is of type list, not a dict"),
        ("{'seed': 1}", "preset", ""),
        ("C()", "policy", ""),
        ("'a' if C else 'b'", "policy", ""),
        ("5", "api", ""),
    ],
)
def test_a_constant_is_no_component(world: World, value: str, kind: str, reason: str) -> None:
    text = f'class C: ...\n\n\nX = {value}\n"""Text."""\n'
    world.add("con-rl", {f"dicore.{kind}": {"con": "con_rl:X"}}, modules={"con_rl.py": text})
    registry = world.registry()
    (entry,) = (each for each in registry.entries(kind) if each.dist == "con-rl")
    judged = registry.judged(entry)
    assert (judged.status, judged.reason) == (("broken", reason) if reason else ("ok", ""))
    assert registry.summary(entry) == "Text."


class TestMetadata:
    """Broken metadata of one package is no reason for anything else not to work (G09)."""

    @pytest.mark.parametrize(
        "files",
        [
            {},
            {"METADATA": b"\xff\xfe\x00garbage", "entry_points.txt": b"\x80\x81[dicore.policy"},
            {"METADATA": b"Name: bad", "entry_points.txt": b"[dicore.policy]\nno value here\n"},
            {"METADATA": b"", "entry_points.txt": b"[dicore.policy]\nx = a:B\n"},
            {
                "METADATA": b"Name: bad",
                "direct_url.json": b"[1]",
                "entry_points.txt": b"[dicore.env]\nx=a:B",
            },
        ],
    )
    def test_others_are_found(self, two: World, files: dict[str, bytes]) -> None:
        folder = two.folder / "bad-1.0.dist-info"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        registry = two.registry()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert registry.find("policy", "dqn").status == "ok"
            assert registry.find("policy", "acme-rl/tedq").status == "conflict"
            for entry in registry.entries():
                registry.provenance(entry)

    def test_a_conflict_names_both(self, two: World) -> None:
        with pytest.raises(PluginConflictError, match="'acme-rl/tedq', 'other-rl/tedq'"):
            two.registry().find("policy", "tedq")


def test_in_a_folder_that_was_deleted_there_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert Registry().project == Project()
