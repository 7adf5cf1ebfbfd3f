"""Exploration noise that is added to continuous actions, by name.

Noise objects draw from a NumPy generator, so that a run with the same seed draws the same numbers
on every device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dicore.errors import SchemaError, UsageError
from dicore.values import State, StateDict

__all__ = ["GaussianNoise", "OUNoise", "create_noise_generator"]


class GaussianNoise:
    """Independent Gaussian noise.

    Args:
        mu: Mean.
        sigma: Standard deviation, >= 0.
        rng: Generator; None: a new one with a random seed.

    Raises:
        UsageError: a number is out of range.
    """

    def __init__(
        self, mu: float = 0.0, sigma: float = 1.0, *, rng: np.random.Generator | None = None
    ) -> None:
        _finite(mu=mu, sigma=sigma)
        self._mu, self._sigma = mu, sigma
        self._rng = np.random.default_rng() if rng is None else rng

    def __call__(self, shape: tuple[int, ...], device: str | torch.device = "cpu") -> torch.Tensor:
        """Draws float32 noise of a shape on a device."""
        drawn = self._mu + self._sigma * self._rng.standard_normal(shape)
        return _tensor(drawn, device)

    def reset(self) -> None:
        """Does nothing: draws are independent."""

    def state_dict(self) -> StateDict:
        """Returns the state of the generator."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: State) -> None:
        """Continues from a state; the next draws are those that would have followed."""
        self._rng.bit_generator.state = state["rng"]


class OUNoise:
    """Noise of an Ornstein-Uhlenbeck process: successive draws are correlated.

    Uhlenbeck and Ornstein 1930; used by Lillicrap et al. 2016 (arXiv:1509.02971):

        x <- x + theta (mu - x) dt + sigma sqrt(dt) n,  n standard normal

    Args:
        mu: Mean to which the process returns.
        sigma: Size of its random changes, >= 0.
        theta: Rate of return, >= 0.
        dt: Time of one draw, > 0.
        x0: State before the first draw, a number or an array of the noise's shape.
        rng: Generator; None: a new one with a random seed.

    Attributes:
        x: The state, float64; that of the last draw.

    Raises:
        UsageError: a number is out of range.
    """

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 0.3,
        theta: float = 0.15,
        dt: float = 1e-2,
        x0: float | npt.NDArray[np.float64] = 0.0,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        _finite(mu=mu, sigma=sigma, theta=theta, dt=dt)
        if not dt > 0:
            raise UsageError(f"dt of the noise must be > 0, got {dt!r}")
        self._mu, self._sigma, self._theta, self._dt = mu, sigma, theta, dt
        self._x0 = np.array(x0, np.float64)
        self._rng = np.random.default_rng() if rng is None else rng
        self.x: npt.NDArray[np.float64] = self._x0.copy()

    def __call__(self, shape: tuple[int, ...], device: str | torch.device = "cpu") -> torch.Tensor:
        """Draws float32 noise of a shape on a device.

        Raises:
            SchemaError: the state has another shape; call `reset` first.
        """
        shape = tuple(shape)
        if self.x.shape not in ((), shape):
            raise SchemaError(
                f"the noise has shape {self.x.shape}, asked for {shape}",
                hint="call reset() first, or use one noise object for each shape",
            )
        drift = self._theta * (self._mu - self.x) * self._dt
        self.x = self.x + drift + self._sigma * self._dt**0.5 * self._rng.standard_normal(shape)
        return _tensor(self.x, device)

    def reset(self) -> None:
        """Returns the state to x0, for a new episode."""
        self.x = self._x0.copy()

    def state_dict(self) -> StateDict:
        """Returns the states of the process and of the generator."""
        return {"x": self.x.copy(), "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: State) -> None:
        """Continues from a state; the next draws are those that would have followed."""
        self.x = np.array(state["x"], np.float64)
        self._rng.bit_generator.state = state["rng"]


_NOISES: dict[str, type[GaussianNoise] | type[OUNoise]] = {"gauss": GaussianNoise, "ou": OUNoise}


def create_noise_generator(
    noise_type: str,
    noise_kwargs: Mapping[str, float] | None = None,
    *,
    rng: np.random.Generator | None = None,
) -> GaussianNoise | OUNoise:
    """Creates noise by name.

    Args:
        noise_type: `gauss` or `ou`.
        noise_kwargs: Arguments of `GaussianNoise` or `OUNoise`.
        rng: Generator; None: a new one with a random seed.

    Raises:
        UsageError: the name or an argument is unknown, or a number is out of range.
    """
    if noise_type not in _NOISES:
        raise UsageError(f"unknown noise '{noise_type}'; expected {', '.join(_NOISES)}")
    try:
        return _NOISES[noise_type](**(noise_kwargs or {}), rng=rng)
    except TypeError as error:
        raise UsageError(f"noise '{noise_type}': {error}") from error


def _finite(*, mu: float, **positive: float) -> None:
    for name, value in {"mu": mu, **positive}.items():
        if not np.isfinite(value) or (name != "mu" and value < 0):
            bound = "finite" if name == "mu" else "finite and >= 0"
            raise UsageError(f"{name} of the noise must be {bound}, got {value!r}")


def _tensor(noise: Any, device: str | torch.device) -> torch.Tensor:
    return torch.from_numpy(np.asarray(noise, np.float32)).to(device)
