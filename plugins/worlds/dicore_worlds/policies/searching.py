"""What policies that search before they act have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from dicore.data import Columns, EnvBatch, Tree
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext
from dicore.run.random import stream
from dicore_plugins.policies import Policy
from dicore_worlds.planning.interface import IPlanner

__all__ = ["SearchingPolicy"]


class SearchingPolicy(Policy):
    """Acts by what a planner finds; a subclass says from where it searches, in `_planned`."""

    export_problem: ClassVar[str] = "it acts by searching"

    @cached_property
    def _planner(self) -> IPlanner:
        planner: IPlanner = self._cfg.planner.build(BuildContext())
        return planner

    def _init_collect(self) -> None:
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._eval_rng = np.random.default_rng(0)  # nothing is drawn in evaluation

    def _forward_collect(
        self, obs: Mapping[int, Tree], temperature: float | None = None, **unknown: object
    ) -> EnvBatch[Columns]:
        """Searches with exploration.

        Args:
            obs: `{env_id: obs}` of K environments.
            temperature: Of the draw of actions; None: that of the config.
            **unknown: Raises UsageError; catches a misspelt `temperature`.
        """
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}; expected"
                " 'temperature'",
                hint="pass policy_kwargs={'temperature': 0.5}",
            )
        heat = self._cfg.collect.temperature if temperature is None else temperature
        return self._planned(obs, self._rng, explore=True, temperature=heat)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return self._planned(obs, self._eval_rng, explore=False, temperature=0.0)

    def _planned(
        self, obs: Mapping[int, Tree], rng: np.random.Generator, *, explore: bool,
        temperature: float,
    ) -> EnvBatch[Columns]:  # fmt: skip
        """Returns actions and what the search found, of K environments."""
        raise NotImplementedError
