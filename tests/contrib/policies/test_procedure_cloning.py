"""Procedure cloning: mazes, searches, losses by loops, acting, bad input, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_contrib import (
    Maze,
    ProcedureCloningPolicy,
    ProcedureNet,
    breadth_first,
    write_maze_demonstrations,
)
from dicore_plugins.models import DQN
from dicore_plugins.policies import create_policy

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def mazes(count: int, size: int = 6) -> Any:
    env = Maze(size)
    return np.stack([env.reset(seed=seed)[0] for seed in range(count)])


def made(size: int = 6, start: int = 0, **given: Any) -> Any:
    seed_everything(0)
    return create_policy(
        {"type": "procedure_cloning", "model": {"units": 8}, **given},
        observation_space=Maze(size).observation_space,
        action_space=spaces.Discrete(4, start=start),
    )


def distances(obs: Any) -> Any:
    """Computes the distances of all cells to the goal by sweeps; infinite behind walls."""
    free, size = obs[..., 0] == 0, len(obs)
    found = np.where(obs[..., 1] > 0, 0.0, np.inf)
    for _ in range(size * size):
        for row, column in np.argwhere(free).tolist():
            for down, right in MOVES:
                there = row + down, column + right
                if min(there) >= 0 and max(there) < size and free[there]:
                    found[row, column] = min(found[row, column], found[there] + 1)
    return found


# ---- mazes


def test_a_search_labels_cells_by_their_distance() -> None:
    for obs in mazes(8):
        steps, far = breadth_first(obs), distances(obs)
        agent = tuple(np.argwhere(obs[..., 2])[0])
        assert len(steps) == far[agent] + 1
        for number, labels in enumerate(steps):
            assert ((labels > 0) == (far <= number)).all()
        assert (steps[0] == 5 * obs[..., 1]).all()
        for row, column in np.argwhere((steps[-1] > 0) & (steps[-1] < 5)).tolist():
            best = [
                action
                for action, (down, right) in enumerate(MOVES)
                if 0 <= row + down < 6 and 0 <= column + right < 6
                and far[row + down, column + right] == far[row, column] - 1
            ]  # fmt: skip
            assert steps[-1][row, column] == 1 + best[0]


def test_a_maze_ends_at_its_goal_or_by_time() -> None:
    env, lengths = Maze(5, 0.4), []
    for seed in range(5):
        obs, _ = env.reset(seed=seed)
        far = distances(obs)[tuple(np.argwhere(obs[..., 2])[0])]
        rewards, over, late = [], False, False
        while not (over or late):
            action = breadth_first(obs)[-1][tuple(np.argwhere(obs[..., 2])[0])] - 1
            obs, reward, over, late, _ = env.step(np.int64(action))
            rewards.append(reward)
        assert (len(rewards), sum(rewards)) == (far, 1.0)
        lengths.append(len(rewards))
    obs, _ = env.reset(seed=0)
    wall = next(a for a, _ in enumerate(MOVES) if (env.step(np.int64(a))[0] == obs).all())
    results = [env.step(np.int64(wall)) for _ in range(20 - env._steps)]
    assert [each[3] for each in results] == [False] * (len(results) - 1) + [True]
    assert env.render().shape == (80, 80, 3)


def test_demonstrations_are_shortest_paths_with_their_searches(tmp_path: Path) -> None:
    count = write_maze_demonstrations(tmp_path / "demo.npz", 6, size=5, seed=3)
    data = np.load(tmp_path / "demo.npz")
    assert len(data["obs"]) == count == len(data["procedure"])
    assert data["terminated"].sum() == data["reward"].sum() == 6
    for obs, action, steps in zip(data["obs"], data["action"], data["procedure"], strict=True):
        own = breadth_first(obs)
        assert (steps[: len(own)] == own).all()
        assert (steps[len(own) :] == own[-1]).all()
        assert steps[-1][obs[..., 2] > 0] == action + 1
    with pytest.raises(UsageError, match="n_episode"):
        write_maze_demonstrations(tmp_path / "none.npz", 0)


# ---- learning


def searches(obs: Any, length: int = 14) -> Any:
    every = [breadth_first(each)[:length] for each in obs]
    return np.stack([np.concatenate([s, s[-1:].repeat(length - len(s), 0)]) for s in every])


def test_the_loss_is_that_of_a_step_that_changes_something() -> None:
    policy, obs = made(), mazes(5)
    steps = searches(obs)
    steps[4] = 0  # no search
    batch = Batch({"obs": obs, "procedure": steps}, 5)
    found = []
    for draw in (0.0, 0.5, 0.9999):
        policy._learn_rng = type(
            "Fixed", (), {"random": lambda _, n, kind, d=draw: np.full(n, d, kind)}
        )()
        wanted = 0.0
        with torch.no_grad():
            for row in range(4):
                before = np.concatenate([np.zeros_like(steps[row][:1]), steps[row][:-1]])
                changing = [k for k in range(14) if (before[k] != steps[row][k]).any()]
                at = changing[int(np.float32(draw) * len(changing))]
                logit = policy.get_attribute("model").step(
                    torch.from_numpy(obs[row : row + 1]),
                    torch.from_numpy(before[at][None]).long(),
                )[0]  # fmt: skip
                share = logit.log_softmax(0)
                for cell in np.ndindex(6, 6):
                    wanted -= float(share[(int(steps[row][at][cell]), *cell)]) / 36 / 4
        loss = policy.learn_mode.forward(batch)["total_loss"]
        assert float(loss) == pytest.approx(wanted, rel=1e-4)
        found.append(wanted)
    assert len({round(each, 4) for each in found}) == 3


def test_it_learns_to_search_unseen_mazes(tmp_path: Path) -> None:
    write_maze_demonstrations(tmp_path / "demo.npz", 20, size=6, seed=100)
    outcome = launch(
        "maze_procedure_cloning", seed=0, exp_name=str(tmp_path / "run"),
        overrides=[
            f"pipeline.dataset.path={tmp_path / 'demo.npz'}", "env.size=6", "pipeline.logger=[]",
            "policy.eval.evaluator.eval_freq=150", "pipeline.max_train_iter=600",
        ],
    )  # fmt: skip
    assert outcome.run.result.stop


# ---- acting


class Exact(ProcedureNet):
    """Searches breadth-first, exactly."""

    def step(self, obs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        after = []
        for one, before in zip(obs.numpy(), labels.numpy(), strict=True):
            steps = [np.zeros_like(before), *breadth_first(one)]
            at = next(k for k, each in enumerate(steps) if (each == before).all())
            after.append(steps[min(at + 1, len(steps) - 1)])
        wanted = torch.from_numpy(np.stack(after)).long()
        return 50.0 * torch.nn.functional.one_hot(wanted, 6).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize("start", [0, 3])
def test_acting_searches_until_the_agent_is_found(start: int) -> None:
    obs = mazes(6)
    policy = ProcedureCloningPolicy(made(start=start).get_attribute("cfg"), Exact((6, 6, 3), 4))
    wanted = [breadth_first(each)[-1][each[..., 2] > 0][0] - 1 + start for each in obs]
    for mode in (policy.eval_mode, policy.collect_mode):
        found = mode.forward(EnvBatch(np.arange(6), obs)).value
        assert found["action"].tolist() == wanted
    steps = found["procedure"]
    assert steps.shape == (6, 64, 6, 6)
    assert all(
        (each[-1] == breadth_first(one)[-1]).all() for each, one in zip(steps, obs, strict=True)
    )
    short = ProcedureCloningPolicy(
        made(max_steps=1).get_attribute("cfg"), Exact((6, 6, 3), 4)
    ).eval_mode.forward(EnvBatch(np.arange(6), obs)).value  # fmt: skip
    assert np.isin(short["action"], range(4)).all()


# ---- bad input


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"nstep": 3}, "not from returns"),
        ({"priority": True}, "draws demonstrations uniformly"),
        ({"discount_factor": 0.9}, "without rewards"),
        ({"max_steps": 0}, "max_steps"),
        ({"model": {"obs_shape": [6, 6, 3, 1]}}, "rows, columns, channels"),
    ],
)
def test_what_it_does_not_do_is_refused(options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_config({"env": "maze", "policy": {"type": "procedure_cloning", **options}})


def test_other_spaces_networks_and_samples_are_refused() -> None:
    box = spaces.Box(-1, 1, (4,), np.float32)
    for observation, action, word in (
        (box, spaces.Discrete(4), "rows, columns, channels"),
        (Maze(6).observation_space, box, "one discrete action"),
    ):
        with pytest.raises(ConfigError, match=word):
            create_policy(
                {"type": "procedure_cloning"}, observation_space=observation, action_space=action
            )
    with pytest.raises(ConfigError, match="in channel 7"):
        made(agent_plane=7)
    policy, obs = made(), mazes(3)
    with pytest.raises(UsageError, match="ProcedureNet"):
        ProcedureCloningPolicy(policy.get_attribute("cfg"), DQN(4, 2))
    with pytest.raises(SchemaError, match="procedure"):
        policy.learn_mode.forward(Batch({"obs": obs}, 3))
    with pytest.raises(SchemaError, match=r"up to 14 steps; the policy would end its own after 13"):
        made(max_steps=13).learn_mode.forward(Batch({"obs": obs, "procedure": searches(obs)}, 3))
    for wrong in (searches(obs)[:, :, :5], np.full((3, 2, 6, 6), 9, np.uint8)):
        with pytest.raises(SchemaError, match="labels below 6"):
            policy.learn_mode.forward(Batch({"obs": obs, "procedure": wrong}, 3))


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    write_maze_demonstrations(tmp_path / "demo.npz", 4, size=5)

    def train(place: str, updates: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / place), "env": "maze", "policy": "procedure_cloning",
            "seed": 0,
            "overrides": [
                f"pipeline.dataset.path={tmp_path / 'demo.npz'}", "env.size=5",
                'pipeline.dataset.extra=["procedure"]', "env.stop_value=inf", "pipeline.logger=[]",
                "env.n_evaluator_episode=1", "env.evaluator_env_num=1", "policy.learn.batch_size=4",
            ],
        }  # fmt: skip
        given = {"resume": str(tmp_path / place), "trust": True} if resume else given
        made = launch(**given, max_train_iter=updates)
        return made.policy.get_attribute("model").state_dict()

    whole = train("whole", 24)
    train("half", 11)
    rest = train("half", 24, resume=True)
    assert all(torch.equal(whole[key], rest[key]) for key in whole)
