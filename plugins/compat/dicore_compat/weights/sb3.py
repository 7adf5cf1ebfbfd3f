"""Takes the networks of Stable-Baselines3 and sb3-contrib apart.

What `model.save` writes is an archive: tensors by name, and a JSON text with the arguments of the
algorithm. Of that text, numbers and names of classes are read; what is pickled in it is not.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import torch

from dicore.errors import UsageError
from dicore_compat.weights.chains import Layer, Networks, Tensors, after_convs, chain, head, stacked

__all__ = ["FORM", "Arguments", "arguments_of", "has_memory", "networks"]

FORM: Final = re.compile(
    r"mlp_extractor\.|action_net\.|lstm_actor\.|q_net\.(q_net|features_extractor)\."
    r"|quantile_net\.(quantile_net|features_extractor)\.|actor\.(latent_pi|mu|features_extractor)\."
)
"""What names begin with."""
_REFUSED: Final = (
    (re.compile(r"(.*)\.(ra_mean|running_mean)$"), "normalises batches"),
    (re.compile(r"(mlp_extractor\.shared_net\.\d+)\."), "is shared by actor and critic"),
    (re.compile(r"((?:actor|critic)\.features_extractor\.[\w.]+)\.weight$"),
     "belongs to an extractor of features before an actor with Q networks"),
    (re.compile(r"((?:\w+\.)?features_extractor\.(?!cnn\.|linear\.)[\w.]+)\.\w+$"),
     "belongs to another extractor of features than NatureCNN"),
)  # fmt: skip
_BY_HAND: Final = "map the names by hand: --suggest table.yaml"
_DATA: Final = "data"
_DATA_BYTES: Final = 16 << 20


class Arguments(NamedTuple):
    """What an archive says about its algorithm.

    Args:
        quantiles: Number of quantiles of QR-DQN and TQC; None: not said.
        action_space: Name of the class of the action space, such as `Box`; empty: not said.
    """

    quantiles: int | None = None
    action_space: str = ""


def arguments_of(file: str | Path) -> Arguments:
    """Returns what an archive says about its algorithm; nothing of another file.

    Raises:
        UsageError: the text in the archive is none of JSON, cannot be read, or is too large.
    """
    try:
        found = json.loads(_data(file))
    except (ValueError, RecursionError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as e:
        raise UsageError(f"{file}: {_DATA} in the archive is not JSON: {e}") from e
    found = found if isinstance(found, dict) else {}
    count, space = found.get("n_quantiles"), found.get("action_space")
    kind = re.search(r"(\w+)'>$", str(space.get(":type:"))) if isinstance(space, dict) else None
    return Arguments(
        count if isinstance(count, int) and count > 0 else None, kind.group(1) if kind else ""
    )


def _data(file: str | Path) -> bytes:
    """Returns the text in an archive; `{}` of a file without one."""
    if not zipfile.is_zipfile(file):
        return b"{}"
    with zipfile.ZipFile(file) as archive:
        if _DATA not in archive.namelist():
            return b"{}"
        if archive.getinfo(_DATA).file_size > _DATA_BYTES:
            raise UsageError(f"{file}: {_DATA} in the archive has more than 16 MiB")
        return archive.read(_DATA)


def networks(tensors: Tensors, given: Arguments) -> Networks:
    """Returns the networks of a policy.

    Args:
        tensors: Its tensors by name.
        given: What the archive says.

    Raises:
        UsageError: a layer is of a form that is not read here; the message names it.
    """
    for name in tensors:
        for form, why in _REFUSED:
            if found := form.match(name):
                raise UsageError(f"sb3: layer {found.group(1)} {why}", hint=_BY_HAND)
    if _has(tensors, "actor"):
        return _with_q(tensors)
    for name in ("q_net", "quantile_net"):
        if _has(tensors, name):
            return _values(tensors, name, given)
    if has_memory(tensors):
        return _recurrent(tensors)
    if not _has(tensors, "value_net"):
        return _ars(tensors, given)
    return _actor_critic(tensors)


def _actor_critic(tensors: Tensors) -> Networks:
    """Reads PPO, A2C, TRPO and MaskablePPO."""
    for name, each in tensors.items():
        whole = re.sub(r"^(pi|vf)_", "", name)
        if whole != name and not torch.equal(each, tensors.get(whole, each.new_empty(0))):
            raise UsageError(
                f"sb3: layer {name.rpartition('.')[0]} is not that of {whole.rpartition('.')[0]}:"
                " actor and critic see features of their own",
                hint=_BY_HAND,
            )
    log_std = tensors.get("log_std")
    if log_std is not None and log_std.ndim != 1:
        raise UsageError(
            f"sb3: log_std is {[*log_std.shape]}: exploration that depends on the state (use_sde)"
            " is not read here",
            hint="train with use_sde=False, or map the names by hand: --suggest table.yaml",
        )
    convs, trunk = _features(tensors, "features_extractor")
    actor = _joined(tensors, ("mlp_extractor.policy_net", "action_net"), trunk)
    critic = _joined(tensors, ("mlp_extractor.value_net", "value_net"), trunk)
    return Networks("sb3", actor, critic, log_std, convs=convs, trunk=trunk)


def has_memory(tensors: Tensors) -> bool:
    """Returns whether it is RecurrentPPO of sb3-contrib."""
    return _has(tensors, "lstm_actor")


def _recurrent(tensors: Tensors) -> Networks:
    """Reads RecurrentPPO on vectors, with one LSTM layer.

    Its critic is read if it sees the memory of the actor (`shared_lstm=True`); networks here have
    one memory.
    """
    memory = {name.removeprefix("lstm_actor."): each for name, each in tensors.items()
              if name.startswith("lstm_actor.")}  # fmt: skip
    deeper = next((name for name in memory if not name.endswith("_l0")), None)
    if deeper is not None:
        raise UsageError(
            f"sb3: lstm_actor.{deeper} is of another layer than the first; here is one",
            hint="train with n_lstm_layers=1",
        )
    if _has(tensors, "features_extractor"):
        raise UsageError("sb3: an LSTM behind convolutions is not read here", hint=_BY_HAND)
    below = Layer("lstm_actor", memory["weight_hh_l0"].float(), memory["weight_hh_l0"][0].float())
    actor = _joined(tensors, ("mlp_extractor.policy_net", "action_net"), [below])
    own = next((name for name in ("lstm_critic", "critic") if _has(tensors, name)), "")
    names = ("mlp_extractor.value_net", "value_net")
    critic = [] if own else _joined(tensors, names, [below])
    note = f"the critic of the file has a network of its own ({own}), here it sees the memory of"
    return Networks(
        "sb3", actor, critic, tensors.get("log_std"), memory=memory,
        note=f"{note} the actor: its layers are not taken" if own else "",
    )  # fmt: skip


def _with_q(tensors: Tensors) -> Networks:
    """Reads SAC and TQC, whose actors have deviations, and TD3 and DDPG, whose actors do not."""
    starts = sorted({name.split(".")[1] for name in tensors if re.match(r"critic\.qf\d+\.", name)},
                    key=lambda name: int(name[2:]))  # fmt: skip
    twins = [chain(tensors, rf"critic\.{start}\.") for start in starts]
    if not _has(tensors, "actor.log_std") and "actor.log_std" not in tensors:
        return Networks("sb3", chain(tensors, r"actor\.mu\."), [], twins=twins)
    if "actor.log_std" in tensors:
        raise UsageError(
            "sb3: actor.log_std is no layer: exploration that depends on the state (use_sde) is not"
            " read here",
            hint="train with use_sde=False, or map the names by hand: --suggest table.yaml",
        )
    *hidden, mean = _joined(tensors, ("actor.latent_pi", "actor.mu"), ())
    (log_std,) = chain(tensors, r"actor\.log_std\.")
    if not hidden:
        raise UsageError(f"sb3: layer {mean.name} has no hidden layer before it", hint=_BY_HAND)
    both = stacked(hidden[-1], mean, log_std)
    return Networks("sb3", [*hidden, both], [], twins=twins, deviations=True)


def _values(tensors: Tensors, name: str, given: Arguments) -> Networks:
    """Reads DQN, and QR-DQN, which orders the outputs by quantile first."""
    convs, trunk = _features(tensors, f"{name}.features_extractor")
    layers = [*trunk, *_joined(tensors, (f"{name}.{name}",), trunk)]
    if name == "quantile_net":
        last, count = layers[-1], given.quantiles
        if count is None or len(last.bias) % count:
            raise UsageError(
                f"sb3: layer {last.name} has {len(last.bias)} outputs, and the file does not say of"
                " how many quantiles",
                hint="import what model.save wrote, not the tensors of the policy alone",
            )
        weight = last.weight.unflatten(0, (count, -1)).transpose(0, 1).flatten(0, 1)
        bias = last.bias.unflatten(0, (count, -1)).T.flatten()
        layers[-1] = Layer(last.name, weight, bias)
    return Networks("sb3", layers, [], convs=convs)


def _ars(tensors: Tensors, given: Arguments) -> Networks:
    """Reads ARS: an actor alone, squashed by tanh if actions are continuous.

    Raises:
        UsageError: the file does not say which actions there are.
    """
    if not given.action_space:
        raise UsageError(
            "sb3: the file has only an actor, of ARS, and does not say whether actions are"
            " continuous",
            hint="import what model.save wrote, not the tensors of the policy alone",
        )
    weights = {name: each for name, each in tensors.items() if name.endswith(".weight")}
    zeros = {f"{name[:-6]}bias": each.new_zeros(len(each)) for name, each in weights.items()}
    layers = chain({**zeros, **tensors}, r"action_net\.")  # its linear policies have no bias
    return Networks("sb3", layers, [], twins=[] if given.action_space == "Box" else None)


def _features(tensors: Tensors, start: str) -> tuple[Sequence[Layer], Sequence[Layer]]:
    """Returns convolutions and the linear layer behind them, if there are any."""
    if not _has(tensors, start):
        return (), ()
    return after_convs(tensors, rf"{re.escape(start)}\.(cnn|linear)\.")


def _joined(tensors: Tensors, names: Sequence[str], trunk: Sequence[Layer]) -> list[Layer]:
    """Returns the layers of networks that follow each other; all but the last may be empty."""
    layers: list[Layer] = []
    for name in names:
        before = layers or trunk
        if name != names[-1] and not _has(tensors, name):
            continue
        layers += head(tensors, name, before) if before else chain(tensors, rf"{re.escape(name)}\.")
    return layers


def _has(tensors: Tensors, start: str) -> bool:
    return any(name.startswith(f"{start}.") for name in tensors)
