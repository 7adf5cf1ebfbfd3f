"""Checks of a network that is passed in: its outputs for two observations.

Shapes: A actions or dimensions.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from dicore_plugins.policies.acting import as_outputs
from dicore_plugins.policies.outputs import output_shapes, zeros_for


def output_problem(
    model: nn.Module, options: Any, *, continuous: bool, value: bool = True
) -> str | None:
    """Returns how the outputs of a network differ from what actor-critic policies need, or None.

    Args:
        model: The network.
        options: Section of the configured network, whose shapes are those of the environment.
        continuous: The actions are continuous.
        value: The policy needs `value`.
    """
    obs = zeros_for(options, 2)
    outputs = None if obs is None else output_shapes(model, obs)
    if outputs is None:
        return None
    found = as_outputs(outputs)
    actions, args = options.get("action_shape"), options.get("args_shape")
    if args and isinstance(actions, int):
        wanted: dict[str, Any] = {"logit": [2, actions], "mean": [2, args], "log_std": [2, args]}
    elif continuous:
        wanted = {"mean": [2, actions], "log_std": [2, actions]}
    elif isinstance(actions, int):
        wanted = {"logit": [2, actions]}
    else:
        wanted = {"logit": [[2, count] for count in actions]}
    if value:
        wanted["value"] = [2]
    if all(found.get(name) == each for name, each in wanted.items()):
        return None
    lines = [", ".join(f"{name} {each}" for name, each in one.items()) for one in (found, wanted)]
    return f"{type(model).__name__} returns {lines[0]} for two observations; expected {lines[1]}"
