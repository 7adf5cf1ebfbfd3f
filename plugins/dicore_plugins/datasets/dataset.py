"""Data sets of transitions: samples of recorded steps, gathered when they are drawn.

Shapes: N samples, B of them, R rows of the file; `...` one item.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete

from dicore.config.compiler import as_config
from dicore.data import Batch, Columns, State, StateDict, Tree, tree_map
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore_plugins.buffers.ring import Ring, as_sequences
from dicore_plugins.datasets.checks import check_recording
from dicore_plugins.datasets.config import DatasetConfig
from dicore_plugins.datasets.recording import Recording, fail
from dicore_plugins.datasets.windows import Windows, places
from dicore_plugins.functional.samples import nstep_columns

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["TransitionDataset"]

_SOME = 16_384
"""Steps that are read at once."""
_BLOCK = 4 << 20
"""Bytes of samples gathered at once: few enough to stay in the CPU cache until they are used."""


class TransitionDataset:
    """Samples obs, action, reward, next_obs, done of recorded episodes; implements `IDataset`.

    With `nstep` above 1, samples bridge n steps and have `value_gamma`; none crosses the end of an
    episode. `done` is the termination only: an episode that a time limit or the end of the file cut
    off has a value after its last step. Columns stay in the file until they are drawn.

    With `unroll_len` L above 1, samples are sequences of steps of one episode: columns [B, L, ...]
    and `valid` bool [B, L], False after the end of the episode, whose last step is repeated there.

    A subclass implements `_read`.

    Args:
        cfg: Options, as a section or a dict.
        observation_space: What observations must fit; None: they are not checked.
        action_space: What actions must fit; None: they are not checked.
        seed: Seed of `shuffle`.

    Attributes:
        fingerprint: sha256 of the content of all files, `sha256:…`.
        reward_scale: Factor of the rewards of samples.

    Raises:
        SchemaError: the file cannot be read, lacks columns, or holds another environment's.
        NonFiniteError: it holds a NaN or an infinity.
        UsageError: there is no such file, or no complete step in it.
    """

    config_class: ClassVar[type[Any]] = DatasetConfig

    def __init__(
        self,
        cfg: DatasetConfig | Mapping[str, object] | None = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        seed: int = 0,
    ) -> None:
        self._cfg = as_config(cfg, self.config_class)
        self.reward_scale = self._cfg.reward_scale
        if not self._cfg.path:
            raise UsageError(f"{type(self).__name__} needs a path", hint="set path")
        recording, self.fingerprint = self._read(self._cfg.path)
        self.observation_space, self.action_space = recording.spaces
        if not len(recording):
            raise UsageError(
                f"{self._cfg.path}: 0 episodes with a complete step", hint="use another data set"
            )
        if isinstance(action_space, Discrete):
            action = recording.columns["action"]
            if getattr(action, "ndim", 0) == 2 and action.shape[1] == 1:
                recording.columns["action"] = action.reshape(-1)
        check_recording(recording, observation_space, action_space)
        recording = self._selected(recording, seed)
        self._recording = recording
        self._steps = len(recording)
        self._spaces = observation_space, action_space
        self._columns = self._columns_of(self._cfg.nstep)
        self._ring = Ring.over(self._columns, self._steps)
        length, stride = self._cfg.unroll_len, self._cfg.stride
        self._windows = Windows(recording.episode, length, stride) if length > 1 else None
        self._count = self._steps if self._windows is None else len(self._windows)

    def _read(self, path: str) -> tuple[Recording, str]:
        """Returns the steps of a data set, and the hash of its content."""
        raise NotImplementedError

    def _selected(self, recording: Recording, seed: int) -> Recording:
        """Returns the steps of the episodes that are used."""
        cfg, numbers = self._cfg, np.unique(recording.episode)
        count = max(1, round(cfg.fraction * len(numbers))) if cfg.episodes is None else cfg.episodes
        if count > len(numbers):
            raise UsageError(
                f"{cfg.path}: {count} episodes are wanted, {len(numbers)} are there",
                hint=f"set episodes to {len(numbers)} or less",
            )
        if count == len(numbers):
            return recording
        if cfg.shuffle:
            numbers = np.random.default_rng(seed).permutation(numbers)
        return recording.select(np.isin(recording.episode, numbers[:count]))

    def _columns_of(self, nstep: int) -> Columns:
        """Returns the columns of the steps, each as an array or as rows of one."""
        recording, count = self._recording, self._steps
        space, action_space = self._spaces
        gamma, next_row = recording.value_gamma, recording.next_row
        reward, done = recording.reward, recording.terminated.astype(np.float32)
        if self.reward_scale != 1:
            reward = reward * np.float32(self.reward_scale)
        if gamma is not None:
            self._check_discount(recording, gamma)
        elif nstep > 1:
            bridged = nstep_columns(
                reward=reward[:, None],
                terminated=recording.terminated[:, None],
                end=self.end[:, None],
                next_obs=np.arange(count)[:, None],
                nstep=nstep,
                gamma=self._cfg.discount_factor,
                starts=count,
            )
            next_row = next_row[bridged["next_obs"][:, 0]]
            reward, done, gamma = (bridged[k][:, 0] for k in ("reward", "done", "value_gamma"))
        row = Rows(recording.row)
        same = recording.obs_row is recording.row or np.array_equal(
            recording.obs_row, recording.row
        )
        obs_row = row if same else Rows(recording.obs_row, row)
        columns = {
            "obs": _samples(recording.obs, obs_row, count, space),
            **{
                name: _samples(each, row, count, action_space if name == "action" else None)
                for name, each in recording.columns.items()
            },
            "reward": reward,
            "next_obs": _samples(recording.next_obs, Rows(next_row, obs_row), count, space),
            "done": done,
            **{name: getattr(self, f"_{name}")() for name in self._cfg.derived},
        }
        return columns if gamma is None else {**columns, "value_gamma": gamma}

    def _timestep(self) -> Tree:
        return places(self._recording.episode)[0]

    def _steps_to_go(self) -> Tree:
        return places(self._recording.episode[::-1])[0][::-1]

    def _return_to_go(self) -> Tree:
        self._need_single_steps("return_to_go")
        reward, ends = self._recording.reward.astype(np.float64), np.flatnonzero(self.end)
        total = np.cumsum(reward)
        last = np.repeat(total[ends], np.diff(np.append(-1, ends)))
        return (last - total + reward).astype(np.float32)

    def _discounted_return(self) -> Tree:
        self._need_single_steps("discounted_return")
        gamma, ends = self._cfg.discount_factor, np.flatnonzero(self.end)
        reward = self._recording.reward * np.float64(self.reward_scale)
        if gamma < 1:  # costs go on after a cut: a sum that ends there would be too high
            first = np.append(0, ends[:-1] + 1)
            mean = np.add.reduceat(reward, first) / (ends - first + 1)
            cut = ~self._recording.terminated[ends]
            reward[ends] += np.where(cut, mean.clip(max=0), 0) * gamma / (1 - gamma)
        rewards = reward[::-1].tolist()
        factors = np.where(self.end, 0, gamma)[::-1].tolist()
        steps = accumulate(
            zip(rewards, factors, strict=True), lambda total, at: at[0] + at[1] * total, initial=0.0
        )
        return np.array([*steps][:0:-1], np.float32)

    def _next_action(self) -> Tree:
        self._need_single_steps("next_action")
        row, end = Rows(self._recording.row), self.end

        def later(column: Tree) -> Tree:
            action = column.take(np.append(np.arange(1, len(end)), 0), 0, None, "clip")
            action = action.astype(np.float32)
            action[end] = np.nan
            return action

        return tree_map(later, _samples(self._recording.columns["action"], row, len(end)))

    def _need_single_steps(self, what: str) -> None:
        if self._recording.value_gamma is not None:
            fail(
                self._recording.file,
                f"{what} needs single steps, these are n-step samples",
                key=self._recording.keys.get("value_gamma", "value_gamma"),
                hint="collect with policy.nstep=1, or write an .npz or .hdf5 file",
            )

    def _check_discount(self, recording: Recording, gamma: npt.NDArray[np.float32]) -> None:
        """Checks that n-step samples were made with the discount of the policy."""
        wanted = self._cfg.discount_factor
        steps = np.ones_like(gamma)
        if 0 < wanted < 1:
            steps = np.round(np.log(np.maximum(gamma, 1e-30)) / np.log(wanted))
        wrong = np.flatnonzero(np.abs(gamma - wanted**steps) > 1e-4)
        if len(wrong):
            fail(
                recording.file,
                f"n-step samples with another discount than {wanted}: {gamma[wrong[0]]:g}",
                key="value_gamma",
                episode=int(recording.episode[wrong[0]]),
                hint="set policy.discount_factor to that of the run that collected them",
            )

    @property
    def episodes(self) -> int:
        """Number of episodes that are used."""
        return int(self.end.sum())

    @property
    def end(self) -> npt.NDArray[np.bool_]:
        """Which steps are the last of their episodes: bool [N], one for each step."""
        episode = self._recording.episode
        return np.append(episode[1:] != episode[:-1], True)

    @property
    def returns(self) -> npt.NDArray[np.float64]:
        """Undiscounted return of each episode: float64 [E]."""
        self._need_single_steps("a return")
        begins = np.flatnonzero(np.append(True, self.end[:-1]))
        return np.add.reduceat(self._recording.reward.astype(np.float64), begins)

    @property
    def actions(self) -> Tree:
        """The actions of all steps, [N, ...]."""
        slots = np.arange(self._steps)
        return tree_map(lambda leaf: leaf.take(slots, 0, None, "clip"), self._columns["action"])

    def statistics(self, column: str = "obs") -> tuple[Tree, Tree]:
        """Returns mean and standard deviation of a column over all steps: float64 [...].

        Policies normalize observations by them (Fujimoto and Gu 2021, TD3+BC).
        """
        return _split(tree_map(self._moments, self._columns[column]))

    def _moments(self, column: Tree) -> Tree:
        shift = column.take(np.arange(1), 0, None, "clip").astype(np.float64)
        total = np.zeros((2, *column.shape[1:]))
        for start in range(0, self._steps, _SOME):
            slots = np.arange(start, min(start + _SOME, self._steps))
            part = column.take(slots, 0, None, "clip") - shift
            total += part.sum(0), np.square(part).sum(0)
        mean, square = total / self._steps
        return np.stack([mean + shift[0], np.sqrt(np.maximum(square - mean**2, 0))])

    def blocks(self) -> Iterator[tuple[Batch, Tail]]:
        """Yields each episode as a block [T, 1, ...] with its tail: what a collector passes on.

        `get_train_sample` of a policy's collect mode makes its own samples from them, of any form.
        The steps are single ones, whatever `nstep` is. Columns that only a policy knows (a
        recurrent state, action probabilities) are not in the block.

        Raises:
            SchemaError: the data set has n-step samples.
        """
        self._need_single_steps("a block")
        columns = self._columns_of(1)
        bounds = np.append(0, np.flatnonzero(self.end) + 1)
        for start, stop in pairwise(bounds):
            slots, count = np.arange(start, stop), stop - start
            block = tree_map(
                lambda leaf, at=slots: leaf.take(at, 0, None, "clip")[:, None], columns
            )
            block["end"] = (slots == stop - 1)[:, None]
            block["done"] = block["done"].astype(np.bool_)
            block["valid"] = np.ones((count, 1), np.bool_)
            block["env_id"] = np.zeros((count, 1), np.int64)
            last = tree_map(lambda leaf: leaf[-1], block["next_obs"])
            yield Batch(block, count), Tail(last, np.array([count - 1]), last, count)

    def __len__(self) -> int:
        return self._count

    def take(self, index: Tree) -> Batch:
        """Returns B samples by index, in this order.

        Args:
            index: int64 [B], each from 0 to N - 1; samples are sorted by episode and time.

        Raises:
            IndexError: an index is out of range.
        """
        index, windows = self._checked(index), self._windows
        if windows is None:
            return self._ring.batch(index)
        steps, valid = windows.steps(index)
        columns = as_sequences(self._ring.batch(steps.reshape(-1)).columns, windows.length)
        return Batch({**columns, "valid": valid}, len(index))

    def take_batches(self, index: Tree, batch_size: int) -> Iterator[Batch]:
        """Yields the samples of an index [M] as batches of `batch_size`; the last may be smaller.

        Gathers several batches at once. Each is in recycled memory, and valid until the one after
        the next is asked for.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size must be >= 1, got {batch_size}")
        index, length = self._checked(index), self._cfg.unroll_len
        some = max(1, self._ring.samples_in(_BLOCK) // (batch_size * length)) * batch_size
        whole = len(index) - len(index) % batch_size
        for start in range(0, whole, some):
            yield from self._recycled(index[start : min(start + some, whole)], batch_size)
        if whole < len(index):
            yield from self._recycled(index[whole:], len(index) - whole)

    def _recycled(self, index: npt.NDArray[np.int64], size: int) -> Iterator[Batch]:
        windows = self._windows
        if windows is None:
            yield from self._ring.recycled(index, size)
            return
        steps, valid = windows.steps(index)
        flat = self._ring.recycled(steps.reshape(-1), size * windows.length)
        for number, each in enumerate(flat):
            batch = each.sequences(windows.length)
            if "valid" not in batch:
                batch.columns["valid"] = np.empty((size, windows.length), np.bool_)
            batch.columns["valid"][...] = valid[number * size : (number + 1) * size]
            yield batch

    def _checked(self, index: Tree) -> npt.NDArray[np.int64]:
        given = np.asarray(index)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
            raise IndexError(f"expected integers [B], got {given.dtype}{[*given.shape]}")
        found = np.ascontiguousarray(given, np.int64)
        if len(found) and found.view(np.uint64).max() >= self._count:  # a negative one is large
            wrong = found[(found < 0) | (found >= self._count)][0]
            raise IndexError(f"samples are numbered 0 to {self._count - 1}, got {wrong}")
        return found

    def state_dict(self) -> StateDict:
        """Returns the hash of the content, for a run that is resumed."""
        return {"fingerprint": self.fingerprint}

    def load_state_dict(self, state: State) -> None:
        """Checks that the content is that of the saved run.

        Raises:
            UsageError: it is another.
        """
        if state["fingerprint"] != self.fingerprint:
            raise UsageError(
                f"{self._cfg.path}: not the data set that the run began with:"
                f" {self.fingerprint}, the run has {state['fingerprint']}",
                hint="restore the file, or begin a new run",
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cfg.path}: {self._count} samples)"


class Rows:
    """Row in the file of each sample; the columns of one draw share what is looked up.

    Args:
        rows: int64 [N], not negative.
        base: What they are near to; they are then stored as differences, in fewer bytes.
    """

    def __init__(self, rows: npt.NDArray[np.int64], base: Rows | None = None) -> None:
        self._base = base
        stored: Any = rows
        if base is not None:
            stored = rows - base.all(len(rows))
        elif (rows == np.arange(len(rows))).all():
            stored = None
        if stored is not None and stored.min() >= 0:
            stored = stored.astype(np.min_scalar_type(stored.max()))
        self._stored = stored
        self._last: tuple[Any, Any] = None, None

    @property
    def whole(self) -> bool:
        """Whether sample i is in row i."""
        return self._stored is None

    def all(self, count: int) -> npt.NDArray[np.int64]:
        """Returns the rows of all samples."""
        return self.of(np.arange(count))

    def of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the rows of samples: int64, in the shape of `slots`."""
        if self._stored is None:
            return slots
        slots_before, rows = self._last  # one tuple: other threads may draw too
        if slots_before is not slots:
            rows = self._stored.take(slots)
            if self._base is not None:
                rows = rows + self._base.of(slots)
            rows = rows.astype(np.int64, copy=False)
            self._last = slots, rows
        return rows  # type: ignore[no-any-return]


class RowsOf:
    """Rows of a column, converted when they are drawn; see `Ring.over`.

    Args:
        column: Array [R, ...], perhaps a memory map.
        rows: Rows of the N samples.
        count: N.
        dtype: Dtype of what is drawn.
    """

    def __init__(self, column: Tree, rows: Rows, count: int, dtype: npt.DTypeLike) -> None:
        self.shape = (count, *column.shape[1:])
        self.dtype = np.dtype(dtype)
        self._column = column
        self._rows = rows
        self._bytes: Any = None
        self._stacks = hasattr(column, "packed")
        if not self._stacks and self.dtype == column.dtype and not column.flags.aligned:
            self._bytes = column.reshape(len(column), -1).view(np.uint8)  # `take` would copy all

    def take(self, slots: Any, axis: int, out: Any, mode: object) -> Tree:
        """Copies samples together, [B, ...]; as `ndarray.take`."""
        rows = self._rows.of(slots)
        if out is None:
            out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        if self._stacks:
            self._column.take(rows).read(out)
        elif self._bytes is not None:
            raw = out.reshape(len(rows), math.prod(self.shape[1:])).view(np.uint8)
            self._bytes.take(rows, 0, raw, mode)
        elif self.dtype == self._column.dtype:
            self._column.take(rows, 0, out, mode)
        else:
            out[...] = self._column[rows]
        return out


def _split(pairs: Tree) -> tuple[Tree, Tree]:
    """Returns a tree of pairs as two trees."""
    first, second = (tree_map(lambda leaf, at=at: leaf[at], pairs) for at in (0, 1))
    return first, second


def _samples(tree: Tree, rows: Rows, count: int, space: Space | None = None) -> Tree:
    """Returns the columns of samples: arrays where sample i is row i, else `RowsOf` them."""
    if isinstance(tree, dict):
        below = getattr(space, "spaces", {})
        return {key: _samples(each, rows, count, below.get(key)) for key, each in tree.items()}
    dtype = getattr(space, "dtype", None) or tree.dtype
    dtype = np.dtype(dtype).newbyteorder("=")
    dtype = np.dtype(np.float32) if dtype == np.float64 else dtype
    if hasattr(tree, "packed"):
        return RowsOf(tree, rows, count, dtype)
    plain = rows.whole and len(tree) == count and tree.flags.aligned and tree.dtype == dtype
    return tree if plain else RowsOf(tree, rows, count, dtype)
