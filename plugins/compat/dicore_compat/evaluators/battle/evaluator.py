"""Evaluates a policy against another one in one environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicore.data import Tree
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.evaluator import EvalResult
from dicore.run import LogHub
from dicore_compat.collectors.battle.sides import are_two, joint_eval_mode
from dicore_compat.evaluators.battle.config import BattleEvaluatorConfig
from dicore_plugins.evaluators.interaction.evaluator import InteractionEvaluator

__all__ = ["BattleEvaluator"]


class BattleEvaluator(InteractionEvaluator):
    """Evaluates two policies in one environment; see `InteractionEvaluator` for all else.

    Returns are [2], one per side; statistics have `return_mean/0` and `return_mean/1`, all others
    are of the first side. What is compared with `stop_value` and chooses the best checkpoint is,
    too: its mean return, its share of episodes with the higher return (`win_rate`, if the
    environment reports no winner), or its mean reward per step. With one eval mode it is the
    evaluator of single policies.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps environments with observations [2, ...] and rewards [2].
        policy: A list of two eval modes, or one mode.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.
    """

    config_class = BattleEvaluatorConfig

    def __init__(
        self,
        cfg: BattleEvaluatorConfig | Mapping[str, object] | None = None,
        env_manager: IEnvManager | None = None,
        policy: Any = None,
        *,
        log: LogHub | None = None,
    ) -> None:
        self._two = are_two(policy)
        mode = joint_eval_mode(policy) if self._two else policy
        super().__init__(cfg, env_manager, mode, log=log)

    def reset_policy(self, policy: Any | None = None) -> None:
        """Uses other policies from now on (a list of two eval modes, or one), or resets them."""
        if policy is not None:
            self._two = are_two(policy)
            policy = joint_eval_mode(policy) if self._two else policy
        super().reset_policy(policy)

    def eval(self, *args: Any, force_render: bool = False, **options: Any) -> EvalResult:
        """Runs episodes as `InteractionEvaluator.eval` does.

        Args:
            *args: See `InteractionEvaluator.eval`.
            force_render: Record the episodes as videos in `replay_path`; only those of this call.
            **options: See `InteractionEvaluator.eval`.

        Returns:
            The result, which unpacks as `stop, returns`; returns are [2].

        Raises:
            UsageError: videos are asked for, and the environment cannot render images.
        """
        if not force_render:
            return super().eval(*args, **options)
        if self._env.closed:
            self._env.launch()
        self._env.enable_save_replay(self._cfg.replay_path)
        self._fresh = False  # episodes are recorded from the next reset on
        try:
            return super().eval(*args, **options)
        finally:
            self._env.close()  # the next evaluation makes environments that do not record

    def measure(self, returns: Sequence[Tree], infos: Sequence[Mapping[str, object]]) -> float:
        """Returns what is compared with `stop_value`: that of the first side."""
        if not self._two:
            return super().measure(returns, infos)
        both = np.asarray(returns, np.float64)
        reported = any(key in info for info in infos for key in ("is_success", "success", "won"))
        if self._cfg.measure == "win_rate" and not reported:
            return float(np.mean(both[:, 0] > both[:, 1]))
        return super().measure(both[:, 0].tolist(), infos)

    def _counted(self, returns: Tree) -> Tree:
        """Returns what counts of the returns [E, 2]: those of the first side."""
        return returns[:, 0] if self._two else super()._counted(returns)
