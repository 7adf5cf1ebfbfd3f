"""Evaluates a policy over whole episodes with greedy actions, in separate environments."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import EnvBatch, State, StateDict, Tree, tree_row
from dicore.errors import DicoreError, UsageError
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import EvalMode, check_mode
from dicore_plugins.collectors.base import add_place
from dicore_plugins.env_managers.episodes import AbnormalEpisodes, reset_ended
from dicore_plugins.evaluators.interaction.config import InteractionEvaluatorConfig
from dicore_plugins.evaluators.scheduled import (
    EVAL_FREQ,
    Asked,
    ScheduledEvaluator,
    VectorEvalMonitor,
)

if TYPE_CHECKING:
    from dicore.interfaces.evaluator import EvalResult
    from dicore.run import LogHub

_LOG = logging.getLogger("dicore.evaluator")
_PATIENCE_S = 5.0
"""Seconds between two lines about an evaluation that is under way."""


class InteractionEvaluator(ScheduledEvaluator):
    """Evaluates a policy over whole episodes; the contract is `ISerialEvaluator`.

    Evaluation does not affect training: the environments, their seeds and the policy's per-env
    state are separate, and greedy actions draw no random numbers.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps the environments; launched at the first evaluation.
        policy: Eval mode of the policy.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.

    Attributes:
        best_return: Highest value of `measure` so far; -inf before the first evaluation.
        last_result: Result of the latest evaluation, or None.
    """

    config_class: ClassVar[type[ComponentConfig]] = InteractionEvaluatorConfig

    def __init__(
        self,
        cfg: InteractionEvaluatorConfig | Mapping[str, object] | None = None,
        env_manager: IEnvManager | None = None,
        policy: Any = None,
        *,
        log: LogHub | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._log = log
        self._warned = self._said = False
        self._told = 0.0
        self._abnormal = AbnormalEpisodes()
        self._fresh = False
        self._env = env_manager
        if policy is not None:
            check_mode(policy, "eval", "forward")
        self._policy = policy
        self._starts: StateDict | None = None
        self._repeat: StateDict | None = None
        self._clear_results()

    def _clear_results(self) -> None:
        self._last_eval_iter = self._eval_iter_before = -1
        self._last_step = self._step_before = self._spent = self._cost = 0
        self._consecutive = 0
        self.best_return = float("-inf")
        self.last_result: EvalResult | None = None
        self._measured: StateDict | None = None

    # ---- env manager and policy

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Uses the manager `env` from now on, or resets the current environments."""
        if env is not None:
            self._env = env
        if self._repeat is not None:
            self._env.load_state_dict(self._repeat)
            self._repeat = None
        self._starts = self._env_state()
        if self._env.closed:
            self._env.launch()
        else:
            self._env.reset()
        self._fresh = True

    def reset(self, policy: EvalMode | None = None, env: IEnvManager | None = None) -> None:
        """Resets environments and policy, and clears the results so far."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._clear_results()

    # ---- evaluating

    def due(self, train_iter: int, env_step: int, env_episode: int, *, beside: bool) -> bool:
        """Returns whether an evaluation is due: not before the first `eval_freq` updates.

        Without `eval_freq`, evaluations take a share of the env steps.
        The cost of the next evaluation is that of the last one; before the first one, as many
        episodes as long as those collected.

        Args:
            train_iter: Gradient updates so far.
            env_step: Env steps collected so far; 0: there is only a dataset.
            env_episode: Episodes collected so far.
            beside: Training goes on meanwhile, so that evaluations cost it nothing.
        """
        cfg, first = self._cfg, self._last_eval_iter < 0
        if cfg.eval_env_step is not None:
            if env_step - self._last_step < cfg.eval_env_step and not (first and cfg.eval_at_start):
                return False
            self._eval_iter_before, self._last_eval_iter = self._last_eval_iter, train_iter
        else:
            asked = cfg.eval_freq is not None or (first and cfg.eval_at_start)
            if env_step and not asked and not beside:
                cost = self._cost or cfg.n_episode * env_step / max(env_episode, 1)
                if self._spent + cost > cfg.eval_share * env_step:
                    return self._postponed(train_iter)
            waits = first and not cfg.eval_at_start and train_iter < (cfg.eval_freq or EVAL_FREQ)
            if waits or not self.should_eval(train_iter):
                return False
        self._step_before, self._last_step = self._last_step, env_step
        return True

    def _evaluate(self, asked: Asked) -> EvalResult:
        """Runs episodes; if interrupted, closes the environments, and repeats them next time."""
        from dicore.interfaces.evaluator import EvalResult

        start, self._told = time.perf_counter(), time.monotonic()
        monitor = VectorEvalMonitor(self._env.env_num, asked.n_episode or self._cfg.n_episode)
        try:
            steps, complete = self._run_episodes(monitor, asked.should_stop, asked.policy_kwargs)
        except DicoreError as error:
            add_place(error, self._policy, f"env step {asked.envstep}, in an evaluation")
            raise
        statistics = self._statistics(monitor, steps, time.perf_counter() - start)
        if not complete:
            self._interrupted()
            return EvalResult(
                stop=False,
                returns=monitor.get_episode_reward(),
                statistics=statistics,
                episode_info=monitor.get_episode_info(),
                interrupted=True,
            )
        self._cost, self._spent = steps, self._spent + steps
        value = self.measure(monitor.get_episode_reward(), monitor.get_episode_info())
        if self._cfg.measure != "return":
            statistics[self._cfg.measure] = value
        reached = value >= self._cfg.stop_value and asked.train_iter != 0
        self._consecutive = self._consecutive + 1 if reached else 0
        self._eval_iter_before, self._step_before = self._last_eval_iter, self._last_step
        mean = statistics["return_mean"]
        facts = {"train_iter": asked.train_iter, "return_mean": mean, "starts": self._starts}
        self._measured = facts
        self._write(statistics, asked, _line(statistics, asked.train_iter, asked.envstep))
        if value > self.best_return:
            self.best_return = value
            if asked.save_ckpt_fn is not None:  # with the place in the log, after these numbers
                asked.save_ckpt_fn("ckpt_best.pth.tar")
        self.last_result = EvalResult(
            self._consecutive >= self._cfg.consecutive,
            monitor.get_episode_reward(),
            statistics,
            monitor.get_episode_info(),
            episodes_per_env=monitor.get_current_episode(),
        )
        return self.last_result

    def measure(self, returns: Sequence[Tree], infos: Sequence[Mapping[str, Any]]) -> float:
        """Returns what is compared with `stop_value`, by the option `measure`.

        A subclass may compute something else.

        Args:
            returns: Return of each episode; arrays if rewards are.
            infos: Last info of each episode.

        Raises:
            UsageError: `win_rate` is asked for, and the environment does not report it.
        """
        total = float(np.sum([np.sum(each) for each in returns]))
        if self._cfg.measure == "reward_per_step":
            return float(total / sum(info["episode_length"] for info in infos))
        if self._cfg.measure == "win_rate":
            return float(np.mean([_won(info) for info in infos]))
        return total / len(returns)

    def _statistics(
        self, monitor: VectorEvalMonitor, steps: int, seconds: float
    ) -> dict[str, float]:
        """Returns statistics of the episodes."""
        found = np.asarray(monitor.get_episode_reward())
        if not len(found):
            return {"episode_count": 0.0, "envstep_count": float(steps), "evaluate_time": seconds}
        parts = found.reshape(len(found), -1)
        returns = self._counted(parts)
        each = {} if found.ndim == 1 else {
            f"return_mean/{index}": float(mean) for index, mean in enumerate(parts.mean(0))
        }  # fmt: skip
        return {
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
            "return_max": float(returns.max()),
            "return_min": float(returns.min()),
            "return_median": float(np.median(returns)),
            **each,
            "episode_count": float(len(returns)),
            "envstep_count": float(steps),
            "evaluate_time": seconds,
            "avg_envstep_per_episode": steps / len(returns),
            "avg_envstep_per_sec": steps / max(seconds, 1e-9),
            "avg_time_per_episode": seconds / len(returns),
            "avg_episode_per_sec": len(returns) / max(seconds, 1e-9),
        }

    def _counted(self, returns: Tree) -> Tree:
        """Returns what counts of the returns [E, n] of episodes, [E]: their sums."""
        return returns.sum(1)

    def _interrupted(self) -> None:
        """Lets the next evaluation repeat the episodes of this one."""
        self._repeat, self._fresh = self._starts, False
        self._env.close()
        self._last_eval_iter, self._last_step = self._eval_iter_before, self._step_before

    def _run_episodes(
        self,
        monitor: VectorEvalMonitor,
        should_stop: Callable[[], bool],
        kwargs: Mapping[str, object],
    ) -> tuple[int, bool]:
        """Steps each environment until its episodes are complete.

        Returns:
            The number of env steps, and False if `should_stop` interrupted them.
        """
        if not self._fresh or self._cfg.fixed_starts:
            if self._cfg.fixed_starts and hasattr(self._env, "restart_episodes"):
                self._env.restart_episodes()
            self.reset_env()
        self._fresh = False
        self._policy.reset()
        env, forward = self._env, self._policy.forward
        observe = getattr(self._policy, "observe", _ignored)
        running = np.ones(env.env_num, np.bool_)
        lengths = np.zeros(env.env_num, np.int64)
        total: Tree = 0.0
        all_run, steps, cut_in = True, 0, self._cfg.max_episode_steps
        while not monitor.is_finished():
            changed = False
            while not changed:
                if should_stop():
                    return steps, False
                obs = env.ready_obs
                if not all_run:
                    rows = np.flatnonzero(running[obs.env_id])
                    obs = EnvBatch(obs.env_id[rows], tree_row(obs.value, rows))
                answer = env.step(EnvBatch.of(forward(obs, **kwargs)) if len(obs) else {})
                reward = answer.value.reward
                if not steps:
                    total = np.zeros((env.env_num, *reward.shape[1:]))
                steps += len(answer)
                lengths[answer.env_id] += 1
                total[answer.env_id] += reward
                cut_in -= 1
                observe(answer.env_id, reward)
                if answer.value.done.any() or answer.value.abnormal is not None:
                    self._count_ended(monitor, answer, running, lengths, total)
                    changed = True
                if cut_in <= 0:
                    self._cut_endless(monitor, running, lengths, total)
                    changed = True
                self._tell(monitor, steps)
            all_run = bool(running.all())
            cut_in = self._cfg.max_episode_steps - int(lengths[running].max(initial=0))
        return steps, True

    def _postponed(self, train_iter: int) -> bool:
        """Says once that evaluations are fewer than one might expect; returns False."""
        if train_iter >= EVAL_FREQ and not self._said and hasattr(self._log, "log_text"):
            self._said = True
            self._log.log_text(
                f"evaluations take at most {self._cfg.eval_share:.0%} of the env steps;"
                " policy.eval.evaluator.eval_freq=N evaluates every N updates"
            )
        return False

    def _tell(self, monitor: VectorEvalMonitor, steps: int) -> None:
        """Prints how far a long evaluation is."""
        now = time.monotonic()
        if now - self._told < _PATIENCE_S or monitor.is_finished():
            return
        self._told = now
        if self._log is not None and hasattr(self._log, "log_text"):
            done, of = sum(monitor.get_current_episode()), sum(monitor.quota.values())
            self._log.log_text(f"evaluating: {done} of {of} episodes, {steps} env steps")

    def _count_ended(
        self,
        monitor: VectorEvalMonitor,
        answer: EnvBatch[Tree],
        running: npt.NDArray[np.bool_],
        lengths: npt.NDArray[np.int64],
        total: Tree,
    ) -> None:
        """Records the episodes that ended in a step; drops those with an abnormal step."""
        timestep, abnormal = answer.value, answer.value.abnormal
        over = timestep.done if abnormal is None else timestep.done | abnormal
        for row in np.flatnonzero(over):
            env_id, info = int(answer.env_id[row]), timestep.info[row]
            self._policy.reset([env_id])
            length = int(lengths[env_id])
            lengths[env_id], total[env_id] = 0, 0.0
            if abnormal is not None and abnormal[row]:
                self._abnormal.add(env_id, info)
                if not timestep.done[row]:
                    self._env.reset({env_id: None})
                continue
            self._abnormal.clear()
            if monitor.is_env_finished(env_id):
                continue
            monitor.update_info(env_id, {"episode_length": length, **info})
            monitor.update_reward(env_id, info["eval_episode_return"])
            running[env_id] = not monitor.is_env_finished(env_id)
        ended = answer.env_id[timestep.done]
        reset_ended(self._env, ended[running[ended]].tolist())

    def _cut_endless(
        self,
        monitor: VectorEvalMonitor,
        running: npt.NDArray[np.bool_],
        lengths: npt.NDArray[np.int64],
        total: Tree,
    ) -> None:
        """Truncates episodes at `max_episode_steps` and records their return so far."""
        limit = self._cfg.max_episode_steps
        endless = np.flatnonzero(running & (lengths >= limit)).tolist()
        for env_id in endless:
            info = {"truncated_by": "max_episode_steps", "episode_length": int(lengths[env_id])}
            monitor.update_info(env_id, info)
            monitor.update_reward(env_id, total[env_id])
            running[env_id] = not monitor.is_env_finished(env_id)
            lengths[env_id], total[env_id] = 0, 0.0
            self._policy.reset([env_id])
            self._env.reset({env_id: None})
        if endless and not self._warned:
            self._warned = True
            _LOG.warning(
                "an evaluation episode did not end within %d steps and was truncated; give the"
                " environment a time limit (env_wrapper time_limit), or set"
                " policy.eval.evaluator.max_episode_steps",
                limit,
            )

    # ---- state

    @property
    def has_stopped(self) -> bool:
        """Whether the last evaluations reached the stop value, also those before a resume."""
        return self._consecutive >= int(self._cfg.consecutive)

    def state_dict(self) -> StateDict:
        """Returns the results so far and the environments' counters, without running episodes."""
        return {
            "last_eval_iter": self._last_eval_iter,
            "cost": [self._last_step, self._spent, self._cost],
            "in_a_row": self._consecutive,
            "stop_value": self._cfg.stop_value,
            "best_return": self.best_return,
            "measured": self._measured,
            "env": self._env_state() if self._repeat is None else self._repeat,
        }

    def _env_state(self) -> StateDict:
        """Returns the environments' state without the running episodes."""
        state = self._env.state_dict() if hasattr(self._env, "state_dict") else {}
        finished = {"finished": [0] * len(state["finished"])} if "finished" in state else {}
        return {**state, **finished, **({"running": None} if "running" in state else {})}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._last_eval_iter = self._eval_iter_before = int(state["last_eval_iter"])
        last, spent, cost = map(int, state.get("cost", (0, 0, 0)))
        self._last_step, self._step_before, self._spent, self._cost = last, last, spent, cost
        raised = self._cfg.stop_value > state.get("stop_value", self._cfg.stop_value)
        self._consecutive = 0 if raised else int(state["in_a_row"])
        self.best_return = float(state["best_return"])
        self._measured = state.get("measured")
        if hasattr(self._env, "load_state_dict"):
            self._env.load_state_dict(state["env"])


def _won(info: Mapping[str, object]) -> bool:
    """Returns whether the environment reports that an episode was won."""
    for key in ("is_success", "success", "won"):
        if key in info:
            return bool(info[key])
    found = ", ".join(sorted(map(str, info)))
    raise UsageError(
        f"measure=win_rate: the info of an episode has {found}, not is_success, success or won",
        hint="add it in the environment, or choose policy.eval.evaluator.measure=return",
    )


def _ignored(env_id: npt.NDArray[np.int64], reward: Tree) -> None:
    """What an eval mode without `observe` does with rewards."""


def _line(statistics: Mapping[str, float], train_iter: int, envstep: int) -> str:
    """Returns the statistics of an evaluation as a log line."""
    mean, std, low, high = (statistics[f"return_{name}"] for name in ("mean", "std", "min", "max"))
    return (
        f"update {max(train_iter, 0)}, env step {max(envstep, 0)}: mean return {mean:.6g}"
        f" (std {std:.4g}, min {low:.6g}, max {high:.6g}) of {statistics['episode_count']:.0f}"
        f" episodes, {statistics['avg_envstep_per_episode']:.1f} steps each,"
        f" {statistics['avg_episode_per_sec']:.3g} episodes/s"
    )


BaseSerialEvaluator = InteractionEvaluator
"""The documented name."""
