"""What modes of policies answer to arguments that do not fit: one error that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.errors import ActionError, ConfigError, SchemaError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext
from dicore_compat.deque import DequeBuffer
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.middleware import OffPolicyLearner, data_pusher, offpolicy_data_fetcher, trainer
from dicore_plugins.models import DQN, QAC, VAC
from dicore_plugins.policies import create_policy

OBS, TWO = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2)
BOX = spaces.Box(-1, 1, (2,), np.float32)
ACTIONS = {"dqn": TWO, "ppo": TWO, "sac": BOX, "td3": BOX, "c51": TWO, "a2c": TWO}


def policy_of(name: str) -> Any:
    seed_everything(0)
    return create_policy({"type": name}, observation_space=OBS, action_space=ACTIONS[name])


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ({}, "no observations to act on"),
        ({0: np.zeros(5, np.float32)}, r"of shape \[5\]; the network takes \[4\]"),
        ({0: 3.0}, r"of shape \[\]; the network takes \[4\]"),
        ({0: "left"}, "are not numbers: .*left"),
    ],
)
def test_observations_that_do_not_fit(name: str, obs: Any, message: str) -> None:
    policy = policy_of(name)
    for mode in (policy.collect_mode, policy.eval_mode):
        with pytest.raises(SchemaError, match=message):
            mode.forward(obs)


def row(action: Any, width: int = 4) -> dict[str, Any]:
    obs = np.zeros(width, np.float32)
    return {"obs": obs, "next_obs": obs, "action": action, "reward": 1.0, "done": False}


@pytest.mark.parametrize(
    ("name", "sample", "error", "message"),
    [
        ("dqn", row(5), ActionError, "actions from 5 to 5 .* 0 to 1"),
        ("dqn", row(-1), ActionError, "actions from -1 to -1"),
        ("dqn", row(0, 5), SchemaError, r"column 'obs' of shape \[5\]; the network takes \[4\]"),
        ("sac", row(np.zeros(3, np.float32)), SchemaError, "actions have 3 numbers; .* has 2"),
    ],
)
def test_samples_that_do_not_fit(name: str, sample: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        policy_of(name).learn_mode.forward([sample] * 4)


@pytest.mark.parametrize(("name", "setting"), [("dqn", "collect"), ("ppo", "learn")])
def test_missing_counters_are_named(name: str, setting: str) -> None:
    function = getattr(policy_of(name).command_mode, f"get_setting_{setting}")
    with pytest.raises(UsageError, match="the counter 'envstep' is missing; got learner_step"):
        function({"learner_step": 3})


def test_an_error_of_the_network_itself_stays_as_it_is() -> None:
    class Broken(DQN):
        def forward(self, x: Any) -> Any:
            raise RuntimeError("my own mistake")

    seed_everything(0)
    policy = create_policy(
        {"type": "dqn"}, model=Broken(4, 2), observation_space=OBS, action_space=TWO
    )
    with pytest.raises(RuntimeError, match="my own mistake"):
        policy.eval_mode.forward({0: np.zeros(4, np.float32)})


# ---- a main written by hand


def bound(name: str, **policy: Any) -> Any:
    config = {"env": {"type": "cartpole"}, "policy": {"type": name, **policy}}
    return bind(compile_config(config), EnvSpec(OBS, ACTIONS[name]))


@pytest.mark.parametrize(("name", "network"), [("dqn", DQN), ("ppo", VAC), ("sac", QAC)])
def test_networks_take_the_whole_section(name: str, network: Any) -> None:
    assert network(**bound(name).policy.model)


def test_a_buffer_refuses_the_section_of_another_kind() -> None:
    cfg = bound("dqn", other={"replay_buffer": {"type": "deque"}})
    with pytest.raises(ConfigError, match=r"the section is of 'deque' and lacks"):
        NaiveReplayBuffer(cfg.policy.other.replay_buffer)


@pytest.mark.parametrize("learns", ["learner", "fetcher"])
def test_middleware_takes_a_deque_buffer(learns: str) -> None:
    """The line of most examples of DI-engine: data_pusher(cfg, DequeBuffer(size=…))."""
    cfg = bound("dqn", learn={"batch_size": 8})
    policy, buffer = policy_of("dqn"), DequeBuffer(20)
    push = data_pusher(cfg, buffer)
    ctx = OnlineRLContext()
    for step in range(30):
        ctx.trajectories, ctx.env_step = [row(step % 2)], step
        push(ctx)
    assert len(buffer) == 20
    if learns == "learner":
        OffPolicyLearner(cfg, policy.learn_mode, buffer)(ctx)
        assert ctx.train_iter > 0
    else:
        offpolicy_data_fetcher(cfg, buffer)(ctx)
        assert len(ctx.train_data) == 8
        trainer(cfg, policy.learn_mode)(ctx)
        assert ctx.train_iter == 1
