"""State comes back exactly as it was, or saving says where it cannot be stored."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dicore.data.json_codec import decode_state, encode_state
from dicore.errors import CheckpointCorruptError, CheckpointWriteError
from dicore.run.checkpoint_io import read_state, write_state

torch = pytest.importorskip("torch")

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=6)
ARRAYS = hnp.arrays(
    dtype=hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufcmM"),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
KEYS = st.text(max_size=4) | st.integers() | st.tuples(st.integers(), st.text(max_size=2))
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        PLAIN | ARRAYS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(KEYS, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def same(a: Any, b: Any) -> bool:
    """Equality that knows nan, types, dtypes and bytes."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bytes_of(a) == bytes_of(b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)


def bytes_of(tensor: Any) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@settings(max_examples=150, deadline=None)
@given(state=STATES)
def test_any_state_comes_back_as_it_was(
    state: dict[Any, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("state") / "s"
    write_state(path, state)
    assert same(state, read_state(path))


@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_tensors_of_every_type_and_shape_come_back(
    dtype: str, shape: tuple[int, ...], tmp_path: Any
) -> None:
    tensor = (torch.rand(shape) * 5).to(getattr(torch, dtype))
    write_state(tmp_path / "s", {"t": tensor})
    assert same(tensor, read_state(tmp_path / "s")["t"])


def test_views_parameters_and_other_layouts_are_stored_by_value(tmp_path: Any) -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    state = {
        "transposed": matrix.t(),
        "strided": np.arange(10)[::3],
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "parameter": torch.nn.Parameter(matrix),
        "conjugated": torch.tensor([1 + 2j]).conj(),
        "big_endian": np.array([1, 2], ">f4"),
        "memory": OrderedDict(b=1, a=2),
    }
    write_state(tmp_path / "s", state)
    back = read_state(tmp_path / "s")
    assert torch.equal(back["transposed"], matrix.t())
    assert back["strided"].tolist() == [0, 3, 6, 9]
    assert same(back["fortran"], np.ascontiguousarray(state["fortran"]))
    assert torch.equal(back["parameter"], matrix)
    assert not back["parameter"].requires_grad
    assert back["conjugated"].item() == 1 - 2j
    assert same(back["big_endian"], state["big_endian"])
    assert list(back["memory"]) == ["b", "a"]


def test_what_comes_back_is_writable_and_shares_nothing(tmp_path: Any) -> None:
    array = np.zeros(3)
    write_state(tmp_path / "s", {"a": array, "b": array, "t": torch.zeros(2)})
    back = read_state(tmp_path / "s")
    back["a"][0] = 1
    back["t"][0] = 1
    assert back["b"][0] == 0
    assert read_state(tmp_path / "s")["a"][0] == 0


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"bytes", "builtins.bytes"),
        ({1, 2}, "builtins.set"),
        (np.array([None]), "object"),
        (np.zeros(2, [("a", "f4")]), "numpy.ndarray"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        (lambda: 0, "function"),
        (torch.eye(2).to_sparse(), "torch"),
        (type("Odd", (tuple,), {})((1,)), "Odd"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_stored_is_named_with_its_place(value: Any, named: str) -> None:
    with pytest.raises(
        CheckpointWriteError, match=r"state at deep\.here\.0: cannot store"
    ) as error:
        encode_state({"deep": {"here": [value]}})
    assert named in str(error.value)


def test_state_without_end_is_refused_not_followed() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(CheckpointWriteError, match="nested deeper"):
        encode_state(endless)


def test_tensor_names_that_the_format_reserves_are_stored(tmp_path: Any) -> None:
    state = {
        "__metadata__": np.ones(2),
        "a.b": np.zeros(1),
        "a": {"b": np.ones(1)},
        "\ud800": np.ones(3),
    }
    write_state(tmp_path / "s", state)
    assert same(state, read_state(tmp_path / "s"))


def test_the_tensor_file_is_plain_safetensors(tmp_path: Any) -> None:
    """Other tools can read the numbers, by their path in the state."""
    from safetensors.numpy import load_file

    state = {
        "learner": {"policy": {"weight": np.arange(6.0).reshape(2, 3)}, "on": np.array([True])}
    }
    write_state(tmp_path / "s", state)
    tensors = load_file(tmp_path / "s" / "tensors.safetensors")
    assert sorted(tensors) == ["learner.on", "learner.policy.weight"]
    assert tensors["learner.policy.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]


HOSTILE = [
    {"$": "array", "at": "x", "dtype": "O", "shape": [1]},
    {"$": "array", "at": "x", "dtype": "V8", "shape": [1]},
    {"$": "array", "at": "x", "dtype": "<f4", "shape": [2]},
    {"$": "array", "at": "x", "dtype": "<f8", "shape": [2]},
    {"$": "array", "at": "x", "dtype": "<f8", "shape": [-1]},
    {"$": "array", "at": "x", "dtype": "<f8", "shape": [-1, -1]},
    {"$": "array", "at": "x", "dtype": "<f8", "shape": "no"},
    {"$": "array", "at": "missing", "dtype": "<f8", "shape": [1]},
    {"$": "tensor", "at": "x", "dtype": "load", "shape": [1]},
    {"$": "tensor", "at": "x", "dtype": "float64", "shape": [7]},
    {"$": "os.system", "v": "true"},
    {"$": "float", "v": "1"},
    {"$": "dict", "v": [[[1], 2]]},
    {"$": "dict", "v": 3},
    {"$": "tuple"},
    {"$": ["unhashable"]},
    {"$": "float", "v": {"inf": 1}},
    {"$": "other", "at": "x", "dtype": "<f8", "shape": [1]},
    {"$": "tensor", "at": "e", "dtype": "uint8", "shape": [2**62, 2**62, 0]},
    {"$": "array", "at": "e", "dtype": "|u1", "shape": [2**62, 2**62, 0]},
    {"$": "array", "at": "e", "dtype": "|u1", "shape": [float("inf")]},
    {"$": "array", "at": "e", "dtype": "U99999999999", "shape": [0]},
    {"$": "tensor", "at": "x", "dtype": "__class__", "shape": [1]},
]


@pytest.mark.parametrize("node", HOSTILE, ids=lambda node: json.dumps(node)[:50])
def test_a_skeleton_that_lies_is_refused(node: Any) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode_state({"a": node}, {"x": ("F64", bytearray(8)), "e": ("U8", bytearray())})


def test_a_bottomless_skeleton_is_refused() -> None:
    node: Any = 1
    for _ in range(100):
        node = [node]
    with pytest.raises(CheckpointCorruptError, match="nested deeper"):
        decode_state(node, {})
