"""Middleware that moves training data to a device before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dicore.task import OnlineRLContext, middleware
from dicore.task.middleware import Role
from dicore_plugins.functional.samples import to_batch

__all__ = ["device_prefetcher"]


def device_prefetcher(device: str) -> Callable[[OnlineRLContext], None]:
    """Copies the training data to a device; in async mode during the update before.

    Place it between what fetches data and `trainer`. The next batch is fetched and copied while the
    present one is trained on, if the fetcher takes no priorities back.

    Args:
        device: The learner's device, `cpu` or `cuda`.

    Returns:
        A middleware: train_data -> train_data, a `Batch` of tensors (or a dict of them).
    """

    @middleware(reads=["train_data"], writes=["train_data"], uses=[], role=Role.FETCHER)
    def prefetch(ctx: OnlineRLContext) -> None:
        data = ctx.train_data
        if isinstance(data, Mapping):
            ctx.train_data = {name: to_batch(each, device) for name, each in data.items()}
        elif data is not None:
            ctx.train_data = to_batch(data, device)

    return prefetch
