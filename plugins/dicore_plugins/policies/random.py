"""The random policy: for warm-up, and as a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail, facts_of
from dicore.run.random import stream
from dicore_plugins.env_managers.actions import draw_actions
from dicore_plugins.functional.exploration import allowed, greedy, masks_of
from dicore_plugins.policies.base import Policy
from dicore_plugins.policies.random_config import FixedConfig, RandomConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


_DISCRETE = ("Discrete", "MultiDiscrete")


class FixedPolicy(Policy):
    """Base class of policies that act and never learn, such as one that is written by hand.

    A subclass implements `_forward_collect` and `_forward_eval`.

    Args:
        cfg: Options; None: all defaults.
        like: Collect mode that processes the transitions, so that the samples have the columns that
            training expects. None: single steps.
        enable_field: Modes to build; None: all.
    """

    config_class: ClassVar[type[PolicyConfig]] = FixedConfig
    _cfg: FixedConfig
    fields = ("collect", "eval")

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, object] | None = None,
        *,
        like: Any | None = None,
        enable_field: Sequence[str] | None = None,
    ) -> None:
        self._like = like
        super().__init__(cfg, None, enable_field)

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        if self._like is not None:
            columns: Columns = self._like.process_transition(obs, output, timestep)
            return columns
        return super()._process_transition(obs, output, timestep)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        if self._like is not None:
            samples: Batch = self._like.get_train_sample(block, tail)
            return samples
        return super()._get_train_sample(block, tail)

    def _get_sample_len(self) -> int | Literal["episode"]:
        return super()._get_sample_len() if self._like is None else facts_of(self._like).sample_len

    def _get_sample_stride(self) -> int:
        own = super()._get_sample_stride()
        return own if self._like is None else facts_of(self._like).sample_stride

    def _state_dict_model(self) -> StateDict:
        return {}

    def _load_state_dict_model(self, state: State) -> None:
        """Loads nothing; nothing changes."""


class RandomPolicy(FixedPolicy):
    """Samples every action uniformly from the action space.

    If observations have an `action_mask` (nonzero: allowed), only allowed actions are sampled; see
    `masks_in`.

    Args:
        cfg: Options; None: all defaults.
        action_space: Gymnasium action space of one environment.
        like: See `FixedPolicy`.
        rng: Random generator of the actions; None: the stream `policy/random`.
        enable_field: Modes to build; None: all.

    Raises:
        UsageError: `action_space` is None.
    """

    config_class = RandomConfig

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, object] | None = None,
        *,
        action_space: Space | None = None,
        like: Any | None = None,
        rng: np.random.Generator | None = None,
        enable_field: Sequence[str] | None = None,
    ) -> None:
        if action_space is None:
            raise UsageError(
                "RandomPolicy needs an action space", hint="pass action_space=env.action_space"
            )
        self._action_space = action_space
        self._rng = stream("policy/random") if rng is None else rng
        super().__init__(cfg, like=like, enable_field=enable_field)

    def _forward_collect(self, obs: Mapping[int, Tree], **kwargs: object) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        masks = masks_in(self._action_space, batch.value)
        action = draw_masked(self._action_space, masks, len(batch), self._rng)
        return batch.with_value({"action": action})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return self._forward_collect(obs)


def masks_in(space: Any, obs: Tree) -> Any:
    """Returns the masks in observations that belong to an action space; None: there are none.

    If the actions of several agents are a dict, the observations are one with the same names, or
    have such a dict under `obs`, and an agent's mask is in its part. A mask beside the parts of a
    dict is that of its only discrete part, or a dict of masks by part.

    Args:
        space: Action space.
        obs: Observations [K, ...].

    Returns:
        `action_mask`, or a dict of the masks of the parts of a dict.
    """
    if not isinstance(obs, Mapping):
        return None
    mask = obs.get("action_mask")
    if type(space).__name__ != "Dict":
        return mask
    if isinstance(mask, Mapping):
        return dict(mask)
    if mask is not None:
        discrete = [key for key, part in space.items() if type(part).__name__ in _DISCRETE]
        return {discrete[0]: mask} if len(discrete) == 1 else mask
    named = obs if not space.spaces.keys().isdisjoint(obs) else obs.get("obs")
    if not isinstance(named, Mapping):
        return None
    found = {key: masks_in(part, named.get(key)) for key, part in space.items()}
    return found if any(each is not None for each in found.values()) else None


def draw_masked(space: Any, masks: Tree, count: int, rng: np.random.Generator) -> Any:
    """Samples `count` actions, of those that masks (`masks_in`) allow; None: of all."""
    if masks is None:
        return draw(space, count, rng)
    if type(space).__name__ == "Dict" and masks.__class__ is dict:
        parts = space.items()
        return {key: draw_masked(part, masks.get(key), count, rng) for key, part in parts}
    return draw_allowed(space, masks, rng)


def draw(space: Space, count: int, rng: np.random.Generator) -> Tree:
    """Samples `count` actions by `draw_actions`; MultiDiscrete and MultiBinary become int64.

    Raises:
        UsageError: the space is not supported.
    """
    name = type(space).__name__
    if name not in ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Dict", "Tuple"):
        raise UsageError(
            f"RandomPolicy does not support the action space {space}",
            hint="write a policy for this space",
        )
    drawn = draw_actions(space, count, rng)
    return drawn.astype(np.int64) if name.startswith("Multi") else drawn


def draw_allowed(space: Any, mask: Tree, rng: np.random.Generator) -> Any:
    """Samples allowed actions uniformly.

    Args:
        space: Discrete, or MultiDiscrete with one axis.
        mask: [K, A], nonzero: allowed; for MultiDiscrete a list of masks, one per head,
            or [K, H, A].
        rng: Random generator.

    Returns:
        int64 [K], or [K, H] for MultiDiscrete.

    Raises:
        ActionError: a row allows no action.
        SchemaError: the mask's shape does not fit the space.
        UsageError: the space is not supported, or the number of masks is wrong.
    """
    name = type(space).__name__
    counts = np.atleast_1d(space.n if name == "Discrete" else getattr(space, "nvec", 0))
    if name not in _DISCRETE or counts.ndim > 1:
        raise UsageError(
            f"RandomPolicy supports action_mask for Discrete and MultiDiscrete, not for {space}",
            hint="rename the key action_mask in the observation if it is not a mask",
        )
    masks = [mask] if name == "Discrete" else masks_of(mask, len(counts))
    heads = []
    for head, count in zip(masks, counts, strict=True):
        noise = rng.random((len(head), int(count)))
        heads.append(greedy(noise, allowed(head, noise)))
    return (heads[0] if name == "Discrete" else np.stack(heads, -1)) + space.start
