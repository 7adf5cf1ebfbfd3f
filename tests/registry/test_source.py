"""Docstrings by text search: what is found, what is left blank, and that nothing is imported."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from dicore_registry.index import PlaceIndex
from dicore_registry.source import Place, Sources
from tests.registry.world import World

MODULE = '''"""The module.

More of it.
"""
from typing import Annotated

LIGHT: dict[str, object] = {
    "env": {"type": "cartpole"},  # a comment
    "policy": {
        "type": "dqn",
    },
}
"""A preset, told below it."""

OTHER = dict(
    a=1,
)
# a comment between
"""Another preset."""

BARE = {"a": 1}
ROLE = Kind(
    name="role",
    summary="does a part",
)
NAMED: Final = registry.Kind("named", "opens " "doors")
WRAPPED = Kind(
    "wrapped",
    summary=(
        "closes "
        'them'
    ),
)
MADE = Kind("made", make("x"))
NUMBER = 3


class Plain:
    """A plain class."""


class Wide(
    Plain,
    metaclass=type,
):  # a comment: with a colon

    r"""
    Begins on a line of its own.

    Rest.
    """


class Single: pass


class Silent(Plain):
    size: int = 1

    def method(self):
        """Not the class's."""


@decorated("x")
def function(
    size: Annotated[int, "how: much"] = 3,
    *,
    deep: dict = {"a": 1},
) -> None:
    \'\'\'A function.\'\'\'


async def waiting() -> None:
    "Waits."


def twice() -> None:
    """The first."""


def twice() -> None:
    """The second."""
'''


@pytest.fixture
def place(world: World) -> Sources:
    world.add("acme-rl", modules={"acme_rl/__init__.py": "raise RuntimeError('imported')"})
    (world.folder / "acme_rl" / "parts.py").write_text(MODULE)
    return Sources()


@pytest.mark.parametrize(
    ("attr", "summary"),
    [
        ("", "The module."),
        ("LIGHT", "A preset, told below it."),
        ("OTHER", "Another preset."),
        ("BARE", ""),
        ("ROLE", "does a part"),
        ("NAMED", "opens doors"),
        ("WRAPPED", "closes them"),
        ("MADE", ""),
        ("NUMBER", ""),
        ("Plain", "A plain class."),
        ("Wide", "Begins on a line of its own."),
        ("Single", ""),
        ("Silent", ""),
        ("function", "A function."),
        ("waiting", "Waits."),
        ("twice", "The second."),
    ],
)
def test_the_first_line_is_found(place: Sources, attr: str, summary: str) -> None:
    found = place.place(f"acme_rl.parts:{attr}" if attr else "acme_rl.parts")
    assert found is not None
    assert found.summary == summary
    assert "acme_rl" not in sys.modules


@pytest.mark.parametrize("target", ["acme_rl.parts:Nowhere", "acme_rl.none:A", "nowhere.at.all:A"])
def test_what_is_not_to_be_seen_has_no_place(place: Sources, target: str) -> None:
    assert place.place(target) is None


def test_file_and_line_are_told(place: Sources, world: World) -> None:
    file = str(world.folder / "acme_rl" / "parts.py")
    line = MODULE.split("\n").index("class Wide(") + 1
    summary = "Begins on a line of its own."
    assert place.place("acme_rl.parts:Wide") == Place(file, line, summary)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from acme_rl.parts import Plain", "Plain"),
        ("from .parts import (\n    Wide,\n    Plain as Nice,\n)", "Nice"),
        ("from ..acme_two.deep.parts import Plain", "Plain"),
    ],
)
def test_a_re_export_is_followed(world: World, line: str, name: str) -> None:
    world.add(
        "acme-rl",
        modules={
            "acme_rl/parts.py": 'class Plain:\n    """A plain class."""\n',
            "acme_rl/__init__.py": line if ".." not in line else "",
            "acme_two/__init__.py": "",
            "acme_two/parts.py": 'class Plain:\n    """A plain class."""\n',
            "acme_two/deep/__init__.py": "from ..parts import Plain",
        },
    )
    target = f"acme_two.deep:{name}" if ".." in line else f"acme_rl:{name}"
    found = Sources().place(target)
    assert found is not None
    assert (found.summary, Path(found.file).name) == ("A plain class.", "parts.py")


def test_re_exports_in_a_circle_end(world: World) -> None:
    world.add(
        "loop", modules={"loop_a.py": "from loop_b import X", "loop_b.py": "from loop_a import X"}
    )
    assert Sources().place("loop_a:X") is None


def test_a_namespace_package_is_found(world: World) -> None:
    world.add("ns", modules={"ns_rl/part.py": '"""Part."""'})
    found = Sources().place("ns_rl.part")
    assert found is not None
    assert found.summary == "Part."


def test_an_editable_install_by_pth_file_is_found(world: World, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "ed_rl.py").write_text('class A:\n    """Editable."""\n')
    (world.folder / "ed.pth").write_text(str(tmp_path / "project"))
    code = (
        "import site, sys; site.addsitedir(sys.argv[1])\n"
        "from dicore_registry.source import Sources\n"
        "print(Sources().place('ed_rl:A').summary, 'ed_rl' in sys.modules)"
    )
    assert world.python(code, str(world.folder)).stdout == "Editable. False\n"


def test_an_editable_install_by_import_hook_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hooked" / "hook_rl"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError")
    (folder / "part.py").write_text('class A:\n    """Hooked."""\n')

    class Finder:
        @staticmethod
        def find_spec(
            name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> importlib.machinery.ModuleSpec | None:
            file = folder / "__init__.py"
            return importlib.util.spec_from_file_location(name, file) if name == "hook_rl" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    found = Sources().place("hook_rl.part:A")
    assert found is not None
    assert found.summary == "Hooked."


def test_every_first_party_component_that_exists_has_a_summary(world: World) -> None:
    registry = world.registry()
    for entry in registry.entries():
        place = registry.place(entry)
        assert place is None or registry.summary(entry), entry.label


class TestIndex:
    """What an earlier process found is taken while the files that it read are as they were."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        return str(tmp_path / "share" / "places.json")

    def found(
        self, file: str, target: str = "acme_rl.parts:Plain"
    ) -> tuple[Place | None, list[str]]:
        """Returns the place by a new process, and the files that it read."""
        sources = Sources(PlaceIndex(file))
        place = sources.place(target)
        assert sources.index is not None
        sources.index.save()
        return place, [*sources._texts]

    def test_a_file_that_did_not_change_is_not_read_again(
        self, world: World, place: Sources, file: str
    ) -> None:
        first, read = self.found(file)
        assert first == place.place("acme_rl.parts:Plain")
        assert read
        assert self.found(file) == (first, [])

    def test_a_file_that_changed_is_read_again(
        self, world: World, place: Sources, file: str
    ) -> None:
        first, _ = self.found(file)
        (world.folder / "acme_rl" / "parts.py").write_text(f"import os\n{MODULE}")
        again, read = self.found(file)
        assert first is not None
        assert again == first._replace(line=first.line + 1)
        assert read

    def test_so_is_one_behind_a_re_export(self, world: World, place: Sources, file: str) -> None:
        (world.folder / "acme_rl" / "door.py").write_text("from acme_rl.parts import Plain\n")
        first, _ = self.found(file, "acme_rl.door:Plain")
        (world.folder / "acme_rl" / "parts.py").write_text(f"import os\n{MODULE}")
        again, _ = self.found(file, "acme_rl.door:Plain")
        assert first is not None
        assert again == first._replace(line=first.line + 1)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"form": 1}', '{"form": 1, "rows": {"acme_rl.parts:Plain": 7}}',
                 '{"form": 1, "rows": {"acme_rl.parts:Plain": [[["x"]], null]}}'])  # fmt: skip
    def test_a_broken_index_is_none(
        self, world: World, place: Sources, file: str, text: str
    ) -> None:
        Path(file).parent.mkdir()
        Path(file).write_text(text)
        assert self.found(file)[0] == place.place("acme_rl.parts:Plain")

    def test_one_that_cannot_be_written_is_none(self, world: World, place: Sources) -> None:
        assert self.found("/proc/nowhere/places.json")[0] == place.place("acme_rl.parts:Plain")
