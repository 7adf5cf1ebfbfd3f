"""Exploration noise on continuous actions: Gaussian, or an Ornstein-Uhlenbeck process.

Shapes: K observations, A dimensions of an action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from torch import Tensor

from dicore.data import Columns, Tree
from dicore.data.tree import is_tensor
from dicore.errors import UsageError
from dicore.interfaces.model import IModel, IModelWrapper
from dicore.run.random import stream
from dicore_plugins.functional.exploration import finite
from dicore_plugins.functional.noise import OUNoise, create_noise_generator
from dicore_plugins.model_wrappers.base import BaseWrapper, env_ids_for
from dicore_plugins.model_wrappers.by_env import EnvStates, reset_states

Range = Mapping[str, float] | None


class ActionNoise(BaseWrapper):
    """Adds noise to continuous actions, and clips them.

    The output of the model has `action`, or else `action_args` (hybrid actions) or `mean`; the
    wrapper adds the noisy one as `action`, or replaces `action_args` in a copy of the output if
    there is no `action`. The Gaussian noise is independent in each step; each
    environment has a process of its own of the Ornstein-Uhlenbeck kind, which starts from x0 after
    a reset (see `GaussianNoise` and `OUNoise` of `dicore_plugins.functional`).

    Args:
        model: Model, or a wrapper that selects actions.
        noise_type: `gauss` or `ou`.
        noise_kwargs: `mu` and `sigma`; for `ou` also `theta`, `dt` and `x0`.
        noise_range: Bounds of the noise, `{"min": …, "max": …}`; None: unbounded.
        action_range: Bounds of the noisy action; None: unbounded.
        rng: NumPy generator; None: the stream `model_wrapper/action_noise`.

    Raises:
        UsageError: an option is unknown or out of range.
    """

    by_env = True

    def __init__(
        self,
        model: IModel | IModelWrapper,
        noise_type: Literal["gauss", "ou"] = "gauss",
        noise_kwargs: Mapping[str, float] | None = None,
        noise_range: Range = None,
        action_range: Range = {"min": -1.0, "max": 1.0},  # noqa: B006 - never changed
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(model)
        self._type, self._kwargs = noise_type, dict(noise_kwargs or {})
        self._x0 = np.asarray(self._kwargs.get("x0", 0.0), np.float64)
        self._noise_range = _bounds("noise_range", noise_range)
        self._action_range = _bounds("action_range", action_range)
        self._states = EnvStates()
        self._rng = stream("model_wrapper/action_noise") if rng is None else rng
        create_noise_generator(noise_type, self._kwargs, rng=self._rng)  # checks them

    def forward(
        self,
        *args: Tree,
        sigma: float | None = None,
        env_id: Sequence[int] | None = None,
        **kwargs: object,
    ) -> Columns:
        """Runs the model and adds noise.

        Args:
            *args: Arguments of the model.
            sigma: Overrides `noise_kwargs["sigma"]` for this call; 0: no noise.
            env_id: Environment id of each observation, for `ou`; None: 0, 1, ….
            **kwargs: Keyword arguments of the model.

        Raises:
            UsageError: `sigma` is out of range, or the model returns no continuous action.
        """
        output = self._model(*args, **env_ids_for(self._model, env_id), **kwargs)
        name = next((key for key in ("action", "action_args", "mean") if key in output), None)
        if name is None:
            raise UsageError(
                f"action_noise needs the output action, action_args or mean; the model returns"
                f" {', '.join(output)}"
            )
        action = output[name]
        if isinstance(action, Mapping):
            noisy: Tree = {
                **action,
                "action_args": self._noisy(action["action_args"], sigma, env_id),
            }
        else:
            noisy = self._noisy(action, sigma, env_id)
        return {**output, "action_args" if name == "action_args" else "action": noisy}

    def reset(self, *args: object, **kwargs: object) -> None:
        """Restarts the process of all environments, or of the given ids."""
        reset_states(self._states, args, kwargs)
        super().reset(*args, **kwargs)

    def _noisy(self, action: Tree, sigma: float | None, env_id: Sequence[int] | None) -> Tree:
        """Returns action + noise, clipped, as an array or tensor like `action`."""
        noise = self._drawn(tuple(finite(action).shape), sigma, env_id)
        if self._noise_range is not None:
            noise = noise.clamp(*self._noise_range)
        if is_tensor(action):
            noisy = action + noise.to(action)
            return noisy if self._action_range is None else noisy.clamp(*self._action_range)
        noisy = action + noise.numpy().astype(action.dtype)
        return noisy if self._action_range is None else np.clip(noisy, *self._action_range)

    def _drawn(
        self, shape: tuple[int, ...], sigma: float | None, env_id: Sequence[int] | None
    ) -> Tensor:
        given = {} if sigma is None else {"sigma": sigma}
        noise = create_noise_generator(self._type, {**self._kwargs, **given}, rng=self._rng)
        if not isinstance(noise, OUNoise):
            return noise(shape)
        ids = self._states.ids(env_id, shape[0])
        held = self._states.read(ids)  # the distance from x0, which is 0 after a reset
        if held is not None:
            noise.x = self._x0 + held
        drawn = noise(shape)
        self._states.write(ids, noise.x - self._x0)
        return drawn


def _bounds(name: str, given: Range) -> tuple[float, float] | None:
    if given is None:
        return None
    if given.keys() != {"min", "max"} or not given["min"] <= given["max"]:
        raise UsageError(f"{name} must be {{'min': low, 'max': high}}, got {dict(given)!r}")
    return float(given["min"]), float(given["max"])
