"""Makes policies with Stable-Baselines3 and sb3-contrib and records them with their actions.

Needs stable-baselines3 and sb3-contrib 2.9, which CI does not install:

    python tests/compat/weights/make_sb3_checkpoints.py tests/compat/weights/recorded

The policies are not trained: their parameters are random. What `model.save` writes is packed again
without the state of optimizers and without pickled arguments, which are large and of one machine;
beside it, `NAME.npz` holds 256 observations and what `model.predict` does there without noise.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

KEPT = ("data", "policy.pth", "_stable_baselines3_version")
SIZES = {"net_arch": [16, 16]}
ENVS = {"pendulum": "Pendulum-v1", "cartpole": "CartPole-v1"}
MADE: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "ppo": (sb3.PPO, "pendulum", "MlpPolicy", SIZES),
    "ppo_discrete": (sb3.PPO, "cartpole", "MlpPolicy", SIZES),
    "a2c": (sb3.A2C, "cartpole", "MlpPolicy", SIZES),
    "dqn": (sb3.DQN, "cartpole", "MlpPolicy", SIZES),
    "sac": (sb3.SAC, "pendulum", "MlpPolicy", SIZES),
    "td3": (sb3.TD3, "pendulum", "MlpPolicy", SIZES),
    "ddpg": (sb3.DDPG, "pendulum", "MlpPolicy", SIZES),
    "tqc": (sb3_contrib.TQC, "pendulum", "MlpPolicy", SIZES),
    "qrdqn": (sb3_contrib.QRDQN, "cartpole", "MlpPolicy", SIZES | {"n_quantiles": 10}),
    "trpo": (sb3_contrib.TRPO, "pendulum", "MlpPolicy", SIZES),
    "ars": (sb3_contrib.ARS, "pendulum", "MlpPolicy", SIZES),
    "ars_linear": (sb3_contrib.ARS, "cartpole", "LinearPolicy", {}),
    "recurrent": (sb3_contrib.RecurrentPPO, "cartpole", "MlpLstmPolicy",
                  {"net_arch": [8], "lstm_hidden_size": 4}),
    "crossq": (sb3_contrib.CrossQ, "pendulum", "MlpPolicy", {"net_arch": [8]}),
    "gsde": (sb3.PPO, "pendulum", "MlpPolicy", {"net_arch": [8]}),
}  # fmt: skip
"""Class, environment, policy and its arguments, of each checkpoint."""
NORMALISED = ("ppo", "sac")
"""Those that see observations as `VecNormalize` normalises them."""


def observations(env: DummyVecEnv) -> np.ndarray[Any, Any]:
    """Returns 256 observations of random actions."""
    env.seed(0)
    env.action_space.seed(0)
    found = [env.reset()]
    while len(found) < 256:
        found.append(env.step(np.asarray([env.action_space.sample()]))[0])
    return np.concatenate(found).astype(np.float32)


def save(model: Any, file: Path) -> None:
    buffer = io.BytesIO()
    model.save(buffer)
    buffer.seek(0)
    with (
        zipfile.ZipFile(buffer) as whole,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept,
    ):
        for name in KEPT:
            kept.writestr(name, plain(whole.read(name)) if name == "data" else whole.read(name))


def plain(data: bytes) -> str:
    """Returns the arguments with numbers, texts and types, but nothing pickled."""
    found: dict[str, Any] = {}
    for name, value in json.loads(data).items():
        if isinstance(value, dict) and ":type:" in value:
            found[name] = {":type:": value[":type:"]}
        elif isinstance(value, int | float | str) or value is None:
            found[name] = value
    return json.dumps(found)


def make(out: Path, name: str) -> None:
    algorithm, env_name, policy, arguments = MADE[name]
    raw = DummyVecEnv([lambda: gym.make(ENVS[env_name])])
    obs = observations(raw)
    env: Any = VecNormalize(raw) if name in NORMALISED else raw
    if name in NORMALISED:
        observations(env)
    more = {"use_sde": True} if name == "gsde" else {}
    model = algorithm(policy, env, seed=1, device="cpu", policy_kwargs={**arguments}, **more)
    with torch.no_grad():
        for each in model.policy.parameters():
            each.copy_((0.4 if each.ndim > 1 else 0.05) * torch.randn(each.shape))
    save(model, out / f"sb3_{name}.zip")
    seen = env.normalize_obs(obs) if name in NORMALISED else obs
    if name in NORMALISED:
        rms = env.obs_rms
        np.savez(out / f"sb3_{name}_norm.npz", mean=rms.mean, var=rms.var, epsilon=env.epsilon,
                 clip=env.clip_obs)  # fmt: skip
    action, _ = model.predict(seen, deterministic=True)
    if name not in ("recurrent", "crossq", "gsde"):
        np.savez_compressed(out / f"sb3_{name}.npz", obs=obs, action=action)


if __name__ == "__main__":
    for each in MADE:
        torch.manual_seed(1)
        make(Path(sys.argv[1]), each)
