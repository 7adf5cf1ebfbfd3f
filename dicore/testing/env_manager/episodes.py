"""Checks of the episodes of an env manager: resets, seeds, state."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from dicore.errors import EnvError, EnvStateError, UsageError
from dicore.testing.compare import copied, difference
from dicore.testing.env_manager.play import ManagerChecks, envs, lines, wait_for_all
from dicore.testing.suite import expect, folder, refuses, skip


class EpisodeChecks(ManagerChecks):
    """Episode counts, manual resets, seeds, state."""

    def test_counts_episodes(self) -> None:
        """`done` is True once all environments finished `episode_num` episodes."""
        manager = self.make([*envs(1, length=2), *envs(1, length=3)], {"episode_num": 2})
        with closing(manager):
            manager.launch()
            ended = 0
            for _ in range(20):
                if ended == 4:
                    break
                expect(not manager.done, f"done after {ended} of 4 episodes")
                answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
                ended += sum(bool(answer[env_id].done) for env_id in answer)
            expect(ended == 4, f"2 episodes of 2 environments are 4, ended: {ended}")
            expect(manager.done, "all episodes are over, and it is not done")
            with refuses(EnvStateError, "stepping an environment that is done"):
                manager.step({0: 0})
            manager.reset()
            expect(
                not manager.done and wait_for_all(manager) == {0, 1},
                "after reset it is done or not ready",
            )

    def test_resets_only_given_envs(self) -> None:
        """`reset` of some ids starts new episodes in these only."""
        self.needs("reset_one")
        with self.launched(envs(3)) as manager:
            manager.step({0: 0, 1: 0, 2: 0})
            wait_for_all(manager)
            manager.reset([2])
            manager.reset({0: None})
            wait_for_all(manager)
            shown = [int(manager.ready_obs[env_id][3]) for env_id in range(3)]
            expect(shown == [0, 1, 0], f"the environments are at steps {shown}")

    def test_remembers_reset_parameters(self) -> None:
        """Keyword arguments of `reset` also apply to later automatic resets."""
        self.needs("reset_one")
        with self.launched(envs(2, length=2)) as manager:
            manager.reset({1: {"level": 3}})
            wait_for_all(manager)
            levels = {env_id: [int(step["obs"][2]) for step in steps]
                      for env_id, steps in self.play(manager, 5).items()}  # fmt: skip
        expect(levels == {0: [0] * 5, 1: [3] * 5}, f"levels by environment: {levels}")

    def test_waits_for_reset_without_auto_reset(self) -> None:
        """Without `auto_reset`, an environment is not ready after its episode until `reset`."""
        self.needs("manual_reset")
        manager = self.make([*envs(1, length=2), *envs(1, length=9)], {"auto_reset": False})
        with closing(manager):
            manager.launch()
            for _ in range(2):
                wait_for_all(manager)
                manager.step({0: 0, 1: 0})
            expect(list(manager.ready_obs) == [1], f"ready are {list(manager.ready_obs)}")
            with refuses(EnvStateError, "stepping an environment that waits for reset"):
                manager.step({0: 0})
            manager.reset({0: None})
            expect(wait_for_all(manager) == {0, 1}, "after reset it is not ready")

    def test_same_seed_same_data(self) -> None:
        """The same seed gives identical data; episodes of runs and roles differ."""
        self.needs("episode_seed")
        seen: dict[Any, set[float]] = {}
        for key in ((0, "collector"), (1, "collector"), (0, "evaluator")):
            plays = []
            for _ in range(2):
                with closing(self.make(envs(3, length=2))) as manager:
                    manager.seed(key[0], role=key[1])
                    plays.append(self.play(manager, 8))
            wrong = difference(*plays)
            expect(not wrong, f"seed {key} gave other data the second time: {wrong}")
            seen[key] = {float(s["obs"][0]) for steps in plays[0].values() for s in steps}
            expect(len(seen[key]) == 12, f"12 episodes of seed {key}, {len(seen[key])} different")
        for one, other in (
            ((0, "collector"), (1, "collector")),
            ((0, "collector"), (0, "evaluator")),
        ):
            expect(not seen[one] & seen[other], f"{one} and {other} share episodes")

    def test_seed_list_sets_each_env(self) -> None:
        """A list sets the seed of each environment; a list of another length raises."""
        self.needs("episode_seed")
        with folder() as place:
            journal = place / "journal"
            with closing(self.make(envs(2, journal=journal))) as manager:
                for wrong in ([1], [1, 2, 3]):
                    with refuses((UsageError, EnvError), f"{len(wrong)} seeds for 2 environments"):
                        manager.seed(wrong)
                manager.seed([3, 4])
                manager.launch()
                wait_for_all(manager)
            resets = sorted(line for line in lines(journal) if "reset" in line)
        wanted = ["0 reset seed=3 level=0", "1 reset seed=4 level=0"]
        expect(resets == wanted, f"seeds [3, 4] became {resets}")

    def test_static_seeds_repeat(self) -> None:
        """With `dynamic_seed=False` all episodes of an environment are the same."""
        self.needs("episode_seed")
        with closing(self.make(envs(2, length=2))) as manager:
            manager.seed([3, 4], dynamic_seed=False)
            drawn = {env_id: {float(step["obs"][0]) for step in steps}
                     for env_id, steps in self.play(manager, 6).items()}  # fmt: skip
        expect([len(each) for each in drawn.values()] == [1, 1], f"drawn at reset: {drawn}")
        expect(drawn[0] != drawn[1], "different seeds gave the same episode")

    def test_state_round_trip(self) -> None:
        """A new manager with the loaded state continues the running or the next episodes.

        Which of the two, its `brought_back` says.
        """
        self.needs("episode_seed")
        wanted = {}
        for back in (True, False):
            with closing(self.make(envs(2, length=3))) as manager:
                manager.seed(5)
                self.play(manager, 7)
                if not hasattr(manager, "state_dict"):
                    skip("it has no state_dict")
                state = copied(manager.state_dict())
                if not back:
                    manager.reset()
                wanted[back] = self.play(manager, 4, launch=False)
        with closing(self.make(envs(2, length=3))) as twin:
            twin.load_state_dict(state)
            found = self.play(twin, 4)
            back = bool(getattr(twin, "brought_back", False))
        drawn = [
            {env_id: [float(step["obs"][0]) for step in steps] for env_id, steps in play.items()}
            for play in (wanted[back], found)
        ]
        expect(drawn[0] == drawn[1], f"the episodes after loading differ: {drawn}")
