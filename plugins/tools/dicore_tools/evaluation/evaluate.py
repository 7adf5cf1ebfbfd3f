"""Measures the policy of a finished (or running) run, and writes nothing into its folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dicore.config import bind
from dicore_tools.evaluation.policy_loader import Trained, find_trained, load_trained

__all__ = ["Evaluation", "eval", "evaluate", "measure"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation of a run found.

    Args:
        returns: Undiscounted return of each episode.
        checkpoint: What was loaded: a name in the run, or a path.
        seed: Seed of the episodes.
        starts: `training`: the episodes that the training's log has for this checkpoint, once
            more; `fresh`: others.
        videos: Files that were recorded.
    """

    returns: list[float]
    checkpoint: str
    seed: int
    starts: Literal["training", "fresh"] = "fresh"
    videos: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        """`mean return 487.20 (std 19.40, …) over 10 episodes, seed 1, checkpoint best`."""
        chosen = {"training": "the training's own episodes", "fresh": f"seed {self.seed}"}
        count = len(self.returns)
        return (
            f"mean return {self.mean_return:.2f} (std {self.std:.2f},"
            f" min {min(self.returns):.2f}, max {max(self.returns):.2f})"
            f" over {count} episode{'' if count == 1 else 's'},"
            f" {chosen[self.starts]}, checkpoint {self.checkpoint}"
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
    *,
    n_episode: int | None = None,
    seed: int | None = None,
    load_path: str | Path | None = None,
    replay_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
) -> Evaluation:
    """Runs episodes with the policy of a run.

    With neither `n_episode` nor `seed` nor `overrides`, a checkpoint that the training evaluated
    is measured on the very same episodes: the number is the log's. `best` was chosen by that
    number, which flatters it; a seed of your own gives an unbiased one.

    Args:
        run: The run's folder, whose `config.json` says what to build, or one of its checkpoints.
        n_episode: Number of episodes; None takes the config's.
        seed: Seed of the episodes; None takes the run's.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest that is whole.
        replay_path: Folder for a video of each episode; None: no videos.
        overrides: `a.b=c`, above the run's config.
        trust: Run code that `config.json` names by a path instead of a registered name.

    Raises:
        UsageError: the folder is not that of a run, or videos cannot be recorded.
        ConfigError: `config.json` names components that are not installed, or by a path.
        CheckpointError: there is no checkpoint, or it cannot be used.
    """
    trained = find_trained(run, load_path, seed=seed, overrides=overrides, trust=trust)
    same = n_episode is None and seed is None and not overrides
    return measure(trained, n_episode=n_episode, replay_path=replay_path, same_starts=same)


def eval(  # noqa: A001 - the documents' name
    input_cfg: Any,
    seed: int | None = None,
    load_path: str | Path | None = None,
    replay_path: str | Path | None = None,
    n_episode: int | None = None,
) -> Evaluation:
    """Measures a checkpoint by a config: the documents' form of `evaluate`.

    Args:
        input_cfg: `[main_config, create_config]`, one dict of both, the path of a file, the folder
            of a run, or a `TrainRequest`.
        seed: Seed of the episodes; None takes the config's.
        load_path: The checkpoint's folder; None is possible for the folder of a run alone.
        replay_path: Folder for a video of each episode; None: no videos.
        n_episode: Number of episodes; None takes the config's.

    Raises:
        UsageError: there is no checkpoint to load, or videos cannot be recorded.
        ConfigError: the config is wrong.
        CheckpointError: the checkpoint cannot be used.
    """
    from dicore.errors import UsageError
    from dicore.run.env_factory import spaces_of
    from dicore.run.request import TrainRequest, compile_request

    if isinstance(input_cfg, str | Path) and Path(input_cfg).is_dir():
        return evaluate(
            input_cfg, n_episode=n_episode, seed=seed, load_path=load_path, replay_path=replay_path
        )
    ready = isinstance(input_cfg, TrainRequest)
    request = input_cfg if ready else TrainRequest(config=input_cfg, seed=seed)
    if load_path is None:
        raise UsageError("what to evaluate is missing", hint="name a checkpoint with load_path")
    compiled = compile_request(request)
    compiled = bind(compiled, *spaces_of(compiled.env, compiled.seed))
    trained = load_trained(compiled, load_path)
    return measure(trained, n_episode=n_episode, replay_path=replay_path)


def measure(
    trained: Trained,
    *,
    n_episode: int | None = None,
    replay_path: str | Path | None = None,
    same_starts: bool = False,
) -> Evaluation:
    """Runs episodes with a policy; the random generators of the process are as before afterwards.

    Args:
        trained: The policy.
        n_episode: Number of episodes; None takes the config's.
        replay_path: Folder for a video of each episode; None: no videos.
        same_starts: Play the episodes that the training measured these parameters by, if it did.

    Raises:
        UsageError: videos cannot be recorded.
    """
    from dicore.run.env_factory import BuildContext, make_env_manager
    from dicore.run.random import seeded

    compiled = trained.compiled
    folder = None if replay_path is None else Path(replay_path)
    before = _videos(folder)
    with seeded(compiled.seed):
        manager = make_env_manager(
            compiled.env, "evaluator", compiled.seed, at_most=n_episode, recorder=_recorder(folder)
        )
        try:
            context = BuildContext(seed=compiled.seed).with_spaces(
                manager.observation_space, manager.action_space
            )
            policy, content = trained.build(context)
            starts = content.starts if same_starts else None
            if starts is not None:
                manager.load_state_dict(starts)
            section = compiled.policy.eval.evaluator
            evaluator = section.build(context, env_manager=manager, policy=policy.eval_mode)
            try:
                returns = [float(each) for each in evaluator.eval(n_episode=n_episode).returns]
            finally:
                evaluator.close()
        finally:
            manager.close()
    return Evaluation(
        returns,
        content.name or trained.name,
        compiled.seed,
        "fresh" if starts is None else "training",
        sorted(_videos(folder) - before),
    )


def _recorder(folder: Path | None) -> Any:
    if folder is None:
        return None
    from dicore_tools.evaluation.video import Recorder

    return Recorder(folder)


def _videos(folder: Path | None) -> set[Path]:
    if folder is None or not folder.is_dir():
        return set()
    return {path for path in folder.iterdir() if not path.name.startswith(".")}
