"""What every command has: help, errors, exit codes, `--debug`, pipes, interrupts."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dicore.cli import _arguments, _with_command
from tests.registry.world import MAIN, VERSION, World


def split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the words of a command line with its command, and the variables that it sets."""
    others, variables = _arguments(words)
    return _with_command(others), variables


COMMANDS = '''
import click

from dicore.errors import ConfigError, UsageError


@click.command()
@click.option("--model-name", default="")
@click.argument("words", nargs=-1)
def echo(model_name, words):
    """Says it again."""
    click.echo(f"{model_name}|{' '.join(words)}")


@click.command()
@click.argument("what")
def fail(what):
    """Fails on purpose."""
    if what == "config":
        raise ConfigError(["policy.lr: unknown", "seed: negative"], hint="dicore show policy/dqn")
    if what == "usage":
        raise UsageError("not like this", hint="like that")
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "pipe":
        raise BrokenPipeError("a pipe of its own")
    raise KeyError("a fault of the program")


@click.command()
def wait():
    """Waits for a signal."""
    import sys, time
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    time.sleep(30)


@click.command()
def flood():
    """Writes without end."""
    while True:
        click.echo("line")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def train(words):
    """Says what it was called with."""
    click.echo(" ".join(words))


NOTHING = 1
'''


@pytest.fixture
def commands(world: World) -> World:
    """Returns a world in which a foreign package brings commands, one of them broken."""
    names = ("echo", "fail", "wait", "flood")
    groups = {
        "dicore.command": {
            **{name: f"acme_commands:{name}" for name in names},
            "say_twice": "acme_commands:echo",
            "nothing": "acme_commands:NOTHING",
            "crash": "acme_crash:command",
        }
    }
    crash = (
        '"""Module."""\ndef command():\n    """Cannot be imported."""\nraise RuntimeError("no")\n'
    )
    world.add("acme", groups, modules={"acme_commands.py": COMMANDS, "acme_crash.py": crash})
    return world


class TestHelp:
    def test_every_command_is_listed_with_its_summary_and_none_imported(
        self, commands: World
    ) -> None:
        done = commands.dicore("--help")
        assert done.returncode == 0
        words = " ".join(done.stdout.split())  # columns are as wide as the longest name
        assert "crash Cannot be imported." in words
        assert "say-twice Says it again." in words
        assert "list Lists installed components" in words

    def test_no_words_is_a_call_for_help(self, world: World) -> None:
        assert world.dicore().stdout == world.dicore("--help").stdout == world.dicore("-h").stdout

    @pytest.mark.parametrize("command", ["list", "show"])
    def test_commands_have_examples(self, world: World, command: str) -> None:
        done = world.dicore(command, "-h")
        assert done.returncode == 0
        assert f"Examples:\n    dicore {command} " in done.stdout

    def test_version(self, world: World) -> None:
        done = world.dicore("--version")
        assert (done.stdout, done.returncode) == (f"dicore {VERSION}\n", 0)


class TestWords:
    def test_a_foreign_command_is_a_command(self, commands: World) -> None:
        assert commands.dicore("echo", "a", "b").stdout == "|a b\n"
        assert commands.dicore("say-twice", "a").stdout == "|a\n"
        assert commands.dicore("SAY_TWICE", "a").stdout == "|a\n"

    @pytest.mark.parametrize(
        ("words", "arguments"),
        [
            (["-m", "serial", "-e", "cartpole"], "-m serial -e cartpole"),
            (["--env", "cartpole", "policy.learn.batch_size=8"], None),
            (["--debug", "-m", "serial"], "-m serial"),
            (["-m", "serial", "--debug", "-s", "0"], "-m serial -s 0"),
        ],
    )
    def test_a_leading_option_means_train(self, words: list[str], arguments: str | None) -> None:
        expected = words if arguments is None else arguments.split()
        assert split(list(words))[0] == ["train", *expected]

    @pytest.mark.parametrize(
        ("words", "arguments"),
        [
            ("-q train -e cartpole", "train -e cartpole -q"),
            ("-q -v config check x", "config check x -q -v"),
            ("--quiet import-weights a -- -b", "import-weights a --quiet -- -b"),
            ("-q -m dist -e cartpole", "dist -q -e cartpole"),
            ("-q -e cartpole", "train -q -e cartpole"),
            ("-q cartpole_dqn", "train -q cartpole_dqn"),
        ],
    )
    def test_loudness_may_stand_before_the_command(self, words: str, arguments: str) -> None:
        assert split(words.split())[0] == arguments.split()

    def test_a_command_after_other_options_is_told_where_to_stand(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from dicore.cli import main

        assert main(["-s", "0", "eval", "runs/x"]) == 2
        assert capsys.readouterr().err == (
            "error: eval: a command stands first\n  hint: dicore eval …\n"
        )

    def test_debug_belongs_to_the_program_after_two_dashes(self) -> None:
        assert split(["echo", "--", "--debug"]) == (["echo", "--", "--debug"], {})

    @pytest.mark.parametrize(
        ("words", "arguments", "said"),
        [
            (["list", "--no-plugins"], ["list"], {"DICORE_NO_PLUGINS": "1"}),
            (["--names-only", "-e", "x"], ["train", "-e", "x"], {"DICORE_NAMES_ONLY": "1"}),
            (
                ["list", "--plugin", "/a.py", "--plugin=/b.py"],
                ["list"],
                {"DICORE_PLUGINS": "/a.py:/b.py"},
            ),
            (["--strict-plugins"], ["--help"], {"DICORE_STRICT_PLUGINS": "1"}),
        ],
    )
    def test_switches_may_stand_anywhere(
        self, words: list[str], arguments: list[str], said: dict[str, str]
    ) -> None:
        assert split(words) == (arguments, said)

    def test_a_switch_holds_for_this_command_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        from dicore.cli import main

        monkeypatch.setenv("DICORE_NAMES_ONLY", "0")
        assert main(["--version", "--no-plugins", "--names-only"]) == 0
        assert "DICORE_NO_PLUGINS" not in os.environ
        assert os.environ["DICORE_NAMES_ONLY"] == "0"

    def test_a_file_given_by_plugin_is_listed(self, world: World) -> None:
        (world.folder / "mine.py").write_text(
            "import dicore\n\n@dicore.register('policy', 'mine')\nclass Mine:\n    'One file.'\n"
        )
        done = world.dicore("list", "policy", "--plugin", "mine.py")
        line = next(line for line in done.stdout.splitlines() if " mine " in line)
        assert line.split() == ["policy", "mine", "ok", "local", "One", "file."]
        (world.folder / "mine.py").write_text("1 / 0")
        done = world.dicore("list", "policy", "--plugin", "mine.py")
        assert done.returncode == 0
        assert done.stderr == (
            f"warning: plugin {world.folder / 'mine.py'}: failed to import: "
            "ZeroDivisionError: division by zero\n"
        )
        done = world.dicore("list", "--plugin", "nope.py")
        assert done.returncode == 0
        assert done.stderr == f"warning: plugin {world.folder / 'nope.py'}: file not found\n"
        line = next(line for line in done.stdout.splitlines() if " nope.py " in line)
        assert line.split()[:4] == ["plugin", "nope.py", "broken", "local"]


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "code", "text"),
        [
            (
                "fail config",
                2,
                "error: policy.lr: unknown\nerror: seed: negative\n"
                "  hint: dicore show policy/dqn\n",
            ),
            ("fail usage", 2, "error: not like this\n  hint: like that\n"),
            ("list --plugin", 2, "error: --plugin needs a file\n"),
            ("ehco", 2, "error: no command named 'ehco'; did you mean 'echo'?\n"),
            ("cartpole", 2, "error: no command named 'cartpole'; 'cartpole' is an env\n"),
            (
                "echo --modle-name x",
                2,
                "error: no such option '--modle-name'; did you mean '--model-name'?\n"
                "  hint: dicore echo --help\n",
            ),
            ("fail", 2, "error: missing argument 'WHAT'\n  hint: dicore fail --help\n"),
            ("nothing", 3, "error: command 'nothing' (acme 1.0) is not a click command\n"),
            ("fail interrupt", 130, ""),
        ],
    )
    def test_each_problem_has_its_line(
        self, commands: World, words: str, code: int, text: str
    ) -> None:
        done = commands.dicore(*words.split())
        assert (done.stdout, done.stderr, done.returncode) == ("", text, code)

    @pytest.mark.parametrize("words", [["--debug", "fail", "usage"], ["fail", "usage", "--debug"]])
    def test_debug_shows_the_traceback(self, commands: World, words: list[str]) -> None:
        done = commands.dicore(*words)
        assert done.returncode == 2
        assert done.stderr.startswith("Traceback (most recent call last):")
        assert done.stderr.endswith("error: not like this\n  hint: like that\n")

    def test_so_does_the_environment(self, commands: World) -> None:
        assert "Traceback" in commands.dicore("fail", "usage", DICORE_DEBUG="1").stderr
        assert "Traceback" not in commands.dicore("fail", "usage", DICORE_DEBUG="0").stderr

    @pytest.mark.parametrize(
        ("what", "code", "text"),
        [
            (
                "other", 3,
                "error: command 'fail' of acme raised KeyError: 'a fault of the program'\n"
                "  hint: --debug shows the traceback\n",
            ),
            ("pipe", 1, "BrokenPipeError: a pipe of its own\n"),
        ],
    )  # fmt: skip
    def test_a_fault_of_the_program_is_not_hidden(
        self, commands: World, what: str, code: int, text: str
    ) -> None:
        done = commands.dicore("fail", what)
        assert done.returncode == code
        assert done.stderr.endswith(text)

    def test_a_broken_command_breaks_itself_alone(self, commands: World) -> None:
        done = commands.dicore("crash")
        assert done.returncode == 3
        assert done.stderr == (
            "error: command 'crash' (acme 1.0) failed to import acme_crash: RuntimeError: no\n"
        )
        assert commands.dicore("list").returncode == 0


class TestSignals:
    @pytest.mark.parametrize(
        ("command", "line", "code"), [("wait", "ready\n", 130), ("flood", "line\n", 141)]
    )
    def test_ctrl_c_and_a_reader_that_leaves_are_quiet(
        self, commands: World, command: str, line: str, code: int
    ) -> None:
        with started(commands, command) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == line
            if command == "wait":
                process.send_signal(signal.SIGINT)
            else:
                process.stdout.close()
            assert process.wait(200) == code
            assert process.stderr is not None
            assert process.stderr.read() == ""


def _as_in_a_terminal() -> None:
    """Lets Ctrl-C reach the process, also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def started(world: World, *words: str) -> subprocess.Popen[str]:
    """Starts `dicore` and leaves it running."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        env=world.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_as_in_a_terminal,  # noqa: PLW1509 - no other threads
    )


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_a_terminal_gets_a_rich_table(world: World, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    code = f"import sys; sys.argv[1:] = ['list', 'policy']; {MAIN.removesuffix('sys.exit(main())')}"
    code += "main(); sys.stderr.write(str('rich' in sys.modules))"
    environ = world.environ(COLUMNS="200", TERM="xterm-256color")
    words = [sys.executable, "-c", code]
    shown = b""
    with subprocess.Popen(words, env=environ, stdout=slave, stderr=subprocess.PIPE) as done:
        os.close(slave)
        with contextlib.suppress(OSError):  # EIO: nobody writes any more
            while part := os.read(master, 100_000):  # else a full terminal would block it
                shown += part
        told = done.communicate(timeout=200)[1]
    os.close(master)
    assert done.returncode == 0
    assert told == b"True"
    assert b"\x1b[" in shown
    assert b"Samples actions" in shown
