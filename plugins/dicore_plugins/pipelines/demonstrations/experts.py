"""Steps of an expert: of a data set, or of a policy that acts.

Shapes: T steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.config import NamedConfig
from dicore.config.paths import replace
from dicore.data import Batch, Columns, TimestepBatch, Tree, tree_paths
from dicore.interfaces.policy import IPolicy, PolicyFacts
from dicore.run.env_factory import BuildContext, make_env_manager, spec_of
from dicore_plugins.functional.samples import transitions
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IDataset


__all__ = ["ExpertSteps", "expert_steps", "opened", "recorded", "source_problems", "steps_of"]

_MISSING = (
    "required: recorded steps (dicore collect RUN --episodes 10 -o demo.npz, then"
    " pipeline.dataset.path=demo.npz), or a policy that shows them (pipeline.expert.type=expert"
    " pipeline.expert.run=RUN)"
)
_MAKING = "dicore collect RUN --episodes 10 -o demo.npz makes one of a trained policy"


def source_problems(cfg: Any) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with the source of steps: there is none, two, or an absent file."""
    dataset, expert = cfg.pipeline.dataset, cfg.pipeline.get("expert")
    if dataset is None and expert is None:
        yield "pipeline.dataset", _MISSING
    elif dataset is not None and expert is not None:
        yield "pipeline.expert", "has no effect beside pipeline.dataset; remove one of them"
    elif absent := getattr(dataset, "absent", lambda: None)():
        columns = ", ".join(dataset.get("extra") or ())  # which no policy writes
        made = f"docs/algorithms.md tells what writes {columns}" if columns else _MAKING
        yield "pipeline.dataset.path", f"{absent}; {made}"


def recorded(cfg: Any, ctx: BuildContext) -> IDataset:
    """Returns the data set of a config; the steps of `pipeline.expert` if it has none.

    Policies that learn from demonstrations make samples of single steps themselves.
    """
    section = cfg.pipeline.dataset
    if section is None:
        return ExpertSteps(expert_steps(cfg, ctx))
    if isinstance(cfg.policy.other.get("replay_buffer"), NamedConfig):
        section = replace(section, ("nstep",), 1)
    dataset: IDataset = section.build(ctx)
    return dataset


def opened(cfg: Any) -> IDataset | None:
    """Returns the data set of a config, before anything else is built; None if it has none.

    Opens those of its reward model, too, so that errors in them come before the run folder.
    """
    model = cfg.policy.reward_model
    expert = None if model is None else model.get("expert")
    shown = expert if isinstance(expert, tuple) else () if expert is None else (expert,)
    if cfg.pipeline.get("dataset") is None and not shown:
        return None
    from dicore_plugins.reward_models.config import opened as opened_by_reward_model

    context = BuildContext(spec_of(cfg.env, cfg.seed), seed=cfg.seed)
    for each in shown:
        opened_by_reward_model(each, context)
    return None if cfg.pipeline.get("dataset") is None else recorded(cfg, context)


def steps_of(dataset: IDataset) -> Batch:
    """Returns all steps of a data set, with `end`: the last step of an episode.

    Args:
        dataset: Single steps, see `IDataset`, sorted by episode and time. Without an attribute
            `end` (bool [T]), an episode ends where the next step has another observation.
    """
    steps = dataset.take(np.arange(len(dataset)))
    ended = getattr(dataset, "end", None)
    if ended is None:
        ended = np.asarray(steps["done"]) > 0
        after = tree_paths({"obs": steps["next_obs"]})
        for path, leaf in tree_paths({"obs": steps["obs"]}).items():
            differs = (leaf[1:] != after[path][:-1]).reshape(len(steps) - 1, -1).any(1)
            ended[:-1] |= differs
        ended[-1:] = True
    return Batch({**steps.columns, "end": ended}, len(steps))


def expert_steps(cfg: Any, ctx: BuildContext) -> Batch:
    """Returns the steps of whole episodes in which an expert acts, as it does in evaluation.

    Args:
        cfg: The whole compiled config: `pipeline.expert`, `pipeline.expert_episodes`, `env` and the
            collector of `policy.collect`.
        ctx: What parts are built with.
    """
    expert = cfg.pipeline.expert.build(ctx)
    envs = make_env_manager(cfg.env, "expert", cfg.seed, at_most=cfg.pipeline.expert_episodes)
    collector = cfg.policy.collect.collector.build(ctx, env_manager=envs, policy=_acting(expert))
    try:
        steps: Batch = collector.collect_batch(n_episode=cfg.pipeline.expert_episodes)
    finally:
        collector.close()
        envs.close()
    return steps[np.argsort(steps["env_id"], kind="stable")]


class ExpertSteps:
    """Data set in memory of the steps of `expert_steps`, for policies that learn offline."""

    end: npt.NDArray[np.bool_] | None = None
    """Which steps are the last of an episode, bool [T]; None if the steps do not tell."""

    def __init__(self, steps: Batch) -> None:
        self._steps = steps
        if "end" in steps:
            self.end = np.asarray(steps["end"], np.bool_)

    def __len__(self) -> int:
        return len(self._steps)

    def take(self, index: npt.NDArray[np.int64]) -> Batch:
        """Returns B samples by index."""
        taken: Batch = self._steps[index]
        return taken


def _acting(expert: IPolicy) -> SimpleNamespace:
    """Returns a collect mode that acts by an expert and makes single steps."""
    mode = expert.eval_mode

    def get_attribute(name: str) -> Any:
        return PolicyFacts() if name == "facts" else mode_attribute(mode, name, None)

    return SimpleNamespace(
        forward=lambda obs, **_: mode.forward(obs),
        reset=mode.reset,
        process_transition=_step,
        get_train_sample=transitions,
        get_attribute=get_attribute,
        set_attribute=mode.set_attribute,
    )


def _step(obs: Tree, output: Columns, timestep: TimestepBatch) -> Columns:
    """Selects the columns of one step; see `Policy`."""
    done = getattr(timestep, "terminated", timestep.done)
    return {"obs": obs, "action": output["action"], "reward": timestep.reward, "done": done}
