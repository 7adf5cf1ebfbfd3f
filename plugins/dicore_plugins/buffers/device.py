"""Rings whose batches are in page-locked memory, or whose columns are on a device.

Shapes: C the capacity, B samples drawn, `...` one sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dicore.data import State, Tree
from dicore.data.tree import is_tensor
from dicore.errors import SchemaError, UsageError
from dicore_plugins.buffers.memory import available_bytes, check_bytes, check_memory

if TYPE_CHECKING:
    import torch


__all__ = ["DeviceStorage", "PinnedStorage"]

Array = npt.NDArray[Any]


class PinnedStorage:
    """Columns in memory, and batches in page-locked memory, from which a GPU copies by itself.

    Args:
        device: The GPU; for `cpu` the memory is an ordinary one.
    """

    takes_tensors: ClassVar[bool] = False
    turns: ClassVar[int] = 3  # a copy to the GPU may begin as long as a batch is valid

    def __init__(self, device: str = "cuda") -> None:
        self._device = _device(device)
        self._event: torch.cuda.Event | None = None

    def check(self, needed: int, capacity: int) -> None:
        check_memory(needed, capacity)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        return np.empty(shape, dtype)

    def output(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        import torch

        locked = self._device.type == "cuda"
        made: Array = torch.empty(shape, dtype=_torch_dtype(dtype), pin_memory=locked).numpy()
        return made

    def turn(self) -> None:
        """Waits for the copies that were queued before the last draw but one."""
        if self._device.type != "cuda":
            return
        import torch

        before, self._event = self._event, torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(self._device))
        if before is not None:
            before.synchronize()

    def clear(self) -> None: ...

    def close(self, state: State | None = None) -> None: ...


class DeviceStorage:
    """Columns and batches on a device; samples are drawn there.

    Args:
        device: Device of torch.
    """

    takes_tensors: ClassVar[bool] = True
    turns: ClassVar[int] = 2

    def __init__(self, device: str = "cuda") -> None:
        self.device = _device(device)
        self._slots: Tree = None
        self._index: Tree = None

    def check(self, needed: int, capacity: int) -> None:
        free: int | None
        if self.device.type == "cuda":
            import torch

            free = torch.cuda.mem_get_info(self.device)[0]  # without what torch holds in reserve
            free += torch.cuda.memory_reserved(self.device)
            free -= torch.cuda.memory_allocated(self.device)
        elif self.device.type == "meta":
            return
        else:
            free = available_bytes()
        check_bytes(needed, capacity, free, f"on {self.device}")

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> TensorColumn:
        return TensorColumn(self, shape, dtype)

    def output(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> torch.Tensor:
        import torch

        try:
            with torch.inference_mode(False):  # it outlives the mode
                return torch.empty(shape, dtype=_torch_dtype(dtype), device=self.device)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

    def index(self, slots: Tree) -> Tree:
        """Returns slots as a tensor on the device; the columns of one draw share it."""
        if slots is not self._slots:
            import torch

            self._slots = slots
            self._index = self.moved(torch.from_numpy(np.ascontiguousarray(slots, np.int64)))
        return self._index

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns slots on the device; nobody waits for what a GPU still has to do."""
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)  # torch keeps it till then

    def turn(self) -> None: ...

    def clear(self) -> None:
        self._slots = self._index = None

    def close(self, state: State | None = None) -> None:
        self.clear()


class TensorColumn:
    """A column of a ring as a tensor."""

    def __init__(
        self, storage: DeviceStorage, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> None:
        self.tensor = storage.output(shape, dtype)
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._storage = storage

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: Tree, values: Tree) -> None:
        import torch

        if not is_tensor(values):
            values = torch.from_numpy(np.require(values, self.dtype, ["C", "W"]))
        device = self.tensor.device
        # from page-locked memory, a copy may read what its owner writes after the push
        later = device.type == "cuda" and not (values.device.type == "cpu" and values.is_pinned())
        if isinstance(rows, slice):
            self.tensor[rows].copy_(values, non_blocking=later)
        else:
            index = self._storage.moved(torch.from_numpy(np.ascontiguousarray(rows, np.int64)))
            self.tensor[index] = values.to(device, self.tensor.dtype, non_blocking=later)

    def __getitem__(self, rows: slice) -> Tree:
        return self.tensor[rows]

    def take(self, rows: Tree, axis: int, out: Tree, mode: str) -> Tree:
        """Returns samples [B, ...]; as `ndarray.take`."""
        import torch

        return torch.index_select(self.tensor, 0, self._storage.index(rows), out=out)


def _device(name: str) -> torch.device:
    import torch

    device, found = torch.device(name), torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= found:
        raise UsageError(
            f"storage=cuda and storage=pinned need the device {name}, and torch finds"
            f" {found or 'none'}",
            hint="set storage=cpu",
        )
    return device


def _torch_dtype(dtype: npt.DTypeLike) -> torch.dtype:
    import torch

    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except TypeError as error:
        raise SchemaError(f"torch has no dtype for columns of {np.dtype(dtype)}") from error
