"""Hindsight goals: whose goals are replaced, by which, and what the environment pays for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, NonFiniteError, SchemaError, UsageError
from dicore.run.env_factory import make_env_manager
from dicore.task import OnlineRLContext
from dicore_plugins.buffers import EpisodeReplayBuffer
from dicore_plugins.env_managers.goals import GoalFunctions
from dicore_plugins.middleware import HERLearner, her_data_enhancer
from dicore_plugins.reward_models import HER

MANAGERS = ["base", "sync_subprocess", "async_subprocess", "thread", "vector"]


class Line(gymnasium.Env[Any, Any]):
    """Walks right; the goal is a place. Rewards are computed one by one, or not at all."""

    def __init__(self, form: str = "columns") -> None:
        place = gymnasium.spaces.Box(0, 100, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Dict(
            {"achieved_goal": place, "desired_goal": place}
        )
        self.action_space = gymnasium.spaces.Discrete(2)
        self.form = form

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if self.form == "nan":
            return np.full(len(achieved), np.nan)
        if self.form == "rows":
            return float(achieved.item() == desired.item()) if achieved.size == 1 else 0.5
        return (achieved == desired).all(-1).astype(np.float64)


class NoReward(Line):
    compute_reward = property()  # type: ignore[assignment]


def goals_of(env: Any) -> GoalFunctions:
    from dicore_plugins.env_managers import BaseEnvManager

    return GoalFunctions(BaseEnvManager([lambda: env]))


def episodes(*lengths: int) -> Batch:
    """Episodes that walk from 10 k on; the goals are 1000 + k."""
    obs, goal, end = [], [], []
    for k, length in enumerate(lengths):
        obs += [10 * k + step for step in range(length)]
        goal += [1000 + k] * length
        end += [step == length - 1 for step in range(length)]
    place, wanted = (np.array(each, np.float32)[:, None] for each in (obs, goal))
    return Batch({
        "obs": {"achieved_goal": place, "desired_goal": wanted},
        "next_obs": {"achieved_goal": place + 1, "desired_goal": wanted},
        "action": np.zeros(len(end), np.int64), "end": np.array(end),
        "reward": np.full(len(end), -7, np.float32), "done": np.full(len(end), 0.5, np.float32),
    })  # fmt: skip


def relabelled(lengths: tuple[int, ...] = (4, 1, 6), **options: Any) -> Batch:
    options = {"sample_per_episode": 4000, **options}
    her = HER(options, goals_of(Line()), rng=np.random.default_rng(0))
    return her.relabel(episodes(*lengths))


@pytest.mark.parametrize("replay_k", [0, 1, 4, float("inf")])
def test_the_share_of_replaced_goals(replay_k: float) -> None:
    samples = relabelled(replay_k=replay_k)
    wanted = samples["obs"]["desired_goal"][:, 0]
    own = wanted >= 1000
    share = 0 if np.isinf(replay_k) else 1 / (replay_k + 1)
    assert own.mean() == pytest.approx(share, abs=0.01)
    assert (samples["reward"][own] == -7).all()
    assert (samples["done"] == 0.5).all()  # the environment does not tell terminations


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_the_goals_are_those_of_the_strategy(strategy: str) -> None:
    samples = relabelled(strategy=strategy, replay_k=float("inf"))
    now, goal = (samples["obs"][key][:, 0] for key in ("achieved_goal", "desired_goal"))
    episode, last = now // 10, np.array([4, 11, 26])
    assert (goal // 10 == episode).all()  # never of another episode
    assert set(np.bincount(episode.astype(int))) == {4000}
    assert (samples["next_obs"]["desired_goal"] == samples["obs"]["desired_goal"]).all()
    possible = {
        "future": {(a, g) for a in range(4) for g in range(a + 1, 5)},
        "final": {(a, 4) for a in range(4)},
        "episode": {(a, g) for a in range(4) for g in range(1, 5)},
    }[strategy]
    first = episode == 0
    assert {*zip(now[first].tolist(), goal[first].tolist(), strict=True)} == possible
    assert (goal[episode == 1] == last[1]).all()
    assert (samples["reward"] == (now + 1 == goal)).all()


def test_episodes_are_not_changed_and_estimates_are_of_the_own_goal() -> None:
    data, her = episodes(3, 2), HER({}, goals_of(Line()))
    before = [data["obs"]["desired_goal"].copy(), data["reward"].copy()]
    her.relabel(data)
    assert (data["obs"]["desired_goal"] == before[0]).all()
    assert (data["reward"] == before[1]).all()
    data["next_obs"]["desired_goal"] = data["next_obs"]["achieved_goal"].copy()
    data["next_obs"]["desired_goal"][0] = 77
    assert her.estimate(data)["reward"].tolist() == [0, 1, 1, 1, 1]


@pytest.fixture(params=MANAGERS)
def goals(request: pytest.FixtureRequest) -> Iterator[GoalFunctions]:
    config = {
        "type": "bit_flip", "manager": request.param, "collector_env_num": 2, "n_bits": 4,
    }  # fmt: skip
    env = compile_config({"env": config, "policy": "random"}).env
    manager = make_env_manager(env, "collector", 0)
    manager.launch()
    yield GoalFunctions(manager)
    manager.close()


def test_every_manager_computes_rewards_in_columns(goals: GoalFunctions) -> None:
    rng = np.random.default_rng(0)
    achieved, desired = (rng.integers(0, 2, (50, 4)).astype(np.int8) for _ in range(2))
    wanted = (achieved == desired).all(1)
    reward = goals.reward(achieved, desired)
    assert reward.dtype == np.float32
    assert (reward == wanted - 1.0).all()
    assert goals.has_terminated
    assert (goals.terminated(achieved, desired) == wanted).all()


def test_rewards_computed_one_by_one() -> None:
    goals = goals_of(Line("rows"))
    place = np.arange(3, dtype=np.float32)[:, None]
    assert goals.reward(place, place[[0, 1, 1]]).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        (NoReward(), UsageError, "no compute_reward"),
        (gymnasium.make("CartPole-v1"), UsageError, "no goals"),
    ],
    ids=["no_reward", "no_goals"],
)
def test_environments_without_goals_are_refused(env: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        goals_of(env)


def test_rewards_that_are_not_finite_are_refused() -> None:
    with pytest.raises(NonFiniteError, match="compute_reward returned nan"):
        HER({"replay_k": 1e9}, goals_of(Line("nan"))).relabel(episodes(3))


@pytest.mark.parametrize("broken", ["unfinished", "flat"])
def test_episodes_that_cannot_be_relabelled(broken: str) -> None:
    data = episodes(3, 2)
    if broken == "unfinished":
        data = data[:4]
    else:
        data.columns["obs"] = data["obs"]["achieved_goal"]
    with pytest.raises(SchemaError):
        HER({}, goals_of(Line())).relabel(data)


# ---- middleware


class Learner:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.train_iter = 0
        self.batches: list[Batch] = []

    def register_hook(self, hook: Any) -> None: ...

    def train(self, data: Batch, *_: Any) -> list[Any]:
        self.train_iter += 1
        self.batches.append(data)
        return [{}]


def test_the_middleware_draws_samples_of_episodes() -> None:
    cfg = compile_config({
        "env": "bit_flip",
        "policy": {"type": "dqn", "learn": {"batch_size": 12, "update_per_collect": 3}},
    }).cfg  # fmt: skip
    buffer = EpisodeReplayBuffer({}, rng=np.random.default_rng(0))
    her = HER({"sample_per_episode": 4, "replay_k": float("inf")}, goals_of(Line()))
    learner, ctx = Learner(), OnlineRLContext()
    learn, enhance = HERLearner(cfg, learner, buffer, her), her_data_enhancer(cfg, buffer, her)
    for stage in (learn, enhance):
        stage(ctx)
    assert (ctx.train_iter, ctx.train_data, learner.batches) == (0, None, [])
    data = episodes(5, 6)
    buffer.push(Batch({**data.columns, "env_id": np.zeros(11, np.int64)}))
    for stage in (learn, enhance):
        stage(ctx)
    assert ctx.train_iter == 3
    for batch in (ctx.train_data, *learner.batches):
        assert len(batch) == 12  # 3 episodes, 4 samples each
        assert (batch["obs"]["desired_goal"] < 1000).all()
        assert len(np.unique(batch["obs"]["desired_goal"][:4] // 10)) == 1


def test_a_reward_model_without_goals_is_refused() -> None:
    cfg = compile_config({"env": "bit_flip", "policy": "dqn"}).cfg
    with pytest.raises(UsageError, match="does not replace goals"):
        her_data_enhancer(cfg, None, object())


def test_a_batch_of_samples_is_no_number_of_episodes() -> None:
    """Hindsight draws several samples of an episode, so few episodes make a large batch."""
    policy: dict[str, Any] = {
        "type": "dqn", "learn": {"batch_size": 256},
        "other": {"replay_buffer": {"type": "episode", "replay_buffer_size": 100}},
    }  # fmt: skip
    relabelled = {**policy, "reward_model": "her"}
    compiled = compile_config({"env": {"type": "bit_flip"}, "policy": relabelled})
    assert compiled.policy.learn.batch_size == 256
    with pytest.raises(ConfigError, match=r"must be <= 100, the capacity"):
        compile_config({"env": {"type": "bit_flip"}, "policy": policy})
