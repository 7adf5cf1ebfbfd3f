"""Checks of env managers with failing environments, and of `env_attr`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dicore.errors import EnvResetError, EnvSpaceError, EnvStepError, NonFiniteError
from dicore.testing.compare import difference
from dicore.testing.env_manager.play import ManagerChecks, action_of, envs, failure, wait_for_all
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

    def test_rewards_have_the_shape_of_their_space(self) -> None:
        """Rewards per agent or objective keep their shape, in returns too; another shape raises."""
        for count in (2, 3):
            makes = [partial(ScriptedEnv, tag, 2, objectives=count) for tag in range(2)]
            with self.launched(makes) as manager:
                parts = np.arange(1, count + 1)
                for env_id, steps in self.play(manager, 3).items():
                    for number, step in enumerate(steps):
                        wanted = (action_of(env_id, number) + 0.5) * parts
                        wrong = difference(np.asarray(step["reward"]), wanted.astype(np.float32))
                        expect(not wrong, f"the reward of {count} objectives: {wrong}")
                    total = (action_of(env_id, 0) + action_of(env_id, 1) + 1.0) * parts
                    found = np.asarray(steps[1]["info"].get("eval_episode_return"), float)
                    wrong = difference(found, total)
                    expect(not wrong, f"the return of {count} objectives: {wrong}")
        bad = partial(ScriptedEnv, 1, fault="reward_shape", objectives=2)
        with self.launched([partial(ScriptedEnv, objectives=2), bad]) as manager:
            error = failure(manager)
            expect(isinstance(error, EnvStepError), f"1 of 2 rewards: {error!r}")
            expect(error.context.get("env_id") == 1, f"1 of 2 rewards: {error.context}")

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
