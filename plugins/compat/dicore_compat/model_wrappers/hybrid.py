"""Selecting hybrid actions: a discrete type and continuous arguments (Masson et al. 2016).

The model returns `logit` [K, A] (several heads: a list) for the type, and for the arguments either
`action_args` [K, D] or a Gaussian, `mean` and `log_std` [K, D]. Each wrapper adds
`action = {"action_type": int64 [K], "action_args": [K, D]}`; the other outputs are not changed. The
type is selected by the wrapper below, which obeys an `action_mask`; the arguments may be outside of
the action space unless they come from `action_noise`.

Shapes: K observations, A types of actions, D arguments.
"""

from __future__ import annotations

import numpy as np
import torch

from dicore.data import Columns, Tree
from dicore.errors import UsageError
from dicore.interfaces.model import IModel, IModelWrapper
from dicore.run.random import stream
from dicore_plugins.functional.exploration import finite
from dicore_plugins.model_wrappers.base import (
    ArgmaxSample,
    BaseWrapper,
    EpsGreedyMultinomialSample,
    EpsGreedySample,
    MultinomialSample,
)
from dicore_plugins.model_wrappers.gaussian import noisy_mean

Rng = np.random.Generator | torch.Generator | None


class HybridSample(BaseWrapper):
    """Adds arguments to the discrete action of the layer below; base class of the others.

    Args:
        sampler: A wrapper that adds the discrete `action`.
    """

    def __init__(self, sampler: BaseWrapper) -> None:
        super().__init__(sampler)

    def forward(self, *args: object, **kwargs: object) -> Columns:
        """Runs the layer below and adds the arguments.

        Raises:
            UsageError: the model returns no arguments.
        """
        output = self._model(*args, **kwargs)
        action = {"action_type": output["action"], "action_args": finite(self._arguments(output))}
        return {**output, "action": action}

    def _arguments(self, output: Columns) -> Tree:
        return _output(self, output, "action_args")


class HybridArgmaxSample(HybridSample):
    """Selects the greedy type, with the arguments `action_args` of the model."""

    def __init__(self, model: IModel | IModelWrapper) -> None:
        super().__init__(ArgmaxSample(model))


class HybridDeterministicArgmaxSample(HybridSample):
    """Selects the greedy type, with the mean of the Gaussian as arguments."""

    def __init__(self, model: IModel | IModelWrapper) -> None:
        super().__init__(ArgmaxSample(model))

    def _arguments(self, output: Columns) -> Tree:
        return _output(self, output, "mean")


class HybridEpsGreedySample(HybridSample):
    """Selects a random type with probability eps, otherwise the greedy one; see `EpsGreedySample`.

    Args:
        model: Model that returns `logit` and `action_args`.
        eps: Probability of a random type if `forward` receives no `eps`.
        rng: NumPy or torch generator; None: the stream `model_wrapper/eps_greedy_sample`.
    """

    def __init__(self, model: IModel | IModelWrapper, eps: float = 0.1, rng: Rng = None) -> None:
        super().__init__(EpsGreedySample(model, eps, rng))


class HybridEpsGreedyMultinomialSample(HybridSample):
    """Selects a random type with probability eps, otherwise samples it by softmax(alpha * logit).

    Args:
        model: Model that returns `logit` and `action_args`.
        eps: Probability of a random type if `forward` receives no `eps`.
        alpha: Inverse temperature; see `MultinomialSample`.
        rng: NumPy or torch generator; None: the stream of `EpsGreedyMultinomialSample`.
    """

    def __init__(
        self, model: IModel | IModelWrapper, eps: float = 0.1, alpha: float = 1.0, rng: Rng = None
    ) -> None:
        super().__init__(EpsGreedyMultinomialSample(model, eps, alpha, rng))


class HybridReparamMultinomialSample(HybridSample):
    """Samples the type by softmax(logit) and the arguments as mean + exp(log_std) * noise.

    The gradient of the arguments flows through mean and log_std.

    Args:
        model: Model that returns `logit`, `mean` and `log_std`.
        rng: NumPy generator; None: the stream `model_wrapper/hybrid_reparam_multinomial_sample`.
    """

    def __init__(
        self, model: IModel | IModelWrapper, rng: np.random.Generator | None = None
    ) -> None:
        name = "model_wrapper/hybrid_reparam_multinomial_sample"
        self._rng = stream(name) if rng is None else rng
        super().__init__(MultinomialSample(model, rng=self._rng))

    def _arguments(self, output: Columns) -> Tree:
        mean, log_std = (_output(self, output, name) for name in ("mean", "log_std"))
        return noisy_mean(mean, log_std, self._rng)


def _output(wrapper: BaseWrapper, output: Columns, name: str) -> Tree:
    if name not in output:
        raise UsageError(
            f"{type(wrapper).__name__} needs the output '{name}' for the arguments of actions; the"
            f" model returns {', '.join(key for key in output if key != 'action')}"
        )
    return output[name]
