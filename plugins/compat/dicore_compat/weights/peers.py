"""Recognises the checkpoint of another framework by its names and takes its networks apart.

Files are read by torch's weights-only loader. A network is a chain of linear layers; what stands
between them, the activation, is not in a checkpoint.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import torch

from dicore.errors import UsageError
from dicore_compat.weights import sb3
from dicore_compat.weights.chains import (
    Layer,
    Networks,
    Scale,
    Tensors,
    after_convs,
    chain,
    head,
    stacked,
)

__all__ = ["networks_of"]

_FORMS: Final = {
    "rsl_rl": re.compile(r"actor_state_dict\."),
    "skrl": re.compile(
        r"(policy|q_network)\.(net|linear_layer|(policy|action)_layer|log_std_parameter)"
    ),
    "tianshou": re.compile(r"policy\.(actor\.(preprocess|last|mu)|model\.(model|preprocess))\."),
    "cleanrl": re.compile(r"(actor_mean|actor|network)\.\d+\.weight|(\w+\.)?fc_(mean|mu)\.weight"),
    "sb3": sb3.FORM,
}
"""What names of each framework begin with."""

_SAC_NOTE: Final = (
    "CleanRL squashes log standard deviations into -5 to 2; here they are clamped: exploration"
    " differs, evaluation does not"
)
_MEMORY: Final = re.compile(
    r"(?!optimizer).*((^|\.)(rnn|gru|lstm)(\.|$)|\.(weight|bias)_(ih|hh)(_|$))"
)
"""Tensors of recurrent networks."""


def networks_of(tensors: Tensors, file: str | Path = "") -> Networks | None:
    """Returns the networks of a checkpoint; None if it is of no framework that is known here.

    Args:
        tensors: The tensors of the file by dotted names.
        file: The file, of which an archive of Stable-Baselines3 says more; empty: the tensors say
            all that is known.

    Raises:
        UsageError: it is of one, but its networks are not chains of linear layers.
    """
    peer = next((peer for peer, form in _FORMS.items() if any(map(form.match, tensors))), None)
    if peer is None:
        return None
    imaginary = next((name for name, each in tensors.items() if each.is_complex()), None)
    if imaginary is not None:
        raise UsageError(
            f"{peer}: {imaginary} has complex numbers; layers here have real ones",
            hint="save the tensors as float32",
        )
    memory = next(filter(_MEMORY.match, tensors), None)
    if memory is not None and not sb3.has_memory(tensors):
        raise UsageError(
            f"{peer}: {memory} belongs to a memory, which is not read here",
            hint="map the names by hand: --suggest table.yaml",
        )
    if peer == "sb3":
        return sb3.networks(tensors, sb3.arguments_of(file) if file else sb3.Arguments())
    return _READERS[peer](tensors)


def _rsl_rl(tensors: Tensors) -> Networks:
    seen, critic_seen = (
        _rsl_rl_scale(tensors, f"{part}_state_dict.obs_normalizer.") for part in ("actor", "critic")
    )
    std = tensors.get("actor_state_dict.distribution.std_param")
    log_std = tensors.get("actor_state_dict.distribution.log_std_param")
    return Networks(
        "rsl_rl",
        chain(tensors, r"actor_state_dict\.mlp\."),
        chain(tensors, r"critic_state_dict\.mlp\."),
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
    if any(re.match(r"critic(_\d+)?\.", name) for name in tensors):
        return _skrl_with_q(tensors, seen)
    shared = any(name.startswith("policy.value_layer.") for name in tensors)
    if not q and not shared and not any(name.startswith("value.") for name in tensors):
        raise UsageError(
            "skrl: the file has no value network and no critic, but only a policy",
            hint="map the names by hand: --suggest table.yaml",
        )
    shared = shared and not any(name.startswith("value.") for name in tensors)
    actor = chain(tensors, r"q_network\." if q else r"policy\.", without="value_layer")
    critic = [] if q else chain(tensors, r"policy\." if shared else r"value\.",
                                 without="policy_layer")  # fmt: skip
    value = _skrl_scale(tensors, "value_preprocessor.")
    return Networks(
        "skrl", actor, critic, tensors.get("policy.log_std_parameter"), seen, seen, value
    )


def _skrl_with_q(tensors: Tensors, seen: Scale | None) -> Networks:
    """Reads SAC, whose deviations do not depend on observations, and TD3 and DDPG, without them.

    The policies of its examples end with tanh and the bound of the actions, which have no tensors.
    """
    *hidden, last = chain(tensors, r"policy\.")
    log_std = tensors.get("policy.log_std_parameter")
    starts = [start for start in (r"critic\.", r"critic_1\.", r"critic_2\.")
              if any(re.match(start, name) for name in tensors)]  # fmt: skip
    twins = [chain(tensors, start) for start in starts]
    note = "skrl: tanh after the last layer of the policy is not in the file: --compare shows it"
    if log_std is not None:
        if log_std.shape != last.bias.shape:
            raise UsageError(
                f"skrl: policy.log_std_parameter is {[*log_std.shape]}, but layer {last.name} gives"
                f" {len(last.bias)} actions"
            )
        constant = Layer("log_std_parameter", torch.zeros_like(last.weight), log_std.float())
        last = Layer(
            last.name, *(torch.cat(both) for both in zip(last[1:], constant[1:], strict=True))
        )
        note += (
            ", and exploration differs: skrl adds noise to actions, here it is squashed with them"
        )
    return Networks(
        "skrl", [*hidden, last], [], None, seen, seen,
        twins=twins, deviations=log_std is not None, note=note,
    )  # fmt: skip


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
        return Networks("tianshou", chain(tensors, r"policy\.model\."), [])
    if any(name.startswith("policy.actor.sigma.") for name in tensors):
        return _tianshou_sac(tensors)
    return Networks(
        "tianshou",
        chain(tensors, r"policy\.actor\.", without="sigma"),
        chain(tensors, r"(_actor_critic\.)?critic\."),
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
    *hidden, mean = chain(tensors, r"policy\.actor\.", without="sigma")
    (log_std,) = chain(tensors, r"policy\.actor\.sigma\.")
    both = stacked(hidden[-1], mean, log_std)
    twins = [chain(tensors, start) for start in (r"critic\.", r"critic2\.")]
    return Networks("tianshou", [*hidden, both], [], twins=twins, deviations=True)


def _cleanrl(tensors: Tensors) -> Networks:
    mean = next(filter(re.compile(r"(.*\.)?fc_(mean|mu)\.weight$").match, tensors), None)
    if mean is not None:
        return _cleanrl_with_q(tensors, *mean.removesuffix(".weight").rsplit("fc_", 1))
    log_std = tensors.get("actor_logstd")
    if any(name.startswith("network.") for name in tensors):
        convs, linear = after_convs(tensors, r"network\.")
        if not any(re.match(r"(actor|critic)\.", name) for name in tensors):
            return Networks("cleanrl", linear, [], convs=convs)
        actor, critic = (head(tensors, name, linear) for name in ("actor", "critic"))
        return Networks("cleanrl", actor, critic, convs=convs, trunk=linear)
    return Networks(
        "cleanrl",
        chain(tensors, r"actor(_mean)?\."),
        chain(tensors, r"critic\."),
        None if log_std is None else log_std.flatten(),
    )


def _cleanrl_with_q(tensors: Tensors, actor: str, last: str) -> Networks:
    """Reads the actor of SAC, TD3 or DDPG and its Q networks, if the file has them.

    Args:
        tensors: The tensors.
        actor: What the names of the actor begin with.
        last: Its last layer: `mean` of SAC, whose deviations are another layer, else `mu`.

    Raises:
        UsageError: a tuple of networks has another order.
    """
    if actor[:-1].isdigit() and actor != "0.":
        raise UsageError(
            f"cleanrl: the actor ({actor}fc_{last}) is number {int(actor[:-1]) + 1} of the networks"
            " in the file; expected actor, qf1, qf2 in this order",
            hint="torch.save((actor.state_dict(), qf1.state_dict(), qf2.state_dict()), FILE)",
        )
    layers = chain(tensors, rf"{re.escape(actor)}fc(\d+|_mu)\.")
    note = ""
    if last == "mean":
        mean, log_std = (chain(tensors, rf"{re.escape(actor)}{name}\.")[0]
                         for name in ("fc_mean", "fc_logstd"))  # fmt: skip
        layers.append(stacked(layers[-1], mean, log_std))
        note = _SAC_NOTE
    asked = (start for start in ("qf1.", "qf2.", "1.", "2.") if start != actor)
    starts = [each for each in asked if any(name.startswith(f"{each}fc") for name in tensors)]
    twins = [chain(tensors, re.escape(start)) for start in starts]
    return Networks("cleanrl", layers, [], twins=twins, deviations=last == "mean", note=note)


_READERS: Final = {
    "rsl_rl": _rsl_rl, "skrl": _skrl, "tianshou": _tianshou, "cleanrl": _cleanrl,
}  # fmt: skip
