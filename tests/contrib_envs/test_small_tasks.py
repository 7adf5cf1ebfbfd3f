"""The small tasks: their rules, and their best returns as stated."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.config import compile_config
from dicore_contrib_envs.tasks import moving
from dicore_contrib_envs.tasks.bit_flip import optimal_return
from dicore_contrib_envs.tasks.t_maze import EAST, NORTH, SOUTH, WEST

TASKS = "dicore_contrib_envs.tasks"


def make(name: str, **kwargs: Any) -> Any:
    return gymnasium.make(f"{TASKS}:{name}-v0", **kwargs).unwrapped


def mean_return(env: Any, act: Any, episodes: int) -> float:
    """Returns the mean return of a policy, a function of observation and env."""
    total = 0.0
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        done = False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(act(obs, env))
            total += float(np.mean(reward))
            done = terminated or truncated
    return total / episodes


# ---- bit_flip


def flip_first_wrong(obs: Any, env: Any) -> int:
    return int(np.argmax(obs["achieved_goal"] != obs["desired_goal"]))


@pytest.mark.parametrize("n_bits", [2, 5, 8])
def test_the_best_policy_of_bit_flip_reaches_the_stated_return(n_bits: int) -> None:
    env = make("BitFlip", n_bits=n_bits)
    reached = mean_return(env, flip_first_wrong, 2_000)
    assert reached == pytest.approx(optimal_return(n_bits), abs=0.1)
    config = {"type": "bit_flip", "n_bits": n_bits}
    cfg = compile_config({"env": config, "policy": {"type": "random"}})
    assert cfg.env.stop_value == optimal_return(n_bits) - 0.3


def test_rewards_of_bit_flip_can_be_computed_for_other_goals() -> None:
    env = make("BitFlip", n_bits=4)
    obs, _ = env.reset(seed=0)
    goals = []
    for action in (0, 1, 2, 3):
        obs, reward, terminated, truncated, info = env.step(action)
        goals.append((obs, reward))
        assert terminated == (reward == 0) == info["is_success"]
        if terminated:
            break
    else:
        assert truncated
    achieved = np.stack([obs["achieved_goal"] for obs, _ in goals])
    desired = np.stack([obs["desired_goal"] for obs, _ in goals])
    rewards = [reward for _, reward in goals]
    assert env.compute_reward(achieved, desired, {}).tolist() == rewards
    assert env.compute_reward(achieved, achieved, [{}] * len(goals)).tolist() == [0] * len(goals)
    ended = [reward == 0 for reward in rewards]
    assert env.compute_terminated(achieved, desired, {}).tolist() == ended


def test_the_return_of_bit_flip_can_be_one_for_success() -> None:
    assert mean_return(make("BitFlip", n_bits=5, step_reward=0.0), flip_first_wrong, 20) == 1
    assert optimal_return(5, 0.0) == 1


# ---- chain


@pytest.mark.parametrize("length", [3, 10, 30])
def test_the_ends_of_the_chain_pay_as_stated(length: int) -> None:
    env = make("Chain", length=length)
    onward = env.onward.tolist()
    assert mean_return(env, lambda obs, env: onward[obs.argmax()], 1) == pytest.approx(10)
    back = mean_return(env, lambda obs, env: 1 - onward[obs.argmax()], 1)
    assert back == pytest.approx(0.001 * (length + 7))
    assert env.reset(seed=0)[0].argmax() == 1
    assert env.step(1 - onward[1])[0].argmax() == 0
    assert env.step(onward[0])[0].argmax() == 1
    assert (make("Chain", length=length).onward == onward).all()


# ---- moving


def ideal(obs: Any, env: Any) -> dict[str, Any]:
    """Turns to the target, moves to it in as few steps as possible, stops."""
    x, y = obs[4:6] - obs[:2]
    distance = math.hypot(x, y)
    off = math.remainder(math.atan2(y, x) - math.atan2(obs[3], obs[2]), 2 * math.pi)
    if distance < 1e-3:
        return {"action_type": moving.STOP, "action_args": np.zeros(2, np.float32)}
    if abs(off) > 1e-3:
        turn = np.array([off / math.pi, 0], np.float32)
        return {"action_type": moving.TURN, "action_args": turn}
    stride = min(distance / moving.STRIDE, 1.0) * 2 - 1
    return {"action_type": moving.MOVE, "action_args": np.array([0, stride], np.float32)}


def test_the_best_policy_of_moving_reaches_the_stated_return() -> None:
    env = make("Moving")
    best = [env.reset(seed=seed)[1]["optimal_return"] for seed in range(500)]
    assert np.mean(best) == pytest.approx(1.99, abs=0.06)
    for seed in range(200):
        obs, info = env.reset(seed=seed)
        total, terminated = 0.0, False
        while not terminated:
            obs, reward, terminated, _, _ = env.step(ideal(obs, env))
            total += reward
        # to skip the turn or the last move may be better by the cost of a step
        assert info["optimal_return"] - 2.1 * moving.STEP_COST <= total
        assert total <= info["optimal_return"] + 1e-3


def test_no_policy_of_moving_beats_the_stated_return() -> None:
    env = make("Moving", bins=5)
    rng = np.random.default_rng(0)
    for seed in range(300):
        _, info = env.reset(seed=seed)
        best, total = info["optimal_return"], 0.0
        for _ in range(6):
            _, reward, terminated, _, _ = env.step(rng.integers(0, [3, 5, 5]))
            total += reward
            if terminated:
                break
            assert total + env.optimal_return() <= best + 1e-9
        assert total <= best + 1e-9


def test_stopping_elsewhere_costs() -> None:
    env = make("Moving")
    env.reset(seed=0)
    stop = {"action_type": moving.STOP, "action_args": np.zeros(2, np.float32)}
    _, reward, terminated, truncated, info = env.step(stop)
    assert reward == pytest.approx(-1 - moving.STEP_COST)
    assert (terminated, truncated, info["is_success"]) == (True, False, False)


# ---- two_step


@pytest.mark.parametrize(
    ("first", "second", "payoff"),
    [((0, 0), (1, 1), 7), ((0, 1), (0, 1), 7), ((1, 0), (1, 1), 8), ((1, 1), (0, 1), 1),
     ((1, 0), (0, 0), 0)],
)  # fmt: skip
def test_the_payoffs_of_two_step(first: Any, second: Any, payoff: float) -> None:
    env, team = make("TwoStep"), make("TwoStep", team_reward=True)
    for each in (env, team):
        each.reset(seed=0)
    _, reward, terminated, _, _ = env.step(np.array(first))
    assert reward.tolist() == [0, 0]
    assert not terminated
    obs, reward, terminated, _, _ = env.step(np.array(second))
    assert reward.dtype == np.float32
    assert reward.tolist() == [payoff, payoff]
    assert terminated
    assert obs[:, :3].tolist() == [[0, not first[0], first[0]]] * 2
    team.step(np.array(first))
    assert team.step(np.array(second))[1] == payoff


# ---- nim


def test_who_begins_wins_nim_by_leaving_multiples() -> None:
    env = make("Nim", heap_max=13)
    heaps = set()
    for seed in range(60):
        obs, _ = env.reset(seed=seed)
        heaps.add(env.left)
        over = False
        while not over:
            assert obs.argmax(1).tolist() == [env.left] * 2
            action = np.array([env.scripted_action(0), seed % 3])
            obs, reward, over, *_ = env.step(action)
        assert reward.tolist() == [1, -1]
        assert reward.dtype == np.float32
    assert heaps == {5, 6, 7, 9, 10, 11, 13}
    env.left, env.to_play = 2, 1
    assert env.step(np.array([0, 2]))[1].tolist() == [-1, 1]  # more than there are: all


# ---- t_maze


def test_the_best_policy_of_t_maze_remembers() -> None:
    env = make("TMaze", length=3)
    sign: list[int] = []

    def remember(obs: Any, _: Any) -> int:
        if obs.tolist() in ([0, 1, 1], [1, 1, 0]):
            sign[:] = [NORTH if obs[2] else SOUTH]
        return sign[0] if obs.tolist() == [0, 1, 0] else EAST

    assert mean_return(env, remember, 100) == 4.0
    forget = mean_return(env, lambda obs, _: NORTH if obs.tolist() == [0, 1, 0] else EAST, 1_000)
    assert forget == pytest.approx(1.95, abs=0.15)


def test_walls_of_t_maze_cost_and_time_ends_it() -> None:
    env = make("TMaze", length=2)
    env.reset(seed=0)
    steps = [env.step(WEST) for _ in range(10)]
    assert [step[1] for step in steps] == [-0.1] * 10
    assert [step[3] for step in steps] == [False] * 9 + [True]


# ---- mini_breakout


def follow(obs: Any, env: Any) -> int:
    """Moves the paddle towards the place where the ball comes down."""
    row, column = np.argwhere(obs[:, :, 1])[0]
    before = np.argwhere(obs[:, :, 2])[0]
    paddle = int(np.argwhere(obs[:, :, 0])[0][1])
    going = int(np.sign(column - before[1])) or 1
    target = (column + going * (9 - row)) % 18
    target = 18 - target if target > 9 else target
    return 0 if target == paddle else 1 if target < paddle else 2


def test_a_policy_that_follows_the_ball_clears_the_wall() -> None:
    env = make("MiniBreakout", sticky_action_probability=0.0)
    assert mean_return(env, lambda obs, _: 0, 20) < 5
    obs, _ = env.reset(seed=0)
    total, bricks = 0.0, []
    for _ in range(2_000):
        obs, reward, terminated, _, _ = env.step(follow(obs, env))
        assert obs.max() == 1
        assert obs[:, :, 0].sum() == 1
        total += reward
        bricks.append(int(obs[:, :, 3].sum()))
        if terminated:
            break
    assert total > 15
    assert np.abs(np.diff(bricks)).max() in (1, 30)


def test_actions_of_mini_breakout_stick() -> None:
    loose, stuck = (make("MiniBreakout", sticky_action_probability=p) for p in (0.0, 1.0))
    for env in (loose, stuck):
        env.reset(seed=0)
    moved = [int(np.argwhere(env.step(2)[0][9, :, 0])[0][0]) for env in (loose, stuck)]
    assert moved == [6, 5]


# ---- cartpole_pomdp, pendulum_pomdp


@pytest.mark.parametrize(
    ("name", "whole", "kept", "action"),
    [
        ("cartpole_pomdp", "CartPole-v1", [0, 2], 1),
        ("pendulum_pomdp", "Pendulum-v1", [0, 1], np.ones(1, np.float32)),
    ],
)
def test_velocities_are_hidden(name: str, whole: str, kept: list[int], action: Any) -> None:
    config = {"env": {"type": name}, "policy": {"type": "random"}}
    env = compile_config(config).env.build(None)
    full = gymnasium.make(whole)
    assert env.reset(seed=3)[0].tolist() == full.reset(seed=3)[0][kept].tolist()
    assert env.step(action)[0].tolist() == full.step(action)[0][kept].tolist()
    assert env.observation_space.shape == (2,)


@pytest.mark.parametrize(
    "name", ["BitFlip", "Chain", "MiniBreakout", "Moving", "Nim", "TMaze", "TwoStep"]
)
def test_tasks_are_rendered(name: str) -> None:
    env = make(name, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first.dtype == np.uint8
    assert first.shape[2] == 3
    env.step(env.action_space.sample())
    assert env.render().std() > 0
