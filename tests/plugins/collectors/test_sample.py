"""The sample collector over environments that keep a journal: every sample against the journal."""

from __future__ import annotations

import copy
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import optree
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.collectors.base import EpisodeStatistics
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.functional.samples import nstep_samples
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy, RandomPolicy
from tests.plugins.env_managers.toy_envs import SpaceEnv, manager_of

from .toy_envs import Journal, Step, expected_samples

N, GAMMA = 3, 0.9


class World:
    """A collector over N journals; everything drawn anew from one seed."""

    def __init__(
        self,
        nstep: int = 1,
        abnormal: dict[int, tuple[int, ...]] | None = None,
        log: Any = None,
        manager: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        seed_everything(0)
        torch.manual_seed(0)
        self.journals: list[list[Step]] = [[] for _ in range(N)]
        bad = abnormal or {}
        self.manager = BaseEnvManager(
            [lambda i=i: Journal(self.journals[i], bad.get(i, ())) for i in range(N)], manager
        )
        self.manager.seed(0)
        self.policy = DQNPolicy({"nstep": nstep, "discount_factor": GAMMA}, model=DQN(2, 3, (4,)))
        self.collector = SampleCollector(options, self.manager, self.policy.collect_mode, log=log)

    def collect(self, n_sample: int, **options: Any) -> Batch:
        options.setdefault("policy_kwargs", {"eps": 0.5})
        return self.collector.collect_batch(n_sample=n_sample, **options)


def equal(one: Batch, two: Batch) -> None:
    assert list(one.keys()) == list(two.keys())
    for key, column in one.items():
        assert column.dtype == two[key].dtype
        np.testing.assert_array_equal(column, two[key], err_msg=key)


def close(row: Any, expected: Step) -> bool:
    return all(np.allclose(row[key], expected[key], atol=1e-5) for key in expected if key in row)


@pytest.mark.parametrize("n_sample", [1, N, N + 1, 2 * N + 3])
@pytest.mark.parametrize("nstep", [1, 3, 5])
def test_exactly_as_many_as_asked(n_sample: int, nstep: int) -> None:
    world = World(nstep)
    for train_iter in range(4):
        rows = world.collector.collect(n_sample, train_iter)
        assert len(rows) == n_sample
        assert {int(row["collect_iter"]) for row in rows} == {train_iter}
    steps = sum(map(len, world.journals))
    assert world.collector.envstep == steps == 4 * N * -(-n_sample // N) + N * (nstep - 1)
    assert world.collector.total_train_sample_count == 4 * n_sample


def test_what_the_last_step_brought_may_be_kept() -> None:
    world = World()
    assert len(world.collect(N + 1, drop_extra=False)) == 2 * N
    assert len(world.collect(N + 1)) == N + 1


@pytest.mark.parametrize("nstep", [1, 3, 5])
def test_small_collects_are_one_large_collect(nstep: int) -> None:
    whole = World(nstep).collect(24 * N)
    world = World(nstep)
    sizes = [1, 2, 5, 1, 8, 3, 4]
    equal(Batch.concat([world.collect(size * N) for size in sizes]), whole)


@pytest.mark.parametrize("nstep", [1, 2, 3, 5])
def test_samples_are_those_of_the_journal(nstep: int) -> None:
    world = World(nstep)
    data = Batch.concat([world.collect(size * N) for size in (7, 1, 1, 30)])
    ends = {(step["end"], step["terminated"]) for each in world.journals for step in each}
    assert ends == {(False, False), (True, False), (True, True)}
    for env_id, journal in enumerate(world.journals):
        expected = expected_samples(journal, nstep, GAMMA)
        rows = data[np.arange(env_id, len(data), N)].rows()
        assert len(rows) == len(expected)
        assert all(close(row, each) for row, each in zip(rows, expected, strict=True))
    assert ("value_gamma" in data) == (nstep > 1)
    dtypes = [data[key].dtype for key in ("obs", "action", "reward", "done", "collect_iter")]
    assert dtypes == [np.float32, np.int64, np.float32, np.float32, np.int64]


def test_a_truncated_end_bootstraps_and_a_terminated_one_does_not() -> None:
    """The target of a cut episode's last step is r + gamma V(s'), not r."""
    world = World()
    data = world.collect(30 * N)
    journal = [world.journals[i % N][i // N] for i in range(len(data))]
    target = world.policy._target(data.to_torch()).numpy()
    with torch.no_grad():
        value = world.policy.get_attribute("model").q(torch.as_tensor(data["next_obs"])).amax(1)
    for step, y, boot in zip(journal, target, value.numpy(), strict=True):
        expected = step["reward"] + (0 if step["terminated"] else GAMMA * boot)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nstep", [1, 3])
def test_a_manager_that_does_not_reset_by_itself_is_reset(nstep: int) -> None:
    whole = World(nstep, {1: (4,)}).collect(30 * N)
    equal(World(nstep, {1: (4,)}, manager={"auto_reset": False}).collect(30 * N), whole)


def test_most_of_it_dropped_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(n_sample=1)
    assert [len(world.collector.collect()) for _ in range(3)] == [1, 1, 1]
    assert [record.getMessage()[:32] for record in caplog.records] == [
        "2 of 3 collected samples are dro"
    ]
    caplog.clear()
    World(n_sample=N + 2).collect(None)
    World(n_sample=N).collect(1)
    assert not caplog.records, "half of it used, and what somebody asks for by hand"


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("space", [spaces.Dict, spaces.Tuple])
def test_nested_observations_go_on_after_a_restore(nstep: int, space: Any, tmp_path: Path) -> None:
    """Through files, as a resumed run does."""
    parts = [spaces.Box(-1, 1, (2,)), spaces.Dict(deep=spaces.Discrete(3))]
    shown = space(dict(zip("ab", parts, strict=True)) if space is spaces.Dict else tuple(parts))

    def collector() -> SampleCollector:
        manager = manager_of(SpaceEnv(shown, 4), SpaceEnv(shown, 6))
        policy = RandomPolicy(action_space=spaces.Discrete(3), like=Bridging(nstep))
        return SampleCollector({}, manager, policy.collect_mode)

    one, two = collector(), collector()
    one.collect_batch(n_sample=10)
    write_state(tmp_path / "state", one.state_dict())
    two.load_state_dict(read_state(tmp_path / "state"))
    assert two.envstep == one.envstep
    data = two.collect_batch(n_sample=10)
    assert len(data) == 10
    assert optree.tree_structure(data["next_obs"]) == optree.tree_structure(shown.sample())
    two.collect_batch(n_sample=2)


class Bridging:
    """A hand-made collect mode of n-step samples."""

    def __init__(self, nstep: int) -> None:
        self.nstep = nstep

    def get_attribute(self, name: str) -> Any:
        return {"nstep": self.nstep}[name]

    def process_transition(self, obs: Any, output: Any, timestep: Any) -> Any:
        return {
            "obs": obs,
            "next_obs": timestep.obs,
            "action": output["action"],
            "reward": timestep.reward,
            "done": timestep.terminated,
        }

    def get_train_sample(self, block: Batch, tail: Any) -> Batch:
        return nstep_samples(block, self.nstep, GAMMA, tail)


@pytest.mark.parametrize("nstep", [1, 3, 5])
def test_no_sample_spans_an_abnormal_step(nstep: int) -> None:
    world = World(nstep, abnormal={1: (5, 17), 2: (1,)})
    data = world.collect(40 * N)
    assert len(data) == 40 * N
    allowed = [
        each for journal in world.journals for each in expected_samples(journal, nstep, GAMMA)
    ]
    by_obs = {each["obs"].tobytes(): each for each in allowed}
    assert all(close(row, by_obs[row["obs"].tobytes()]) for row in data)
    starts = {row["obs"].tobytes() for row in data}
    for journal in world.journals:
        spoilt = {step["episode"] for step in journal if step["abnormal"]}
        dropped = [step["obs"].tobytes() for step in journal if step["episode"] in spoilt]
        assert not starts & set(dropped)
    kept = sum(
        step["episode"] not in {each["episode"] for each in journal if each["abnormal"]}
        for journal in world.journals
        for step in journal
    )
    assert world.collector.envstep == kept
    ended = sum(step["end"] for journal in world.journals for step in journal)
    assert world.collector.total_episode_count == ended


def test_an_abnormal_step_resets_that_environment_and_its_policy_state_alone() -> None:
    world = World(abnormal={1: (5,)})
    forgotten: list[Any] = []
    mode = world.policy.collect_mode._replace(reset=lambda ids=None: forgotten.append(ids))
    world.collector.reset_policy(mode)
    forgotten.clear()
    world.collect(5 * N)
    assert world.journals[1][4]["abnormal"]
    assert [1] in forgotten
    for env_id, journal in enumerate(world.journals):
        assert len(journal) > 5
        for step, following in pairwise(journal):
            begins = step["end"] or (env_id == 1 and step is journal[4])
            assert following["episode"] - step["episode"] == int(begins)


@pytest.mark.parametrize("nstep", [1, 3])
def test_a_policy_is_swapped_while_the_environments_run(nstep: int) -> None:
    """Random, then DQN, then a mode with other columns; no episode is begun for it."""
    world = World(nstep)
    random = RandomPolicy(action_space=world.manager.action_space, like=world.policy.collect_mode)
    world.collector.reset_policy(random.collect_mode)
    world.collect(10 * N)
    world.collector.reset_policy(world.policy.collect_mode)
    world.collect(10 * N, policy_kwargs={"eps": 0.0})
    begin = len(world.journals[0])
    process = world.policy.collect_mode.process_transition

    def with_logit(obs: Any, output: Any, timestep: Any) -> Any:
        return {**process(obs, output, timestep), "logit": output["logit"]}

    always_two = world.policy.collect_mode._replace(
        process_transition=with_logit,
        forward=lambda obs, **_: obs.with_value(
            {"action": np.full(N, 2), "logit": np.ones((N, 3), np.float32)}
        ),
    )
    world.collector.reset_policy(always_two)
    data = world.collect(10 * N)
    assert (data["action"] == 2).all()
    assert data["logit"].shape == (10 * N, 3)
    for journal in world.journals:
        assert {step["action"] for step in journal[begin:]} == {2}
        assert all(b["episode"] - a["episode"] == a["end"] for a, b in pairwise(journal))


def test_warm_up_continues_into_the_policy() -> None:
    """Samples of random and of trained acting have the same columns; none is lost between them."""
    world = World(3)
    random = RandomPolicy(action_space=world.manager.action_space, like=world.policy.collect_mode)
    world.collector.reset_policy(random.collect_mode)
    first = world.collect(6 * N, random_collect=True)
    world.collector.reset_policy(world.policy.collect_mode)
    data = Batch.concat([first, world.collect(6 * N)])
    for env_id, journal in enumerate(world.journals):
        rows = data[np.arange(env_id, len(data), N)].rows()
        expected = expected_samples(journal, 3, GAMMA)
        assert all(close(row, each) for row, each in zip(rows, expected, strict=True))


def test_warm_up_may_go_uncounted() -> None:
    world = World()
    world.collect(4 * N, random_collect=True, record_random_collect=False)
    assert (world.collector.envstep, world.collector.total_train_sample_count) == (0, 0)
    world.collect(4 * N, random_collect=True)
    assert world.collector.envstep == 4 * N


def test_on_policy_data_is_of_the_present_policy_only() -> None:
    for on_policy in (False, True):
        world = World(3)
        mode = world.policy.collect_mode
        facts = {"nstep": 3, "on_policy": on_policy, "n_sample": 8}
        world.collector.reset_policy(mode._replace(get_attribute=facts.__getitem__))
        world.collect(4 * N)
        second = world.collect(4 * N)
        first_obs = world.journals[0][6 if on_policy else 4]["obs"]
        assert (second["obs"][0] == first_obs).all()


@pytest.mark.parametrize("nstep", [1, 3])
def test_the_state_goes_round(nstep: int) -> None:
    world = World(nstep)
    world.collect(7 * N)
    state = copy.deepcopy(world.collector.state_dict())
    twin = SampleCollector({}, None, world.policy.collect_mode)
    twin.load_state_dict(state)
    facts = ("envstep", "total_episode_count", "total_train_sample_count")
    assert [getattr(twin, f) for f in facts] == [getattr(world.collector, f) for f in facts]
    assert twin.total_episode_count > 0
    rest = World(nstep)
    rest.collect(7 * N)
    rest.collector.load_state_dict(state)
    equal(rest.collect(5 * N), world.collect(5 * N))
    assert rest.collector.envstep == world.collector.envstep


def test_reset_forgets_and_begins_anew() -> None:
    world = World(3)
    world.collect(9 * N)
    episodes = [journal[-1]["episode"] for journal in world.journals]
    world.collector.reset()
    assert (world.collector.envstep, world.collector.total_episode_count) == (0, 0)
    assert world.collector.state_dict()["partial"] is None
    first = world.collect(N)
    for env_id, journal in enumerate(world.journals):
        begun = next(step for step in journal if step["episode"] > episodes[env_id])
        assert (first["obs"][env_id] == begun["obs"]).all()
    world.collector.envstep = 1_000
    world.collect(N)
    assert world.collector.envstep == 1_000 + N


def test_another_manager_is_launched_and_used() -> None:
    world, other = World(), BaseEnvManager([lambda: gymnasium.make("CartPole-v1")] * 5)
    world.collector.reset_env(other)
    assert not other.closed
    mode = DQNPolicy({}, model=DQN(4, 2, (4,))).collect_mode
    world.collector.reset_policy(mode)
    data = world.collect(10)
    assert data["obs"].shape == (10, 4)
    world.collector.close()
    world.manager.close()


def test_the_configured_number_is_the_default() -> None:
    assert len(World().collector.collect()) == 8
    assert len(World(n_sample=5).collector.collect()) == 5


def test_ends_of_pieces_are_told() -> None:
    world = World()
    data = world.collect(20 * N)
    ends = [world.journals[i % N][i // N]["end"] for i in range(len(data) - N)] + [True] * N
    assert world.collector.trajectory_end_idx.tolist() == np.flatnonzero(ends).tolist()


def test_changing_a_row_of_the_next_collect_leaves_this_one_alone() -> None:
    world = World(3)
    data = world.collect(4 * N)
    kept = data.copy()
    for column in world.collect(4 * N).columns.values():
        column[...] = 7
    equal(data, kept)


def test_equal_batches_share_their_schema() -> None:
    world = World(3)
    schemas = [world.collect(size).schema for size in (6, 9, 4)]
    assert schemas[0] is schemas[1] is schemas[2]
    assert schemas[0] is not None


class Log:
    def __init__(self) -> None:
        self.lines: list[Any] = []

    def log_scalars(self, scalars: Any, *, env_step: int, train_iter: int) -> None:
        self.lines.append((dict(scalars), env_step, train_iter))


def test_statistics_that_nobody_asks_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore_plugins.collectors.base._MOST", 3)
    statistics = EpisodeStatistics()
    for number in range(5):
        statistics.add({"eval_episode_return": float(number), "episode_length": 2})
    assert statistics.episode_count == 3
    assert statistics.summary()["reward_min"] == 2.0


def test_what_is_logged() -> None:
    log = Log()
    world = World(log=log, collect_print_freq=10)
    for train_iter in (0, 4, 9, 10, 12, 21):
        world.collect(10 * N, train_iter=train_iter)
    assert [line[2] for line in log.lines] == [0, 10, 21]
    assert [line[1] for line in log.lines] == [10 * N, 40 * N, 60 * N]
    wanted = {
        *("episode_count", "envstep_count", "avg_envstep_per_episode", "avg_envstep_per_sec"),
        *("train_sample_count", "avg_train_sample_per_episode", "avg_train_sample_per_sec"),
        *("reward_mean", "reward_std", "reward_max", "reward_min", "collect_time"),
        *("total_envstep_count", "total_episode_count", "total_train_sample_count"),
    }
    assert {f"collector/{name}" for name in wanted} <= set(log.lines[0][0])
    assert log.lines[0][0]["env/restarts"] == 0
    returns = []
    for journal in world.journals:
        total = 0.0
        for step in journal[:10]:
            total += step["reward"]
            if step["end"]:
                returns.append(total)
                total = 0.0
    first = log.lines[0][0]
    assert first["collector/episode_count"] == len(returns)
    counts = [line[0]["collector/train_sample_count"] for line in log.lines]
    assert counts == [10 * N, 30 * N, 20 * N]
    each = first["collector/avg_train_sample_per_episode"]
    assert each == pytest.approx(10 * N / len(returns))
    assert first["collector/reward_mean"] == pytest.approx(np.mean(returns), rel=1e-4)
    assert first["collector/reward_max"] == pytest.approx(max(returns), rel=1e-4)


def test_a_part_that_is_missing_is_told() -> None:
    world = World()
    with pytest.raises(UsageError, match="no policy"):
        SampleCollector({}, world.manager).collect(3)
    collector = SampleCollector({}, None, world.policy.collect_mode)
    with pytest.raises(UsageError, match="no env"):
        collector.collect(3)
    collector.close()


def test_what_is_no_collect_mode_is_told_so() -> None:
    world = World()
    for given, says in (
        (world.policy, "got DQNPolicy, which has no .*; pass policy.collect_mode, not the policy"),
        (world.policy.eval_mode, "got EvalMode, which has no process_transition, get_train_sample"),
        (world.manager, "got BaseEnvManager"),
        (DQNPolicy, "got DQNPolicy"),
    ):
        with pytest.raises(UsageError, match="expected the collect mode of a policy") as told:
            SampleCollector(None, world.manager, given)
        assert re.search(says, f"{told.value.message}; {told.value.hint}")


@pytest.mark.parametrize("count", [0, -1, 2.5, "5"])
def test_a_number_of_samples_is_a_whole_one(count: Any) -> None:
    with pytest.raises(UsageError, match=f"cannot collect {count!r} samples"):
        World().collect(count)


@pytest.mark.parametrize(
    ("function", "answer", "says"),
    [
        ("forward", None, "from env id to value, got NoneType"),
        ("forward", dict.fromkeys(range(N), 0), "a dict of columns with 'action'; got ndarray"),
        ("process_transition", None, "a dict of columns; got NoneType"),
    ],
)
def test_answers_of_a_mode_in_another_form_are_told(function: str, answer: Any, says: str) -> None:
    world = World()
    odd = world.policy.collect_mode._replace(**{function: lambda *_, **__: answer})
    with pytest.raises(SchemaError, match=says):
        SampleCollector(None, world.manager, odd).collect_batch(n_sample=6)
