"""Compares a checkpoint of another framework with the spaces and the options of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete, Space

from dicore.errors import UsageError
from dicore_compat.weights.chains import Networks, Tensors

__all__ = ["Actions", "actions_of"]

_Numbers = npt.NDArray[np.float64]

_THERE = "make the run with the environment of the checkpoint"


class Actions(NamedTuple):
    """What the networks of a checkpoint take and give.

    Args:
        peer: Name of the framework.
        first: Name of the first linear layer of the actor or Q network.
        inputs: Numbers that it takes; 0: it follows convolutions.
        last: Name of its last layer.
        number: Number of actions; of a Q network the number of its outputs.
        critics: First layer of each Q network of an actor.
        scale: `action_scale` of the file, float64 [A]; None: it has none.
        bias: Its `action_bias`.
        in_units: Actions are in units of the environment, by the custom of the framework.
    """

    peer: str
    first: str
    inputs: int
    last: str
    number: int
    critics: Sequence[str] = ()
    scale: _Numbers | None = None
    bias: _Numbers | None = None
    in_units: bool = False

    def check(self, spaces: tuple[Space[Any], Space[Any]], model: object) -> None:
        """Compares sizes and ranges with those of a run.

        Args:
            spaces: Spaces of observations and of actions.
            model: Config of the model.

        Raises:
            UsageError: something differs; the message names the layer of the file.
        """
        seen, space = spaces
        if self.inputs and isinstance(seen, Box) and self.inputs != math.prod(seen.shape):
            raise UsageError(
                f"layer {self.first} takes {self.inputs} numbers, but an observation of the run has"
                f" {math.prod(seen.shape)}",
                hint=_THERE,
            )
        self._check_count(space)
        wanted = getattr(model, "num_critics", None)
        if self.critics and isinstance(wanted, int) and wanted != len(self.critics):
            raise UsageError(
                f"the file has {len(self.critics)} of the Q networks ({', '.join(self.critics)}),"
                f" but policy.model.num_critics is {wanted}",
                hint=f"set policy.model.num_critics={len(self.critics)}, or save all of them; an"
                " actor that is saved alone needs --partial",
            )
        if isinstance(space, Box):
            self._check_range(space)

    def check_units(self, space: Space[Any], policy: Any) -> None:
        """Compares the units of actions with those of a run, where no recorded actions do.

        Args:
            space: Space of actions.
            policy: Config of the policy.

        Raises:
            UsageError: the run would scale actions that are in units of the environment.
        """
        if not (self.in_units and isinstance(space, Box) and policy.get("action_scaling", False)):
            return
        scale, bias = _range_of(space)
        if (scale != 1).any() or bias.any():
            raise UsageError(
                f"policy.action_scaling is set, which scales actions by {_shown(scale)}; those of"
                f" {self.peer} are in units of the environment",
                hint="set policy.action_scaling=false; if a wrapper scaled them there, show it by"
                " --compare",
            )

    def _check_count(self, space: Space[Any]) -> None:
        if isinstance(space, Box):
            wanted, fits = math.prod(space.shape), self.number == math.prod(space.shape)
        elif isinstance(space, Discrete):  # Q networks may give several quantiles of each
            wanted, fits = int(space.n), self.number % int(space.n) == 0
        else:
            return
        if not fits:
            raise UsageError(
                f"layer {self.last} gives {self.number} actions, but the run has {wanted}",
                hint=_THERE,
            )

    def _check_range(self, space: Box) -> None:
        if self.scale is None or self.bias is None:
            return
        ours = _range_of(space)
        if not all(
            each.size in (1, own.size) and np.allclose(each, own, rtol=1e-5, atol=1e-6)
            for each, own in zip((self.scale, self.bias), ours, strict=True)
        ):
            raise UsageError(
                f"actions have another range: action_scale is {_shown(self.scale)} and action_bias"
                f" {_shown(self.bias)} in the file, {_shown(ours[0])} and {_shown(ours[1])} in the"
                " run's action space",
                hint=_THERE,
            )


def _range_of(space: Box) -> tuple[_Numbers, _Numbers]:
    """Returns half the width and the middle of each dimension; 1 and 0 where it has no bounds."""
    low, high = (np.asarray(each, np.float64).flatten() for each in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return (high - low) / 2, (high + low) / 2


def _shown(numbers: _Numbers) -> str:
    texts = dict.fromkeys(f"{each:g}" for each in numbers)
    return next(iter(texts)) if len(texts) == 1 else f"[{', '.join(f'{x:g}' for x in numbers)}]"


def actions_of(found: Networks, tensors: Tensors) -> Actions:
    """Returns what the networks of a checkpoint take and give.

    Args:
        found: The networks.
        tensors: All tensors of the file.
    """
    layers = [*found.trunk, *found.actor]
    first, inputs = layers[0].name, 0 if found.convs else layers[0].weight.shape[1]
    if found.memory:
        first, inputs = "lstm_actor", found.memory["weight_ih_l0"].shape[1]
    count = len(found.actor[-1].bias)
    if found.twins:
        count = found.twins[0][0].weight.shape[1] - found.actor[0].weight.shape[1]
    elif found.deviations:
        count //= 2
    scale, bias = (
        next((each.double().numpy().flatten() for name, each in tensors.items()
              if name.rpartition(".")[2] == f"action_{part}"), None)
        for part in ("scale", "bias")
    )  # fmt: skip
    return Actions(
        found.peer,
        first,
        inputs,
        found.actor[-1].name,
        count,
        [twin[0].name for twin in found.twins or ()],
        scale,
        bias,
        found.log_std is not None and found.peer != "tianshou",
    )
