"""Agents that see vectors and images: one row of numbers for each, in every policy of teams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore.testing.env import failures_of
from dicore_agents import AgentFlatObs, TwoStepGame
from dicore_tools.evaluation.evaluate import evaluate

ENV = "tests.agents.wrappers.test_agent_flat:Rooms"


class Rooms(gymnasium.Env[Any, Any]):
    """Two agents see a picture, a vector and flags; the second one leaves after two steps."""

    agent_ids = ("guard", "guest")

    def __init__(self) -> None:
        seen = {
            "picture": spaces.Box(0, 255, (2, 1, 4, 4), np.uint8),
            "body": spaces.Dict(place=spaces.Box(-3, 3, (2, 2)), flags=spaces.MultiBinary([2, 3])),
        }
        self.observation_space = spaces.Dict(
            obs=spaces.Dict(seen), alive=spaces.MultiBinary(2), state=spaces.Box(0, 9, (1,))
        )
        self.order = [*self.observation_space["obs"]["body"]]  # type: ignore[index]
        self.action_space = spaces.MultiDiscrete([3, 3])
        self.reward_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        paid = np.array([1.0, float(self._steps <= 2)], np.float32)
        return self._seen(), paid, self._steps == 5, False, {}

    def _seen(self) -> Any:
        draw = self.np_random
        body = {"place": draw.uniform(-3, 3, (2, 2)).astype(np.float32),
                "flags": draw.integers(0, 2, (2, 3), np.int8)}  # fmt: skip
        seen = {"picture": draw.integers(0, 256, (2, 1, 4, 4), np.uint8), "body": body}
        alive = np.array([self._steps < 5, self._steps < 2], np.int8)
        return {"obs": seen, "alive": alive, "state": np.array([self._steps], np.float32)}


def test_rows_have_all_parts_in_the_order_of_the_space() -> None:
    env, plain = AgentFlatObs(Rooms()), Rooms()
    got, _ = env.reset(seed=4)
    obs, _ = plain.reset(seed=4)
    for _ in range(5):
        for agent in (0, 1):
            seen = obs["obs"]
            picture = seen["picture"][agent].reshape(-1) / 255
            body = [seen["body"][key][agent] for key in plain.order]
            wanted = np.concatenate([*body, picture])
            np.testing.assert_allclose(got["obs"][agent], wanted, rtol=1e-6)
        np.testing.assert_array_equal(got["alive"], obs["alive"])
        np.testing.assert_array_equal(got["state"], obs["state"])
        got, obs = env.step([0, 0])[0], plain.step([0, 0])[0]
    space = env.observation_space["obs"]  # type: ignore[index]
    assert (space.shape, space.dtype) == ((2, 21), np.float32)
    assert (space.low.min(), space.high.max()) == (-3, 3)
    assert failures_of(lambda: AgentFlatObs(Rooms())) == {}


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("qmix", []),
        ("mappo", ["policy.model.rnn=gru", "policy.collect.unroll_len=4"]),
        ("groups", ['policy.groups={"a": "ippo", "b": "ippo"}',
                    'policy.agents={"a": ["guard"], "b": ["guest"]}']),
    ],
)  # fmt: skip
def test_policies_of_teams_take_them(policy: str, options: list[str], tmp_path: Path) -> None:
    usual = ["env.n_evaluator_episode=2", "env.env_wrapper=[agent_flat_obs]", "pipeline.logger=[]"]
    run = tmp_path / "run"
    launch(env=ENV, policy=policy, max_env_step=40, exp_name=str(run),
           overrides=[*usual, "policy.collect.n_sample=16", *options])  # fmt: skip
    assert evaluate(run, n_episode=2, trust=True).mean_return == pytest.approx(7.0)


@pytest.mark.parametrize("policy", ["mappo", "vdn", "maddpg"])
def test_without_the_wrapper_one_error_names_it(policy: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ConfigError, match="a row for each agent") as caught:
        launch(env=ENV, policy=policy, exp_name=str(run))
    assert "env.env_wrapper=[agent_flat_obs]" in str(caught.value.hint)
    assert not run.exists()


def test_parts_without_the_axis_are_told() -> None:
    env = Rooms()
    env.observation_space = spaces.Dict(
        obs=spaces.Dict(all=spaces.Box(0, 1, (3,)), one=spaces.Discrete(4))
    )
    with pytest.raises(ConfigError, match=r"2 agents; obs\.all is Box"):
        AgentFlatObs(env)
    with pytest.raises(ConfigError, match="'agent_flat_obs' needs what several agents see") as one:
        AgentFlatObs(gymnasium.make("CartPole-v1"))
    assert one.value.hint == "for one agent: flat_obs"


def test_numbers_are_divided_by_their_bounds() -> None:
    env, plain = AgentFlatObs(Rooms(), by_bounds=True), AgentFlatObs(Rooms())
    one, other = env.reset(seed=1)[0]["obs"], plain.reset(seed=1)[0]["obs"]
    most = np.abs([*map(abs, plain.observation_space["obs"].high)])  # type: ignore[index]
    np.testing.assert_allclose(one, other / most, rtol=1e-6)
    box = env.observation_space["obs"]  # type: ignore[index]
    assert (box.low.min(), box.high.max()) == (-1, 1)
    free = TwoStepGame()
    free.observation_space = spaces.Dict(obs=spaces.Box(-np.inf, np.inf, (2, 3)))
    assert (AgentFlatObs(free, by_bounds=True)._unit == 1).all()


def test_rows_stay_as_they_are() -> None:
    plain, env = TwoStepGame(), AgentFlatObs(TwoStepGame())
    np.testing.assert_array_equal(env.reset(seed=0)[0]["obs"], plain.reset(seed=0)[0]["obs"])
