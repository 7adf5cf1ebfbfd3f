"""The same data of every env manager."""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.config import compile_config
from dicore.run.env_factory import make_env_manager
from dicore.testing.compare import difference


def told(env: str, manager: str, options: dict[str, Any], steps: int) -> list[Any]:
    """Steps two environments with random actions of each step, whatever their episodes."""
    cfg = compile_config({
        "env": {"type": env, "collector_env_num": 2, "manager": {"type": manager},
                "n_evaluator_episode": 1, "stop_value": 1.0,
                "env_wrapper": ["eval_episode_return"], **options},
        "policy": {"type": "random", "collect": {"n_sample": 8}},
    })  # fmt: skip
    made = make_env_manager(cfg.env, "collector", 3)
    made.launch()
    made.action_space.seed(1)
    drawn = [{env_id: made.action_space.sample() for env_id in (0, 1)} for _ in range(steps)]
    found: list[Any] = [np.copy(made.ready_obs.value["obs"])]
    for actions in drawn:
        rows: dict[int, Any] = {}
        while len(rows) < 2:  # an asynchronous manager returns those that are ready
            ready = [env_id for env_id in made.ready_obs if env_id not in rows]
            given = {env_id: actions[env_id] for env_id in ready}
            for env_id, step in made.step(given).items():
                rows[env_id] = [step.obs, step.reward, step.terminated, step.truncated]
        found += [rows[0], rows[1]]
    made.close()
    return found


def same_in(env: str, managers: tuple[str, ...], steps: int = 20, **options: Any) -> bool:
    """Returns whether managers give the bits of `base`; some episodes end."""
    base = told(env, "base", options, steps)
    assert any(row[2] or row[3] for row in base[1:])
    for manager in managers:
        wrong = difference(told(env, manager, options, steps), base)
        assert not wrong, f"{manager}: {wrong}"
    return True
