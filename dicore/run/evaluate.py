"""Measures the policy of a finished (or running) run, and writes nothing into its folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dicore.errors import CheckpointCorruptError, CheckpointError, ConfigError

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation of a run found.

    Args:
        returns: Undiscounted return of each episode.
        checkpoint: What was loaded: a name in the run, or a path.
        seed: Seed of the episodes.
    """

    returns: list[float]
    checkpoint: str
    seed: int

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
    trust: bool = False,
) -> Evaluation:
    """Runs episodes with the policy of a run.

    Args:
        run: The run's folder; its `config.json` says what to build.
        n_episode: Number of episodes; None takes the config's.
        seed: Seed of the episodes; None takes the run's.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest that is whole.
        trust: Run code that `config.json` names by a path instead of a registered name.

    Raises:
        UsageError: the folder is not that of a run.
        ConfigError: `config.json` names components that are not installed, or by a path.
        CheckpointError: there is no checkpoint, or it cannot be used.
    """
    from dicore.run.folder import RunFolder
    from dicore.run.store import CheckpointStore

    folder = RunFolder.open(run)
    store = CheckpointStore(folder.checkpoints)
    name = store.best_or_latest() if load_path is None else load_path
    if name is None:
        raise CheckpointError(
            f"{folder}: no checkpoint that is whole", hint="name one with --load-path"
        )
    compiled = _compile(folder.config, seed, trust=trust)
    policy, evaluator = _build(compiled, n_episode)
    try:
        policy.eval_mode.load_state_dict(_policy_state(store.load(name), str(name)))
        result = evaluator.eval(n_episode=n_episode)
    finally:
        evaluator.close()
    return Evaluation([float(each) for each in result.returns], str(name), compiled.seed)


def _compile(file: Path, seed: int | None, *, trust: bool) -> Any:
    """Compiles the config of a run, which may come from anywhere: only names may choose code."""
    from dicore.config import compile_config

    try:
        return compile_config(str(file), seed=seed, names_only=not trust)
    except ConfigError as error:
        if "only names here" in error.message:
            hint = "a run that names code by path is evaluated with --trust, if you trust it"
            raise ConfigError(error.problems, hint=hint) from error
        raise


def _build(compiled: Any, n_episode: int | None) -> tuple[Any, Any]:
    """Makes policy and evaluator, with no more environments than episodes."""
    from dicore.run.build_context import BuildContext
    from dicore.run.envs import make_env_manager
    from dicore.run.rng import seed_everything

    seed_everything(compiled.seed)
    manager = make_env_manager(compiled.env, "evaluator", compiled.seed, at_most=n_episode)
    context = BuildContext(seed=compiled.seed).with_spaces(
        manager.observation_space, manager.action_space
    )
    policy = compiled.policy.build(context)
    section = compiled.policy.eval.evaluator
    return policy, section.build(context, env_manager=manager, policy=policy.eval_mode)


def _policy_state(state: Any, name: str) -> Any:
    try:
        return state["learner"]["policy"]
    except (KeyError, TypeError):
        raise CheckpointCorruptError(
            f"checkpoint {name} holds no policy", hint="it was not written by a training run"
        ) from None
