"""`dicore check`: the conformance suites from the shell."""

from __future__ import annotations

import json
import re
import runpy
import textwrap
import warnings
from pathlib import Path

import pytest

from dicore.cli import main
from dicore.testing import isolated_registry
from tests.registry.environment import MAIN, hermetic
from tests.registry.world import World

ENV = '''
    import gymnasium, numpy as np, pathlib

    class Good(gymnasium.Env):
        """An environment that keeps its contract."""

        def __init__(self, length: int = 3) -> None:
            self.length = length
            self.observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
            self.action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = int(self.np_random.integers(50))
            self.left = self.length
            pathlib.Path("litter").touch()
            print("chatter")
            return np.array([self.at], np.float32), {}

        def step(self, action):
            self.left -= 1
            self.at += int(action)
            return np.array([self.at], np.float32), 1.0, self.left <= 0, False, {}

    class Deaf(Good):
        """One that does not listen to its seed."""

        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=None)
            return obs, info
    '''


@pytest.fixture
def world(world: World) -> World:
    groups = {"dicore.env": {"good": "acme_rl:Good"}}
    world.add("acme-rl", groups, modules={"acme_rl.py": ENV})
    world.add("deaf-rl", {"dicore.env": {"deaf": "acme_rl:Deaf"}})
    return world


def test_a_good_one_passes_and_leaves_nothing(world: World) -> None:
    before = {path.name for path in world.folder.iterdir()}
    done = world.dicore("check", "acme-rl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1 component: ")
    assert done.stdout.endswith(" skipped\n")
    assert {path.name for path in world.folder.iterdir()} - before <= {"__pycache__"}


@pytest.mark.parametrize(
    "words", [("check", "acme-rl"), ("doctor", "--import"), ("list", "env", "--load")], ids=str
)
def test_no_module_of_the_working_folder_hides_another(
    words: tuple[str, ...], world: World, tmp_path: Path
) -> None:
    """RELIABILITY E06: what lies there is not imported because of its name."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("numpy", "json", "dicore_tools", "gymnasium", "acme_rl"):
        (here / f"{name}.py").write_text(f"raise SystemExit('the {name} of the working folder')")
    done = hermetic().run("-P", "-c", MAIN, *words, cwd=here, **world.environ())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "working folder" not in done.stdout + done.stderr


def test_an_env_without_spaces_fails_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bare.py").write_text("import gymnasium\nclass Bare(gymnasium.Env):\n    pass\n")
    assert main(["check", "bare.py:Bare"]) == 1
    said = capsys.readouterr().out
    assert said.count("failed  ") == 1
    assert "bare.py:Bare:spaces: it has no observation_space" in said
    assert "11 skipped, 1 failed" in said


def test_a_bad_one_fails_by_the_name_of_its_check(world: World) -> None:
    done = world.dicore("check", "env/deaf")
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert failed
    assert all(line.startswith("failed  env/deaf:") for line in failed)
    assert any("seed" in line for line in failed)
    assert "Traceback" in world.dicore("check", "env/deaf", "-v").stdout


def test_an_environment_is_described_and_its_faults_have_hints(world: World) -> None:
    done = world.dicore("check", "env/deaf")
    first, *lines = done.stdout.splitlines()
    assert first.startswith("env/deaf: gymnasium ")
    assert "observations Box(0.0, 100.0, (1,), float32), actions Discrete(2)" in first
    failed = [number for number, line in enumerate(lines) if line.startswith("failed")]
    assert all(lines[number + 1].startswith("  hint: ") for number in failed)
    assert "ok      env/deaf:deepcopy: Deep copies of observations are equal" in done.stdout


OLD = """
    import gymnasium, numpy as np

    class Old:
        'Keeps count, as a class of gym 0.21.'

        def __init__(self) -> None:
            self.observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
            self.action_space = gymnasium.spaces.Discrete(2)
            self.count = np.zeros(1, np.float32)

        def seed(self, seed=None):
            return [seed]

        def reset(self):
            self.count = self.count * 0
            return self.count.copy()

        def step(self, action):
            self.count = self.count + np.float32(action)
            return self.count.copy(), 1.0, bool(self.count[0] >= 5), {}
    """


@pytest.mark.parametrize("broken", [False, True])
def test_a_class_of_a_file(
    broken: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the API of gym 0.21, which managers convert too."""
    text = textwrap.dedent(OLD)
    (tmp_path / "own.py").write_text(text.replace("self.count.copy()", "self.count") + (
        "\n    def close(self): self.window.close()\n" if broken else ""))  # fmt: skip
    assert main(["check", f"{tmp_path}/own.py:Old"]) == broken
    out = capsys.readouterr().out
    assert "own.py:Old: no package, known by its methods: adapted to gymnasium's API;" in out
    assert ("failed" in out) == broken
    assert (":close_twice: the first close of an environment that was never reset" in out) == broken


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("gymnasium:FrozenLake-v1", "gymnasium:FrozenLake-v1: gymnasium "),
        ("gym:FrozenLake-v1", "gym:FrozenLake-v1: gym 0.26.2, adapted to gymnasium's API; "),
        ("pettingzoo:classic.rps_v2", ", actions MultiDiscrete([3 3]), rewards [2]\n"),
    ],
)
def test_environments_by_id(env: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(env.partition(":")[0])
    assert main(["check", env]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert out.endswith("1 component: 12 ok\n")


def test_a_reset_that_takes_no_seed_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "unseeded.py"
    file.write_text(
        "import gymnasium, numpy as np\n"
        "class Unseeded(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self):\n"
        "        return np.zeros(3, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.zeros(3, np.float32), 0.0, True, False, {}\n"
    )
    assert main(["check", f"{file}:Unseeded"]) == 0
    assert "advice: reset takes no seed" in capsys.readouterr().out


def test_an_unknown_id_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gymnasium:FrozenLak-v1"]) == 2
    told = capsys.readouterr()
    assert "did you mean 'FrozenLake-v1'?" in told.err
    assert told.err.count("FrozenLak-v1") == 1
    assert told.out == ""


@pytest.mark.parametrize("what", ["FlappyBird-v0", "walk.py"])
def test_what_is_no_name_of_a_package_is_not_looked_up_as_one(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walk.py").write_text("class Walk: pass\nclass Run: pass\n")
    assert main(["check", what]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: env.type: no env ")
    assert "package '" not in said
    assert ("write walk.py:Walk or walk.py:Run" in said) == (what == "walk.py")


@pytest.mark.filterwarnings("default")
def test_a_warning_of_an_environment_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dicore_contrib_envs.gymnasium_ids").tell_of_later.cache_clear()
    assert main(["check", "CartPole-v0"]) == 0
    assert capsys.readouterr().err.count("CartPole-v0 is out of date") == 1


def test_one_that_does_not_load_says_so_once(world: World) -> None:
    world.add("sick-rl", {"dicore.env": {"sick": "sick_rl:Sick"}}, modules={"sick_rl.py": "1 / 0"})
    done = world.dicore("check", "env/sick")
    assert done.returncode == 1
    first, last = done.stdout.splitlines()
    assert first.startswith("failed  env/sick:loads: ")
    assert "division by zero" in first
    assert last.endswith("skipped, 1 failed")


RAW = """
    from dicore import register
    from dicore.config import CollectConfig, PolicyConfig, frozen, option, section
    from dicore_plugins.policies import Policy

    @frozen(kw_only=True)
    class Collect(CollectConfig):
        n_sample: int | None = option(8, "samples per collect")

    @frozen(kw_only=True)
    class Config(PolicyConfig):
        on_policy: bool = option(False, "learns from a buffer")
        collect: Collect = section(Collect)

        def bind(self, spec):
            return {"actions": spec.action.n}

    @register("policy", "raw")
    class Raw(Policy):
        config_class = Config
    """


def test_a_policy_that_does_not_refuse_spaces_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.py").write_text(textwrap.dedent(RAW))
    with isolated_registry("dicore", "dicore-tools", "dicore-plugins"):
        runpy.run_path(str(tmp_path / "raw.py"))
        assert main(["check", "policy/raw"]) == 1
    out = capsys.readouterr().out
    reason = "raised AttributeError: 'Box' object has no attribute 'n'; a policy that cannot act"
    assert out.count(reason) == 2
    assert re.search(r"^failed  policy/raw: \d+ more tests fail so .*: bind of Box", out, re.M)


def test_a_policy_of_a_file_is_checked_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.py").write_text(textwrap.dedent(RAW))
    with isolated_registry("dicore", "dicore-tools", "dicore-plugins"):
        assert main(["check", f"{tmp_path}/raw.py:Config"]) == 2
    assert "dicore --plugin FILE check KIND/NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["size=3"], "size: a check takes options of the environment alone, as env.a=b"),
        (["env.sze=3"], "has no option 'sze'; did you mean 'size'?"),
        (["size"], "size: expected PATH=VALUE"),
        ([], "env.size: must be given"),
    ],
)
def test_options_of_an_environment(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sized.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Sized(CartPoleEnv):\n"
        "    def __init__(self, size: int) -> None:\n"
        "        super().__init__()\n"
        "        self.length = size\n"
    )
    file = f"{tmp_path}/sized.py"
    assert main(["check", file, *words]) == 2
    assert said in capsys.readouterr().err
    if not words:
        assert main(["check", file, "env.size=2"]) == 0
    assert main(["check", "env/cartpole", "env.a=1"]) == 2
    assert "only environments by id or file" in capsys.readouterr().err


def test_an_error_of_the_environment_has_its_place_and_no_hint_about_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Broken(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        raise ValueError('engine off')\n"
    )
    assert main(["check", f"{tmp_path}/broken.py"]) == 1
    said = capsys.readouterr().out
    assert f"ValueError: engine off ({tmp_path}/broken.py:4, in step)" in said
    assert "hint: return observation" not in said


def test_json(world: World) -> None:
    found = json.loads(world.dicore("check", "Acme_RL", "--json").stdout)
    assert found["failed"] == 0
    assert {each["component"] for each in found["checks"]} == {"env/good"}
    assert {each["outcome"] for each in found["checks"]} == {"ok", "skipped"}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "acne-rl",
            "error: env.type: no env named 'acne-rl'; installed: deaf, good (dicore list env);"
            " tried in order: a registered name (dicore list env)\n"
            "error: no installed package 'acne-rl' provides components; did you mean 'acme-rl'?\n",
        ),
        ("env/gooood", "error: no env named 'gooood'; did you mean 'good'?\n"),
    ],
)
def test_mistakes_end_with_2(world: World, what: str, said: str) -> None:
    done = world.dicore("check", what)
    assert (done.returncode, done.stderr) == (2, said)


PARTS = """
    'Parts of every kind.'
    import sys
    from dicore.hookspecs import hookimpl
    from dicore_registry import Kind, renamed
    from dicore_registry import renamed as moved
    import gymnasium

    @hookimpl
    def dicore_report_header(run): return []

    ROLE = Kind("it", "does a part", "odd_rl:Missing")
    OLD = moved("good", since="0.3")
    LOST = moved("nothing", since="0.3")

    class Leaving(gymnasium.Env):
        '''Ends the process.'''

        def __init__(self) -> None:
            sys.exit(0)
    """


@pytest.mark.parametrize(
    ("group", "target", "failed"),
    [
        ("plugin", "odd_rl", ""),
        (
            "plugin",
            "odd_rl:Leaving",
            "loads: PluginLoadError: plugin 'it' (odd-rl 1.0): it has no hooks",
        ),
        ("kind", "odd_rl:ROLE", "kind_is_complete: AttributeError: "),
        ("env", "odd_rl:OLD", ""),
        ("env", "odd_rl:LOST", "loads: UnknownComponentError: no env named 'nothing'; "),
        ("env", "odd_rl:sys", "loads: odd_rl:sys is of type module, not a class or function"),
        ("api", "odd_rl:dicore_report_header", "has_a_summary: "),
        ("env", "odd_rl:Leaving", "spaces: SystemExit: 0"),
    ],
)
def test_all_that_a_package_declares_is_checked(
    world: World, group: str, target: str, failed: str
) -> None:
    world.add("odd-rl", {f"dicore.{group}": {"it": target}}, modules={"odd_rl.py": PARTS})
    done = world.dicore("check", "odd-rl", "--json")
    found = json.loads(done.stdout)
    bad = [each for each in found["checks"] if each["outcome"] == "failed"]
    said = [f"{each['check']}: {each['reason']}" for each in bad]
    assert done.returncode == bool(failed)
    assert not said if not failed else any(text.startswith(failed) for text in said), said
    loads = failed.startswith("loads")
    assert not loads or len(said) == 1


def test_broken_entries_are_no_success(world: World) -> None:
    world.add("typo-rl", {"dicore.polcy": {"x": "a:B"}})
    done = world.dicore("check", "typo-rl")
    assert done.returncode == 2
    assert "typo-rl has broken entries: polcy/x: unknown kind 'dicore.polcy'" in done.stderr


def test_a_kind_of_a_package_that_is_missing_is_no_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_tools.commands.check.known", {"sorter": {"x": "acme"}}.get)
    assert main(["check", "sorter/x"]) == 2
    assert "unknown kind 'sorter'" in capsys.readouterr().err


def test_required_options_that_follow_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "env/recorded", "-v"]) == 0
    assert "it has required options: path, format" in capsys.readouterr().out


def test_a_check_that_runs_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dicore_tools.commands import check

    monkeypatch.setattr(check, "_PATIENCE", 0.02)
    wait = "waits.pop().wait(0.03) if waits else None"  # in the first steps and checks
    body = textwrap.dedent(ENV).replace("self.left -= 1", f"{wait}\n        self.left -= 1")
    (tmp_path / "slow.py").write_text(f"import threading\nwaits = [threading.Event()] * 60\n{body}")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["check", "./slow.py:Good"])
    told = capsys.readouterr().err
    assert re.search(r"\.py:\d+: the check '[a-z_]+' of ./slow.py:Good is still running", told)
