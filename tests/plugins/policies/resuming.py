"""Trains a run in one go and in two, for tests that compare the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dicore.run.launch import launch


def same_after_resume(
    name: str, env: str, options: Sequence[str], folder: Path, steps: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the learn state's model of an uninterrupted run, and of one resumed in the middle.

    Both have made the same number of updates, which is not 0.
    """

    def train(place: str, limit: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(folder / place), "env": env, "policy": name, "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", *options],
        }  # fmt: skip
        given = {"resume": str(folder / place), "trust": True} if resume else given
        return launch(**given, max_env_step=limit)

    whole, _ = train("whole", steps), train("half", steps // 2)
    rest = train("half", steps, resume=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter > 0
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    return one, two
