"""File formats of exported policies: how each is written, and how it is run again to check it.

The inputs of a policy are its observations, one array or a dict of arrays by name, and the state of
a recurrent one.

Shapes: B observations, S elements of a state.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError
from dicore.values import Tree

if TYPE_CHECKING:
    from torch import nn

    from dicore_plugins.export.greedy_module import GreedyModule


__all__ = ["FORMATS", "Format", "Inputs", "memory_name", "tensors"]

Array = npt.NDArray[Any]
Inputs = tuple[Array | Mapping[str, Array], *tuple[Array, ...]]
"""Observations [B, ...], one array or several by name, and the state [B, S] if there is one."""
Runner = Callable[..., tuple[Array, ...]]
"""Takes inputs; returns the actions, and the next state if there is one."""


class Format(NamedTuple):
    """A file format.

    Args:
        name: What it is called.
        write: Writes a module, which is traced with inputs, to a file.
        load: Returns a function that runs the file.
        usage: Python lines that run it, with places for file, inputs, outputs and call.
        calls: Arguments of the call for observations of one array and of several, without and with
            a state.
        hint: How to make it act faster.
    """

    name: str
    write: Callable[[GreedyModule, Inputs, Path], None]
    load: Callable[[Path], Runner]
    usage: str
    calls: tuple[tuple[str, str], tuple[str, str]]
    hint: str = ""


def tensors(inputs: Inputs) -> tuple[Any, ...]:
    """Returns the inputs as tensors."""
    import torch

    def tensor(leaf: Tree) -> Tree:
        if isinstance(leaf, Mapping):
            return {key: tensor(each) for key, each in leaf.items()}
        return torch.from_numpy(np.ascontiguousarray(leaf))

    return tuple(tensor(each) for each in inputs)


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


def _exported(module: nn.Module, inputs: Inputs) -> Any:
    import torch

    given = tensors(inputs)
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(module, given, dynamic_shapes=_dynamic(given, batch))


def _dynamic(given: Any, batch: Any) -> Any:
    if isinstance(given, Mapping):
        return {key: _dynamic(each, batch) for key, each in given.items()}
    return tuple(_dynamic(each, batch) for each in given) if type(given) is tuple else {0: batch}


# ---- torch.export


def _write_pt2(module: nn.Module, inputs: Inputs, file: Path) -> None:
    import torch

    with _quiet():
        torch.export.save(_exported(module, inputs), file)


def _load_pt2(file: Path) -> Runner:
    import torch

    return _torch_runner(torch.export.load(file).module())


# ---- TorchScript


def _write_ts(module: nn.Module, inputs: Inputs, file: Path) -> None:
    import torch

    with _quiet(), torch.no_grad():
        trace: Any = torch.jit.trace
        freeze: Any = torch.jit.freeze
        freeze(trace(module, tensors(inputs), strict=False).eval()).save(str(file))


def _load_ts(file: Path) -> Runner:
    import torch

    load: Any = torch.jit.load
    with _quiet():
        return _torch_runner(load(str(file)))


def _torch_runner(module: nn.Module) -> Runner:
    import torch

    def run(*inputs: Tree) -> tuple[Array, ...]:
        with torch.no_grad():
            found = module(*tensors(inputs))
        outputs = found if isinstance(found, tuple) else (found,)
        return tuple(each.numpy() for each in outputs)

    return run


# ---- ONNX


def _write_onnx(module: GreedyModule, inputs: Inputs, file: Path) -> None:
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
            _exported(module, inputs), (), str(file), input_names=list(_by_name(inputs)),
            output_names=[*module.parts, *["next_state"] * (len(inputs) - 1)], dynamo=True,
            external_data=False,
            verbose=False,
        )  # fmt: skip


def _by_name(inputs: Inputs) -> dict[str, Array]:
    """Returns the inputs by the names that they have in an ONNX file."""
    obs, *state = inputs
    parts = dict(obs) if isinstance(obs, Mapping) else {"obs": obs}
    return {**parts, **{memory_name(obs): each for each in state}}


def memory_name(obs: Tree) -> str:
    """Returns what the state of a recurrent policy is called; observations may have a `state`."""
    return "memory" if isinstance(obs, Mapping) and "state" in obs else "state"


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

    def run(*inputs: Tree) -> tuple[Array, ...]:
        parts = _by_name(inputs)
        return tuple(session.run(None, {name: parts[name] for name in names}))

    return run


_TORCH = """\
import numpy as np
import torch

policy = {load}
{inputs}
{outputs} = policy({call})
print({shown})
"""
_ONNX = """\
import numpy as np
import onnxruntime

policy = onnxruntime.InferenceSession("{file}")
{inputs}
{outputs} = policy.run(None, {call})
print({shown})
"""
_COMPILE = """
Python runs each operation of this file in turn. Where there is a C++ compiler, compile it once, as
`torch._inductor.aoti_compile_and_package(torch.export.load(FILE), package_path=OUT)` with an `OUT`
that ends in `.pt2`; `policy = torch._inductor.aoti_load_package(OUT)` acts in a fifth of the time.
"""
_ONE = "torch.from_numpy(obs)"
_SEVERAL = "{key: torch.from_numpy(each) for key, each in obs.items()}"
_STATE = ", torch.as_tensor(state)"
_TORCH_CALLS = (_ONE, _ONE + _STATE), (_SEVERAL, _SEVERAL + _STATE)
_ONNX_CALLS = (
    ('{"obs": obs}', '{"obs": obs, "state": state}'),
    ("obs", '{**obs, "{memory}": state}'),
)

FORMATS: Final[Mapping[str, Format]] = {
    ".onnx": Format("ONNX", _write_onnx, _load_onnx, _ONNX, _ONNX_CALLS),
    ".pt2": Format(
        "torch.export",
        _write_pt2,
        _load_pt2,
        _TORCH.replace("{load}", 'torch.export.load("{file}").module()'),
        _TORCH_CALLS,
        _COMPILE,
    ),
    ".ts": Format(
        "TorchScript",
        _write_ts,
        _load_ts,
        _TORCH.replace("{load}", 'torch.jit.load("{file}")'),
        _TORCH_CALLS,
    ),
}
"""Formats by the suffix of the file."""
