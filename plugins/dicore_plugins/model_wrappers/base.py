"""Base class of model wrappers, wrapping by name, and wrappers that select actions from logits.

The `logit` of the output is [K, A], or a list with one per head; each wrapper adds `action`: int64
[K], or [K, H] for several heads. Arrays result in arrays, tensors in tensors on their device. If
the output, or else the observation, has an `action_mask` (nonzero: allowed; with several heads a
list or [K, H, A]), only allowed actions are selected. The output of the model is not changed.

Shapes: K observations, A actions, H heads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    import torch

    from dicore.interfaces.model import IModel, IModelWrapper


Eps = float | Sequence[float] | Mapping[int, float]
"""Probabilities of a random action: one, one per observation [K], or by environment id."""


class BaseWrapper:
    """Runs the model unchanged; base class of the other wrappers.

    Attributes and methods that a wrapper does not define (such as `parameters` and `state_dict`)
    are forwarded to the model below, at any depth.

    Args:
        model: A model, or another wrapper.
    """

    def __init__(self, model: IModel | IModelWrapper) -> None:
        self._model = model

    def forward(self, *args: Tree, **kwargs: Any) -> Tree:
        """Runs the model; subclasses return a new output and never change it in place."""
        return self._model(*args, **kwargs)

    def __call__(self, *args: Tree, **kwargs: object) -> Tree:
        return self.forward(*args, **kwargs)

    def reset(self, *args: Tree, **kwargs: object) -> None:
        """Clears the per-environment state of the layers and the model below."""
        reset = getattr(self._model, "reset", None)
        if reset is not None:
            reset(*args, **kwargs)

    @property
    def layers(self) -> tuple[IModel | IModelWrapper, ...]:
        """All layers from the outermost in; the last one is the model."""
        below = self._model
        return (self, *(below.layers if isinstance(below, BaseWrapper) else (below,)))

    def info(self, name: str) -> str:
        """Returns which layers have an attribute, from the outermost in.

        Args:
            name: Name of the attribute or method.

        Returns:
            Class names such as `ArgmaxSample > BaseWrapper > DQN`; the first one is used.

        Raises:
            AttributeError: neither a layer nor the model has it.
        """
        *wrappers, model = self.layers
        owners = [
            type(each).__name__
            for each in wrappers
            if name in vars(each) or hasattr(type(each), name)
        ]
        if hasattr(model, name):
            owners.append(type(model).__name__)
        if not owners:
            raise AttributeError(f"{self!r} has no attribute '{name}' at any depth")
        return " > ".join(owners)

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look up special methods before `_model` is set.
        if name == "_model" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self._model, name)

    def __repr__(self) -> str:
        below = self._model
        inner = repr(below) if isinstance(below, BaseWrapper) else type(below).__name__
        return f"{type(self).__name__}({inner})"


def model_wrap(model: Any, wrapper_name: str, **kwargs: object) -> Any:
    """Wraps a model by a registered wrapper; the model is shared, not copied.

    The innermost layer is always `base`: `argmax_sample` around a bare model adds two layers.

    Args:
        model: A network, or the result of an earlier call.
        wrapper_name: Registered name (`base`, `argmax_sample`, …), `dist/name` or an import path.
        **kwargs: Options of the wrapper.

    Returns:
        The outermost layer.

    Raises:
        UsageError: `model` is not a model, or the wrapper does not accept an option.
        UnknownComponentError: no wrapper has this name; the message lists the available ones.
    """
    if isinstance(model, FunctionType | type):
        raise UsageError(
            f"model_wrap needs a model, got {_kind(model)} '{model.__name__}'",
            hint="pass the network itself: model_wrap(model, wrapper_name=...)",
        )
    if not callable(model):
        raise UsageError(
            f"model_wrap needs a model, got {type(model).__name__}",
            hint="pass a callable that maps observations to a dict",
        )
    wrapper = _find(wrapper_name)
    if not isinstance(model, BaseWrapper) and wrapper is not BaseWrapper:
        model = BaseWrapper(model)
    _check_options(wrapper, wrapper_name, kwargs)
    return wrapper(model, **kwargs)


def env_ids_for(model: object, env_id: Sequence[int] | None) -> dict[str, Sequence[int]]:
    """Returns the keyword argument `env_id` if a layer of the model has values by env id."""
    return {"env_id": env_id} if env_id is not None and getattr(model, "by_env", False) else {}


def register_wrapper(name: str, cls: type) -> None:
    """Registers a wrapper class in this process; packages declare entry points instead.

    Args:
        name: Name for `model_wrap`.
        cls: A class whose first argument is the model; subclasses of `BaseWrapper` forward
            attributes to it.

    Raises:
        UsageError: `cls` is not a class.
        PluginConflictError: the name is taken.
    """
    from dicore_registry import register

    if not isinstance(cls, type):
        raise UsageError(f"a model wrapper must be a class, got {cls!r}")
    register("model_wrapper", name)(cls)


def _find(name: str) -> Any:
    from dicore_registry import default

    return default().resolve("model_wrapper", name).target


def _check_options(wrapper: Callable[..., object], name: str, kwargs: dict[str, object]) -> None:
    """Checks the options of a wrapper before its constructor runs."""
    try:
        inspect.signature(wrapper).bind(None, **kwargs)
    except TypeError as error:
        options = list(inspect.signature(wrapper).parameters.values())[1:]
        raise UsageError(
            f"model wrapper '{name}': {error}",
            hint=f"valid options: {', '.join(map(str, options)) or 'none'}",
        ) from None


def _kind(model: object) -> str:
    return "the class" if isinstance(model, type) else "the function"


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
