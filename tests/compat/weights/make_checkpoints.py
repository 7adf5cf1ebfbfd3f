"""Trains policies with other frameworks and records their checkpoints and actions, as fixtures.

Needs skrl 2.1, rsl-rl-lib 5.5 and tianshou 2.0, which CI does not install:

    python tests/compat/weights/make_checkpoints.py tests/compat/weights/recorded

Each framework trains for some seconds and saves as it does by itself; beside the checkpoint,
`NAME.npz` holds 256 observations and what the framework's own policy does there without noise.
CleanRL is a collection of scripts: its networks are copied from them, with a short training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

SIZES = (16, 16)


def observations(env_id: str, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Returns 256 observations of random actions."""
    env = gym.make(env_id)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    found = []
    while len(found) < 256:
        found.append(obs)
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            obs, _ = env.reset()
    return (np.asarray(found, np.float32) * scale).astype(np.float32)


def record(out: Path, name: str, obs: np.ndarray[Any, Any], action: Any) -> None:
    action = action.detach().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
    np.savez_compressed(out / f"{name}.npz", obs=obs, action=action)


def init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class CleanRLAgent(nn.Module):
    """The network of CleanRL's ppo_continuous_action.py, with smaller layers."""

    def __init__(self, obs_size: int, action_size: int) -> None:
        super().__init__()
        first, second = SIZES
        self.critic = nn.Sequential(
            init(nn.Linear(obs_size, first)), nn.Tanh(), init(nn.Linear(first, second)), nn.Tanh(),
            init(nn.Linear(second, 1), 1.0),
        )  # fmt: skip
        self.actor_mean = nn.Sequential(
            init(nn.Linear(obs_size, first)), nn.Tanh(), init(nn.Linear(first, second)), nn.Tanh(),
            init(nn.Linear(second, action_size), 0.01),
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, action_size))


class CleanRLQNetwork(nn.Module):
    """The network of CleanRL's dqn.py, with smaller layers."""

    def __init__(self, obs_size: int, action_size: int) -> None:
        super().__init__()
        first, second = SIZES
        self.network = nn.Sequential(
            nn.Linear(obs_size, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(),
            nn.Linear(second, action_size),
        )  # fmt: skip


def cleanrl_ppo(out: Path) -> None:
    """PPO on normalised observations, whose statistics CleanRL does not save; they are recorded."""
    torch.manual_seed(1)
    env: Any = gym.wrappers.NormalizeObservation(gym.wrappers.ClipAction(gym.make("Pendulum-v1")))
    agent = CleanRLAgent(3, 1)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    obs, _ = env.reset(seed=1)
    for _ in range(4):
        rows = []
        for _ in range(400):
            x = torch.as_tensor(obs, dtype=torch.float32)
            normal = torch.distributions.Normal(agent.actor_mean(x), agent.actor_logstd[0].exp())
            action = normal.sample()
            following, reward, _, truncated, _ = env.step(action.numpy())
            rows.append((x, action, normal.log_prob(action).sum().detach(), reward / 10))
            obs = env.reset()[0] if truncated else following
        xs, actions, old = (torch.stack([row[i] for row in rows]) for i in range(3))
        returns, total = [], 0.0
        for row in reversed(rows):
            total = float(row[3]) + 0.9 * total
            returns.append(total)
        target = torch.tensor(returns[::-1])
        for _ in range(20):
            value = agent.critic(xs)[:, 0]
            normal = torch.distributions.Normal(agent.actor_mean(xs), agent.actor_logstd.exp())
            ratio = (normal.log_prob(actions).sum(1) - old).exp()
            gain = target - value.detach()
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            bound = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            optimizer.zero_grad()
            (0.5 * (value - target).pow(2).mean() - bound).backward()
            optimizer.step()
    torch.save(agent.state_dict(), out / "cleanrl_ppo.pt")
    rms = env.obs_rms
    np.savez(out / "cleanrl_ppo_norm.npz", mean=rms.mean, var=rms.var, epsilon=env.epsilon)
    obs = observations("Pendulum-v1")
    seen = (obs - rms.mean) / np.sqrt(rms.var + env.epsilon)
    record(out, "cleanrl_ppo", obs, agent.actor_mean(torch.as_tensor(seen, dtype=torch.float32)))


def cleanrl_dqn(out: Path) -> None:
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    env = gym.make("CartPole-v1")
    net = CleanRLQNetwork(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    obs, _ = env.reset(seed=1)
    rows: list[Any] = []
    for step in range(6000):
        q = net.network(torch.as_tensor(obs))
        action = int(rng.integers(2)) if rng.random() < 0.2 else int(q.argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, action, float(reward), following, terminated))
        obs = env.reset()[0] if terminated or truncated else following
        if step > 200:
            batch = [rows[i] for i in rng.integers(len(rows), size=32)]
            o, a, r, n, d = (np.asarray([row[i] for row in batch], np.float32) for i in range(5))
            with torch.no_grad():
                best = net.network(torch.as_tensor(n)).max(1).values
            target = torch.as_tensor(r) + 0.99 * best * torch.as_tensor(1 - d)
            found = net.network(torch.as_tensor(o)).gather(1, torch.as_tensor(a).long()[:, None])
            optimizer.zero_grad()
            nn.functional.mse_loss(found[:, 0], target).backward()
            optimizer.step()
    torch.save(net.state_dict(), out / "cleanrl_dqn.pt")
    obs = observations("CartPole-v1")
    record(out, "cleanrl_dqn", obs, net.network(torch.as_tensor(obs)).argmax(1))


def rsl_rl(out: Path) -> None:
    from rsl_rl.env import VecEnv
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    torch.manual_seed(1)

    class Pendulums(VecEnv):
        def __init__(self) -> None:
            self.env = gym.make_vec("Pendulum-v1", 8, vectorization_mode="sync")
            self.num_envs, self.num_actions, self.max_episode_length = 8, 1, 200
            self.episode_length_buf = torch.zeros(8, dtype=torch.long)
            self.device, self.cfg = "cpu", {}
            self.obs, _ = self.env.reset(seed=1)

        def get_observations(self) -> Any:
            return TensorDict({"policy": torch.as_tensor(self.obs)}, batch_size=[8])

        def step(self, actions: torch.Tensor) -> Any:
            self.obs, reward, end, cut, _ = self.env.step(actions.clamp(-2, 2).numpy())
            done = torch.as_tensor(end | cut)
            extras = {"time_outs": torch.as_tensor(cut)}
            return self.get_observations(), torch.as_tensor(reward / 10).float(), done, extras

    model = {"class_name": "MLPModel", "hidden_dims": [*SIZES], "activation": "elu",
             "obs_normalization": True}  # fmt: skip
    cfg = {
        "seed": 1, "num_steps_per_env": 24, "save_interval": 1000, "multi_gpu": None,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "logger": "tensorboard", "run_name": "", "torch_compile_mode": None,
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution",
                                                "init_std": 1.0}},
        "critic": {**model},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 5, "num_mini_batches": 4,
                      "learning_rate": 1e-3},
    }  # fmt: skip
    runner = OnPolicyRunner(Pendulums(), cfg, log_dir=None, device="cpu")
    runner.learn(20)
    runner.save(str(out / "rsl_rl_ppo.pt"))
    obs = observations("Pendulum-v1")
    act = runner.get_inference_policy(device="cpu")
    record(out, "rsl_rl_ppo", obs, act(TensorDict({"policy": torch.as_tensor(obs)}, [256])))


def skrl(out: Path) -> None:
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

    torch.manual_seed(1)
    env = wrap_env(gym.make("Pendulum-v1"))
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [*SIZES], "activations": "elu"}]
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space,
              "device": "cpu"}  # fmt: skip
    models = {
        "policy": gaussian_model(**spaces, network=network, output="ACTIONS"),
        "value": deterministic_model(**spaces, network=network, output="ONE"),
    }
    cfg = PPO_CFG(
        rollouts=256, learning_epochs=4, mini_batches=4,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": env.observation_space},
        value_preprocessor=RunningStandardScaler, value_preprocessor_kwargs={"size": 1},
    )  # fmt: skip
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = PPO(
        models=models, memory=RandomMemory(memory_size=256, num_envs=1), cfg=cfg,
        observation_space=env.observation_space, action_space=env.action_space, device="cpu",
    )  # fmt: skip
    SequentialTrainer(
        cfg={"timesteps": 1536, "headless": True, "disable_progressbar": True},
        env=env,
        agents=agent,
    ).train()
    agent.save(str(out / "skrl_ppo.pt"))
    obs = observations("Pendulum-v1")
    agent.enable_training_mode(False)
    with torch.no_grad():
        _, outputs = agent.act(torch.as_tensor(obs), None, timestep=10**6, timesteps=10**6)
    record(out, "skrl_ppo", obs, outputs["mean_actions"])


def tianshou(out: Path) -> None:
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - tianshou's generator
    env = gym.make("CartPole-v1")
    net = Net(state_shape=4, action_shape=2, hidden_sizes=SIZES)
    policy = DiscreteQLearningPolicy(
        model=net, action_space=env.action_space, observation_space=env.observation_space,
        eps_training=0.2, eps_inference=0.0,
    )  # fmt: skip
    algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.99,
                    n_step_return_horizon=3, target_update_freq=200)  # fmt: skip
    train, test = (DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 4) for _ in range(2))
    collector = Collector(algorithm, train, VectorReplayBuffer(5000, 4), exploration_noise=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector, test_collector=Collector(algorithm, test), max_epochs=2,
            epoch_num_steps=1500, collection_step_num_env_steps=20,
            update_step_num_gradient_steps_per_sample=0.2, batch_size=64, test_step_num_episodes=4,
        )
    )  # fmt: skip
    torch.save(algorithm.state_dict(), out / "tianshou_dqn.pt")
    obs = observations("CartPole-v1")
    policy.eval()
    with torch.no_grad():
        record(out, "tianshou_dqn", obs, policy(Batch(obs=obs, info={})).act)


def tianshou_ppo(out: Path) -> None:
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
    from torch.distributions import Independent, Normal

    torch.manual_seed(1)
    env = gym.make("Pendulum-v1")
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=3, hidden_sizes=SIZES, activation=nn.Tanh), action_shape=1,
        unbounded=True,
    )  # fmt: skip
    critic = ContinuousCritic(
        preprocess_net=Net(state_shape=3, hidden_sizes=SIZES, activation=nn.Tanh)
    )
    policy = ProbabilisticActorPolicy(
        actor=actor, dist_fn=lambda both: Independent(Normal(*both), 1), action_scaling=True,
        action_bound_method="clip", action_space=env.action_space, deterministic_eval=True,
    )  # fmt: skip
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.95)
    envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")] * 4)
    collector = Collector(algorithm, envs, VectorReplayBuffer(2000, 4))
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector, test_collector=None, max_epochs=2, epoch_num_steps=1600,
            collection_step_num_env_steps=800, collection_step_num_episodes=None,
            update_step_num_repetitions=8, batch_size=64,
        )
    )  # fmt: skip
    torch.save(algorithm.state_dict(), out / "tianshou_ppo.pt")
    obs = observations("Pendulum-v1")
    policy.eval()
    with torch.no_grad():
        act = policy(Batch(obs=obs, info={})).act.numpy()
    record(out, "tianshou_ppo", obs, policy.map_action(act))


def tianshou_sac(out: Path) -> None:
    from tianshou.algorithm import SAC
    from tianshou.algorithm.modelfree.sac import SACPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - tianshou's generator
    env = gym.make("Pendulum-v1")
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=3, hidden_sizes=SIZES), action_shape=1, unbounded=True,
        conditioned_sigma=True,
    )  # fmt: skip
    critic, critic2 = (
        ContinuousCritic(
            preprocess_net=Net(state_shape=3, action_shape=1, hidden_sizes=SIZES, concat=True)
        )
        for _ in range(2)
    )
    policy = SACPolicy(actor=actor, action_space=env.action_space)
    optim = AdamOptimizerFactory(lr=1e-3)
    algorithm = SAC(
        policy=policy, policy_optim=optim, critic=critic, critic_optim=optim, critic2=critic2,
        critic2_optim=optim,
    )  # fmt: skip
    collector = Collector(
        algorithm, DummyVectorEnv([lambda: gym.make("Pendulum-v1")]), VectorReplayBuffer(2000, 1)
    )
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector, test_collector=None, max_epochs=1, epoch_num_steps=200,
            collection_step_num_env_steps=10, update_step_num_gradient_steps_per_sample=0.3,
            batch_size=64,
        )
    )  # fmt: skip
    torch.save(algorithm.state_dict(), out / "tianshou_sac.pt")
    obs = observations("Pendulum-v1")
    policy.eval()
    with torch.no_grad():
        act = policy(Batch(obs=obs, info={})).act.numpy()
    record(out, "tianshou_sac", obs, policy.map_action(act))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (cleanrl_ppo, cleanrl_dqn, rsl_rl, skrl, tianshou, tianshou_ppo, tianshou_sac):
        if sys.argv[2:] and make.__name__ not in sys.argv[2:]:
            continue
        make(folder)
        sys.stdout.write(f"{make.__name__}: done\n")
