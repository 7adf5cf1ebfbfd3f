"""The network of updates, compiled or in reduced precision; acting uses the network itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from dicore.data import tree_map
from dicore.errors import UsageError
from dicore_plugins.models.vac.model import VAC

_COMPILERS = ("g++", "clang++", "c++")


def training_network(model: nn.Module, learn: Any, device: str) -> Callable[..., Any]:
    """Returns the forward pass of a network for updates; its parameters stay those of the network.

    Args:
        model: The network.
        learn: Options, which the policy need not have: `compile` (by `torch.compile`, from the
            first update on) and `autocast` (dtype of the matrix products, or None); outputs are
            float32 in any case.
        device: Device of the network.

    Raises:
        UsageError: there is no C++ compiler, which `compile` needs on CPU.
    """
    forward: Callable[..., Any] = model
    if learn.get("compile"):
        _need_compiler(device)
        forward = torch.compile(model.forward)
    autocast = learn.get("autocast")
    if autocast is None:
        return forward
    kind, dtype = torch.device(device).type, getattr(torch, autocast)

    def in_reduced_precision(*inputs: Any) -> Any:
        with torch.autocast(kind, dtype):
            output = forward(*inputs)
        return tree_map(lambda leaf: leaf.float(), output)

    return in_reduced_precision


def differentiates(model: Any, learn: Any) -> bool:
    """Returns whether a network computes its gradients without autograd, which is faster."""
    plain = getattr(type(model), "forward", None) is VAC.forward
    return (
        plain
        and not (learn.get("compile") or learn.get("autocast"))
        and bool(model.differentiable())
    )


def _need_compiler(device: str) -> None:
    names = [each for each in (os.environ.get("CXX"), *_COMPILERS) if each]
    if device == "cpu" and not any(map(shutil.which, names)):
        raise UsageError(
            "policy.learn.compile: no C++ compiler was found, which torch.compile needs on CPU",
            hint="install g++ (or set CXX), or set policy.learn.compile=false",
        )
