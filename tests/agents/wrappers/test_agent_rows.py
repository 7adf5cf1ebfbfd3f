"""Frame stacks and normalisation of each agent of a team."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import make_env_manager
from dicore.testing.env import failures_of
from dicore_agents import AgentFrameStack, AgentObsNorm, TwoStepGame
from tests.agents.policies.actor_critic.games import Mortals
from tests.agents.policies.recall import MortalRecall
from tests.plugins.policies.resuming import same_after_resume


def walk(env: Any, seed: int) -> list[Any]:
    """Returns the observations of an episode, those of the wrapped environment beside them."""
    seen = [env.reset(seed=seed)[0]]
    over = False
    while not over:
        obs, _, over, cut, _ = env.step(env.action_space.sample() * 0)
        seen.append(obs)
        over = over or cut
    return seen


def test_each_agent_has_a_stack_of_its_own() -> None:
    env = AgentFrameStack(MortalRecall(), 3)
    spec = EnvSpec.of(env)
    assert (spec.agents, spec.reward_shape) == (("one", "other"), (2,))
    assert spec.observation["obs"].shape == (2, 3, 2)  # type: ignore[index]
    for seed in range(6):  # some begin without the other agent
        stacked, plain = walk(env, seed), walk(MortalRecall(), seed)
        came = 0
        for t, (one, other) in enumerate(zip(stacked, plain, strict=True)):
            came = came if other["alive"][1] else came + (came == t)
            for agent, begin in ((0, 0), (1, came)):
                if not other["alive"][agent]:
                    continue
                wanted = [plain[max(t - back, begin)]["obs"][agent] for back in (2, 1, 0)]
                np.testing.assert_array_equal(one["obs"][agent], wanted)
            assert one["alive"].tolist() == other["alive"].tolist()
            np.testing.assert_array_equal(one["state"], other["state"])
    assert failures_of(lambda: AgentFrameStack(TwoStepGame(), 2)) == {}


def test_each_agent_is_normalised_by_what_it_saw() -> None:
    env, plain = AgentObsNorm(Mortals()), Mortals()
    seen: list[list[Any]] = [[], [], []]
    for seed in range(8):
        for one, other in zip(walk(env, seed), walk(plain, seed), strict=True):
            for agent in range(3):
                if not other["alive"][agent]:
                    assert not one["obs"][agent].any()
                    continue
                seen[agent].append(other["obs"][agent])
                past = np.array(seen[agent])
                if len(past) > 3:
                    wanted = (past[-1] - past.mean(0)) / past.std(0)
                    np.testing.assert_allclose(one["obs"][agent], wanted, atol=2e-3)
            np.testing.assert_array_equal(one["action_mask"], other["action_mask"])
    assert len({len(each) for each in seen}) > 1
    twin = AgentObsNorm(Mortals())
    twin.load_state_dict(env.state_dict())
    one, other = walk(env, 9), walk(twin, 9)
    np.testing.assert_array_equal(one[-1]["obs"], other[-1]["obs"])


def test_a_team_with_both_is_trained_and_resumed(tmp_path: Path) -> None:
    options = ["env.env_wrapper=[agent_obs_norm, agent_frame_stack]", "policy.learn.batch_size=8"]
    home = "tests.agents.policies.actor_critic.games:Mortals"
    one, two = same_after_resume("vdn", home, options, tmp_path, 96)
    assert all((one[key] == two[key]).all() for key in one)


def test_a_wrapped_team_in_a_manager() -> None:
    cfg = compile_config(
        {"env": {"type": "two_step_game", "env_wrapper": ["agent_frame_stack"]}, "policy": "vdn"}
    )
    manager = make_env_manager(cfg.env, "collector", 0)
    assert EnvSpec.of(manager) == EnvSpec.of(AgentFrameStack(TwoStepGame()))
    manager.close()


@pytest.mark.parametrize("wrapper", [AgentFrameStack, AgentObsNorm])
def test_one_agent_is_refused(wrapper: Any) -> None:
    with pytest.raises(ConfigError, match="needs the observations of several agents"):
        wrapper(gymnasium.make("CartPole-v1"))
