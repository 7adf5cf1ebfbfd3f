"""Checks of what collectors make of steps: windows, episodes, numbers, interruptions, slow envs.

Shapes: T steps, N environments, B samples, L rows of a window.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch, EnvBatch, Tree, tree_map
from dicore.errors import DicoreError, UsageError
from dicore.interfaces.policy import Tail
from dicore.testing.compare import array, copied, difference
from dicore.testing.fakes import DelayedEnvManager, FakeCollectMode, FakeManager, Script
from dicore.testing.suite import Suite, expect, refuses, skip

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector

__all__ = ["SampleChecks", "place"]

UNEVEN = Script(length=lambda env_id, episode: (2, 9, 4)[env_id % 3])


class SampleChecks(Suite):
    """Checks of samples; see `CollectorContract`."""

    unit = ""
    """`n_sample` or `n_episode`; "" finds out from the signature of `collect`."""

    def make(self, env_manager: object, collect_mode: Any) -> Any:
        """Returns a collector (`ISerialCollector`) of that manager and collect mode."""
        return self.registered.build(env_manager=env_manager, policy=collect_mode)

    def unit_of(self, collector: ISerialCollector) -> str:
        """Returns the unit in which a collector counts."""
        if self.unit:
            return self.unit
        parameters = inspect.signature(collector.collect).parameters
        return "n_sample" if "n_sample" in parameters else "n_episode"

    def needs_samples(self) -> None:
        """Skips the check of a collector that collects nothing but whole episodes."""
        if self.unit_of(self.make(FakeManager(1), FakeCollectMode().mode)) == "n_episode":
            skip("its unit is the episode")

    def sampler(self, manager: Any, samples: Any = None, **facts: object) -> Any:
        """Returns a collector of a policy with another `get_train_sample` and these facts."""
        self.needs_samples()
        mode = FakeCollectMode(facts=facts).mode
        return self.make(manager, mode._replace(get_train_sample=samples) if samples else mode)

    def test_number_is_by_keyword(self) -> None:
        """The number is `n_sample` or `n_episode`, by keyword, and at least 1."""
        collector = self.make(FakeManager(2), FakeCollectMode().mode)
        with refuses(UsageError, "n_sample and n_episode in one call"):
            collector.collect_batch(n_sample=2, n_episode=2)
        for given in ({"n_sample": 0}, {"n_episode": 0}, {"n_sample": -1}):
            with refuses(UsageError, f"collect_batch({given})"):
                collector.collect_batch(**given)
        with refuses(TypeError, "a number without its name"):
            collector.collect_batch(4)

    def test_collects_whole_episodes(self) -> None:
        """`n_episode` gives whole episodes, of all environments equally many, and no more steps."""
        manager = FakeManager(3, UNEVEN)
        collector = self.make(manager, FakeCollectMode().mode)
        for count in (5, 3, 1):
            made = sum(manager.steps)
            data = collector.collect_batch(n_episode=count)
            found = _expect_whole(data, UNEVEN)
            each = [found.count(env_id) for env_id in range(3)]
            expect(sum(each) == count, f"asked for {count} episodes, got {sum(each)}")
            expect(max(each) - min(each) <= 1, f"{count} episodes, by environment: {each}")
            more = sum(manager.steps) - made - len(data)
            expect(not more, f"{more} steps more than those of the {count} episodes")

    def test_ends_and_env_ids_are_told(self) -> None:
        """`end` and `env_id` belong to their sample; `trajectory_end_idx` tells the ends."""
        collector = self.sampler(FakeManager(3, UNEVEN))
        data = collector.collect_batch(n_sample=24)
        places = [place(obs) for obs in data["obs"]]
        for (env_id, episode, step), end, told in zip(
            places, data["end"], data["env_id"], strict=True
        ):
            last = step == UNEVEN.length(env_id, episode) - 1
            expect(int(told) == env_id, f"env_id is {told} in a sample of environment {env_id}")
            expect(bool(end) == last, f"end is {end} at step {step} of environment {env_id}")
        newest = {each[0]: index for index, each in enumerate(places)}
        wanted = sorted({*np.flatnonzero(data["end"]).tolist(), *newest.values()})
        ends = sorted(int(each) for each in collector.trajectory_end_idx)
        expect(ends == wanted, f"trajectory_end_idx: expected {wanted}, got {ends}")

    def test_windows_follow_each_other(self) -> None:
        """Samples of several rows: each row after the other, each start `sample_stride` later."""
        for length, stride in ((3, 1), (4, 3), (3, 3)):
            facts = {"sample_len": length, "sample_stride": stride}
            collector = self.sampler(FakeManager(3, UNEVEN), cut(length, stride), **facts)
            sizes = (3, 6, 3, 12)
            data = Batch.concat([collector.collect_batch(n_sample=size) for size in sizes])
            expect(len(data) == sum(sizes), f"asked for {sum(sizes)}, got {len(data)}")
            for env_id in range(3):
                stream = [(env_id, *each) for each in _rows_of(UNEVEN, env_id, 200)]
                mine = data["obs"][np.flatnonzero(data["env_id"] == env_id)]
                for index, window in enumerate(mine):
                    first = index * stride
                    found = [place(obs) for obs in window]
                    wanted = stream[first : first + length]
                    what = f"window {index} ({length}, {stride}) of environment {env_id}"
                    expect(found == wanted, f"{what}: expected {wanted}, got {found}")

    def test_episodes_as_samples(self) -> None:
        """With `sample_len` "episode", `get_train_sample` gets one whole episode at a time."""
        blocks: list[Batch] = []

        def seen(block: Batch, tail: Tail) -> Batch:
            blocks.append(block.copy())
            return flat(block, tail)

        collector = self.sampler(FakeManager(3, UNEVEN), seen, sample_len="episode")
        for _ in range(3):
            expect(len(collector.collect_batch(n_sample=7)) >= 7, "it returns less than n_sample")
        for block in blocks:
            expect(block["end"].shape[1] == 1, f"a block has shape {block['end'].shape}")
            _expect_whole(flat(block, Tail(None, np.empty(0, np.int64), None, len(block))), UNEVEN)
            expect(block["end"].sum() == 1, "a block has several episodes")

    def test_counts_what_the_policy_returns(self) -> None:
        """`get_train_sample` may return fewer samples than steps, or more."""
        collector = self.sampler(FakeManager(2), lambda block, tail: _some(flat(block, tail)))
        for _ in range(3):
            data = collector.collect_batch(n_sample=6)
            expect(len(data) == 6, f"of a policy that leaves samples out: {len(data)} of 6")
            odd = [each for each in map(place, data["obs"]) if each[2] % 2]
            expect(not odd, f"samples that the policy left out: {odd}")
        collector = self.sampler(FakeManager(2), lambda block, tail: _twice(flat(block, tail)))
        data = collector.collect_batch(n_sample=8)
        places = [place(obs) for obs in data["obs"]]
        expect(len(data) >= 8, f"of a policy that adds samples: {len(data)} of 8")
        lone = [each for each in places if places.count(each) != 2]
        expect(not lone, f"samples that the policy added are lost: {lone}")

    def test_policy_without_samples_is_named(self) -> None:
        """A policy that returns no samples is an error that names it and the collector."""
        manager = Limited(2)
        collector = self.sampler(manager, lambda block, tail: flat(block, tail)[0:0])
        try:
            collector.collect_batch(n_sample=4)
        except DicoreError as error:
            for name in ("FakeCollectMode", type(collector).__name__):
                expect(name in str(error), f"the error does not name {name}: {error}")
            return
        expect(False, "a policy without samples: no error")

    def test_windows_span_no_abnormal_step(self) -> None:
        """No sample has rows of an episode after its abnormal step, or of both sides of it."""
        bad = frozenset({(1, 0, 3), (0, 2, 1), (2, 1, 0)})
        script = Script(length=lambda env_id, episode: 5, abnormal=bad)
        collector = self.sampler(FakeManager(3, script), cut(3, 1), sample_len=3)
        data = Batch.concat([collector.collect_batch(n_sample=9) for _ in range(5)])
        expect(len(data) == 45, f"asked for 45 samples, got {len(data)}")
        for window in data["obs"]:
            found = [place(obs) for obs in window]
            spoilt = [each for each in found if any(each[:2] == b[:2] and each >= b for b in bad)]
            expect(not spoilt, f"a sample has rows of an abnormal episode: {found}")
            for (_, episode, step), (_, later, after) in pairwise(found):
                follows = (later, after) == ((episode + 1, 0) if step == 4 else (episode, step + 1))
                expect(follows, f"a sample spans an abnormal step: {found}")

    def test_an_interrupted_call_goes_on(self) -> None:
        """`should_stop` ends a call between steps, empty; the next one goes on, also reloaded."""
        unit = self.unit_of(self.make(FakeManager(1), FakeCollectMode().mode))
        for wanted in ({"n_episode": 4}, *([{"n_sample": 12}] if unit == "n_sample" else [])):
            whole = self.make(FakeManager(2), FakeCollectMode().mode).collect_batch(**wanted)
            for reload in (False, True):
                manager = FakeManager(2)
                collector = self.make(manager, FakeCollectMode().mode)
                for _ in range(2):
                    left = iter([False, False, *[True] * 99])
                    stopped = collector.collect_batch(**wanted, should_stop=left.__next__)
                    expect(len(stopped) == 0, f"a call that was stopped has {len(stopped)} samples")
                    if reload:
                        collector.load_state_dict(copied(collector.state_dict()))
                expect(max(manager.steps) <= 4, f"stopped after 4 steps, made {manager.steps}")
                found = collector.collect_batch(**wanted)
                wrong = difference(dict(found.columns), dict(whole.columns))
                expect(not wrong, f"{wanted}, stopped twice, and in one go: {wrong}")

    def test_reused_memory_holds_the_samples(self) -> None:
        """With `reuse`, samples are right when they are returned."""
        for length in (1, 3):
            one, two = (
                self.sampler(FakeManager(2), cut(length, 1), sample_len=length) for _ in range(2)
            )
            for _ in range(4):
                found = one.collect_batch(n_sample=6, reuse=True)
                wrong = difference(dict(found.columns), dict(two.collect_batch(n_sample=6).columns))
                expect(not wrong, f"with and without reuse: {wrong}")

    def test_slow_environments_lose_nothing(self) -> None:
        """Of an asynchronous manager, the steps of each environment are whole and in order."""
        manager = DelayedEnvManager(FakeManager(3, UNEVEN), 3)
        collector = self.sampler(manager)
        data = Batch.concat([collector.collect_batch(n_sample=size) for size in (9, 9, 24)])
        for env_id in range(3):
            mine = data[np.flatnonzero(data["env_id"] == env_id)]
            before = [place(obs) for obs in mine["obs"]]
            expect(before, f"environment {env_id} gave no sample")
            wanted = [(env_id, *each) for each in _rows_of(UNEVEN, env_id, len(before))]
            expect(before == wanted, f"environment {env_id} gave {before}")
            for (_, episode, step), obs in zip(before, mine["next_obs"], strict=True):
                after = place(obs)
                expect(
                    after == (env_id, episode, step + 1), f"{step} of {episode} leads to {after}"
                )

    def test_on_policy_samples_are_new(self) -> None:
        """On-policy, no sample has rows of an earlier call, also of slow environments."""
        for slow in (False, True):
            fake, made = FakeCollectMode(facts={"on_policy": True, "sample_len": 3}), FakeManager(3)
            manager = DelayedEnvManager(made, 5) if slow else made
            self.needs_samples()
            collector = self.make(manager, fake.mode._replace(get_train_sample=cut(3, 1)))
            for version in range(6):
                fake.name = version
                used = set(
                    array(collector.collect_batch(n_sample=6)["action"]).reshape(-1).tolist()
                )
                expect(used == {version}, f"policy {version} gets actions of {sorted(used)}")

    def test_keeps_shapes_and_dtypes(self) -> None:
        """Images stay uint8; rewards may have parts; observations may be nested."""
        for manager in (Rich(2), DelayedEnvManager(Rich(2))):
            mode = FakeCollectMode().mode._replace(forward=Rich.act, get_train_sample=flat)
            self.needs_samples()
            collector = self.make(manager, mode)
            data = collector.collect_batch(n_sample=14)
            image, flat_obs = data["obs"]["image"], array(data["obs"]["more"][0])
            expect(image.dtype == np.uint8, f"uint8 images became {image.dtype}")
            expect(image.shape == (14, 2, 2), f"images [2, 2] became {list(image.shape)}")
            expect(data["reward"].shape == (14, 2), f"rewards [2]: {data['reward'].shape}")
            places = [place(obs) for obs in flat_obs]
            for row, (env_id, _, step) in enumerate(places):
                expect((image[row] == 10 * env_id + step).all(), "images belong to other steps")
                expect(data["reward"][row].tolist() == [step, -step], "rewards of other steps")

    def test_tail_completes_the_block(self) -> None:
        """A policy without `next_obs` gets what follows from the tail: last and final ones."""
        script = Script(length=UNEVEN.length, truncated=lambda env_id, episode: episode % 2 == 0)
        for manager in (FakeManager(3, script), DelayedEnvManager(FakeManager(3, script), 1)):
            collector = self.sampler(manager, follow)
            for _ in range(4):
                data = collector.collect_batch(n_sample=9)
                for obs, after in zip(data["obs"], data["after"], strict=True):
                    here, then = place(obs), place(after)
                    expect(then == (*here[:2], here[2] + 1), f"by the tail, {here} leads to {then}")


class Limited(FakeManager):
    """Is stepped a limited number of times."""

    def step(self, actions: Tree) -> Any:
        expect(sum(self.steps) < 50_000, "it collects for ever")
        return super().step(actions)


class Rich(FakeManager):
    """Nested observations with images; rewards of two parts."""

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        self._check_open()
        return EnvBatch(np.arange(self.env_num), self._obs(range(self.env_num)))

    def _obs(self, ids: Any) -> Any:
        flat_obs = super()._obs(ids)
        value = 10 * flat_obs[:, 0] + flat_obs[:, 2]
        image = np.broadcast_to(value[:, None, None], (len(value), 2, 2)).astype(np.uint8)
        return {"image": image, "more": (flat_obs, flat_obs.astype(np.float64))}

    def _advance(self, ids: list[int], actions: Tree) -> Any:
        answer = super()._advance(ids, actions)
        answer.reward = np.stack([answer.reward, -answer.reward], 1)
        return answer

    @staticmethod
    def act(obs: Tree, **_: Any) -> Tree:
        """Acts in nested observations."""
        return {int(env_id): {"action": np.int64(0)} for env_id in obs}


def cut(length: int, stride: int) -> Callable[[Batch, Tail], Batch]:
    """Returns a `get_train_sample` of windows [B, L, ...]."""

    def windows(block: Batch, tail: Tail) -> Batch:
        found = []
        for start in range(0, min(len(block) - length + 1, tail.starts), stride):
            rows = {key: each[start : start + length] for key, each in block.items()}
            valid = np.flatnonzero(rows.pop("valid").all(0))
            made = {key: each.swapaxes(0, 1)[valid] for key, each in rows.items()}
            made |= {"env_id": made["env_id"][:, 0], "end": made["end"][:, -1]}
            found.append(Batch(made, len(valid)))
        return Batch.concat(found) if found else Batch({}, 0)

    return windows


def flat(block: Batch, tail: Tail) -> Batch:
    """Converts [T, N, ...] to [B, ...], without the rows that are not valid."""
    kept = tree_map(lambda leaf: leaf[: tail.starts], block.columns)
    valid = np.flatnonzero(kept.pop("valid").reshape(-1))
    rows = tree_map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[valid], kept)
    return Batch(rows, len(valid))


def follow(block: Batch, tail: Tail) -> Batch:
    """Single steps with the observations after them, by the tail."""
    after = np.empty_like(block["obs"])
    after[:-1], after[-1] = block["obs"][1:], tail.obs
    after.reshape(-1, after.shape[-1])[tail.final_index] = tail.final_obs
    return flat(Batch({**block.columns, "after": after}, len(block)), tail)


def place(obs: Tree) -> tuple[int, int, int]:
    """Returns env id, episode and step of an observation."""
    env_id, episode, step = (int(each) for each in np.asarray(array(obs)).reshape(-1))
    return env_id, episode, step


def _some(samples: Batch) -> Batch:
    return samples[np.flatnonzero(samples["obs"][:, 2] % 2 == 0)]


def _twice(samples: Batch) -> Batch:
    return Batch.concat([samples, samples])


def _rows_of(script: Script, env_id: int, count: int) -> list[tuple[int, int]]:
    """Returns episode and step of the first rows of an environment."""
    rows = [(each, t) for each in range(count) for t in range(script.length(env_id, each))]
    return rows[:count]


def _expect_whole(data: Batch, script: Script) -> list[int]:
    """Asserts that samples are whole episodes, one after the other; returns their env ids."""
    places, found = [place(obs) for obs in data["obs"]], []
    while places:
        env_id, episode, _ = places[0]
        count = script.length(env_id, episode)
        wanted = [(env_id, episode, step) for step in range(count)]
        expect(places[:count] == wanted, f"expected an episode {wanted}, got {places[:count]}")
        found.append(env_id)
        del places[:count]
    ends = int(data["end"].sum())
    expect(ends == len(found), f"{ends} ends in {len(found)} episodes")
    return found
