"""P16: time to solve CartPole-v1 (475, twice in a row), compared with SB3 with the same settings.

python benchmarks/cartpole.py            # 10 seeds
python benchmarks/cartpole.py 3          # 3 seeds
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import compare, emit, missing
from dicore.run.launch import TrainRequest, launch
from dicore_contrib_envs.presets import CARTPOLE_DQN

LIMIT, EPISODES, WANTED = 15_000, 10, 475.0


def dicore_run(seed: int) -> tuple[float, int, bool]:
    """Returns seconds, env steps and whether the task was solved."""
    with tempfile.TemporaryDirectory() as folder:
        request = TrainRequest(
            config=CARTPOLE_DQN,
            seed=seed,
            exp_name=str(Path(folder) / "run"),
            max_env_step=LIMIT,
            overrides=["policy.eval.evaluator.consecutive=2", "pipeline.logger=['tensorboard']"],
        )
        result = launch(request).run.result
    return result.wall_s, result.env_step, result.stop


def sb3_run(seed: int) -> tuple[float, int, bool]:
    """Trains SB3 with the same network, schedules, batch, target, n-step and evaluations.

    SB3 moves its target once per step of the environments, dicore once per update; SB3 has no layer
    normalisation.
    """
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    policy, learn = CARTPOLE_DQN["policy"], CARTPOLE_DQN["policy"]["learn"]
    num_envs, eps = CARTPOLE_DQN["env"]["collector_env_num"], policy["other"]["eps"]
    decay = learn["learning_rate_decay"]
    every = policy["eval"]["evaluator"]["eval_freq"]

    class Evaluate(BaseCallback):
        reached = 0

        def _on_step(self) -> bool:
            if self.num_timesteps % every or self.num_timesteps <= 1000:
                return True
            envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * EPISODES)
            envs.seed(seed * 1000 + self.num_timesteps)
            obs, total, live = envs.reset(), np.zeros(EPISODES), np.ones(EPISODES, bool)
            while live.any():
                action, _ = self.model.predict(obs, deterministic=True)
                obs, reward, done, _ = envs.step(action)
                total += reward * live
                live &= ~done
            self.reached = self.reached + 1 if total.mean() >= WANTED else 0
            return self.reached < 2

    model = DQN(
        "MlpPolicy",
        DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs),
        seed=seed,
        device="cpu",
        learning_rate=lambda remaining: (
            learn["learning_rate"]
            * (1 - (1 - learn["learning_rate_end"]) * min((1 - remaining) * LIMIT / decay, 1))
        ),
        batch_size=learn["batch_size"],
        gamma=policy["discount_factor"],
        n_steps=policy["nstep"],
        buffer_size=policy["other"]["replay_buffer"]["replay_buffer_size"],
        learning_starts=policy["collect"]["random_collect_size"],
        train_freq=(policy["collect"]["n_sample"] // num_envs, "step"),
        gradient_steps=learn["update_per_collect"],
        tau=1 - (1 - learn["target_theta"]) ** num_envs,
        target_update_interval=num_envs,
        max_grad_norm=learn["max_grad_norm"],
        exploration_fraction=eps["decay"] / LIMIT,
        exploration_initial_eps=eps["start"],
        exploration_final_eps=eps["end"],
        policy_kwargs={"net_arch": list(policy["model"]["encoder_hidden_size_list"])},
    )
    callback = Evaluate()
    start = time.perf_counter()
    model.learn(LIMIT, callback=callback)
    return time.perf_counter() - start, model.num_timesteps, callback.reached >= 2


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    contenders = {"dicore": dicore_run}
    try:
        import stable_baselines3  # noqa: F401 - fails before the long run

        contenders["SB3"] = sb3_run
    except ImportError:
        missing("P16", "stable-baselines3")
    dicore_run(99)  # warm-up: the first run of a process is slower
    found: dict[str, list[tuple[float, int, bool]]] = {name: [] for name in contenders}
    for seed in seeds:
        for name, run in contenders.items():
            found[name].append(run(seed))
            print(f"# seed {seed} {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    for name, runs in found.items():
        emit(f"P16 {name} seconds", [seconds for seconds, _, _ in runs], "s")
        emit(
            f"P16 {name} env steps",
            [float(steps) for _, steps, _ in runs],
            "env steps",
            solved=f"{sum(solved for _, _, solved in runs)} of {len(runs)}",
        )
    if "SB3" in found:
        rates = [[steps / s for s, steps, _ in found[name]] for name in ("dicore", "SB3")]
        compare("P16 per env step", rates[0], rates[1], "SB3", 1.4)


if __name__ == "__main__":
    main()
