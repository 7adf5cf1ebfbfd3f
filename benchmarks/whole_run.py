"""P17: a whole `dicore train` compared with a hand-written script of the same work (DQN, CartPole).

The script steps the same episodes, evaluates as often, makes the same updates with the same pieces
(network, loss, flat Adam, exploration) and ends with the same parameters, which is checked. It has
no config, log, checkpoints, checks of data, signals or resuming. Wall clock after the imports.

python -m benchmarks.whole_run
"""

from __future__ import annotations

import logging
import tempfile
import time
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.measure import compare, emit
from dicore.run.launch import launch
from dicore.run.random import episode_seed, seed_everything, stream, torch_stream
from dicore_plugins.functional.exploration import eps_greedy, get_epsilon_greedy_fn
from dicore_plugins.functional.td import dqn_td_target, nstep_td_error
from dicore_plugins.models import DQN, Flat
from dicore_plugins.optimizers import FlatAdam

ROUNDS, BUDGET, ENVS, EPISODES = 7, 6_016, 8, 10
CAPACITY, BATCH, UPDATES, COLLECT, EVERY, GAMMA = 50_000, 128, 128, 128, 512, 0.99
NETWORK = (128, 128, 64)
OPTIONS = [
    "env.stop_value=inf",
    "policy.nstep=1",
    "policy.collect.random_collect_size=0",
    "policy.model.initial_bias=zero",
    "policy.model.layer_norm=false",
    "policy.learn.learning_rate_end=1.0",
    "policy.learn.target_theta=null",
    "policy.learn.target_update_freq=40",
    "pipeline.logger=['tensorboard']",
]
"""Changes to the preset: single steps, hard updates and no warm-up keep the script short."""


def dicore_train(seed: int) -> torch.Tensor:
    """Trains by the launcher; returns the parameters."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = launch(
            env="cartpole", policy="dqn", seed=seed, exp_name=f"{folder}/run",
            max_env_step=BUDGET, overrides=OPTIONS,
        )  # fmt: skip
        return outcome.policy.get_attribute("flat").data


class Envs:
    """Environments with the episode seeds of a run."""

    def __init__(self, count: int, seed: int, role: str) -> None:
        self.envs = [gymnasium.make("CartPole-v1") for _ in range(count)]
        self.obs = np.empty((count, 4), np.float32)
        self.episode = [0] * count
        self.seed, self.role = seed, role

    def reset(self, i: int) -> None:
        seed = episode_seed(self.seed, self.role, i, self.episode[i])
        self.episode[i] += 1
        self.obs[i] = self.envs[i].reset(seed=seed)[0]


def evaluate(envs: Envs, act: Any) -> float:
    """Runs one greedy episode in each environment; returns the mean return."""
    for i in range(EPISODES):
        envs.reset(i)
    running, total = list(range(EPISODES)), 0.0
    while running:
        actions = act(envs.obs[running]).argmax(1)
        alive = []
        for i, action in zip(running, actions.tolist(), strict=True):
            envs.obs[i], reward, terminated, truncated, _ = envs.envs[i].step(action)
            total += float(reward)
            if not (terminated or truncated):
                alive.append(i)
        running = alive
    return total / EPISODES


def script(seed: int) -> torch.Tensor:
    """Trains by hand; returns the parameters."""
    seed_everything(seed)
    with torch_stream("model"):
        model = DQN(4, 2, NETWORK)
    flat, target_model = Flat(model), DQN(4, 2, NETWORK).requires_grad_(False)
    target_flat = Flat(target_model)
    target_flat.data.copy_(flat.data)
    optimizer = FlatAdam(flat, learning_rate=4e-3, max_grad_norm=10.0)
    act: Any = model.act_numpy()
    explore, draw = stream("policy/collect"), stream("buffer")
    epsilon = get_epsilon_greedy_fn(1.0, 0.05, 1_000, "linear")
    shapes = {"obs": (4,), "next_obs": (4,), "action": (), "reward": (), "done": ()}
    ring = {
        key: np.empty((CAPACITY, *shape), np.int64 if key == "action" else np.float32)
        for key, shape in shapes.items()
    }
    envs, evaluation = Envs(ENVS, seed, "collector"), Envs(EPISODES, seed, "evaluator")
    for i in range(ENVS):
        envs.reset(i)
    steps = updates = evaluated = 0
    evaluate(evaluation, act)
    while steps < BUDGET:
        if updates - evaluated >= EVERY:
            evaluate(evaluation, act)
            evaluated = updates
        eps = epsilon(steps)
        for _ in range(COLLECT // ENVS):
            logit = act(envs.obs)
            coin, noise = explore.random((2, ENVS))
            action = eps_greedy(logit, eps, coin, noise)
            at = slice(steps % CAPACITY, steps % CAPACITY + ENVS)
            ring["obs"][at], ring["action"][at] = envs.obs, action
            for i, chosen in enumerate(action.tolist()):
                obs, reward, terminated, truncated, _ = envs.envs[i].step(chosen)
                envs.obs[i] = ring["next_obs"][at][i] = obs
                ring["reward"][at][i], ring["done"][at][i] = reward, terminated
                if terminated or truncated:
                    envs.reset(i)
            steps += ENVS
        slots = draw.integers(0, min(steps, CAPACITY), UPDATES * BATCH).reshape(UPDATES, BATCH)
        for chosen_slots in slots:
            b = {key: torch.from_numpy(column[chosen_slots]) for key, column in ring.items()}
            with torch.no_grad():
                next_q, online = target_model.q(b["next_obs"]), model.q(b["next_obs"])
                y = dqn_td_target(next_q, b["reward"], b["done"], GAMMA, online)
            loss, _ = nstep_td_error(model.q(b["obs"]), b["action"], y, None, "huber")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step(loss)
            updates += 1
            if updates % 40 == 0:
                target_flat.data.copy_(flat.data)
    evaluate(evaluation, act)
    return flat.data


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    rates: dict[str, list[float]] = {"dicore": [], "script": []}
    for number in range(-1, ROUNDS):  # the first round warms up
        found = {}
        for name, run in (("dicore", dicore_train), ("script", script)):
            start = time.perf_counter()
            found[name] = run(number + 1)
            if number >= 0:
                rates[name].append(BUDGET / (time.perf_counter() - start))
        if not torch.equal(found["dicore"], found["script"]):
            raise RuntimeError("the script and the run have different parameters")
    for name, values in rates.items():
        emit(f"P17 {name}", values, "env steps/s")
    compare("P17", rates["dicore"], rates["script"], "script", 0.88)


if __name__ == "__main__":
    main()
