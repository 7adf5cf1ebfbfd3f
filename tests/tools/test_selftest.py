"""`dicore selftest`: fault cases of env managers, each with a manager that fails it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

import dicore_registry
from dicore.cli import main
from dicore.testing.component import Component
from dicore_tools.selftest import child
from dicore_tools.selftest.cases import run_case

plugins = pytest.importorskip("dicore_plugins.env_managers")


class Planted(Component):
    """A manager with one fault."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        registry = dicore_registry.default()
        super().__init__(registry.find("env_manager", "base"), registry)
        object.__setattr__(self, "changes", changes)

    def build(self, options: Any = None, **parts: Any) -> Any:
        manager = type("Broken", (plugins.BaseEnvManager,), dict(self.changes))  # type: ignore[attr-defined]
        return manager(parts["env_fn"], options)


def unchecked(self: Any, results: Any, actions: Any, ids: Any, buffers: Any) -> Any:
    """Broadcasts and casts what the environments return, as other frameworks do."""
    import numpy as np

    _, obs, rewards, _, _, raised = results
    if raised:
        raise RuntimeError("a step failed")
    block = np.zeros((len(ids), 3), np.float32)
    for row, each in enumerate(obs):
        block[row] = each
    return block, np.array(rewards, np.float32), []


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("nan_obs", {"_checked_block": unchecked}, "env 1: observation"),
        ("short_obs", {"_checked_block": unchecked}, "env 1: observation"),
        ("nan_reward", {"_checked_block": unchecked}, "reward nan"),
        ("raises", {"_checked_block": unchecked}, "a step failed"),
        ("raises", {"_may_restart": lambda self, *_: False}, "planted failure of step"),
        ("bad_action", {"_checked_actions": lambda self, action:
                        (self._ids, self._id_list, [1, 1])}, "was accepted"),
        ("", {"worker_pids": lambda self: {0: os.getpid()}}, "worker processes are left"),
    ],
)  # fmt: skip
def test_a_manager_that_fails_a_case(case: str, changes: Any, text: str) -> None:
    found = run_case(Planted(changes), case)
    assert found["status"] == "failed"
    assert text in found["text"]


def test_the_command_runs_cases_of_a_manager(capsys: Any) -> None:
    chosen = [f"--fault={name}" for name in ("raises", "hangs", "lock_info")]
    assert main(["selftest", "-m", "base", *chosen]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["ok", "skipped", "ok"]
    assert "3 cases, 0 failed, 1 skipped" in out
    assert main(["selftest", "-m", "base", "--fault", "nan_obs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["manager"] == "base"
    assert "env 1: observation[0] is nan" in found["text"]


def unable(self: Any) -> None:
    from dicore.errors import ConfigError

    raise ConfigError(["env.manager: it steps Atari games only"], hint="set env.type=atari")


def test_a_manager_of_other_environments_is_skipped() -> None:
    for case in ("", "raises", "bad_action"):
        found = run_case(Planted({"launch": unable}), case)
        assert (found["status"], found["text"]) == (
            "skipped", "env.manager: it steps Atari games only",
        )  # fmt: skip


def test_unknown_names_are_refused(capsys: Any) -> None:
    assert main(["selftest", "--fault", "hang"]) == 2
    assert "hangs, killed" in capsys.readouterr().err
    assert main(["selftest", "-m", "bse"]) == 2
    assert "did you mean 'base'" in capsys.readouterr().err


def test_a_case_that_hangs_or_ends_the_process_has_failed() -> None:
    found = list(child.run_cases("base", ["close_hangs", "raises"], 3.0))
    assert [each["status"] for each in found] == ["failed", "ok"]
    assert "no result within 3 s" in found[0]["text"]
    (found,) = child.run_cases("no_such_manager", ["raises"], 30.0)
    assert "the process of the manager ended (exit code 1)" in found["text"]
    assert "no_such_manager" in found["text"]
