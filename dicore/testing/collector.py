"""The contract of collectors (`ISerialCollector`): every step once, in order, from its own env.

The environments are fakes whose observations tell env id, episode and step, so that each sample
shows where it comes from. The policy is a hand-made tuple of plain functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.data import Batch
from dicore.errors import DicoreError
from dicore.interfaces.collector import ISerialCollector
from dicore.testing.array_like import ArrayLike
from dicore.testing.collector_samples import SampleChecks, place
from dicore.testing.columns import column_problems
from dicore.testing.compare import array, copied, difference
from dicore.testing.fakes import FakeCollectMode, FakeManager, Script
from dicore.testing.suite import expect, expect_members, refuses

__all__ = ["CollectorContract"]


class CollectorContract(SampleChecks):
    """Conformance suite of collectors: subclass it and override `make`."""

    # ---- what it collects

    def test_has_the_methods(self) -> None:
        """It satisfies `ISerialCollector`, launches its environments and starts at `envstep` 0."""
        manager = FakeManager(2)
        collector = self.make(manager, FakeCollectMode().mode)
        expect_members(collector, ISerialCollector)
        expect(
            collector.envstep == 0,
            f"envstep of a new collector: expected 0, got {collector.envstep}",
        )
        self._collect(collector, 4)
        expect(not manager.closed, "it did not launch its manager")

    def test_returns_the_requested_number(self) -> None:
        """`collect` returns the requested number of samples (episodes) for any number of envs."""
        collector = self.make(FakeManager(4), FakeCollectMode().mode)
        for count in (7, 8, 4, 13):
            found = self._raw(collector, count)
            expect(isinstance(found, list), f"collect returns a list, got {type(found).__name__}")
            if self.unit_of(collector) == "n_episode":
                ends = [[bool(row["end"]) for row in episode] for episode in found]
                whole = all(each[-1] and sum(each) == 1 for each in ends)
                expect(whole, "its items are not lists of the transitions of whole episodes")
            expect(len(found) == count, f"asked for {count}, got {len(found)}")

    def test_collect_and_collect_batch_agree(self) -> None:
        """`collect_batch` returns the samples of `collect` as a Batch."""
        self.needs_samples()
        rows, batch = (
            getattr(self.make(FakeManager(3), FakeCollectMode().mode), name)(n_sample=9)
            for name in ("collect", "collect_batch")
        )
        expect(isinstance(batch, Batch), f"collect_batch returns a {type(batch).__name__}")
        wrong = difference([dict(row) for row in rows], [dict(row) for row in batch.rows()])
        expect(not wrong, f"collect and collect_batch differ: {wrong}")

    def test_added_columns_are_those_of_the_table(self) -> None:
        """What it adds to samples is in `COLUMNS`, with its dtype and its shape there."""
        rows = self._collect(self.make(FakeManager(3), FakeCollectMode().mode), 6)
        problems = column_problems(dict(rows[0]), (), axes=0)
        expect(not problems, "; ".join(problems))

    def test_sample_fields_belong_to_one_step(self) -> None:
        """Action, reward, next observation and done of a sample belong to the same step."""
        script = Script(length=lambda env_id, episode: 3 + env_id)
        manager = FakeManager(3, script)
        for row in self._collect(self.make(manager, FakeCollectMode(name=2).mode), 24):
            env_id, episode, step = place(row["obs"])
            after = place(row["next_obs"])
            last = step == script.length(env_id, episode) - 1
            wrong = f"step {step} of episode {episode} of environment {env_id}"
            expect(after == (env_id, episode, step + 1), f"{wrong} leads to {after}")
            expect(float(row["reward"]) == step, f"{wrong} has reward {row['reward']}")
            expect(int(row["action"]) == 2, f"{wrong} has action {row['action']}")
            expect(bool(row["done"]) == last, f"{wrong} is {'' if last else 'not '}the last")

    def test_truncated_episode_is_not_terminal(self) -> None:
        """A truncated episode ends with its true last observation and `done` 0."""
        manager = FakeManager(2, Script(truncated=lambda env_id, episode: env_id == 1))
        ends = 0
        for row in self._collect(self.make(manager, FakeCollectMode().mode), 40):
            env_id, _, step = place(row["next_obs"])
            if step == 5:
                ends += 1
                expect(bool(row["done"]) == (env_id == 0), f"environment {env_id}: {row['done']}")
        expect(ends >= 4, "the ends of episodes are missing")

    def test_every_step_is_collected_once(self) -> None:
        """Each call continues where the last one ended: every step once, in order per env."""
        collector = self.make(FakeManager(3), FakeCollectMode().mode)
        places = [place(row["obs"]) for _ in range(4) for row in self._collect(collector, 9)]
        expect(len(set(places)) == len(places), "a step was collected twice")
        for env_id in range(3):
            mine = [(episode, step) for each, episode, step in places if each == env_id]
            wanted = [(index // 5, index % 5) for index in range(len(mine))]
            expect(mine == wanted, f"environment {env_id} gave steps {mine}")

    def test_samples_have_collect_iter(self) -> None:
        """Every sample has the `train_iter` at which it was collected."""
        collector = self.make(FakeManager(2), FakeCollectMode().mode)
        for train_iter in (0, 17):
            rows = self._collect(collector, 6, train_iter=train_iter)
            stamps = {int(row.get("collect_iter", -1)) for row in rows}
            expect(stamps == {train_iter}, f"collected at {train_iter}, stamped {stamps}")

    def test_steps_are_counted(self) -> None:
        """`envstep` counts env steps and can be set on resume."""
        manager = FakeManager(4)
        collector = self.make(manager, FakeCollectMode().mode)
        for _ in range(3):
            self._collect(collector, 7)
            made = sum(manager.steps)
            expect(collector.envstep == made, f"{made} steps made, {collector.envstep} counted")
        collector.envstep = 1000
        self._collect(collector, 8)
        more = sum(manager.steps) - made
        expect(collector.envstep == 1000 + more, f"1000 and {more} is not {collector.envstep}")

    def test_abnormal_steps_are_dropped(self) -> None:
        """An abnormal step discards the rest of its episode and is not counted."""
        manager = FakeManager(2, Script(abnormal=frozenset({(1, 0, 3)})))
        mode = FakeCollectMode()
        collector = self.make(manager, mode.mode)
        rows = [row for _ in range(3) for row in self._collect(collector, 8)]
        places = [place(row["obs"]) for row in rows]
        expect((1, 0, 3) not in places, "the abnormal step itself was collected")
        expect(all(not (each[:2] == (1, 0) and each[2] > 3) for each in places), "and what follows")
        expect((1, 1, 0) in places, "the environment's next episode is missing")
        abnormal_resets = [each for each in mode.resets if each is not None and 1 in list(each)]
        expect(abnormal_resets, "the policy was not reset for the environment")
        expect(collector.envstep <= sum(manager.steps), "an abnormal step was counted")

    # ---- policy and environments

    def test_policy_kwargs_are_passed(self) -> None:
        """`policy_kwargs` are passed to every forward of this call only."""
        mode = FakeCollectMode()
        collector = self.make(FakeManager(2), mode.mode)
        self._collect(collector, 4, policy_kwargs={"eps": 0.5})
        expect(mode.kwargs and all(each == {"eps": 0.5} for each in mode.kwargs), f"{mode.kwargs}")
        mode.kwargs.clear()
        self._collect(collector, 4)
        expect(all(each == {} for each in mode.kwargs), f"a later call got {mode.kwargs}")

    def test_array_like_observations(self) -> None:
        """Observations that NumPy takes as arrays give the same samples as arrays."""
        self.needs_samples()
        plain, likes = (
            self.make(manager(3), FakeCollectMode().mode) for manager in (FakeManager, _ArrayLikes)
        )
        for count in (7, 24):
            wanted, found = (self._collect(each, count) for each in (plain, likes))
            for row, other in zip(found, wanted, strict=True):
                for key in ("obs", "next_obs"):
                    wrong = difference(array(row[key]), array(other[key]))
                    expect(not wrong, f"'{key}' of observations that are array-likes: {wrong}")

    def test_policy_is_reset_at_episode_end(self) -> None:
        """The end of an episode resets the policy for this environment only."""
        manager = FakeManager(2, Script(length=lambda env_id, episode: 2 if env_id else 100))
        mode = FakeCollectMode()
        collector = self.make(manager, mode.mode)
        mode.resets.clear()
        self._collect(collector, 12)
        ids = [[int(each) for each in given] for given in mode.resets if given is not None]
        ended = list(manager.episodes)
        right = ended[1] >= 2 and [ids.count([0]), ids.count([1])] == ended
        expect(right and len(ids) == sum(ended), f"{ended} episodes ended; reset: {ids}")

    def test_reset_policy_replaces_the_policy(self) -> None:
        """`reset_policy` replaces the collect mode without resetting the environments."""
        self.needs_samples()
        manager = FakeManager(2)
        collector = self.make(manager, FakeCollectMode(name=1).mode)
        self._collect(collector, 4)
        events = list(manager.events)
        collector.reset_policy(FakeCollectMode(name=2).mode)
        rows = self._collect(collector, 4)
        expect(manager.events == events, f"swapping policies did {manager.events[len(events) :]}")
        expect({int(row["action"]) for row in rows} == {2}, "the old policy is still used")
        steps = sorted(place(row["obs"])[2] for row in rows)
        expect(steps == [2, 2, 3, 3], f"the environments did not go on: steps {steps}")

    def test_reset_clears_all_state(self) -> None:
        """`reset` starts new episodes, resets the policy and sets `envstep` to 0."""
        manager, mode = FakeManager(2), FakeCollectMode()
        collector = self.make(manager, mode.mode)
        self._collect(collector, 6)
        mode.resets.clear()
        collector.reset()
        expect(collector.envstep == 0, f"envstep after reset: expected 0, got {collector.envstep}")
        expect(None in mode.resets, "the policy was not reset")
        begun = list(manager.episodes)
        places = [place(row["obs"]) for row in self._collect(collector, 6)]
        firsts = [min(place[1:] for place in places if place[0] == each) for each in (0, 1)]
        expect(firsts == [(each, 0) for each in begun], f"the first steps are {firsts}")

    def test_reset_env_replaces_the_env_manager(self) -> None:
        """`reset_env` launches and uses another manager."""
        collector = self.make(FakeManager(2), FakeCollectMode().mode)
        self._collect(collector, 4)
        other = FakeManager(3)
        collector.reset_env(other)
        self._collect(collector, 6)
        expect(other.events[:1] == ["launch"], f"the new manager saw {other.events}")
        expect(sum(other.steps) >= 6, "the new manager was not stepped")

    # ---- memory and life

    def test_samples_share_no_memory(self) -> None:
        """Returned samples are copies: changes affect neither them nor later samples."""
        collector = self.make(FakeManager(2), FakeCollectMode().mode)
        rows = self._collect(collector, 6)
        before = [copied(dict(row)) for row in rows]
        later = self._collect(collector, 6)
        wrong = difference([dict(row) for row in rows], before)
        expect(not wrong, f"samples changed while others were collected: {wrong}")
        kept = [copied(dict(row)) for row in later]
        for row in rows:
            array(row["obs"])[...] = 99
        wrong = difference([dict(row) for row in later], kept)
        expect(not wrong, f"changing a sample changed one of a later call: {wrong}")

    def test_state_round_trip(self) -> None:
        """A new collector with the loaded state continues to count."""
        collector = self.make(FakeManager(2), FakeCollectMode().mode)
        self._collect(collector, 6)
        twin = self.make(FakeManager(2), FakeCollectMode().mode)
        twin.load_state_dict(copied(collector.state_dict()))
        expect(twin.envstep == collector.envstep, f"{collector.envstep} became {twin.envstep}")
        wrong = difference(twin.state_dict(), collector.state_dict())
        expect(not wrong, f"the state differs after loading: {wrong}")

    def test_close_is_final(self) -> None:
        """`close` closes the environments, can be repeated, and makes `collect` raise."""
        manager = FakeManager(2)
        collector = self.make(manager, FakeCollectMode().mode)
        self._collect(collector, 4)
        collector.close()
        expect(manager.closed, "its environments are still open")
        collector.close()
        with refuses(DicoreError, "collecting with a closed collector"):
            self._collect(collector, 4)

    # ---- what the checks are made of

    def _raw(self, collector: Any, count: int, **kwargs: Any) -> Any:
        return collector.collect(**{self.unit_of(collector): count}, **kwargs)

    def _collect(self, collector: object, count: int, **kwargs: object) -> list[Mapping[str, Any]]:
        """Returns all transitions of a call."""
        found = self._raw(collector, count, **kwargs)
        if found and not isinstance(found[0], Mapping):
            found = [row for episode in found for row in episode]
        return list(found)


class _ArrayLikes(FakeManager):
    """Observations are array-likes."""

    def _obs(self, ids: Any) -> Any:
        return ArrayLike(super()._obs(ids))
