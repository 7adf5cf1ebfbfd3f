"""A wrapper that saves the state of an environment within an episode."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from dicore.data import Info, State, StateDict, Tree
from dicore.data.tree import Array
from dicore.errors import EnvError

__all__ = ["SaveState"]

_CONSTANT = ("env", "metadata", "_metadata", "_ezpickle_args", "_ezpickle_kwargs", "_saved_kwargs")
_DRAWING = ("pygame", "gymnasium.envs.mujoco", "gymnasium.envs.classic_control")
"""Modules of the objects that draw pictures."""
_PLAIN = bool | int | float | str | None


class SaveState(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Saves and restores the environment, with its random generators and the wrappers inside.

    The state are the attributes that hold numbers, texts and arrays, or lists and dicts of these;
    the random generators; and all arrays of a MuJoCo simulation. The next step after `set_state` is
    that after `get_state`. Place it outside of all wrappers that change within an episode.

    Args:
        env: Of classic control, MuJoCo, or any other whose attributes are such values.

    Raises:
        EnvError: when it is reset; it has another attribute.
    """

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        found = self.env.reset(seed=seed, options=options)
        for layer in self._layers():
            for name, value in _attributes(layer):
                if not (_is_plain(value) or _is_simulation(value) or _is_generator(value)):
                    raise EnvError(
                        f"save_state cannot save '{name}' ({type(value).__name__}) of"
                        f" {type(layer).__name__}",
                        hint="leave save_state out: episodes are replayed by their actions",
                    )
        return found

    def get_state(self) -> StateDict:
        """Returns a copy of the state: nested dicts and lists of plain values and arrays."""
        return {"layers": [_state_of(layer) for layer in self._layers()]}

    def set_state(self, state: State) -> None:
        """Restores what `get_state` returned, in this environment or one made alike.

        Raises:
            EnvError: the state is that of other wrappers.
        """
        layers = list(self._layers())
        if len(layers) != len(state["layers"]):
            raise EnvError(
                f"the state is that of {len(state['layers'])} layers, this env has {len(layers)}"
            )
        for layer, each in zip(layers, state["layers"], strict=True):
            _restore(layer, each)

    def _layers(self) -> Iterator[Any]:
        """Yields the wrappers inside, and the environment itself."""
        layer: object = self.env
        while isinstance(layer, gymnasium.Wrapper):
            yield layer
            layer = layer.env
        yield layer


def _attributes(layer: object) -> Iterator[tuple[str, Any]]:
    """Yields the attributes that an episode can change, by name."""
    for name, value in vars(layer).items():
        fixed = isinstance(value, gymnasium.Space | EnvSpec | type) or callable(value)
        drawn = type(value).__module__.startswith(_DRAWING)
        if name not in _CONSTANT and not fixed and not drawn and type(value).__name__ != "MjModel":
            yield name, value


def _state_of(layer: object) -> StateDict:
    values: StateDict = {}
    generators: StateDict = {}
    simulations: StateDict = {}
    for name, value in _attributes(layer):
        if _is_generator(value):
            generators[name] = copy.deepcopy(value.bit_generator.state)
        elif _is_simulation(value):
            simulations[name] = {"time": value.time, "arrays": _arrays(value)}
        else:
            values[name] = copy.deepcopy(value)
    return {"values": values, "generators": generators, "simulations": simulations}


def _restore(layer: object, state: State) -> None:
    for name, value in state["values"].items():
        old = getattr(layer, name, None)
        listed = isinstance(old, tuple) and isinstance(value, list)  # by a checkpoint
        setattr(layer, name, tuple(value) if listed else copy.deepcopy(value))
    for name, value in state["generators"].items():
        if getattr(layer, name, None) is None:
            setattr(layer, name, np.random.default_rng(0))
        getattr(layer, name).bit_generator.state = value
    for name, saved in state["simulations"].items():
        data = getattr(layer, name)
        data.time = saved["time"]
        for key, array in saved["arrays"].items():
            target = getattr(data, key)
            if target.shape == array.shape:  # others are those of contacts, which a step computes
                target[...] = array


def _arrays(data: object) -> dict[str, Array]:
    """Returns copies of all arrays of a MuJoCo simulation."""
    found = {name: getattr(data, name) for name in dir(data) if not name.startswith("_")}
    return {name: each.copy() for name, each in found.items() if isinstance(each, np.ndarray)}


def _is_generator(value: object) -> bool:
    return isinstance(value, np.random.Generator)


def _is_simulation(value: object) -> bool:
    return type(value).__name__ == "MjData"


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufUS"
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)
