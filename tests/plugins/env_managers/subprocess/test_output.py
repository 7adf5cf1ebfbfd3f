"""RELIABILITY A22: what environments print is kept apart, named and limited."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dicore.cli import main
from dicore.errors import EnvStepError
from dicore_plugins.env_managers import AsyncSubprocessConfig, SyncSubprocessConfig
from dicore_plugins.env_managers.subprocess import output
from tests.plugins.env_managers import faulty_env as faulty
from tests.plugins.env_managers.faulty_env import FaultyEnv, action
from tests.plugins.env_managers.toy_envs import CountEnv


class Talks(CountEnv):
    """Prints in each step: from Python, and as C code does."""

    def __init__(self, tag: int, lines: int = 1) -> None:
        super().__init__(tag)
        self.lines = lines

    def step(self, chosen: Any) -> Any:
        for number in range(self.lines):
            print("line", number, "of", self.tag)  # noqa: T201 - as environments do
        print("oh", file=sys.stderr)  # noqa: T201
        os.write(2, b"from below\n")
        return super().step(chosen)


def launched(config: Any, makes: list[Callable[[], Any]], folder: Path) -> closing[Any]:
    run = SimpleNamespace(folder=SimpleNamespace(log=folder))
    manager = config.build(SimpleNamespace(run=run), env_fn=makes)
    manager.launch()
    return closing(manager)


def test_each_line_names_its_environment(tmp_path: Path, capfd: Any) -> None:
    makes = [partial(Talks, 0), CountEnv, CountEnv, partial(Talks, 3)]
    config = SyncSubprocessConfig(envs_per_worker=2, context="fork")
    with launched(config, makes, tmp_path) as manager:
        manager.step(dict.fromkeys(range(4), 0))
    for env_id, file in ((0, "env-0-1.log"), (3, "env-2-3.log")):
        wanted = [f"env {env_id}: line 0 of {env_id}", f"env {env_id}: oh", "from below"]
        assert (tmp_path / file).read_text().splitlines() == wanted
    assert "line" not in "".join(capfd.readouterr())


def test_roles_have_their_files_and_empty_ones_are_removed(tmp_path: Path) -> None:
    config = AsyncSubprocessConfig()
    run = SimpleNamespace(folder=SimpleNamespace(log=tmp_path))
    with closing(config.build(SimpleNamespace(run=run), env_fn=[partial(Talks, 0), CountEnv])) as m:
        m.seed(0, role="evaluator")
        m.launch()
        m.step({0: 0, 1: 0})
        while len(m.ready_obs) < 2:
            m.step({})
    assert [each.name for each in tmp_path.iterdir()] == ["evaluator-env-0.log"]


def test_a_training_keeps_what_they_print(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "talks.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Talks(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        print('spoken')\n"
        "        return super().step(action)\n"
    )
    words = ["train", "-e", f"{tmp_path / 'talks.py'}:Talks", "-p", "dqn", "--max-env-step", "16"]
    words += ["env.n_evaluator_episode=1", "env.evaluator_env_num=1", "env.stop_value=1e9"]
    words += ["env.collector_env_num=2", "policy.collect.n_sample=8", "pipeline.logger=[]"]
    words += ["env.manager.type=sync_subprocess", "env.manager.envs_per_worker=2"]
    assert main([*words, "env.manager.context=fork", "--exp-name", str(tmp_path / "run")]) == 0
    assert "env 1: spoken" in (tmp_path / "run/log/env-0-1.log").read_text()
    assert "env 0: spoken" in (tmp_path / "run/log/evaluator-env-0.log").read_text()
    assert "spoken" not in "".join(capfd.readouterr())


def test_a_file_never_grows_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_LARGEST", 100_000)  # fork: the worker has it too
    config = SyncSubprocessConfig(context="fork")
    with launched(config, [partial(Talks, 0, 100_000)], tmp_path) as manager:
        manager.step({0: 0})
        text = (tmp_path / "env-0.log").read_text()
    assert text.startswith("(earlier lines were removed")
    assert "line 99999 of 0" in text
    assert 50_000 <= len(text) <= 110_000, "the newest half stays"
    lines = [line for line in text.splitlines() if " line " in line]
    numbers = [int(line.split()[-3]) for line in lines]
    assert numbers == list(range(numbers[0], 100_000))


class Bar(CountEnv):
    """Prints a progress bar, whose line never ends, and bytes."""

    def step(self, chosen: Any) -> Any:
        for share in range(500):
            print(f"\r{share:>60}", end="")  # noqa: T201 - as environments do
        sys.stdout.buffer.write(b"bytes\n")
        return super().step(chosen)


def test_a_line_that_never_ends_is_not_kept(tmp_path: Path) -> None:
    with launched(SyncSubprocessConfig(context="fork"), [partial(Bar, 0)], tmp_path) as manager:
        manager.step({0: 0})
        lines = (tmp_path / "env-0.log").read_bytes().split(b"\n")
        assert max(map(len, lines)) < 9_000
        assert lines[-2:] == [b"bytes", b""]
    assert (tmp_path / "env-0.log").read_bytes().count(b"\r") == 500


def test_a_crash_is_told_where_it_happened(tmp_path: Path) -> None:
    config = SyncSubprocessConfig(restart_budget=0)
    with launched(config, [FaultyEnv], tmp_path) as manager:
        file = tmp_path / "env-0.log"
        with pytest.raises(EnvStepError, match=f"SIGSEGV; its output is in {file}"):
            manager.step({0: action(faulty.segfaults)})
    assert "in segfaults" in file.read_text()


def test_without_a_run_or_on_request_it_goes_to_the_terminal(tmp_path: Path, capfd: Any) -> None:
    wanted = SyncSubprocessConfig(capture_output=False, context="fork")
    with launched(wanted, [partial(Talks, 5)], tmp_path) as manager:
        manager.step({0: 0})
    alone = SyncSubprocessConfig(context="fork")  # a fork server has the streams of its start
    with closing(alone.build(None, env_fn=[partial(Talks, 6)])) as manager:
        manager.launch()
        manager.step({0: 0})
    said = capfd.readouterr().err
    assert said.count("from below") == 2
    assert not list(tmp_path.iterdir())
