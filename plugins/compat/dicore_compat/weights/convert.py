"""Makes the tensors of our networks from those of another framework, normalisation included.

(x - mean) / std before a linear layer is a linear layer: W' = W / std, b' = b - W' mean. So the
statistics become part of the first layer, and those of values of the last layer of the critic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from gymnasium import Space

from dicore.errors import UsageError
from dicore_compat.weights.chains import Layer, Networks, Scale
from dicore_compat.weights.files import check_archive, check_finite, read_scale
from dicore_compat.weights.peers import networks_of
from dicore_compat.weights.spaces import Actions, actions_of
from dicore_plugins.export.import_weights import read_tensors

__all__ = ["PeerWeights", "compare_actions", "peer_weights"]

_Array = np.ndarray[Any, Any]
_ACTIVATIONS: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "tanh": torch.tanh, "relu": torch.relu, "elu": torch.nn.functional.elu,
    "gelu": torch.nn.functional.gelu,
}  # fmt: skip
"""Those that policies have here."""
_ASIDE: Final = re.compile(
    r"(\w+_)?optimizer|target_|model_old\.|.*(obs_normalizer|_preprocessor)\."
    r"|.*fc_logstd\.|actor\.log_std\.|(pi|vf)_features_extractor\."
    r"|(.*\.)?action_(scale|bias)$|(qf\d|.*)_target\.|critic2?_old\.|policy\.actor\.sigma\."
    r"|(.*[._])?(log_?std|std_param|log_std_param|log_std_parameter|sigma_param)$"
)
"""Tensors that are used in another form, or made anew."""
_LSTM: Final = "lstm_actor"
_EQUAL: Final = 1e-4
"""Largest difference between actions that are equal but for rounding, as a share of their range."""


class PeerWeights(NamedTuple):
    """The networks of a checkpoint of another framework by the names of ours.

    Args:
        peer: Name of the framework.
        tensors: Tensors by our names.
        sources: Names in the file by our names.
        actions: What its networks take and give.
        notes: What differs from what the framework does.
        unused: Names in the file that are left out, without those of optimizers and targets.
        squashed: Actions are means after tanh, in the range of the action space.
        sizes: Option with the sizes of the hidden layers.
        memory: Options of our model, if it needs a memory.
    """

    peer: str
    tensors: dict[str, torch.Tensor]
    sources: dict[str, str]
    actions: Actions
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    squashed: bool = False
    sizes: str = "encoder_hidden_size_list"
    memory: Mapping[str, object] = MappingProxyType({})

    def check_model(self, model: object) -> None:
        """Compares options of our model with what these checkpoints have.

        Args:
            model: Config of the model.

        Raises:
            UsageError: it normalises between layers, which no tensor shows, or has another memory.
        """
        for name, value in self.memory.items():
            if (own := getattr(model, name, None)) != value:
                text = " ".join(
                    f"policy.model.{each}={_text(of)}" for each, of in self.memory.items()
                )
                raise UsageError(
                    f"policy.model.{name} is {_text(own)}, but the file of {self.peer} has a memory"
                    f" for which it is {_text(value)}",
                    hint=f"set {text}",
                )
        if getattr(model, "layer_norm", False):
            raise UsageError(
                f"policy.model.layer_norm is set, but the layers of {self.peer} have nothing"
                " between them but an activation",
                hint="set policy.model.layer_norm=false",
            )

    def check_layers(self, taken: Iterable[str], kept: Iterable[str], left: Iterable[str]) -> None:
        """Compares the lengths of the chains of layers.

        Args:
            taken: Our names that got weights.
            kept: Our names for which these have none.
            left: Our names, of these weights, that the policy does not have.

        Raises:
            UsageError: a chain is longer here or there.
        """
        chains = {_chain_of(name) for name in taken} - {""}
        for name in left:
            if _chain_of(name) in chains:
                raise UsageError(
                    f"layer {self.sources[name].rpartition('.')[0]}: the network of the run has no"
                    f" such layer; that of {self.peer} has more layers",
                    hint=self._sizes(_chain_of(name)),
                )
        for name in kept:
            if _chain_of(name) in chains:
                raise UsageError(
                    f"layer {name.rpartition('.')[0]}: the network of {self.peer} has no"
                    " such layer; that of the run has more layers",
                    hint=self._sizes(_chain_of(name)),
                )

    def _sizes(self, chain: str) -> str:
        sizes = [each.shape[0] for name, each in self.tensors.items()
                 if _chain_of(name) == chain and name.endswith(".weight")]  # fmt: skip
        if "encoder" not in chain:
            sizes = sizes[:-1]
        return f"set policy.model.{self.sizes}={sizes}"


def _text(value: object) -> str:
    return str([*value]) if isinstance(value, tuple) else str(value)


def _chain_of(name: str) -> str:
    """Returns the network that a layer belongs to; empty: what is no layer."""
    return name.rpartition(".layers.")[0]


def peer_weights(file: str | Path, *, obs_norm: str | Path | None = None) -> PeerWeights | None:
    """Returns the networks of a checkpoint; None if it is of no framework that is known here.

    Args:
        file: The checkpoint.
        obs_norm: An .npz file with `mean` and `var` of the observations, and maybe `epsilon`, if
            the environment normalised them and the checkpoint does not say how.

    Raises:
        UsageError: a file cannot be read, or its networks are not chains of linear layers.
    """
    check_archive(file)
    read = read_tensors(file)
    found = networks_of(read, file)
    if found is None:
        return None
    if obs_norm is not None:
        if found.convs:
            raise UsageError(f"--obs-norm: {file} has convolutions, which take pixels")
        if found.seen is not None:
            raise UsageError(f"--obs-norm: {file} has statistics of its own", hint="leave it out")
        scale = read_scale(obs_norm)
        found = found._replace(seen=scale, critic_seen=scale)
    named = {**_named(found)}
    notes = tuple(_notes(found))
    sources = {source for _, source in named.values()}
    sources |= {f"{layer.name}.{part}" for twin in found.twins or () for layer in twin
                for part in ("weight", "bias")}  # fmt: skip
    check_finite({name: each for name, each in read.items() if name in sources})
    check_finite({source: each for each, source in named.values()})
    return PeerWeights(
        found.peer,
        {name: tensor for name, (tensor, _) in named.items()},
        {name: source for name, (_, source) in named.items()},
        actions_of(found, read),
        notes,
        tuple(name for name in read if name not in sources and not _ASIDE.match(name)),
        found.twins is not None,
        "actor_hidden_size_list" if found.twins is not None else "encoder_hidden_size_list",
        _memory_options(found),
    )


def _memory_options(found: Networks) -> dict[str, object]:
    """Returns the options of a model with the memory of a checkpoint; {} if there is none."""
    if not found.memory:
        return {}
    hidden = {
        f"{name}_head_hidden_size_list": tuple(len(each.bias) for each in layers[:-1])
        for name, layers in (("actor", found.actor), ("critic", found.critic))
        if layers
    }
    size = found.memory["weight_hh_l0"].shape[1]
    return {"rnn": "lstm", "rnn_hidden_size": size, "encoder_hidden_size_list": (), **hidden}


def _named(found: Networks) -> dict[str, tuple[torch.Tensor, str]]:
    actor = _after(found.actor, found.seen)
    if found.twins is not None:
        return _layers("model.actor", actor) | _twins(found)
    if found.memory:
        return _recurrent(found)
    if not found.critic:
        *hidden, last = actor
        places = [f"model.encoder.layers.{i}" for i in range(len(hidden))]
        named = _tensors([*places, "model.heads.0.advantage.layers.0"], [*hidden, last])
        return _layers("model.conv", found.convs) | named
    critic = _after(found.critic, found.critic_seen)
    if found.value is not None:
        name, weight, bias = critic[-1]
        std, mean = found.value.std.float(), found.value.mean.float()
        critic[-1] = Layer(name, weight * std[:, None], bias * std + mean)
    named = _layers("model.encode.conv", found.convs) | _layers("model.encoder", found.trunk)
    named |= _layers("model.actor", actor) | _layers("model.critic", critic)
    if found.log_std is not None:
        named["model.log_std"] = found.log_std.float(), "log_std"
    return named


def _recurrent(found: Networks) -> dict[str, tuple[torch.Tensor, str]]:
    """Returns a memory with an actor, and with a critic if it sees the same memory."""
    named = {f"model.rnn.rnn.{name}": (each.float(), f"{_LSTM}.{name}")
             for name, each in found.memory.items()}  # fmt: skip
    named |= _layers("model.actor", found.actor)
    named |= _layers("model.critic", found.critic)
    if found.log_std is not None:
        named["model.log_std"] = found.log_std.float(), "log_std"
    return named


def _layers(network: str, layers: Sequence[Layer]) -> dict[str, tuple[torch.Tensor, str]]:
    return _tensors([f"{network}.layers.{i}" for i in range(len(layers))], layers)


def _twins(found: Networks) -> dict[str, tuple[torch.Tensor, str]]:
    """Returns the Q networks as one batched network, whose matrices are transposed."""
    if not found.twins:
        return {}
    if len({tuple(each.weight.shape for each in twin) for twin in found.twins}) > 1:
        raise UsageError(f"{found.peer}: the Q networks have layers of different sizes")
    twins = [_after(each, _with_actions(found.critic_seen, each[0])) for each in found.twins]
    named = {}
    for i, layers in enumerate(zip(*twins, strict=True)):
        weights = torch.stack([each.weight.T for each in layers])
        biases = torch.stack([each.bias[None] for each in layers])
        named[f"model.critic.weights.{i}"] = weights.contiguous(), f"{layers[0].name}.weight"
        named[f"model.critic.biases.{i}"] = biases, f"{layers[0].name}.bias"
    return named


def _with_actions(scale: Scale | None, first: Layer) -> Scale | None:
    """Returns statistics of observations and of the actions behind them, which stay as they are."""
    if scale is None:
        return None
    actions = torch.zeros(max(0, first.weight.shape[1] - scale.mean.numel()))
    return Scale(torch.cat([scale.mean, actions]), torch.cat([scale.std, actions + 1]), scale.clip)


def _tensors(places: Sequence[str], layers: Sequence[Layer]) -> dict[str, tuple[torch.Tensor, str]]:
    named = {}
    for place, layer in zip(places, layers, strict=True):
        named[f"{place}.weight"] = layer.weight.contiguous().clone(), f"{layer.name}.weight"
        named[f"{place}.bias"] = layer.bias.contiguous().clone(), f"{layer.name}.bias"
    return named


def _after(layers: Sequence[Layer], scale: Scale | None) -> list[Layer]:
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
    notes = [found.note] if found.note else []
    if found.seen is not None and found.seen.clip is not None:
        bound = f"+-{found.seen.clip:g}"
        notes.append(f"{found.peer} clips normalised observations to {bound}; here they are not"
                     " clipped")  # fmt: skip
    return notes


def compare_actions(
    act: Callable[[Any], Any],
    file: str | Path,
    weights: PeerWeights,
    model: Mapping[str, Any],
    spaces: tuple[Space[Any], Space[Any]],
) -> int:
    """Compares actions here with those that the other framework recorded; returns their number.

    Both are clipped to the action space first, as environments do it.

    Args:
        act: Returns the action of our policy for one observation.
        file: An .npz file with `obs` [N, ...] and `action` [N, ...], in units of the environment.
        weights: The weights that the policy has.
        model: Options of our model.
        spaces: Spaces of observations and of actions.

    Raises:
        UsageError: the file has other shapes or values that are not finite, or actions differ; the
            message says where, if that can be found out.
    """
    seen, space = spaces
    obs, wanted = _recorded(file, seen, space)
    found = np.stack([np.asarray(act(each)).reshape(wanted.shape[1:]) for each in obs])
    unlike = _unlike(found, wanted, space)
    if not unlike.any():
        return len(obs)
    raise UsageError(
        f"actions differ from those of {weights.peer} on {int(unlike.sum())} of {len(obs)}"
        f" observations, the first time on number {int(unlike.argmax())}",
        hint=_why(weights, torch.as_tensor(obs).float(), wanted, model, space),
    )


def _recorded(file: str | Path, seen: Space[Any], space: Space[Any]) -> tuple[_Array, _Array]:
    """Returns observations and actions of a file, in the shapes of their spaces."""
    try:
        with Path(file).open("rb") as opened, np.load(opened, allow_pickle=False) as data:
            obs, wanted = data["obs"], data["action"]
    except Exception as error:  # of a broken file: whatever the reader raises
        raise UsageError(
            f"--compare: {file}: expected an .npz with obs and action: {error}"
        ) from error
    for name, each, its in (("obs", obs, seen), ("action", wanted, space)):
        shape = getattr(its, "shape", None)
        if shape is None:
            raise UsageError(f"--compare: {name} of the run is not an array, but {its}")
        if each.dtype.kind not in "biuf" or not np.isfinite(each).all():
            raise UsageError(f"--compare: {file}: {name} has values that are not finite numbers")
        flat = name == "action" and each.ndim > 0 and each.size == len(each) * math.prod(shape)
        if each.ndim == 0 or not len(each) or not (each.shape[1:] == shape or flat):
            raise UsageError(
                f"--compare: {file}: {name} is {[*each.shape]}, expected [N"
                f"{''.join(f', {size}' for size in shape)}] with at least one row"
            )
    if len(obs) != len(wanted):
        raise UsageError(f"--compare: {file}: {len(obs)} observations, but {len(wanted)} actions")
    return obs, wanted.reshape(len(wanted), *(space.shape or ()))


def _unlike(found: _Array, wanted: _Array, space: Space[Any]) -> _Array:
    """Returns which actions differ, bool [N]."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or np.dtype(space.dtype).kind != "f":
        differs = found != wanted
    else:
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        found, wanted = (np.clip(each.astype(np.float64), low, high) for each in (found, wanted))
        bounded, spread = np.isfinite(high - low), np.ptp(wanted, axis=0)
        largest = np.abs(wanted).max(axis=0)
        rest = np.where(spread > 0, spread, np.where(largest > 0, largest, 1.0))
        far = _EQUAL * np.where(bounded, np.where(bounded, high - low, 0.0), rest)
        differs = ~(np.abs(found - wanted) <= far)
    return np.asarray(differs.reshape(len(wanted), -1).any(1))


def _why(
    weights: PeerWeights,
    obs: torch.Tensor,
    wanted: _Array,
    model: Mapping[str, Any],
    space: Space[Any],
) -> str:
    """Returns what would make the actions equal: another activation, or another first layer."""
    if any(name.startswith("model.rnn.") for name in weights.tensors):
        return (
            "the observations have to be those of one episode from its start, in order; compare"
            f" policy.model.activation, which is {model.get('activation')}, with theirs"
        )
    start = "model.actor.layers." if "model.actor.layers.0.weight" in weights.tensors else ""
    names = [name.removesuffix(".weight") for name in weights.tensors
             if name.endswith(".weight") and "critic" not in name]  # fmt: skip
    first = weights.sources[f"{names[0]}.weight"].removesuffix(".weight")
    fits = obs.flatten(1).shape[1] == weights.tensors[f"{names[0]}.weight"].shape[1]
    for other, function in _ACTIVATIONS.items() if fits else ():
        x = obs.flatten(1)
        for number, name in enumerate(names):
            x = x @ weights.tensors[f"{name}.weight"].T + weights.tensors[f"{name}.bias"]
            x = function(x) if number < len(names) - 1 else x
        action = _action(x, space, squashed=weights.squashed) if start else x.argmax(1).numpy()
        if (
            action.size == wanted.size
            and not _unlike(action.reshape(wanted.shape), wanted, space).any()
        ):
            if other == model.get("activation"):
                return "the layers are equal: set policy.action_scaling to what the actions have"
            return f"after layer {first} there is {other}: set policy.model.activation={other}"
    return (
        f"layer {first} gets other numbers, or what follows it is none of"
        f" {', '.join(_ACTIVATIONS)}; observations that the environment normalised need --obs-norm"
    )


def _action(output: torch.Tensor, space: Space[Any], *, squashed: bool) -> _Array:
    """Returns the actions of what an actor gives, [N, ...]."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return np.asarray(output.argmax(1))
    if not squashed:
        return np.asarray(output)
    mean = np.asarray(output[:, : low.size].tanh()).reshape(-1, *low.shape)
    return np.asarray(low + (mean + 1) / 2 * (high - low))
