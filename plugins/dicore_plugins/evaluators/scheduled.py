"""What evaluators share: when one is due, its arguments, log and end, which episodes count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from dicore.config.schema import ComponentConfig
from dicore.errors import ClosedError, UsageError
from dicore.interfaces.policy import EvalMode, check_mode
from dicore.values import Info, Tree

if TYPE_CHECKING:
    from dicore.interfaces.evaluator import EvalResult

__all__ = ["Asked", "ScheduledEvaluator", "VectorEvalMonitor"]

EVAL_FREQ: Final = 1000
"""Updates between evaluations if `eval_freq` is None."""


class Asked(NamedTuple):
    """Arguments of an evaluation; see `ScheduledEvaluator.eval`."""

    save_ckpt_fn: Callable[[str], object] | None
    train_iter: int
    envstep: int
    n_episode: int | None
    should_stop: Callable[[], bool]
    policy_kwargs: Mapping[str, object]


class ScheduledEvaluator:
    """Base class of evaluators: when one is due, which policy it evaluates, and its end.

    A subclass sets `_cfg`, `_env` (to be closed with it; None: none), `_policy` and `_log`, and
    implements `_evaluate`.
    """

    config_class: ClassVar[type[ComponentConfig]]
    _cfg: Any
    _env: Any
    _policy: Any
    _log: Any
    _closed = False
    _last_eval_iter = _eval_iter_before = -1

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    def reset_policy(self, policy: EvalMode | None = None) -> None:
        """Uses `policy` (an eval mode) from now on, and clears its per-env state."""
        if policy is not None:
            check_mode(policy, "eval", "forward", "reset")
            self._policy = policy
        self._policy.reset()

    def should_eval(self, train_iter: int) -> bool:
        """Returns whether an evaluation is due: at 0, then every `eval_freq` updates."""
        if train_iter == self._last_eval_iter:
            return False
        last = self._last_eval_iter
        due = last < 0 or train_iter - last >= (self._cfg.eval_freq or EVAL_FREQ)
        if due:
            self._eval_iter_before, self._last_eval_iter = last, train_iter
        return due

    def due(self, train_iter: int, env_step: int, env_episode: int, *, beside: bool) -> bool:
        """Returns whether an evaluation is due in a training.

        Args:
            train_iter: Gradient updates so far.
            env_step: Env steps collected so far.
            env_episode: Episodes collected so far.
            beside: Training goes on meanwhile, so that evaluations cost it nothing.
        """
        return self.should_eval(train_iter)

    def put_off(self) -> None:
        """Makes the evaluation that was due last due again, until its result is there."""
        self._last_eval_iter = self._eval_iter_before

    def eval(
        self,
        save_ckpt_fn: Callable[[str], object] | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
        *,
        should_stop: Callable[[], bool] | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> EvalResult:
        """Evaluates the policy and returns whether training may stop.

        An interrupted evaluation is not recorded, and is due again, also after resuming.

        Args:
            save_ckpt_fn: Called with 'ckpt_best.pth.tar' when the value is a new best.
            train_iter: Gradient updates so far; at 0 training does not stop. -1: unknown.
            envstep: Env steps collected so far, for the log. -1: unknown.
            n_episode: Number of episodes (of `fqe`: first states); None: the configured number.
            should_stop: Called between steps; True interrupts the evaluation.
            policy_kwargs: Keyword arguments of the policy's forward.

        Returns:
            The result, which unpacks as `stop, returns`.

        Raises:
            ClosedError: the evaluator is closed.
            UsageError: there are fewer episodes than environments.
            SchemaError: a data set lacks a column.
        """
        if self._closed:
            raise ClosedError("the evaluator is closed", hint="create a new evaluator")
        stop, kwargs = should_stop or _never, policy_kwargs or {}
        return self._evaluate(Asked(save_ckpt_fn, train_iter, envstep, n_episode, stop, kwargs))

    def _evaluate(self, asked: Asked) -> EvalResult:
        """Evaluates the policy; see `eval`."""
        raise NotImplementedError

    def _write(self, statistics: Mapping[str, float], asked: Asked, line: str = "") -> None:
        """Passes statistics, and a line for people, to the log."""
        if self._log is None:
            return
        self._log.log_scalars(
            {f"evaluator/{key}": value for key, value in statistics.items()},
            env_step=max(asked.envstep, 0),
            train_iter=max(asked.train_iter, 0),
        )
        if line and hasattr(self._log, "log_text"):
            self._log.log_text(line, channel="evaluator")

    def close(self) -> None:
        """Closes the environments, if there are any; harmless when repeated."""
        if not self._closed:
            self._closed = True
            if self._env is not None:
                self._env.close()


def _never() -> bool:
    return False


class VectorEvalMonitor:
    """Counts the episodes of an evaluation: of n episodes, n // k per environment.

    The first n % k environments have one more. The first episodes of each environment count, so
    that environments with short episodes are not over-represented.

    Args:
        env_num: k.
        n_episode: n.

    Raises:
        UsageError: there are fewer episodes than environments, or no environments.
    """

    def __init__(self, env_num: int, n_episode: int) -> None:
        if env_num < 1:
            raise UsageError("env_num must be >= 1")
        if n_episode < env_num:
            raise UsageError(
                f"{n_episode} episodes cannot be shared among {env_num} environments",
                hint="set env.evaluator_env_num to at most env.n_evaluator_episode",
            )
        share, rest = divmod(n_episode, env_num)
        self._quota = {env_id: share + (env_id < rest) for env_id in range(env_num)}
        self._returns: dict[int, list[Tree]] = {env_id: [] for env_id in range(env_num)}
        self._infos: dict[int, list[Info]] = {env_id: [] for env_id in range(env_num)}

    @property
    def quota(self) -> dict[int, int]:
        """Number of episodes required of each environment."""
        return dict(self._quota)

    def is_finished(self) -> bool:
        """Returns whether the episodes of every environment are complete."""
        return all(self.is_env_finished(env_id) for env_id in self._quota)

    def is_env_finished(self, env_id: int) -> bool:
        """Returns whether the episodes of one environment are complete."""
        return len(self._returns[env_id]) >= self._quota[env_id]

    def update_info(self, env_id: int, info: Info) -> None:
        """Records the last info of an episode; beyond the quota it is ignored."""
        if len(self._infos[env_id]) < self._quota[env_id]:
            self._infos[env_id].append(info)

    def update_reward(self, env_id: int, reward: Tree) -> None:
        """Records the return of an episode, a number or an array; beyond the quota: ignored."""
        if not self.is_env_finished(env_id):
            value = np.asarray(reward, np.float64)
            self._returns[env_id].append(value.item() if value.size == 1 else value.copy())

    def get_episode_reward(self) -> list[Tree]:
        """Returns all returns so far, ordered by environment."""
        return [value for returns in self._returns.values() for value in returns]

    def get_latest_reward(self, env_id: int) -> Tree:
        """Returns the latest recorded return of an environment.

        Raises:
            UsageError: it has finished no episode.
        """
        if not self._returns[env_id]:
            raise UsageError(f"environment {env_id} has finished no episode yet")
        return self._returns[env_id][-1]

    def get_current_episode(self) -> list[int]:
        """Returns the number of recorded episodes per environment."""
        return [len(returns) for returns in self._returns.values()]

    def get_episode_info(self) -> list[Info]:
        """Returns the last infos of all episodes so far, ordered by environment."""
        return [info for infos in self._infos.values() for info in infos]
