"""File formats of exported policies: how each is written, and how it is run again to check it."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError

__all__ = ["FORMATS", "Format", "Observations", "named", "tensors"]

Array = npt.NDArray[Any]
Observations = Array | Mapping[str, Any]
"""Observations [B, ...]: one array, or a dict of these."""
Runner = Callable[[Observations], Array]


class Format(NamedTuple):
    """A file format.

    Args:
        name: What it is called.
        write: Writes a module, which is traced with observations, to a file.
        load: Returns a function that runs the file.
        usage: Python lines that run it; `{file}` and `{example}` are replaced.
    """

    name: str
    write: Callable[[Any, Observations, Path], None]
    load: Callable[[Path], Runner]
    usage: str


def named(obs: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """Yields the inputs by name: `obs`, or the keys of nested dicts joined by `.`."""
    if isinstance(obs, Mapping):
        for key, each in obs.items():
            yield from named(each, f"{name}.{key}" if name else str(key))
    else:
        yield name or "obs", obs


def tensors(obs: Any) -> Any:
    """Returns the same tree of tensors."""
    import torch

    if isinstance(obs, Mapping):
        return {key: tensors(each) for key, each in obs.items()}
    return torch.from_numpy(np.ascontiguousarray(obs))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps notes of the exporters for other developers off the terminal."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _exported(module: Any, obs: Observations) -> Any:
    import torch

    given = tensors(obs)
    batch = torch.export.Dim("batch", min=1)
    shapes = _dynamic(given, batch)
    return torch.export.export(module, (given,), dynamic_shapes=(shapes,))


def _dynamic(given: Any, batch: Any) -> Any:
    if isinstance(given, Mapping):
        return {key: _dynamic(each, batch) for key, each in given.items()}
    return {0: batch}


# ---- torch.export


def _write_pt2(module: Any, obs: Observations, file: Path) -> None:
    import torch

    with _quiet():
        torch.export.save(_exported(module, obs), file)


def _load_pt2(file: Path) -> Runner:
    import torch

    return _torch_runner(torch.export.load(file).module())


# ---- TorchScript


def _write_ts(module: Any, obs: Observations, file: Path) -> None:
    import torch

    with _quiet(), torch.no_grad():
        trace: Any = torch.jit.trace
        trace(module, (tensors(obs),), strict=False).save(str(file))


def _load_ts(file: Path) -> Runner:
    import torch

    load: Any = torch.jit.load
    with _quiet():
        return _torch_runner(load(str(file)))


def _torch_runner(module: Any) -> Runner:
    import torch

    def run(obs: Observations) -> Array:
        with torch.no_grad():
            found: Array = module(tensors(obs)).numpy()
        return found

    return run


# ---- ONNX


def _write_onnx(module: Any, obs: Observations, file: Path) -> None:
    import torch

    try:
        import onnxscript  # noqa: F401 - used by torch.onnx
    except ImportError as error:
        raise UsageError(
            "ONNX needs the packages onnx and onnxscript",
            hint="pip install 'dicore-plugins[export]'",
        ) from error
    with _quiet(), _no_progress_bar():
        torch.onnx.export(
            _exported(module, obs), (), str(file), input_names=[name for name, _ in named(obs)],
            output_names=["action"], dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip


@contextlib.contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keeps a progress bar of the exporter from leaving its thread behind."""
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        yield
        return
    before, tqdm.monitor_interval = tqdm.monitor_interval, 0
    try:
        yield
    finally:
        tqdm.monitor_interval = before


def _load_onnx(file: Path) -> Runner:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError(
            "the check of an ONNX file needs the package onnxruntime",
            hint="pip install 'dicore-plugins[export]'",
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(obs: Observations) -> Array:
        parts = dict(named(obs))
        found: Array = session.run(None, {name: parts[name] for name in names})[0]
        return found

    return run


_TORCH = """\
import numpy as np
import torch

policy = {load}
obs = {example}  # one row per observation
action = policy({given}).numpy()
print(action)
"""
_ONNX = """\
import numpy as np
import onnxruntime

policy = onnxruntime.InferenceSession("{file}")
obs = {example}  # one row per observation
(action,) = policy.run(None, {inputs})
print(action)
"""

FORMATS: Final[Mapping[str, Format]] = {
    ".onnx": Format("ONNX", _write_onnx, _load_onnx, _ONNX),
    ".pt2": Format(
        "torch.export",
        _write_pt2,
        _load_pt2,
        _TORCH.replace("{load}", 'torch.export.load("{file}").module()'),
    ),
    ".ts": Format(
        "TorchScript", _write_ts, _load_ts, _TORCH.replace("{load}", 'torch.jit.load("{file}")')
    ),
}
"""Formats by the suffix of the file."""
