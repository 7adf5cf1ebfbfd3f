"""A replay buffer whose elements are whole episodes.

Shapes: N steps pushed, B episodes drawn, T steps of the longest of them, `...` one step.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.errors import ReplayCapacityError, SchemaError
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers.base import ReplayBuffer, Samples, check_draw, samples_of, stored
from dicore_plugins.buffers.continuity import Continuity, origin
from dicore_plugins.buffers.episode.config import EpisodeConfig
from dicore_plugins.buffers.memory import Fact, available_bytes, check_bytes, check_room, row_bytes
from dicore_plugins.buffers.ring import MUCH, IntArray

__all__ = ["EpisodeBuffer", "EpisodeReplayBuffer"]

_LOG = logging.getLogger("dicore.buffer")


class EpisodeReplayBuffer(ReplayBuffer):
    """Stores the newest episodes, and samples whole ones uniformly; implements `IBuffer`.

    Episodes are pushed whole, as a list of episodes (a `Batch` or a list of steps each); or step by
    step, with `end` bool [N] (the last step of an episode) and `env_id` int64 [N]: then an episode
    counts from the push of its last step on. An episode with missing steps is left out. `push`
    returns the ids of the episodes that are now complete. Samples without `end` are stored as they
    are: each is an element, like an episode of one step.

    `sample` returns a list of episodes, each a list of steps (dicts), or dicts without `end`.
    `sample_batch` returns the steps of B episodes one after the other, [steps, ...], where `end`
    marks their last steps; with `padded`, columns [B, T, ...], which repeat the last step after the
    end, and `valid` bool [B, T] and `episode_len` int64 [B].

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        rng: Random generator for sampling; None: the stream `buffer`.
    """

    config_class = EpisodeConfig
    state_kind = ("episode_len", "episodes")
    state_entries = (
        *("episodes", "episode_len", "running", "running_len", "running_env", "broken_env"),
        *("continuity.env_id", "continuity.open", "push_count"),
    )
    capacity_in_episodes = True
    keeps_origin = True
    """Middleware pushes `end` and `env_id` too."""

    def __init__(
        self,
        cfg: EpisodeConfig | Mapping[str, Any] | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(cfg, rng=rng)
        self._empty()

    def _empty(self) -> None:
        self._episodes: deque[Batch] = deque(maxlen=self._cfg.replay_buffer_size)
        self._running: dict[int, list[Batch]] = {}
        self._lengths: dict[int, int] = {}
        self._broken: set[int] = set()
        self._continuity = Continuity()
        self._schema.clear()

    def count(self) -> int:
        """Number of stored episodes."""
        return len(self._episodes)

    @property
    def episode_len(self) -> list[int]:
        """Number of steps of each stored episode, oldest first."""
        return [len(episode) for episode in self._episodes]

    # ---- writing

    def push(
        self, data: Samples | Sequence[Batch], cur_collector_envstep: int | None = None
    ) -> range | Refused:
        """Stores steps, or a list of episodes; returns the ids of episodes; see the class."""
        if not _are_episodes(data):
            return super().push(samples_of(data), cur_collector_envstep)
        whole = [samples_of(each) for each in data]
        with self._lock:
            return self._once(self._push_episodes, whole, None)

    def _push_episodes(self, episodes: list[Batch], env_step: int | None) -> range:
        return self._store([self._ended(each) for each in episodes if len(each)])

    def _push(self, steps: Batch, env_step: int | None) -> range:
        single = "end" not in steps or np.ndim(steps["end"]) != 1
        if not single and origin(steps)[0].shape != (len(steps),):
            shape = list(np.shape(steps["env_id"]))
            raise SchemaError(f"expected env_id [{len(steps)}], got {shape}")
        self._schema.check(steps)
        if single:
            return self._store(_copied(steps[at : at + 1]) for at in range(len(steps)))
        return self._store(self._completed(steps))

    def _ended(self, episode: Batch) -> Batch:
        """Returns a copy of an episode, with `end` at its last step."""
        if len(episode) > self._cfg.max_episode_len:
            raise self._too_long(len(episode), "")
        end = np.zeros(len(episode), np.bool_)
        end[-1] = True
        episode = Batch({**episode.columns, "end": end}, len(episode))
        self._schema.check(episode)
        return _copied(episode)

    def _completed(self, steps: Batch) -> list[Batch]:
        """Adds steps to the running episodes, and returns those that they end, in this order."""
        env_id, end = origin(steps)
        assert end is not None, "steps have a column `end`, see `_push`"
        self._check_lengths(env_id, end)
        self._check_running(steps, len(np.unique(env_id)))
        breaks = self._continuity.breaks(steps, env_id, end)
        broken = set() if breaks is None else set(env_id[breaks].tolist())
        found: list[tuple[int, Batch]] = []
        for env in np.unique(env_id).tolist():
            rows = np.flatnonzero(env_id == env)
            if env in broken:
                self._running.pop(env, None)
                self._lengths.pop(env, None)
                self._broken.add(env)
            for piece in np.split(rows, np.flatnonzero(end[rows]) + 1):
                if not len(piece):
                    continue
                self._running.setdefault(env, []).append(_copied(steps[piece]))
                self._lengths[env] = self._lengths.get(env, 0) + len(piece)
                if end[piece[-1]]:
                    episode = Batch.concat(self._running.pop(env))
                    del self._lengths[env]
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
            lengths[0] += self._lengths.get(env, 0)
            if lengths.max() > most:
                raise self._too_long(int(lengths.max()), f" of env {env}")

    def _check_running(self, steps: Batch, num_envs: int) -> None:
        """Checks whether running episodes will fit into the memory, at 1, 2, 4, 8 … steps of all.

        Raises:
            ReplayCapacityError: twice as many steps will not.
        """
        held = sum(self._lengths.values())
        doubled = 1 << (held + len(steps)).bit_length()
        if doubled == 1 << held.bit_length():
            return
        doubled = min(doubled, self._cfg.max_episode_len * max(num_envs, len(self._lengths)))
        one = row_bytes(optree.tree_leaves(steps.columns))
        free = available_bytes() if one * doubled >= MUCH else None
        if free is not None and one * (doubled - held) > free:
            raise ReplayCapacityError(
                f"running episodes have {held} steps so far; {doubled - held} more need"
                f" {one * (doubled - held) / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB of memory"
                " are available",
                hint="limit the episodes (env_wrapper time_limit, or max_episode_len if they are"
                " shorter anyway), or use fewer environments",
                context={"needed_bytes": one * doubled, "available_bytes": free},
            )

    def _too_long(self, length: int, where: str) -> ReplayCapacityError:
        return ReplayCapacityError(
            f"an episode{where} has {length} steps; max_episode_len is {self._cfg.max_episode_len}",
            hint="limit the episodes (env_wrapper time_limit), or raise max_episode_len",
        )

    def _store(self, episodes: Iterable[Batch]) -> range:
        first, found = self.push_count, [*episodes]
        self._check_memory(found)
        self._episodes.extend(found)
        self._push_count += len(found)
        return range(first, self.push_count)

    def _check_memory(self, new: list[Batch]) -> None:
        """Checks whether the full buffer will fit into the memory, after 1, 2, 4, 8 … episodes.

        Raises:
            ReplayCapacityError: it will not, by the length of the first ones; later it is a
                warning, as the mean length changes.
        """
        count, capacity = self.push_count + len(new), self.replay_buffer_size
        if not new or count.bit_length() == self.push_count.bit_length():
            return
        lengths = [*self.episode_len, *map(len, new)]
        one, mean = row_bytes(optree.tree_leaves(new[0].columns)), sum(lengths) / len(lengths)
        needed, held = int(one * mean * capacity), one * sum(self.episode_len)
        if needed < MUCH:
            return
        what = f"episodes of {mean:.0f} steps"
        free = available_bytes()
        try:
            check_bytes(needed, capacity, None if free is None else free + held, "of memory", what)
        except ReplayCapacityError as error:
            if not self.push_count:
                raise
            _LOG.warning("%s; %s", error.message, error.hint)

    def clear(self) -> None:
        """Drops all episodes, also running ones; ids continue to rise."""
        with self._lock:
            self._empty()

    # ---- reading

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Any]:
        """Draws like `sample_batch`; returns a list of episodes, or of dicts without `end`."""
        with self._lock:
            episodes = self._chosen(batch_size, sample_range, replace)
            rows = [_dense(_copied(each)).rows() for each in episodes]
        return rows if "end" in episodes[0] else [each[0] for each in rows]

    def _drawn(
        self, size: int, train_iter: int, part: slice | None, replace: bool, reuse: bool
    ) -> Batch:
        episodes = self._chosen(size, part, replace)
        if self._cfg.padded:
            return _padded(episodes)
        return _dense(Batch.concat(episodes) if len(episodes) > 1 else _copied(episodes[0]))

    def _chosen(self, size: int, part: slice | None, replace: bool) -> list[Batch]:
        places = range(len(self._episodes))[slice(None) if part is None else part]
        check_draw(size, len(places), "episodes", replace=replace)
        chosen = self._rng.integers(0, len(places), size).tolist()
        return [self._episodes[places[each]] for each in chosen]

    # ---- state

    def _saved(self) -> StateDict:
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
        }

    def _load(self, state: State) -> None:
        """Restores the episodes, also running ones."""
        check_room(len(state["episode_len"]), self.replay_buffer_size, "episodes")
        self._empty()
        self._episodes.extend(_split(state["episodes"], state["episode_len"]))
        running = _split(state["running"], state["running_len"])
        envs = np.asarray(state["running_env"]).tolist()
        self._running = {env: [each] for env, each in zip(envs, running, strict=True)}
        self._lengths = {env: len(each) for env, each in zip(envs, running, strict=True)}
        self._broken = set(np.asarray(state["broken_env"]).tolist())
        self._continuity.load_state_dict(state["continuity"])
        for each in (*self._episodes, *running):
            self._schema.check(each)
            break
        self._push_count = int(state["push_count"])

    def _facts(self) -> Iterator[Fact]:
        yield from super()._facts()
        for number, episode in enumerate(self._episodes):
            ends = np.flatnonzero(np.asarray(episode.get("end", ())) > 0)
            whole = "end" not in episode or np.ndim(episode["end"]) != 1
            whole = whole or ends.tolist() == [len(episode) - 1]
            yield whole, f"episode {number} of {len(episode)} steps ends at its steps {ends}"
        for env, pieces in self._running.items():
            steps = sum(map(len, pieces))
            counted = steps == self._lengths.get(env)
            yield counted, f"the running episode of env {env} has {steps} steps"
            over = any(np.asarray(each["end"]).any() for each in pieces)
            yield not over, f"the running episode of env {env} has ended"
        same = self._running.keys() == self._lengths.keys()
        yield same, "an episode that is not running has steps"


def _are_episodes(data: Any) -> bool:
    """Returns whether the data are a list of whole episodes."""
    if isinstance(data, Mapping | Batch | str) or not isinstance(data, Sequence) or not data:
        return False
    return all(isinstance(each, Batch | list | tuple) for each in data)


def _copied(steps: Batch) -> Batch:
    """Returns a copy of steps in float32; frame stacks share their frames."""
    return Batch(tree_map(_copy, steps.columns), len(steps))


def _copy(leaf: Tree) -> Any:
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


def _split(columns: Mapping[str, Tree], lengths: Any) -> list[Batch]:
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
