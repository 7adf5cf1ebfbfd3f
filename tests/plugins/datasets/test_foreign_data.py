"""Datasets of strangers: files that claim too much, lie, or lead elsewhere end in one error."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from dicore.errors import SchemaError
from dicore.run.checkpoint_io import write_state
from dicore_plugins.datasets import CollectedDataset, HDF5Dataset, MinariDataset, NpzDataset
from dicore_plugins.datasets.npz import write_npz
from tests.plugins.datasets.recordings import EPISODES, write

COLUMNS = {
    "obs": np.zeros((4, 3), np.float32),
    "action": np.zeros(4, np.int64),
    "reward": np.zeros(4, np.float32),
    "terminated": np.array([False, False, False, True]),
}


def header(shape: str, descr: str = "'<f4'") -> bytes:
    """Returns the header of an `.npy` file."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (64 - (10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def archive(path: Path, member: bytes, **how: Any) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, column in COLUMNS.items():
            content = io.BytesIO()
            np.save(content, column)
            file.writestr(f"{name}.npy", content.getvalue())
        file.writestr("extra.npy", member, **how)
    return path


@pytest.mark.parametrize(
    ("shape", "descr"),
    [
        ("(1000000000, 1000)", "'<f4'"), ("(10**0,)", "'<f4'"), ("(-4, -3)", "'<f4'"),
        (f"({10**30},)", "'<f4'"), ("(" * 200 + "4" + ",)" * 200, "'<f4'"), ("(4,)", "'|O'"),
        ("(4,)", "'<f3'"), ("(4,)", f"'V{2**31 - 1}'"), ("'abc'", "'<f4'"),
    ],
)  # fmt: skip
def test_a_header_of_npz_that_lies(shape: str, descr: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", header(shape, descr) + bytes(64))
    with pytest.raises(SchemaError, match="cannot be read") as caught:
        NpzDataset({"path": str(path)})
    assert str(path) in caught.value.message


def test_a_small_file_that_becomes_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = header("(50000000,)") + bytes(200_000_000)
    path = archive(tmp_path / "x.npz", zeros, compress_type=zipfile.ZIP_DEFLATED, compresslevel=1)
    assert path.stat().st_size < 2_000_000
    monkeypatch.setattr("dicore_plugins.datasets.files.available_bytes", lambda: 100_000_000)
    with pytest.raises(SchemaError, match=r"0\.2 GiB, but 0\.1 GiB of memory"):
        NpzDataset({"path": str(path)})


def changed(path: Path, at: int, value: int) -> None:
    """Changes a field of all entries of the directory of a zip file."""
    data = bytearray(path.read_bytes())
    start = data.find(b"PK\x01\x02")
    while start >= 0:
        struct.pack_into("<H", data, start + at, value)
        start = data.find(b"PK\x01\x02", start + 4)
    path.write_bytes(data)


@pytest.mark.parametrize(("at", "value"), [(10, 77), (8, 1), (10, 8), (10, 14), (10, 12)])
def test_an_archive_in_another_way(at: int, value: int, tmp_path: Path) -> None:
    """Compression methods that are unknown or wrong, and encryption."""
    path = archive(tmp_path / "x.npz", header("(4,)") + bytes(16))
    changed(path, at, value)
    with pytest.raises(SchemaError, match="cannot be read"):
        NpzDataset({"path": str(path)})


def test_an_archive_of_very_many_columns(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        for number in range(10_001):
            file.writestr(f"{number}.npy", b"")
    with pytest.raises(SchemaError, match="10001 columns; expected at most 10000"):
        NpzDataset({"path": str(tmp_path / "x.npz")})


def test_spaces_of_a_file_that_are_nested_too_deeply(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", {**COLUMNS, "observation_space": np.array("[" * 100_000)})
    with pytest.raises(SchemaError, match="cannot be read"):
        NpzDataset({"path": str(tmp_path / "x.npz")})


def external(file: Any, secret: Path) -> None:
    del file["rewards"]
    file.create_dataset("rewards", (4,), "<f4", external=[(str(secret), 0, 16)])


def soft(file: Any, secret: Path) -> None:
    file["rewards"] = h5py.SoftLink("/observations")


def outside(file: Any, secret: Path) -> None:
    file["more"] = h5py.ExternalLink(str(secret), "/rewards")


def virtual(file: Any, secret: Path) -> None:
    del file["rewards"]
    layout = h5py.VirtualLayout((4,), "<f4")
    layout[:] = h5py.VirtualSource(str(secret), "rewards", (4,))
    file.create_virtual_dataset("rewards", layout)


def relinked(file: Any, secret: Path) -> None:
    del file["rewards"]
    soft(file, secret)


def deep(file: Any, secret: Path) -> None:
    file.create_group("/".join("g" * 1_000))  # visited in a minute


def columns(path: Path) -> Path:
    names = {"obs": "observations", "action": "actions", "reward": "rewards"}
    with h5py.File(path, "w") as file:
        for name, column in COLUMNS.items():
            file[names.get(name, "terminals")] = column
    return path


@pytest.mark.parametrize("plant", [external, relinked, outside, virtual, deep])
def test_columns_of_hdf5_lie_in_the_file(
    plant: Callable[[Any, Path], None], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a private key of a user, 64 bytes".ljust(64))
    path = columns(tmp_path / "x.hdf5")
    HDF5Dataset({"path": str(path)})
    with h5py.File(path, "a") as file:
        plant(file, secret)
    with pytest.raises(SchemaError, match="its columns must lie in the file"):
        HDF5Dataset({"path": str(path)})


def test_an_hdf5_file_that_claims_too_much(tmp_path: Path) -> None:
    path = columns(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        file.create_dataset("huge", (2**40, 1024), "<f4", chunks=(1, 1024))
    with pytest.raises(SchemaError, match=r"compressed columns say that they have 4194304\.0 GiB"):
        HDF5Dataset({"path": str(path)})


def test_an_episode_of_minari_that_claims_too_much(tmp_path: Path) -> None:
    path = write("minari", tmp_path, EPISODES)
    with h5py.File(Path(path) / "data/main_data.hdf5", "a") as file:
        del file["episode_1"]["rewards"]
        file["episode_1"].create_dataset("rewards", (2**49,), "<f4", chunks=(2**20,))
    with pytest.raises(SchemaError, match=r"columns say that they have 4194304\.0 GiB"):
        MinariDataset({"path": path})


@pytest.mark.parametrize(
    "dtype", [h5py.string_dtype(), np.dtype([("a", "<f4")]), h5py.vlen_dtype(np.float32), "<c8"]
)
def test_an_hdf5_column_of_another_kind(dtype: Any, tmp_path: Path) -> None:
    path = columns(tmp_path / "x.hdf5")
    with h5py.File(path, "a") as file:
        del file["rewards"]
        file.create_dataset("rewards", (4,), dtype)
    with pytest.raises(SchemaError):
        HDF5Dataset({"path": str(path)})


def forged(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """Writes collected samples whose tensor file was changed, with the checksums of a forger."""
    columns = {**COLUMNS, "done": COLUMNS["terminated"], "end": COLUMNS["terminated"]}
    columns["env_id"] = np.zeros(4, np.int64)
    del columns["terminated"]
    write_state(folder, {"columns": columns, "cursor": 0})
    tensors, manifest = folder / "tensors.safetensors", folder / "manifest.json"
    raw = change(tensors.read_bytes())
    tensors.write_bytes(raw)
    body = json.loads(manifest.read_text())
    body["files"][tensors.name] = {"size": len(raw), "sha256": sha256(raw).hexdigest()}
    del body["sha256"]
    text = json.dumps(body, separators=(",", ":"))[:-1].encode()
    manifest.write_bytes(text + b',"sha256":"%s"}' % sha256(text).hexdigest().encode())
    return folder


def headed(length: int, header: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda raw: struct.pack("<Q", length) + header + raw[8:]


@pytest.mark.parametrize(
    "change",
    [
        headed(2**63), headed(2**62), headed(3), headed(200_000, b"[" * 200_000),
        lambda raw: raw[:4], lambda raw: raw.replace(b"data_offsets", b"data_offsetz"),
        lambda raw: raw.replace(b'"data_offsets":[0,', b'"data_offsets":[9999,'),
        lambda raw: raw[:-40],
    ],
)  # fmt: skip
def test_a_tensor_file_that_lies(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        CollectedDataset({"path": str(forged(tmp_path / "x", change))})


def test_collected_samples_that_do_not_lie(tmp_path: Path) -> None:
    assert len(CollectedDataset({"path": str(forged(tmp_path / "x", lambda raw: raw))})) == 4
