"""Selecting several distinct items from one vector of logits.

Shapes: K observations, A items.
"""

from __future__ import annotations

import numpy as np
import torch

from dicore.data import Columns, Tree
from dicore.data.tree import is_tensor
from dicore.errors import ActionError, UsageError
from dicore.interfaces.model import IModel, IModelWrapper
from dicore.run.random import stream
from dicore_plugins.functional.exploration import Array, greedy, proportional, softmax, uniform
from dicore_plugins.model_wrappers.base import BaseWrapper, stack_last, with_action


class CombinationArgmaxSample(BaseWrapper):
    """Selects the items with the largest logits, the largest first.

    Adds `action`: int64 [K, shot_number], arrays or tensors like `logit` [K, A]. Only items that an
    `action_mask` allows are selected; see `ArgmaxSample`.

    Args:
        model: Model that returns the logits.
        shot_number: Number of items to select.

    Raises:
        UsageError: `shot_number` is below 1.
    """

    def __init__(self, model: IModel | IModelWrapper, shot_number: int = 1) -> None:
        super().__init__(model)
        if shot_number < 1:
            raise UsageError(f"shot_number must be >= 1, got {shot_number!r}")
        self._shots = shot_number

    def forward(self, *args: Tree, shot_number: int | None = None, **kwargs: object) -> Columns:
        """Runs the model and selects items; `shot_number` overrides the option for this call.

        Raises:
            ActionError: there are fewer items, or allowed items, than are to be selected.
        """
        output = self._model(*args, **kwargs)
        shots = self._shots if shot_number is None else shot_number

        def select(logit: Array, mask: Array | None) -> Array:
            free = _free_items(logit, mask, shots)
            chosen = []
            for _ in range(shots):
                item = self._choose(logit, free)
                _take_out(free, item)
                chosen.append(item)
            return stack_last(chosen)

        return with_action(output, output["logit"], args, select)

    def _choose(self, logit: Array, free: Array) -> Array:
        """Selects one of the free items: int64 [K]."""
        return greedy(logit, free)


class CombinationMultinomialSample(CombinationArgmaxSample):
    """Samples items from softmax(logit) one after the other, without replacement.

    Args:
        model: Model that returns the logits.
        shot_number: Number of items to select.
        rng: NumPy or torch generator; None: the stream
            `model_wrapper/combination_multinomial_sample`.

    Raises:
        UsageError: `shot_number` is below 1.
    """

    def __init__(
        self,
        model: IModel | IModelWrapper,
        shot_number: int = 1,
        rng: np.random.Generator | torch.Generator | None = None,
    ) -> None:
        super().__init__(model, shot_number)
        name = "model_wrapper/combination_multinomial_sample"
        self._rng = stream(name) if rng is None else rng

    def _choose(self, logit: Array, free: Array) -> Array:
        return proportional(softmax(logit, 1.0, free), uniform(self._rng, logit.shape[:-1], logit))


def _free_items(logit: Array, mask: Array | None, shots: int) -> Array:
    """Returns the items that may be selected, bool [K, A] in new memory."""
    if is_tensor(logit):
        free = logit.new_ones(logit.shape, dtype=bool) if mask is None else mask.clone()
    else:
        free = np.ones(logit.shape, np.bool_) if mask is None else mask.copy()
    fewest = int(free.sum(-1).min()) if len(logit) else shots
    if fewest < shots:
        raise ActionError(f"cannot select {shots} distinct items: an observation has {fewest}")
    return free


def _take_out(free: Array, item: Array) -> None:
    if is_tensor(free):
        free.scatter_(-1, item[..., None], False)
    else:
        np.put_along_axis(free, item[..., None], False, -1)
