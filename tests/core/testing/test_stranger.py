"""The kit in a stranger's hands: a package of one file, its own test run, and no torch anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests import warm

HELLO = '''
"""A countdown: the smallest environment that can be learned."""
import gymnasium
import numpy as np


class Countdown(gymnasium.Env):
    """Count down to zero; action 1 decrements, action 0 waits."""

    def __init__(self, start: int = 5, penalty: float = 0.01) -> None:
        self.start, self.penalty = start, penalty
        self.observation_space = gymnasium.spaces.Box(0, start, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.start
        return np.array([self.left], np.float32), {}

    def step(self, action):
        self.left = max(0, self.left - int(action))
        return np.array([self.left], np.float32), -self.penalty, self.left <= 0, False, {}


class Doubled(gymnasium.RewardWrapper):
    """Pays twice."""

    def __init__(self, env, factor: float = 2.0) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * reward
'''

BAD = '''
"""The same, each with one fault."""
import numpy as np
from dicore_hello import Countdown, Doubled


class Shared(Countdown):
    """Hands out one array again and again."""

    def reset(self, **kwargs):
        self.array = super().reset(**kwargs)[0]
        return self.array, {}

    def step(self, action):
        obs, *rest = super().step(action)
        self.array[:] = obs
        return self.array, *rest


class Deaf(Countdown):
    """Draws its start from a generator that no seed reaches."""

    rng = np.random.default_rng()

    def reset(self, **kwargs):
        super().reset(**kwargs)
        self.left = self.rng.uniform(1, 5)
        return np.array([self.left], np.float32), {}


class Untyped(Countdown):
    """Has an option of no type."""

    def __init__(self, start: int = 5, penalty=0.01) -> None:
        super().__init__(start, penalty)


class Endless(Doubled):
    """Hides the end of an episode."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, False, truncated, info
'''

HEAVY = '''
import torch
from dicore.config import EnvConfig, frozen


@frozen(kw_only=True)
class Heavy(EnvConfig):
    """Imports torch to say what it takes."""
'''

ENTRIES = {
    "dicore_hello": """
[dicore.env]
countdown = dicore_hello:Countdown
[dicore.env_wrapper]
doubled = dicore_hello:Doubled
""",
    "dicore_bad": """
[dicore.env]
shared = dicore_bad:Shared
deaf = dicore_bad:Deaf
untyped = dicore_bad:Untyped
heavy = dicore_heavy:Heavy
[dicore.env_wrapper]
endless = dicore_bad:Endless
""",
}

TEST = """
import sys
from dicore.testing import parametrize

EXPECTED = {"env/deaf:seeds": "no seed reaches it"}

@parametrize(dist="dicore-hello")
def test_component(check):
    check()

@parametrize(dist="dicore-bad", expected_failures=EXPECTED)
def test_fault(check):
    check()

def test_without_torch():
    assert "torch" not in sys.modules
"""

CONFTEST = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("there is no torch here", name="torch")

sys.meta_path.insert(0, NoTorch())
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the stranger's tests, run as the stranger would."""
    place = tmp_path_factory.mktemp("stranger")
    files = {"dicore_hello": HELLO, "dicore_bad": BAD, "dicore_heavy": HEAVY,
             "conftest": CONFTEST, "test_hello": TEST}  # fmt: skip
    for name, text in files.items():
        (place / f"{name}.py").write_text(text)
    for name, entries in ENTRIES.items():
        info = place / f"{name}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.1.0\n"
            "Requires-Dist: dicore>=0.1,<0.2\n"
        )
        (info / "entry_points.txt").write_text(entries)
    words = ["-q", "-rA", "--tb=no", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    with warm.cold():  # it asserts that nothing imports torch
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "test_hello.py"],
            cwd=place, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": str(place), "COLUMNS": "400"},
        )  # fmt: skip
    return done.stdout


def outcomes(told: str, word: str) -> set[str]:
    return set(re.findall(rf"^{word} test_hello\.py::(\S+)", told, re.MULTILINE))


def test_a_good_env_and_wrapper_pass(told: str) -> None:
    passed = outcomes(told, "PASSED")
    assert "test_without_torch" in passed
    for each in ("env/countdown:seeds", "env/countdown:options_are_typed",
                 "env/countdown:memory", "env_wrapper/doubled:keeps_episode_ends"):  # fmt: skip
        assert f"test_component[{each}]" in passed, told[-3000:]


def test_each_fault_fails_by_its_own_name_and_no_other(told: str) -> None:
    assert outcomes(told, "FAILED") == {
        "test_fault[env/shared:memory]",
        "test_fault[env/deaf:reset_mid_episode]",
        "test_fault[env/untyped:options_are_typed]",
        "test_fault[env/heavy:config_module_imports_no_torch]",
        "test_fault[env_wrapper/endless:keeps_episode_ends]",
        "test_fault[env_wrapper/endless:does_not_step_an_ended_env]",
        *(each for each in outcomes(told, "FAILED") if "env/heavy" in each),
    }
    assert outcomes(told, "XFAIL") == {"test_fault[env/deaf:seeds]"}


def test_it_says_what_is_wrong(told: str) -> None:
    assert "shares memory with the last" in told or "overwrote an earlier one" in told
    assert "options without a type: penalty" in told
