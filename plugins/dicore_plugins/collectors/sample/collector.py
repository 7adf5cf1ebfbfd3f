"""Collects training samples: step all environments, write columns, post-process by the policy.

There are no transition objects: the policy's outputs and the timesteps are written into a
time-major block, and the policy's `get_train_sample` turns the block into samples.

Shapes: K ready environments of N, T steps, B samples.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, EnvBatch, tree_paths
from dicore.errors import EnvError, UsageError
from dicore.interfaces.policy import Tail
from dicore_plugins.collectors.base import SerialCollector, mode_name, no_columns
from dicore_plugins.collectors.block import Block
from dicore_plugins.collectors.sample.config import SampleCollectorConfig
from dicore_plugins.env_managers.episodes import reset_ended
from dicore_plugins.functional.samples import flatten_time

if TYPE_CHECKING:
    from dicore_plugins.collectors.sample.each import PerEnvSteps

_LOG = logging.getLogger("dicore.collector")


class _Call(NamedTuple):
    """The options of one call of `collect_batch` that its steps need."""

    kwargs: dict[str, Any]
    count: bool
    stop: Callable[[], bool] | None
    reuse: bool


class SampleCollector(SerialCollector):
    """Collects a number of training samples, or of whole episodes; see `ISerialCollector`.

    All environments are stepped together if the manager declares `lockstep`; else each one at its
    own pace. The arguments are those of `SerialCollector`.
    """

    config_class: ClassVar[type[ComponentConfig]] = SampleCollectorConfig
    _warned_of_waste = False

    def _forget(self) -> None:
        self._block = Block(self._num_envs)
        self._each: PerEnvSteps | None = None
        self._pieces: list[Batch] = []
        self._episodes = np.zeros(self._num_envs, np.int64)
        self._unit, self._interrupted, self._barren, self._more = "", False, False, False
        self._block_was_valid = True
        self._marks: tuple[Any, Any] = (None, None)
        self._schema: tuple[Any, ...] | None = None

    # ---- collecting

    def collect(
        self, n_sample: int | None = None, train_iter: int = 0, **options: Any
    ) -> list[dict[str, Any]]:
        """Collects like `collect_batch` and returns the samples as rows."""
        return self.collect_batch(n_sample=n_sample, train_iter=train_iter, **options).rows()

    def collect_batch(  # noqa: PLR0913 - the documents' options
        self,
        *,
        n_sample: int | None = None,
        n_episode: int | None = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        random_collect: bool = False,
        record_random_collect: bool = True,
        policy_kwargs: Mapping[str, Any] | None = None,
        should_stop: Callable[[], bool] | None = None,
        reuse: bool = False,
    ) -> Batch:
        """Collects training samples, or the samples of whole episodes.

        Args:
            n_sample: Number of samples; None, without `n_episode`: the configured number.
            n_episode: Number of whole episodes, the same number (or one less) of each environment.
            train_iter: Gradient updates so far; stored in every sample as `collect_iter`.
            drop_extra: Return exactly `n_sample`; False: all samples of the last step as well. Of
                whole episodes, and of policies that make several samples per start, all are
                returned.
            random_collect: The policy is a warm-up policy.
            record_random_collect: Count warm-up steps as well.
            policy_kwargs: Keyword arguments of the policy's forward (`eps` of epsilon-greedy, …).
            should_stop: Asked between env steps. If it returns True, the call returns an empty
                batch, and the next call continues with the steps made so far.
            reuse: Return memory that the next call overwrites.

        Returns:
            B samples with `end` bool [B] (the last step of an episode), `env_id` int64 [B] and
            `collect_iter` int64 [B]; ordered by step and then by environment, or by episode.

        Raises:
            UsageError: no number is given or configured, or it is not positive, or both are given;
                or the policy made no samples of two blocks in a row.
            ClosedError: the collector is closed.
        """
        unit, wanted = self._wanted(n_sample, n_episode)
        self._begin(unit)
        call = _Call(
            dict(policy_kwargs or {}),
            record_random_collect or not random_collect,
            should_stop,
            reuse and not self._pieces,
        )
        if unit == "n_episode":
            complete = self._collect_episodes(wanted, call)
        else:
            complete = self._collect_samples(wanted, call)
        self._interrupted = not complete
        if not complete:
            return Batch({}, 0)
        data = Batch.concat(self._pieces)
        self._pieces = []
        whole = unit == "n_episode" or self._sample_len == "episode" or self._more
        if drop_extra and not whole and len(data) > wanted:
            if wanted == self._n_sample and 2 * wanted <= len(data):
                self._warn_of_waste(wanted, len(data))
            data = data[:wanted]
        return self._finished(data, train_iter, call)

    def _finished(self, data: Batch, train_iter: int, call: _Call) -> Batch:
        """Stamps and counts the samples of a call."""
        columns = data.columns
        columns["collect_iter"] = np.full(len(data), train_iter, np.int64)
        data.schema = self._known_schema(data)
        self._marks = columns.get("end"), columns.get("env_id")
        if call.count:
            self.total_train_sample_count += len(data)
            self.statistics.train_sample_count += len(data)
        if self._log is not None and self.statistics.episode_count:
            self._report(train_iter)
        return data

    @property
    def trajectory_end_idx(self) -> npt.NDArray[np.int64]:
        """int64 [E]: the samples of the last call that end an episode, or are an env's last."""
        end, env_id = self._marks
        if end is None or env_id is None:
            return np.empty(0, np.int64)
        marked = end.reshape(len(end), -1)[:, -1].copy()  # of a sequence: its last step
        last_first = np.unique(env_id[::-1], return_index=True)[1]
        marked[len(env_id) - 1 - last_first] = True
        return np.flatnonzero(marked)

    def samples_within(self, env_steps: int) -> int:
        """Returns the number of samples that `env_steps` more steps complete; may be negative.

        With nstep = n, the first n - 1 steps of an environment complete no sample.
        """
        if isinstance(self._sample_len, str):
            return env_steps
        kept = 0 if self._on_policy and not self._interrupted else int(self._block.rows.min())
        first = self._sample_len - self._stride
        return (env_steps - (first - kept) * self._num_envs) // self._stride

    def _wanted(self, n_sample: int | None, n_episode: int | None) -> tuple[str, int]:
        self._check_ready()
        if n_sample is not None and n_episode is not None:
            raise UsageError("n_sample and n_episode are both given", hint="pass one of them")
        if n_sample is None and n_episode is None:
            n_sample = self._n_sample
            n_episode = self._n_episode if n_sample is None else None
        unit, wanted = ("n_sample", n_sample) if n_episode is None else ("n_episode", n_episode)
        if not isinstance(wanted, Integral) or int(wanted) < 1:
            raise UsageError(
                f"cannot collect {wanted!r} {unit[2:]}s",
                hint=f"pass {unit}, an int >= 1, or set policy.collect.{unit}",
            )
        return unit, int(wanted)

    def _begin(self, unit: str) -> None:
        """Drops the rows of earlier calls that this call must not use."""
        if self._interrupted and unit == self._unit:
            return
        changed = self._unit not in ("", unit)
        stale = self._on_policy and bool(self._block.rows.any())
        if changed or stale:
            whole = unit == "n_episode" or self._sample_len == "episode"
            self._forget() if changed else self._block.clear()
            if whole:  # the rest of a running episode is not an episode
                self._env.reset()
                self._policy.reset()
        self._unit, self._more = unit, False
        self._episodes[:] = 0

    def _warn_of_waste(self, wanted: int, collected: int) -> None:
        """Warns, once, that at least half of the collected samples are dropped."""
        if not self._warned_of_waste:
            self._warned_of_waste = True
            _LOG.warning(
                "%d of %d collected samples are dropped because %d environments are stepped"
                " together; set n_sample to a multiple of env.collector_env_num",
                collected - wanted,
                collected,
                self._num_envs,
            )

    def _collect_samples(self, wanted: int, call: _Call) -> bool:
        """Collects at least `wanted` samples; returns False if it was stopped before."""
        collected = sum(map(len, self._pieces))
        while collected < wanted:
            missing, before = wanted - collected, len(self._pieces)
            if isinstance(self._sample_len, str):
                done = self._fill_episode(call)
            elif self._lockstep and self._block.even:
                done = self._fill_together(missing, self._sample_len, call)
            else:
                done = self._fill_each(missing, self._sample_len, call)
            if not done:
                return False
            found = sum(map(len, self._pieces[before:]))
            collected += found
            self._check_progress(found)
        return True

    def _check_progress(self, found: int) -> None:
        """Raises an error if two blocks in a row gave no samples."""
        if found:
            self._barren = False
        elif self._barren:
            mode = mode_name(self._policy)
            raise UsageError(
                f"{mode}: get_train_sample returned no samples of two blocks in a row, which"
                f" {type(self).__name__} collected for it (sample_len {self._sample_len!r},"
                f" sample_stride {self._stride})",
                hint="return at least one sample, or declare another sample_len and sample_stride",
            )
        else:
            self._barren = self._block_was_valid

    def _fill_together(self, missing: int, length: int, call: _Call) -> bool:
        """Steps all environments together until they have rows for `missing` samples."""
        block, num_envs, stride = self._block, self._num_envs, self._stride
        first = int(block.rows[0])
        count = max(math.ceil(missing / num_envs), (first - length) // stride + 1)
        rows = length + (count - 1) * stride
        block.reserve(rows)
        forward, process = self._policy.forward, self._policy.process_transition
        env, step, end, kwargs, stop = self._env, self._step, block.end, call.kwargs, call.stop
        for t in range(first, rows):
            if stop is not None and stop():
                block.rows[:] = t
                return False
            obs = env.ready_obs
            output = EnvBatch.of(forward(obs, **kwargs))
            if output.value.__class__ is not dict and not isinstance(output.value, Mapping):
                raise no_columns(output.value)
            answer = step(output)
            timestep = answer.value
            if len(timestep) != num_envs:
                raise EnvError(
                    f"{len(timestep)} of {num_envs} environments returned a timestep, but the"
                    " manager declares 'lockstep'",
                    hint="remove 'lockstep' from its capabilities, or use auto_reset=True",
                )
            block.write(t, process(obs.value, output.value, timestep))
            done = timestep.terminated | timestep.truncated
            end[t] = done
            if call.count:
                self.envstep += num_envs
            if timestep.abnormal is not None:
                self._drop_abnormal(np.full(num_envs, t), answer.env_id, timestep, call, first)
            if done.any():
                self._episodes_ended(t, answer.env_id, done, timestep, count=call.count)
        block.rows[:] = rows
        self._block_was_valid = bool(block.valid[first:rows].any())
        self._add(*block.together(rows, count * stride, env.ready_obs.value), count * num_envs)
        dropped = rows if self._on_policy else count * stride
        block.advance(dropped, recycle=call.reuse)
        return True

    def _fill_each(self, missing: int, length: int, call: _Call) -> bool:
        """Steps environments at their own pace until they have rows for `missing` samples."""
        block, stride = self._block, self._stride
        while True:
            counts = np.maximum((block.rows - length) // stride + 1, 0)
            if counts.sum() >= missing:
                break
            if call.stop is not None and call.stop():
                return False
            self._step_each(call)
        for env in np.flatnonzero(counts).tolist():
            count = int(counts[env])
            self._add_env(env, count * stride, count)
            block.advance_env(env, int(block.rows[env]) if self._on_policy else count * stride)
        return True

    def _fill_episode(self, call: _Call, wanted: npt.NDArray[np.bool_] | None = None) -> bool:
        """Steps environments until an episode ends; of the `wanted` environments, if given."""
        ended: list[int] = []
        while not ended:
            if call.stop is not None and call.stop():
                return False
            ended = self._step_each(call, wanted)
        for env in ended:
            rows = int(self._block.rows[env])
            self._add_env(env, rows, rows)
            self._block.advance_env(env, rows)
            self._episodes[env] += 1
        return True

    def _collect_episodes(self, wanted: int, call: _Call) -> bool:
        """Collects whole episodes; returns False if it was stopped before."""
        quota = wanted // self._num_envs + (np.arange(self._num_envs) < wanted % self._num_envs)
        while True:
            open_envs = self._episodes < quota
            if not open_envs.any():
                return True
            before = len(self._pieces)
            if not self._fill_episode(call, open_envs):
                return False
            self._check_progress(sum(map(len, self._pieces[before:])))

    def _step_each(self, call: _Call, wanted: npt.NDArray[np.bool_] | None = None) -> list[int]:
        """Acts in the environments that are ready, and adds a row to those that answer.

        Returns:
            The environments whose episode ended and gives samples.
        """
        t, ids, timestep = self._per_env().step(self._step, call.kwargs, wanted)
        self._block_was_valid = True
        if call.count:
            self.envstep += len(ids)
        if timestep.abnormal is not None:
            self._drop_abnormal(t, ids, timestep, call, 0)
        done = timestep.terminated | timestep.truncated
        if not done.any():
            return []
        self._episodes_ended(t, ids, done, timestep, count=call.count)
        if timestep.abnormal is not None:
            done = done & ~timestep.abnormal
        return [int(env) for env in ids[done]]

    def _per_env(self) -> PerEnvSteps:
        if self._each is None:
            from dicore_plugins.collectors.sample.each import PerEnvSteps

            self._each = PerEnvSteps(self._env, self._block)
        self._each.policy = self._policy
        return self._each

    def _add(self, block: Batch, tail: Tail, starts: int) -> None:
        """Adds the samples that the policy makes of a block."""
        samples = self._policy.get_train_sample(block, tail)
        if samples is block:
            samples = flatten_time(block)
        elif not isinstance(samples, Batch):
            samples = Batch.from_rows(samples)
        self._more = self._more or len(samples) > starts
        if len(samples):
            self._pieces.append(samples)

    def _add_env(self, env: int, starts: int, count: int) -> None:
        """Adds the samples of all rows of one environment."""
        obs = self._per_env().latest_obs(env)
        self._add(*self._block.of_env(env, starts, obs), count)

    def _drop_abnormal(
        self, t: npt.NDArray[np.int64], env_id: Any, timestep: Any, call: _Call, first: int
    ) -> None:
        """Drops the running episode of each environment whose step was abnormal.

        Its steps since row `first`, with which the call began, are not counted.
        """
        bad = np.flatnonzero(timestep.abnormal)
        for row in bad:
            env, at = int(env_id[row]), int(t[row])
            start = self._block.drop(at, env)
            if call.count:
                self.envstep -= at + 1 - max(start, first)
            if self._sample_len == "episode" or self._unit == "n_episode":
                self._block.advance_env(env, at + 1)
            if not timestep.terminated[row] and not timestep.truncated[row]:
                self._env.reset({env: None})
        self._policy.reset([int(env_id[row]) for row in bad])

    def _episodes_ended(
        self, t: Any, env_id: Any, done: npt.NDArray[np.bool_], timestep: Any, *, count: bool
    ) -> None:
        """Stores last observations, resets the policy and the environments, counts episodes."""
        rows = np.flatnonzero(done)
        if timestep.abnormal is not None:
            rows = rows[~timestep.abnormal[rows]]
        if len(rows):
            ids = env_id[rows].tolist()
            at = t if np.ndim(t) == 0 else t[rows]
            self._block.add_finals(at, ids, rows.tolist(), timestep.obs)
            self._policy.reset(ids)
            if count:
                self.total_episode_count += len(rows)
                for row in rows:
                    self.statistics.add(timestep.info[row])
        reset_ended(self._env, env_id[done].tolist())

    def _known_schema(self, data: Batch) -> tuple[Any, ...]:
        """Returns the same object for batches with the same keys, dtypes and sample shapes."""
        columns = data.columns
        if any(isinstance(column, dict | list | tuple) for column in columns.values()):
            columns = tree_paths(columns)
        schema = tuple((key, leaf.dtype, leaf.shape[1:]) for key, leaf in columns.items())
        if schema != self._schema:
            self._schema = schema
        return self._schema

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Returns counters, unfinished trajectories, and the samples of an interrupted call."""
        pieces = Batch.concat(self._pieces).columns if self._pieces else None
        return {
            **super().state_dict(),
            "partial": self._block.state_dict(),
            "pieces": pieces,
            "episodes": self._episodes.copy(),
            "unit": self._unit,
            "interrupted": self._interrupted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Unfinished samples are dropped if the manager, whose state is loaded first, could not
        restore the running episodes: the samples would continue in other episodes.
        """
        super().load_state_dict(state)
        if self._env is None:
            return
        self._forget()
        if getattr(self._env, "brought_back", None) is False:
            return
        if state["partial"] is not None:
            self._block = Block.from_state(state["partial"])
        if state["pieces"] is not None:
            self._pieces = [Batch(dict(state["pieces"]))]
        self._episodes = np.array(state["episodes"], np.int64)
        self._unit, self._interrupted = state["unit"], bool(state["interrupted"])
