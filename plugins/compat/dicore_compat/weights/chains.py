"""Takes networks apart that are chains of linear layers, maybe behind convolutions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import torch

from dicore.errors import UsageError

__all__ = ["Layer", "Networks", "Scale", "Tensors", "after_convs", "chain", "head", "stacked"]

Tensors = Mapping[str, torch.Tensor]


class Layer(NamedTuple):
    """A linear layer, y = weight x + bias, or a convolution.

    Args:
        name: Its name in the file, without `.weight`.
        weight: float32 [outputs, inputs], of a convolution [outputs, inputs, height, width].
        bias: float32 [outputs].
    """

    name: str
    weight: torch.Tensor
    bias: torch.Tensor


class Scale(NamedTuple):
    """Running statistics: x is normalised to (x - mean) / std.

    Args:
        mean: float64 [size].
        std: float64 [size], with what the framework adds to it.
        clip: Bound of the normalised values; None: there is none.
    """

    mean: torch.Tensor
    std: torch.Tensor
    clip: float | None = None


class Networks(NamedTuple):
    """What a checkpoint holds.

    Args:
        peer: Name of the framework.
        actor: Layers of the actor, or of a Q network.
        critic: Layers of the value network; empty: of a Q network.
        log_std: Logarithm of the standard deviation of Gaussian actions, float32 [actions].
        seen: How the actor's observations are normalised; None: not, or by the environment.
        critic_seen: How those of the critic are.
        value: How values are normalised; None: not.
        convs: Convolutions before both networks, each followed by relu; pixels are divided by 255.
        trunk: Linear layers between the convolutions and both networks.
        twins: Q networks of observations and actions; the actor gives means, then, if
            `deviations`, logarithms of standard deviations. Actions are squashed by tanh.
        deviations: The last layer of the actor gives them behind the means.
        memory: Tensors of a recurrent layer before actor and critic, by torch's names of them.
        note: What the framework does otherwise.
    """

    peer: str
    actor: list[Layer]
    critic: list[Layer]
    log_std: torch.Tensor | None = None
    seen: Scale | None = None
    critic_seen: Scale | None = None
    value: Scale | None = None
    convs: Sequence[Layer] = ()
    trunk: Sequence[Layer] = ()
    twins: Sequence[Sequence[Layer]] | None = None
    deviations: bool = False
    memory: Mapping[str, torch.Tensor] = MappingProxyType({})
    note: str = ""


_LAST: Final = re.compile(r"\.(last|mu|(policy|value|action)_layer)(\.|$)|(^|\.)fc_mu$")
"""Layers that stand at the end of a chain, whatever their place in the file."""


def chain(tensors: Tensors, start: str, *, without: str = "") -> list[Layer]:
    """Returns the linear layers whose names begin so, by their numbers.

    Raises:
        UsageError: there is none, one is not linear, or two do not fit together.
    """
    layers: list[Layer] = []
    for place in _ordered(_places(tensors, start, without)):
        weight, bias = tensors[f"{place}.weight"], tensors.get(f"{place}.bias")
        if weight.ndim != 2 or bias is None:
            raise UsageError(
                f"layer {place} is not linear: weight {[*weight.shape]}",
                hint="map the names by hand: --suggest table.yaml",
            )
        if layers and layers[-1].weight.shape[0] != weight.shape[1]:
            raise UsageError(
                f"layer {place} takes {weight.shape[1]} numbers, but {layers[-1].name} before it"
                f" gives {layers[-1].weight.shape[0]}: not one chain",
                hint="map the names by hand: --suggest table.yaml",
            )
        layers.append(Layer(place, weight.float(), bias.float()))
    if not layers:
        raise UsageError(f"there is no layer whose name begins with {start}")
    return layers


def stacked(before: Layer, mean: Layer, log_std: Layer) -> Layer:
    """Returns two layers that stand beside each other as one.

    Raises:
        UsageError: they do not fit together.
    """
    if mean.weight.shape != log_std.weight.shape or mean.weight.shape[1] != len(before.bias):
        raise UsageError(
            f"layer {mean.name} is {[*mean.weight.shape]}, {log_std.name} is"
            f" {[*log_std.weight.shape]}, and {before.name} before them gives"
            f" {len(before.bias)}: not one network"
        )
    weight = torch.cat([mean.weight, log_std.weight])
    return Layer(mean.name, weight, torch.cat([mean.bias, log_std.bias]))


def after_convs(tensors: Tensors, start: str) -> tuple[list[Layer], list[Layer]]:
    """Returns convolutions and the linear layers after them.

    Raises:
        UsageError: a layer has another form, or two do not fit together.
    """
    places = _ordered(_places(tensors, start, ""))
    count = sum(tensors[f"{place}.weight"].ndim == 4 for place in places)
    convs = [Layer(place, tensors[f"{place}.weight"].float(), tensors[f"{place}.bias"].float())
             for place in places[:count] if f"{place}.bias" in tensors]  # fmt: skip
    flat = {name: each for name, each in tensors.items()
            if name.rpartition(".")[0] not in places[:count]}  # fmt: skip
    linear = chain(flat, start)
    if len(convs) < count or any(each.weight.ndim != 4 for each in convs):
        raise UsageError(
            f"layer {places[0]}: convolutions without a bias, or behind linear layers",
            hint="map the names by hand: --suggest table.yaml",
        )
    if convs and linear[0].weight.shape[1] % len(convs[-1].bias):
        raise UsageError(
            f"layer {linear[0].name} takes {linear[0].weight.shape[1]} numbers, which"
            f" {convs[-1].name} before it with {len(convs[-1].bias)} channels cannot give"
        )
    return convs, linear


def head(tensors: Tensors, name: str, trunk: Sequence[Layer]) -> list[Layer]:
    """Returns the layers of an actor or a critic that stands on a shared trunk."""
    shared = {f"{name}.weight", f"{name}.bias"} <= {*tensors}
    layers = (
        [Layer(name, tensors[f"{name}.weight"].float(), tensors[f"{name}.bias"].float())]
        if shared
        else chain(tensors, rf"{name}\.")
    )
    if layers[0].weight.ndim != 2 or layers[0].weight.shape[1] != len(trunk[-1].bias):
        raise UsageError(
            f"layer {layers[0].name} is {[*layers[0].weight.shape]}, but {trunk[-1].name} before it"
            f" gives {len(trunk[-1].bias)}"
        )
    return layers


def _places(tensors: Tensors, start: str, without: str) -> list[str]:
    """Returns the names of layers that begin so, in the order of the file."""
    return [name.removesuffix(".weight") for name in tensors
            if name.endswith(".weight") and re.match(start, name)
            and not (without and f".{without}" in name)]  # fmt: skip


def _ordered(places: list[str]) -> list[str]:
    """Returns layers by number; safetensors sorts names, so 10 is before 2 and `mu` first."""
    kinds = [*dict.fromkeys(re.sub(r"\d+", "#", place) for place in places)]

    def order(place: str) -> tuple[bool, int, list[int]]:
        kind = kinds.index(re.sub(r"\d+", "#", place))
        return bool(_LAST.search(place)), kind, [*map(int, re.findall(r"\d+", place))]

    return sorted(places, key=order)
