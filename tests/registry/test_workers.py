"""R15: a spawned worker rebuilds a component from its config, whichever door it came in by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.registry.world import World

ENV = '''
import gymnasium
import numpy as np


class Countdown(gymnasium.Env):
    """Counts down."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, start: int = 5) -> None:
        self.start = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([self.start], np.float32), {}

    def step(self, action):
        return np.array([0], np.float32), 1.0, True, False, {}
'''
MINE = "from dicore import register\nfrom acme_envs import Countdown\n\n\n" + (
    '@register("env", "mine")\nclass Mine(Countdown):\n    """Mine."""\n'
)
WORKER = """
import sys
import cloudpickle, dicore_registry
env = cloudpickle.loads(sys.stdin.buffer.read()).build(None)
print(type(env).__qualname__, env.reset()[0].tolist())
"""
PARENT = f"""
import subprocess, sys
import cloudpickle
from dicore.config import compile_config

def send(kind):
    settings = {{"type": kind, "start": 3, "stop_value": 1.0, "n_evaluator_episode": 1}}
    made = compile_config({{"env": settings, "policy": {{"type": "random"}}}})
    worker = [sys.executable, "-c", {WORKER!r}]
    done = subprocess.run(worker, input=cloudpickle.dumps(made.env), capture_output=True)
    print(kind, "->", made.env.type, done.stdout.decode().strip() or done.stderr.decode())
"""


@pytest.fixture
def world(world: World) -> World:
    world.add(
        "acme-envs", {"dicore.env": {"countdown": "acme_envs:Countdown"}},
        modules={"acme_envs.py": ENV},
    )  # fmt: skip
    (world.folder / "one.file.py").write_text(MINE)
    (world.folder / "two.py").write_text(MINE.replace("mine", "other").replace("Mine", "Other"))
    return world


def sent(world: World, code: str, **environ: str) -> list[str]:
    done = world.python(PARENT + code, **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_by_name_by_qualified_name_and_by_file(world: World) -> None:
    names = ["countdown", "acme-envs/countdown", "./one.file.py:Mine"]
    assert sent(world, f"for kind in {names}: send(kind)\n") == [
        "countdown -> countdown Countdown [3.0]",
        "acme-envs/countdown -> acme-envs/countdown Countdown [3.0]",
        "./one.file.py:Mine -> ./one.file.py:Mine Mine [3.0]",
    ]


def test_by_a_decorator_in_a_file_and_in_a_cell(world: World) -> None:
    files = f"{Path(world.folder, 'one.file.py')}"
    cell = MINE.replace("mine", "typed").replace("Mine", "Typed")
    code = f"import two\n{cell}\nfor kind in ['mine', 'other', 'typed']: send(kind)\n"
    assert sent(world, code, DICORE_PLUGINS=files) == [
        "mine -> mine Mine [3.0]",
        "other -> other Other [3.0]",
        "typed -> typed Typed [3.0]",
    ]
