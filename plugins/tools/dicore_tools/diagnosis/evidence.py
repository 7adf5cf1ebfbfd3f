"""The evidence of a run: its config, its curves, and the state in its newest checkpoint.

No code of the run is executed: environments and networks are not built.

Shapes: P points of a curve, B stored samples, A agents, D numbers of an observation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.errors import CheckpointError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore_tools.diagnosis.finding import Change, MissingEvidenceError
from dicore_tools.reports.run_data import RunData, read_run

__all__ = ["Evidence", "Moments", "evidence_of", "read_evidence"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """The averages of an Adam optimizer.

    Args:
        name: `actor`, `critic`, …; empty if the policy has a single optimizer.
        steps: Updates that were made.
        rate: Learning rate at the last update.
        eps: Added to the denominator of an update.
        mean: Averages of the gradient, an array per parameter.
        square: Averages of the squared gradient, an array per parameter.
    """

    name: str
    steps: float
    rate: float
    eps: float
    mean: tuple[Floats, ...]
    square: tuple[Floats, ...]

    @property
    def norm(self) -> float:
        """Root mean square of the norm of the gradient, after clipping, over some 1,000 updates."""
        started = 1 - 0.999 ** max(self.steps, 1)
        return math.sqrt(sum(float(each.sum()) for each in self.square) / started)


class Evidence:
    """What a run has recorded; rules ask for it by name.

    Every access raises `MissingEvidenceError` if the run does not record it.

    Args:
        data: Record, config and metrics of the run.
        state: State in a checkpoint; None: there is none.
    """

    def __init__(self, data: RunData, state: Mapping[str, Any] | None) -> None:
        self.data = data
        self._state = state

    # ---- config

    def option(self, path: str, default: Any = None) -> Any:
        """Returns the value of an option in the config of the run."""
        found: Any = self.data.config
        for key in path.split("."):
            if not isinstance(found, Mapping) or key not in found:
                return default
            found = found[key]
        return default if found is None else found

    def number(self, path: str) -> float:
        """Returns the value of an option that is a number."""
        value = self.option(path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MissingEvidenceError(f"the config has no number {path}")
        return float(value)

    def change(self, option: str, advice: str) -> Change:
        """Returns an option to change, with its value in this run."""
        return Change(option, advice, self.option(option))

    @property
    def on_policy(self) -> bool:
        """Whether samples are used by the updates after their collect alone."""
        return bool(self.option("policy.on_policy", default=False))

    # ---- metrics

    def points(self, tag: str, at_least: int = 1) -> Floats:
        """Returns the values of a metric.

        Returns:
            float64 [P, 4]: env step, update, seconds, value.
        """
        found = self.data.columns.get(tag)
        if found is None or len(found) < at_least:
            count = 0 if found is None else len(found)
            raise MissingEvidenceError(f"{tag}: {count} of {at_least} values that are needed")
        return found

    def values(self, tag: str, at_least: int = 1) -> Floats:
        """Returns the values of a metric, float64 [P]."""
        return self.points(tag, at_least)[:, 3]

    def recent(self, tag: str, at_least: int = 4) -> float:
        """Returns the median of the last quarter of a metric, at least two values."""
        values = self.values(tag, at_least)
        return float(np.median(values[-max(2, len(values) // 4) :]))

    @property
    def env_steps(self) -> int:
        """Env steps collected."""
        return self.data.progress[0]

    @cached_property
    def budget(self) -> float:
        """Env steps that the run collects in all: infinite if it goes on and has no such limit."""
        limit = (self.data.record.get("limits") or {}).get("max_env_step")
        goes_on = self.data.state == "running"
        return float(limit or (math.inf if goes_on else self.env_steps))

    def part_of_budget(self, share: float) -> float:
        """Returns a share of the budget, or of what was collected if there is none."""
        return share * (self.budget if math.isfinite(self.budget) else self.env_steps)

    @property
    def updates(self) -> int:
        """Gradient updates made."""
        return self.data.progress[1]

    @property
    def episode_length(self) -> float:
        """Env steps of the longest mean episode of collecting and evaluations."""
        roles = ("collector", "evaluator")
        tags = [f"{role}/avg_envstep_per_episode" for role in roles]
        found = [self.data.columns[tag][:, 3].max() for tag in tags if tag in self.data.columns]
        if not found:
            raise MissingEvidenceError("no episode has ended")
        return float(max(found))

    # ---- checkpoint

    @property
    def state(self) -> Mapping[str, Any]:
        """The state in the checkpoint."""
        if self._state is None:
            raise MissingEvidenceError("the run has no valid checkpoint")
        return self._state

    def _stored(self, *keys: str) -> Any:
        found: Any = self.state
        for key in keys:
            if not isinstance(found, Mapping) or found.get(key) is None:
                raise MissingEvidenceError(f"the checkpoint has no {'.'.join(keys)}")
            found = found[key]
        return found

    def column(self, name: str) -> npt.NDArray[Any]:
        """Returns a column of the replay buffer, [B, ...], oldest sample first."""
        found = self._stored("buffer", "columns", name)
        if isinstance(found, Mapping | list | tuple):
            raise MissingEvidenceError(f"the column '{name}' of the buffer has parts")
        array, buffer = np.asarray(found), self._stored("buffer")
        cursor = buffer.get("cursor") or 0
        is_full = (buffer.get("push_count") or 0) > len(array)
        return np.roll(array, -cursor, axis=0) if is_full and cursor else array

    @cached_property
    def observations(self) -> Floats:
        """Observations of numbers as the policy sees them.

        Those of the replay buffer, else the latest of each environment: float64 [B, D].
        """
        try:
            found = self.column("obs")
        except MissingEvidenceError:
            running = self._stored("collector_env", "running")
            obs = [each.get("obs") for each in running if isinstance(each, Mapping)]
            if not obs or any(not hasattr(each, "shape") for each in obs):
                raise MissingEvidenceError("the checkpoint has no observations") from None
            found = np.stack([np.asarray(each) for each in obs])
        if found.dtype.kind != "f" or found.ndim < 2 or len(found) == 0:
            raise MissingEvidenceError("the observations are not vectors of real numbers")
        return found.reshape(len(found), -1).astype(np.float64)

    @property
    def returns_are_raw(self) -> bool:
        """Whether wrappers change the rewards that are learned from, but not the logged returns."""
        wrappers = self.option("env.env_wrapper", ())
        return any(each.get("type") in ("clip_reward", "reward_norm") for each in wrappers)

    @property
    def reward_factor(self) -> float:
        """The number that rewards are multiplied by before values are learned from them."""
        value = self.option("policy.learn.reward_scale", 1.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and value > 0 else 1.0

    @cached_property
    def rewards(self) -> Floats:
        """Rewards of the replay buffer, per env step: float64 [B], or of A agents [B, A].

        Sums of n steps, as n-step returns store them, are divided by the weight of their steps.
        """
        found, agents = self.column("reward").astype(np.float64), self.option("policy.model.agents")
        own = found.ndim > 1 and found.shape[-1] == agents
        found = found.reshape(-1, agents) if own else found.reshape(-1)
        gamma, steps = self.option("policy.discount_factor", 1.0), self.option("policy.nstep", 1)
        weight = sum(gamma**step for step in range(int(steps))) if steps else 1.0
        return found / weight

    def networks(self, name: str = "model") -> dict[str, Floats]:
        """Returns the parameters of a network of the policy, by name."""
        found = self._stored("learner", "policy", name)
        return {key: np.asarray(value, np.float64) for key, value in found.items()}

    @cached_property
    def optimizers(self) -> tuple[Moments, ...]:
        """The optimizers of the policy that are Adam or AdamW."""
        policy = self._stored("learner", "policy")
        given = policy.get("optimizers") or {"": policy.get("optimizer")}
        found = tuple(made for name, each in given.items() for made in _moments(name, each))
        if not found:
            raise MissingEvidenceError("the checkpoint has no state of Adam")
        return found


def _moments(name: str, state: Any) -> Iterator[Moments]:
    """Yields the averages of an optimizer, if it is Adam and has made an update."""
    if not isinstance(state, Mapping) or not state.get("state"):
        return
    parts: Sequence[Mapping[str, Any]] = list(state["state"].values())
    if any("exp_avg_sq" not in part for part in parts):
        return
    group = state["param_groups"][0]
    yield Moments(
        name,
        float(parts[0]["step"]),
        float(group["lr"]),
        float(group.get("eps", 1e-8)),
        tuple(np.asarray(part["exp_avg"], np.float64) for part in parts),
        tuple(np.asarray(part["exp_avg_sq"], np.float64) for part in parts),
    )


def read_evidence(folder: RunFolder) -> Evidence:
    """Reads the evidence of a run, which may go on.

    Raises:
        UsageError: its record, config or metrics cannot be read.
    """
    return evidence_of(read_run(folder))


def evidence_of(data: RunData, most_bytes: float = math.inf) -> Evidence:
    """Reads the newest checkpoint of a run, if there is a valid one.

    Args:
        data: The other files of the run.
        most_bytes: Size from which on the checkpoint is not read.
    """
    store = CheckpointStore(data.folder.checkpoints)
    try:
        files = [each.stat().st_size for each in store.folder.glob("*/*.safetensors")]
        state = store.newest_state()[1] if max(files, default=0) < most_bytes else None
    except (CheckpointError, OSError):  # it may be replaced at any time
        state = None  # the rules that need one do not apply
    return Evidence(data, state if isinstance(state, Mapping) else None)
