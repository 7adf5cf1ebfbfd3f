"""Two policies in one environment: samples, episodes and returns of each side, videos on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.data import Batch, EnvBatch
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import EvalMode
from dicore_compat.collectors import BattleEpisodeCollector, BattleSampleCollector, sides_of
from dicore_compat.evaluators import BattleEvaluator
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.policies import DQNPolicy


class Race(gymnasium.Env[Any, Any]):
    """Each agent's number grows by its action (0, 1 or 2); the reward is the difference."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium has it
    observation_space = spaces.Box(-np.inf, np.inf, (2, 2), np.float32)
    action_space = spaces.MultiDiscrete([3, 3])
    reward_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode

    def _obs(self) -> Any:
        return np.stack([self.at, self.at[::-1]], 1).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at, self.steps = np.zeros(2), 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.at = self.at + action
        self.steps += 1
        reward = (action - action[::-1]).astype(np.float32)
        return self._obs(), reward, self.steps == self.length, False, {}

    def render(self) -> Any:
        return np.zeros((32, 32, 3), np.uint8)


def manager(num: int = 2, **options: Any) -> BaseEnvManager:
    return BaseEnvManager([lambda: Race(**options)] * num)


class Always:
    """Acts with one action."""

    def __init__(self, action: int) -> None:
        policy = DQNPolicy({"model": {"obs_shape": 2, "action_shape": 3}})
        fixed = lambda obs, **_: self.act(obs, action)  # noqa: E731
        self.collect_mode = policy.collect_mode._replace(forward=fixed)
        self.eval_mode: EvalMode = policy.eval_mode._replace(forward=fixed)

    @staticmethod
    def act(obs: Any, action: int) -> Any:
        return EnvBatch(obs.env_id, {"action": np.full(len(obs), action)})


def modes(field: str = "collect_mode", actions: tuple[int, ...] = (2, 1)) -> list[Any]:
    return [getattr(Always(action), field) for action in actions]


def test_each_side_has_its_own_samples() -> None:
    collector = BattleSampleCollector({}, manager(), modes())
    mine, theirs = collector.collect(n_sample=20)
    assert len(mine) == len(theirs) == 20
    assert collector.envstep == 20
    for rows, action, reward in ((mine, 2, 1.0), (theirs, 1, -1.0)):
        for row in rows:
            assert (int(row["action"]), float(row["reward"])) == (action, reward)
            step = int(row["obs"][0]) // action
            assert row["obs"].tolist() == [step * action, step * (3 - action)]
            assert row["next_obs"].tolist() == [(step + 1) * action, (step + 1) * (3 - action)]
            assert bool(row["done"]) == (step == 4)


def test_batches_hold_both_sides_and_small_ones_are_those_of_a_large_one() -> None:
    large = BattleSampleCollector({}, manager(), modes()).collect_batch(n_sample=24)
    small = BattleSampleCollector({}, manager(), modes())
    found = Batch.concat([small.collect_batch(n_sample=8) for _ in range(3)])
    for one, other in zip(sides_of(large), sides_of(found), strict=True):
        assert (one["obs"] == other["obs"]).all()
        assert (one["end"] == other["end"]).all()


def test_whole_episodes_of_each_side() -> None:
    collector = BattleEpisodeCollector({}, manager(3, length=4), modes())
    mine, theirs = collector.collect(n_episode=5)
    assert [len(each) for each in mine] == [len(each) for each in theirs] == [4] * 5
    assert all(episode[-1]["done"] and "next_obs" in episode[0] for episode in mine)
    assert {int(row["action"]) for episode in theirs for row in episode} == {1}
    made = BattleEpisodeCollector({"get_train_sample": True}, manager(), modes())
    assert len(made.collect(n_episode=2)[1]) == 2


def test_policies_are_replaced_by_two_or_by_one() -> None:
    collector = BattleSampleCollector({}, manager(), modes())
    collector.collect(n_sample=4)
    collector.reset_policy(modes(actions=(0, 0)))
    mine, theirs = collector.collect(n_sample=4)
    assert {float(row["reward"]) for row in (*mine, *theirs)} == {0.0}
    state = collector.state_dict()
    twin = BattleSampleCollector({}, manager(), modes(actions=(0, 0)))
    twin.load_state_dict(state)
    assert twin.envstep == collector.envstep == 8
    single = BattleSampleCollector({}, BaseEnvManager([lambda: gymnasium.make("CartPole-v1")]))
    single.reset_policy(DQNPolicy({"model": {"obs_shape": 4, "action_shape": 2}}).collect_mode)
    assert isinstance(single.collect(n_sample=3), list)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="a battle has 2 policies, got 3"):
        BattleSampleCollector({}, manager(), modes(actions=(0, 1, 2)))
    nstep = DQNPolicy({"nstep": 3, "model": {"obs_shape": 2, "action_shape": 3}})
    with pytest.raises(UsageError, match="sample_len 1 and 3"):
        BattleSampleCollector({}, manager(), [modes()[0], nstep.collect_mode])
    with pytest.raises(UsageError, match="reward_shaping is for one policy"):
        BattleEpisodeCollector({"reward_shaping": True}, manager(), modes())
    cartpole = BaseEnvManager([lambda: gymnasium.make("CartPole-v1")])
    with pytest.raises(SchemaError, match="observations of two agents"):
        BattleSampleCollector({}, cartpole, modes()).collect(n_sample=1)


# ---- evaluation


@pytest.mark.parametrize(
    ("measure", "value"), [("return", 5.0), ("win_rate", 1.0), ("reward_per_step", 1.0)]
)
def test_the_first_side_is_what_counts(measure: str, value: float) -> None:
    options = {"n_episode": 4, "stop_value": value, "measure": measure}
    evaluator = BattleEvaluator(options, manager(), modes("eval_mode"))
    result = evaluator.eval(train_iter=1)
    assert result.stop
    assert [each.tolist() for each in result.returns] == [[5.0, -5.0]] * 4
    assert (result.statistics["return_mean/0"], result.statistics["return_mean/1"]) == (5.0, -5.0)
    assert result.mean_return == 5.0
    assert evaluator.best_return == value
    evaluator.reset_policy(modes("eval_mode", (1, 2)))
    assert not evaluator.eval(train_iter=2).stop
    evaluator.close()


def test_videos_are_recorded_when_they_are_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    options = {"n_episode": 2, "replay_path": str(tmp_path / "videos")}
    envs = manager(render_mode="rgb_array")
    evaluator = BattleEvaluator(options, envs, modes("eval_mode"))
    evaluator.eval(train_iter=1)
    assert not (tmp_path / "videos").exists()
    evaluator.eval(train_iter=2, force_render=True)
    recorded = sorted((tmp_path / "videos").iterdir())
    assert len(recorded) == 2
    evaluator.eval(train_iter=3)
    assert sorted((tmp_path / "videos").iterdir()) == recorded
    blind = BattleEvaluator(options, manager(), modes("eval_mode"))
    with pytest.raises(UsageError, match="enable_save_replay"):
        blind.eval(train_iter=1, force_render=True)
    for each in (evaluator, blind):
        each.close()
