"""Advantages and returns of on-policy blocks: GAE and n-step returns.

Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equation 16), for blocks
that contain ends of episodes:

    delta_t = r_t + gamma (1 - done_t) V(s'_t) - V(s_t)
    A_t = delta_t + gamma lambda (1 - end_t) A_{t+1}

n-step returns (Sutton and Barto 2018, chapter 7) that bridge k = min(n, steps to the end of the
episode or of the block) steps:

    G_t = sum_{j<k} gamma^j r_{t+j} + gamma^k (1 - done_{t+k-1}) V(s'_{t+k-1})

They are computed n times over all steps: G^1 = r + gamma V(s'), G^n_t = r_t + gamma G^{n-1}_{t+1}.
s'_t is the observation after step t: after a truncation the last one of the cut episode, not the
first one of the next. A termination (`done`) has no value after it; a truncation (`end` alone) has.
What lies behind a termination or an end has no influence, not even if it is NaN.

Shapes: T steps, N environments.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dicore.data import Row, Tree
from dicore.data.tree import is_tensor, loaded_torch
from dicore.errors import SchemaError, UsageError

__all__ = ["gae", "get_gae", "get_gae_with_default_last_value", "nstep_return"]

Kernels = Literal["auto", "numba", "numpy"]
Array = Any
"""An array or a tensor; a function returns the type that it is given."""
_COMPILE_AFTER = 200_000
"""Loop steps of NumPy, about half a second, after which `auto` imports numba."""
_loop_steps: float = 0
_gae: Any = None
_nstep: Any = None


def gae(
    reward: Array,
    value: Array,
    next_value: Array,
    done: Array,
    end: Array | None = None,
    *,
    gamma: float = 0.99,
    gae_lambda: float = 0.97,
    kernels: Kernels = "auto",
) -> Any:
    """Computes the advantages A of each step; A + V are the TD(lambda) returns to learn V from.

    Args:
        reward: float32 [T, N] or [T], or [T, N, ...] with a number per agent; arrays or tensors.
        value: float32 [T, N, ...]; V(s).
        next_value: float32 [T, N, ...]; V(s'), see `rows_after`.
        done: bool (or 0/1) [T, N], or [T, N, ...]; s' is terminal.
        end: bool as `done`; the episode's last step, terminated or truncated (`traj_flag` of
            DI-engine); None: episodes end only where `done`.
        gamma: Discount factor.
        gae_lambda: 0: one-step advantages (less variance); 1: returns minus V (no bias).
        kernels: For arrays: `numba` (extra `fast`), `numpy`, or `auto`: numba if it is installed
            and the process has computed so many advantages that compiled code pays. The results
            are equal.

    Returns:
        The shape and dtype of the rewards, in new memory.

    Raises:
        SchemaError: the shapes differ.
        UsageError: numba is asked for and not installed.
    """
    end = done if end is None else end
    if getattr(reward, "ndim", 1) > 2:
        flat = _per_agent(reward, value, next_value, done, end)
        each = gae(*flat, gamma=gamma, gae_lambda=gae_lambda, kernels=kernels)
        return each.reshape(reward.shape)
    if _gae is not None and kernels in ("auto", "numba"):
        try:
            return _gae(reward, value, next_value, done, end, gamma, gae_lambda)
        except (TypeError, ValueError):  # other shapes or types: checked and converted below
            pass
    _check_shapes(reward=reward, value=value, next_value=next_value, done=done, end=end)
    if is_tensor(reward):
        return _tensor_gae(reward, value, next_value, done, end, gamma, gae_lambda)
    columns, kind = _blocks(reward, value, next_value, done, end)
    if _by_numba(kernels, columns[0]):
        found = _gae(*map(_plain, columns), gamma, gae_lambda)
    else:
        found = _numpy_gae(columns, gamma, gae_lambda)
    return found.reshape(np.shape(reward)).astype(kind, copy=False)


def _numpy_gae(columns: Sequence[npt.NDArray[Any]], gamma: float, gae_lambda: float) -> Any:
    reward, value, next_value, done, end = columns
    discount, decay = reward.dtype.type(gamma), reward.dtype.type(gamma * gae_lambda)
    stop = end | done
    with np.errstate(invalid="ignore"):
        advantage = reward + discount * (1 - done.astype(reward.dtype)) * next_value - value
        factor = decay * (1 - stop.astype(reward.dtype))
        later: Tree = 0
        for row, weight in zip(advantage[::-1], factor[::-1], strict=True):
            later = np.add(row, weight * later, out=row)
        if np.isfinite(advantage).all():
            return advantage
        # exactly, but slower: 0 times NaN is NaN
        advantage = np.where(done, reward, reward + discount * next_value) - value
        for t in range(len(advantage) - 2, -1, -1):
            found = advantage[t] + decay * advantage[t + 1]
            advantage[t] = np.where(stop[t], advantage[t], found)
    return advantage


def _tensor_gae(
    reward: Tree,
    value: Tree,
    next_value: Tree,
    done: Tree,
    end: Tree,
    gamma: float,
    gae_lambda: float,
) -> Any:
    import torch

    from dicore_plugins.functional.recursion import backward, widened

    kind = reward.dtype
    reward, value, next_value = widened(reward, value, next_value)
    done, end = done.to(torch.bool), end.to(torch.bool)
    delta = torch.where(done, reward, reward + gamma * next_value) - value
    return backward(delta, torch.full_like(delta, gamma * gae_lambda), end | done, 0).to(kind)


def nstep_return(
    reward: Array,
    next_value: Array,
    done: Array,
    end: Array | None = None,
    *,
    nstep: int,
    gamma: float = 0.99,
    kernels: Kernels = "auto",
) -> Any:
    """Computes the n-step return G of each step.

    Args:
        reward: float32 [T, N] or [T], or [T, N, ...] with a number per agent; arrays or tensors.
        next_value: float32 [T, N, ...]; V(s'), see `rows_after`.
        done: bool (or 0/1) [T, N], or [T, N, ...]; s' is terminal.
        end: bool as `done`; the episode's last step, terminated or truncated; None: episodes end
            only where `done`.
        nstep: n >= 1.
        gamma: Discount factor.
        kernels: See `gae`.

    Returns:
        The shape and dtype of the rewards, in new memory.

    Raises:
        SchemaError: the shapes differ.
        UsageError: nstep is below 1, or numba is asked for and not installed.
    """
    end, nstep = done if end is None else end, index(nstep)
    if nstep < 1:
        raise UsageError(f"nstep must be >= 1, got {nstep}")
    if getattr(reward, "ndim", 1) > 2:
        flat = _per_agent(reward, next_value, done, end)
        each = nstep_return(*flat, nstep=nstep, gamma=gamma, kernels=kernels)
        return each.reshape(reward.shape)
    if _nstep is not None and kernels in ("auto", "numba"):
        try:
            return _nstep(reward, next_value, done, end, nstep, gamma)
        except (TypeError, ValueError):  # as above
            pass
    _check_shapes(reward=reward, next_value=next_value, done=done, end=end)
    if is_tensor(reward):
        return _tensor_nstep(reward, next_value, done, end, nstep, gamma)
    columns, kind = _blocks(reward, next_value, done, end)
    if _by_numba(kernels, columns[0]):
        found = _nstep(*map(_plain, columns), nstep, gamma)
    else:
        found = _numpy_nstep(columns, nstep, gamma)
    return found.reshape(np.shape(reward)).astype(kind, copy=False)


def _numpy_nstep(columns: Sequence[npt.NDArray[Any]], nstep: int, gamma: float) -> Any:
    reward, next_value, done, end = columns
    discount, stop = reward.dtype.type(gamma), (end | done)[:-1]
    one = np.where(done, reward, reward + discount * next_value)
    found = one.copy()
    for _ in range(1, min(nstep, len(reward))):
        found[:-1] = np.where(stop, one[:-1], reward[:-1] + discount * found[1:])
    return found


def _tensor_nstep(
    reward: Tree, next_value: Tree, done: Tree, end: Tree, nstep: int, gamma: float
) -> Any:
    import torch

    from dicore_plugins.functional.recursion import widened

    kind, done = reward.dtype, done.to(torch.bool)
    reward, next_value = widened(reward, next_value)
    stop = (end.to(torch.bool) | done)[:-1]
    one = found = torch.where(done, reward, reward + gamma * next_value)
    for _ in range(1, min(nstep, len(reward))):
        following = torch.where(stop, one[:-1], reward[:-1] + gamma * found[1:])
        found = torch.cat([following, one[-1:]])
    return found.to(kind)


def _per_agent(*columns: Array) -> list[Array]:
    """Returns columns [T, N, ...] as [T, N * ...]; the last two, flags, may lack the other axes."""
    shape = tuple(columns[0].shape)
    flags = {id(each) for each in columns[-2:] if tuple(np.shape(each)) == shape[:2]}
    if wrong := [
        np.shape(each) for each in columns if id(each) not in flags and np.shape(each) != shape
    ]:
        raise SchemaError(f"columns must all be {list(shape)}; got {list(wrong[0])}")
    found = []
    for each in columns:
        whole = each
        if id(each) in flags:
            whole = each.reshape(*shape[:2], *(1,) * (len(shape) - 2))
            whole = whole.expand(shape) if is_tensor(each) else np.broadcast_to(whole, shape)
        found.append(whole.reshape(shape[0], -1))
    return found


def _check_shapes(**columns: Tree) -> None:
    shapes = {tuple(np.shape(each)) for each in columns.values()}
    if len(shapes) > 1 or not 1 <= len(next(iter(shapes))) <= 2:
        *names, last = columns
        raise SchemaError(
            f"{', '.join(names)} and {last} must all be [T, N]; got"
            f" {', '.join(map(str, sorted(shapes)))}"
        )


def _blocks(*columns: Tree) -> tuple[list[npt.NDArray[Any]], Any]:
    """Returns floats in the dtype that sums use and two columns of flags, [T, N] each.

    Also returns the dtype of the result, that of the first column.
    """
    kind = np.asarray(columns[0]).dtype
    if kind.kind != "f":
        kind = np.dtype(np.float32)
    wide = np.promote_types(kind, np.float32)
    arrays = [np.asarray(each, wide) for each in columns[:-2]]
    arrays += [np.asarray(each) != 0 for each in columns[-2:]]
    return [each if each.ndim == 2 else each[:, None] for each in arrays], kind


def _plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.require(column, requirements=["C", "W"])


def _by_numba(kernels: Kernels, reward: npt.NDArray[Any]) -> bool:
    """Decides for the compiled loops and imports them, or for NumPy's."""
    global _gae, _nstep, _loop_steps  # noqa: PLW0603 - the results do not depend on them
    if kernels not in ("auto", "numba", "numpy"):
        raise UsageError(f"unknown kernels '{kernels}'; expected auto, numba, numpy")
    early = kernels == "auto" and _loop_steps < _COMPILE_AFTER
    if kernels == "numpy" or early or reward.dtype != np.float32:
        _loop_steps += len(reward)
        return False
    if not _installed():
        if kernels == "auto":
            return False
        raise UsageError(
            "kernels='numba': numba is not installed",
            hint='pip install "dicore-plugins[fast]", or kernels="numpy", which gives the same',
        )
    if _gae is None:
        try:
            compiled = import_module("dicore_plugins.functional.kernels")
        except Exception as error:  # numba does not fit NumPy, or cannot write its cache
            if kernels == "numba":
                raise
            logging.getLogger(__name__).warning("advantages by NumPy, numba fails: %s", error)
            _loop_steps = -math.inf
            return False
        _gae, _nstep = compiled.gae, compiled.nstep_return
    return True


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def get_gae(
    data: Sequence[Mapping[str, Tree]],
    last_value: Tree,
    gamma: float,
    gae_lambda: float,
    cuda: bool = False,
) -> list[Row]:
    """Adds the advantage `adv` to each of T transitions in time order.

    A row with a true `done` or `truncated` ends an episode. The value of the next state is
    `next_value` of the row if it has one, else `value` of the next row, and `last_value` after the
    last row.

    Args:
        data: T rows with value, reward and done.
        last_value: V of the state after the last row; not used if that row is done.
        gamma: Discount factor.
        gae_lambda: See `gae`.
        cuda: Put the advantages on the GPU.

    Returns:
        T new rows; `adv` is a tensor in the shape of `value` if that is a tensor, else float32.

    Raises:
        SchemaError: a row before the last is truncated and has no `next_value`.
    """
    if not data:
        return []
    done = np.array([bool(row["done"]) for row in data])
    end = np.array([bool(row["done"] or row.get("truncated", False)) for row in data])
    value = [row["value"] for row in data]
    following = [*value[1:], last_value]
    for step, row in enumerate(data):
        if "next_value" in row:
            following[step] = row["next_value"]
        elif end[step] and not done[step] and step < len(data) - 1:
            raise SchemaError(
                f"row {step} is truncated, so the value of its next state is not in row {step + 1}",
                hint="add next_value to the row, or call get_gae for each episode",
            )
    reward, values, next_values = (
        np.array([_number(each) for each in column], np.float32)
        for column in ([row["reward"] for row in data], value, following)
    )
    advantage = gae(reward, values, next_values, done, end, gamma=gamma, gae_lambda=gae_lambda)
    return [
        {**row, "adv": _like(number, row["value"], cuda)}
        for row, number in zip(data, advantage, strict=True)
    ]


def get_gae_with_default_last_value(
    data: Sequence[Mapping[str, Tree]],
    done: bool,
    gamma: float,
    gae_lambda: float,
    cuda: bool = False,
) -> list[Row]:
    """Adds advantages by `get_gae` without a value of the state after the last row.

    Args:
        data: T rows with value, reward and done.
        done: The last row ends the episode: the value after it is 0. Otherwise the last row is
            left out and its value is that of the state after the row before.
        gamma: Discount factor.
        gae_lambda: See `gae`.
        cuda: See `get_gae`.

    Returns:
        T new rows, or T - 1.
    """
    data = list(data)  # a deque has no slices
    if done or not data:
        return get_gae(data, 0.0, gamma, gae_lambda, cuda)
    return get_gae(data[:-1], data[-1]["value"], gamma, gae_lambda, cuda)


def _number(value: Tree) -> float:
    return float(value.detach() if is_tensor(value) else np.asarray(value).item())


def _like(number: np.float32, value: Tree, cuda: bool) -> Tree:
    if not is_tensor(value) and not cuda:
        return number
    torch = loaded_torch()
    assert torch is not None, "tensors and a GPU exist only with torch"
    if not is_tensor(value):
        return torch.tensor(float(number), device="cuda")
    return value.detach().new_full(value.shape, float(number)).to("cuda" if cuda else value.device)
