"""A collector of whole episodes, written from scratch with the blocks of dicore.

Shapes: N environments, T steps of an episode, B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from dicore.config import as_config
from dicore.data import Batch, EnvBatch, tree_row, tree_stack
from dicore.errors import ClosedError, UsageError
from dicore_plugins.collectors import Block, EpisodeStatistics
from dicore_plugins.env_managers import reset_ended
from dicore_plugins.policies import mode_attribute
from schools_rl.config import EpisodeCollectorConfig


class EpisodeCollector:
    """Collects a number of episodes; short ones do not replace long ones.

    Each environment has a quota and is not stepped once it has reached it.
    """

    def __init__(
        self, cfg: Any = None, env_manager: Any = None, policy: Any = None, *, log: Any = None
    ) -> None:
        self._cfg = as_config(cfg, EpisodeCollectorConfig)
        self._log, self._closed = log, False
        self.statistics = EpisodeStatistics()
        self.envstep = self.total_episode_count = 0
        self._ends: Any = np.empty(0, np.int64)
        self._env = self._policy = None
        if policy is not None:
            self.reset_policy(policy)
        if env_manager is not None:
            self.reset_env(env_manager)

    def reset_env(self, env: Any = None) -> None:
        if env is not None:
            self._env = env
        if self._env.closed:
            self._env.launch()
        elif env is None or not env.closed:
            self._env.reset()
        self._forget()

    def reset_policy(self, policy: Any = None) -> None:
        if policy is not None:
            self._policy = policy
        if self._env is not None and policy is not None:
            self._forget()
        self._policy.reset()

    def reset(self, policy: Any = None, env: Any = None) -> None:
        self.reset_env(env)
        self.reset_policy(policy)
        self.envstep = self.total_episode_count = 0
        self.statistics.clear()

    def _forget(self) -> None:
        self._block = Block(self._env.env_num)
        self._acted: dict[int, Any] = {}
        self._pieces: list[Batch] = []
        self._found = np.zeros(self._env.env_num, np.int64)

    # ---- collecting

    def collect(self, n_episode: int | None = None, train_iter: int = 0, **options: Any) -> Any:
        """Returns the episodes, each a list of its rows."""
        data = self.collect_batch(n_episode=n_episode, train_iter=train_iter, **options)
        if not len(data):
            return []
        rows, ends = data.rows(), [0, *(np.flatnonzero(data["end"]) + 1).tolist()]
        return [rows[start:end] for start, end in pairwise(ends)]

    def collect_batch(
        self, *, n_episode: int | None = None, n_sample: int | None = None, train_iter: int = 0,
        random_collect: bool = False, policy_kwargs: Mapping[str, Any] | None = None,
        should_stop: Callable[[], bool] | None = None, reuse: bool = False,
    ) -> Batch:  # fmt: skip
        if self._closed:
            raise ClosedError("the collector is closed")
        wanted = n_episode or self._cfg.n_episode
        wanted = wanted or mode_attribute(self._policy, "n_episode", None)
        if n_sample is not None or wanted is None:
            raise UsageError("this collector counts episodes", hint="pass n_episode")
        envs = np.arange(self._env.env_num)
        quota = wanted // len(envs) + (envs < wanted % len(envs))
        while (self._found < quota).any():
            if should_stop is not None and should_stop():
                return Batch({}, 0)
            self._step(self._found < quota, dict(policy_kwargs or {}))
        data, self._pieces = Batch.concat(self._pieces), []
        self._found[:] = 0
        data.columns["collect_iter"] = np.full(len(data), train_iter, np.int64)
        self._ends = np.flatnonzero(data["end"])
        self.statistics.train_sample_count += len(data)
        if self._log is not None and self.statistics.episode_count:
            totals = {
                "total_envstep_count": float(self.envstep),
                "total_episode_count": float(self.total_episode_count),
            }
            self.statistics.report(self._log, totals, train_iter)
            self.statistics.clear()
        return data

    @property
    def trajectory_end_idx(self) -> Any:
        return self._ends

    def _step(self, open_envs: Any, kwargs: dict[str, Any]) -> None:
        """Acts in open environments that are ready; stores the rows of those that answer."""
        ready = self._env.ready_obs
        rows = np.flatnonzero(open_envs[ready.env_id])
        action: Any = {}
        if len(rows):
            obs = EnvBatch(ready.env_id[rows], tree_row(ready.value, rows))
            action = EnvBatch.of(self._policy.forward(obs, **kwargs))
            for row, env in enumerate(obs.env_id.tolist()):
                pair = {"obs": obs.value, "output": dict(action.value)}
                self._acted[env] = tree_row(pair, np.array([row]))
        answer = self._env.step(action)
        ids, steps = answer.env_id, answer.value
        acted = [self._acted.pop(env) for env in ids.tolist()]
        acted = tree_row(tree_stack(acted), (slice(None), 0))
        columns = self._policy.process_transition(acted["obs"], acted["output"], steps)
        done = steps.terminated | steps.truncated
        at = self._block.rows[ids]
        self._block.write_some(ids, columns, done)
        self.envstep += len(ids)
        bad = np.zeros(len(ids), np.bool_) if steps.abnormal is None else steps.abnormal
        for row in np.flatnonzero(bad):
            self._block.advance_env(int(ids[row]), int(at[row]) + 1)
            self.envstep -= int(at[row]) + 1
            if not done[row]:
                self._env.reset({int(ids[row]): None})
        ended = np.flatnonzero(done & ~bad)
        if len(ended):
            self._block.add_finals(at[ended], ids[ended].tolist(), ended.tolist(), steps.obs)
        if (done | bad).any():
            self._policy.reset(ids[done | bad].tolist())
        reset_ended(self._env, ids[done].tolist())
        for row in ended:
            self._take(int(ids[row]), tree_row(steps.obs, np.array([row])), steps.info[row])

    def _take(self, env: int, last: Any, info: Any) -> None:
        rows = int(self._block.rows[env])
        block, tail = self._block.of_env(env, rows, last)
        samples = self._policy.get_train_sample(block, tail)
        if len(samples):
            made = samples if isinstance(samples, Batch) else Batch.from_rows(samples)
            self._pieces.append(made)
        self._block.advance_env(env, rows)
        self._found[env] += 1
        self.total_episode_count += 1
        self.statistics.add(info)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        return {
            "envstep": self.envstep,
            "total_episode_count": self.total_episode_count,
            "statistics": self.statistics.state_dict(),
            "block": self._block.state_dict(),
            "pieces": Batch.concat(self._pieces).columns if self._pieces else None,
            "found": self._found.copy(),
            "policy": mode_attribute(self._policy, "collect_state", None),
        }

    def load_state_dict(self, state: Any) -> None:
        self.envstep = int(state["envstep"])
        self.total_episode_count = int(state["total_episode_count"])
        self.statistics.load_state_dict(state["statistics"])
        self._forget()
        if getattr(self._env, "brought_back", None) is False:
            return  # the episodes could not be continued
        if state["block"] is not None:
            self._block = Block.from_state(state["block"])
        if state["pieces"] is not None:
            self._pieces = [Batch(dict(state["pieces"]))]
        self._found = np.array(state["found"], np.int64)
        if state["policy"] is not None:
            self._policy.set_attribute("collect_state", state["policy"])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._env.close()
