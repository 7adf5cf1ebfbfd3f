"""Teams in MPE: return and env steps per second of CPU of whole trainings, BenchMARL beside.

python -m benchmarks.beside_benchmarl                      mappo and ippo, one seed, JSON lines
python -m benchmarks.beside_benchmarl mappo --seeds 3 --env-steps 200000
python -m benchmarks.beside_benchmarl --python PYTHON      interpreter that has BenchMARL 1.5

Both have networks of two layers of 64 shared by the agents, eight environments, batches and passes
of the same size, and the same losses. The return is the mean over agents and episodes that neither
has trained on, without exploration. Seconds of CPU count from the second collect on, without
evaluations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import compare, emit

AGENTS, EPISODES, COLLECT = 3, 100, 1600

OPTIONS = [
    "env.env_id=mpe2.simple_spread_v3",
    "env.make_kwargs={max_cycles: 100, local_ratio: 0.5, N: 3}",
    "env.alive=false",
    "env.collector_env_num=8",
    f"policy.collect.n_sample={COLLECT}",
    "policy.learn.batch_size=400",
    "policy.learn.epoch_per_collect=5",
    "policy.learn.learning_rate=7e-4",
    "policy.learn.max_grad_norm=0.5",
    "policy.learn.entropy_weight=0.01",
    "policy.eval.evaluator.eval_freq=1000000000",
]

DICORE = """
import json, sys, time
import torch
from dicore.run.launch import launch
from dicore_plugins.collectors import SampleCollector
torch.set_num_threads(1)
torch.set_num_interop_threads(1)
name, steps, seed, folder, words = *sys.argv[1:5], json.loads(sys.argv[5])
began = []
collect = SampleCollector.collect_batch
def noted(self, *args, **more):
    began.append(time.process_time())
    return collect(self, *args, **more)
SampleCollector.collect_batch = noted
launch(env="pettingzoo_agents", policy=name, seed=int(seed), max_env_step=int(steps),
       exp_name=folder, overrides=words)
print("FOUND", began[-1] - began[1], len(began) - 2)
"""

BENCHMARL = """
import os, sys, time, types
import mpe2.all_modules
# TorchRL looks for these environments where PettingZoo had them
sys.modules["pettingzoo.mpe"] = types.ModuleType("pettingzoo.mpe")
sys.modules["pettingzoo.mpe.all_modules"] = mpe2.all_modules
import torch
from benchmarl.algorithms import IppoConfig, MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
torch.set_num_threads(1)
name, steps, seed, folder, episodes, collect = sys.argv[1:]
config = ExperimentConfig.get_from_yaml()
config.max_n_frames, config.max_n_iters = int(steps), None
config.render, config.loggers, config.create_json = False, [], False
config.prefer_continuous_actions, config.lr, config.clip_grad_val = False, 7e-4, 0.5
config.on_policy_collected_frames_per_batch = int(collect)
config.on_policy_n_envs_per_worker = 8
config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size = 5, 400
config.evaluation, config.save_folder = False, folder
layers = {"layer_class": torch.nn.Linear, "activation_class": torch.nn.Tanh}
model = MlpConfig(num_cells=[64, 64], **layers)
algorithm = {"mappo": MappoConfig, "ippo": IppoConfig}[name].get_from_yaml()
algorithm.entropy_coef, algorithm.clip_epsilon, algorithm.lmbda = 0.01, 0.2, 0.95
algorithm.share_param_critic = True
experiment = Experiment(
    task=PettingZooTask.SIMPLE_SPREAD.get_from_yaml(), algorithm_config=algorithm,
    model_config=model, critic_model_config=model, seed=int(seed), config=config,
)
began = []
append = experiment._on_batch_collected
def noted(batch):
    began.append(time.process_time())
    return append(batch)
experiment._on_batch_collected = noted
experiment.run()
from torchrl.envs.utils import ExplorationType, set_exploration_type
env, returns = experiment.test_env, []
torch.manual_seed(1000 + int(seed))
with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
    for _ in range(int(episodes)):
        played = env.rollout(100, experiment.policy)
        returns.append(played["next", "agent", "reward"].sum(0).mean().item())
print("FOUND", began[-1] - began[0], len(began) - 1, sum(returns) / len(returns))
"""


def found(command: list[str], limit_s: float) -> list[float]:
    """Returns the numbers that a program prints after FOUND."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s,
        check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for line in done.stdout.splitlines():
        if line.startswith("FOUND"):
            return [float(each) for each in line.split()[1:]]
    raise SystemExit(done.stdout[-2000:])


def dicore(name: str, steps: int, seed: int, folder: Path) -> tuple[float, float]:
    """Returns env steps per second of CPU, and the mean return of an agent."""
    run = str(folder / f"{name}_{seed}")
    words = [name, str(steps), str(seed), run, json.dumps(OPTIONS)]
    spent, collects = found([sys.executable, "-c", DICORE, *words], 20_000)
    program = "import sys; from dicore.cli import main; sys.exit(main())"
    words = ["eval", run, "-n", str(EPISODES), "-s", str(1000 + seed), "--json", "--trust"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    return collects * COLLECT / spent, float(json.loads(done.stdout)["mean_return"]) / AGENTS


def benchmarl(
    name: str, steps: int, seed: int, folder: Path, python: str
) -> tuple[float, float]:  # fmt: skip
    """Returns the same of BenchMARL."""
    words = [name, str(steps), str(seed), str(folder), str(EPISODES), str(COLLECT)]
    spent, collects, value = found([python, "-c", BENCHMARL, *words], 20_000)
    return collects * COLLECT / spent, value


def main() -> None:
    """Trains what is named on the command line, or both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="mappo, ippo")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--env-steps", type=int, default=60_000)
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    for name in args.names or ("mappo", "ippo"):
        with tempfile.TemporaryDirectory() as folder:
            place, seeds = Path(folder), range(args.seeds)
            ours = [dicore(name, args.env_steps, seed, place) for seed in seeds]
            theirs = [benchmarl(name, args.env_steps, seed, place, args.python) for seed in seeds]
        row = f"simple_spread {name}"
        for label, runs in (("dicore", ours), ("benchmarl", theirs)):
            emit(f"{row} {label} return", [value for _, value in runs], "return of an agent")
            emit(f"{row} {label}", [rate for rate, _ in runs], "env steps/s")
        compare(row, [each[0] for each in ours], [each[0] for each in theirs], "benchmarl", 2.0)


if __name__ == "__main__":
    main()
