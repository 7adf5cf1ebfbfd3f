"""Teams in MPE and VMAS: return and env steps per second of CPU of trainings, BenchMARL beside.

python -m benchmarks.beside_benchmarl                      mappo and ippo, one seed, JSON lines
python -m benchmarks.beside_benchmarl mappo --seeds 3 --env-steps 200000
python -m benchmarks.beside_benchmarl maddpg --task simple_speaker_listener
python -m benchmarks.beside_benchmarl mappo --task balance --env-steps 300000
python -m benchmarks.beside_benchmarl --python PYTHON      interpreter that has BenchMARL 1.5

Both have networks of two layers of 64 without numbers of agents, as many environments, batches and
passes of the same size, and the same losses; what agents of a group have in common they share. The
return is the mean over agents and episodes that neither has trained on, without exploration; in
simple_tag that of the hunters, whose prey moves at random. Seconds of CPU count from the second
collect on, without evaluations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import compare, emit

EPISODES = 100


class Task(NamedTuple):
    """A task of both, whose episodes have 100 steps."""

    env: str
    options: tuple[str, ...]
    agents: int
    envs: int = 8
    collect: int = 1600
    batch: int = 400
    hunters: int = 0


_MPE = ("env.alive=false",)
TASKS: Mapping[str, Task] = {
    "simple_spread": Task(
        "pettingzoo_agents:mpe2.simple_spread_v3",
        (*_MPE, "env.make_kwargs={max_cycles: 100, local_ratio: 0.5, N: 3%s}"), 3,
    ),
    "simple_speaker_listener": Task(
        "pettingzoo_agents:mpe2.simple_speaker_listener_v4",
        (*_MPE, "env.make_kwargs={max_cycles: 100%s}", "env.pad=true", "policy.model.share=none"),
        2,
    ),
    "simple_tag": Task(
        "pettingzoo_agents:mpe2.simple_tag_v3",
        (*_MPE, "env.make_kwargs={max_cycles: 100, num_good: 2, num_adversaries: 3,"
                " num_obstacles: 2%s}", "env.pad=true", "policy.model.share=group",
         "policy.model.groups=[0,0,0,1,1]"), 5, hunters=3,
    ),
    "balance": Task(
        "vmas:balance", ("env.make_kwargs={n_agents: 4, random_package_pos_on_line: true,"
                         " package_mass: 5}",), 4, 60, 6000, 600,
    ),
    "navigation": Task(
        "vmas:navigation", ("env.make_kwargs={n_agents: 3, collisions: true,"
                            " agents_with_same_goal: 1, split_goals: false,"
                            " observe_all_goals: false, shared_rew: false, lidar_range: 0.35,"
                            " agent_radius: 0.1}",), 3, 60, 6000, 600,
    ),
}  # fmt: skip

LEARN = "policy.learn."
ON_POLICY = ("policy.collect.n_sample={collect}", f"{LEARN}batch_size={{batch}}",
             f"{LEARN}epoch_per_collect=5", f"{LEARN}entropy_weight=0.01",
             f"{LEARN}max_grad_norm=0.5", "policy.model.activation=tanh")  # fmt: skip
REPLAYED = ("policy.collect.n_sample=800", f"{LEARN}batch_size=128",
            f"{LEARN}update_per_collect=100", f"{LEARN}target_theta=0.005",
            "policy.discount_factor=0.99",
            "policy.other.replay_buffer.replay_buffer_size=100000")  # fmt: skip
# 0.8 and 0.01 of actions in [0, 1], as BenchMARL's, are twice as much in [-1, 1]
NOISE = ("policy.collect.noise=1.6", "policy.collect.noise_end=0.02",
         "policy.collect.noise_decay={third}", "policy.collect.random_collect_size=800",
         f"{LEARN}max_grad_norm=0.5")  # fmt: skip
EPS = ("policy.other.eps.type=linear", "policy.other.eps.start=0.8", "policy.other.eps.end=0.01",
       "policy.other.eps.decay={third}", f"{LEARN}max_grad_norm=0.5")  # fmt: skip
OPTIONS = {"mappo": ON_POLICY, "ippo": ON_POLICY, "qmix": (*REPLAYED, *EPS),
           "vdn": (*REPLAYED, *EPS), "maddpg": (*REPLAYED, *NOISE)}  # fmt: skip

DICORE = """
import json, sys, time
import torch
from dicore.run.launch import launch
from dicore_plugins.collectors import SampleCollector
torch.set_num_threads(1)
torch.set_num_interop_threads(1)
env, name, steps, seed, folder, words = *sys.argv[1:6], json.loads(sys.argv[6])
began = []
collect = SampleCollector.collect_batch
def noted(self, *args, **more):
    began.append((time.process_time(), self.envstep))
    return collect(self, *args, **more)
SampleCollector.collect_batch = noted
launch(env=env, policy=name, seed=int(seed), max_env_step=int(steps),
       exp_name=folder, overrides=words)
print("FOUND", began[-1][0] - began[1][0], began[-1][1] - began[1][1])
"""

AGAINST_RANDOM = """
import sys
import numpy as np
from dicore import Agent
folder, episodes, hunters, seed = sys.argv[1], *map(int, sys.argv[2:])
agent = Agent.from_run(folder, trust=True)
env, moves, returns = agent.make_env(), np.random.default_rng(seed), []
env.action_space.seed(seed)
for episode in range(episodes):
    obs, over, paid = env.reset(seed=seed + 1000 * episode)[0], False, 0.0
    while not over:
        action = np.asarray(agent.act(obs))
        action[hunters:] = env.action_space.sample()[hunters:]
        obs, reward, terminated, truncated, _ = env.step(action)
        over, paid = terminated or truncated, paid + reward[:hunters].mean()
    returns.append(paid)
print("FOUND", sum(returns) / len(returns))
"""

BENCHMARL = """
import json, os, sys, time, types
import mpe2.all_modules
# TorchRL looks for these environments where PettingZoo had them
sys.modules["pettingzoo.mpe"] = types.ModuleType("pettingzoo.mpe")
sys.modules["pettingzoo.mpe.all_modules"] = mpe2.all_modules
import torch
from benchmarl.algorithms import IppoConfig, MaddpgConfig, MappoConfig, QmixConfig, VdnConfig
from benchmarl.environments import PettingZooTask, VmasTask
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
torch.set_num_threads(1)
task, name, steps, seed, folder, episodes, envs, collect, batch, hunters = sys.argv[1:]
on_policy = name in ("mappo", "ippo")
config = ExperimentConfig.get_from_yaml()
config.max_n_frames, config.max_n_iters = int(steps), None
config.render, config.loggers, config.create_json = False, [], False
config.prefer_continuous_actions = name == "maddpg" or not task.startswith("simple")
config.lr, config.clip_grad_val = 7e-4, 0.5
config.on_policy_collected_frames_per_batch = int(collect)
config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = int(envs)
config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size = 5, int(batch)
config.off_policy_collected_frames_per_batch, config.off_policy_n_optimizer_steps = 800, 100
config.off_policy_train_batch_size, config.off_policy_memory_size = 128, 100000
config.evaluation, config.save_folder = False, folder
activation = torch.nn.Tanh if on_policy else torch.nn.ReLU
layers = {"layer_class": torch.nn.Linear, "activation_class": activation}
model = MlpConfig(num_cells=[64, 64], **layers)
algorithm = {"mappo": MappoConfig, "ippo": IppoConfig, "maddpg": MaddpgConfig,
             "qmix": QmixConfig, "vdn": VdnConfig}[name].get_from_yaml()
if on_policy:
    algorithm.entropy_coef, algorithm.clip_epsilon, algorithm.lmbda = 0.01, 0.2, 0.95
    algorithm.share_param_critic = True
tasks = PettingZooTask if task.startswith("simple") else VmasTask
experiment = Experiment(
    task=tasks[task.upper()].get_from_yaml(), algorithm_config=algorithm,
    model_config=model, critic_model_config=model, seed=int(seed), config=config,
)
began = []
append = experiment._on_batch_collected
def noted(batch):
    began.append((time.process_time(), batch.numel()))
    return append(batch)
experiment._on_batch_collected = noted
experiment.run()
from torchrl.envs.utils import ExplorationType, set_exploration_type
env, returns = experiment.test_env, []
torch.manual_seed(1000 + int(seed))
def moves(td):
    td = experiment.policy(td)
    if int(hunters):
        td["agent", "action"] = env.full_action_spec["agent", "action"].rand()
    return td
groups = ["adversary"] if int(hunters) else experiment.group_map
with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
    while len(returns) < int(episodes):
        played = env.rollout(100, moves, break_when_any_done=not env.batch_size)
        paid = torch.cat([played["next", group, "reward"] for group in groups], -2)
        # VMAS begins no new episode here: what follows an end does not count
        ended = played["next", "done"].cumsum(-2) - played["next", "done"].int()
        paid = (paid * (ended == 0).unsqueeze(-2)).sum(-3).mean((-2, -1))
        returns += paid.flatten().tolist()
steps = sum(count for _, count in began[1:])
print("FOUND", began[-1][0] - began[0][0], steps, sum(returns) / len(returns))
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


def words_of(name: str, task: Task, steps: int) -> list[str]:
    """Returns the options of a training of ours."""
    moves = ", continuous_actions: true" if name == "maddpg" else ""
    env = [each.replace("%s", moves) for each in task.options]
    sizes = {"collect": task.collect, "batch": task.batch, "third": steps // 3}
    given = [each.format(**sizes) for each in OPTIONS[name]]
    usual = [f"env.collector_env_num={task.envs}", "policy.model.agent_ids=false",
             f"{LEARN}learning_rate=7e-4", "policy.eval.evaluator.eval_freq=1000000000",
             ]  # fmt: skip
    return [*env, *usual, *given]


def dicore(name: str, task: Task, steps: int, seed: int, folder: Path) -> tuple[float, float]:
    """Returns env steps per second of CPU, and the mean return of an agent."""
    run = str(folder / f"{name}_{seed}")
    words = [task.env, name, str(steps), str(seed), run, json.dumps(words_of(name, task, steps))]
    spent, played = found([sys.executable, "-c", DICORE, *words], 20_000)
    if task.hunters:
        told = [str(each) for each in (EPISODES, task.hunters, 1000 + seed)]
        return played / spent, found([sys.executable, "-c", AGAINST_RANDOM, run, *told], 2_000)[0]
    program = "import sys; from dicore.cli import main; sys.exit(main())"
    words = ["eval", run, "-n", str(EPISODES), "-s", str(1000 + seed), "--json", "--trust"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    return played / spent, float(json.loads(done.stdout)["mean_return"]) / task.agents


def benchmarl(
    name: str, title: str, steps: int, seed: int, folder: Path, python: str
) -> tuple[float, float]:  # fmt: skip
    """Returns the same of BenchMARL."""
    task = TASKS[title]
    sizes = [str(each) for each in (EPISODES, task.envs, task.collect, task.batch, task.hunters)]
    words = [title, name, str(steps), str(seed), str(folder), *sizes]
    spent, played, value = found([python, "-c", BENCHMARL, *words], 20_000)
    return played / spent, value


def main() -> None:
    """Trains what is named on the command line, or both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="mappo, ippo, maddpg, qmix, vdn")
    parser.add_argument("--task", choices=TASKS, default="simple_spread")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--env-steps", type=int, default=60_000)
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    task, steps = TASKS[args.task], args.env_steps
    for name in args.names or ("mappo", "ippo"):
        with tempfile.TemporaryDirectory() as folder:
            place, seeds = Path(folder), range(args.seeds)
            ours = [dicore(name, task, steps, seed, place) for seed in seeds]
            theirs = [
                benchmarl(name, args.task, steps, seed, place, args.python) for seed in seeds
            ]  # fmt: skip
        row = f"{args.task} {name}"
        for label, runs in (("dicore", ours), ("benchmarl", theirs)):
            emit(f"{row} {label} return", [value for _, value in runs], "return of an agent")
            emit(f"{row} {label}", [rate for rate, _ in runs], "env steps/s")
        compare(row, [each[0] for each in ours], [each[0] for each in theirs], "benchmarl", 2.0)


if __name__ == "__main__":
    main()
