"""The random policy: for warm-up, and as a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dicore.config.declare import frozen, option, section
from dicore.config.sections import CollectConfig, PolicyConfig
from dicore.data import Batch, EnvBatch
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore_plugins.env_managers.actions import draw_actions
from dicore_plugins.functional.samples import flatten_time
from dicore_plugins.policies.base import Policy, mode_attribute


@frozen(kw_only=True)
class RandomCollectConfig(CollectConfig):
    """How the random policy collects."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)


@frozen(kw_only=True)
class RandomConfig(PolicyConfig):
    """Uniformly random actions: the warm-up before training, and the floor to compare with."""

    learns: ClassVar[bool] = False

    on_policy: bool = option(False, "learn only from data of the present policy")
    collect: RandomCollectConfig = section(RandomCollectConfig)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the policy for the action space of `ctx`."""
        return RandomPolicy(self, action_space=ctx.action_space, **parts)


class RandomPolicy(Policy):
    """Draws every action uniformly from the action space.

    Args:
        cfg: Options; all may be left out.
        action_space: Of one environment (gymnasium).
        like: The collect mode whose samples are wanted: transitions are processed by it, so that
            warm-up data has the very columns that training expects. None keeps single steps.
        rng: Where the actions come from; None takes the stream `policy/random`.

    Raises:
        UsageError: no action space is given.
    """

    config_class = RandomConfig

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, Any] | None = None,
        *,
        action_space: Any = None,
        like: Any | None = None,
        rng: np.random.Generator | None = None,
        enable_field: Sequence[str] = ("collect", "eval"),
    ) -> None:
        if action_space is None:
            raise UsageError("RandomPolicy needs the action_space of an environment")
        self._action_space = action_space
        self._like = like
        self._rng = stream("policy/random") if rng is None else rng
        super().__init__(cfg, None, enable_field)

    def _init_collect(self) -> None:
        """Nothing to build: the space is all it knows."""

    def _init_eval(self) -> None:
        """Nothing to build: the space is all it knows."""

    def _forward_collect(self, obs: Mapping[int, Any], **kwargs: Any) -> EnvBatch[Any]:
        batch = EnvBatch.of(obs)
        return batch.with_value({"action": draw(self._action_space, len(batch), self._rng)})

    def _forward_eval(self, obs: Mapping[int, Any]) -> EnvBatch[Any]:
        return self._forward_collect(obs)

    def _process_transition(self, obs: Any, output: dict[str, Any], timestep: Any) -> Any:
        if self._like is not None:
            return self._like.process_transition(obs, output, timestep)
        return super()._process_transition(obs, output, timestep)

    def _get_train_sample(self, trajectory: Batch) -> Batch:
        if self._like is not None:
            return self._like.get_train_sample(trajectory)
        return flatten_time(trajectory)

    def _get_nstep(self) -> int:
        return 1 if self._like is None else int(mode_attribute(self._like, "nstep", 1))

    def _state_dict_model(self) -> dict[str, Any]:
        return {}

    def _load_state_dict_model(self, state: Mapping[str, Any]) -> None:
        """There is no model to load."""


def draw(space: Any, count: int, rng: np.random.Generator) -> Any:
    """Draws `count` legal actions, as `draw_actions` does; those to be counted are int64.

    Raises:
        UsageError: the space is not made of numbers.
    """
    name = type(space).__name__
    if name not in ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple"):
        raise UsageError(f"random actions of {space} are not known", hint="write a policy for it")
    drawn = draw_actions(space, count, rng)
    return drawn.astype(np.int64) if name.startswith("Multi") else drawn
