"""Recognises the checkpoint of another framework by its names and takes its networks apart.

Files are read by torch's weights-only loader. A network is a chain of linear layers; what stands
between them, the activation, is not in a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch

from dicore.errors import UsageError

__all__ = ["Layer", "Networks", "Scale", "networks_of"]

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
        twins: Q networks of observations and actions; the actor gives means, then logarithms of
            standard deviations, and actions are squashed by tanh.
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


_FORMS: Final = {
    "rsl_rl": re.compile(r"actor_state_dict\."),
    "skrl": re.compile(r"(policy|q_network)\.(net|policy_layer|log_std_parameter)"),
    "tianshou": re.compile(r"policy\.(actor\.(preprocess|last|mu)|model\.(model|preprocess))\."),
    "cleanrl": re.compile(r"(actor_mean|actor|network)\.\d+\.weight|(\w+\.)?fc_mean\.weight"),
}
"""What names of each framework begin with."""

_MEMORY: Final = re.compile(
    r"(?!optimizer).*((^|\.)(rnn|gru|lstm)(\.|$)|\.(weight|bias)_(ih|hh)(_|$))"
)
"""Tensors of recurrent networks."""
_LAST: Final = re.compile(r"\.(last|mu|policy_layer|value_layer)(\.|$)")
"""Layers that stand at the end of a chain, whatever their place in the file."""


def networks_of(tensors: Tensors) -> Networks | None:
    """Returns the networks of a checkpoint; None if it is of no framework that is known here.

    Args:
        tensors: The tensors of the file by dotted names.

    Raises:
        UsageError: it is of one, but its networks are not chains of linear layers.
    """
    peer = next((peer for peer, form in _FORMS.items() if any(map(form.match, tensors))), None)
    if peer is None:
        return None
    memory = next(filter(_MEMORY.match, tensors), None)
    if memory is not None:
        raise UsageError(
            f"{peer}: {memory} belongs to a memory, which is not read here",
            hint="map the names by hand: --suggest table.yaml",
        )
    return _READERS[peer](tensors)


def _rsl_rl(tensors: Tensors) -> Networks:
    seen, critic_seen = (
        _rsl_rl_scale(tensors, f"{part}_state_dict.obs_normalizer.") for part in ("actor", "critic")
    )
    std = tensors.get("actor_state_dict.distribution.std_param")
    log_std = tensors.get("actor_state_dict.distribution.log_std_param")
    return Networks(
        "rsl_rl",
        _chain(tensors, r"actor_state_dict\.mlp\."),
        _chain(tensors, r"critic_state_dict\.mlp\."),
        std.log() if std is not None else log_std,
        seen,
        critic_seen,
    )


def _rsl_rl_scale(tensors: Tensors, start: str) -> Scale | None:
    mean, std = tensors.get(f"{start}_mean"), tensors.get(f"{start}_std")
    if mean is None or std is None:
        return None
    return Scale(mean[0].double(), std[0].double() + 1e-2)  # its default `eps`, which is not saved


def _skrl(tensors: Tensors) -> Networks:
    q = any(name.startswith("q_network.") for name in tensors)
    seen = _skrl_scale(tensors, "observation_preprocessor.", "state_preprocessor.")
    shared = any(name.startswith("policy.value_layer.") for name in tensors)
    if not q and not shared and not any(name.startswith("value.") for name in tensors):
        other = next((name for name in tensors if name.startswith("critic")), "only a policy")
        raise UsageError(
            f"skrl: the file has no value network, but {other}: it is not of PPO, A2C or TRPO",
            hint="map the names by hand: --suggest table.yaml",
        )
    shared = shared and not any(name.startswith("value.") for name in tensors)
    actor = _chain(tensors, r"q_network\." if q else r"policy\.", without="value_layer")
    critic = [] if q else _chain(tensors, r"policy\." if shared else r"value\.",
                                 without="policy_layer")  # fmt: skip
    value = _skrl_scale(tensors, "value_preprocessor.")
    return Networks(
        "skrl", actor, critic, tensors.get("policy.log_std_parameter"), seen, seen, value
    )


def _skrl_scale(tensors: Tensors, *starts: str) -> Scale | None:
    for start in starts:
        mean = tensors.get(f"{start}running_mean")
        var = tensors.get(f"{start}running_variance")
        if mean is not None and var is not None:
            return Scale(mean.double(), var.double().sqrt() + 1e-8, clip=5.0)  # its defaults
    return None


def _tianshou(tensors: Tensors) -> Networks:
    sigma = next(
        (each for name, each in tensors.items() if name.endswith("actor.sigma_param")), None
    )
    if any(name.startswith("policy.model.") for name in tensors):
        return Networks("tianshou", _chain(tensors, r"policy\.model\."), [])
    if any(name.startswith("policy.actor.sigma.") for name in tensors):
        return _tianshou_sac(tensors)
    return Networks(
        "tianshou",
        _chain(tensors, r"policy\.actor\.", without="sigma"),
        _chain(tensors, r"(_actor_critic\.)?critic\."),
        None if sigma is None else sigma.flatten(),
    )


def _tianshou_sac(tensors: Tensors) -> Networks:
    """Reads a squashed Gaussian actor, whose deviations are a layer, and two Q networks.

    Raises:
        UsageError: there are no two Q networks, so it is no SAC.
    """
    if not any(name.startswith("critic2.") for name in tensors):
        raise UsageError(
            "tianshou: policy.actor.sigma is a layer, and there is no critic2: it is not of SAC,"
            " the only algorithm with such an actor that is read here",
            hint="map the names by hand: --suggest table.yaml",
        )
    *hidden, mean = _chain(tensors, r"policy\.actor\.", without="sigma")
    (log_std,) = _chain(tensors, r"policy\.actor\.sigma\.")
    both = _stacked(hidden[-1], mean, log_std)
    twins = [_chain(tensors, start) for start in (r"critic\.", r"critic2\.")]
    return Networks("tianshou", [*hidden, both], [], twins=twins)


def _stacked(before: Layer, mean: Layer, log_std: Layer) -> Layer:
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


def _cleanrl(tensors: Tensors) -> Networks:
    mean = next((name for name in tensors if name.endswith("fc_mean.weight")), None)
    if mean is not None:
        return _cleanrl_sac(tensors, mean.removesuffix("fc_mean.weight"))
    log_std = tensors.get("actor_logstd")
    if any(name.startswith("network.") for name in tensors):
        convs, linear = _after_convs(tensors, r"network\.")
        if not any(re.match(r"(actor|critic)\.", name) for name in tensors):
            return Networks("cleanrl", linear, [], convs=convs)
        actor, critic = (_head(tensors, name, linear) for name in ("actor", "critic"))
        return Networks("cleanrl", actor, critic, convs=convs, trunk=linear)
    return Networks(
        "cleanrl",
        _chain(tensors, r"actor(_mean)?\."),
        _chain(tensors, r"critic\."),
        None if log_std is None else log_std.flatten(),
    )


def _cleanrl_sac(tensors: Tensors, actor: str) -> Networks:
    """Reads an actor of sac_continuous_action.py and its Q networks, if the file has them.

    Args:
        tensors: The tensors.
        actor: What the names of the actor begin with.
    """
    hidden = _chain(tensors, rf"{re.escape(actor)}fc\d+\.")
    mean, log_std = (_chain(tensors, rf"{re.escape(actor)}{name}\.")[0]
                     for name in ("fc_mean", "fc_logstd"))  # fmt: skip
    both = _stacked(hidden[-1], mean, log_std)
    asked = (start for start in ("qf1.", "qf2.", "1.", "2.") if start != actor)
    starts = [each for each in asked if any(name.startswith(f"{each}fc") for name in tensors)]
    twins = [_chain(tensors, re.escape(start)) for start in starts]
    return Networks("cleanrl", [*hidden, both], [], twins=twins)


def _after_convs(tensors: Tensors, start: str) -> tuple[list[Layer], list[Layer]]:
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
    linear = _chain(flat, start)
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


def _head(tensors: Tensors, name: str, trunk: Sequence[Layer]) -> list[Layer]:
    """Returns the layers of an actor or a critic that stands on a shared trunk."""
    shared = {f"{name}.weight", f"{name}.bias"} <= {*tensors}
    head = (
        [Layer(name, tensors[f"{name}.weight"].float(), tensors[f"{name}.bias"].float())]
        if shared
        else _chain(tensors, rf"{name}\.")
    )
    if head[0].weight.ndim != 2 or head[0].weight.shape[1] != len(trunk[-1].bias):
        raise UsageError(
            f"layer {head[0].name} is {[*head[0].weight.shape]}, but {trunk[-1].name} before it"
            f" gives {len(trunk[-1].bias)}"
        )
    return head


_READERS: Final = {
    "rsl_rl": _rsl_rl, "skrl": _skrl, "tianshou": _tianshou, "cleanrl": _cleanrl,
}  # fmt: skip


def _chain(tensors: Tensors, start: str, *, without: str = "") -> list[Layer]:
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
