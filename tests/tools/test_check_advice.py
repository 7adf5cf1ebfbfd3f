"""`dicore check env/NAME` says how to train in an environment that passed."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore_tools.commands.check_advice import advice


class Plain(gymnasium.Env[Any, Any]):
    """An environment of which one property is changed."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's form

    def __init__(self, obs: Any = None, action: Any = None, reward: float = 1.0) -> None:
        box = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
        self.observation_space, self.action_space = obs or box, action or box
        self.reward = reward

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), self.reward, False, True, {}


def box(low: Any, high: Any, shape: Any = None, dtype: Any = np.float32) -> Any:
    return gymnasium.spaces.Box(low, high, shape, dtype)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["-p sac or -p td3", "µs"]),
        ({"obs": box(500, 501, (3,))}, ["obs_norm", "[{type: static_obs_norm, std: 500}]"]),
        ({"obs": gymnasium.spaces.Dict(a=box(500, 501, (3,)))}, ["[flat_obs, {type: static_obs_"]),
        ({"obs": box(0, 255, (64, 64, 3), np.uint8)}, ["conv=nature", "channels to the front"]),
        ({"obs": box(0, 255, (1, 200, 200), np.uint8)}, ["warp_frame"]),
        ({"action": box(0, 3, (2,))}, ["rescale_action"]),
        ({"action": box(-np.inf, np.inf, (2,))}, ["no bounds"]),
        ({"reward": 0.0}, ["rnd"]),
        ({"reward": -300.0}, ["reach 300", "reward_norm"]),
    ],
    ids=["plain", "large", "dict", "image", "images", "range", "unbounded", "sparse", "reward"],
)
def test_each_property_has_its_advice(options: dict[str, Any], words: list[str]) -> None:
    text = "\n".join(advice(lambda: Plain(**options)))
    assert [word for word in words if word not in text] == []
    plain = "\n".join(advice(Plain))
    assert options == {} or [word for word in words if word in plain] == []


def test_the_command_prints_it_after_the_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "env/cartpole"]) == 0
    assert "advice: actions are Discrete: begin with -p dqn" in capsys.readouterr().out
    assert main(["check", "env/cartpole", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["advice"]


def test_what_is_scaled_is_not_to_be_scaled() -> None:
    paid = gymnasium.wrappers.NormalizeReward(Plain(reward=-300.0))
    assert [line for line in advice(lambda: paid) if "reward" in line] == []


@pytest.mark.parametrize("wrapper", ["obs_norm", "reward_norm"])
def test_an_environment_is_not_blamed_for_what_wrappers_measure(
    wrapper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "cartpole", f"env.env_wrapper=[{wrapper}]"]) == 0
    assert "12 ok" in capsys.readouterr().out
