"""Nothing of a live run has state that a checkpoint does not bring back.

A run is stopped where it saves, and resumed in the same process; everything that the objects of
both lead to is compared. What may differ is listed, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.run.launch import launch
from dicore.run.run import Run
from dicore.task import task
from tests.plugins.pipelines.state_walk import values

NO_STATE = {
    "clocks": (
        r"_began|_told|_start\b|_table_time|\.clock|deadline|tick_time|_since|wall_s|\['log'\]"
    ),
    "addresses": r"pointer",
    "memory that is used again and again": (
        r"_recycling|_pools|_turn|_zeros|_latest|\.grad|_good|_marks"
    ),
    "the block beyond its rows, which are compared as state": (
        r"_block\.(_leaves|_items|_forms|_order|_even|_env_id|_spent|changed|end|valid)|\._(ids|weight)$"
    ),
    "the ring by slot; its rows are compared as state": r"_ring\._(items|stores|sources)|_schema",
    "the action log by step; its episodes are compared as state": r"_action_log\.(steps|count)",
    "checks that grow lazier": r"_bounds_checks",
    "waits to be shown, as other types": r"\._results",
    "counts since the last log line": r"_usage\._(pushed|drawn)",
    "shown, or read within the step": r"monitor|last_result|_lines|trajectory_end",
    "envs that each evaluation launches anew": r"\['evaluator'\]\.(_env\b|_starts|_measured)",
    "how it was brought back": r"brought_back|resumed_at",
    "counts the step that is about to begin": r"\['state'\]\['task'\]\['total_step'\]",
    "the task's context, compared as state": r"\['parts'\]\['(task|run)'\]",
}
FORGOTTEN = re.compile("|".join(NO_STATE.values()))
WISHES: dict[str, Any] = {
    "env": "cartpole",
    "policy": "dqn",
    "seed": 1,
    "max_env_step": 4000,
    "overrides": [
        "env.stop_value=inf",
        "pipeline.logger=[]",
        "policy.learn.batch_size=16",
        "policy.eval.evaluator.eval_freq=100",
        "policy.other.replay_buffer.enable_track_used_data=true",
        'policy.learn.learner.hook={"log_show_after_iter": 50, "save_ckpt_after_iter": 100}',
    ],
}


class PulledTheLead(Exception):
    """The process is gone, as far as the run is concerned."""


def live(run: Run) -> dict[str, Any]:
    return values({"parts": run.parts, "middleware": task.parts, "state": run.state_dict()})


def saved_and_restored(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, Any]]:
    """Returns what there is in a run as it saves, and in the one that goes on from there."""
    seen: list[dict[str, Any]] = []
    save, begin = Run.save_due, Run.first_step

    def after_saving(run: Run, train_iter: int) -> None:
        due = run.due
        save(run, train_iter)
        if due and train_iter >= 300:
            seen.append(live(run))
            raise PulledTheLead

    def before_going_on(run: Run) -> None:
        seen.append(live(run))
        raise PulledTheLead

    monkeypatch.setattr(Run, "save_due", after_saving)
    with pytest.raises(PulledTheLead):
        launch(exp_name=str(folder), **WISHES)
    monkeypatch.setattr(Run, "first_step", before_going_on)
    with pytest.raises(PulledTheLead):
        launch(resume=str(folder))
    monkeypatch.setattr(Run, "first_step", begin)
    monkeypatch.setattr(Run, "save_due", save)
    return seen


def lost(saved: dict[str, Any], restored: dict[str, Any]) -> list[str]:
    """Returns the paths that have other values now, or none, and may not."""
    return [
        path
        for path in sorted({*saved, *restored})
        if not FORGOTTEN.search(path) and not same(saved.get(path), restored.get(path))
    ]


def same(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return bool(one is other or (type(one) is type(other) and one == other))
    fits = one.shape == other.shape and one.dtype == other.dtype
    return fits and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def test_everything_with_state_is_brought_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved, restored = saved_and_restored(monkeypatch, tmp_path / "x")
    assert lost(saved, restored) == []
    for part in (
        "optimizer._moments",
        "collector_env']._pool.envs[0]",
        "_action_log",
        "_rng",
        "_times",
    ):
        assert any(part in path for path in saved), f"the walk does not come to {part}"


def test_the_walk_finds_what_nobody_registered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A running mean in a middleware, a count in a hook, a generator in an evaluator."""
    from dicore_plugins.evaluators.interaction.evaluator import InteractionEvaluator
    from dicore_plugins.hooks.standard import LogShowHook
    from dicore_plugins.middleware.learn import OffPolicyLearner

    def count(hook: Any, engine: Any, call: Any = LogShowHook.__call__) -> None:
        hook.planted_count = getattr(hook, "planted_count", 0) + 1
        call(hook, engine)

    def average(step: Any, ctx: Any, call: Any = OffPolicyLearner.__call__) -> Any:
        mean = getattr(step, "planted_mean", np.zeros(2))
        step.planted_mean = mean + 0.1 * (ctx.train_iter - mean)
        return call(step, ctx)

    evaluate = InteractionEvaluator.eval

    def draw(evaluator: Any, *args: Any, **kwargs: Any) -> Any:
        evaluator.planted_rng = np.random.default_rng(0)
        evaluator.planted_rng.random()
        return evaluate(evaluator, *args, **kwargs)

    monkeypatch.setattr(LogShowHook, "__call__", count)
    monkeypatch.setattr(OffPolicyLearner, "__call__", average)
    monkeypatch.setattr(InteractionEvaluator, "eval", draw)
    found = lost(*saved_and_restored(monkeypatch, tmp_path / "x"))
    planted = {path.rsplit(".", 1)[-1] for path in found}
    assert planted == {"planted_count", "planted_mean", "planted_rng"}
