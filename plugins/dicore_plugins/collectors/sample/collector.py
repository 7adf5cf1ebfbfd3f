"""Collects training samples: step all environments, write columns, post-process by the policy.

There are no transition objects: the policy's outputs and the timesteps are written into a
time-major block, and the policy's `get_train_sample` turns the block into samples.

Shapes: K ready environments of N, T steps, B samples.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, EnvBatch, Row, State, StateDict, Tree, tree_map
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode, Tail
from dicore_plugins.collectors.base import (
    SerialCollector,
    add_place,
    check_lockstep,
    chosen_actions,
    mode_name,
)
from dicore_plugins.collectors.block import Block, from_plain, obs_changed, plain_state
from dicore_plugins.collectors.sample.config import SampleCollectorConfig
from dicore_plugins.env_managers.episodes import reset_ended
from dicore_plugins.functional.samples import flatten_time

if TYPE_CHECKING:
    from dicore_plugins.collectors.sample.each import PerEnvSteps

_LOG = logging.getLogger("dicore.collector")
_LONG = 50_000
"""Steps without the end of an episode after which a call that waits for one says so."""


class _Call(NamedTuple):
    """The options of one call of `collect_batch` that its steps need."""

    kwargs: dict[str, Any]
    counts: bool
    stop: Callable[[], bool] | None
    reuse: bool


class SampleCollector(SerialCollector):
    """Collects a number of training samples, or of whole episodes; see `ISerialCollector`.

    All environments are stepped together if the manager declares `lockstep`; else each one at its
    own pace. The arguments are those of `SerialCollector`.
    """

    config_class: ClassVar[type[ComponentConfig]] = SampleCollectorConfig
    _warned_of_waste = False
    _from_start = False
    """Whether the block has all rows of the running episodes."""
    _each: PerEnvSteps | None = None
    _block: Block

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Resets the current environments, or launches a new manager and uses it from now on."""
        self._each = None
        super().reset_env(env)
        self._from_start = True

    def reset_policy(self, policy: CollectMode | None = None) -> None:
        """Uses `policy` from the next step on; steps of the previous one under way are dropped."""
        super().reset_policy(policy)
        if policy is None or self._each is None:
            return
        for env in np.flatnonzero(self._each.pending).tolist():
            self._block.advance_env(env, int(self._block.rows[env]))
            self._from_start = False
        self._each.forget()

    def _under_way(self) -> bool:
        """Whether environments have not answered yet."""
        return self._each is not None and bool(self._each.pending.any())

    def _forget(self) -> None:
        if self._from_start:
            self._from_start = not self._block.rows.any() and not self._under_way()
        self._block = Block(self._num_envs)
        if self._each is not None:
            self._each.forget()
        self._pieces: list[Batch] = []
        self._episodes = np.zeros(self._num_envs, np.int64)
        self._unit, self._interrupted, self._more = "", False, False
        self._barren, self._weight, self._held = 0.0, 0.0, 0
        self._counted_from = np.zeros(self._num_envs, np.int64)
        self._recycle = False
        self._ids: Any = None

    # ---- collecting

    def collect(
        self, n_sample: int | None = None, train_iter: int = 0, **options: Any
    ) -> list[Row]:
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
        policy_kwargs: Mapping[str, object] | None = None,
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
                or the policy made no samples of many rows.
            ClosedError: the collector is closed.
        """
        unit, wanted = self._wanted(n_sample, n_episode)
        counts = record_random_collect or not random_collect
        call = _Call(dict(policy_kwargs or {}), counts, should_stop, reuse)
        try:
            self._begin(unit)
            if unit == "n_episode":
                complete = self._collect_episodes(wanted, call)
            else:
                complete = self._collect_samples(wanted, call)
        except BaseException as error:
            add_place(error, self._policy, f"env step {self.envstep}")
            self._forget()
            self._from_start = False  # the rows of the step that failed are missing
            raise
        self._interrupted = not complete
        if not complete:
            return Batch({}, 0)
        data = Batch.concat(self._pieces)
        self._pieces, self._held = [], 0
        whole = unit == "n_episode" or self._sample_len == "episode" or self._more
        if drop_extra and not whole and len(data) > wanted:
            if not self._lockstep and not self._on_policy:
                self._pieces = [data[wanted:]]  # the next call begins with them
                self._held = len(data) - wanted
            elif wanted == self._n_sample and 2 * wanted <= len(data):
                self._warn_of_waste(wanted, len(data))
            data = data[:wanted]
        return self._finished(data, train_iter, count=call.counts)

    def samples_within(self, env_steps: int) -> int:
        """Returns the number of samples that `env_steps` more steps complete; may be negative.

        With nstep = n, the first n - 1 steps of an environment complete no sample.
        """
        if isinstance(self._sample_len, str):
            return env_steps
        kept = 0 if self._on_policy and not self._interrupted else int(self._block.rows.min())
        length: int = self._sample_len
        stride: int = self._stride
        envs: int = self._num_envs
        return (env_steps - (length - stride - kept) * envs) // stride

    def _begin(self, unit: str) -> None:
        """Drops the rows of earlier calls that this call must not use."""
        if not (self._interrupted and unit == self._unit):
            if self._unit not in ("", unit):
                self._forget()
            elif self._on_policy:
                if self._block.rows.any() or self._under_way():
                    self._from_start = False
                    self._block.clear()
                if self._each is not None:
                    self._each.forget()
            self._unit, self._more, self._episodes[:] = unit, False, 0
        block = self._block
        block.settle(recycle=self._recycle)
        whole = unit == "n_episode" or isinstance(self._sample_len, str)
        if self._from_start != whole and (
            whole or (self._lockstep and len(self._env.ready_obs) < self._num_envs)
        ):  # the rest of a running episode is not one; vector envs run on where none was wanted
            block.clear()
            self._env.reset()
            self._policy.reset()
            if self._each is not None:
                self._each.forget()
        self._from_start = whole
        self._counted_from[:] = block.rows

    def _warn_of_waste(self, wanted: int, collected: int) -> None:
        """Warns, once, that at least half of the collected samples are dropped."""
        if not self._warned_of_waste:
            self._warned_of_waste = True
            numbers = collected - wanted, collected, self._num_envs
            _LOG.warning(
                "%d of %d collected samples are dropped because %d environments are stepped"
                " together; set policy.collect.n_sample to a multiple of env.collector_env_num",
                *numbers,
            )

    def _collect_samples(self, wanted: int, call: _Call) -> bool:
        """Collects at least `wanted` samples; returns False if it was stopped before."""
        while self._held < wanted:
            missing, before = wanted - self._held, self._held
            if isinstance(self._sample_len, str):
                done = self._fill_episode(call)
            elif self._lockstep and self._block.even:
                done = self._fill_together(missing, self._sample_len, call)
            else:
                done = self._fill_each(missing, self._sample_len, call)
            if not done:
                return False
            self._check_progress(self._held - before)
        return True

    def _fill_together(self, missing: int, length: int, call: _Call) -> bool:
        """Steps all environments together until they have rows for `missing` samples."""
        block, num_envs, stride = self._block, self._num_envs, self._stride
        block.settle(recycle=False)
        first = int(block.rows[0])
        count = max(math.ceil(missing / num_envs), (first - length) // stride + 1)
        rows = max(length + (count - 1) * stride, first)
        block.reserve(rows)
        forward, process = self._policy.forward, self._policy.process_transition
        env, step, end, kwargs, stop = self._env, self._step, block.end, call.kwargs, call.stop
        columns, shown = {}, None
        for t in range(first, rows):
            if stop is not None and stop():
                block.rows[:] = t
                return False
            obs = env.ready_obs
            output = forward(obs, **kwargs)
            if output.__class__ is not EnvBatch or output.env_id is not obs.env_id:
                output = chosen_actions(obs, output)
            answer = step(output)
            if answer.env_id is not self._ids or obs.env_id is not self._ids:
                self._ids = check_lockstep(obs, answer, num_envs)
            timestep = answer.value
            shown = obs.value
            columns = process(shown, output.value, timestep)
            block.write(t, columns)
            done = timestep.terminated | timestep.truncated
            end[t] = done
            if call.counts:
                self.envstep += num_envs
            if timestep.abnormal is not None:
                self._drop_abnormal(np.full(num_envs, t), answer.env_id, timestep, call)
            if b"\1" in done.tobytes():  # an eighth of the time of done.any()
                self._episodes_ended(t, answer.env_id, done, timestep, count=call.counts)
        block.rows[:] = rows
        block.changed |= obs_changed(columns, shown)
        latest = env.ready_obs.value
        if not call.reuse:
            latest = latest.copy() if latest.__class__ is np.ndarray else tree_map(np.copy, latest)
        if not self._add(*block.together(rows, count * stride, latest), count * num_envs):
            self._see_rows(rows * num_envs, valid=bool(block.valid[:rows].all()))
        block.advance(count * stride)
        self._counted_from[:] = 0
        self._recycle = call.reuse
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
        for envs in block.alike(np.flatnonzero(counts)):
            count = int(counts[envs[0]])
            valid, starts = block.valid[: int(block.rows[envs[0]]), envs], count * stride
            self._see_rows(valid.size, valid=bool(valid.all()))
            self._add_envs(envs, starts, count * len(envs))
            self._advance_env(envs, starts)
        return True

    def _advance_env(self, env: Any, count: int) -> None:
        self._block.advance_env(env, count)
        self._counted_from[env] = np.maximum(self._counted_from[env] - count, 0)

    def _fill_episode(self, call: _Call, wanted: npt.NDArray[np.bool_] | None = None) -> bool:
        """Steps environments until an episode ends; of the `wanted` environments, if given."""
        ended: list[int] = []
        steps = 0
        while not ended:
            if call.stop is not None and call.stop():
                return False
            ended = self._step_each(call, wanted)
            steps += 1
            if steps == _LONG:
                _LOG.warning(
                    "no episode has ended in %d steps, and %s waits for one: it learns from whole"
                    " episodes; limit them with env.env_wrapper=[{type: time_limit,"
                    " max_episode_steps: …}], or check that the env sets terminated",
                    steps, mode_name(self._policy),
                )  # fmt: skip
        for env in ended:
            rows = int(self._block.rows[env])
            fits = isinstance(self._sample_len, str) or rows >= self._sample_len
            self._see_rows(rows if fits else 0)
            self._add_envs(np.array([env]), rows, rows)
            self._advance_env(env, rows)
            self._episodes[env] += 1
        return True

    def _collect_episodes(self, wanted: int, call: _Call) -> bool:
        """Collects whole episodes; returns False if it was stopped before."""
        quota = wanted // self._num_envs + (np.arange(self._num_envs) < wanted % self._num_envs)
        while True:
            open_envs = self._episodes < quota
            if not open_envs.any():
                if self._held:
                    return True
                self._weight = math.inf  # all were too short: once more, then an error
                self._check_progress(0)
                self._episodes[:] = 0
                continue
            before = self._held
            if not self._fill_episode(call, open_envs):
                return False
            self._check_progress(self._held - before)

    def _step_each(self, call: _Call, wanted: npt.NDArray[np.bool_] | None = None) -> list[int]:
        """Acts in the environments that are ready, and adds a row to those that answer.

        Returns:
            The environments whose episode ended and gives samples.
        """
        each = self._per_env()
        t, ids, timestep = each.step(self._block, self._policy, self._step, call.kwargs, wanted)
        if call.counts:
            self.envstep += len(ids)
        if timestep.abnormal is not None:
            self._drop_abnormal(t, ids, timestep, call)
        done = timestep.terminated | timestep.truncated
        if not done.any():
            return []
        self._episodes_ended(t, ids, done, timestep, count=call.counts)
        done = done & (t >= 0)
        if timestep.abnormal is not None:
            done = done & ~timestep.abnormal
        return [int(env) for env in ids[done]]

    def _per_env(self) -> PerEnvSteps:
        if self._each is None:
            from dicore_plugins.collectors.sample.each import PerEnvSteps

            self._each = PerEnvSteps(self._env, self._num_envs)
        return self._each

    def _add(self, block: Batch, tail: Tail, starts: int) -> int:
        """Adds the samples that the policy makes of a block, and returns their number."""
        samples = self._samples(block, tail)
        if samples is block:
            samples = flatten_time(block)
        elif not isinstance(samples, Batch):
            samples = Batch.from_rows(samples)
        number = len(samples)
        if number:
            self._more = self._more or number > starts
            self._pieces.append(samples)
            self._held += number
        return number

    def _add_envs(self, envs: npt.NDArray[np.int64], starts: int, count: int) -> None:
        """Adds the samples of all rows of environments that have the same number of them."""
        obs = self._per_env().latest_obs(self._block, envs)
        self._add(*self._block.of_envs(envs, starts, obs), count)

    def _drop_abnormal(
        self, t: npt.NDArray[np.int64], env_id: npt.NDArray[np.int64], timestep: Tree, call: _Call
    ) -> None:
        """Drops and uncounts the running episode of each environment whose step was abnormal."""
        bad = np.flatnonzero(timestep.abnormal)
        whole = isinstance(self._sample_len, str) or self._unit == "n_episode"
        for row in bad:
            env, at = int(env_id[row]), int(t[row])
            self._abnormal.add(env, timestep.info[row], counts=whole)
            start = at if at < 0 else self._block.drop(at, env)
            if call.counts:
                self.envstep -= at + 1 - max(start, int(self._counted_from[env])) if at >= 0 else 1
            if at >= 0 and whole:
                self._advance_env(env, at + 1)
            if not timestep.terminated[row] and not timestep.truncated[row]:
                self._env.reset({env: None})
        self._policy.reset([int(env_id[row]) for row in bad])

    def _episodes_ended(
        self,
        t: Any,
        env_id: npt.NDArray[np.int64],
        done: npt.NDArray[np.bool_],
        timestep: Tree,
        *,
        count: bool,
    ) -> None:
        """Stores last observations, resets the policy and the environments, counts episodes."""
        rows = done.nonzero()[0].tolist()
        ended = ids = rows if env_id is self._ids else env_id[rows].tolist()
        if timestep.abnormal is not None:
            rows = [row for row in rows if not timestep.abnormal[row]]
            ids = env_id[rows].tolist()
        if rows:
            self._abnormal.clear()
            at = [t] * len(rows) if t.__class__ is int else t[rows].tolist()
            self._block.add_finals(at, ids, rows, timestep.obs)
            self._policy.reset(ids)
            if count:
                self.total_episode_count += len(rows)
                for row in rows:
                    self.statistics.add(timestep.info[row])
        reset_ended(self._env, ended)

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns counters, unfinished trajectories, and the samples of an interrupted call."""
        pieces = plain_state(Batch.concat(self._pieces).columns) if self._pieces else None
        return {
            **super().state_dict(),
            "partial": self._block.state_dict(),
            "pieces": pieces,
            "episodes": self._episodes.copy(),
            "unit": self._unit,
            "interrupted": self._interrupted,
            "more": self._more,
            "barren": self._barren,
            "from_start": self._from_start,
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        Unfinished samples are dropped if the manager could not restore the running episodes.
        """
        super().load_state_dict(state)
        if self._env is None:
            return
        self._forget()
        lost = getattr(self._env, "brought_back", None) is False
        if lost or len(state["episodes"]) != self._num_envs:
            self._from_start = True
            return
        if state["partial"] is not None:
            self._block = Block.from_state(state["partial"])
        if state["pieces"] is not None:
            self._pieces = [Batch(from_plain(dict(state["pieces"])))]
            self._held = len(self._pieces[0])
        self._episodes = np.array(state["episodes"], np.int64)
        self._unit, self._interrupted = state["unit"], bool(state["interrupted"])
        self._more, self._barren = bool(state["more"]), float(state["barren"])
        self._from_start = bool(state["from_start"])
