"""The policy that is evaluated: what it does for recorded observations, and how probably.

Shapes: B observations, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.data import EnvBatch, Tree
from dicore.data.tree import tree_len
from dicore.errors import UsageError
from dicore.interfaces.policy import IPolicy
from dicore_tools.evaluation.offline.action_probabilities import (
    Bounds,
    action_log_prob,
    discrete_probabilities,
)

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["Target", "bounds_of", "distribution_of"]

Floats = npt.NDArray[np.float64]
QValues = Callable[[Tree, Tree], Floats]
_DRAWS = 10
"""Actions per state whose values are averaged, of continuous actions."""
_SAMPLED = ("softmax", "gaussian", "squashed_gaussian")


def distribution_of(mode: object) -> str:
    """Returns how a collect mode draws actions: `softmax`, `gaussian`, …; "" if it does not tell.

    Policies declare it as the attribute `action_distribution`.
    """
    get = getattr(mode, "get_attribute", None)
    with suppress(AttributeError, KeyError):
        return str(get("action_distribution")) if callable(get) else ""
    return ""


def bounds_of(space: Space, *, scaled: bool) -> Bounds | None:
    """Returns the bounds of continuous actions; None for others."""
    if not isinstance(space, spaces.Box):
        return None
    low, high = (np.asarray(each, np.float64).reshape(-1) for each in (space.low, space.high))
    return Bounds(low, high, scaled)


class Target:
    """Acts greedily, as in evaluation, or draws actions, as in training.

    It is an eval mode for `fqe`: it has `forward` and `reset`.

    Args:
        policy: The trained policy.
        action_space: Space of one action.
        sample: Draw actions from the distribution of the policy.
        scaled: Whether the network's actions are in units of their bounds.

    Raises:
        UsageError: actions are to be drawn, and the policy does not say how.
    """

    def __init__(
        self, policy: IPolicy, action_space: Space, *, sample: bool, scaled: bool = True
    ) -> None:
        self._mode = policy.collect_mode if sample else policy.eval_mode
        self._space, self._bounds = action_space, bounds_of(action_space, scaled=scaled)
        self._start = int(getattr(action_space, "start", 0))
        self.kind = distribution_of(policy.collect_mode) if sample else "greedy"
        if sample and self.kind not in _SAMPLED:
            raise UsageError(
                f"--sample: the actions of this policy are not drawn from a distribution"
                f" ({self.kind or 'it declares none'})",
                hint="omit --sample: its greedy actions are evaluated",
            )

    @property
    def has_probabilities(self) -> bool:
        """Whether its actions have probabilities or densities."""
        return self.kind != "greedy" or isinstance(self._space, spaces.Discrete)

    def forward(self, obs: EnvBatch[Tree]) -> EnvBatch[Mapping[str, Tree]]:
        """Selects actions.

        Raises:
            UsageError: the policy has a memory.
        """
        found = EnvBatch.of(self._mode.forward(obs))
        if "prev_state" in found.value:
            raise UsageError(
                "the policy has a memory: it cannot be evaluated on single recorded steps",
                hint="evaluate it in its environment: omit --offline",
            )
        return found

    def reset(self, *args: object, **kwargs: object) -> None:
        """Forgets the episodes."""
        self._mode.reset(*args, **kwargs)

    def log_prob(self, obs: Tree, action: npt.NDArray[np.generic]) -> Floats:
        """Computes the log-probabilities of recorded actions: float64 [B].

        Raises:
            UsageError: they have none.
        """
        if not self.has_probabilities:
            raise UsageError(
                "greedy continuous actions have no probabilities",
                hint="--sample evaluates the distribution that the policy draws from in training",
            )
        return action_log_prob(
            self.kind, self._outputs(obs), action, obs=obs, start=self._start, bounds=self._bounds
        )

    def value(self, obs: Tree, q: QValues) -> Floats:
        """Computes the mean of q over the actions of the policy: float64 [B].

        It is exact for discrete actions, else the mean of some draws.
        """
        if self.kind == "softmax" and isinstance(self._space, spaces.Discrete):
            chance = discrete_probabilities(self.kind, self._outputs(obs), obs)
            count = len(chance)
            each = [
                q(obs, np.full(count, self._start + index, np.int64))
                for index in range(chance.shape[1])
            ]
            return np.asarray((chance * np.stack(each, 1)).sum(1), np.float64)
        draws = 1 if self.kind == "greedy" else _DRAWS
        values = [q(obs, self._outputs(obs)["action"]) for _ in range(draws)]
        return np.asarray(np.mean(values, 0), np.float64)

    def _outputs(self, obs: Tree) -> Mapping[str, Tree]:
        self.reset()
        return self.forward(EnvBatch(np.arange(tree_len(obs)), obs)).value
