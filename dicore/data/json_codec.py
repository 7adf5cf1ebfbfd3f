"""Exact JSON encoding of values: types that JSON lacks are tagged; decoding runs no code.

Configs are text: `{"__tuple__": [1, 2]}`, `{"__float__": "inf"}`; numpy values are written out.
The state of a checkpoint is a skeleton and blocks of bytes: a tag is an object with the key `$`
(`{"$": "tuple", "v": [1, 2]}`), and arrays, numpy scalars and tensors point `at` a block by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import CheckpointCorruptError, CheckpointError, CheckpointWriteError

__all__ = ["Block", "decode", "decode_state", "dumps", "encode", "encode_state", "loads"]

MAX_DEPTH = 64
"""Levels of nesting that the state of a checkpoint may have."""

_TAGS = frozenset({"__float__", "__tuple__", "__numpy__", "__dict__", "__array__"})
_TEXT_KINDS, _EXACT_BYTES = "biufU", 8
_BLOCK_KINDS = "biufcmMU"
_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
    "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
_TENSOR_TYPES = {*_CODES, "complex128", "float8_e4m3fn", "float8_e5m2"}

Path = tuple[str, ...]
Blocks = Mapping[str, tuple[str, bytearray]]


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of one array or tensor.

    Args:
        code: Its type by the name that safetensors uses; `U8` also for types it does not have.
        shape: Shape in units of that type.
        data: The bytes, in C order, little endian unless the skeleton says otherwise.
    """

    code: str
    shape: tuple[int, ...]
    data: memoryview[Any]

    @property
    def item_size(self) -> int:
        """Bytes of one item."""
        return self.data.nbytes // max(math.prod(self.shape), 1)


def dumps(value: Any) -> str:
    """Writes plain data as JSON (ASCII only, keys in their order); see `encode`."""
    return json.dumps(encode(value), indent=2, allow_nan=False)


def encode(value: Any) -> Any:
    """Returns plain data as a tree that `json` can write.

    Raises:
        TypeError: the data holds a value of another type; the message gives its path.
    """
    return _encode(value, (), lambda tag, content: {f"__{tag}__": content}, _text_leaf)


def decode(tree: Any) -> Any:
    """Restores what `encode` was given, from a tree that any parser has read.

    Raises:
        ValueError: a tag has the wrong content.
    """
    return _checked(_restored, tree)


def loads(text: str) -> Any:
    """Reads what `dumps` wrote, and any other JSON.

    Raises:
        ValueError: the text is not JSON, or a tag has the wrong content.
    """
    return _checked(lambda: json.loads(text, object_hook=_untagged))


def encode_state(state: Any) -> tuple[Any, dict[str, Block]]:
    """Takes the state of a checkpoint apart.

    Args:
        state: Dicts, lists and tuples of None, bools, ints, floats, strings, numpy arrays and
            scalars, and torch tensors (stored as they are on the CPU, without gradient).

    Returns:
        The skeleton, which `json` can write, and the blocks by name.

    Raises:
        CheckpointWriteError: the state holds a value of another type; the message gives its path.
    """
    blocks: dict[str, Block] = {}

    def leaf(value: Any, path: Path) -> Any:
        return _block_leaf(value, path, blocks)

    return _encode(state, (), lambda tag, content: {"$": tag, "v": content}, leaf), blocks


def decode_state(skeleton: Any, blocks: Blocks) -> Any:
    """Restores the state of a checkpoint.

    Args:
        skeleton: As `encode_state` made it, read back by `json`.
        blocks: Code and bytes of each block; the arrays take over the memory.

    Raises:
        CheckpointCorruptError: the skeleton does not describe the blocks.
        CheckpointError: a tensor has a type that only torch has, and torch is not imported.
    """
    return _decode(skeleton, blocks, 0)


def scalar_type(value: Any) -> str | None:
    """Returns the name of a numpy scalar's type (`float32`, `bool_`), None for anything else.

    Only types whose every value a Python scalar holds exactly; long doubles do not.
    """
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return None
    dtype = value.dtype
    if dtype.kind not in _TEXT_KINDS or (dtype.kind == "f" and dtype.itemsize > _EXACT_BYTES):
        return None
    return {"U": "str_", "b": "bool_"}.get(dtype.kind) or str(dtype.name)


def is_array(value: Any) -> bool:
    """Returns whether something is a numpy array of plain numbers or booleans."""
    if type(value) is not np.ndarray:
        return False
    exact = value.dtype.kind in "biuf" and value.dtype.itemsize <= _EXACT_BYTES
    return exact and value.ndim > 0 and (value.size > 0 or value.ndim == 1)


def _encode(
    value: Any, path: Path, tag: Callable[[str, Any], Any], leaf: Callable[[Any, Path], Any]
) -> Any:
    if len(path) > MAX_DEPTH and leaf is not _text_leaf:
        raise CheckpointWriteError(f"state is nested deeper than {MAX_DEPTH} levels: {path[:3]} …")
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else tag("float", repr(value))
    if kind in (list, tuple):
        items = [_encode(item, (*path, str(i)), tag, leaf) for i, item in enumerate(value)]
        return items if kind is list else tag("tuple", items)
    if not isinstance(value, Mapping):
        return leaf(value, path)
    reserved = _TAGS if leaf is _text_leaf else {"$"}
    if all(type(key) is str and key not in reserved for key in value):
        return {key: _encode(item, (*path, key), tag, leaf) for key, item in value.items()}
    pairs = [
        [_encode(key, (*path, "<key>"), tag, leaf), _encode(item, (*path, str(key)), tag, leaf)]
        for key, item in value.items()
    ]
    return tag("dict", pairs)


def _text_leaf(value: Any, path: Path) -> Any:
    if name := scalar_type(value):
        item = str.__str__(value) if name == "str_" else value.item()
        return {"__numpy__": [name, encode(item)]}
    bases: tuple[Any, ...] = (float, int, str, list, tuple)
    for base in bases:
        if isinstance(value, base):
            return encode(str.__str__(value) if base is str else base(value))
    if is_array(value):
        return {"__array__": [str(value.dtype), encode(value.tolist())]}
    where = "$" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path)
    raise TypeError(f"{where}: {type(value).__name__} {value!r} is not plain data")


def _checked(read: Callable[..., Any], *args: Any) -> Any:
    try:
        return read(*args)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"a tag has the wrong content: {error}") from error


def _restored(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_restored(item) for item in tree]
    if isinstance(tree, dict):
        return _untagged({key: _restored(item) for key, item in tree.items()})
    return tree


def _untagged(found: dict[Any, Any]) -> Any:
    if len(found) != 1:
        return found
    ((tag, value),) = found.items()
    if tag == "__float__":
        return float(value)
    if tag == "__tuple__":
        return tuple(value)
    if tag == "__dict__":
        return {key: item for key, item in value}  # noqa: C416 - pairs come as lists
    if tag == "__array__":
        name, items = value
        array = np.array(items, dtype=np.dtype(str(name)))
        if not is_array(array):
            raise TypeError(f"{name} is not a type of numbers")
        return array
    if tag == "__numpy__":
        name, item = value
        scalar = getattr(np, name)
        if scalar_type(scalar()) != name:
            raise TypeError(f"{name} is not an exact numpy scalar")
        return scalar(item)
    return found


def _block_leaf(value: Any, path: Path, blocks: dict[str, Block]) -> Any:
    name = (".".join(path) or "value").encode("utf-8", "replace").decode()
    while name in blocks or name == "__metadata__":
        name += "_"
    if is_tensor(value):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype in _TENSOR_TYPES and str(value.layout) == "torch.strided":
            plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
            flat = plain.reshape(-1).view(loaded_torch().uint8).numpy()  # type: ignore[union-attr]
            blocks[name] = _block(_CODES.get(dtype, "U8"), tuple(value.shape), flat)
            return {"$": "tensor", "at": name, "dtype": dtype, "shape": list(value.shape)}
    elif isinstance(value, np.generic) or type(value) in (np.ndarray, np.memmap):
        array = np.asarray(value)
        if array.dtype.kind in _BLOCK_KINDS:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.nbytes else b""
            blocks[name] = _block(_numpy_code(array.dtype), array.shape, flat)
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


def _numpy_code(dtype: np.dtype[Any]) -> str:
    return _CODES.get(dtype.name, "U8") if dtype.str[0] in "<|" else "U8"


def _decode(node: Any, blocks: Blocks, depth: int) -> Any:
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


def _decode_tagged(tag: str, node: dict[str, Any], blocks: Blocks, depth: int) -> Any:
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
    if dtype.kind not in _BLOCK_KINDS or _numpy_code(dtype) != code:
        raise ValueError(f"dtype {node['dtype']!r} does not fit block type {code}")
    array = _as_array(data, dtype, shape)
    return array[()] if tag == "scalar" else array


def _as_array(data: bytearray, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
    _check_size(data, dtype, shape)
    return np.frombuffer(data, dtype).reshape(shape) if data else np.empty(shape, dtype)


def _check_size(data: bytearray, dtype: Any, shape: list[int]) -> None:
    if math.prod(shape) * dtype.itemsize != len(data) or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype} is not {len(data)} bytes")


def _decode_tensor(code: str, data: bytearray, dtype: str, shape: list[int]) -> Any:
    if dtype not in _TENSOR_TYPES or _CODES.get(dtype, "U8") != code:
        raise ValueError(f"dtype {dtype!r} does not fit block type {code}")
    torch = loaded_torch()
    if torch is None:
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise CheckpointError(f"a tensor of {dtype} needs torch", hint="import torch first")
        return _as_array(data, np.dtype(dtype), shape)
    kind = getattr(torch, dtype)
    _check_size(data, kind, shape)
    if not data:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=kind).reshape(shape)
