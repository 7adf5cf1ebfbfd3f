"""Every parser of bytes from elsewhere, fed with damaged ones; see `engine`."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.config import read_config
from dicore.data import Batch
from dicore.run import RunFolder, read_metrics, read_state, write_state
from dicore_compat.weights.convert import peer_weights
from dicore_dist.links.wire import parsed_head, size_of_body
from dicore_plugins.buffers import write_body
from dicore_plugins.buffers.file.records import read_record, scan
from dicore_plugins.datasets import HDF5Dataset, NpzDataset
from dicore_plugins.export.import_weights import read_tensors
from dicore_plugins.messages import load_file, pack, save_file, unpack
from dicore_tools.certificates import (
    check_certificate,
    hashes,
    read_private_key,
    read_public_key,
    sign,
)
from dicore_tools.diagnosis.evidence import read_evidence
from dicore_tools.hub.damage import check_whole
from dicore_tools.hub.transfer import listed, pull, push
from dicore_tools.plugin_index.package import read_wheel
from dicore_tools.plugin_index.pages import read_index
from dicore_tools.reports.columns import MetricsWarning, read_columns
from dicore_tools.reports.run_data import read_run
from dicore_tools.results.expected import read_expected
from dicore_tools.results.plan import read_plan
from tests.fuzz.engine import ROUNDS, fuzz
from tests.plugins.datasets.recordings import episodes, write

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests/release/recorded/0.1"
Target = tuple[bytes, Callable[[bytes], object]]
"""Good bytes, and what reads them."""

CONFIG = {
    "main_config": {
        "exp_name": "x",
        "seed": 3,
        "env": {"type": "cartpole", "stop_value": 475.0, "manager": {"type": "base"}},
        "policy": {"type": "dqn", "learn": {"batch_size": 32, "learning_rate": 1e-3}},
    },
    "create_config": {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}},
}
MESSAGE = {
    "weights": {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": torch.ones(5)},
    "step": 7, "scale": float("inf"), "name": "é", "pair": (1, None, True), "ids": [1, 2],
}  # fmt: skip


SENT = {**MESSAGE, "rows": Batch({"obs": np.zeros((4, 3), np.uint8), "deep": {"x": np.ones(4)}})}
"""Between processes, batches are known too."""


def in_file(file: Path, read: Callable[[Path], object], good: bytes | None = None) -> Target:
    """Reads bytes from a file."""
    if good is None:
        good = file.read_bytes()

    def from_file(data: bytes) -> object:
        file.write_bytes(data)
        return read(file)

    return good, from_file


def yaml_of(tree: Any, depth: int = 0) -> str:
    """Writes a nested dict as YAML."""
    lines = []
    for key, value in tree.items():
        inner = f"\n{yaml_of(value, depth + 1)}" if isinstance(value, dict) else f" {value}"
        lines.append(f"{'  ' * depth}{key}:{inner}")
    return "\n".join(lines)


def toml_of(tree: Any) -> str:
    """Writes a nested dict as TOML with dotted keys."""

    def lines(node: Any, path: str) -> list[str]:
        if isinstance(node, dict):
            return [line for key, each in node.items() for line in lines(each, f"{path}.{key}")]
        return [f"{path.removeprefix('.')} = {json.dumps(node)}"]

    return "\n".join(lines(tree, ""))


def configs(folder: Path, suffix: str) -> Target:
    text = {"json": json.dumps, "yaml": yaml_of, "toml": toml_of}[suffix](CONFIG)
    return in_file(folder / f"config.{suffix}", read_config, text.encode())


def state(folder: Path, name: str) -> Target:
    write_state(folder / "state", MESSAGE)
    return in_file(folder / "state" / name, lambda file: read_state(file.parent))


def sealed(folder: Path) -> Target:
    """The manifest of somebody who can count: its seal is right whatever it says."""
    good, read = state(folder, "manifest.json")
    body, _, _ = good.rpartition(b',"sha256":"')
    return body, lambda data: read(data + b',"sha256":"%s"}' % sha256(data).hexdigest().encode())


def message_file(folder: Path) -> Target:
    save_file(folder / "message", SENT)
    return in_file(folder / "message", load_file)


def metrics(folder: Path, read: Callable[[Path], object]) -> Target:
    lines = [
        {"step": n, "train_iter": n * 2, "time": n / 3, "learner/loss": 1 / (n + 1),
         "evaluator/return_mean": 20.0 + n if n % 3 else "NaN"}
        for n in range(9)
    ]  # fmt: skip
    (folder / "log").mkdir()
    (folder / "run.json").write_text("{}")
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    return in_file(folder / "log/metrics.jsonl", read, text.encode())


def record(folder: Path, name: str, read: Callable[[RunFolder], object]) -> Target:
    """A file of a run that dicore 0.1 recorded."""
    run = next(path.parent for path in sorted(RUN.rglob("run.json")))
    for each in ("run.json", "config.json", "log/metrics.jsonl"):
        if (run / each).is_file():
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / each).write_bytes((run / each).read_bytes())
    return in_file(folder / name, lambda _: read(RunFolder(folder)))


def weights(folder: Path, suffix: str) -> Target:
    from safetensors.torch import save_file as save_tensors

    tensors = {"layer.weight": torch.ones(3, 2), "layer.bias": torch.zeros(3)}
    file = folder / f"weights{suffix}"
    if suffix == ".safetensors":
        save_tensors(tensors, file)
    else:
        torch.save(tensors, file)
    return in_file(file, read_tensors)


def archive_of_sb3(folder: Path) -> Target:
    """An archive of Stable-Baselines3: tensors, and what it says about its algorithm."""
    whole = Path(__file__).parents[1] / "compat/weights/recorded/sb3_qrdqn.zip"
    return in_file(folder / "a.zip", peer_weights, whole.read_bytes())


def hub(folder: Path, name: str) -> Target:
    source = folder / "data"
    source.mkdir()
    np.savez(source / "rows.npz", obs=np.zeros((3, 2)))
    place = folder / "hub"
    push(str(source), str(place), name="item", licence="MIT")
    count = iter(range(10**9))

    def read(_: Path) -> object:
        if name == "hub.json":
            return listed(str(place))
        return pull(str(place), "item", folder / f"out{next(count)}")

    return in_file(place / name if name == "hub.json" else place / "item" / name, read)


def sized(folder: Path) -> Target:
    """The superblock of an HDF5 file, version 2."""
    size = b"\x30" + bytes(7)
    good = b"\x89HDF\r\n\x1a\n\2\x08\x08\0" + bytes(16) + size + bytes(12)
    return in_file(folder / "a.h5", lambda file: check_whole({"a.h5": file}, "item"), good)


def wheel(folder: Path) -> Target:
    file = folder / "acme_rl-1.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.4\nName: acme-rl\nVersion: 1.0\nSummary: It.\n"
    parts = {
        "acme_rl/__init__.py": "",
        "acme_rl/dicore-badge.json": json.dumps({"format": 1, "name": "acme-rl"}),
        "acme_rl-1.0.dist-info/METADATA": metadata + "Requires-Dist: dicore>=0.1,<0.2\n",
        "acme_rl-1.0.dist-info/entry_points.txt": "[dicore.env]\nmaze = acme_rl:Maze\n",
    }
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in parts.items():
            archive.writestr(path, text)
    return in_file(file, read_wheel)


def index(_: Path) -> Target:
    package = {
        "name": "acme-rl", "version": "1.0", "summary": "It.", "licence": "MIT", "url": "",
        "dicore": ">=0.1,<0.2", "python": ">=3.11", "components": {"env/maze": "acme_rl:Maze"},
        "problems": [], "badge": {"passed": 3}, "rows": [], "notes": [], "tier": 2,
    }  # fmt: skip
    text = json.dumps({"format": 1, "packages": [package]})
    return text.encode(), lambda data: read_index(data.decode(errors="replace"), "index")


def keys(folder: Path, private: bool) -> Target:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    if private:
        parts = form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        return in_file(folder / "key", read_private_key, key.private_bytes(*parts))
    public = form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
    return in_file(folder / "key", read_public_key, key.public_key().public_bytes(*public))


def certificate(folder: Path) -> Target:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    (folder / "config.json").write_text("{}")
    file = sign(folder, {"files": hashes(folder)}, key)
    return in_file(Path(file), lambda _: check_certificate(folder, key.public_key()))


def dataset(folder: Path, form: str) -> Target:
    """A file of episodes, read as far as a training reads it: the first and the last sample."""
    kind = HDF5Dataset if form == "hdf5" else NpzDataset
    file = Path(write(form, folder, episodes("5e", "4t")))

    def samples(path: Path) -> object:
        found = kind({"path": str(path)})
        return found.take(np.array([0, len(found) - 1]))

    return in_file(file, samples)


def records(folder: Path) -> Target:
    """The file of a replay buffer's sample, found again after a crash and read."""
    file = write_body(folder, {"obs": np.ones(3), "name": "x"}, priority=1.0)["file_path"]

    def read(path: Path) -> object:
        return [read_record(path, place) for _, place in scan(path, 0)]

    return in_file(Path(file), read)


def head(_: Path) -> Target:
    text = b"POST /x HTTP/1.1\r\nContent-Length: 12\r\nX-Token: abc\r\n\r\nrest"

    def read(data: bytes) -> object:
        found = parsed_head(data)
        return found and size_of_body(found[1])

    return text, read


def silently(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """A damaged line of metrics is left out with a warning."""

    def quiet(path: Path) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MetricsWarning)
            return read(path)

    return quiet


def benchmark(folder: Path, read: Callable[[Path], object], name: str) -> Target:
    return in_file(folder / name, read, (ROOT / "benchmarks" / name).read_bytes())


TARGETS: dict[str, Callable[[Path], Target]] = {
    "config_json": lambda folder: configs(folder, "json"),
    "config_yaml": lambda folder: configs(folder, "yaml"),
    "config_toml": lambda folder: configs(folder, "toml"),
    "state_manifest": lambda folder: state(folder, "manifest.json"),
    "state_sealed": sealed,
    "state_tensors": lambda folder: state(folder, "tensors.safetensors"),
    "frame": lambda _: (pack(SENT), unpack),
    "message_file": message_file,
    "request_head": head,
    "metrics": lambda folder: metrics(folder, lambda file: list(read_metrics(file))),
    "metrics_columns": lambda folder: metrics(folder, silently(read_columns)),
    "run_json": lambda folder: record(folder, "run.json", read_run),
    "run_config": lambda folder: record(folder, "config.json", read_run),
    "run_evidence": lambda folder: record(folder, "log/metrics.jsonl", silently(read_evidence)),
    "weights_safetensors": lambda folder: weights(folder, ".safetensors"),
    "weights_torch": lambda folder: weights(folder, ".pt"),
    "weights_sb3": archive_of_sb3,
    "hub_card": lambda folder: hub(folder, "card.json"),
    "hub_index": lambda folder: hub(folder, "hub.json"),
    "hub_hdf5": sized,
    "buffer_records": records,
    "dataset_npz": lambda folder: dataset(folder, "npz"),
    "dataset_savez": lambda folder: dataset(folder, "savez"),
    "dataset_hdf5": lambda folder: dataset(folder, "hdf5"),
    "plugin_index": index,
    "plugin_wheel": wheel,
    "public_key": lambda folder: keys(folder, private=False),
    "certificate": certificate,
    "private_key": lambda folder: keys(folder, private=True),
    "benchmark_plan": lambda folder: benchmark(folder, read_plan, "check.toml"),
    "benchmark_expected": lambda folder: benchmark(folder, read_expected, "check.expected.json"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_bytes_give_a_right_value_or_an_error_of_dicore(name: str, tmp_path: Path) -> None:
    rounds = (
        min(ROUNDS, 200) if name == "dataset_hdf5" else ROUNDS
    )  # input 251 hangs HDF5's library
    fuzz(*TARGETS[name](tmp_path), rounds)
