"""Memories of trajectories and samplers that make training batches of them, after Digideep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.samplers.contract import SamplerContract
    from dicore_plugins.samplers.debugging import check_nan, check_shape, check_stats, print_line
    from dicore_plugins.samplers.interface import Chunk, Info, ISampler
    from dicore_plugins.samplers.memory import Memory, MemoryBuffer, MemoryColumn
    from dicore_plugins.samplers.trajectory import flat_keys, nested_keys, trajectory_of
    from dicore_plugins.samplers.units import (
        Compose,
        compute_advantages,
        flatten_first_two,
        flatten_memory_to_train_key,
        get_last_chunk,
        get_memory_params,
        get_sample_memory,
        sampler_ff,
        sampler_re,
        sampler_rn,
        truncate_datalists,
        wrap_ff,
        wrap_rn,
    )

__all__ = [
    "Chunk",
    "Compose",
    "ISampler",
    "Info",
    "Memory",
    "MemoryBuffer",
    "MemoryColumn",
    "SamplerContract",
    "check_nan",
    "check_shape",
    "check_stats",
    "compute_advantages",
    "flat_keys",
    "flatten_first_two",
    "flatten_memory_to_train_key",
    "get_last_chunk",
    "get_memory_params",
    "get_sample_memory",
    "nested_keys",
    "print_line",
    "sampler_ff",
    "sampler_re",
    "sampler_rn",
    "trajectory_of",
    "truncate_datalists",
    "wrap_ff",
    "wrap_rn",
]

_HOMES = {
    ".contract": ("SamplerContract",),
    ".debugging": ("check_nan", "check_shape", "check_stats", "print_line"),
    ".interface": ("Chunk", "Info", "ISampler"),
    ".memory": ("Memory", "MemoryBuffer", "MemoryColumn"),
    ".trajectory": ("flat_keys", "nested_keys", "trajectory_of"),
    ".units": (
        "Compose",
        "compute_advantages",
        "flatten_first_two",
        "flatten_memory_to_train_key",
        "get_last_chunk",
        "get_memory_params",
        "get_sample_memory",
        "sampler_ff",
        "sampler_re",
        "sampler_rn",
        "truncate_datalists",
        "wrap_ff",
        "wrap_rn",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
