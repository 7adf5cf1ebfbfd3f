"""Says what is wrong with the arguments of a mode, after a network could not compute with them.

Nothing here runs unless there was an error, so that checks cost nothing.

Shapes: K observations, B samples, A actions or dimensions; `...` one item.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, Tree
from dicore.data.tree import is_tensor
from dicore.errors import ActionError, DicoreError, SchemaError

__all__ = ["problem_of_obs", "problem_of_samples"]


def problem_of_obs(policy: Any, obs: Tree) -> DicoreError | None:
    """Returns the error of observations that a policy cannot act on; None: none was found.

    Args:
        policy: Its text begins the message, and its section describes the network.
        obs: `{env_id: obs}`, as passed to a mode.
    """
    batch = EnvBatch.of(obs)
    if not len(batch):
        return SchemaError(
            f"{type(policy).__name__}: there are no observations to act on",
            hint="pass {env_id: obs} of at least one environment",
        )
    return _misfit(policy, "observations", batch.value, hint="{env_id: obs} of the environment")


def problem_of_samples(policy: Any, data: Any) -> DicoreError | None:
    """Returns the error of samples that a policy cannot learn from; None: none was found.

    Args:
        policy: See `problem_of_obs`.
        data: A Batch or a list of samples.
    """
    if not isinstance(data, Batch | list | tuple):
        return None  # batches by the names of buffers
    try:
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
    except DicoreError as error:
        return error
    for name in ("obs", "next_obs"):
        if name in batch and (found := _misfit(policy, f"column '{name}'", batch[name])):
            return found
    return _bad_actions(policy, batch.get("action"))


def _options(policy: Any) -> Any:
    """Returns the section of the network; an empty one if there is none."""
    return policy.get_attribute("cfg").get("model") or {}


def _misfit(policy: Any, what: str, given: Any, hint: str = "") -> DicoreError | None:
    """Returns the error of arrays [K, ...] that are not what the network takes."""
    if isinstance(given, Mapping | tuple | list):
        return None
    kind = "" if is_tensor(given) else np.asarray(given).dtype.kind
    if kind in ("U", "S", "O"):
        return SchemaError(
            f"{type(policy).__name__}: {what} are not numbers: {np.asarray(given).flat[0]!r}"
        )
    wanted = _options(policy).get("obs_shape")
    found = tuple(given.shape[1:])
    shape = (wanted,) if isinstance(wanted, int) else wanted
    if not isinstance(shape, tuple | list) or not all(isinstance(each, int) for each in shape):
        return None
    steps = found[-len(shape) :] if len(found) > len(shape) else found  # of sequences
    if math.prod(steps) == math.prod(shape):
        return None
    return SchemaError(
        f"{type(policy).__name__}: {what} of shape {[*found]}; the network takes {[*shape]}"
        " (policy.model.obs_shape)",
        hint=hint or "train on data of the environment that the policy was built for",
    )


def _bad_actions(policy: Any, given: Any) -> DicoreError | None:
    """Returns the error of actions [B, ...] that the action space does not have."""
    cfg, count = policy.get_attribute("cfg"), _options(policy).get("action_shape")
    if given is None or isinstance(given, Mapping) or not isinstance(count, int):
        return None
    action = np.asarray(given.detach().cpu() if is_tensor(given) else given)
    if cfg.get("action_low") is not None:
        width = math.prod(action.shape[1:]) if action.ndim > 1 else 1
        text = f"{type(policy).__name__}: actions have {width} numbers; the network has {count}"
        return None if width % count == 0 else SchemaError(f"{text} (policy.model.action_shape)")
    first = cfg.get("action_start") or 0
    if not isinstance(first, int) or not action.size or action.dtype.kind not in "iuf":
        return None
    low, high = action.min(), action.max()
    if first <= low and high < first + count:
        return None
    return ActionError(
        f"{type(policy).__name__}: actions from {low} to {high} are not in the space, which has"
        f" {first} to {first + count - 1}",
        hint="train on data of the environment that the policy was built for",
    )
