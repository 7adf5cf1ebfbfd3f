"""Digideep's agents (FEATURES M7, M8, M14, M15): a new agent is a sampler and a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, ReplayUnderflowError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.launch import launch
from dicore_compat.agents import TrajectoryMemory
from dicore_compat.samplers import Compose, compute_advantages, get_last_chunk, get_memory_params
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.export.policy import export_policy
from dicore_plugins.functional import gae
from tests.plugins.collectors.toy_envs import Journal
from tests.plugins.env_managers.toy_envs import manager_of

HERE = "tests.compat.agents.toy_agents"
OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
REPLAY = ["get_memory_params", "get_sample_memory"]


def agent_of(name: str, actions: Any = None, obs: Any = OBS, **options: Any) -> Any:
    cfg = {"env": {"type": "cartpole"}, "policy": {"type": f"{HERE}:{name}", **options}}
    space = spaces.Discrete(3) if actions is None else actions
    section = bind(compile_config(cfg), EnvSpec(obs, space)).cfg.policy
    return section.build(BuildContext())


def chunks_of(agent: Any, calls: int, abnormal: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Collects with an agent in three environments; returns their steps and the samples."""
    journals: list[Any] = [[] for _ in range(3)]
    envs = [Journal(each, abnormal if at == 1 else ()) for at, each in enumerate(journals)]
    collector = SampleCollector({"n_sample": 3}, manager_of(*envs), agent.collect_mode)
    return journals, [collector.collect_batch(train_iter=0) for _ in range(calls)]


COUNTING = {"collect": {"n_sample": 3, "n_steps": 6}, "memory_chunks": 10}


def test_the_memory_has_every_step_of_every_environment_once() -> None:
    """Observations, rewards, masks and recurrent states, without a gap between the chunks."""
    agent = agent_of("CountingConfig", **COUNTING)
    journals, found = chunks_of(agent, 5)
    for each in found:
        for _ in agent._store.add(each):
            pass
    data = {key: np.asarray(column) for key, column in agent.memory.get_buffer().items()}
    assert data["/observations"].shape == (3, 31, 2)
    for env, steps in enumerate(journals):
        assert len(steps) == 30
        np.testing.assert_array_equal(data["/observations"][env, :30], [s["obs"] for s in steps])
        rewards = [s["reward"] for s in steps]
        np.testing.assert_allclose(data["/rewards"][env, :30, 0], rewards, rtol=1e-6)
        actions = data["/agents/agent/actions"][env, :30, 0]
        np.testing.assert_array_equal(actions, [s["action"] for s in steps])
        masks = [0.0, *(1.0 - s["end"] for s in steps)]
        np.testing.assert_array_equal(data["/masks"][env, :, 0], masks)
        in_episode, counts = 0, []
        for each in masks:
            in_episode = in_episode + 1 if each else 0
            counts.append(in_episode)
        np.testing.assert_array_equal(data["/agents/agent/hidden_state"][env, :, 0], counts)
        values = data["/observations"][env, :, 0] + 100 * np.array(counts)
        np.testing.assert_allclose(
            data["/agents/agent/artifacts/values"][env, :, 0], values, rtol=1e-6
        )


def test_advantages_count_the_value_of_states_after_a_time_limit() -> None:
    """GAE of a chunk, whose next values are computed one by one from what the envs showed."""
    agent = agent_of("CountingConfig", **COUNTING)
    journals, found = chunks_of(agent, 2)
    for each in found:
        for _ in agent._store.add(each):
            pass
    chain = Compose([get_memory_params, get_last_chunk, compute_advantages])
    chunk = chain(agent.memory, {"agent_name": "agent"})
    truncated = 0
    for env, steps in enumerate(journals):
        counts, in_episode = [], 0
        for each in steps:
            counts.append(in_episode)
            in_episode = 0 if each["end"] else in_episode + 1
        value = [s["obs"][0] + 100 * n for s, n in zip(steps, counts, strict=True)]
        after = [s["next_obs"][0] + 100 * (n + 1) for s, n in zip(steps, counts, strict=True)]
        rows = [np.array(each, np.float32)[6:, None] for each in (value, after)]
        reward, done, end = (
            np.array([s[key] for s in steps])[6:, None] for key in ("reward", "terminated", "end")
        )
        truncated += int((end & ~done).sum())
        wanted = gae(
            reward.astype(np.float32), *rows, done, end, gamma=0.99, gae_lambda=0.95,
            kernels="numpy",
        )  # fmt: skip
        advantages = chunk["/agents/agent/artifacts/advantages"][env, :6]
        np.testing.assert_allclose(advantages, wanted, rtol=1e-4, atol=1e-3)
    assert truncated > 0


def test_an_abnormal_step_drops_the_trajectory_and_others_wait() -> None:
    agent = agent_of("CountingConfig", **COUNTING)
    journals, found = chunks_of(agent, 4, abnormal=(8,))
    stored = 0
    for each in found:
        for _ in agent._store.add(each):
            stored += 1
    assert 0 < stored < 5
    shown = np.asarray(agent.memory.get_buffer()["/observations"])
    assert shown.shape[1] == 6 * stored + 1
    spoilt = {s["episode"] for s in journals[1] if s["abnormal"]}
    bad = [s["obs"][0] for s in journals[1] if s["abnormal"]]
    assert len(spoilt) == 1
    assert not np.isin(shown[1, :, 0], bad).any()


def test_trajectories_wait_for_those_of_other_workers() -> None:
    store = TrajectoryMemory(2, 1, 5)

    def row(env: int, value: float) -> Batch:
        entries = np.full((1, 2, 1), value, np.float32)
        return Batch({"rewards": entries, "env_id": np.array([env])})

    assert [len([*store.add(row(0, float(each)))]) for each in (1, 2, 3)] == [0, 0, 0]
    again = TrajectoryMemory(2, 1, 5)
    again.load_state_dict(store.state_dict())
    for memory in (store, again):
        assert [len([*memory.add(row(1, float(each)))]) for each in (4, 5)] == [1, 1]
        rewards = np.asarray(memory.memory.get_buffer()["/rewards"])[:, :-1, 0]
        assert rewards.tolist() == [[1, 2], [4, 5]]
    with pytest.raises(UsageError, match="collector_env_num"):
        [*store.add(row(2, 0.0))]
    with pytest.raises(UsageError, match="of 2 environments, not 3"):
        TrajectoryMemory(3, 1, 5).load_state_dict(store.state_dict())


def test_evaluation_is_deterministic_and_remembers_its_own_episodes() -> None:
    agent = agent_of("CountingConfig")
    obs = EnvBatch(np.arange(2), np.ones((2, 2), np.float32))
    assert agent.collect_mode.forward(obs).value["hidden_state"].tolist() == [[0], [0]]
    first = [agent.eval_mode.forward(obs).value for _ in range(2)]
    assert [each["hidden_state"].tolist() for each in first] == [[[0], [0]], [[1], [1]]]
    assert all((each["action"] == 0).all() for each in first)
    agent.eval_mode.reset([1])
    assert agent.eval_mode.forward(obs).value["hidden_state"].tolist() == [[2], [0]]


def test_continuous_actions_are_kept_as_chosen_and_sent_in_the_scale_of_the_space() -> None:
    agent = agent_of("PPOAgentConfig", spaces.Box(-1, 2, (2,), np.float32))
    chosen = np.array([[-3.0, 5.0], [0.5, 0.0]], np.float32)
    assert agent.env_actions(chosen).tolist() == [[-1.0, 2.0], [1.25, 0.5]]


@pytest.mark.parametrize(
    "manager", ["base", pytest.param("async_subprocess", marks=pytest.mark.slow)]
)
def test_a_replay_agent_learns(tmp_path: Path, manager: str) -> None:
    """A chain of two units and a network: the return of CartPole rises in 4,000 steps."""
    done = launch(
        exp_name=str(tmp_path / "run"), env="cartpole", policy=f"{HERE}:QAgentConfig", seed=0,
        overrides=[f"policy.sampler={REPLAY}".replace("'", '"'), "policy.memory_chunks=250",
                   "policy.collect.n_steps=4", "policy.learn.n_update=4", "policy.model=dqn",
                   "policy.learn.learning_rate=0.002", "env.collector_env_num=4",
                   "policy.discount_factor=0.97", "pipeline.logger=[]", f"env.manager={manager}",
                   "policy.eval.evaluator.eval_freq=200", "env.stop_value=120"],
        max_env_step=4000,
    )  # fmt: skip
    assert done.run.result.stop
    assert done.policy.memory.length > 64


def test_a_batch_that_the_memory_never_has_is_an_error() -> None:
    agent = agent_of(
        "QAgentConfig", spaces.Discrete(2), sampler=REPLAY, model={"type": "dqn"},
        collect={"n_sample": 1, "n_steps": 2}, memory_chunks=2,
    )  # fmt: skip

    def piece() -> Batch:
        parts = {"observations": np.zeros((1, 3, 2), np.float32), "env_id": np.zeros(1, np.int64)}
        return Batch({**parts, "rewards": np.zeros((1, 3, 1), np.float32)})

    assert agent.learn_mode.forward(piece()) == []
    with pytest.raises(ReplayUnderflowError, match="asked 64, have 4 steps"):
        agent.learn_mode.forward(piece())


PAIR = {
    "type": f"{HERE}:PairTeamConfig",
    "collect": {"n_steps": 16},
    "members": {
        name: {"type": f"{HERE}:PPOAgentConfig", "learn": {"learning_rate": 0.01, "n_update": 2}}
        for name in ("left", "right")
    },
}


def test_a_team_learns_each_with_its_own_keys(tmp_path: Path) -> None:
    """M8: two agents with parts of one action, a memory, and optimizers of their own."""
    done = launch(
        {"env": {"type": f"{HERE}:Pair"}, "policy": PAIR},
        exp_name=str(tmp_path / "run"),
        seed=0,
        overrides=["pipeline.logger=[]", "env.collector_env_num=4", "env.stop_value=8",
                   "env.n_evaluator_episode=10", "env.evaluator_env_num=2",
                   "policy.eval.evaluator.eval_freq=64"],
        max_env_step=2_500,
    )  # fmt: skip
    assert done.run.result.stop  # both name their bit in all four steps
    keys = set(done.policy.memory.get_buffer_keys())
    for name in ("left", "right"):
        assert f"/agents/{name}/actions" in keys
        assert f"/agents/{name}/artifacts/action_log_p" in keys
    with pytest.raises(UsageError, match="actions of the parts left, right cannot be exported"):
        export_policy(tmp_path / "run", tmp_path / "policy.ts", trust=True)
    each = parameters(done)
    assert len({parameter.data_ptr() for parameter in each}) == len(each)


def test_a_resumed_agent_goes_on_exactly(tmp_path: Path) -> None:
    """With its memory: half of the batches come from before the resume."""
    options = [f"policy.sampler={REPLAY}".replace("'", '"'), "policy.memory_chunks=50",
               "policy.collect.n_steps=4", "policy.model=dqn", "env.collector_env_num=2",
               "policy.learn.batch_size=16", "pipeline.logger=[]", "env.stop_value=inf",
               "env.n_evaluator_episode=1", "env.evaluator_env_num=1"]  # fmt: skip

    def train(place: str, limit: int, **given: Any) -> Any:
        given = given or {"env": "cartpole", "policy": f"{HERE}:QAgentConfig", "seed": 0,
                          "exp_name": str(tmp_path / place), "overrides": options}  # fmt: skip
        return launch(**given, max_env_step=limit)

    whole, _ = train("whole", 320), train("half", 160)
    rest = train("half", 320, resume=str(tmp_path / "half"), trust=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter > 30
    pairs = zip(parameters(whole), parameters(rest), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def parameters(outcome: Any) -> list[torch.Tensor]:
    """Returns the parameters of the network of a training."""
    return [*outcome.policy.get_attribute("model").parameters()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collect": {"n_episode": 3, "n_sample": None}}, "collect.n_steps steps"),
        ({"learn": {"update_per_collect": 3}}, "set learn.n_update"),
        ({"sampler": []}, "at least one unit"),
        ({"discount_factor": 0.9}, "differs from policy.discount_factor=0.9"),
        ({"on_policy": False}, "memory of its own"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        agent_of("PPOAgentConfig", **options)


def test_the_parts_of_the_action_name_the_agents() -> None:
    parts = {"arm": spaces.Discrete(2), "hand": spaces.Discrete(2)}
    members = {"left": {"type": "dqn"}, "right": {"type": "dqn"}}
    with pytest.raises(ConfigError, match=r"agents are left, right; .* parts arm, hand"):
        agent_of("PairTeamConfig", spaces.Dict(parts), members=PAIR["members"])
    with pytest.raises(ConfigError, match="use a team"):
        agent_of("PPOAgentConfig", spaces.Dict({"left": spaces.Discrete(2)}))
    with pytest.raises(ConfigError, match="two or more"):
        agent_of("PairTeamConfig", spaces.Dict({"left": spaces.Discrete(2)}))
    with pytest.raises(ConfigError, match="'dqn' is not an agent"):
        agent_of("PairTeamConfig", spaces.Dict({"left": spaces.Discrete(2)}), members=members)


def test_a_loss_without_a_total_is_refused() -> None:
    agent = agent_of("PPOAgentConfig")
    agent.loss = lambda batch: {"policy_loss": torch.zeros(())}
    with pytest.raises(UsageError, match="returned policy_loss"):
        agent.step({"/observations": np.zeros((1, 2), np.float32)})
