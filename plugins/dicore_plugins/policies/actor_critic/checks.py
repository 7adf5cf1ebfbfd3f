"""Checks of a network that is passed in: its outputs for two observations.

Shapes: A actions or dimensions.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def output_problem(model: nn.Module, options: Any, *, continuous: bool) -> str | None:
    """Returns how the outputs of a network differ from what actor-critic policies need, or None.

    A network need not accept float32 zeros; if it is broken, acting raises its own error.

    Args:
        model: The network.
        options: Section of the configured network, whose shapes are those of the environment.
        continuous: The actions are continuous.
    """
    from dicore_plugins.policies.dqn.policy import output_shapes

    shape, actions = options.get("obs_shape"), options.get("action_shape")
    if not shape or not actions or options.get("obs_parts"):
        return None
    found = output_shapes(model, (shape,) if isinstance(shape, int) else tuple(shape))
    if found is None:
        return None
    args = options.get("args_shape")
    if args and isinstance(actions, int):
        wanted: dict[str, Any] = {"logit": [2, actions], "mean": [2, args], "log_std": [2, args]}
    elif continuous:
        wanted = {"mean": [2, actions], "log_std": [2, actions]}
    elif isinstance(actions, int):
        wanted = {"logit": [2, actions]}
    else:
        wanted = {"logit": [[2, count] for count in actions]}
    wanted["value"] = [2]
    if all(found.get(name) == each for name, each in wanted.items()):
        return None
    lines = [", ".join(f"{name} {each}" for name, each in one.items()) for one in (found, wanted)]
    return f"{type(model).__name__} returns {lines[0]} for two observations; expected {lines[1]}"
