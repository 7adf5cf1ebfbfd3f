"""Searching with a network: latent states in place of an environment's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from dicore.data import Tree
from dicore_worlds.models.muzero import MuZeroNet
from dicore_worlds.planning.tree import Floats, Ints, Leaf

__all__ = ["NetworkModel"]

_ROWS = 128
"""States up to which NumPy is faster than torch, whose calls cost more."""


class NetworkModel:
    """Steps latent states [B, Z] by a network, without gradients; a `PlanningModel`.

    Few states on the CPU are stepped by NumPy, with the parameters of this moment: make one for
    each search. With a value prefix, a state is a dict of `latent` [B, Z], `memory` [B, S] of the
    LSTM, `total` [B], the sum of rewards that it predicts, and `depth` [B], steps from the root.

    Args:
        model: The network.
        discount_factor: Of each step.
        device: Of the network.
    """

    def __init__(self, model: MuZeroNet, discount_factor: float, device: str = "cpu") -> None:
        self._model, self._gamma, self._device = model, discount_factor, device
        plain = type(model) is MuZeroNet and not model.value_prefix
        self._fast = _ByNumpy(model) if device == "cpu" and plain else None

    def root(self, latent: Tensor) -> Tree:
        """Returns the states of roots with latent states [B, Z]."""
        if self._model.sums is None:
            return latent
        zeros = latent.new_zeros(len(latent))
        memory = latent.new_zeros(len(latent), self._model.sums.state_size)
        return {"latent": latent, "memory": memory, "total": zeros, "depth": zeros}

    @torch.no_grad()
    def step(self, state: Tree, action: Ints) -> Leaf:
        """Returns what comes of actions."""
        discount = np.full(len(action), self._gamma, np.float32)
        if self._model.sums is not None:
            return self._summed(state, action, discount)
        if self._fast is not None and len(action) <= _ROWS:
            reached, preferred, known = self._fast.step(state.numpy(), action)
            return Leaf(torch.from_numpy(reached), preferred, known[1], known[0], discount)
        model = self._model
        after, reward = model.follow(state, torch.from_numpy(action).to(self._device))
        logit, value = model.predict(after)
        numbers = model.mean(torch.stack([reward, value])).cpu().numpy()
        return Leaf(after, logit.cpu().numpy(), numbers[1], numbers[0], discount)

    def _summed(self, state: Tree, action: Ints, discount: Floats) -> Leaf:
        """Returns what comes of actions, with rewards as differences of predicted sums."""
        model = self._model
        going = state["depth"] % model.value_prefix > 0
        memory = state["memory"] * going.unsqueeze(1)
        chosen = torch.from_numpy(action).to(self._device)
        after, gained, memory = model.follow_on(state["latent"], chosen, memory)
        logit, value = model.predict(after)
        total, worth = model.mean(torch.stack([gained, value]))
        reward = total - state["total"] * going
        reached = {"latent": after, "memory": memory, "total": total, "depth": state["depth"] + 1}
        found = [each.cpu().numpy() for each in (logit, worth, reward)]
        return Leaf(reached, found[0], found[1], found[2], discount)


class _ByNumpy:
    """The same numbers as `MuZeroNet.follow`, `predict` and `mean`, up to rounding."""

    def __init__(self, model: MuZeroNet) -> None:
        first = model.transition[0]
        assert isinstance(first, nn.Linear)
        weight = _array(first.weight)
        self._latent = model.latent
        self._state, self._action = weight[:, : model.latent].T, weight[:, model.latent :].T.copy()
        self._transition = _hidden(model.transition)
        self._prediction = _hidden(model.prediction)
        bins = _array(model.bins)
        self._bins = bins[len(bins) // 2 + 1 :]
        outputs = (model.change, model.reward, model.policy, model.value)
        self._outputs = [(_array(each.weight).T, _array(each.bias)) for each in outputs]

    def step(self, state: Floats, action: Ints) -> tuple[Floats, Floats, Floats]:
        """Returns the states after actions, logits [B, A], and rewards and values [2, B]."""
        change, reward, policy, value = self._outputs
        features = _mapped(state @ self._state + self._action[action], self._transition, 1)
        after = state + (features @ change[0] + change[1])
        low = after.min(1, keepdims=True)
        after = (after - low) / np.maximum(after.max(1, keepdims=True) - low, np.float32(1e-5))
        seen = _mapped(after, self._prediction)
        numbers = np.stack([features @ reward[0] + reward[1], seen @ value[0] + value[1]])
        return after, seen @ policy[0] + policy[1], self._mean(numbers)

    def _mean(self, logit: Floats) -> Floats:
        share = np.exp(logit - logit.max(-1, keepdims=True))
        half = logit.shape[-1] // 2
        total = share.sum(-1)
        signed = share[..., half + 1 :] - share[..., half - 1 :: -1]
        found: Floats = signed @ self._bins / total
        return found


_Layer = Callable[[Floats], Floats]
"""Maps features [B, F]."""


def _array(value: object) -> Floats:
    assert isinstance(value, Tensor)
    found: Floats = value.detach().numpy()
    return found


def _hidden(layers: nn.Sequential) -> list[_Layer]:
    """Returns the layers of an `mlp` as functions."""
    found: list[_Layer] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            found.append(_linear(_array(layer.weight).T))
        elif isinstance(layer, nn.LayerNorm):
            found.append(_norm(_array(layer.weight), _array(layer.bias), layer.eps))
        else:
            found.append(_silu)
    return found


def _mapped(features: Floats, layers: list[_Layer], start: int = 0) -> Floats:
    for layer in layers[start:]:
        features = layer(features)
    return features


def _linear(weight: Floats) -> _Layer:
    return lambda x: x @ weight


def _norm(weight: Floats, bias: Floats, eps: float) -> _Layer:
    small, share = np.float32(eps), np.float32(1 / len(weight))

    def normalised(x: Floats) -> Floats:
        x = x - x.sum(1, keepdims=True) * share
        power = np.einsum("bf,bf->b", x, x) * share
        found: Floats = x * (1 / np.sqrt(power + small))[:, None] * weight + bias
        return found

    return normalised


def _silu(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        found: Floats = x / (1 + np.exp(-x))
    return found
