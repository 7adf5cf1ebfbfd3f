"""The sample collector against a plain model: any calls, any windows, any manager.

Observations tell env id, episode and step, so that each sample shows which rows it is made of; what
it has to contain follows from the script of the environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicore.data import Batch, EnvBatch
from dicore.errors import UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.testing.compare import difference
from dicore.testing.fakes import DelayedEnvManager, FakeCollectMode, FakeManager, Script
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.functional.samples import (
    next_obs_of,
    nstep_samples,
    sequences,
    transitions,
)

GAMMA = 0.5
Place = tuple[int, int, int]


@dataclass(frozen=True)
class World:
    """What the environments do, how they are stepped, and which samples are wanted."""

    num_envs: int
    lengths: tuple[int, ...]
    bad: tuple[int, ...]
    window: str
    length: int
    stride: int
    on_policy: bool
    delayed: bool
    nested: bool
    skip: bool

    def script(self) -> Script:
        return Script(self.steps_of, self.cut, self.reward, frozenset(self.abnormal()))

    def steps_of(self, env: int, episode: int) -> int:
        return self.lengths[(5 * env + 3 * episode) % len(self.lengths)]

    def cut(self, env: int, episode: int) -> bool:
        return (env + episode) % 2 == 0

    def reward(self, env: int, episode: int, step: int) -> float:
        return float(100 * env + 10 * episode + step)

    def abnormal(self) -> list[Place]:
        found = []
        for number in self.bad:
            env, episode = number % self.num_envs, number // self.num_envs % 7
            found.append((env, episode, number % self.steps_of(env, episode)))
        return found

    def spoilt(self, env: int, episode: int, step: int = 99) -> bool:
        return any((env, episode) == bad[:2] and step >= bad[2] for bad in self.abnormal())

    def manager(self) -> Any:
        made = (
            Nested(self.num_envs, self.script())
            if self.nested
            else FakeManager(self.num_envs, self.script())
        )
        return DelayedEnvManager(made) if self.delayed else made

    def collector(self) -> SampleCollector:
        return SampleCollector({}, self.manager(), self.mode())

    def mode(self) -> Any:
        facts = {
            "sample_len": "episode" if self.window == "episode" else self.length,
            "sample_stride": self.stride,
            "on_policy": self.on_policy,
        }
        return Mode(facts=facts, world=self).mode


class Nested(FakeManager):
    """Its observations are dicts with a tuple."""

    def _obs(self, ids: Any) -> Any:
        flat = super()._obs(ids)
        return {"place": flat, "more": (flat[:, 0].astype(np.uint8), flat[:, None].astype(float))}

    @property
    def ready_obs(self) -> Any:
        self._check_open()
        return EnvBatch(np.arange(self.env_num), self._obs(range(self.env_num)))


@dataclass
class Mode(FakeCollectMode):
    """A collect mode with real samples; it may leave out those of odd steps."""

    world: Any = None
    seen: list[Any] = field(default_factory=list)

    @property
    def mode(self) -> Any:
        made = super().mode
        return made._replace(
            forward=self._act, process_transition=self._columns, get_train_sample=self._samples
        )

    def _act(self, obs: Mapping[int, Any], **kwargs: Any) -> Any:
        place = obs.value["place"] if self.world.nested else obs.value  # type: ignore[attr-defined]
        assert place[:, 0].tolist() == obs.env_id.tolist()  # type: ignore[attr-defined]
        return {int(each): {"action": np.int64(each)} for each in obs}

    def _columns(self, obs: Any, output: Any, timestep: Any) -> dict[str, Any]:
        return {
            "obs": obs,
            "action": output["action"],
            "reward": timestep.reward,
            "done": timestep.terminated,
        }

    def _samples(self, block: Batch, tail: Any) -> Batch:
        world = self.world
        if world.window == "nstep":
            made = nstep_samples(block, world.length, GAMMA, tail)
        elif world.window == "sequence":
            made = sequences(
                Batch({**block.columns, "next_obs": next_obs_of(block, tail)}, len(block)),
                world.length,
                world.stride,
                tail,
            )
        else:
            made = transitions(block, tail)
        if world.skip and len(made):
            first = made["obs"]["place"] if world.nested else made["obs"]
            made = made[np.flatnonzero(first.reshape(len(made), -1)[:, 2] % 2 == 0)]
        return made


def places(obs: Any) -> list[Place]:
    leaf = obs["place"] if isinstance(obs, dict) else obs
    return [tuple(int(x) for x in row) for row in leaf.reshape(-1, 3)]


def check_nested(world: World, obs: Any) -> None:
    if world.nested:
        flat = obs["place"]
        np.testing.assert_array_equal(obs["more"][0], flat[..., 0].astype(np.uint8))
        np.testing.assert_array_equal(obs["more"][1], flat[..., None, :])


def check(world: World, data: Batch) -> None:
    """Checks the content of each sample by the place of its first row."""
    check_nested(world, data["obs"])
    check_nested(world, data["next_obs"])
    rows = world.length if world.window == "sequence" else 1
    begins, nexts = places(data["obs"]), places(data["next_obs"])
    for index in range(len(data)):
        here = begins[index * rows : (index + 1) * rows]
        after = nexts[index * rows : (index + 1) * rows]
        env, episode, step = here[0]
        assert int(data["env_id"][index]) == env
        for offset, (row, then) in enumerate(zip(here, after, strict=True)):
            where = f"{here} -> {after}"
            assert not world.spoilt(*row), where
            last = row[2] == world.steps_of(*row[:2]) - 1
            if offset:
                previous = here[offset - 1]
                ended = previous[2] == world.steps_of(*previous[:2]) - 1
                wanted = (env, previous[1] + 1, 0) if ended else (env, previous[1], previous[2] + 1)
                assert row == wanted, where
            bridged = 1
            if world.window == "nstep":
                bridged = min(world.length, world.steps_of(env, episode) - step)
            assert then == (*row[:2], row[2] + bridged), where
            value = {
                key: np.asarray(data[key][index]).reshape(rows, -1)[offset, 0]
                for key in ("reward", "done", "end", "action")
            }
            assert value["end"] == last, where
            over = row[2] + bridged == world.steps_of(*row[:2])
            assert value["done"] == (over and not world.cut(*row[:2])), where
            assert value["action"] == env
            total = sum(GAMMA**k * world.reward(env, row[1], row[2] + k) for k in range(bridged))
            assert value["reward"] == pytest.approx(total), where
        if world.window == "nstep":
            assert data["value_gamma"][index] == np.float32(GAMMA**bridged)


def starts_of(world: World, data: Batch) -> list[list[Place]]:
    rows = world.length if world.window == "sequence" else 1
    found: list[list[Place]] = [[] for _ in range(world.num_envs)]
    for place in places(data["obs"])[::rows]:
        found[place[0]].append(place)
    return found


def read_back(state: Any) -> Any:
    with TemporaryDirectory() as place:
        write_state(Path(place) / "state", state)
        return read_state(Path(place) / "state")


def _fitting(world: World) -> World:
    length, stride = world.length, min(world.stride, world.length)
    if world.window in ("step", "episode"):
        length = stride = 1
    if world.window == "nstep":
        stride = 1
    skip = world.skip and stride == 1
    return World(**{**vars(world), "length": length, "stride": stride, "skip": skip})


worlds = st.builds(
    World,
    num_envs=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple),
    bad=st.lists(st.integers(0, 60), max_size=3).map(tuple),
    window=st.sampled_from(["step", "nstep", "sequence", "episode"]),
    length=st.integers(1, 5),
    stride=st.integers(1, 5),
    on_policy=st.booleans(),
    delayed=st.booleans(),
    nested=st.booleans(),
    skip=st.booleans(),
).map(_fitting)


@dataclass(frozen=True)
class Call:
    unit: str
    count: int
    stop_after: int | None
    reuse: bool
    reload: bool


calls = st.lists(
    st.builds(
        Call,
        unit=st.sampled_from(["n_sample"] * 4 + ["n_episode"]),
        count=st.integers(1, 13),
        stop_after=st.none() | st.integers(0, 6),
        reuse=st.booleans(),
        reload=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


class Stop:
    def __init__(self, after: int | None) -> None:
        self.left = after

    def __call__(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=worlds, plan=calls)
def test_any_calls_give_right_samples(world: World, plan: list[Call]) -> None:
    manager = world.manager()
    collector = SampleCollector({}, manager, world.mode())
    seen: list[list[Place]] = [[] for _ in range(world.num_envs)]
    kept: list[tuple[Batch, Batch]] = []
    interrupted = False
    for call in plan:
        stop = Stop(call.stop_after)
        wanted = {call.unit: call.count}
        try:
            data = collector.collect_batch(**wanted, should_stop=stop, reuse=call.reuse)
        except UsageError:
            assert call.unit == "n_episode"
            assert world.window == "sequence" or world.skip  # short episodes alone
            continue
        resumed, interrupted = interrupted, not len(data)
        assert interrupted <= (call.stop_after is not None)
        for old, copied in kept:
            equal(old, copied)
        if len(data):
            _check_call(world, call, data, seen, resumed=resumed)
            kept += [] if call.reuse else [(data, data.copy())]
        if call.reload:
            manager.load_state_dict(manager.state_dict())  # no action is pending
            collector.load_state_dict(read_back(collector.state_dict()))


def _check_call(
    world: World, call: Call, data: Batch, seen: list[list[Place]], *, resumed: bool
) -> None:
    check(world, data)
    for env, starts in enumerate(starts_of(world, data)):
        assert starts == sorted(set(starts))
        assert not (starts and seen[env]) or starts[0] > seen[env][-1]
        seen[env] += starts
    if call.unit == "n_sample" and world.window != "episode":
        assert len(data) == call.count
    elif not world.skip and world.window != "sequence":
        _check_whole(world, data, call, resumed=resumed)


def _check_whole(world: World, data: Batch, call: Call, *, resumed: bool) -> None:
    """Whole episodes: each from its first row to its last; numbers per env as even as possible."""
    found = places(data["obs"])
    position = 0
    episodes = [0] * world.num_envs
    while position < len(found):
        env, episode, step = found[position]
        assert step == 0
        count = world.steps_of(env, episode)
        wanted = [(env, episode, each) for each in range(count)]
        assert found[position : position + count] == wanted
        position += count
        episodes[env] += 1
    assert data["end"].sum() == sum(episodes)
    if call.unit == "n_episode" and not resumed:
        assert sum(episodes) == call.count
        assert max(episodes) - min(episodes) <= 1


def world_of(window: str, **more: Any) -> World:
    facts: dict[str, Any] = {
        "num_envs": 3, "lengths": (4, 2, 6), "bad": (), "window": window, "length": 1, "stride": 1,
        "on_policy": False, "delayed": False, "nested": False, "skip": False,
    }  # fmt: skip
    if window == "nstep":
        facts["length"] = 3
    if window == "sequence":
        facts |= {"length": 4, "stride": 3}
    return World(**{**facts, **more})


WINDOWS = pytest.mark.parametrize("window", ["step", "nstep", "sequence", "episode"])
DELAYED = pytest.mark.parametrize("delayed", [False, True], ids=["lockstep", "delayed"])


def per_env(world: World, data: Batch) -> list[Batch]:
    return [data[np.flatnonzero(data["env_id"] == env)] for env in range(world.num_envs)]


def equal(one: Batch, two: Batch) -> None:
    assert not difference(one.columns, two.columns)


@WINDOWS
@DELAYED
def test_small_calls_give_what_one_large_call_gives(window: str, delayed: bool) -> None:
    world = world_of(window, delayed=delayed, bad=(7,) if delayed else ())
    whole = world.collector().collect_batch(n_sample=60)
    small = world.collector()
    pieces = [small.collect_batch(n_sample=each) for each in (3, 6, 3, 12, 3, 33)]
    for one, many in zip(per_env(world, whole), per_env(world, Batch.concat(pieces)), strict=True):
        count = min(len(one), len(many))  # the last call may end in the middle of a step
        assert count >= 8
        equal(one[:count], many[:count])


@WINDOWS
@DELAYED
@pytest.mark.parametrize("unit", ["n_sample", "n_episode"])
@pytest.mark.parametrize("reload", [False, True])
def test_an_interrupted_call_goes_on(window: str, delayed: bool, unit: str, reload: bool) -> None:
    if delayed and reload:
        pytest.skip("what is under way is not restored, so other environments answer first")
    world = world_of(window, delayed=delayed, nested=True)
    wanted = {unit: 14}
    whole = world.collector()
    expected = [whole.collect_batch(**wanted) for _ in range(2)]
    manager = world.manager()
    collector = SampleCollector({}, manager, world.mode())
    found = []
    for after in (0, 1, 1, None, 1, 0, None):
        data = collector.collect_batch(**wanted, should_stop=Stop(after))
        assert bool(len(data)) == (after is None)
        found += [data] if len(data) else []
        if reload:
            state = read_back(collector.state_dict())
            collector.load_state_dict(state)
    for one, other in zip(expected, found, strict=True):
        equal(one, other)
    facts = ("envstep", "total_episode_count", "total_train_sample_count")
    assert [getattr(whole, each) for each in facts] == [getattr(collector, each) for each in facts]
