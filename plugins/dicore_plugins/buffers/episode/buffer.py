"""A replay buffer whose elements are whole episodes.

Shapes: N steps pushed, B episodes drawn, T steps of the longest of them, `...` one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, Row, Tree, tree_map
from dicore.errors import ReplayCapacityError, SchemaError
from dicore_plugins.buffers.base import SampleBuffer, check_draw, stored
from dicore_plugins.buffers.continuity import Continuity, origin
from dicore_plugins.buffers.episode.config import EpisodeConfig
from dicore_plugins.buffers.naive.buffer import samples_of
from dicore_plugins.buffers.ring import IntArray, Ring, check_kind

__all__ = ["EpisodeBuffer", "EpisodeReplayBuffer"]

Episodes = Sequence[Batch | Sequence[Mapping[str, Any]]]


class EpisodeReplayBuffer(SampleBuffer):
    """Stores the newest episodes, and samples whole ones uniformly; implements `IBuffer`.

    Episodes are pushed whole, as a list of episodes (a `Batch` or a list of steps each); or step by
    step, with `end` bool [N] (the last step of an episode) and `env_id` int64 [N]: then an episode
    counts from the push of its last step on. An episode with missing steps is left out. Samples
    without `end` are stored as they are: each is an element, like an episode of one step.

    `sample` returns a list of episodes, each a list of steps (dicts). `sample_batch` returns the
    steps of B episodes one after the other, [steps, ...], where `end` marks their last steps; with
    `padded`, columns [B, T, ...], which repeat the last step after the end, and `valid` bool [B, T]
    and `episode_len` int64 [B].

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
    """

    config_class = EpisodeConfig
    keeps_origin = True
    """Middleware pushes `end` and `env_id` too."""

    def __init__(
        self,
        cfg: EpisodeConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(cfg, rng=rng)
        self.push_count = 0
        self._forget()

    def _forget(self) -> None:
        self._episodes: deque[Batch] = deque(maxlen=self._cfg.replay_buffer_size)
        self._running: dict[int, list[Batch]] = {}
        self._broken: set[int] = set()
        self._continuity = Continuity()
        self._form = Ring(1)

    def count(self) -> int:
        """Number of stored episodes."""
        return len(self._episodes)

    __len__ = count

    @property
    def episode_len(self) -> list[int]:
        """Number of steps of each stored episode, oldest first."""
        return [len(episode) for episode in self._episodes]

    # ---- writing

    def push(
        self,
        data: Row | Sequence[Mapping[str, Any]] | Batch | Episodes,
        cur_collector_envstep: int | None = None,
    ) -> range:
        """Stores episodes, or steps of running episodes; see the class.

        Returns:
            The ids of the episodes that are now complete.

        Raises:
            SchemaError: the data are not episodes or steps, or keys, dtypes or shapes differ from
                the first push.
            ReplayCapacityError: an episode is longer than `max_episode_len`.
        """
        if _are_episodes(data):
            whole = [samples_of(each) for each in data]  # type: ignore[arg-type, union-attr]
            with self._lock:
                return self._store([self._ended(each) for each in whole if len(each)])
        steps = samples_of(data)  # type: ignore[arg-type]
        with self._lock:
            if not len(steps):
                return range(self.push_count, self.push_count)
            self._check(steps)
            if "end" not in steps or np.ndim(steps["end"]) != 1:
                return self._store(_copied(steps[at : at + 1]) for at in range(len(steps)))
            return self._store(self._completed(steps))

    def _ended(self, episode: Batch) -> Batch:
        """Returns a copy of an episode, with `end` at its last step."""
        if len(episode) > self._cfg.max_episode_len:
            raise self._too_long(len(episode), "")
        end = np.zeros(len(episode), np.bool_)
        end[-1] = True
        episode = Batch({**episode.columns, "end": end}, len(episode))
        self._check(episode)
        return _copied(episode)

    def _completed(self, steps: Batch) -> list[Batch]:
        """Adds steps to the running episodes, and returns those that they end, in this order."""
        env_id, end = origin(steps)
        if env_id.shape != (len(steps),) or end is None:
            raise SchemaError(f"expected env_id [{len(steps)}], got {list(env_id.shape)}")
        self._check_lengths(env_id, end)
        breaks = self._continuity.breaks(steps, env_id, end)
        broken = set() if breaks is None else set(env_id[breaks].tolist())
        found: list[tuple[int, Batch]] = []
        for env in np.unique(env_id).tolist():
            rows = np.flatnonzero(env_id == env)
            if env in broken:
                self._running.pop(env, None)
                self._broken.add(env)
            for piece in np.split(rows, np.flatnonzero(end[rows]) + 1):
                if not len(piece):
                    continue
                self._running.setdefault(env, []).append(_copied(steps[piece]))
                if end[piece[-1]]:
                    episode = Batch.concat(self._running.pop(env))
                    if env not in self._broken:
                        found.append((int(piece[-1]), episode))
                    self._broken.discard(env)
        return [episode for _, episode in sorted(found, key=lambda each: each[0])]

    def _check_lengths(self, env_id: IntArray, end: Any) -> None:
        """Raises ReplayCapacityError before steps are added to an episode that is too long."""
        most = self._cfg.max_episode_len
        for env in np.unique(env_id).tolist():
            cuts = np.flatnonzero(end[env_id == env]) + 1
            count = int((env_id == env).sum())
            lengths = np.diff(np.concatenate([[0], cuts, [count]]))
            lengths[0] += sum(map(len, self._running.get(env, ())))
            if lengths.max() > most:
                raise self._too_long(int(lengths.max()), f" of env {env}")

    def _too_long(self, length: int, where: str) -> ReplayCapacityError:
        return ReplayCapacityError(
            f"an episode{where} has {length} steps; max_episode_len is {self._cfg.max_episode_len}",
            hint="limit the episodes (env_wrapper time_limit), or raise max_episode_len",
        )

    def _store(self, episodes: Iterable[Batch]) -> range:
        first = self.push_count
        for episode in episodes:
            self._episodes.append(episode)
            self.push_count += 1
        return range(first, self.push_count)

    def update(self, info: Mapping[str, Any]) -> None:
        """Ignores priorities: sampling is uniform."""

    def clear(self) -> None:
        """Drops all episodes, also running ones; ids continue to rise."""
        with self._lock:
            self._forget()

    # ---- reading

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Any]:
        """Draws B episodes uniformly and independently.

        Returns:
            B lists of steps, which are dicts (copies); B dicts if what was pushed had no `end`.
        """
        with self._lock:
            episodes = self._draw(batch_size, sample_range, replace=replace)
        rows = [_dense(_copied(each)).rows() for each in episodes]
        return rows if "end" in episodes[0] else [each[0] for each in rows]

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch:
        """Draws B episodes uniformly and independently; see the class for the columns.

        Raises:
            ReplayUnderflowError: B exceeds the number of episodes to draw from, without `replace`.
            UsageError: B is not positive.
        """
        with self._lock:
            episodes = self._draw(batch_size, sample_range, replace=replace)
        if self._cfg.padded:
            return _padded(episodes)
        return _dense(Batch.concat(episodes) if len(episodes) > 1 else _copied(episodes[0]))

    def _draw(self, size: int, sample_range: slice | None, *, replace: bool) -> list[Batch]:
        places = range(len(self._episodes))[slice(None) if sample_range is None else sample_range]
        check_draw(size, len(places), "episodes", replace=replace)
        chosen = self._rng.integers(0, len(places), size).tolist()
        return [self._episodes[places[each]] for each in chosen]

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns episodes, also running ones, and the state of the random generator."""
        with self._lock:
            running = {env: Batch.concat(pieces) for env, pieces in self._running.items()}
            return {
                "episodes": _joined(self._episodes),
                "episode_len": np.array(self.episode_len, np.int64),
                "running": _joined(running.values()),
                "running_len": np.array([len(each) for each in running.values()], np.int64),
                "running_env": np.array([*running], np.int64),
                "broken_env": np.array(sorted(self._broken), np.int64),
                "continuity": self._continuity.state_dict(),
                "push_count": self.push_count,
                "rng": self._rng.bit_generator.state,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        Raises:
            ReplayCapacityError: the episodes do not fit into this buffer.
            UsageError: the state is of another kind of buffer.
        """
        check_kind(state, "episode_len", "episodes")
        count = len(state["episode_len"])
        if count > self.replay_buffer_size:
            raise ReplayCapacityError(
                f"the state has {count} episodes, the buffer's capacity is"
                f" {self.replay_buffer_size}",
                hint=f"set replay_buffer_size={count} or more",
            )
        with self._lock:
            self._forget()
            self._episodes.extend(_split(state["episodes"], state["episode_len"]))
            running = _split(state["running"], state["running_len"])
            envs = np.asarray(state["running_env"]).tolist()
            self._running = {env: [each] for env, each in zip(envs, running, strict=True)}
            self._broken = set(np.asarray(state["broken_env"]).tolist())
            self._continuity.load_state_dict(state["continuity"])
            for each in (*self._episodes, *running):
                self._check(each)
                break
            self.push_count = int(state["push_count"])
        self._rng.bit_generator.state = dict(state["rng"])


def _are_episodes(data: Any) -> bool:
    """Returns whether the data are a list of whole episodes."""
    if isinstance(data, Mapping | Batch | str) or not isinstance(data, Sequence) or not data:
        return False
    return all(isinstance(each, Batch | list | tuple) for each in data)


def _copied(steps: Batch) -> Batch:
    """Returns a copy of steps in float32; frame stacks share their frames."""
    return Batch(tree_map(_copy, steps.columns), len(steps))


def _copy(leaf: Any) -> Any:
    if hasattr(leaf, "packed"):
        return type(leaf)(leaf.numbers.copy(), leaf.chunks)
    return stored(leaf)


def _dense(steps: Batch) -> Batch:
    """Returns steps whose frame stacks are arrays."""
    return steps.map(np.asarray)


def _padded(episodes: Sequence[Batch]) -> Batch:
    """Returns episodes as columns [B, T, ...]; after its end, an episode repeats its last step."""
    lengths = np.array([len(each) for each in episodes], np.int64)
    at = np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)
    rows = at + (np.cumsum(lengths) - lengths)[:, None]
    joined = _dense(Batch.concat(episodes)).columns
    columns: dict[str, Tree] = tree_map(lambda leaf: leaf[rows], joined)
    columns["valid"] = np.arange(lengths.max()) < lengths[:, None]
    columns["episode_len"] = lengths
    return Batch(columns, len(episodes))


def _joined(episodes: Iterable[Batch]) -> dict[str, Any]:
    """Returns the columns of all steps."""
    every = [*episodes]
    return _dense(Batch.concat(every)).columns if every else {}


def _split(columns: Mapping[str, Any], lengths: Any) -> list[Batch]:
    """Returns copies of episodes that were joined."""
    if not len(lengths):
        return []
    steps = Batch(dict(columns))
    ends = np.cumsum(np.asarray(lengths)).tolist()
    return [
        _copied(steps[end - length : end])
        for end, length in zip(ends, np.asarray(lengths).tolist(), strict=True)
    ]


EpisodeBuffer = EpisodeReplayBuffer
"""Alias for DI-engine code."""
