"""Environments of an evaluation go on with what those of the training remember beyond an episode.

Wrappers and environments with `state_dict` and `load_state_dict` remember: the statistics of a
normaliser, the level of a curriculum. A policy acts as in training only where they have that state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from dicore.interfaces.env_manager import IEnvManager

__all__ = ["EnvStates", "Role", "fit", "go_on", "go_on_alone", "stateful", "states_of"]

Role = Literal["collector", "evaluator"]
EnvStates = Mapping[Role, Sequence[Sequence[Any]]]
"""By role, for each environment the states of what remembers; a role may be missing."""
_MEASURE: Final = frozenset({"obs_norm", "reward_norm"})
"""Wrappers whose statistics a policy depends on."""

_MEASURED: Final = {"NormalizeObservation": "obs_rms", "NormalizeReward": "return_rms"}
"""Wrappers of Gymnasium that measure, and where."""

_OTHERS: Final = (
    "the environments are others than in training: what their wrappers measured begins anew"
)

_log = logging.getLogger(__name__)


def states_of(checkpoint: Mapping[str, Any]) -> EnvStates:
    """Returns the states of the environments that a checkpoint stores."""
    found: dict[Role, Any] = {
        "collector": checkpoint.get("collector_env"),
        "evaluator": (checkpoint.get("evaluator") or {}).get("env"),
    }
    layers = {role: (state or {}).get("layers") for role, state in found.items()}
    return {role: each for role, each in layers.items() if each and any(each)}


def go_on(manager: IEnvManager, env: Any, stored: EnvStates, role: Role = "evaluator") -> None:
    """Gives environments the states of those of the training, environment by environment.

    If there are more environments than states, the states are used again from the first. If the
    environments are others than in training, they begin with new states, with a warning.

    Args:
        manager: The env manager, not launched yet.
        env: The `env` section.
        stored: The states; those of the other role are used if this one has none.
        role: The role.
    """
    layers = stored.get(role) or next(iter(stored.values()), None)
    if layers is None or not hasattr(manager, "load_state_dict"):
        measured = sorted(_MEASURE & {each.type for each in env.env_wrapper})
        if measured:
            _log.warning(
                "the checkpoint does not have the statistics of %s, which begin anew, so the policy"
                " sees other observations than in training; policy.model.obs_norm keeps them with"
                " the weights",
                ", ".join(measured),
            )
        return
    before = manager.state_dict()
    manager.launch()
    fresh = manager.state_dict().get("layers") or ()
    manager.close()
    given = [layers[env_id % len(layers)] for env_id in range(manager.env_num)]
    if len(fresh) != len(given) or not all(map(fit, fresh, given)):
        _log.warning(_OTHERS)
        given = []
    manager.load_state_dict({**before, "layers": given, "running": None})


def go_on_alone(env: Any, stored: EnvStates, role: Role = "evaluator") -> None:
    """Gives one environment, with its wrappers, what the first one of a role remembers.

    One that is made otherwise than in training begins with new states, as in `go_on`.
    """
    states = (stored.get(role) or next(iter(stored.values()), None) or [()])[0]
    layers = [*stateful(env)]
    if fit([each.state_dict() for each in layers], states):
        for each, state in zip(layers, states, strict=True):
            each.load_state_dict(state)
    elif states:
        _log.warning(_OTHERS)


def stateful(env: Any) -> Iterator[Any]:
    """Yields the layers with a state, as the managers of dicore-plugins find them."""
    layer = env
    while layer is not None:
        kind = type(layer)
        if {"state_dict", "load_state_dict"} <= {*dir(kind)}:
            yield layer
        elif kind.__module__.startswith("gymnasium.wrappers.") and kind.__name__ in _MEASURED:
            yield _Measured(layer, _MEASURED[kind.__name__])
        layer = getattr(layer, "__dict__", {}).get("env")


class _Measured:
    """A normaliser of Gymnasium as a layer with state."""

    def __init__(self, layer: Any, name: str) -> None:
        self._parts = [vars(getattr(layer, name)), vars(layer)]

    def state_dict(self) -> dict[str, Any]:
        names = ("mean", "var", "count", "discounted_reward")
        return {name: each[name] for each in self._parts for name in names if name in each}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for each in self._parts:
            each.update((name, value) for name, value in state.items() if name in each)


def fit(fresh: Sequence[object], states: Sequence[object]) -> bool:
    """Returns whether states are those of the same wrappers, as far as their form tells."""
    return len(fresh) == len(states) and all(map(_same_form, fresh, states))


def _same_form(one: Any, other: Any) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return type(one) is type(other)
    shapes = [np.shape(each.get("mean", ())) for each in (one, other)]
    return set(one) == set(other) and shapes[0] == shapes[1]
