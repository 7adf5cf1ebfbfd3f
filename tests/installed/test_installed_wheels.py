"""Wheels that were really built and installed: ours, good and bad ones of strangers, generated."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dicore_registry.known import known
from dicore_registry.metadata import FIRST_PARTY
from tests.installed.conftest import GENERATED, InstalledWheels, Shell
from tests.installed.wheels import BACKENDS, SLEEPY
from tests.soak import SOAK, some

pytestmark = pytest.mark.installed

COMMANDS = known("command")
"""Packages of the commands that dicore itself does not have."""

RESOLVE = """
import sys, warnings
from dicore_registry import default
warnings.simplefilter("error")
for kind, name in (word.split("=") for word in sys.argv[1:]):
    try:
        found = default().resolve(kind, name, f"{kind}.type")
        print(found.name, found.provenance["dist"], found.provenance["version"])
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\\n", " | "))
"""


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def resolve(shell: Shell, *words: str, **environ: str) -> list[str]:
    return lines(shell.run("-c", RESOLVE, *words, **environ))


def listed(shell: Shell, *words: str, **environ: str) -> dict[str, dict[str, Any]]:
    done = shell.dicore("list", "--json", *words, **environ)
    assert done.returncode == 0, done.stderr
    return {f"{row['kind']}/{row['qualified']}": row for row in json.loads(done.stdout)}


class TestList:
    def test_every_package_is_seen_with_its_status(self, everything: Shell) -> None:
        found = listed(everything)
        bad = {
            name: (row["status"], row["reason"]) for name, row in found.items()
            if row["status"] != "ok"
        }  # fmt: skip
        assert bad == {
            "env/extra-rl/newer": ("unavailable", bad["env/extra-rl/newer"][1]),
            "env/extra-rl/tennis": (
                "unavailable",
                "needs no-such-emulator>=2: pip install 'extra-rl[atari]'",
            ),
            "polcy/typo-rl/vmpo": (
                "broken",
                "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?",
            ),
            "policy/old-rl/old": (
                "incompatible",
                f"needs dicore<0.1 (installed: {found['policy/dicore-plugins/dqn']['version']})",
            ),
            "policy/acme-rl/tedq": ("conflict", "also provided by other-rl; write 'acme-rl/tedq'"),
            "policy/other-rl/tedq": ("conflict", "also provided by acme-rl; write 'other-rl/tedq'"),
            "policy/dqn-rl/dqn": ("shadowed", "dicore-plugins has priority; write 'dqn-rl/dqn'"),
            "env_manager/dicore-plugins/subprocess": (
                "deprecated",
                "renamed to 'sync_subprocess' in 0.1.0",
            ),
        }
        assert bad["env/extra-rl/newer"][1].startswith("needs attrs>=9999 (installed: ")
        assert found["env/extra-rl/neat"]["status"] == "ok"  # its extra is installed

    def test_one_that_cannot_be_imported_has_its_summary(self, everything: Shell) -> None:
        row = listed(everything, "policy")["policy/boom-rl/boom"]
        assert (row["status"], row["version"]) == ("ok", "1.0")
        assert row["summary"] == "The policy of boom-rl."
        row = listed(everything, "policy", "--load", "--dist", "boom-rl")["policy/boom-rl/boom"]
        assert row["status"] == "broken"
        assert row["reason"] == (
            "policy 'boom' (boom-rl 1.0) failed to import boom_rl.policy: "
            "RuntimeError: libfoo.so: undefined symbol"
        )

    def test_ours_are_listed_as_theirs_are(self, everything: Shell) -> None:
        found = listed(everything)
        for name in ("env/dicore-hello/countdown", "policy/dicore-plugins/dqn"):
            assert (found[name]["status"], found[name]["summary"] != "") == ("ok", True)


class TestResolve:
    def test_what_works_is_not_disturbed_by_what_does_not(self, everything: Shell) -> None:
        found = resolve(
            everything, "policy=dqn", "policy=fine", "env=countdown", "policy=acme-rl/tedq",
            "policy=Other_RL/TEDQ", "policy=dqn-rl/dqn", "learner_hook=cheer", "env=neat",
        )  # fmt: skip
        version = found[0].split()[2]
        assert found == [
            f"dqn dicore-plugins {version}",
            "fine typo-rl 1.0",
            "countdown dicore-hello 0.1.0",
            "acme-rl/tedq acme-rl 1.0",
            "other-rl/tedq other-rl 1.0",
            "dqn-rl/dqn dqn-rl 1.0",
            "cheer dicore-hello 0.1.0",
            "neat extra-rl 1.0",
        ]

    def test_each_failure_says_what_to_do(self, everything: Shell) -> None:
        words = ["policy=boom", "policy=tedq", "policy=old", "env=tennis", "policy=vmpo"]
        boom, tedq, old, tennis, vmpo = resolve(everything, *words)
        assert boom == (
            "PluginLoadError: policy.type: policy 'boom' (boom-rl 1.0) failed to import "
            "boom_rl.policy: RuntimeError: libfoo.so: undefined symbol"
        )
        assert tedq == (
            "PluginConflictError: policy.type: policy 'tedq' is provided by 2 packages; "
            "write one of: 'acme-rl/tedq', 'other-rl/tedq'"
        )
        assert old.startswith(
            "PluginVersionError: policy.type: policy 'old' (old-rl 1.0) is incompatible: "
            "needs dicore<0.1 (installed: "
        )
        assert tennis == (
            "MissingDependencyError: env.type: env 'tennis' (extra-rl 1.0) is unavailable: "
            "needs no-such-emulator>=2: pip install 'extra-rl[atari]'"
        )
        assert vmpo == (
            "UnknownComponentError: policy.type: no policy named 'vmpo'; polcy/vmpo (typo-rl 1.0) "
            "is broken: unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"
        )

    def test_a_denied_package_costs_nothing(self, everything: Shell) -> None:
        told = everything.folder / SLEEPY
        told.unlink(missing_ok=True)
        found = resolve(everything, "policy=sleepy", "policy=dqn", DICORE_PLUGINS_DENY="sleepy-rl")
        assert found[0] == (
            "RegistryError: policy.type: policy 'sleepy' (sleepy-rl 1.0) is disabled: "
            "switched off by DICORE_PLUGINS_DENY"
        )
        assert found[1].startswith("dqn dicore-plugins")
        assert not told.exists()

    def test_a_preference_of_the_project_settles_a_conflict(self, everything: Shell) -> None:
        (everything.folder / "pyproject.toml").write_text(
            '[tool.dicore.prefer]\n"policy/tedq" = "acme-rl"\n'
        )
        assert resolve(everything, "policy=tedq") == ["acme-rl/tedq acme-rl 1.0"]

    def test_no_plugins_leaves_ours(self, everything: Shell) -> None:
        done = everything.dicore("list", "--no-plugins", "--status", "ok", "--json")
        dists = {row["dist"] for row in json.loads(done.stdout)}
        assert dists == FIRST_PARTY


COMPILE = """
import json, sys
from dicore.config import compile_config, to_dict
made = compile_config(preset="cartpole_dqn", seed=0)
parts = {path: dict(facts) for path, facts in made.components.items()}
print(json.dumps([to_dict(made.cfg), parts], default=str))
"""


class TestConfig:
    def test_an_old_config_means_what_it_meant(self, everything: Shell) -> None:
        crowded = everything.run("-c", COMPILE)
        alone = everything.run("-c", COMPILE, DICORE_NO_PLUGINS="1")
        assert crowded.returncode == 0, crowded.stderr
        assert crowded.stdout == alone.stdout
        parts = json.loads(crowded.stdout)[1]
        assert parts["policy"]["dist"] == "dicore-plugins"
        assert parts["policy"]["source"].startswith("sha256:")

    def test_names_only_refuses_files(self, everything: Shell) -> None:
        (everything.folder / "mine.py").write_text("raise SystemExit('imported')\n")
        words = ["train", "-e", "cartpole", "-p", "./mine.py:Mine", "--names-only"]
        done = everything.dicore(*words)
        assert done.returncode == 2
        assert "is a code path" in done.stderr
        assert "imported" not in done.stderr


class TestDoctor:
    def test_it_finds_what_is_wrong(self, everything: Shell) -> None:
        done = everything.dicore("doctor", "--json")
        assert done.returncode == 1
        found = json.loads(done.stdout)
        told = {(each["level"], each["about"], each["text"]) for each in found["findings"]}
        for finding in (
            ("error", "polcy/vmpo (typo-rl 1.0)",
             "broken: unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"),
            ("error", "policy/tedq (acme-rl 1.0)",
             "conflict: also provided by other-rl; write 'acme-rl/tedq'"),
            ("error", "", "plugin 'misspelt' (hooks-rl 1.0): no hook 'dicore_run_startd'; "
             "did you mean 'dicore_run_started'?"),
            ("warning", "free-rl", "does not declare which versions of dicore it supports"),
            ("warning", "env/tennis (extra-rl 1.0)",
             "unavailable: needs no-such-emulator>=2: pip install 'extra-rl[atari]'"),
            ("warning", "hooks-rl", "has something to say"),
        ):  # fmt: skip
            assert finding in told
        assert found["errors"] == sum(each["level"] == "error" for each in found["findings"])
        assert not any("dicore-plugins" in each[1] for each in told)

    def test_imports_are_tried_each_package_by_itself(self, everything: Shell) -> None:
        others = [f"my-{kind.replace('_', '-')}" for kind in GENERATED if kind != "env"]
        heavy = ("plugins", "dist", "compat", "agents", "worlds", "contrib", "contrib-envs")
        deny = ",".join(["sleepy-rl", *(f"dicore-{name}" for name in heavy), *others])
        done = everything.dicore("doctor", "--import", DICORE_PLUGINS_DENY=deny)
        assert done.returncode == 1
        wrong = [line for line in done.stdout.splitlines() if "failed to import" in line]
        assert wrong == [
            "error: policy/boom (boom-rl 1.0): failed to import boom_rl.policy: "
            "RuntimeError: libfoo.so: undefined symbol"
        ]


class TestCore:
    """The core alone: what needs no other package works, the rest names the package."""

    def test_it_lists_and_shows(self, core: Shell) -> None:
        done = core.dicore("list")
        assert "'dicore-plugins' provides some: pip install dicore-plugins" in done.stdout
        assert core.dicore("show", "kind/env").returncode == 0
        done = core.dicore("train", "-e", "cartpole", "-p", "dqn")
        assert done.returncode == 2
        assert "provided by 'dicore-plugins': pip install dicore-plugins" in done.stderr

    def test_other_commands_name_their_package(self, core: Shell) -> None:
        code = (
            "import sys\nfrom dicore.cli import main\n"
            "assert {main([name, 'x', '--json']) for name in sys.argv[1:]} == {2}\n"
        )
        done = core.run("-c", code, *COMMANDS)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [
            f"error: '{name}' comes with {dist}: pip install {dist}"
            for name, dist in COMMANDS.items()
        ]

    def test_public_names_name_their_package(self, core: Shell) -> None:
        done = core.run("-c", "from dicore import Agent")
        assert done.stderr.endswith("'Agent' comes with dicore-tools: pip install dicore-tools\n")

    def test_a_foreign_env_and_policy_train(self, tabular: Shell) -> None:
        words = ("-e", "corridor", "-p", "q_table", "--exp-name", "run", "--seed", "1")
        learning = ("policy.learn.learning_rate=0.5",)
        done = tabular.dicore("train", *words, *learning)
        assert (done.returncode, done.stderr) == (0, "")
        told = [line for line in done.stdout.splitlines() if line.startswith("stop value")]
        assert told[0].startswith("stop value reached: best mean return 0.9")
        record = json.loads((tabular.folder / "run" / "run.json").read_text())
        assert {each["dist"] for each in record["components"].values()} == {"tabular-rl"}
        assert (tabular.folder / "run" / "ckpt" / "final" / "manifest.json").is_file()
        done = tabular.run("-c", "import torch")
        assert "No module named 'torch'" in done.stderr


class TestTools:
    """Core and tools without torch: what authors of environments need."""

    def test_a_config_is_checked_and_says_what_is_missing(self, tools: Shell) -> None:
        (tools.folder / "mine.yaml").write_text("env: {type: cartpole}\npolicy: {type: dqn}\n")
        done = tools.dicore("config", "check", "mine.yaml")
        assert done.returncode == 2
        assert "env.type: no env named 'cartpole'; it is provided by " in done.stderr
        assert (
            "policy.type: no policy named 'dqn'; it is provided by 'dicore-plugins'" in done.stderr
        )

    @pytest.mark.parametrize("what", ["my-env", "env/my_env"])
    def test_an_environment_is_checked(self, tools: Shell, what: str) -> None:
        done = tools.dicore("check", what)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].startswith("1 component: ")

    def test_other_commands_need_no_torch(self, tools: Shell) -> None:
        code = (
            "import importlib.util\nfrom dicore.cli import main\n"
            "assert importlib.util.find_spec('torch') is None\n"
            "for words in (['list'], ['doctor'], ['catalogue'], ['completion', 'bash'],\n"
            "              ['show', 'kind/env'], ['new', 'plugin', 'mazes', '--kind', 'env']):\n"
            "    assert main(words) == 0, words\n"
        )
        done = tools.run("-c", code)
        assert done.returncode == 0, done.stderr


class TestGenerated:
    def test_each_is_listed(self, everything: Shell) -> None:
        found = listed(everything)
        names = {f"{kind}/my-{kind.replace('_', '-')}/my_{kind}" for kind in GENERATED}
        names |= {f"env/by-{backend}/by_{backend}" for backend in BACKENDS}
        assert {name for name in names if found[name]["status"] == "ok"} == names
        assert all(found[name]["summary"] for name in names)

    def test_there_is_one_per_kind(self, everything: Shell) -> None:
        kinds = lines(everything.dicore("completion", "__names", "kind"))
        assert sorted(kinds) == sorted(GENERATED)

    def test_their_own_tests_pass(self, installed: InstalledWheels) -> None:
        hello = Path(__file__).parents[2] / "examples" / "dicore-hello" / "tests"
        projects = installed.generated.glob("my-*")  # the others differ in what builds them
        tested = ["."] if SOAK else some(sorted(each.name for each in projects), 15, "generated")
        done = installed.all.run(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"),
            *("-c", "/dev/null", "--rootdir", ".", *tested, str(hello)),
            cwd=installed.generated,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        found = installed.all.run(
            "-c",
            "from dicore.testing import checks_of\n"
            f"print(*{{c.component.entry.dist for n in {[*GENERATED]!r}"
            " for c in checks_of(dist='my-' + n.replace('_', '-'))})",
            cwd=installed.generated,
        )
        assert len(found.stdout.split()) == len(GENERATED)

    def test_an_env_and_a_policy_of_strangers_train_by_name(self, everything: Shell) -> None:
        words = ["-e", "my_env", "-p", "my_policy", "--max-train-iter", "5", "--exp-name", "run"]
        done = everything.dicore("train", *words, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        record = json.loads((everything.folder / "run" / "run.json").read_text())
        assert record["result"]["train_iter"] == 5
        dists = {path: each["dist"] for path, each in record["components"].items()}
        assert (dists["env"], dists["policy"]) == ("my-env", "my-policy")
        measured = everything.dicore("eval", "run", "-n", "2", "--json", timeout=200)
        assert len(json.loads(measured.stdout)["returns"]) == 2

    def test_check_does_the_same_from_the_shell(self, everything: Shell) -> None:
        done = everything.dicore("check", "by-uv")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("1 component: ")
        done = everything.dicore("check", "policy/acme-rl/tedq", "--json")
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert {each["component"] for each in found["checks"]} == {"policy/tedq"}
        assert found["failed"] > 0


class TestHooks:
    def test_a_plugin_takes_part_in_a_run(self, everything: Shell) -> None:
        words = ["-e", "countdown", "-p", "dqn", "--max-train-iter", "3", "--exp-name", "run"]
        done = everything.dicore("train", *words, timeout=200)
        assert done.returncode == 0, done.stderr
        notes = (everything.folder / "run" / "notes.txt").read_text().splitlines()
        updates = notes.pop(2)
        assert notes == ["started", "before", "after", "finished done"]
        assert updates.endswith(" updates")
        assert f"notes: {'run'}/notes.txt" in done.stdout
        assert "plugin 'misspelt' (hooks-rl 1.0): no hook 'dicore_run_startd'" in done.stderr
        run = json.loads((everything.folder / "run" / "run.json").read_text())
        assert run["components"]["env"]["dist"] == "dicore-hello"

    def test_a_plugin_that_does_not_work_is_an_error_if_wanted(self, everything: Shell) -> None:
        words = ["train", "-e", "countdown", "-p", "dqn", "--strict-plugins"]
        done = everything.dicore(*words)
        assert done.returncode == 3
        assert done.stderr.startswith("error: plugin 'misspelt' (hooks-rl 1.0): no hook ")
        assert not (everything.folder / "runs").exists()


class TestOwnCode:
    def test_a_cell_of_a_notebook(self, everything: Shell) -> None:
        cell = (
            "import dicore, gymnasium, dicore_hello.countdown as c\n"
            "@dicore.register('env', 'mine')\n"
            "class Mine(c.Countdown):\n    'My own.'\n"
        )
        code = (
            "import json\n"
            "from dicore.config import compile_config\n"
            f"space = {{'__name__': '__main__'}}\n"
            f"for _ in range(2):\n    exec(compile({cell!r}, '<ipython-input-1>', 'exec'), space)\n"
            "made = compile_config({'env': {'type': 'mine', 'start': 7, 'stop_value': 1.0,"
            " 'n_evaluator_episode': 1}, 'policy': {'type': 'dqn'}})\n"
            "print(made.env.type, made.env.start, made.components['env']['dist'])\n"
            "from dicore_registry import default\n"
            "print(default().find('env', 'mine').file)\n"
        )
        done = everything.run("-c", code)
        assert done.stdout == "mine 7 local\n<ipython-input-1>:2\n", done.stderr

    def test_a_single_file_is_trained(self, everything: Shell) -> None:
        (everything.folder / "mine.py").write_text(
            "import dicore\nfrom dicore_hello.countdown import Countdown\n\n\n"
            "@dicore.register('env', 'mine')\nclass Mine(Countdown):\n    '''My own.'''\n"
        )
        for number, words in enumerate(
            [["-e", "./mine.py:Mine"], ["-e", "mine", "--plugin", "mine.py"]]
        ):
            done = everything.dicore(
                *("train", *words, "-p", "dqn", "--max-train-iter", "3"),
                *("--exp-name", f"run{number}", "env.start=3"),
                timeout=200,
            )
            assert done.returncode == 0, done.stderr
            config = json.loads((everything.folder / f"run{number}" / "config.json").read_text())
            assert json.dumps(config).count('"start": 3') == 1
