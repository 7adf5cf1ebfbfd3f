"""Nested state <-> a JSON skeleton plus flat blocks of bytes; exact, and nothing can run code.

In the skeleton plain values stand for themselves. What JSON lacks is an object whose key `$` says
what it is: `float` (inf, nan), `tuple`, `dict` (keys that are no strings), `array`, `scalar`
(numpy), `tensor` (torch). The last three point `at` a block by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import CheckpointCorruptError, CheckpointError, CheckpointWriteError

__all__ = ["Block", "decode", "encode"]

MAX_DEPTH = 64
"""Levels of nesting; deeper data is refused, since real state is never so deep."""

_CODES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16",
    "|i1": "I8", "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL",
    "<c8": "C64",
}  # fmt: skip
_TENSOR_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
    "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "U8",
    "float8_e4m3fn": "U8", "float8_e5m2": "U8",
}  # fmt: skip
_PLAIN_KINDS = "biufcmMU"


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of one array or tensor.

    Args:
        code: Type in the words of safetensors; `U8` also for what it has no word for.
        shape: Shape in units of that type.
        data: The bytes, in C order, little end first unless the skeleton says otherwise.
    """

    code: str
    shape: tuple[int, ...]
    data: memoryview[Any]

    @property
    def item_size(self) -> int:
        """Bytes of one item."""
        return self.data.nbytes // max(math.prod(self.shape), 1)


def encode(state: Any) -> tuple[Any, dict[str, Block]]:
    """Takes state apart.

    Args:
        state: Dicts, lists and tuples of None, bools, ints, floats, strings, numpy arrays and
            scalars, and torch tensors (stored as they are on the CPU, without gradient).

    Returns:
        The skeleton, which `json` can write, and the blocks by name.

    Raises:
        CheckpointWriteError: something else is in the state; the text names its place.
    """
    blocks: dict[str, Block] = {}
    return _encode(state, (), blocks), blocks


def decode(skeleton: Any, blocks: Mapping[str, tuple[str, bytearray]]) -> Any:
    """Puts state together again.

    Args:
        skeleton: As `encode` made it, read back by `json`.
        blocks: Code and bytes of each block; the arrays take over the memory.

    Raises:
        CheckpointCorruptError: the skeleton does not describe the blocks.
        CheckpointError: a tensor of a type that only torch has, and torch is not imported.
    """
    return _decode(skeleton, blocks, 0)


def _encode(value: Any, path: tuple[str, ...], blocks: dict[str, Block]) -> Any:
    if len(path) > MAX_DEPTH:
        raise CheckpointWriteError(f"state is nested deeper than {MAX_DEPTH} levels: {path[:3]} …")
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
    if kind is list:
        return [_encode(item, (*path, str(i)), blocks) for i, item in enumerate(value)]
    if kind is tuple:
        items = [_encode(item, (*path, str(i)), blocks) for i, item in enumerate(value)]
        return {"$": "tuple", "v": items}
    if isinstance(value, Mapping):
        return _encode_mapping(value, path, blocks)
    return _encode_block(value, path, blocks)


def _encode_mapping(
    value: Mapping[Any, Any], path: tuple[str, ...], blocks: dict[str, Block]
) -> Any:
    if all(type(key) is str for key in value) and "$" not in value:
        return {key: _encode(item, (*path, key), blocks) for key, item in value.items()}
    pairs = [
        [_encode(key, (*path, "<key>"), blocks), _encode(item, (*path, str(key)), blocks)]
        for key, item in value.items()
    ]
    return {"$": "dict", "v": pairs}


def _encode_block(value: Any, path: tuple[str, ...], blocks: dict[str, Block]) -> Any:
    name = (".".join(path) or "value").encode("utf-8", "replace").decode()
    while name in blocks or name == "__metadata__":
        name += "_"
    if is_tensor(value):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype in _TENSOR_CODES and str(value.layout) == "torch.strided":
            shape = tuple(value.shape)
            blocks[name] = _block(_TENSOR_CODES[dtype], shape, _tensor_bytes(value))
            return {"$": "tensor", "at": name, "dtype": dtype, "shape": list(shape)}
    elif isinstance(value, np.generic) or type(value) in (np.ndarray, np.memmap):
        array = np.asarray(value)
        if array.dtype.kind in _PLAIN_KINDS:
            blocks[name] = _block(_CODES.get(array.dtype.str, "U8"), array.shape, _bytes(array))
            tag = "scalar" if isinstance(value, np.generic) else "array"
            return {"$": tag, "at": name, "dtype": array.dtype.str, "shape": list(array.shape)}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    detail = f" of {value.dtype}" if hasattr(value, "dtype") else ""
    raise CheckpointWriteError(
        f"state at {'.'.join(path) or 'top'}: cannot store {kind}{detail}",
        hint="numbers, strings, None, dicts, lists, tuples, numpy arrays and torch tensors",
        context={"path": path},
    )


def _block(code: str, shape: tuple[int, ...], flat: Any) -> Block:
    data = memoryview(flat)
    raw = code == "U8" and math.prod(shape) != data.nbytes
    return Block(code, (data.nbytes,) if raw else shape, data)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _tensor_bytes(tensor: Any) -> Any:
    torch = loaded_torch()
    assert torch is not None
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy()


def _decode(node: Any, blocks: Mapping[str, tuple[str, bytearray]], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise CheckpointCorruptError(f"the skeleton is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, list):
        return [_decode(item, blocks, depth + 1) for item in node]
    if not isinstance(node, dict):
        return node
    tag = node.get("$")
    if tag is None:
        return {key: _decode(item, blocks, depth + 1) for key, item in node.items()}
    try:
        return _decode_tagged(tag, node, blocks, depth)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointCorruptError(f"the skeleton has a broken '{tag}': {error!r}") from None


def _decode_tagged(
    tag: str, node: dict[str, Any], blocks: Mapping[str, tuple[str, bytearray]], depth: int
) -> Any:
    if tag == "float":
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[node["v"]]
    if tag == "tuple":
        return tuple(_decode(item, blocks, depth + 1) for item in node["v"])
    if tag == "dict":
        return {
            _decode(key, blocks, depth + 1): _decode(item, blocks, depth + 1)
            for key, item in node["v"]
        }
    code, data = blocks[node["at"]]
    shape = [int(length) for length in node["shape"]]
    if tag == "tensor":
        return _decode_tensor(code, data, node["dtype"], shape)
    if tag not in ("array", "scalar"):
        raise ValueError("unknown tag")
    dtype = np.dtype(str(node["dtype"]))
    if dtype.kind not in _PLAIN_KINDS or _CODES.get(dtype.str, "U8") != code:
        raise ValueError(f"dtype {node['dtype']!r} does not fit block type {code}")
    array = _as_array(data, dtype, shape)
    return array[()] if tag == "scalar" else array


def _as_array(data: bytearray, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
    if math.prod(shape) * dtype.itemsize != len(data) or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype} is not {len(data)} bytes")
    if not data:
        return np.empty(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape)


def _decode_tensor(code: str, data: bytearray, dtype: str, shape: list[int]) -> Any:
    if _TENSOR_CODES.get(dtype) != code:
        raise ValueError(f"dtype {dtype!r} does not fit block type {code}")
    torch = loaded_torch()
    if torch is None:
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise CheckpointError(f"a tensor of {dtype} needs torch", hint="import torch first")
        return _as_array(data, np.dtype(dtype), shape)
    kind = getattr(torch, dtype)
    if math.prod(shape) * kind.itemsize != len(data) or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype} is not {len(data)} bytes")
    if not data:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=kind).reshape(shape)
