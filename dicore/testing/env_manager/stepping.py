"""Checks of launch, step and close of an env manager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from dicore.data import EnvBatch, Tree
from dicore.errors import ActionError, ClosedError, EnvStateError
from dicore.interfaces.env_manager import IEnvManager
from dicore.testing.compare import array, copied, difference
from dicore.testing.env_manager.play import (
    ManagerChecks,
    action_of,
    count_of,
    envs,
    lines,
    wait_for_all,
)
from dicore.testing.suite import expect, expect_members, folder, refuses


class SteppingChecks(ManagerChecks):
    """Launch, steps by id, ends of episodes, memory, close."""

    def test_has_the_methods(self) -> None:
        """It satisfies `IEnvManager`, reports N and starts closed."""
        expect_members(self.make(envs(1)), IEnvManager, "launch", "close")
        with closing(self.make(envs(3))) as manager:
            expect(manager.closed, "it is open before launch")
            expect(manager.env_num == 3, f"env_num with 3 factories: {manager.env_num}")
            manager.launch()
            expect_members(manager, IEnvManager)

    def test_creates_envs_at_launch(self) -> None:
        """Construction creates no environment, the spaces at most one, launch each one once."""
        with folder() as place:
            journal = place / "journal"
            with closing(self.make(envs(3, journal=journal))) as manager:
                expect(not count_of(journal), f"construction did {lines(journal)}")
                spaces = manager.observation_space, manager.action_space
                expect(spaces[0].shape == (4,) and spaces[1].n == 3, f"its spaces are {spaces}")
                expect(count_of(journal, "made") <= 1, f"the spaces did {lines(journal)}")
                expect(not count_of(journal, "reset"), "reading the spaces reset an environment")
                manager.launch()
                expect(count_of(journal, "made") == 3, f"launch did {lines(journal)}")

    def test_second_launch_raises(self) -> None:
        """After `launch` all environments are ready; a second `launch` raises."""
        with closing(self.make(envs(3))) as manager:
            manager.launch()
            expect(not manager.closed, "it is closed after launch")
            expect(wait_for_all(manager) == {0, 1, 2}, "not all environments are ready")
            with refuses(EnvStateError, "launching twice"):
                manager.launch()
            manager.close()
            manager.launch()
            expect(wait_for_all(manager) == {0, 1, 2}, "it cannot be launched after close")

    def test_use_while_closed_raises(self) -> None:
        """Before launch and after close, `ready_obs`, `step` and `reset` raise ClosedError."""
        manager = self.make(envs(2))
        for when in ("before launch", "after close"):
            with refuses(ClosedError, f"ready_obs {when}"):
                _ = manager.ready_obs
            with refuses(ClosedError, f"step {when}"):
                manager.step({0: 0, 1: 0})
            with refuses(ClosedError, f"reset {when}"):
                manager.reset()
            if when == "before launch":
                manager.launch()
                manager.close()

    def test_closes_every_environment_once(self) -> None:
        """`close` closes all environments; it can be repeated, and called before launch."""
        with folder() as place:
            journal = place / "journal"
            manager = self.make(envs(3, journal=journal))
            manager.close()
            manager.launch()
            manager.close()
            manager.close()
            closed = sorted(line for line in lines(journal) if line.endswith("close"))
        expect(closed == ["0 close", "1 close", "2 close"], f"closed: {closed}")
        expect(manager.closed, "it is open after close")

    def test_results_match_env_ids(self) -> None:
        """Observations, rewards and infos belong to the environment with the id."""
        with closing(self.make(envs(4))) as manager:
            for env_id, steps in self.play(manager, 4).items():
                for number, step in enumerate(steps):
                    here = f"environment {env_id}, step {number}"
                    expect(
                        step["obs"][1] == env_id == step["next_obs"][1],
                        f"{here}: observation of another environment",
                    )
                    expect(step["obs"][3] == number, f"{here}: obs is of step {step['obs'][3]}")
                    expect(
                        step["next_obs"][3] == number + 1, f"{here}: next_obs is {step['next_obs']}"
                    )
                    expect(step["reward"] == action_of(env_id, number) + 0.5, f"{here}: reward")
                    expect(step["info"]["step"] == number + 1, f"{here}: info of another step")

    def test_steps_only_given_envs(self) -> None:
        """`step` of some ids does not step the others."""
        self.needs("step_one")
        with self.launched(envs(3)) as manager:
            answer = manager.step({1: 0})
            expect(list(answer) == [1], f"stepped environment 1, results for {list(answer)}")
            wait_for_all(manager)
            shown = [int(manager.ready_obs[env_id][3]) for env_id in range(3)]
            expect(shown == [0, 1, 0], f"the environments are at steps {shown}")

    def test_accepts_every_form_of_actions(self) -> None:
        """`step` accepts a dict of actions or of policy outputs, or an `EnvBatch` of either."""
        forms: list[Callable[[Any], Any]] = [
            lambda ids: dict.fromkeys(ids, 2),
            lambda ids: {env_id: {"action": np.int64(2), "logit": 0.0} for env_id in ids},
            lambda ids: EnvBatch(np.array(ids), np.full(len(ids), 2)),
            lambda ids: EnvBatch(np.array(ids), {"action": np.full(len(ids), 2)}),
        ]
        for form in forms:
            with self.launched(envs(2)) as manager:
                answer = manager.step(form([0, 1]))
                rewards = [float(answer[env_id].reward) for env_id in answer]
                expect(set(rewards) == {2.5}, f"{form([0, 1])}: rewards {rewards}")

    def test_timesteps_have_four_fields(self) -> None:
        """Each timestep is `(obs, reward, done, info)`; the stacked form has arrays."""
        with self.launched(envs(2)) as manager:
            answer = manager.step({0: 1, 1: 1})
            step = answer[next(iter(answer))]
            expect(isinstance(step, tuple) and len(step) == 4, f"a timestep is {step!r}")
            expect(step.obs is step[0] and step.info is step[3], "fields and tuple items differ")
            expect(step.done is False or step.done == 0, f"the first step is done: {step.done}")
            batch = answer.value
            dtypes = [array(each).dtype.str[1:] for each in
                      (batch.obs, batch.reward, batch.terminated, batch.truncated)]  # fmt: skip
            expect(dtypes == ["f4", "f4", "b1", "b1"], f"dtypes of the columns: {dtypes}")

    def test_final_observation_is_kept(self) -> None:
        """A final timestep has the last observation; `ready_obs` has the next episode's first."""
        for end in ("terminated", "truncated"):
            with closing(self.make(envs(2, length=3, end=end))) as manager:
                for steps in self.play(manager, 4).values():
                    last, first = steps[2], steps[3]
                    expect(last["next_obs"][3] == 3, f"the last observation is {last['next_obs']}")
                    expect(first["obs"][3] == 0, f"the next episode begins with {first['obs']}")
                    told = (last["terminated"], last["truncated"])
                    expect(told == (end == "terminated", end == "truncated"), f"{end}: {told}")
                    expect(not (first["terminated"] or first["truncated"]), "ended at once")

    def test_final_info_has_the_return(self) -> None:
        """Only the last info of an episode has its undiscounted return and length."""
        with closing(self.make(envs(2, length=3))) as manager:
            for env_id, steps in self.play(manager, 6).items():
                returns = [step["info"].get("eval_episode_return") for step in steps]
                wanted = [sum(action_of(env_id, n) + 0.5 for n in numbers)
                          for numbers in (range(3), range(3, 6))]  # fmt: skip
                expected = [None, None, wanted[0], None, None, wanted[1]]
                expect(returns == expected, f"returns by step: {returns}")
                lengths = [steps[index]["info"].get("episode_length") for index in (2, 5)]
                expect(lengths == [3, 3], f"lengths of the episodes: {lengths}")

    def test_unknown_env_id_raises(self) -> None:
        """An unknown id raises an error with the id; no environment is stepped."""
        with self.launched(envs(2)) as manager:
            with refuses(EnvStateError, "stepping environment 7 of 2"):
                manager.step({0: 0, 7: 0})
            expect(wait_for_all(manager) == {0, 1}, "an environment is not ready any more")
            expect(int(manager.ready_obs[0][3]) == 0, "environment 0 was stepped")

    def test_illegal_action_raises(self) -> None:
        """An illegal action raises ActionError; no environment is stepped."""
        with self.launched(envs(2)) as manager:
            for action in (3, -1, 0.5):
                with refuses(ActionError, f"action {action} of Discrete(3)"):
                    manager.step({0: 1, 1: action})
            shown = [int(manager.ready_obs[env_id][3]) for env_id in (0, 1)]
            expect(shown == [0, 0], f"the environments are at steps {shown}")

    def test_returned_data_is_not_overwritten(self) -> None:
        """Later steps do not change observations and timesteps."""
        kept: list[tuple[Tree, Tree]] = []
        with self.launched(envs(3, length=4)) as manager:
            for number in range(10):
                obs = manager.ready_obs
                answer = manager.step({env_id: action_of(env_id, number) for env_id in obs})
                out = (obs.value, answer.value.obs, answer.value.reward)
                kept += [(value, copied(value)) for value in out]
        for number, (value, before) in enumerate(kept):
            wrong = difference(value, before)
            expect(not wrong, f"the result of {len(kept) - number} steps ago changed")
