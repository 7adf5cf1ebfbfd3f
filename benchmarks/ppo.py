"""P22: a whole PPO training in 64 natively vectorised environments, beside SB3 and a bare script.

All three have the same network, settings and number of env steps. The script has the pieces of
dicore (network, loss, advantages, flat Adam, NumPy acting) and nothing else: no config, log,
checkpoints, checks of data, signals or resuming. SB3 steps its environments one by one, since it
has no natively vectorised ones. Env steps per second of processor time, after the imports.

python -m benchmarks.ppo
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.measure import ROUNDS, compare, emit, missing
from dicore.run.launch import launch
from dicore.run.random import seed_everything, torch_stream
from dicore_plugins.functional.advantage import gae
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.policy_gradient import ppo_error
from dicore_plugins.models import VAC, Flat
from dicore_plugins.optimizers import FlatAdam

ENVS, STEPS, EPOCHS, BATCH = 64, 32, 10, 256
COLLECT = ENVS * STEPS
BUDGET = 50 * COLLECT
GAMMA, LAMBDA, RATE, CLIP = 0.98, 0.8, 1e-3, 0.2


def dicore_train(seed: int) -> int:
    """Trains by the launcher; returns the env steps."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = launch(
            {
                "env": {"type": "cartpole", "collector_env_num": ENVS, "evaluator_env_num": 1,
                        "n_evaluator_episode": 1, "stop_value": float("inf"),
                        "manager": {"type": "vector"}},
                "policy": {
                    "type": "ppo", "discount_factor": GAMMA,
                    "learn": {"batch_size": BATCH, "epoch_per_collect": EPOCHS,
                              "learning_rate": RATE, "clip_ratio": CLIP},
                    "collect": {"n_sample": COLLECT, "gae_lambda": LAMBDA},
                    "eval": {"evaluator": {"eval_freq": 10**9}},
                },
                "pipeline": {"final_eval": False, "logger": ["tensorboard"]},
            },
            seed=seed, exp_name=f"{folder}/run", max_env_step=BUDGET,
        )  # fmt: skip
        return int(outcome.run.result.env_step)


def script(seed: int) -> int:
    """Trains by the pieces alone; returns the env steps."""
    seed_everything(seed)
    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="vector_entry_point")
    with torch_stream("model"):
        model = VAC(4, 2)
    flat = Flat(model)
    optimizer = FlatAdam(flat, learning_rate=RATE, max_grad_norm=0.5, eps=1e-5)
    act, rng = model.act_numpy(), np.random.default_rng(seed)
    assert act is not None
    obs, _ = envs.reset(seed=seed)
    resetting = np.zeros(ENVS, np.bool_)
    block = {
        "obs": np.empty((STEPS + 1, ENVS, 4), np.float32), "logit": np.empty((STEPS, ENVS, 2)),
        "action": np.empty((STEPS, ENVS), np.int64), "reward": np.empty((STEPS, ENVS), np.float32),
        **{key: np.empty((STEPS, ENVS), np.bool_) for key in ("done", "end", "valid")},
    }  # fmt: skip
    env_step = 0
    while env_step < BUDGET:
        for t in range(STEPS):
            logit = act(obs)["logit"]
            action = (logit + rng.gumbel(size=logit.shape)).argmax(1)
            block["obs"][t], block["logit"][t], block["action"][t] = obs, logit, action
            obs, reward, terminated, truncated, _ = envs.step(action)
            block["reward"][t], block["done"][t] = reward, terminated
            block["end"][t], block["valid"][t] = terminated | truncated, ~resetting
            resetting = terminated | truncated
        block["obs"][STEPS] = obs
        env_step += int(block["valid"].sum())
        _learn(block, model, optimizer, rng)
    envs.close()
    return env_step


def _learn(block: dict[str, Any], model: VAC, optimizer: FlatAdam, rng: Any) -> None:
    """Makes the updates of one block; the observation after an end is the next row's."""
    rows = torch.from_numpy(block["obs"].reshape(-1, 4))
    with torch.inference_mode():
        value = model.v(rows).numpy().reshape(STEPS + 1, ENVS)
        action = torch.from_numpy(block["action"].reshape(-1))
        logit = torch.from_numpy(block["logit"].reshape(-1, 2).astype(np.float32))
        log_prob, _ = log_prob_entropy({"logit": logit}, action)
    advantage = gae(
        block["reward"], value[:-1], value[1:], block["done"], block["end"],
        gamma=GAMMA, gae_lambda=LAMBDA,
    )  # fmt: skip
    valid = torch.from_numpy(np.flatnonzero(block["valid"]))
    columns = {
        "obs": rows[: STEPS * ENVS], "action": action, "log_prob": log_prob.clone(),
        "advantage": torch.from_numpy(advantage.reshape(-1)),
        "target": torch.from_numpy((advantage + value[:-1]).reshape(-1)),
    }  # fmt: skip
    for _ in range(EPOCHS):
        order = valid[torch.from_numpy(rng.permutation(len(valid)))]
        mixed = {key: each[order] for key, each in columns.items()}
        for start in range(0, len(order), BATCH):
            part = {key: each[start : start + BATCH] for key, each in mixed.items()}
            scaled = part["advantage"]
            scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
            output = model(part["obs"])
            found, entropy = log_prob_entropy(output, part["action"])
            parts, _ = ppo_error(
                found, part["log_prob"], entropy, output["value"], output["value"], scaled,
                part["target"], clip_ratio=CLIP,
            )  # fmt: skip
            loss = torch.add(parts.policy, parts.value, alpha=0.5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step(loss)


def sb3_train(seed: int) -> int:
    """Trains SB3 with the same settings; returns the env steps."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    model = PPO(
        "MlpPolicy", DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * ENVS), seed=seed,
        device="cpu", n_steps=STEPS, batch_size=BATCH, n_epochs=EPOCHS, gamma=GAMMA,
        gae_lambda=LAMBDA, learning_rate=RATE, clip_range=CLIP,
    )  # fmt: skip
    model.learn(BUDGET)
    return int(model.num_timesteps)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    contenders = {"dicore": dicore_train, "script": script}
    targets = {"script": 0.8}
    try:
        import stable_baselines3  # noqa: F401 - fails before the long run

        contenders["SB3"], targets["SB3"] = sb3_train, 4.0
    except ImportError:
        missing("P22", "stable-baselines3")
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for seed in range(-1, min(ROUNDS, 5)):  # the first run of a process is slower
        for name, train in contenders.items():
            start = time.process_time()
            steps = train(seed + 1)
            rate = steps / (time.process_time() - start)
            print(f"# P22 seed {seed + 1} {name}: {rate:.0f} env steps/s", file=sys.stderr)
            if seed >= 0:
                rates[name].append(rate)
    for name, values in rates.items():
        emit(f"P22 {name}", values, "env steps/s")
    for name, target in targets.items():
        compare("P22", rates["dicore"], rates[name], name, target)


if __name__ == "__main__":
    main()
