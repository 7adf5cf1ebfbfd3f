"""Selecting actions from the logits of a model: greedy, multinomial or epsilon-greedy.

The `logit` of the output is [K, A], or a list with one per head; each wrapper adds `action`: int64
[K], or [K, H] for several heads. Arrays result in arrays, tensors in tensors on their device. If
the output, or else the observation, has an `action_mask` (nonzero: allowed; with several heads a
list or [K, H, A]), only allowed actions are selected. The output of the model is not changed.

Shapes: K observations, A actions, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicore.data import Columns, Tree
from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore_plugins.functional.exploration import (
    Array,
    allowed,
    any_of,
    eps_greedy,
    greedy,
    masks_of,
    proportional,
    softmax,
    uniform,
)
from dicore_plugins.model_wrappers.base import BaseWrapper, env_ids_for

if TYPE_CHECKING:
    import torch

    from dicore.interfaces.model import IModel, IModelWrapper


Eps = float | Sequence[float] | Mapping[int, float]
"""Probabilities of a random action: one, one per observation [K], or by environment id."""


class ArgmaxSample(BaseWrapper):
    """Selects the greedy action: the index of the largest logit, the first if several are equal."""

    def forward(self, *args: object, **kwargs: object) -> Columns:
        """Runs the model and selects actions."""
        output = self._model(*args, **kwargs)
        return with_action(output, output["logit"], args, greedy)


class MultinomialSample(BaseWrapper):
    """Samples actions from softmax(alpha * logit), or from `prob` if the output has it.

    Args:
        model: Model that returns the logits.
        alpha: Inverse temperature; 0 samples uniformly, large values approach the greedy action.
        rng: NumPy or torch generator; None: the stream `model_wrapper/multinomial_sample`.
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

    def forward(self, *args: Tree, alpha: float | None = None, **kwargs: object) -> Columns:
        """Runs the model and samples actions; `alpha` overrides the option for this call."""
        output = self._model(*args, **kwargs)
        sharpness = self._alpha if alpha is None else alpha
        given = output.get("prob")

        def select(values: Array, mask: Array | None) -> Array:
            if given is None:
                weight = softmax(values, sharpness, mask)
            else:
                weight = values if mask is None else values * mask
            return proportional(weight, uniform(self._rng, values.shape[:-1], values))

        return with_action(output, output["logit"] if given is None else given, args, select)


class EpsGreedySample(BaseWrapper):
    """Selects a random action with probability eps, otherwise the greedy one.

    Random numbers are independent for each observation and each head.

    Args:
        model: Model that returns the logits.
        eps: Probability of a random action if `forward` receives no `eps`.
        rng: NumPy or torch generator; None: the stream `model_wrapper/eps_greedy_sample`.
    """

    by_env = True

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
        *args: Tree,
        eps: Eps | None = None,
        env_id: Sequence[int] | None = None,
        **kwargs: object,
    ) -> Columns:
        """Runs the model and selects actions.

        Args:
            *args: Arguments of the model.
            eps: One probability, one per observation [K], or a dict by environment id.
            env_id: Environment id of each observation, to look up `eps`; None: 0, 1, ….
            **kwargs: Keyword arguments of the model.

        Raises:
            UsageError: an eps is missing or is not in [0, 1].
        """
        output = self._model(*args, **env_ids_for(self._model, env_id), **kwargs)
        given = self._eps if eps is None else eps

        def select(logit: Array, mask: Array | None) -> Array:
            noise = uniform(self._rng, (2, len(logit)), logit)
            return eps_greedy(logit, _probabilities(given, env_id, logit), noise[0], noise[1], mask)

        return with_action(output, output["logit"], args, select)


class EpsGreedyMultinomialSample(BaseWrapper):
    """Selects a random action with probability eps, otherwise samples from softmax(alpha * logit).

    Random numbers are independent for each observation and each head.

    Args:
        model: Model that returns the logits.
        eps: Probability of a random action if `forward` receives no `eps`.
        alpha: Inverse temperature; see `MultinomialSample`.
        rng: NumPy or torch generator; None: the stream
            `model_wrapper/eps_greedy_multinomial_sample`.
    """

    by_env = True

    def __init__(
        self,
        model: IModel | IModelWrapper,
        eps: float = 0.1,
        alpha: float = 1.0,
        rng: np.random.Generator | torch.Generator | None = None,
    ) -> None:
        super().__init__(model)
        self._eps = eps
        self._alpha = alpha
        name = "model_wrapper/eps_greedy_multinomial_sample"
        self._rng = stream(name) if rng is None else rng

    def forward(
        self,
        *args: Tree,
        eps: Eps | None = None,
        alpha: float | None = None,
        env_id: Sequence[int] | None = None,
        **kw: object,
    ) -> Columns:
        """Runs the model and samples actions.

        Args:
            *args: Arguments of the model.
            eps: See `EpsGreedySample.forward`.
            alpha: Overrides the option for this call.
            env_id: Environment id of each observation, to look up `eps`; None: 0, 1, ….
            **kw: Keyword arguments of the model.

        Raises:
            UsageError: an eps is missing or is not in [0, 1].
        """
        output = self._model(*args, **env_ids_for(self._model, env_id), **kw)
        given = self._eps if eps is None else eps
        sharpness = self._alpha if alpha is None else alpha

        def select(logit: Array, mask: Array | None) -> Array:
            coin, guess, draw = uniform(self._rng, (3, len(logit)), logit)
            sampled = proportional(softmax(logit, sharpness, mask), draw)
            random = coin < _probabilities(given, env_id, logit)
            return sampled + random * (any_of(logit, guess, mask) - sampled)

        return with_action(output, output["logit"], args, select)


def with_action(
    output: Mapping[str, Tree],
    values: Tree,
    args: Sequence[object],
    select: Callable[[Array, Array | None], Array],
) -> Columns:
    """Returns the output with the selected actions: [K], or [K, H] for several heads.

    Raises:
        UsageError: the number of masks differs from the number of heads.
    """
    mask = output.get("action_mask")
    if mask is None and args and isinstance(args[0], Mapping):
        mask = args[0].get("action_mask")
    if not isinstance(values, list | tuple):
        action = select(values, None if mask is None else allowed(mask, values))
        return {**output, "action": action}
    masks = [None] * len(values) if mask is None else masks_of(mask, len(values))
    actions = [
        select(head, None if each is None else allowed(each, head))
        for head, each in zip(values, masks, strict=True)
    ]
    return {**output, "action": stack_last(actions)}


def stack_last(actions: list[Array]) -> Array:
    """Stacks arrays or tensors along a new last axis."""
    if not is_tensor(actions[0]):
        return np.stack(actions, -1)
    torch = loaded_torch()
    assert torch is not None
    return torch.stack(actions, -1)


def _probabilities(eps: Eps, env_id: Sequence[int] | None, logit: Array) -> Array:
    """Returns eps as a number, or as an array or tensor [K] like `logit`."""
    if isinstance(eps, float | int):
        if not 0 <= eps <= 1:
            raise UsageError(f"eps must be in [0, 1], got {eps!r}")
        return eps
    if isinstance(eps, Mapping):
        ids = range(len(logit)) if env_id is None else [int(each) for each in env_id]
        missing = [each for each in ids if each not in eps]
        if missing:
            raise UsageError(f"eps has no entry for environments {missing}; it has {sorted(eps)}")
        eps = [eps[each] for each in ids]
    values = np.asarray(eps, np.float64)
    if values.shape not in ((), (len(logit),)) or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"eps must be a number or {len(logit)} numbers in [0, 1], got {eps!r}")
    if not is_tensor(logit):
        return values
    torch = loaded_torch()
    assert torch is not None
    return torch.from_numpy(values).to(logit.device)
