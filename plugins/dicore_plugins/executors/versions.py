"""Versions of a policy's parameters: to act by a copy while the policy itself is trained."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from dicore_plugins.policies.base import Policy, mode_attribute

__all__ = ["ActingPolicy"]

Tensors = list[torch.Tensor]


class ActingPolicy:
    """A copy of a policy that acts by an earlier version of its parameters.

    Args:
        policy: The policy, which is trained.
        field: The mode: `collect` or `eval`.
        max_lag: Number of versions that are kept besides the newest.

    Attributes:
        mode: The copy's mode.
        live: Nobody is known to train the policy: versions are taken when they are asked for.
    """

    def __init__(self, policy: Policy, field: str, max_lag: int) -> None:
        self.policy = policy
        self.live = False
        model = policy.get_attribute("model")
        copied = copy.deepcopy(model)
        options = {"enable_field": (field,), "device": policy.get_attribute("device")}
        twin = type(policy)(policy.get_attribute("cfg"), model=copied, **options)
        self._from, self._to = model, copied
        self._max_lag = max_lag
        self._versions: OrderedDict[int, Tensors] = OrderedDict()
        self._twin = twin
        self._memory: Any = None
        self._lock = threading.Lock()
        self.mode = getattr(twin, f"{field}_mode")

    @classmethod
    def of(cls, mode: Any, field: str, max_lag: int) -> ActingPolicy | None:
        """Returns a copy for a mode of a policy; None if it cannot be copied."""
        policy = getattr(mode.forward, "__self__", None)
        model = mode_attribute(mode, "model", None)
        if not isinstance(policy, Policy) or not isinstance(model, nn.Module):
            return None
        try:
            made = cls(policy, field, max_lag)
        except (TypeError, AttributeError):  # its arguments are others
            return None
        functions = {}
        for name, function in zip(mode._fields, mode, strict=True):
            again = getattr(function, "of_mode", None)  # it wraps that of the policy
            if again is not None:
                made.mode = again(made.mode)
            elif getattr(function, "__self__", None) is not policy:
                functions[name] = function
        if functions:
            return None
        made._twin._like = mode  # noqa: SLF001 - the samples of both have the same columns
        made._memory = mode_attribute(mode, "collect_state", None)
        return made

    def restore_memory(self) -> None:
        """Gives the copy the policy's memory of running episodes, which a reset clears."""
        if self._memory is not None:
            self._twin.set_attribute("collect_state", self._memory)

    def take(self) -> None:
        """Acts by the present parameters."""
        _copy(_tensors(self._to), _tensors(self._from))

    def publish(self, step: int) -> None:
        """Copies the present parameters as those after a step."""
        with self._lock:
            self._publish(step)

    def _publish(self, step: int) -> None:
        tensors = _tensors(self._from)
        slot = self._versions.pop(step, None)
        while slot is None and len(self._versions) > self._max_lag + 1:
            slot = self._versions.popitem(last=False)[1]
        if slot is None:
            slot = [torch.empty_like(each) for each in tensors]
        _copy(slot, tensors)
        self._versions[step] = slot

    def restart(self, step: int) -> None:
        """Keeps the present parameters only, as those after a step."""
        with self._lock:
            self._versions.clear()
            self._publish(step)

    def adopt(self, step: int) -> None:
        """Acts by the newest version that is not newer than a step, or else the oldest."""
        if self.live:
            self.take()
            return
        with self._lock:
            known = [each for each in self._versions if each <= step] or [min(self._versions)]
            _copy(_tensors(self._to), self._versions[max(known)])


def _tensors(model: nn.Module) -> Tensors:
    return [*model.parameters(), *model.buffers()]


def _copy(to: Tensors, given: Tensors) -> None:
    with torch.no_grad():
        torch._foreach_copy_(to, given)
