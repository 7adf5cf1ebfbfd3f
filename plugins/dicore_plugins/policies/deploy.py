"""A policy in use: one raw observation in, one bare action out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dicore.data import EnvBatch, tree_map

_FIRST = np.zeros(1, np.int64)


def single_env_forward(eval_mode: Any) -> Callable[[Any], Any]:
    """Makes a function of one environment's observation.

    Args:
        eval_mode: An eval mode; hand-made ones do.

    Returns:
        `fn(obs) -> action`: observations (nested ones too) as the environment gives them, or as a
        list of numbers; actions as it takes them: an int for one discrete choice, else an array.
    """

    def act(obs: Any) -> Any:
        if isinstance(obs, list):
            obs = np.asarray(obs)
        value = tree_map(lambda leaf: np.asarray(leaf)[None], obs)
        output = EnvBatch.of(eval_mode.forward(EnvBatch(_FIRST, value))).value
        action = np.asarray(output["action"])[0]
        return int(action) if action.ndim == 0 and action.dtype.kind in "iu" else action

    return act
