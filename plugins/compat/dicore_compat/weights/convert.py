"""Makes the tensors of our networks from those of another framework, normalisation included.

(x - mean) / std before a linear layer is a linear layer: W' = W / std, b' = b - W' mean. So the
statistics become part of the first layer, and those of values of the last layer of the critic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from dicore.errors import UsageError
from dicore_compat.weights.peers import Layer, Networks, Scale, networks_of
from dicore_plugins.export.import_weights import read_tensors

__all__ = ["PeerWeights", "compare_actions", "peer_weights"]

_ACTIVATIONS: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "tanh": torch.tanh, "relu": torch.relu, "elu": torch.nn.functional.elu,
    "gelu": torch.nn.functional.gelu,
}  # fmt: skip
"""Those that policies have here."""
_EQUAL: Final = 1e-4
"""Largest difference between actions that are equal but for rounding, as a share of their range."""


class PeerWeights(NamedTuple):
    """The networks of a checkpoint of another framework by the names of ours.

    Args:
        peer: Name of the framework.
        tensors: Tensors by our names.
        sources: Names in the file by our names.
        notes: What differs from what the framework does.
    """

    peer: str
    tensors: dict[str, torch.Tensor]
    sources: dict[str, str]
    notes: tuple[str, ...] = ()


def peer_weights(file: str | Path, *, obs_norm: str | Path | None = None) -> PeerWeights | None:
    """Returns the networks of a checkpoint; None if it is of no framework that is known here.

    Args:
        file: The checkpoint.
        obs_norm: An .npz file with `mean` and `var` of the observations, and maybe `epsilon`, if
            the environment normalised them and the checkpoint does not say how.

    Raises:
        UsageError: a file cannot be read, or its networks are not chains of linear layers.
    """
    found = networks_of(read_tensors(file))
    if found is None:
        return None
    if obs_norm is not None:
        if found.seen is not None:
            raise UsageError(f"--obs-norm: {file} has statistics of its own", hint="leave it out")
        scale = _read_scale(obs_norm)
        found = found._replace(seen=scale, critic_seen=scale)
    named = {**_named(found)}
    notes = tuple(_notes(found))
    return PeerWeights(
        found.peer,
        {name: tensor for name, (tensor, _) in named.items()},
        {name: source for name, (_, source) in named.items()},
        notes,
    )


def _read_scale(file: str | Path) -> Scale:
    try:
        with np.load(file, allow_pickle=False) as data:
            mean, var = (torch.as_tensor(data[name]).double().flatten() for name in ("mean", "var"))
            epsilon = float(data["epsilon"]) if "epsilon" in data else 1e-8
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--obs-norm: {file}: expected an .npz with mean and var: {error}"
        ) from error
    if mean.shape != var.shape or not bool((var >= 0).all()):
        raise UsageError(
            f"--obs-norm: {file}: mean and var are not of one size, or var is negative"
        )
    return Scale(mean, (var + epsilon).sqrt())


def _named(found: Networks) -> dict[str, tuple[torch.Tensor, str]]:
    actor = _after(found.actor, found.seen)
    if not found.critic:
        *hidden, last = actor
        places = [f"model.encoder.layers.{i}" for i in range(len(hidden))]
        return _tensors([*places, "model.heads.0.advantage.layers.0"], [*hidden, last])
    critic = _after(found.critic, found.critic_seen)
    if found.value is not None:
        name, weight, bias = critic[-1]
        std, mean = found.value.std.float(), found.value.mean.float()
        critic[-1] = Layer(name, weight * std[:, None], bias * std + mean)
    named = _tensors([f"model.actor.layers.{i}" for i in range(len(actor))], actor)
    named |= _tensors([f"model.critic.layers.{i}" for i in range(len(critic))], critic)
    if found.log_std is not None:
        named["model.log_std"] = found.log_std.float(), "log_std"
    return named


def _tensors(places: list[str], layers: list[Layer]) -> dict[str, tuple[torch.Tensor, str]]:
    named = {}
    for place, layer in zip(places, layers, strict=True):
        named[f"{place}.weight"] = layer.weight.contiguous(), f"{layer.name}.weight"
        named[f"{place}.bias"] = layer.bias.contiguous(), f"{layer.name}.bias"
    return named


def _after(layers: list[Layer], scale: Scale | None) -> list[Layer]:
    """Returns layers that take what is not normalised."""
    if scale is None:
        return [*layers]
    name, weight, bias = layers[0]
    if weight.shape[1] != scale.mean.numel():
        raise UsageError(
            f"layer {name} takes {weight.shape[1]} numbers, but {scale.mean.numel()} are normalised"
        )
    folded = weight.double() / scale.std
    shifted = bias.double() - folded @ scale.mean
    return [Layer(name, folded.float(), shifted.float()), *layers[1:]]


def _notes(found: Networks) -> list[str]:
    if found.seen is None or found.seen.clip is None:
        return []
    bound = found.seen.clip
    return [f"{found.peer} clips normalised observations to +-{bound:g}; here they are not clipped"]


def compare_actions(
    act: Callable[[Any], Any], file: str | Path, weights: PeerWeights, model: Mapping[str, Any]
) -> int:
    """Compares actions here with those that the other framework recorded; returns their number.

    Args:
        act: Returns the action of our policy for one observation.
        file: An .npz file with `obs` [N, ...] and `action` [N, ...], in units of the environment.
        weights: The weights that the policy has.
        model: Options of our model.

    Raises:
        UsageError: actions differ; the message says where, if that can be found out.
    """
    try:
        with np.load(file, allow_pickle=False) as data:
            obs, wanted = data["obs"], data["action"]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"--compare: {file}: expected an .npz with obs and action: {error}"
        ) from error
    found = np.stack([np.asarray(act(each)).reshape(wanted.shape[1:]) for each in obs])
    unlike = _unlike(found, wanted)
    if not unlike.any():
        return len(obs)
    raise UsageError(
        f"actions differ from those of {weights.peer} on {int(unlike.sum())} of {len(obs)}"
        f" observations, the first time on number {int(unlike.argmax())}",
        hint=_why(weights, torch.as_tensor(obs).float(), wanted, model),
    )


def _unlike(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns which actions differ, bool [N]."""
    far = _EQUAL * max(1.0, float(np.abs(wanted).max()))
    differs = found != wanted if wanted.dtype.kind in "iu" else np.abs(found - wanted) > far
    return np.asarray(differs.reshape(len(wanted), -1).any(1))


def _why(weights: PeerWeights, obs: torch.Tensor, wanted: Any, model: Mapping[str, Any]) -> str:
    """Returns what would make the actions equal: another activation, or another first layer."""
    start = "model.actor.layers." if "model.actor.layers.0.weight" in weights.tensors else ""
    names = [name.removesuffix(".weight") for name in weights.tensors
             if name.endswith(".weight") and "critic" not in name]  # fmt: skip
    first = weights.sources[f"{names[0]}.weight"].removesuffix(".weight")
    for other, function in _ACTIVATIONS.items():
        x = obs.flatten(1)
        for number, name in enumerate(names):
            x = x @ weights.tensors[f"{name}.weight"].T + weights.tensors[f"{name}.bias"]
            x = function(x) if number < len(names) - 1 else x
        action = x.numpy() if start and wanted.dtype.kind == "f" else x.argmax(1).numpy()
        if not _unlike(action.reshape(wanted.shape), wanted).any():
            if model.get("layer_norm"):
                return (
                    f"after layer {first} nothing is normalised: set policy.model.layer_norm=false"
                )
            if other == model.get("activation"):
                return "the layers are equal: set policy.action_scaling to what the actions have"
            return f"after layer {first} there is {other}: set policy.model.activation={other}"
    return (
        f"layer {first} gets other numbers, or what follows it is none of"
        f" {', '.join(_ACTIVATIONS)}; observations that the environment normalised need --obs-norm"
    )
