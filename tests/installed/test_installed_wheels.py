"""Wheels that were really built and installed: ours, good and bad ones of strangers, generated."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from dicore_registry.known import known
from tests.installed.conftest import GENERATED, InstalledWheels
from tests.installed.wheels import BACKENDS

pytestmark = pytest.mark.installed

TOOLS = sorted(known("command"))
"""Commands that come with dicore-tools."""

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


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Returns an empty folder to work in."""
    return tmp_path


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def resolve(installed: InstalledWheels, here: Path, *words: str, **environ: str) -> list[str]:
    return lines(installed.all.run("-c", RESOLVE, *words, cwd=here, **environ))


def listed(
    installed: InstalledWheels, here: Path, *words: str, **environ: str
) -> dict[str, dict[str, Any]]:
    done = installed.all.dicore("list", "--json", *words, cwd=here, **environ)
    assert done.returncode == 0, done.stderr
    return {f"{row['kind']}/{row['qualified']}": row for row in json.loads(done.stdout)}


class TestList:
    def test_every_package_is_seen_with_its_status(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        found = listed(installed, here)
        bad = {
            name: (row["status"], row["reason"]) for name, row in found.items()
            if row["status"] != "ok"
        }  # fmt: skip
        assert bad == {
            "env/extra-rl/newer": (
                "unavailable",
                bad["env/extra-rl/newer"][1],
            ),
            "env/extra-rl/pong": (
                "unavailable",
                "needs no-such-emulator>=2: pip install 'extra-rl[atari]'",
            ),
            "polcy/typo-rl/ppo": (
                "broken",
                "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?",
            ),
            "policy/old-rl/old": (
                "incompatible",
                f"needs dicore<0.1 (installed: {found['policy/dicore-plugins/dqn']['version']})",
            ),
            "policy/acme-rl/sac": (
                "conflict",
                "also provided by other-rl; write 'acme-rl/sac'",
            ),
            "policy/other-rl/sac": (
                "conflict",
                "also provided by acme-rl; write 'other-rl/sac'",
            ),
            "policy/dqn-rl/dqn": (
                "shadowed",
                "dicore-plugins has priority; write 'dqn-rl/dqn'",
            ),
        }
        assert bad["env/extra-rl/newer"][1].startswith("needs attrs>=9999 (installed: ")
        assert found["env/extra-rl/neat"]["status"] == "ok"  # its extra is installed

    def test_one_that_cannot_be_imported_has_its_summary(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        row = listed(installed, here, "policy")["policy/boom-rl/boom"]
        assert (row["status"], row["version"]) == ("ok", "1.0")
        assert row["summary"] == "The policy of boom-rl."
        row = listed(installed, here, "policy", "--load", "--dist", "boom-rl")[
            "policy/boom-rl/boom"
        ]
        assert row["status"] == "broken"
        assert row["reason"] == (
            "policy 'boom' (boom-rl 1.0) failed to import boom_rl.policy: "
            "RuntimeError: libfoo.so: undefined symbol"
        )

    def test_ours_are_listed_as_theirs_are(self, installed: InstalledWheels, here: Path) -> None:
        found = listed(installed, here)
        for name in ("env/dicore-hello/countdown", "policy/dicore-plugins/dqn"):
            assert (found[name]["status"], found[name]["summary"] != "") == ("ok", True)


class TestResolve:
    def test_what_works_is_not_disturbed_by_what_does_not(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        found = resolve(
            installed, here, "policy=dqn", "policy=fine", "env=countdown", "policy=acme-rl/sac",
            "policy=Other_RL/SAC", "policy=dqn-rl/dqn", "learner_hook=cheer", "env=neat",
        )  # fmt: skip
        version = found[0].split()[2]
        assert found == [
            f"dqn dicore-plugins {version}",
            "fine typo-rl 1.0",
            "countdown dicore-hello 0.1.0",
            "acme-rl/sac acme-rl 1.0",
            "other-rl/sac other-rl 1.0",
            "dqn-rl/dqn dqn-rl 1.0",
            "cheer dicore-hello 0.1.0",
            "neat extra-rl 1.0",
        ]

    def test_each_failure_says_what_to_do(self, installed: InstalledWheels, here: Path) -> None:
        words = ["policy=boom", "policy=sac", "policy=old", "env=pong", "policy=ppo"]
        boom, sac, old, pong, ppo = resolve(installed, here, *words)
        assert boom == (
            "PluginLoadError: policy.type: policy 'boom' (boom-rl 1.0) failed to import "
            "boom_rl.policy: RuntimeError: libfoo.so: undefined symbol"
        )
        assert sac == (
            "PluginConflictError: policy.type: policy 'sac' is provided by 2 packages; "
            "write one of: 'acme-rl/sac', 'other-rl/sac'"
        )
        assert old.startswith(
            "PluginVersionError: policy.type: policy 'old' (old-rl 1.0) is incompatible: "
            "needs dicore<0.1 (installed: "
        )
        assert pong == (
            "MissingDependencyError: env.type: env 'pong' (extra-rl 1.0) is unavailable: "
            "needs no-such-emulator>=2: pip install 'extra-rl[atari]'"
        )
        assert ppo == (
            "UnknownComponentError: policy.type: no policy named 'ppo'; polcy/ppo (typo-rl 1.0) "
            "is broken: unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"
        )

    def test_a_denied_package_costs_nothing(self, installed: InstalledWheels, here: Path) -> None:
        before = time.perf_counter()
        found = resolve(
            installed, here, "policy=sleepy", "policy=dqn", DICORE_PLUGINS_DENY="sleepy-rl"
        )
        took = time.perf_counter() - before
        assert found[0] == (
            "RegistryError: policy.type: policy 'sleepy' (sleepy-rl 1.0) is disabled: "
            "switched off by DICORE_PLUGINS_DENY"
        )
        assert found[1].startswith("dqn dicore-plugins")
        assert took < 5  # its import sleeps so long

    def test_a_preference_of_the_project_settles_a_conflict(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        (here / "pyproject.toml").write_text('[tool.dicore.prefer]\n"policy/sac" = "acme-rl"\n')
        assert resolve(installed, here, "policy=sac") == ["acme-rl/sac acme-rl 1.0"]

    def test_no_plugins_leaves_ours(self, installed: InstalledWheels, here: Path) -> None:
        done = installed.all.dicore("list", "--no-plugins", "--status", "ok", "--json", cwd=here)
        dists = {row["dist"] for row in json.loads(done.stdout)}
        assert dists == {"dicore", "dicore-plugins", "dicore-tools", "dicore-contrib-envs"}


COMPILE = """
import json, sys
from dicore.config import compile_config, to_dict
made = compile_config(preset="cartpole_dqn", seed=0)
parts = {path: dict(facts) for path, facts in made.components.items()}
print(json.dumps([to_dict(made.cfg), parts], default=str))
"""


class TestConfig:
    def test_an_old_config_means_what_it_meant(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        crowded = installed.all.run("-c", COMPILE, cwd=here)
        alone = installed.all.run("-c", COMPILE, cwd=here, DICORE_NO_PLUGINS="1")
        assert crowded.returncode == 0, crowded.stderr
        assert crowded.stdout == alone.stdout
        parts = json.loads(crowded.stdout)[1]
        assert parts["policy"]["dist"] == "dicore-plugins"
        assert parts["policy"]["source"].startswith("sha256:")

    def test_names_only_refuses_files(self, installed: InstalledWheels, here: Path) -> None:
        (here / "mine.py").write_text("raise SystemExit('imported')\n")
        words = ["train", "-e", "cartpole", "-p", "./mine.py:Mine", "--names-only"]
        done = installed.all.dicore(*words, cwd=here)
        assert done.returncode == 2
        assert "is a code path" in done.stderr
        assert "imported" not in done.stderr


class TestDoctor:
    def test_it_finds_what_is_wrong(self, installed: InstalledWheels, here: Path) -> None:
        done = installed.all.dicore("doctor", "--json", cwd=here)
        assert done.returncode == 1
        found = json.loads(done.stdout)
        told = {(each["level"], each["about"], each["text"]) for each in found["findings"]}
        for finding in (
            ("error", "polcy/ppo (typo-rl 1.0)",
             "broken: unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"),
            ("error", "policy/sac (acme-rl 1.0)",
             "conflict: also provided by other-rl; write 'acme-rl/sac'"),
            ("error", "", "plugin 'misspelt' (hooks-rl 1.0): no hook 'dicore_run_startd'; "
             "did you mean 'dicore_run_started'?"),
            ("warning", "free-rl", "does not declare which versions of dicore it supports"),
            ("warning", "env/pong (extra-rl 1.0)",
             "unavailable: needs no-such-emulator>=2: pip install 'extra-rl[atari]'"),
            ("warning", "hooks-rl", "has something to say"),
        ):  # fmt: skip
            assert finding in told
        assert found["errors"] == sum(each["level"] == "error" for each in found["findings"])
        assert not any("dicore-plugins" in each[1] for each in told)

    def test_imports_are_tried_each_package_by_itself(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        deny = "sleepy-rl,dicore-plugins,dicore-contrib-envs"
        done = installed.all.dicore("doctor", "--import", cwd=here, DICORE_PLUGINS_DENY=deny)
        assert done.returncode == 1
        wrong = [line for line in done.stdout.splitlines() if "failed to import" in line]
        assert wrong == [
            "error: policy/boom (boom-rl 1.0): failed to import boom_rl.policy: "
            "RuntimeError: libfoo.so: undefined symbol"
        ]


class TestCore:
    """The core alone: what needs no other package works, the rest names the package."""

    def test_it_lists_and_shows(self, installed: InstalledWheels, here: Path) -> None:
        done = installed.core.dicore("list", cwd=here)
        assert "'dicore-plugins' provides some: pip install dicore-plugins" in done.stdout
        assert installed.core.dicore("show", "kind/env", cwd=here).returncode == 0
        done = installed.core.dicore("train", "-e", "cartpole", "-p", "dqn", cwd=here)
        assert done.returncode == 2
        assert "provided by 'dicore-plugins': pip install dicore-plugins" in done.stderr

    def test_other_commands_name_their_package(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        code = (
            "import sys\nfrom dicore.cli import main\n"
            "assert {main([name, 'x', '--json']) for name in sys.argv[1:]} == {2}\n"
        )
        done = installed.core.run("-c", code, *TOOLS, cwd=here)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [
            f"error: '{name}' comes with dicore-tools: pip install dicore-tools" for name in TOOLS
        ]

    def test_public_names_name_their_package(self, installed: InstalledWheels, here: Path) -> None:
        done = installed.core.run("-c", "from dicore import Agent", cwd=here)
        assert done.stderr.endswith("'Agent' comes with dicore-tools: pip install dicore-tools\n")

    def test_a_foreign_env_and_policy_train(self, installed: InstalledWheels, here: Path) -> None:
        words = ("-e", "corridor", "-p", "q_table", "--exp-name", "run", "--seed", "1")
        learning = ("policy.learn.learning_rate=0.5",)
        done = installed.tabular.dicore("train", *words, *learning, cwd=here)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1].startswith("stop value reached: best mean return 0.9")
        record = json.loads((here / "run" / "run.json").read_text())
        assert {each["dist"] for each in record["components"].values()} == {"tabular-rl"}
        assert (here / "run" / "ckpt" / "final" / "manifest.json").is_file()
        done = installed.tabular.run("-c", "import torch", cwd=here)
        assert "No module named 'torch'" in done.stderr


class TestTools:
    """Core and tools without torch: what authors of environments need."""

    def test_a_config_is_checked_and_says_what_is_missing(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        (here / "mine.yaml").write_text("env: {type: cartpole}\npolicy: {type: dqn}\n")
        done = installed.tools.dicore("config", "check", "mine.yaml", cwd=here)
        assert done.returncode == 2
        assert "env.type: no env named 'cartpole'; it is provided by " in done.stderr
        assert (
            "policy.type: no policy named 'dqn'; it is provided by 'dicore-plugins'" in done.stderr
        )

    @pytest.mark.parametrize("what", ["my-env", "env/my_env"])
    def test_an_environment_is_checked(
        self, installed: InstalledWheels, here: Path, what: str
    ) -> None:
        done = installed.tools.dicore("check", what, cwd=here)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("1 component: ")

    def test_other_commands_need_no_torch(self, installed: InstalledWheels, here: Path) -> None:
        code = (
            "import importlib.util\nfrom dicore.cli import main\n"
            "assert importlib.util.find_spec('torch') is None\n"
            "for words in (['list'], ['doctor'], ['catalogue'], ['completion', 'bash'],\n"
            "              ['show', 'kind/env'], ['new', 'plugin', 'mazes', '--kind', 'env']):\n"
            "    assert main(words) == 0, words\n"
        )
        done = installed.tools.run("-c", code, cwd=here)
        assert done.returncode == 0, done.stderr


class TestGenerated:
    def test_each_is_listed(self, installed: InstalledWheels, here: Path) -> None:
        found = listed(installed, here)
        names = {f"{kind}/my-{kind.replace('_', '-')}/my_{kind}" for kind in GENERATED}
        names |= {f"env/by-{backend}/by_{backend}" for backend in BACKENDS}
        assert {name for name in names if found[name]["status"] == "ok"} == names
        assert all(found[name]["summary"] for name in names)

    def test_there_is_one_per_kind(self, installed: InstalledWheels, here: Path) -> None:
        kinds = lines(installed.all.dicore("completion", "__names", "kind", cwd=here))
        assert sorted(kinds) == sorted(GENERATED)

    def test_their_own_tests_pass(self, installed: InstalledWheels) -> None:
        hello = Path(__file__).parents[2] / "examples" / "dicore-hello" / "tests"
        done = installed.all.run(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"),
            *("-c", "/dev/null", "--rootdir", ".", ".", str(hello)),
            cwd=installed.generated,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        tested = installed.all.run(
            "-c",
            "from dicore.testing import checks_of\n"
            f"print(*{{c.component.entry.dist for n in {[*GENERATED]!r}"
            " for c in checks_of(dist='my-' + n.replace('_', '-'))})",
            cwd=installed.generated,
        )
        assert len(tested.stdout.split()) == len(GENERATED)

    def test_an_env_and_a_policy_of_strangers_train_by_name(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        words = ["-e", "my_env", "-p", "my_policy", "--max-train-iter", "5", "--exp-name", "run"]
        done = installed.all.dicore("train", *words, cwd=here, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        record = json.loads((here / "run" / "run.json").read_text())
        assert record["result"]["train_iter"] == 5
        dists = {path: each["dist"] for path, each in record["components"].items()}
        assert (dists["env"], dists["policy"]) == ("my-env", "my-policy")
        measured = installed.all.dicore("eval", "run", "-n", "2", "--json", cwd=here, timeout=200)
        assert len(json.loads(measured.stdout)["returns"]) == 2

    def test_check_does_the_same_from_the_shell(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        done = installed.all.dicore("check", "by-uv", cwd=here)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("1 component: ")
        done = installed.all.dicore("check", "policy/acme-rl/sac", "--json", cwd=here)
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert {each["component"] for each in found["checks"]} == {"policy/sac"}
        assert found["failed"] > 0


class TestHooks:
    def test_a_plugin_takes_part_in_a_run(self, installed: InstalledWheels, here: Path) -> None:
        words = ["-e", "countdown", "-p", "dqn", "--max-train-iter", "3", "--exp-name", "run"]
        done = installed.all.dicore("train", *words, cwd=here, timeout=200)
        assert done.returncode == 0, done.stderr
        notes = (here / "run" / "notes.txt").read_text().splitlines()
        updates = notes.pop(2)
        assert notes == ["started", "before", "after", "finished done"]
        assert updates.endswith(" updates")
        assert f"notes: {'run'}/notes.txt" in done.stdout
        assert "plugin 'misspelt' (hooks-rl 1.0): no hook 'dicore_run_startd'" in done.stderr
        run = json.loads((here / "run" / "run.json").read_text())
        assert run["components"]["env"]["dist"] == "dicore-hello"

    def test_a_plugin_that_does_not_work_is_an_error_if_wanted(
        self, installed: InstalledWheels, here: Path
    ) -> None:
        words = ["train", "-e", "countdown", "-p", "dqn", "--strict-plugins"]
        done = installed.all.dicore(*words, cwd=here)
        assert done.returncode == 3
        assert done.stderr.startswith("error: plugin 'misspelt' (hooks-rl 1.0): no hook ")
        assert not (here / "runs").exists()


class TestOwnCode:
    def test_a_cell_of_a_notebook(self, installed: InstalledWheels, here: Path) -> None:
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
        done = installed.all.run("-c", code, cwd=here)
        assert done.stdout == "mine 7 local\n<ipython-input-1>:2\n", done.stderr

    def test_a_single_file_is_trained(self, installed: InstalledWheels, here: Path) -> None:
        (here / "mine.py").write_text(
            "import dicore\nfrom dicore_hello.countdown import Countdown\n\n\n"
            "@dicore.register('env', 'mine')\nclass Mine(Countdown):\n    '''My own.'''\n"
        )
        for number, words in enumerate(
            [["-e", "./mine.py:Mine"], ["-e", "mine", "--plugin", "mine.py"]]
        ):
            done = installed.all.dicore(
                *("train", *words, "-p", "dqn", "--max-train-iter", "3"),
                *("--exp-name", f"run{number}", "env.start=3"),
                cwd=here,
                timeout=200,
            )
            assert done.returncode == 0, done.stderr
            config = json.loads((here / f"run{number}" / "config.json").read_text())
            assert json.dumps(config).count('"start": 3') == 1
