"""Choosing actions from a model's output: greedily, in proportion, or greedily with exploration.

The output's `logit` is [K, A], or one such per head; each layer adds `action`: int64 [K], or [K, H]
for several heads. Arrays give arrays and tensors give tensors on their device. Where the output, or
else the observation, has an `action_mask` (true or nonzero: allowed; one per head if there are
several), no other action is ever chosen; the model's output is left as it is.

Shapes: K observations, A actions, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore_plugins.functional.exploration import (
    Array,
    allowed,
    eps_greedy,
    greedy,
    proportional,
    softmax,
    uniform,
)
from dicore_plugins.model_wrappers.base import BaseWrapper

if TYPE_CHECKING:
    import torch

    from dicore.interfaces.model import IModel, IModelWrapper


class ArgmaxSample(BaseWrapper):
    """Adds the greedy `action`: the largest logit, of equal ones the first."""

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Runs the model and chooses."""
        output = self._model(*args, **kwargs)
        return _with_action(output, output["logit"], args, greedy)


class MultinomialSample(BaseWrapper):
    """Adds an `action` drawn from softmax(alpha * logit), or from the output's own `prob`.

    Args:
        model: What gives the logits.
        alpha: Sharpness; 0 draws uniformly, large values approach the greedy choice.
        rng: Numpy or torch generator; None takes the stream `model_wrapper/multinomial_sample`.
    """

    def __init__(
        self,
        model: IModel | IModelWrapper,
        alpha: float = 1.0,
        rng: np.random.Generator | torch.Generator | None = None,
    ) -> None:
        super().__init__(model)
        self._alpha = alpha
        self._rng = stream("model_wrapper/multinomial_sample") if rng is None else rng

    def forward(self, *args: Any, alpha: float | None = None, **kwargs: Any) -> dict[str, Any]:
        """Runs the model and draws; `alpha` replaces the wrapper's own for this call."""
        output = self._model(*args, **kwargs)
        sharpness = self._alpha if alpha is None else alpha
        given = output.get("prob")

        def choose(values: Array, mask: Array | None) -> Array:
            if given is None:
                weight = softmax(values, sharpness, mask)
            else:
                weight = values if mask is None else values * mask
            return proportional(weight, uniform(self._rng, values.shape[:-1], values))

        return _with_action(output, output["logit"] if given is None else given, args, choose)


class EpsGreedySample(BaseWrapper):
    """Adds an `action` that is random with chance eps, else greedy.

    Each observation, and each head, has a coin of its own.

    Args:
        model: What gives the logits.
        eps: Chance of a random action where `forward` is given none.
        rng: Numpy or torch generator; None takes the stream `model_wrapper/eps_greedy_sample`.
    """

    def __init__(
        self,
        model: IModel | IModelWrapper,
        eps: float = 0.1,
        rng: np.random.Generator | torch.Generator | None = None,
    ) -> None:
        super().__init__(model)
        self._eps = eps
        self._rng = stream("model_wrapper/eps_greedy_sample") if rng is None else rng

    def forward(
        self,
        *args: Any,
        eps: float | Sequence[float] | Mapping[int, float] | None = None,
        env_id: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Runs the model and chooses.

        Args:
            *args: Of the model.
            eps: One chance for all, or one per observation [K], or a dict by environment id.
            env_id: The environment of each observation, for a dict; None: they are numbered.
            **kwargs: Of the model.

        Raises:
            UsageError: an eps is missing, or is not a probability.
        """
        output = self._model(*args, **kwargs)
        given = self._eps if eps is None else eps

        def choose(logit: Array, mask: Array | None) -> Array:
            noise = uniform(self._rng, (2, len(logit)), logit)
            return eps_greedy(logit, _chances(given, env_id, logit), noise[0], noise[1], mask)

        return _with_action(output, output["logit"], args, choose)


def _with_action(
    output: Mapping[str, Any],
    values: Any,
    args: tuple[Any, ...],
    choose: Callable[[Array, Array | None], Array],
) -> dict[str, Any]:
    """Returns the output and, beside it, the action chosen, or those of all heads: [K, H].

    Raises:
        UsageError: there are more or fewer masks than heads.
    """
    mask = output.get("action_mask")
    if mask is None and args and isinstance(args[0], Mapping):
        mask = args[0].get("action_mask")
    if not isinstance(values, list | tuple):
        action = choose(values, None if mask is None else allowed(mask, values))
        return {**output, "action": action}
    masks = [None] * len(values) if mask is None else mask
    if not isinstance(masks, list | tuple) or len(masks) != len(values):
        raise UsageError(f"{len(values)} heads need a list of as many action masks")
    actions = [
        choose(head, None if each is None else allowed(each, head))
        for head, each in zip(values, masks, strict=True)
    ]
    return {**output, "action": _side_by_side(actions)}


def _side_by_side(actions: list[Array]) -> Array:
    if not is_tensor(actions[0]):
        return np.stack(actions, -1)
    torch = loaded_torch()
    assert torch is not None
    return torch.stack(actions, -1)


def _chances(eps: Any, env_id: Sequence[int] | None, logit: Array) -> Any:
    """Returns eps as a number, or as one per observation [K] in the library of `logit`."""
    if isinstance(eps, float | int):
        if not 0 <= eps <= 1:
            raise UsageError(f"eps must lie in [0, 1], got {eps!r}")
        return eps
    if isinstance(eps, Mapping):
        ids = range(len(logit)) if env_id is None else [int(each) for each in env_id]
        missing = [each for each in ids if each not in eps]
        if missing:
            raise UsageError(f"eps has no entry for environments {missing}, only {sorted(eps)}")
        eps = [eps[each] for each in ids]
    values = np.asarray(eps, np.float64)
    if values.shape not in ((), (len(logit),)) or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"eps must be {len(logit)} numbers in [0, 1], got {eps!r}")
    if not is_tensor(logit):
        return values
    torch = loaded_torch()
    assert torch is not None
    return torch.from_numpy(values).to(logit.device)
