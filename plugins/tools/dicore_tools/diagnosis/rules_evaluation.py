"""Rules about evaluations: whether they can show progress."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding

__all__ = ["evaluation_noise"]

_FEW_EPISODES: Final = 3
_TAG: Final = "evaluator/return_mean"


def evaluation_noise(run: Evidence) -> Finding | None:
    """Evaluations of few episodes differ by more than the progress between them."""
    returns = run.values(_TAG, at_least=6)
    episodes = float(run.values("evaluator/episode_count")[-1])
    third = len(returns) // 3
    noise = float(np.diff(returns).std() / math.sqrt(2))
    progress = float(returns[-third:].mean() - returns[:third].mean())
    if episodes > _FEW_EPISODES or noise <= progress or noise < 0.05 * np.abs(returns).mean():
        return None
    return Finding(
        f"evaluations differ by {noise:.4g} from one to the next, and the progress is"
        f" {progress:.4g}",
        f"{episodes:.0f} episodes say little: which checkpoint is best is left to chance",
        (
            run.change("env.n_evaluator_episode", "10 and more"),
            run.change("policy.eval.evaluator.fixed_starts", "true: the same starts each time"),
        ),
        {"noise": noise, "progress": progress, "episodes": episodes},
        (_TAG,),
    )
