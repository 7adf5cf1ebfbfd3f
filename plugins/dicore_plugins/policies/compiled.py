"""Updates that are compiled or in reduced precision; acting uses the network itself."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from dicore.data import Tree, tree_map
from dicore.errors import UsageError

_COMPILERS = ("g++", "clang++", "c++")


def for_updates(forward: Callable[..., Any], learn: Any, device: str) -> Callable[..., Any]:
    """Returns a function of updates as the options want it: the forward pass, or a loss.

    Args:
        forward: A network, whose parameters stay its own, or a function that uses networks.
        learn: Options, which the policy need not have: `compile` (by `torch.compile`, from the
            first call on; random numbers stay those of torch) and `autocast` (dtype of the matrix
            products, or None); outputs are float32 in any case.
        device: Device of the networks.

    Raises:
        UsageError: there is no C++ compiler, which `compile` needs on CPU.
    """
    if learn.get("compile"):
        _need_compiler(device)
        plain = getattr(forward, "forward", forward)
        forward = _Changed(plain, partial(torch.compile, options={"fallback_random": True}))
    autocast = learn.get("autocast")
    if autocast is None:
        return forward
    if autocast == "auto":  # by a pipeline; whoever only acts by this policy need not know
        return _Changed(forward, partial(partial, _unsettled))
    kind, dtype = torch.device(device).type, getattr(torch, autocast)
    return _Changed(forward, partial(partial, _in_reduced_precision, kind, dtype))


def replace_losses(policy: Any, *names: str, draws: tuple[str, ...] = ()) -> None:
    """Replaces methods of a policy by `for_updates` of them, if its options want it.

    Args:
        policy: A policy with `cfg.learn`.
        *names: Methods that compute losses; those that it does not have are left out.
        draws: Methods that draw random numbers by NumPy, which a compiled loss calls as they are.

    Raises:
        UsageError: there is no C++ compiler, which `compile` needs on CPU.
    """
    learn, device = policy.get_attribute("cfg").learn, policy.get_attribute("device")
    if learn.get("compile"):
        for name in draws:
            setattr(policy, name, _Changed(getattr(policy, name), torch.compiler.disable))
    for name in names:
        if hasattr(policy, name):
            setattr(policy, name, for_updates(getattr(policy, name), learn, device))


def differentiates(model: Any, plain: type, learn: Any) -> bool:
    """Returns whether a network, if it is a `plain` one, computes its gradients without autograd.

    That is faster, but neither compiled nor in reduced precision.
    """
    return (
        getattr(type(model), "forward", None) is getattr(plain, "forward", model)
        and not (learn.get("compile") or learn.get("autocast"))
        and bool(model.differentiable())
    )


class _Changed:
    """A function as `change` returns it; in a copy of a policy, that of the copy's own method."""

    def __init__(
        self, plain: Callable[..., Any], change: Callable[[Any], Callable[..., Any]]
    ) -> None:
        self._plain, self._change = plain, change
        self._changed = change(plain)

    def __call__(self, *inputs: Tree) -> Any:
        return self._changed(*inputs)

    def __deepcopy__(self, memo: dict[int, object]) -> _Changed:
        return _Changed(copy.deepcopy(self._plain, memo), self._change)


def _in_reduced_precision(kind: str, dtype: torch.dtype, forward: Any, *inputs: Tree) -> Any:
    with torch.autocast(kind, dtype):
        output = forward(*inputs)
    return tree_map(lambda leaf: leaf.float(), output)


def _unsettled(forward: Any, *inputs: Tree) -> Any:
    raise UsageError(
        "policy.learn.autocast=auto: nothing has measured updates, which serial pipelines do",
        hint="set policy.learn.autocast=bfloat16, or leave it out",
    )


def _need_compiler(device: str) -> None:
    names = [each for each in (os.environ.get("CXX"), *_COMPILERS) if each]
    if device == "cpu" and not any(map(shutil.which, names)):
        raise UsageError(
            "policy.learn.compile: no C++ compiler was found, which torch.compile needs on CPU",
            hint="install g++ (or set CXX), or set policy.learn.compile=false",
        )
