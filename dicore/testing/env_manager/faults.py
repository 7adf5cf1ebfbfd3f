"""Checks of env managers with failing environments, and of `env_attr`."""

from __future__ import annotations

from functools import partial
from typing import Any

from dicore.errors import (
    EnvResetError,
    EnvSpaceError,
    EnvStepError,
    NonFiniteError,
)
from dicore.testing.env_manager.play import (
    ManagerChecks,
    envs,
    failure,
    wait_for_all,
)
from dicore.testing.scripted_env import Fault, ScriptedEnv
from dicore.testing.suite import expect, folder, refuses


class FaultChecks(ManagerChecks):
    """Errors with the id of the environment; attributes and random actions."""

    def test_step_error_names_the_env(self) -> None:
        """A failing step raises EnvStepError with the env id; the other environments still work."""
        self.needs("reset_one")
        with self.launched([*envs(1), partial(ScriptedEnv, 1, fault="step")]) as manager:
            error = failure(manager)
            expect(isinstance(error, EnvStepError), f"a step failed: {error!r}")
            expect(error.context.get("env_id") == 1, f"env_id is {error.context.get('env_id')}")
            expect("planted failure of step" in str(error), f"the message lacks the cause: {error}")
            manager.reset({1: None})
            expect(wait_for_all(manager) == {0, 1}, "after its reset it is not ready again")
            expect(len(manager.step({0: 0, 1: 0})) >= 1, "it cannot be stepped again")

    def test_reset_error_names_the_env(self) -> None:
        """A repeatedly failing reset ends `launch` with the env id and closes all environments."""
        with folder() as place:
            journal = place / "journal"
            bad = partial(ScriptedEnv, 1, fault="reset", journal=journal)
            manager = self.make([*envs(1, journal=journal), bad])
            try:
                manager.launch()
                error: Any = None
            except EnvResetError as raised:
                error = raised
            finally:
                manager.close()
        expect(error is not None, "launching an environment whose reset fails raised nothing")
        expect(error.context.get("env_id") == 1, f"env_id is {error.context.get('env_id')}")
        expect("planted failure of reset" in str(error), f"the message lacks the cause: {error}")

    def test_invalid_observations_raise(self) -> None:
        """Wrong shapes and NaN in observations or rewards raise with the env id."""
        faults: dict[Fault, type[Exception]] = {
            "shape": EnvSpaceError, "nan": NonFiniteError, "reward": NonFiniteError
        }  # fmt: skip
        for fault, wanted in faults.items():
            with self.launched([*envs(1), partial(ScriptedEnv, 1, fault=fault)]) as manager:
                error = failure(manager)
                expect(
                    isinstance(error, wanted), f"{fault}: expected {wanted.__name__}, got {error!r}"
                )
                expect(error.context.get("env_id") == 1, f"{fault}: {error.context}")

    def test_env_attr_returns_all_values(self) -> None:
        """`env_attr` returns an attribute of every environment, and raises for unknown names."""
        with self.launched([partial(ScriptedEnv, 5), partial(ScriptedEnv, 6)]) as manager:
            expect(manager.env_attr("tag") == [5, 6], f"tags are {manager.env_attr('tag')}")
            with refuses(AttributeError, "an attribute that environments do not have"):
                manager.env_attr("no_such_attribute")
            with refuses(AttributeError, "an attribute of environments asked of the manager"):
                _ = manager.tag

    def test_random_actions_are_legal(self) -> None:
        """`random_action` returns a legal action for each ready environment."""
        with self.launched(envs(3)) as manager:
            actions = manager.random_action()
            expect(set(actions) == {0, 1, 2}, f"actions for {list(actions)}")
            for _ in range(20):
                manager.step(manager.random_action())
                wait_for_all(manager)
