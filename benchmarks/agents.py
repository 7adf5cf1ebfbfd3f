"""P23: teams of 8 agents: MAPPO's update beside eight networks, and steps beside bare ones.

One update of the team is one of each agent. The eight are PPO policies with networks of the same
sizes, which learn from the columns of their agents; their critics see what MAPPO's does. The bare
loop steps the same environments with actions drawn before, and resets them. Beside it: the env
manager, with its checks; a collect by IPPO, which acts; and a collect in `simple_spread` of MPE,
beside the API of PettingZoo. Eight steps of `Spread` take 80 us, in which no network acts for 64.

python -m benchmarks.agents
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete

from benchmarks.measure import contest, missing
from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore_agents import AgentsEnv
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager

AGENTS, ENVS, SEEN, ACTIONS, ROWS, SAMPLES, MPE_STEPS = 8, 8, 18, 5, 64, 2048, 200
NAMES = tuple(f"agent_{number}" for number in range(AGENTS))


class Spread(gymnasium.Env[Any, Any]):
    """Eight points move to eight marks, as in MPE's simple_spread, 25 steps long."""

    agent_ids = NAMES
    observation_space = Dict(obs=Box(-np.inf, np.inf, (AGENTS, SEEN), np.float32))
    action_space = MultiDiscrete([ACTIONS] * AGENTS)
    moves = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self._count = 0
        self._marks = self.np_random.uniform(-1, 1, (AGENTS, 2)).astype(np.float32)
        self._at = self.np_random.uniform(-1, 1, (AGENTS, 2)).astype(np.float32)
        self._speed = np.zeros((AGENTS, 2), np.float32)
        return self._seen(self._marks[None] - self._at[:, None]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        self._speed = self._speed * np.float32(0.75) + self.moves[action] * np.float32(0.5)
        self._at = self._at + self._speed * np.float32(0.1)
        self._count += 1
        ways = self._marks[None] - self._at[:, None]
        reward = -float(np.sqrt(np.square(ways).sum(-1)).min(0).sum())
        return self._seen(ways), reward, False, self._count == 25, {}

    def _seen(self, ways: Any) -> Any:
        return {"obs": np.concatenate([self._speed, ways.reshape(AGENTS, -1)], 1)}


def policy_of(name: str, spec: EnvSpec, **options: Any) -> Any:
    """Returns a policy with the defaults of its algorithm."""
    cfg = {"env": {"type": "cartpole"}, "policy": {"type": name, **options}}
    seed_everything(0)
    return bind(compile_config(cfg), spec).cfg.policy.build(BuildContext(spec))


def team_update(share: str) -> Callable[[], object]:
    """Returns an update of MAPPO."""
    spec = EnvSpec(Spread.observation_space, Spread.action_space, agents=NAMES)
    policy = policy_of("mappo", spec, learn=_one_pass(), model={"share": share})
    columns = {**_drawn((ROWS, AGENTS)), "obs": {"obs": _seen()}}
    samples = Batch(columns, ROWS).to_torch()
    return lambda: policy.learn_mode.forward(samples)


def separate_updates() -> Callable[[], object]:
    """Returns an update of each of eight PPO policies, whose observations are those of all."""
    spec = EnvSpec(Box(-1, 1, (AGENTS * SEEN,), np.float32), gymnasium.spaces.Discrete(ACTIONS))
    policies = [policy_of("ppo", spec, learn=_one_pass()) for _ in NAMES]
    columns = _drawn((ROWS, AGENTS))
    seen = _seen().reshape(ROWS, -1)
    samples = [
        Batch({**{key: each[:, at].copy() for key, each in columns.items()}, "obs": seen}, ROWS)
        for at in range(AGENTS)
    ]
    pairs = [(each, rows.to_torch()) for each, rows in zip(policies, samples, strict=True)]
    return lambda: [each.learn_mode.forward(rows) for each, rows in pairs]


def _one_pass() -> dict[str, object]:
    return {"batch_size": None, "epoch_per_collect": 1}


def _seen() -> Any:
    return np.random.default_rng(1).standard_normal((ROWS, AGENTS, SEEN)).astype(np.float32)


def _drawn(shape: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    names = ("value", "advantage", "target")
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype(np.float32) for name in names}
    found["log_prob"] = np.full(shape, -np.log(ACTIONS), np.float32)
    return {**found, "action": rng.integers(0, ACTIONS, shape)}


def collecting(make: Callable[[], Any], samples: int) -> Callable[[], object]:
    """Returns a collect of IPPO by the sample collector."""
    manager = BaseEnvManager([make] * ENVS)
    manager.seed(0)
    policy = policy_of("ippo", EnvSpec.of(make()))
    collector = SampleCollector(None, manager, policy.collect_mode)
    return lambda: collector.collect_batch(n_sample=samples)


def _actions(samples: int) -> Any:
    return np.random.default_rng(0).integers(0, ACTIONS, (samples // ENVS, ENVS, AGENTS))


def managed_steps() -> Callable[[], object]:
    """Returns steps of the env manager, with actions drawn before."""
    manager, ids, actions = BaseEnvManager([Spread] * ENVS), np.arange(ENVS), _actions(SAMPLES)
    manager.seed(0)
    manager.launch()

    def steps() -> None:
        for row in actions:
            manager.step_into(EnvBatch(ids, row))

    return steps


def bare_steps() -> Callable[[], object]:
    """Returns as many steps of the same environments."""
    envs = [Spread() for _ in range(ENVS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    actions = _actions(SAMPLES)

    def steps() -> None:
        for row in actions:
            for env, action in zip(envs, row, strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()

    return steps


def parallel_steps() -> Callable[[], object]:
    """Returns `MPE_STEPS` steps of PettingZoo's parallel API."""
    envs = [_spread_of_mpe() for _ in range(ENVS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    names, actions = envs[0].possible_agents, _actions(MPE_STEPS).tolist()

    def steps() -> None:
        for row in actions:
            for env, action in zip(envs, row, strict=True):
                env.step(dict(zip(names, action, strict=True)))
                if not env.agents:
                    env.reset()

    return steps


def _spread_of_mpe() -> Any:
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(N=AGENTS, max_cycles=25)


def main() -> None:
    torch.set_num_threads(1)
    separate = separate_updates()
    for share in ("all", "none"):
        contest(
            f"P23 update share={share}",
            {"dicore": team_update(share), "separate": separate},
            1, "updates/s", against={"separate": 3.0}, clock=time.process_time,
        )  # fmt: skip
    for row, ours in (("step", managed_steps()), ("collect", collecting(Spread, SAMPLES))):
        contest(
            f"P23 {row}", {"dicore": ours, "bare": bare_steps()}, SAMPLES, "env steps/s",
            against={"bare": 0.7}, clock=time.process_time,
        )  # fmt: skip
    try:
        bare = parallel_steps()
    except ImportError:
        missing("P23 simple_spread", "mpe2")
        return
    ours = collecting(lambda: AgentsEnv(_spread_of_mpe(), alive=False), MPE_STEPS)
    contest(
        "P23 collect of simple_spread", {"dicore": ours, "bare": bare}, MPE_STEPS, "env steps/s",
        against={"bare": 0.7}, clock=time.process_time,
    )  # fmt: skip


if __name__ == "__main__":
    main()
