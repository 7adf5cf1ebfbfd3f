"""Env steps per second of whole trainings on CartPole: serial, parallel, dist, and RLlib beside.

python -m benchmarks.beside_rllib                        DQN and PPO, all systems, JSON lines
python -m benchmarks.beside_rllib --seconds 20 dqn rllib only these
python -m benchmarks.beside_rllib --python PYTHON        interpreter that has RLlib

All systems have two processes of four environments (serial: one of eight), the same networks and
batches, and about as many samples drawn per env step, which is printed. Nothing is evaluated. The
time begins when the first 3,000 env steps are made.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_WARM = 3_000
"""Env steps before the time begins."""
_START_S = 180.0
"""Limit for these."""

POLICIES: dict[str, list[str]] = {
    "dqn": [
        "policy.model.encoder_hidden_size_list=[64]",
        "policy.learn.batch_size=32",
        "policy.learn.update_per_collect=6",
        "policy.collect.n_sample=32",
        "policy.collect.random_collect_size=512",
        "policy.other.replay_buffer.replay_buffer_size=20000",
    ],
    "ppo": [
        "policy.model.encoder_hidden_size_list=[64,64]",
        "policy.learn.batch_size=128",
        "policy.learn.epoch_per_collect=4",
        "policy.collect.n_sample=1024",
    ],
}
SYSTEMS: dict[str, list[str]] = {
    "serial": ["env.collector_env_num=8"],
    "parallel": ["-m", "parallel", "env.collector_env_num=4", "pipeline.system.collector_num=2"],
    "dist": ["-m", "dist", "env.collector_env_num=4", "pipeline.system.collector_num=2",
             "pipeline.system.start=processes", "pipeline.system.commander.type=naive"],
    "dist_ray": ["pipeline.system.comm_learner=ray"],
}  # fmt: skip
SYSTEMS["dist_ray"] = [*SYSTEMS["dist"], *SYSTEMS["dist_ray"]]
COMMON = ["env.stop_value=1000000", "policy.eval.evaluator.eval_freq=1000000000"]

RLLIB = """
import sys, time
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

policy, seconds, warm = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
if policy == "dqn":
    config = DQNConfig().training(
        train_batch_size_per_learner=32, lr=1e-3, training_intensity=6, double_q=True,
        dueling=False, n_step=1, num_steps_sampled_before_learning_starts=512,
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 20_000},
    )
    model = DefaultModelConfig(fcnet_hiddens=[64], fcnet_activation="relu")
else:
    config = PPOConfig().training(
        train_batch_size_per_learner=1024, minibatch_size=128, num_epochs=4, lr=3e-4
    )
    model = DefaultModelConfig(
        fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
    )
config = config.rl_module(model_config=model).environment("CartPole-v1")
algorithm = config.env_runners(num_env_runners=2, num_envs_per_env_runner=4).build_algo()

def counts():
    result = algorithm.train()
    trained = result.get("learners", {}).get("default_policy", {})
    steps = result["num_env_steps_sampled_lifetime"]
    return steps, trained.get("num_module_steps_trained_lifetime", 0)

first = counts()
while first[0] < warm:
    first = counts()
begin, last = time.perf_counter(), first
while time.perf_counter() - begin < seconds:
    last = counts()
spent = time.perf_counter() - begin
steps, trained = last[0] - first[0], last[1] - first[1]
print("FOUND", steps / spent, trained / max(steps, 1))
"""


def progress(run: Path) -> tuple[int, int]:
    """Returns env steps and updates of a training so far."""
    journal = run / "policy" / "journal.jsonl"
    if journal.exists():
        lines = [json.loads(each) for each in journal.read_text().splitlines() if each[-1:] == "}"]
        steps = sum(each["env_step"] for each in lines if each["event"] in ("block", "steps"))
        return steps, max((each.get("train_iter", 0) for each in lines), default=0)
    try:
        last = (run / "log" / "metrics.jsonl").read_text().splitlines()[-1]
        found = json.loads(last)
    except (OSError, IndexError, ValueError):
        return 0, 0
    return int(found["step"]), int(found["train_iter"])


def dicore(policy: str, system: str, seconds: float, folder: Path) -> tuple[float, float]:
    """Returns env steps per second, and samples drawn per env step."""
    run = folder / f"{policy}_{system}"
    show = "policy.learn.learner.hook.log_show_after_iter=10"
    words = [*SYSTEMS[system], *POLICIES[policy], *COMMON, show]
    program = "import sys; from dicore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "train", "-e", "cartpole", "-p", policy, "-s", "0"]
    command += ["--exp-name", str(run), "--max-env-step", "100000000", *words]
    with (folder / f"{policy}_{system}.txt").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        try:
            began = time.monotonic()
            while progress(run)[0] < _WARM:
                if process.poll() is not None or time.monotonic() - began > _START_S:
                    raise SystemExit(f"{system}: {Path(output.name).read_text()[-2000:]}")
                time.sleep(0.2)
            first, begin = progress(run), time.perf_counter()
            time.sleep(seconds)
            last, spent = progress(run), time.perf_counter() - begin
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    steps = last[0] - first[0]
    size = 32 if policy == "dqn" else 128
    return steps / spent, (last[1] - first[1]) * size / max(steps, 1)


def rllib(policy: str, seconds: float, python: str) -> tuple[float, float]:
    """Returns the same of RLlib, by its `train()`."""
    done = subprocess.run(
        [python, "-c", RLLIB, policy, str(seconds), str(_WARM)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
    )  # fmt: skip
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND")]
    if not found:
        raise SystemExit(f"rllib: {done.stdout[-2000:]}")
    return float(found[0][0]), float(found[0][1])


def main() -> None:
    """Measures what is named on the command line, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="dqn, ppo, and systems")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    policies = [each for each in POLICIES if each in args.names] or [*POLICIES]
    systems = [each for each in (*SYSTEMS, "rllib") if each in args.names] or [*SYSTEMS, "rllib"]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            for policy in policies:
                for system in systems:
                    place = Path(folder) / str(number)
                    place.mkdir(exist_ok=True)
                    if system == "rllib":
                        rate, drawn = rllib(policy, args.seconds, args.python)
                    else:
                        rate, drawn = dicore(policy, system, args.seconds, place)
                    facts: dict[str, Any] = {"policy": policy, "system": system, "round": number}
                    facts |= {"env_steps_per_s": round(rate), "drawn_per_env_step": round(drawn, 1)}
                    facts["load"] = round(os.getloadavg()[0], 1)
                    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
