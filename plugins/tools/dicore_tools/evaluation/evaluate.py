"""Evaluates the policy of a finished or running run, without writing to its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from dicore.data import State
from dicore.errors import UsageError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import EvalMode, IPolicy
from dicore_tools.evaluation.env_states import go_on
from dicore_tools.evaluation.policy_loader import TrainedPolicy, find_policy, load_policy

__all__ = ["Evaluation", "eval", "evaluate", "run_episodes"]

_LAST: Final = {"envstep": 10**9, "learner_step": 10**9}
"""Counts at which exploration is the least, as at the end of all schedules."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation.

    Args:
        returns: Undiscounted return of each episode.
        checkpoint: Name or path of the checkpoint.
        seed: Seed of the episodes.
        starts: `training`: the same episodes as in the training's evaluation of this checkpoint;
            `fresh`: new episodes.
        videos: Recorded files.
        sampled: Whether actions were drawn as in training.
        measured: What `policy.eval.evaluator.measure` compares with the stop value, by its name;
            empty: the mean return.
    """

    returns: list[float]
    checkpoint: str
    seed: int
    starts: Literal["training", "fresh"] = "fresh"
    videos: list[Path] = field(default_factory=list)
    sampled: bool = False
    measured: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """`mean return 487.20 (std 19.40, …) over 10 episodes, seed 1, checkpoint best`."""
        episodes = {"training": "same episodes as in training", "fresh": f"seed {self.seed}"}
        count = len(self.returns)
        told = "".join(f"{name.replace('_', ' ')} {x:.4g}, " for name, x in self.measured.items())
        return (
            f"{told}mean return {self.mean_return:.2f} (std {self.std:.2f},"
            f" min {min(self.returns):.2f}, max {max(self.returns):.2f})"
            f" over {count} episode{'' if count == 1 else 's'},"
            f" {episodes[self.starts]}, checkpoint {self.checkpoint}"
            f"{', actions drawn as in training' if self.sampled else ''}"
        )

    @property
    def mean_return(self) -> float:
        """Mean over the episodes."""
        return sum(self.returns) / len(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation over the episodes."""
        mean = self.mean_return
        return math.sqrt(sum((each - mean) ** 2 for each in self.returns) / len(self.returns))


def evaluate(
    run: str | Path,
    n_episode: int | None = None,
    *,
    seed: int | None = None,
    load_path: str | Path | None = None,
    replay_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
    sample: bool = False,
) -> Evaluation:
    """Evaluates the policy of a run.

    Without `n_episode`, `seed` and `overrides`, the training's evaluation episodes of the
    checkpoint are reused, so the result equals the logged one. `best` was selected by that result,
    which is therefore biased upwards; another seed gives an unbiased estimate.

    Args:
        run: The run folder, or the folder of one of its checkpoints.
        n_episode: Number of episodes; None takes the config's.
        seed: Seed of the episodes; None takes the run's.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest valid one.
        replay_path: Folder for a video of each episode; None: no videos.
        overrides: `a.b=c`, on top of the run's config.
        trust: Run code that `config.json` names by path instead of a registered name.
        sample: Draw actions as in training, with the least exploration; False: greedy actions.

    Raises:
        UsageError: the folder is not a run folder, or videos cannot be recorded.
        ConfigError: `config.json` names components that are not installed, or code by path.
        CheckpointError: there is no valid checkpoint.
    """
    trained = find_policy(run, load_path, seed=seed, overrides=overrides, trust=trust)
    same = n_episode is None and seed is None and not overrides and not sample
    return run_episodes(
        trained, n_episode=n_episode, replay_path=replay_path, same_starts=same, sample=sample
    )


def eval(  # noqa: A001 - the documents' name
    input_cfg: Any,
    seed: int | None = None,
    load_path: str | Path | None = None,
    replay_path: str | Path | None = None,
    n_episode: int | None = None,
    sample: bool = False,
) -> Evaluation:
    """Evaluates a checkpoint with a given config (DI-engine's form of `evaluate`).

    Args:
        input_cfg: `[main_config, create_config]`, one dict of both, the path of a file, a run
            folder, or a `TrainRequest`.
        seed: Seed of the episodes; None takes the config's.
        load_path: Folder of the checkpoint; may be None only for a run folder.
        replay_path: Folder for a video of each episode; None: no videos.
        n_episode: Number of episodes; None takes the config's.
        sample: Draw actions as in training; see `evaluate`.

    Raises:
        UsageError: no checkpoint is given, or videos cannot be recorded.
        ConfigError: the config is invalid.
        CheckpointError: the checkpoint is invalid.
    """
    if isinstance(input_cfg, str | Path) and Path(input_cfg).is_dir():
        return evaluate(
            input_cfg, n_episode=n_episode, seed=seed, load_path=load_path,
            replay_path=replay_path, sample=sample,
        )  # fmt: skip
    if load_path is None:
        raise UsageError(
            "no checkpoint given", hint="pass --load-path CKPT (in Python: load_path=CKPT)"
        )
    trained = load_policy(input_cfg, load_path, seed=seed)
    return run_episodes(trained, n_episode=n_episode, replay_path=replay_path, sample=sample)


def run_episodes(
    trained: TrainedPolicy,
    *,
    n_episode: int | None = None,
    replay_path: str | Path | None = None,
    same_starts: bool = False,
    sample: bool = False,
) -> Evaluation:
    """Runs evaluation episodes; the process's random generators are restored afterwards.

    Env wrappers that measure statistics go on with those of the checkpoint.

    Args:
        trained: The policy.
        n_episode: Number of episodes; None takes the config's.
        replay_path: Folder for a video of each episode; None: no videos.
        same_starts: Reuse the episodes of the training's evaluation of these parameters, if any.
        sample: Draw actions as in training; see `evaluate`.

    Raises:
        UsageError: videos cannot be recorded.
    """
    from dicore.run.env_factory import BuildContext, make_env_manager
    from dicore.run.random import seeded

    compiled = trained.compiled
    folder = None if replay_path is None else Path(replay_path)
    at_most = n_episode or compiled.env.n_evaluator_episode  # of environments, as in training
    before = _videos(folder)
    with seeded(compiled.seed):
        manager = make_env_manager(
            compiled.env, "evaluator", compiled.seed, at_most=at_most, recorder=_recorder(folder)
        )
        try:
            context = BuildContext(EnvSpec.of(manager), seed=compiled.seed)
            policy, state = trained.build(context)
            starts = state.starts if same_starts else None
            if starts is not None:
                manager.load_state_dict(starts)
            elif state.policy is not None:
                go_on(manager, compiled.env, state.env_states)
            section = compiled.policy.eval.evaluator
            mode = _drawing(policy, state.policy) if sample else policy.eval_mode
            parts = {"env_manager": manager, "policy": mode}
            if getattr(type(section), "needs_dataset", False):
                parts["dataset"] = compiled.pipeline["dataset"].build(context)
            evaluator = section.build(context, **parts)
            try:
                result = evaluator.eval(n_episode=n_episode)
                returns = [float(np.sum(each)) for each in result.returns]  # of agents, objectives
                measure = str(section.get("measure", "return"))
                told = {} if measure == "return" else {measure: result.statistics[measure]}
            finally:
                evaluator.close()
        finally:
            manager.close()
    return Evaluation(
        returns,
        state.name or trained.name,
        compiled.seed,
        "fresh" if starts is None else "training",
        sorted(_videos(folder) - before),
        sample,
        told,
    )


def _drawing(policy: IPolicy, state: State | None) -> EvalMode:
    """Returns the eval mode, but with actions as they are drawn in training."""
    collect = policy.collect_mode
    if state is not None:
        collect.load_state_dict(state)
    settings = policy.command_mode.get_setting_collect(_LAST)
    forward = partial(collect.forward, **settings)
    found: EvalMode = policy.eval_mode._replace(forward=forward, reset=collect.reset)
    return found


def _recorder(folder: Path | None) -> Any:
    if folder is None:
        return None
    from dicore_tools.evaluation.video import Recorder

    return Recorder(folder)


def _videos(folder: Path | None) -> set[Path]:
    if folder is None or not folder.is_dir():
        return set()
    return {path for path in folder.iterdir() if not path.name.startswith(".")}
