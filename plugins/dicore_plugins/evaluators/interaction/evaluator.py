"""Evaluates by interaction: whole episodes, greedy actions, environments of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dicore.config.coerce import as_config
from dicore.data import EnvBatch, tree_row
from dicore.errors import ClosedError
from dicore.interfaces.evaluator import EvalResult
from dicore.interfaces.policy import check_mode
from dicore_plugins.env_managers.episodes import reset_ended
from dicore_plugins.evaluators.interaction.config import InteractionEvaluatorConfig
from dicore_plugins.evaluators.vector_eval_monitor import VectorEvalMonitor

_LOG = logging.getLogger("dicore.evaluator")


class InteractionEvaluator:
    """Measures an eval mode over whole episodes; the contract is `ISerialEvaluator`.

    Training is left as it was: the environments, their seeds and the policy's per-env state are
    the evaluator's own, and greedy acting draws no random number.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps the environments; launched at the first evaluation.
        policy: An eval mode.
        log: Where statistics go (`log_scalars(scalars, env_step=…, train_iter=…)`); None: nowhere.

    Attributes:
        best_return: Highest mean return so far; -inf before the first evaluation.
        last_result: What the latest evaluation found, or None.
    """

    config_class = InteractionEvaluatorConfig

    def __init__(
        self,
        cfg: InteractionEvaluatorConfig | Mapping[str, Any] | None = None,
        env_manager: Any = None,
        policy: Any = None,
        *,
        log: Any | None = None,
    ) -> None:
        self._cfg = as_config(cfg, InteractionEvaluatorConfig)
        self._log = log
        self._closed = False
        self._warned = False
        self._fresh = False
        self._env = env_manager
        if policy is not None:
            check_mode(policy, "eval", "forward")
        self._policy = policy
        self._starts: dict[str, Any] | None = None
        self._forget()

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    def _forget(self) -> None:
        self._last_eval_iter = -1
        self._in_a_row = 0
        self.best_return = float("-inf")
        self.last_result: EvalResult | None = None
        self._measured: dict[str, Any] | None = None

    # ---- what it is made of

    def reset_env(self, env: Any | None = None) -> None:
        """Uses `env` from now on, or resets the present environments."""
        if env is not None:
            self._env = env
        self._starts = self._between() if hasattr(self._env, "state_dict") else None
        if self._env.closed:
            self._env.launch()
        else:
            self._env.reset()
        self._fresh = True

    def reset_policy(self, policy: Any | None = None) -> None:
        """Uses `policy` (an eval mode) from now on, and clears its per-env state."""
        if policy is not None:
            check_mode(policy, "eval", "forward", "reset")
            self._policy = policy
        self._policy.reset()

    def reset(self, policy: Any | None = None, env: Any | None = None) -> None:
        """Resets both and forgets the results so far."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._forget()

    # ---- evaluating

    def should_eval(self, train_iter: int) -> bool:
        """Says whether an evaluation is due: once at 0, then each `eval_freq`, never twice."""
        if train_iter == self._last_eval_iter:
            return False
        due = self._last_eval_iter < 0 or train_iter - self._last_eval_iter >= self._cfg.eval_freq
        if due:
            self._last_eval_iter = train_iter
        return due

    def eval(
        self,
        save_ckpt_fn: Callable[[str], Any] | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
    ) -> EvalResult:
        """Runs episodes and says whether training may stop.

        Args:
            save_ckpt_fn: Called with 'ckpt_best.pth.tar' when the mean return is a new maximum.
            train_iter: Updates made so far; at 0 nothing stops. -1: unknown.
            envstep: Env steps collected so far. -1: unknown.
            n_episode: How many episodes; None takes the configured number.

        Returns:
            Unpacks as `stop, returns`; carries statistics and the episodes' infos.

        Raises:
            ClosedError: the evaluator is closed.
            UsageError: there are fewer episodes than environments.
        """
        if self._closed:
            raise ClosedError("the evaluator is closed", hint="make a new one")
        start = time.perf_counter()
        monitor = VectorEvalMonitor(self._env.env_num, n_episode or self._cfg.n_episode)
        steps = self._run_episodes(monitor)
        statistics = _statistics(monitor, steps, time.perf_counter() - start)
        mean = statistics["return_mean"]
        reached = mean >= self._cfg.stop_value and train_iter != 0
        self._in_a_row = self._in_a_row + 1 if reached else 0
        self._measured = {"train_iter": train_iter, "return_mean": mean, "starts": self._starts}
        if mean > self.best_return:
            self.best_return = mean
            if save_ckpt_fn is not None:
                save_ckpt_fn("ckpt_best.pth.tar")
        if self._log is not None:
            self._log.log_scalars(
                {f"evaluator/{key}": value for key, value in statistics.items()},
                env_step=max(envstep, 0),
                train_iter=max(train_iter, 0),
            )
            if hasattr(self._log, "log_text"):
                self._log.log_text(_line(statistics, train_iter, envstep), channel="evaluator")
        self.last_result = EvalResult(
            self._in_a_row >= self._cfg.consecutive,
            monitor.get_episode_reward(),
            statistics,
            monitor.get_episode_info(),
        )
        return self.last_result

    def _run_episodes(self, monitor: VectorEvalMonitor) -> int:
        """Steps each environment until it has given its episodes; returns the steps made."""
        if not self._fresh or self._cfg.fixed_starts:
            if self._cfg.fixed_starts and hasattr(self._env, "restart_episodes"):
                self._env.restart_episodes()
            self.reset_env()
        self._fresh = False
        self._policy.reset()
        env, forward = self._env, self._policy.forward
        running = np.ones(env.env_num, np.bool_)
        total = np.zeros(env.env_num)
        begun = np.zeros(env.env_num, np.int64)
        all_run, oldest = True, 0
        clock = steps = 0
        while not monitor.is_finished():
            changed = False
            while not changed:
                obs = env.ready_obs
                if not all_run:
                    rows = np.flatnonzero(running[obs.env_id])
                    obs = EnvBatch(obs.env_id[rows], tree_row(obs.value, rows))
                answer = env.step(EnvBatch.of(forward(obs)))
                steps += len(answer)
                clock += 1
                total[answer.env_id] += answer.value.reward
                if answer.value.done.any():
                    self._count_ended(monitor, answer, running, begun, total, clock)
                    changed = True
                if clock - oldest >= self._cfg.max_episode_steps:
                    self._cut_endless(monitor, running, begun, total, clock)
                    changed = True
            all_run = bool(running.all())
            oldest = int(begun[running].min(initial=clock))
        return steps

    def _count_ended(
        self,
        monitor: VectorEvalMonitor,
        answer: EnvBatch[Any],
        running: Any,
        begun: Any,
        total: Any,
        clock: int,
    ) -> None:
        """Counts the episodes that ended in a step, the spoilt ones left out."""
        timestep = answer.value
        for row in np.flatnonzero(timestep.done):
            env_id, info = int(answer.env_id[row]), timestep.info[row]
            self._policy.reset([env_id])
            begun[env_id], total[env_id] = clock, 0.0
            if info.get("abnormal") or monitor.is_env_finished(env_id):
                continue
            monitor.update_info(env_id, info)
            monitor.update_reward(env_id, info["eval_episode_return"])
            running[env_id] = not monitor.is_env_finished(env_id)
        ended = answer.env_id[timestep.done]
        reset_ended(self._env, ended[running[ended]].tolist())

    def _cut_endless(
        self, monitor: VectorEvalMonitor, running: Any, begun: Any, total: Any, clock: int
    ) -> None:
        """Ends episodes that never do: their return so far counts."""
        limit = self._cfg.max_episode_steps
        for env_id in np.flatnonzero(running & (clock - begun >= limit)).tolist():
            monitor.update_info(env_id, {"truncated_by": "max_episode_steps"})
            monitor.update_reward(env_id, total[env_id])
            running[env_id] = not monitor.is_env_finished(env_id)
            begun[env_id], total[env_id] = clock, 0.0
            self._policy.reset([env_id])
            self._env.reset({env_id: None})
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "an evaluation episode made %d steps without ending and was cut; give the"
                " environment a time limit, or set policy.eval.evaluator.max_episode_steps",
                limit,
            )

    # ---- life

    def state_dict(self) -> dict[str, Any]:
        """Returns the results so far and the environments' counters; evaluations begin anew."""
        return {
            "last_eval_iter": self._last_eval_iter,
            "in_a_row": self._in_a_row,
            "best_return": self.best_return,
            "measured": self._measured,
            "env": self._between(),
        }

    def _between(self) -> dict[str, Any]:
        """Returns the environments' state without episodes, which each evaluation begins anew."""
        state = self._env.state_dict()
        finished = {"finished": [0] * len(state["finished"])} if "finished" in state else {}
        return {**state, **finished, "running": None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._last_eval_iter = int(state["last_eval_iter"])
        self._in_a_row = int(state["in_a_row"])
        self.best_return = float(state["best_return"])
        self._measured = state.get("measured")
        self._env.load_state_dict(state["env"])

    def close(self) -> None:
        """Closes the environments; harmless when repeated."""
        if not self._closed:
            self._closed = True
            self._env.close()


def _statistics(monitor: VectorEvalMonitor, steps: int, seconds: float) -> dict[str, float]:
    returns = np.asarray(monitor.get_episode_reward())
    return {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_max": float(returns.max()),
        "return_min": float(returns.min()),
        "return_median": float(np.median(returns)),
        "episode_count": float(len(returns)),
        "envstep_count": float(steps),
        "evaluate_time": seconds,
        "avg_envstep_per_episode": steps / len(returns),
        "avg_envstep_per_sec": steps / max(seconds, 1e-9),
        "avg_time_per_episode": seconds / len(returns),
    }


def _line(statistics: Mapping[str, float], train_iter: int, envstep: int) -> str:
    """Says for people what an evaluation found."""
    mean, std, low, high = (statistics[f"return_{name}"] for name in ("mean", "std", "min", "max"))
    return (
        f"update {max(train_iter, 0)}, env step {max(envstep, 0)}: mean return {mean:.6g}"
        f" (std {std:.4g}, min {low:.6g}, max {high:.6g}) of {statistics['episode_count']:.0f}"
        f" episodes, {statistics['avg_envstep_per_episode']:.1f} steps each"
    )


BaseSerialEvaluator = InteractionEvaluator
"""The name that the documents use."""
