"""The units of samplers, after Digideep (`digideep.memory.sampler`), and their chains.

A unit is a function of data and info (see `ISampler`). What it needs and no option gives, it takes
from info: `info[<its name>]` holds options by name, and `agent_name` the agent.

Shapes: B workers, T steps, n entries, M rows of a batch; `...` one item.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.errors import ReplayUnderflowError, SchemaError, UsageError
from dicore_compat.samplers.interface import Chunk, Info
from dicore_compat.samplers.memory import Memory, MemoryBuffer
from dicore_plugins.functional.advantage import gae

__all__ = [
    "Compose", "compute_advantages", "flatten_first_two", "flatten_memory_to_train_key",
    "get_last_chunk", "get_memory_params", "get_sample_memory", "sampler_ff", "sampler_re",
    "sampler_rn", "truncate_datalists", "wrap_ff", "wrap_rn",
]  # fmt: skip

Array = npt.NDArray[Any]


class _Info(dict[str, Any]):
    """The info of one call of a chain."""


class Compose:
    """A chain of units: each gets what the one before it returned, and all share one info.

    A chain is a unit itself. The info that the caller passes stays as it is.

    Args:
        units: Functions of data and info.
    """

    def __init__(self, units: Sequence[Callable[[Any, Info], Any]]) -> None:
        self.units = tuple(units)

    def __call__(self, data: object, info: Mapping[str, object] | None = None) -> Any:
        """Returns what the last unit returns.

        Args:
            data: The memory, or whatever the first unit takes.
            info: Options of the units, and what they need to know.
        """
        shared = info if isinstance(info, _Info) else _Info(info or {})
        for unit in self.units:
            data = unit(data, shared)
        return data

    def __repr__(self) -> str:
        names = (getattr(unit, "__name__", repr(unit)) for unit in self.units)
        return f"Compose({', '.join(names)})"


def _option(info: Info, unit: Callable[..., object], name: str, given: object) -> Any:
    """Returns an option of a unit: what `info[<name of the unit>]` says, else what was passed.

    Raises:
        UsageError: info has an option that the unit does not have.
    """
    said = info.get(unit.__name__, {})
    known = [*inspect.signature(unit).parameters][2:]
    if unknown := sorted(said.keys() - set(known)):
        raise UsageError(
            f"{unit.__name__} has no option '{unknown[0]}'", hint=f"choose from {', '.join(known)}"
        )
    return said.get(name, given)


def _needed(info: Info, name: str, by: str) -> Any:
    if name not in info:
        raise UsageError(
            f"{by} needs info['{name}']", hint="put get_memory_params before it, or pass it"
        )
    return info[name]


def _rng(info: Info) -> np.random.Generator:
    """Returns the random generator of a chain: `info["rng"]`, else the run's stream `sampler`."""
    if "rng" not in info:
        from dicore.run.random import stream

        info["rng"] = stream("sampler")
    generator: np.random.Generator = info["rng"]
    return generator


# ---- from the memory


def flatten_memory_to_train_key(data: Mapping[str, Memory] | Memory, info: Info) -> Memory:
    """Takes the memory `train` of the memories by mode (`train`, `demo`); one memory is kept.

    Raises:
        SchemaError: there is none of this name.
    """
    if not isinstance(data, Mapping):
        return data
    if "train" not in data:
        raise SchemaError(f"no memory 'train' among {', '.join(data) or 'none'}")
    return data["train"]


def get_memory_params(data: Memory, info: Info) -> MemoryBuffer:
    """Stores `num_steps` (T), `num_workers` (B) and `num_records` (n) in info; returns the entries.

    Raises:
        ReplayUnderflowError: the memory is empty.
    """
    buffer = data.get_buffer()
    info["num_steps"] = data.get_chunk_sample_num()
    info["num_workers"] = data.get_num_batches()
    info["num_records"] = data.get_last_trans_index()
    info["overrun"] = data.get_overrun()
    return buffer


def get_last_chunk(data: MemoryBuffer | Chunk, info: Info) -> dict[str, Array]:
    """Returns the newest chunk, [B, T + 1, ...]."""
    length = _needed(info, "num_steps", "get_last_chunk") + info.get("overrun", 1)
    return {key: np.asarray(column[:, -length:]) for key, column in data.items()}


def get_sample_memory(
    data: MemoryBuffer | Chunk, info: Info, *, batch_size: int = 64, use_cer: bool = False
) -> dict[str, Array]:
    """Draws steps of the whole memory uniformly, with replacement, and what comes after them.

    The batch [M, ...] has all keys, `/observations_2` (or `/observations_2/<k>`) and `/masks_2`,
    those of the entry after each step: a TD target has the factor `/masks_2`, which is 0 if the
    step ended its episode. Steps that a truncation ended are not drawn if `/infos/terminated`
    tells them from terminations: the observation after them is that of another episode.

    Args:
        data: Entries of the memory, by key.
        info: What the units of a chain share.
        batch_size: M; `info["batch_size"]` replaces it.
        use_cer: The last row of the batch is the newest step of a random worker (combined
            experience replay, Zhang and Sutton 2017).

    Raises:
        ReplayUnderflowError: fewer steps are stored, or all of them were truncated.
    """
    size = _option(info, get_sample_memory, "batch_size", info.get("batch_size", batch_size))
    newest = _option(info, get_sample_memory, "use_cer", use_cer)
    workers = _needed(info, "num_workers", "get_sample_memory")
    steps = _needed(info, "num_records", "get_sample_memory") - 1
    if size < 1:
        raise UsageError(f"batch_size must be >= 1, got {size}")
    if size > workers * steps:
        raise ReplayUnderflowError(
            f"cannot sample: asked {size}, have {workers * steps} steps", hint="store more first"
        )
    rng = _rng(info)
    worker, step = rng.integers(0, workers, size), rng.integers(0, steps, size)
    if newest:
        step[-1] = steps - 1
    for _ in range(_TRIES):
        cut = np.flatnonzero(_truncated(data, worker, step))
        if not len(cut):
            break
        worker[cut], step[cut] = (
            rng.integers(0, workers, len(cut)),
            rng.integers(0, steps, len(cut)),
        )
    else:
        raise ReplayUnderflowError("nearly all steps of the memory were truncated")
    batch = {key: np.asarray(column[worker, step]) for key, column in data.items()}
    for key, column in data.items():
        parts = key.split("/")
        if parts[1] in ("observations", "masks"):
            after = "/".join(["", f"{parts[1]}_2", *parts[2:]])
            batch[after] = np.asarray(column[worker, step + 1])
    return batch


_TRIES = 1000
"""Times that truncated steps are drawn again."""


def _truncated(data: MemoryBuffer | Chunk, worker: Array, step: Array) -> Array:
    """Returns which steps were ended by a truncation: bool [M]."""
    if "/infos/terminated" not in data:
        return np.zeros(len(worker), np.bool_)
    ended = np.asarray(data["/masks"][worker, step + 1]) == 0
    found: Array = (ended & (np.asarray(data["/infos/terminated"][worker, step]) == 0)).reshape(-1)
    return found


# ---- from chunk to chunk


def compute_advantages(
    data: Chunk,
    info: Info,
    *,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
    use_gae: bool = True,
    normalize: bool = False,
) -> dict[str, Array]:
    """Adds `/agents/<agent_name>/artifacts/advantages` and `…/returns`, from `…/values`.

    They are generalized advantage estimates (Schulman et al. 2016), see `functional.gae`; `returns`
    are advantages + values. With `…/next_values` (the values of the true next observations) and
    `/infos/terminated`, an episode that a time limit cut off has a value after its end; without
    them every end of an episode counts as a termination. The half step has the advantage 0.

    Args:
        data: Chunk [B, T + 1, ...].
        info: What the units of a chain share.
        gamma: Discount factor.
        gae_lambda: Lambda of GAE.
        use_gae: False: discounted returns (lambda = 1).
        normalize: Advantages get mean 0 and standard deviation 1.

    Raises:
        SchemaError: the chunk has no values of the agent.
    """
    option = partial(_option, info, compute_advantages)
    prefix = f"/agents/{info.get('agent_name', 'agent')}/artifacts"
    for key in (f"{prefix}/values", "/masks", "/rewards"):
        if key not in data:
            raise SchemaError(f"the chunk has no {key}; it has {', '.join(data)}")
    values = _by_time(data[f"{prefix}/values"])
    ended = _by_time(data["/masks"])[1:] == 0
    following, done = values[1:], ended
    if f"{prefix}/next_values" in data and "/infos/terminated" in data:
        following = _by_time(data[f"{prefix}/next_values"])[:-1]
        done = _by_time(data["/infos/terminated"])[:-1] > 0
    advantages = np.zeros_like(values)
    advantages[:-1] = gae(
        _by_time(data["/rewards"])[:-1],
        values[:-1],
        following,
        done,
        ended,
        gamma=option("gamma", gamma),
        gae_lambda=option("gae_lambda", gae_lambda) if option("use_gae", use_gae) else 1.0,
    )
    returns = advantages + values
    if option("normalize", normalize):
        steps = advantages[:-1]
        advantages[:-1] = (steps - steps.mean()) / (steps.std() + 1e-5)
    added = {f"{prefix}/advantages": advantages, f"{prefix}/returns": returns}
    return {**data, **{key: np.ascontiguousarray(each.T[..., None]) for key, each in added.items()}}


def _by_time(column: Array) -> npt.NDArray[np.float32]:
    """Returns [B, T + 1, 1] as float32 [T + 1, B]."""
    return np.array(column[:, :, 0].T, np.float32)


def truncate_datalists(data: Chunk, info: Info, *, n: int = 1) -> dict[str, Array]:
    """Leaves out the last entries, the half step: [B, T + n, ...] becomes [B, T, ...].

    Args:
        data: Chunk [B, T + n, ...].
        info: What the units of a chain share.
        n: Number of entries.

    Raises:
        UsageError: there are fewer entries, or n is negative.
    """
    count = _option(info, truncate_datalists, "n", n)
    least = min((column.shape[1] for column in data.values()), default=0)
    if not 0 <= count <= least:
        raise UsageError(f"n must be from 0 to {least}, the number of entries, got {count}")
    return {key: column[:, : column.shape[1] - count] for key, column in data.items()}


def flatten_first_two(data: Chunk, info: Info) -> dict[str, Array]:
    """Joins the first two axes: [B, T, ...] becomes [B * T, ...], worker by worker."""
    return {key: column.reshape(-1, *column.shape[2:]) for key, column in data.items()}


# ---- batches


def wrap_ff(data: Chunk, info: Info, *, num_mini_batches: int = 4) -> Iterator[dict[str, Array]]:
    """Yields all rows of [B, T, ...] once, in random order, in mini-batches [M, ...].

    Args:
        data: Chunk [B, T, ...].
        info: What the units of a chain share.
        num_mini_batches: Number of mini-batches; their sizes differ by one at most.

    Raises:
        UsageError: there are fewer rows than mini-batches.
    """
    flat = flatten_first_two(data, info)
    rows = len(next(iter(flat.values())))
    number = info.get("num_mini_batches", num_mini_batches)
    number = _option(info, wrap_ff, "num_mini_batches", number)
    parts = _parts(rows, number, _rng(info), "rows")
    return ({key: column[rows] for key, column in flat.items()} for rows in parts)


def wrap_rn(data: Chunk, info: Info, *, num_mini_batches: int = 4) -> Iterator[dict[str, Array]]:
    """Yields all workers once, in random order, in mini-batches of whole sequences.

    Of M workers, a mini-batch has the rows [T * M, ...], step by step, and the hidden states
    [M, ...] of the first step alone, from which a recurrent network computes the others.

    Args:
        data: Chunk [B, T, ...].
        info: What the units of a chain share.
        num_mini_batches: Number of mini-batches; their sizes differ by one worker at most.

    Raises:
        UsageError: there are fewer workers than mini-batches.
    """
    workers = len(next(iter(data.values())))
    number = info.get("num_mini_batches", num_mini_batches)
    number = _option(info, wrap_rn, "num_mini_batches", number)
    hidden = f"/agents/{info.get('agent_name', 'agent')}/hidden_state"
    parts = _parts(workers, number, _rng(info), "workers")

    def batch(some: Array) -> dict[str, Array]:
        cut = {
            key: column[some, :1] if key == hidden or key.startswith(f"{hidden}/") else column[some]
            for key, column in data.items()
        }
        return {key: _time_first(column) for key, column in cut.items()}

    return (batch(some) for some in parts)


def _time_first(column: Array) -> Array:
    """Returns [M, T, ...] as [T * M, ...], step by step."""
    return column.swapaxes(0, 1).reshape(-1, *column.shape[2:])


def _parts(count: int, number: int, rng: np.random.Generator, what: str) -> list[Array]:
    """Returns the numbers from 0 to count - 1 in random order, in parts."""
    if not 1 <= number <= count:
        raise UsageError(
            f"num_mini_batches must be from 1 to {count}, the number of {what}, got {number}"
        )
    return np.array_split(rng.permutation(count), number)


_preprocess = Compose([get_memory_params, get_last_chunk, compute_advantages, truncate_datalists])

sampler_ff = Compose([_preprocess, wrap_ff])
"""Mini-batches of the newest chunk with advantages, for PPO."""
sampler_rn = Compose([_preprocess, wrap_rn])
"""Mini-batches of whole sequences of the newest chunk with advantages, for recurrent PPO."""
sampler_re = Compose([flatten_memory_to_train_key, get_memory_params, get_sample_memory])
"""A batch of the whole memory, for DDPG and SAC."""
