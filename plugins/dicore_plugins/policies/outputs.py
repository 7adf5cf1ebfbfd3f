"""Checks of networks from outside: the shapes of what their methods return for a few zeros.

A network need not accept float32 zeros; if it is broken, acting raises its own error. Shapes of
nested observations are not known here.

Shapes: B rows, A actions or dimensions, P arguments of hybrid actions, E critics, N quantiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from dicore.data import State, Tree
from dicore.run.random import torch_stream

if TYPE_CHECKING:
    from dicore.config.schema import Section


__all__ = ["method_problem", "output_shapes", "zeros_for"]

Signature = tuple[str, "str | Mapping[str, str]"]
"""What a method takes and returns, see `method_problem`."""
ROWS = 3
"""Observations in a check; few networks have as many critics or actions by chance."""


def zeros_for(options: State | Section, rows: int) -> torch.Tensor | None:
    """Returns observations float32 [rows, ...] of zeros; None if their shape is not known.

    Args:
        options: Section of the configured network, whose shapes are those of the environment.
        rows: How many.
    """
    shape = options.get("obs_shape")
    if not shape or not options.get("action_shape") or options.get("obs_parts"):
        return None
    return torch.zeros(rows, *((shape,) if isinstance(shape, int) else tuple(shape)))


def output_shapes(model: nn.Module, *inputs: Tree, method: str = "forward") -> Tree:
    """Returns the shapes of a method's outputs, a tree of lists; None if the method fails."""
    training = model.training
    call = model if method == "forward" else getattr(model, method)
    try:
        with torch.no_grad(), torch_stream("model/check"):
            model.eval()
            return _shapes(call(*inputs))
    except Exception:
        return None
    finally:
        model.train(training)


def _shapes(output: Tree) -> Tree:
    if isinstance(output, Mapping):
        return {key: _shapes(each) for key, each in output.items()}
    if isinstance(output, list | tuple):
        return [_shapes(each) for each in output]
    return list(getattr(output, "shape", ()))


def method_problem(
    model: nn.Module, wanted: Mapping[str, Signature], options: State | Section
) -> str | None:
    """Returns how the outputs of a network's methods differ from those that are needed, or None.

    Args:
        model: The network.
        wanted: By method: the letter of the width of the actions that it takes ("": none), and the
            shape that it returns, one letter per axis, or such shapes by name:
            `{"policy": ("", {"mean": "BA"}), "q": ("A", "EB")}`. E and N may be any number.
        options: Section of the configured network.
    """
    obs = zeros_for(options, ROWS)
    if obs is None:
        return None
    sizes = {"B": ROWS, "A": options.get("action_shape"), "P": options.get("args_shape")}
    for method, (taken, shapes) in wanted.items():
        actions = [torch.zeros(ROWS, sizes[letter] or 0) for letter in taken]
        found = output_shapes(model, obs, *actions, method=method)
        if found is not None and (problem := _difference(found, shapes, sizes)):
            return f"{type(model).__name__}.{method} returns {problem} for {ROWS} observations"
    return None


def _difference(found: Tree, wanted: Tree, sizes: Mapping[str, int | None]) -> str | None:
    """Returns the shapes that were found and those that are needed, or None if they agree."""
    if isinstance(wanted, str):
        need = [sizes.get(letter) or letter for letter in wanted]
        fits = isinstance(found, list) and len(found) == len(need)
        if fits and all(a == b or isinstance(b, str) for a, b in zip(found, need, strict=True)):
            return None
        return f"{_text(found)} instead of {_text(need)}"
    if not isinstance(found, Mapping):
        return f"{_text(found)} instead of a dict with {', '.join(wanted)}"
    for name, shape in wanted.items():
        if name not in found:
            return f"{', '.join(found)} without {name}"
        if problem := _difference(found[name], shape, sizes):
            return f"{name} {problem}"
    return None


def _text(shape: Iterable[object]) -> str:
    return f"[{', '.join(map(str, shape))}]"
