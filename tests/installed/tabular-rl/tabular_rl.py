"""Tabular Q-learning on a corridor with own parts only: requires dicore, not dicore-plugins.

One environment at a time; the policy's table is its state. What no part here calls is left out.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    EnvConfig,
    ManagerConfig,
    PipelineConfig,
    PolicyConfig,
    frozen,
    option,
    section,
)
from dicore.data import Batch, EnvBatch, Timestep
from dicore.interfaces.evaluator import EvalResult
from dicore.run import BuildContext, stream
from dicore.run.env_factory import make_env_manager


class Corridor(gymnasium.Env):
    """Walk right to the end of a corridor: -0.01 a step, 1 at the end."""

    def __init__(self, length: int) -> None:
        self.observation_space = gymnasium.spaces.Discrete(length)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = self.steps = 0
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.cell = max(0, self.cell + (1 if action else -1))
        self.steps += 1
        at_end = self.cell == self.observation_space.n - 1
        return self.cell, 1.0 if at_end else -0.01, at_end, self.steps >= 60, {}


@frozen(kw_only=True)
class CorridorConfig(EnvConfig):
    """A corridor with the reward at its far end."""

    length: int = option(8, "number of cells", ge=2)

    def from_spec(self) -> dict[str, Any]:
        return {"stop_value": 0.9, "n_evaluator_episode": 2}

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Corridor(self.length)


class InTurn:
    """Steps its environments one after the other."""

    closed = True
    done = False

    def __init__(self, env_fn: list[Any]) -> None:
        self._envs = [make() for make in env_fn]
        self.env_num = len(self._envs)
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space

    def seed(self, seed: int, dynamic_seed: bool | None = None, *, role: str = "") -> None:
        self._seeds = np.random.default_rng([seed, len(role)])

    def launch(self, reset_param: Any = None) -> None:
        self.closed = False
        self.reset()

    def reset(self, reset_param: Any = None) -> None:
        self._obs = {i: self._first(i) for i in reset_param or range(self.env_num)}
        self._returns = dict.fromkeys(self._obs, 0.0)

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        return EnvBatch.stack(self._obs)

    def step(self, action: Any) -> EnvBatch[Any]:
        steps = {env_id: self._step(env_id, action[env_id]) for env_id in action}
        return EnvBatch.stack(steps)

    def close(self) -> None:
        self.closed = True
        for env in self._envs:
            env.close()

    def _first(self, env_id: int) -> Any:
        return self._envs[env_id].reset(seed=int(self._seeds.integers(2**31)))[0]

    def _step(self, env_id: int, action: int) -> Timestep:
        obs, reward, terminated, truncated, info = self._envs[env_id].step(int(action))
        self._returns[env_id] += reward
        done = terminated or truncated
        self._obs[env_id] = self._first(env_id) if done else obs
        if done:
            info["eval_episode_return"], self._returns[env_id] = self._returns[env_id], 0.0
        return Timestep(obs, reward, done, info, terminated=terminated, truncated=truncated)


@frozen(kw_only=True)
class InTurnConfig(ManagerConfig):
    """Steps the environments one after the other."""

    def build(self, ctx: Any, *, env_fn: Any) -> Any:
        return InTurn(env_fn)


class Learn(NamedTuple):
    """The learn mode."""

    forward: Any


class Act(NamedTuple):
    """The collect mode, or the eval mode."""

    forward: Any


class QTable:
    """Q-learning with a table [states, actions]."""

    def __init__(self, cfg: Any, ctx: Any) -> None:
        self._cfg, self._rng = cfg, stream("tabular/explore")
        self.table = np.zeros((ctx.observation_space.n, ctx.action_space.n), np.float32)
        self.learn_mode = Learn(self._learn)
        self.collect_mode = Act(lambda obs: self._act(obs, cfg.epsilon))
        self.eval_mode = Act(lambda obs: self._act(obs, 0.0))

    def state_dict(self) -> dict[str, Any]:
        return {"table": self.table}

    def load_state_dict(self, state: Any) -> None:
        self.table[:] = state["table"]

    def _act(self, obs: EnvBatch[Any], epsilon: float) -> EnvBatch[Any]:
        best = self.table[obs.value].argmax(-1)
        random = self._rng.integers(self.table.shape[1], size=len(obs))
        explores = self._rng.random(len(obs)) < epsilon
        return obs.with_value({"action": np.where(explores, random, best)})

    def _learn(self, batch: Batch) -> dict[str, float]:
        future = self.table[batch["next_obs"]].max(-1) * ~batch["done"]
        target = batch["reward"] + self._cfg.discount_factor * future
        at = batch["obs"], batch["action"]
        error = target - self.table[at]
        self.table[at] += self._cfg.learn.learning_rate * error
        return {"td_error": float(np.abs(error).mean())}


@frozen(kw_only=True)
class CollectWithQTableConfig(CollectConfig):
    """How much the Q-table policy collects between updates."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)


@frozen(kw_only=True)
class QTableConfig(PolicyConfig):
    """Q-learning with a table, for discrete observations."""

    collect: CollectWithQTableConfig = section(CollectWithQTableConfig)
    on_policy: bool = option(False, "learn only from data of the present policy")
    epsilon: float = option(0.3, "probability of a random action while collecting", ge=0, le=1)

    def build(self, ctx: Any, **parts: Any) -> Any:
        return QTable(self, ctx)


@frozen(kw_only=True)
class DequeConfig(ComponentConfig):
    """The last samples, sampled uniformly."""

    replay_buffer_size: int = option(1000, "capacity in samples", ge=1)

    def build(self, ctx: Any, **parts: Any) -> Any:
        return deque(maxlen=self.replay_buffer_size)


class SampleSteps:
    """Collects single steps."""

    def __init__(self, manager: Any, policy: Any) -> None:
        self._manager, self._policy, self.envstep = manager, policy, 0

    def collect_batch(self, n_sample: int) -> Batch:
        batches: list[Batch] = []
        while sum(map(len, batches)) < n_sample:
            batches.append(self._step())
        return Batch.concat(batches)

    def _step(self) -> Batch:
        obs = self._manager.ready_obs
        action = self._policy.forward(obs).value["action"]
        steps = self._manager.step(dict(zip(obs.env_id.tolist(), action, strict=True))).value
        self.envstep += len(action)
        columns = {"obs": obs.value, "action": action, "reward": steps.reward}
        return Batch({**columns, "next_obs": steps.obs, "done": steps.terminated})


@frozen(kw_only=True)
class SampleStepsConfig(ComponentConfig):
    """Collects single steps."""

    def build(self, ctx: Any, *, env_manager: Any, policy: Any) -> Any:
        return SampleSteps(env_manager, policy)


class PlainLearner:
    """Makes an update per call and counts them."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.train_iter = policy, 0

    def train(self, data: Batch) -> dict[str, float]:
        self.train_iter += 1
        return self.policy.forward(data)


@frozen(kw_only=True)
class PlainLearnerConfig(ComponentConfig):
    """Makes an update per call and counts them."""

    def build(self, ctx: Any, *, policy: Any) -> Any:
        return PlainLearner(policy)


class Greedy:
    """Evaluates over whole episodes."""

    def __init__(self, manager: Any, policy: Any, cfg: Any) -> None:
        self._manager, self._policy, self._cfg = manager, policy, cfg

    def eval(self) -> EvalResult:
        self._manager.reset()
        returns: list[float] = []
        while len(returns) < self._cfg.n_evaluator_episode:
            obs = self._manager.ready_obs
            action = self._policy.forward(obs).value["action"]
            steps = self._manager.step(dict(zip(obs.env_id.tolist(), action, strict=True)))
            returns += [i["eval_episode_return"] for i in steps.value.info if i]
        mean = float(np.mean(returns))
        return EvalResult(mean >= self._cfg.stop_value, returns, {"return_mean": mean})


@frozen(kw_only=True)
class GreedyConfig(ComponentConfig):
    """Evaluates over whole episodes."""

    def build(self, ctx: Any, *, env_manager: Any, policy: Any, env: Any) -> Any:
        return Greedy(env_manager, policy, env)


class Tabular:
    """Collects, stores, learns and evaluates in turn."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        cfg = compiled.cfg
        train_env, eval_env = (
            make_env_manager(cfg.env, role, cfg.seed) for role in ("collector", "evaluator")
        )
        ctx = BuildContext(train_env.observation_space, train_env.action_space, seed=cfg.seed)
        policy = cfg.policy.build(ctx)
        buffer = cfg.policy.other.replay_buffer.build(ctx)
        learner = cfg.policy.learn.learner.build(ctx, policy=policy.learn_mode)
        collector = cfg.policy.collect.collector.build(
            ctx, env_manager=train_env, policy=policy.collect_mode
        )
        evaluator = cfg.policy.eval.evaluator.build(
            ctx, env_manager=eval_env, policy=policy.eval_mode, env=cfg.env
        )
        run.register("policy", policy)
        train_env.launch()
        eval_env.launch()
        rng, result = stream("tabular/sample"), None
        run.first_step()
        while learner.train_iter < (self._cfg.max_train_iter or 1000) and not run.stop_requested:
            buffer.extend(collector.collect_batch(n_sample=cfg.policy.collect.n_sample).rows())
            for _ in range(cfg.policy.learn.update_per_collect):
                chosen = rng.integers(len(buffer), size=cfg.policy.learn.batch_size)
                learner.train(Batch.from_rows([buffer[index] for index in chosen]))
            if learner.train_iter % 50 == 0:
                result = evaluator.eval()
                counts = {"env_step": collector.envstep, "train_iter": learner.train_iter}
                run.log.log_scalars({"evaluator/return_mean": result.mean_return}, **counts)
                run.set_result(stop=result.stop, best_return=result.mean_return, **counts)
                if result.stop:
                    break
        run.save_checkpoint("final")
        train_env.close()
        eval_env.close()
        return policy


@frozen(kw_only=True)
class TabularConfig(PipelineConfig):
    """Collects, stores, learns and evaluates in turn."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Tabular(self)
