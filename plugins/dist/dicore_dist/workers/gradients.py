"""Several learners as one: averages their gradients between backward and the optimizer's step.

The gradient of a policy's network is one flat tensor, so an update takes one all-reduce (gloo on
the CPU, NCCL on GPUs). With losses that are means over the batch, n learners with a share of the
batch each make the update of one learner with the whole batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn

from dicore.errors import DicoreError, UsageError
from dicore_plugins.models.encoders.renorm import BatchRenorm
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.optimizers.flat import FlatOptimizer

__all__ = ["average_gradients", "join_group", "leave_group", "optimizers_of", "sync_gradients"]


def join_group(
    address: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    *,
    backend: str = "gloo",
    timeout: float = 60.0,
) -> None:
    """Joins the process group of all learners; returns when all have joined.

    Args:
        address: `host:port`, where learner 0 listens. None: address, rank and world size are those
            that `torchrun` gives its processes; those that it starts again join another group.
        rank: Number of this learner.
        world_size: Number of learners.
        backend: `gloo` or `nccl`.
        timeout: Limit for joining, and for each exchange, in seconds.

    Raises:
        DicoreError: not all learners have joined in time.
        UsageError: there is no address, and the process was not started by `torchrun`.
    """
    given = os.environ if address is None else {}
    try:
        rank = int(given["RANK"]) if rank is None else rank
        world_size = int(given["WORLD_SIZE"]) if world_size is None else world_size
        address = address or f"{given['MASTER_ADDR']}:{given['MASTER_PORT']}"
    except KeyError as error:
        raise UsageError(
            f"join_group: {error.args[0]} is not set",
            hint="start the program by torchrun, or pass address, rank and world_size",
        ) from None
    host, _, port = address.rpartition(":")
    limit = timedelta(seconds=timeout)
    serves = rank == 0 and given.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    try:
        store = distributed.TCPStore(  # type: ignore[attr-defined] # public, not in `__all__`
            host, int(port), world_size, serves, limit
        )
        attempt = f"attempt {given.get('TORCHELASTIC_RESTART_COUNT', 0)}"
        distributed.init_process_group(
            backend,
            store=distributed.PrefixStore(attempt, store),  # type: ignore[attr-defined] # likewise
            rank=rank,
            world_size=world_size,
            timeout=limit,
        )
    except (RuntimeError, ValueError) as error:
        raise DicoreError(
            f"learner {rank} of {world_size} cannot join the others at {address}: {error}",
            hint="all learners must start within the timeout and reach this address",
        ) from error


def leave_group() -> None:
    """Leaves the process group, if this process is in one."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def optimizers_of(policy: object) -> list[FlatOptimizer]:
    """Returns the optimizers of a policy, by name of their attributes.

    Args:
        policy: A policy, or one of its modes.

    Raises:
        UsageError: it has none: it does not learn, or by an optimizer of its own.
    """
    found = [each for _, each in sorted(_found(_parts_of(policy)), key=lambda pair: pair[0])]
    if not found:
        raise UsageError(
            f"{type(_owner_of(policy)).__name__} has no optimizer of flat parameters to average"
            " gradients of",
            hint="use dicore_plugins.optimizers.build_optimizer in the policy",
        )
    return found


def _owner_of(policy: object) -> object:
    """Returns the policy of a mode."""
    return getattr(getattr(policy, "forward", policy), "__self__", policy)


def _parts_of(policy: object) -> Mapping[str, object]:
    parts: Mapping[str, Any] = getattr(_owner_of(policy), "__dict__", {})
    return parts


def _modules(parts: Iterable[object]) -> Iterator[nn.Module]:
    """Yields all networks, with those within them."""
    for each in parts:
        if isinstance(each, nn.Module):
            yield from each.modules()
        elif isinstance(each, Mapping):
            yield from _modules(each.values())
        elif isinstance(each, list | tuple):
            yield from _modules(each)


def _found(attributes: Mapping[str, object]) -> Iterator[tuple[str, FlatOptimizer]]:
    for name, value in attributes.items():
        if isinstance(value, FlatOptimizer):
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{key}", each) for key, each in _found(value))
        elif isinstance(value, list | tuple):
            yield from _found({f"{name}.{index}": each for index, each in enumerate(value)})


def average_gradients(policy: object) -> list[Any]:
    """Averages the gradients of all learners in every step of a policy's optimizers.

    Learners must make the same updates in the same order. An update whose loss or gradient is not
    finite in one of them is skipped by all. Running statistics (`RunningNorm`) are those of the
    samples of all learners.

    Args:
        policy: A policy, or its learn mode.

    Returns:
        Handles; `remove()` ends it.

    Raises:
        UsageError: the policy has no optimizer, or a network that normalises by its batch.
    """
    handles: list[object] = [
        each.register_step_pre_hook(_average) for each in optimizers_of(policy)
    ]
    for module in {id(each): each for each in _modules(_parts_of(policy).values())}.values():
        if isinstance(module, RunningNorm):
            handles.append(_SharedStatistics(module))
        elif isinstance(module, BatchRenorm | nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
            raise UsageError(
                f"{type(_owner_of(policy)).__name__} normalises by the statistics of its batch"
                f" ({type(module).__name__}), which differ between learners",
                hint="use one learner: pipeline.system.learner_num=1",
            )
    return handles


class _SharedStatistics:
    """Lets the statistics of all learners be those of all their samples."""

    def __init__(self, norm: RunningNorm) -> None:
        self._norm = norm
        norm.add_up = _all_sum

    def remove(self) -> None:
        """Ends it."""
        self._norm.add_up = None


def _average(optimizer: FlatOptimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    gradient = optimizer.flat.grad
    loss = args[0] if args else None
    if loss is not None:
        gradient.add_(loss.detach() * 0)  # NaN for a loss that is not finite
    _all_mean(gradient)


def sync_gradients(model: nn.Module | Flat) -> None:
    """Averages the gradients of a network over all learners, once.

    For hand-written updates: call it between `backward` and the step of the optimizer. Parameters
    without a gradient must be the same ones in all learners.

    Args:
        model: A network, or its flat parameters.
    """
    if isinstance(model, Flat):
        _all_mean(model.grad)
        return
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    if not gradients:
        return
    flat = torch.cat([each.reshape(-1) for each in gradients])
    _all_mean(flat)
    pieces = flat.split([each.numel() for each in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


def _all_mean(tensor: torch.Tensor) -> None:
    """Replaces a tensor by its mean over all learners."""
    _all_sum(tensor)
    tensor.div_(distributed.get_world_size())


def _all_sum(tensor: torch.Tensor) -> None:
    """Replaces a tensor by its sum over all learners."""
    if not (distributed.is_available() and distributed.is_initialized()):
        raise UsageError(
            "gradients cannot be averaged: this process has joined no other learners",
            hint="call torch.distributed.init_process_group, or join_group, first",
        )
    try:
        distributed.all_reduce(tensor)
    except RuntimeError as error:
        raise DicoreError(
            f"learner {distributed.get_rank()} cannot exchange gradients: another learner has"
            f" ended, or made no update within the timeout: {error}",
            hint="see the log of the other learners; resume the run from its checkpoint",
        ) from error
