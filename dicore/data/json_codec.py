"""Exact JSON encoding of values: types that JSON lacks are tagged; decoding runs no code.

Configs are text: `{"__tuple__": [1, 2]}`, `{"__float__": "inf"}`; numpy values are written out.
The state of a checkpoint is a skeleton and blocks of bytes: a tag is an object with the key `$`
(`{"$": "tuple", "v": [1, 2]}`), and arrays, numpy scalars and tensors point `at` a block by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import CheckpointCorruptError, CheckpointError, CheckpointWriteError
from dicore.values import Tree

__all__ = ["Block", "decode", "decode_state", "dumps", "encode", "encode_state", "loads"]

MAX_DEPTH = 64  # levels of nesting that the state of a checkpoint may have

_TAGS = ("__float__", "__tuple__", "__numpy__", "__dict__", "__array__")
_BLOCK_KINDS = "biufcmMU"
_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
    "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32",
    "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "U8",
    "float8_e4m3fn": "U8", "float8_e5m2": "U8",
}  # fmt: skip
"""Code of each type that a tensor may have; numpy's other types are stored as bytes, `U8`."""

Blocks = Mapping[str, tuple[str, bytearray]]
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""What `json` writes and reads."""


class Block(NamedTuple):
    """Bytes of one array or tensor in C order, with the type code of safetensors (`U8` if none)."""

    code: str
    shape: tuple[int, ...]
    data: memoryview


def dumps(value: object) -> str:
    """Writes plain data as JSON (ASCII only, keys in their order); see `encode`."""
    return json.dumps(encode(value), indent=2, allow_nan=False)


def loads(text: str) -> Any:
    """Reads what `dumps` wrote, and any other JSON; see `decode`."""
    return decode(json.loads(text))


def encode(value: object) -> Json:
    """Returns plain data as a tree that `json` can write; a `TypeError` names any other value."""
    tree: Json = _encode(value, (), None)
    return tree


def decode(tree: Json) -> Any:
    """Restores what `encode` was given; raises `ValueError` if a tag has the wrong content."""
    try:
        return _decode(tree, None, 0)
    except (ArithmeticError, AttributeError, SyntaxError, TypeError) as error:
        raise ValueError(f"a tag has the wrong content: {error}") from error


def encode_state(state: object) -> tuple[Json, dict[str, Block]]:
    """Returns the state of a checkpoint as a skeleton, which `json` can write, and named blocks.

    A state is None, bools, ints, floats, strings, numpy arrays and scalars and torch tensors in
    dicts, lists and tuples; a `CheckpointWriteError` gives the path of any other value.
    """
    blocks: dict[str, Block] = {}
    return _encode(state, (), blocks), blocks


def decode_state(skeleton: Json, blocks: Blocks) -> Any:
    """Restores a state; the arrays take over the memory of the blocks.

    Raises:
        CheckpointCorruptError: the skeleton does not describe the blocks.
        CheckpointError: a tensor has a type that only torch has, and torch is not imported.
    """
    try:
        return _decode(skeleton, blocks, 0)
    except CheckpointError:
        raise
    except Exception as error:  # a skeleton can lie in many ways
        raise CheckpointCorruptError(f"the skeleton is broken: {error!r}") from None


def scalar_type(value: Tree) -> str | None:
    """Returns the name of a numpy scalar's type (`float32`, `bool_`), None for anything else.

    Only types whose every value a Python scalar holds exactly; long doubles do not.
    """
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return None
    named = {"U": "str_", "b": "bool_"}.get(value.dtype.kind)
    return named or (value.dtype.name if _is_exact(value.dtype) else None)


def is_array(value: Tree) -> bool:
    """Returns whether something is a numpy array of plain numbers or booleans."""
    is_plain = type(value) is np.ndarray and _is_exact(value.dtype)
    return is_plain and value.ndim > 0 and (value.size > 0 or value.ndim == 1)


def _is_exact(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _encode(value: Tree, path: tuple[str, ...], blocks: dict[str, Block] | None) -> Any:
    """Encodes a value as part of a state, or without blocks as text."""
    if len(path) > MAX_DEPTH and blocks is not None:
        raise CheckpointWriteError(f"state is nested deeper than {MAX_DEPTH} levels: {path[:3]} …")

    def tagged(tag: str, content: Json) -> Json:
        return {f"__{tag}__": content} if blocks is None else {"$": tag, "v": content}

    def below(item: object, key: object) -> Any:
        return _encode(item, (*path, str(key)), blocks)

    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else tagged("float", repr(value))
    if kind in (list, tuple):
        items = [below(item, index) for index, item in enumerate(value)]
        return items if kind is list else tagged("tuple", items)
    if not isinstance(value, Mapping):
        return _text_leaf(value, path) if blocks is None else _block_leaf(value, path, blocks)
    reserved = _TAGS if blocks is None else ("$",)
    if all(type(key) is str and key not in reserved for key in value):
        return {key: below(item, key) for key, item in value.items()}
    return tagged("dict", [[below(key, "<key>"), below(item, key)] for key, item in value.items()])


def _text_leaf(value: Tree, path: tuple[str, ...]) -> Json:
    if name := scalar_type(value):
        item = str.__str__(value) if name == "str_" else value.item()
        return {"__numpy__": [name, encode(item)]}
    bases: tuple[type, ...] = (float, int, str, list, tuple)
    for base in bases:
        if isinstance(value, base):
            return encode(str.__str__(value) if base is str else base(value))
    if is_array(value):
        return {"__array__": [str(value.dtype), encode(value.tolist())]}
    where = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path)
    raise TypeError(f"${where}: {type(value).__name__} {value!r} is not plain data")


def _block_leaf(value: Tree, path: tuple[str, ...], blocks: dict[str, Block]) -> Json:
    name = (".".join(path) or "value").encode("utf-8", "replace").decode()
    while name in blocks or name == "__metadata__":
        name += "_"
    tag = dtype = code = ""
    flat: Tree = b""
    if is_tensor(value) and str(value.layout) == "torch.strided":
        tag, dtype = "tensor", str(value.dtype).removeprefix("torch.")
        if code := _CODES.get(dtype, ""):
            plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
            flat = plain.reshape(-1).view(loaded_torch().uint8).numpy()  # type: ignore[union-attr]
    elif isinstance(value, np.generic) or type(value) in (np.ndarray, np.memmap):
        tag = "scalar" if isinstance(value, np.generic) else "array"
        dtype, code = value.dtype.str, _numpy_code(value.dtype)
        if code and value.nbytes:
            flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    if not code:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        detail = f" of {value.dtype}" if hasattr(value, "dtype") else ""
        raise CheckpointWriteError(
            f"state at {'.'.join(path) or 'top'}: cannot store {kind}{detail}",
            hint="numbers, strings, None, dicts, lists, tuples, numpy arrays and torch tensors",
            context={"path": path},
        )
    data, shape = memoryview(flat), tuple(value.shape)
    raw = code == "U8" and math.prod(shape) != data.nbytes
    blocks[name] = Block(code, (data.nbytes,) if raw else shape, data)
    return {"$": tag, "at": name, "dtype": dtype, "shape": list(shape)}


def _numpy_code(dtype: np.dtype[np.generic]) -> str:
    code = _CODES.get(dtype.name, "U8") if dtype.str[0] in "<|" else "U8"
    return code if dtype.kind in _BLOCK_KINDS else ""


def _decode(node: Json, blocks: Blocks | None, depth: int) -> Any:
    """Restores a part of a state, or without blocks of text."""
    if depth > MAX_DEPTH and blocks is not None:
        raise CheckpointCorruptError(f"the skeleton is nested deeper than {MAX_DEPTH} levels")

    def below(item: Json) -> Any:
        return _decode(item, blocks, depth + 1)

    if isinstance(node, list):
        return [below(item) for item in node]
    if not isinstance(node, dict):
        return node
    tag: Any = node.get("$")
    content: Any = node.get("v")
    if blocks is None:
        tag, content = next(iter(node.items())) if len(node) == 1 else (None, None)
        tag = tag.strip("_") if tag in _TAGS else None
    if tag is None:
        return {key: below(item) for key, item in node.items()}
    if tag == "float" and (blocks is None or content in ("inf", "-inf", "nan")):
        return float(content)
    if tag == "tuple":
        return tuple(below(item) for item in content)
    if tag == "dict":
        return {below(key): below(item) for key, item in content}
    return _text_value(tag, content) if blocks is None else _block_value(tag, node, blocks)


def _text_value(tag: str, content: Any) -> object:
    name, item = content
    if tag == "numpy":
        if (scalar := np.sctypeDict.get(name)) and scalar_type(scalar()) == name:
            return scalar(decode(item))
    elif is_array(array := np.array(decode(item), dtype=np.dtype(str(name)))):
        return array
    raise TypeError(f"{name} is not an exact numpy type")


def _block_value(tag: str, node: Mapping[str, Any], blocks: Blocks) -> Tree:
    name, (code, data) = str(node["dtype"]), blocks[node["at"]]
    shape = [int(length) for length in node["shape"]]
    library: ModuleType = (loaded_torch() if tag == "tensor" else None) or np
    if tag == "tensor" and library is np and name.startswith(("bfloat", "float8")):
        raise CheckpointError(f"a tensor of {name} needs torch", hint="import torch first")
    dtype = np.dtype(name) if library is np else getattr(library, name)
    known = _CODES.get(name) if tag == "tensor" else _numpy_code(dtype)
    if code != known or tag not in ("tensor", "array", "scalar"):
        raise ValueError(f"'{tag}' of type {name!r} does not fit block type {code}")
    if math.prod(shape) * dtype.itemsize != len(data) or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype} is not {len(data)} bytes")
    flat = library.frombuffer(data, dtype=dtype) if data else library.empty(shape, dtype=dtype)
    return flat.reshape(shape)[()] if tag == "scalar" else flat.reshape(shape)
