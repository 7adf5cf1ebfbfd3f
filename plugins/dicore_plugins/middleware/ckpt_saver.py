"""Checkpoints as a step of training."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from dicore.run.checkpoint_store import CheckpointStore
from dicore.task import OnlineRLContext, Task, middleware, task
from dicore_plugins.hooks.hook_config import Interval
from dicore_plugins.middleware.evaluate import BEST_EVALUATION


@middleware(reads=["train_iter"])
class CkptSaver:
    """Saves every `train_freq` updates, at each best evaluation, and when the task finishes.

    Both forms of the documents work: `CkptSaver(cfg, policy, train_freq=100)` and
    `CkptSaver(policy, save_dir, train_freq=100)`.

    Args:
        cfg: The whole compiled config, or the policy in the second form.
        policy: The policy, or the folder in the second form.
        train_freq: Updates between checkpoints; None saves none at intervals.
        save_finish: Save `final` when the task finishes.
        save_dir: Folder of the run; None takes `exp_name` of the config.
        run: The run whose store is used; it saves everything registered with it, and its best
            policy itself.
    """

    def __init__(
        self,
        cfg: Any,
        policy: Any = None,
        train_freq: int | None = None,
        save_finish: bool = True,
        *,
        save_dir: str | Path | None = None,
        run: Any | None = None,
    ) -> None:
        if hasattr(cfg, "learn_mode"):
            cfg, policy, save_dir = None, cfg, policy if save_dir is None else save_dir
        if save_dir is None:
            save_dir = getattr(cfg, "exp_name", None) or "default_experiment"
        self._policy = policy
        self._run = run
        self._store = CheckpointStore(Path(save_dir) / "ckpt") if run is None else run.store
        self._interval = None if train_freq is None else Interval(train_freq)
        self._save_finish = save_finish

    def join_task(self, task: Task) -> None:
        """Listens for best evaluations; the run, where there is one, saves them itself."""
        if self._run is None:
            task.on(BEST_EVALUATION, lambda ctx: self._save("best", ctx))

    def __call__(self, ctx: OnlineRLContext) -> Generator[None, None, None]:
        yield
        if self._interval is not None and self._interval.due(ctx.train_iter):
            self._save(f"iteration_{ctx.train_iter}", ctx)
        if self._run is not None:
            self._run.save_due(ctx.train_iter)
        if self._save_finish and task.finish:
            self._save("final", ctx)

    def _save(self, name: str, ctx: OnlineRLContext) -> None:
        if self._run is not None:
            self._run.save_checkpoint(name)
            return
        learner = {
            "policy": self._policy.learn_mode.state_dict(),
            "last_iter": ctx.train_iter,
            "last_step": ctx.env_step,
        }
        self._store.save(name, {"learner": learner})
