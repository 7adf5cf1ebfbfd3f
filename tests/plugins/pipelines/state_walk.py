"""Walks everything that a live object leads to and notes every value that could be state."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

_OURS = ("dicore", "dicore_plugins", "dicore_contrib_envs", "gymnasium", "tests")
_PLAIN = (bool, int, float, str, bytes, type(None))


def values(root: Any) -> dict[str, Any]:
    """Returns every plain value, array, tensor and random state below `root`, by its path.

    Objects of our own classes, containers, closures and the frames of generators are walked into;
    each object once, by the shortest way.
    """
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}
    todo: deque[tuple[str, Any]] = deque([("", root)])
    while todo:
        path, thing = todo.popleft()
        known, value = _value(thing)
        if known:
            found[path] = value
        elif id(thing) not in seen:
            seen[id(thing)] = thing  # kept alive, so that no number is given twice
            todo.extend((f"{path}{step}", each) for step, each in _members(thing))
    return found


def _value(thing: Any) -> tuple[bool, Any]:
    """Returns whether it is a value, and a copy of it."""
    if isinstance(thing, _PLAIN):
        return True, thing
    if isinstance(thing, np.ndarray | np.generic) and thing.dtype != object:
        return True, np.array(thing)
    if isinstance(thing, torch.Tensor):
        return True, thing.detach().numpy().copy()
    if isinstance(thing, np.random.Generator):
        return True, repr(thing.bit_generator.state)
    return False, None


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in list(thing.items()))
    elif isinstance(thing, list | tuple | deque | np.ndarray):
        yield from ((f"[{number}]", each) for number, each in enumerate(thing))
    elif isinstance(thing, set | frozenset):
        yield "{}", repr(sorted(map(repr, thing)))
    elif isinstance(thing, types.MethodType):
        yield ".__self__", thing.__self__
    elif isinstance(thing, types.FunctionType):
        names = thing.__code__.co_freevars
        for name, cell in zip(names, thing.__closure__ or (), strict=True):
            yield f"<{name}>", cell.cell_contents
    elif isinstance(thing, torch.optim.Optimizer):
        yield ".state", thing.state_dict()["state"]
    elif isinstance(thing, torch.nn.Module) or type(thing).__module__.startswith(_OURS):
        yield from _attributes(thing)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    slots = {name for cls in type(thing).__mro__ for name in _slots(cls)}
    for name in sorted({*getattr(thing, "__dict__", ()), *slots}):
        if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
            yield f".{name}", getattr(thing, name)


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
