"""`dicore catalogue`: a page of everything installed."""

from __future__ import annotations

import pytest

from dicore_registry import Registry
from dicore_tools.commands.catalogue import page
from tests.registry.world import World


@pytest.fixture
def world(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.syspath_prepend(str(world.folder))
    buffer = '''
        from dicore.config import ComponentConfig, frozen, option
        from dicore_registry import renamed

        @frozen(kw_only=True)
        class PageConfig(ComponentConfig):
            """A buffer for a page.

            More | of it.
            """

            size: int = option(10, "rows | kept", ge=1, unit="rows")
            mode: str = option("a", "how", choices=("a", "b"))

        old = renamed("page", since="0.2")
        PRESET = {"env": {"type": "x"}, "seed": 3}
        """A preset."""
        '''
    groups = {
        "dicore.buffer": {
            "page": "page_rl:PageConfig", "old_page": "page_rl:old", "broken": "page_rl:None_",
            "lacking": "page_rl:PageConfig [more]",
        },
        "dicore.preset": {"page": "page_rl:PRESET"},
    }  # fmt: skip
    world.add(
        "page-rl", groups, modules={"page_rl.py": buffer}, extras={"more": ["no-such-thing>=1"]}
    )
    return world


def test_a_page_has_every_option(world: World) -> None:
    text = page(world.registry(), ["buffer", "preset", "env"])
    assert text.splitlines()[:3] == ["# Components", "", "## buffer"]
    assert "## env" not in text  # nothing of the kind is installed
    assert "| `size` | `int` | `10` | `>= 1` | rows \\| kept [rows] |" in text
    assert "| `mode` | `str` | `a` | `'a' or 'b'` | how |" in text
    assert "A buffer for a page.\n\nMore | of it." in text
    assert "**deprecated**: renamed to 'page' in 0.2" in text
    assert "**broken**: buffer 'broken' (page-rl 1.0) failed to import page_rl" in text
    assert "**unavailable**: needs no-such-thing>=1: pip install 'page-rl[more]'" in text
    assert "| `env.type` | `'x'` |" in text


def test_the_command_writes_a_file(world: World) -> None:
    done = world.dicore("catalogue", "buffer", "--dist", "Page_RL", "--out", "page.md")
    assert (done.returncode, done.stdout) == (0, "page.md: 4 components\n"), done.stderr
    text = (world.folder / "page.md").read_text()
    assert text == page(world.registry(), ["buffer"], "page-rl")
    assert world.dicore("catalogue", "buffer").stdout == page(world.registry(), ["buffer"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bufer"], "error: unknown kind 'bufer'; did you mean 'buffer'?\n"),
        (["--dist", "nobody"], "error: no installed package 'nobody' provides components; "),
        (["--out", "/dev/null/all"], "error: --out: cannot write /dev/null/all: "),
    ],
)
def test_mistakes_end_with_2(world: World, words: list[str], said: str) -> None:
    done = world.dicore("catalogue", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_a_package_without_components_has_a_page_too(world: World) -> None:
    text = '"""Reports."""\nfrom dicore.hookspecs import hookimpl\n\n\n@hookimpl\ndef {}(run): ...'
    modules = {
        "plug_rl.py": text.format("dicore_report_header"),
        "bad_plug.py": text.format("dicore_report_haeder"),
        "add_rl.py": "def tune():\n    '''Tunes.'''\n",
    }
    groups = {
        "dicore.plugin": {"good": "plug_rl", "bad": "bad_plug"},
        "dicore.api": {"tune": "add_rl:tune"},
    }
    world.add("plug-rl", groups, modules=modules)
    done = world.dicore("catalogue", "--package", "plug-rl")
    assert done.returncode == 0, done.stderr
    assert "### plugin/good\n\nplug-rl 1.0, `plug_rl`\n\nReports.\n\n" in done.stdout
    assert "| `hooks` | `['dicore_report_header']` |" in done.stdout
    assert "\n\n**broken**: plugin 'bad' (plug-rl 1.0): no hook" in done.stdout
    assert "## api\n\n### api/tune\n\nplug-rl 1.0, `add_rl:tune`\n\nTunes.\n" in done.stdout


def test_everything_first_party_has_a_section() -> None:
    registry = Registry()
    kinds = sorted(registry.kinds())
    text = page(registry, kinds)
    for kind in kinds:
        for entry in registry.entries(kind):
            assert f"\n### {kind}/{entry.name}\n" in text
    own = {"dicore", "dicore-plugins", "dicore-dist", "dicore-tools", "dicore-compat"}
    own.add("dicore-contrib-envs")
    broken = [e for e in registry.entries() if e.dist in own and f"{e.label} failed" in text]
    assert not broken


def test_an_option_without_default_has_an_empty_cell() -> None:
    text = page(Registry(), ["command"])
    assert "Sentinel" not in text
    assert "| `--jobs` | 1 |" in text
    assert "| `--out` |  | Output file." in text


def test_what_is_not_stable_says_so() -> None:
    text = page(Registry(), ["league_player", "executor"])
    assert text.count("**experimental**: leagues are young") == text.count("### league_player/")
    assert "\n**" not in text[text.index("## executor") :]
