"""Collects training samples: step all environments, write columns, post-process by the policy.

There are no transition objects: the policy's outputs and the timesteps are written into a
time-major block, and the policy's `get_train_sample` turns the block into samples.

Shapes: K ready environments (all N of them here), T steps, B samples.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.data import Batch, EnvBatch, tree_paths
from dicore.errors import ClosedError, EnvError, SchemaError, UsageError
from dicore.interfaces.policy import check_mode
from dicore_plugins.collectors.rollout import Block, EpisodeStatistics
from dicore_plugins.collectors.sample.config import SampleCollectorConfig
from dicore_plugins.env_managers.episodes import reset_ended
from dicore_plugins.functional.samples import flatten_time
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore_plugins.middleware.profiler import StepTimer

_LOG = logging.getLogger("dicore.collector")


class SampleCollector:
    """Collects a number of training samples; the contract is `ISerialCollector`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps the environments; launched here if it is closed.
        policy: Collect mode of the policy.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.
    """

    config_class = SampleCollectorConfig

    def __init__(
        self,
        cfg: SampleCollectorConfig | Mapping[str, Any] | None = None,
        env_manager: Any = None,
        policy: Any = None,
        *,
        log: Any | None = None,
    ) -> None:
        self._cfg = as_config(cfg, SampleCollectorConfig)
        self._log = log
        self._closed = self._warned_of_waste = False
        self.statistics = EpisodeStatistics()
        self._policy: Any = None
        self._env: Any = None
        self._on_policy = False
        self._carry, self._n_sample = 0, self._cfg.n_sample
        self._previous: Block | None = None
        self._schema: tuple[Any, ...] | None = None
        self._reset_counters()
        if policy is not None:
            self.reset_policy(policy)
        if env_manager is not None:
            self.reset_env(env_manager)

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    # ---- env manager and policy

    def reset_env(self, env: Any | None = None) -> None:
        """Resets the current environments, or launches a new manager and uses it from now on."""
        self._previous = None
        if env is None:
            self._env.reset()
        else:
            self._env = env
            if env.closed:
                env.launch()
            else:
                env.reset()
        self._num_envs = self._env.env_num
        self._step = getattr(self._env, "step_into", self._env.step)

    def reset_policy(self, policy: Any | None = None) -> None:
        """Uses `policy` (a collect mode) from the next step on, and clears its per-env state.

        The environments are not reset. Unfinished samples of the previous policy are dropped, as
        their columns may differ.
        """
        if policy is not None:
            check_mode(
                policy, "collect", "forward", "process_transition", "get_train_sample", "reset"
            )
            if not _same_samples(policy, self._policy):
                self._previous = None
            self._policy = policy
            self._carry = mode_attribute(policy, "nstep", 1) - 1
            self._on_policy = bool(mode_attribute(policy, "on_policy", default=False))
            self._n_sample = self._cfg.n_sample or mode_attribute(policy, "n_sample", None)
        self._policy.reset()

    def reset(self, policy: Any | None = None, env: Any | None = None) -> None:
        """Resets policy, environments and counters, and drops partial trajectories."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._reset_counters()

    def _reset_counters(self) -> None:
        self._previous = None
        self.envstep = 0
        self.total_episode_count = 0
        self.total_train_sample_count = 0
        self.trajectory_end_idx: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._last_log_iter = -1
        self.statistics.clear()

    # ---- collecting

    def collect(
        self,
        n_sample: int | None = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        random_collect: bool = False,
        record_random_collect: bool = True,
        policy_kwargs: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Collects like `collect_batch` and returns the samples as rows."""
        return self.collect_batch(
            n_sample,
            train_iter,
            drop_extra,
            random_collect,
            record_random_collect,
            policy_kwargs,
        ).rows()

    def collect_batch(
        self,
        n_sample: int | None = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        random_collect: bool = False,
        record_random_collect: bool = True,
        policy_kwargs: Mapping[str, Any] | None = None,
    ) -> Batch:
        """Collects training samples.

        Args:
            n_sample: Number of samples; None: the configured number.
            train_iter: Gradient updates so far; stored in every sample as `collect_iter`.
            drop_extra: Return exactly `n_sample`; False: all samples of the last step as well.
            random_collect: The policy is a warm-up policy.
            record_random_collect: Count warm-up steps as well.
            policy_kwargs: Keyword arguments of the policy's forward (`eps` of epsilon-greedy, …).

        Returns:
            B samples, ordered by step and then by environment.

        Raises:
            UsageError: no number of samples is given or configured, or it is not positive.
            ClosedError: the collector is closed.
        """
        wanted = self._wanted(n_sample)
        kwargs = dict(policy_kwargs or {})
        count = record_random_collect or not random_collect
        if self._on_policy:
            self._previous = None
        pieces: list[Batch] = []
        ends: list[npt.NDArray[np.int64]] = []
        collected = 0
        while collected < wanted:
            steps = math.ceil((wanted - collected) / self._num_envs)
            piece, end = self._collect_block(steps, kwargs, count=count)
            pieces.append(piece)
            ends.append(end + collected)
            collected += len(piece)
        data = pieces[0] if len(pieces) == 1 else Batch.concat(pieces)
        if drop_extra and collected > wanted:
            data = data[:wanted]
            if wanted == self._n_sample and 2 * wanted <= collected:
                self._warn_of_waste(wanted, collected)
        self.trajectory_end_idx = ends[0] if len(ends) == 1 else np.concatenate(ends)
        if len(self.trajectory_end_idx):
            self.trajectory_end_idx = self.trajectory_end_idx[self.trajectory_end_idx < len(data)]
        data.columns["collect_iter"] = np.full(len(data), train_iter, np.int64)
        data.schema = self._known_schema(data)
        if count:
            self.total_train_sample_count += len(data)
            self.statistics.train_sample_count += len(data)
        self._log_statistics(train_iter)
        return data

    def samples_within(self, env_steps: int) -> int:
        """Returns the number of samples that `env_steps` more steps complete; may be negative.

        With nstep = n, the first n - 1 steps of an environment complete no sample.
        """
        carried = 0 if self._on_policy else self._carried
        return env_steps - (self._carry - carried) * self._num_envs

    @property
    def _carried(self) -> int:
        """Steps kept of the previous block, with which the next samples begin."""
        return 0 if self._previous is None else min(self._carry, self._previous.steps)

    def profile(self, timer: StepTimer) -> None:
        """Times the steps of the environments, until `timer.end`."""
        timer.patch(self, "_step", "env step")

    def _wanted(self, n_sample: int | None) -> int:
        if self._closed:
            raise ClosedError("the collector is closed", hint="create a new collector")
        if self._env is None or self._policy is None:
            missing = "policy" if self._env is not None else "env"
            hint = f"call reset_{missing}(…) first"
            raise UsageError(f"the collector has no {missing}", hint=hint)
        wanted: Any = self._n_sample if n_sample is None else n_sample
        if not isinstance(wanted, Integral) or int(wanted) < 1:
            raise UsageError(
                f"cannot collect {wanted!r} samples",
                hint="pass n_sample, an int >= 1, or set policy.collect.n_sample",
            )
        return int(wanted)

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

    def _collect_block(
        self, steps: int, kwargs: dict[str, Any], *, count: bool
    ) -> tuple[Batch, npt.NDArray[np.int64]]:
        """Steps all environments until the first `steps` rows of the block are complete."""
        carried = self._carried
        block = Block(steps + self._carry, self._num_envs)
        if self._previous is not None:
            block.carry(self._previous, carried)
        forward, process = self._policy.forward, self._policy.process_transition
        env, step, end = self._env, self._step, block.end
        for t in range(carried, block.steps):
            obs = env.ready_obs
            output = EnvBatch.of(forward(obs, **kwargs))
            if output.value.__class__ is not dict and not isinstance(output.value, Mapping):
                raise SchemaError(
                    "the collect mode's forward must return a dict of columns with 'action'; got"
                    f" {type(output.value).__name__}",
                    hint="{env_id: {'action': …}}",
                )
            answer = step(output)
            timestep = answer.value
            if len(timestep) != self._num_envs:
                raise EnvError(
                    f"{len(timestep)} of {self._num_envs} environments returned a timestep; the"
                    " sample collector steps all of them together",
                    hint="use a synchronous manager with auto_reset=True",
                )
            block.write(t, process(obs.value, output.value, timestep))
            done = timestep.terminated | timestep.truncated
            end[t] = done
            if timestep.abnormal is not None:
                self._drop_abnormal(block, t, answer.env_id, timestep)
            if done.any():
                self._episodes_ended(answer.env_id, done, timestep, count=count)
                reset_ended(env, answer.env_id[done].tolist())
        new = block.valid[carried:]
        if count:
            self.envstep += new.size if block.all_valid else int(new.sum())
        self._previous = block if self._carry or not self._on_policy else None
        return self._samples(block, steps)

    def _samples(self, block: Block, steps: int) -> tuple[Batch, npt.NDArray[np.int64]]:
        """Post-processes a block; samples of abnormal episodes are left out."""
        trajectory = block.batch()
        samples = self._policy.get_train_sample(trajectory)
        if samples is trajectory:
            samples = flatten_time(trajectory)
        elif not isinstance(samples, Batch):
            samples = Batch.from_rows(samples)
        end = block.end[:steps].reshape(-1)
        if not block.all_valid:
            keep = block.valid[:steps].reshape(-1)
            samples, end = samples[np.flatnonzero(keep)], end[keep]
        return samples, np.flatnonzero(end)

    def _drop_abnormal(
        self, block: Block, t: int, env_id: npt.NDArray[np.int64], timestep: Any
    ) -> None:
        """Drops the running episode of each environment whose step was abnormal."""
        bad = np.flatnonzero(timestep.abnormal)
        for row in bad:
            block.drop(t, int(row))
            if not timestep.terminated[row] and not timestep.truncated[row]:
                self._env.reset({int(env_id[row]): None})
        self._policy.reset([int(env_id[row]) for row in bad])

    def _episodes_ended(
        self,
        env_id: npt.NDArray[np.int64],
        done: npt.NDArray[np.bool_],
        timestep: Any,
        *,
        count: bool,
    ) -> None:
        rows = np.flatnonzero(done)
        if timestep.abnormal is not None:
            rows = rows[~timestep.abnormal[rows]]
        if len(rows) == 0:
            return
        self._policy.reset([int(env_id[row]) for row in rows])
        if count:
            self.total_episode_count += len(rows)
            for row in rows:
                self.statistics.add(timestep.info[row])

    def _known_schema(self, data: Batch) -> tuple[Any, ...]:
        """Returns the same object for batches with the same keys, dtypes and sample shapes."""
        columns = data.columns
        if any(isinstance(column, dict | list | tuple) for column in columns.values()):
            columns = tree_paths(columns)
        schema = tuple((key, leaf.dtype, leaf.shape[1:]) for key, leaf in columns.items())
        if schema != self._schema:
            self._schema = schema
        return self._schema

    # ---- reporting and state

    def _log_statistics(self, train_iter: int) -> None:
        """Logs the statistics of the episodes since the last report."""
        if self._log is None or self.statistics.episode_count == 0:
            return
        last = self._last_log_iter
        if last >= 0 and train_iter < last + self._cfg.collect_print_freq:
            return
        self._last_log_iter = train_iter
        scalars = self.statistics.summary()
        scalars |= {
            "total_envstep_count": float(self.envstep),
            "total_episode_count": float(self.total_episode_count),
            "total_train_sample_count": float(self.total_train_sample_count),
        }
        self._log.log_scalars(
            {f"collector/{key}": value for key, value in scalars.items()},
            env_step=self.envstep,
            train_iter=train_iter,
        )
        if hasattr(self._log, "log_text"):
            self._log.log_text(_line(scalars, train_iter, self.envstep), channel="collector")
        self.statistics.clear()

    def state_dict(self) -> dict[str, Any]:
        """Returns counters and unfinished trajectories."""
        rows, previous = self._carried, self._previous
        partial = previous.state_dict(rows) if previous is not None and rows else None
        return {
            "envstep": self.envstep,
            "total_episode_count": self.total_episode_count,
            "total_train_sample_count": self.total_train_sample_count,
            "last_log_iter": self._last_log_iter,
            "partial": partial,
            "statistics": self.statistics.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Unfinished samples are dropped if the manager, whose state is loaded first, could not
        restore the running episodes: the samples would continue in other episodes.
        """
        self.envstep = int(state["envstep"])
        self.total_episode_count = int(state["total_episode_count"])
        self.total_train_sample_count = int(state["total_train_sample_count"])
        self._last_log_iter = int(state["last_log_iter"])
        self.statistics.load_state_dict(state["statistics"])
        lost = getattr(self._env, "brought_back", None) is False
        partial = None if lost else state["partial"]
        self._previous = Block.from_state(partial) if partial is not None else None

    def close(self) -> None:
        """Closes the environments; harmless when repeated."""
        if not self._closed:
            self._closed = True
            if self._env is not None:
                self._env.close()


def _line(scalars: Mapping[str, float], train_iter: int, envstep: int) -> str:
    """Returns the statistics of the episodes since the last report as a log line."""
    return (
        f"update {train_iter}, env step {envstep}: {scalars['episode_count']:.0f} episodes, mean"
        f" return {scalars['reward_mean']:.6g} (std {scalars['reward_std']:.4g}),"
        f" {scalars['avg_envstep_per_episode']:.1f} steps each,"
        f" {scalars['avg_envstep_per_sec']:.0f} env steps/s"
    )


def _same_samples(policy: Any, other: Any) -> bool:
    """Returns whether the samples of two collect modes have the same columns (warm-up policies)."""
    return (
        policy is other
        or (other is not None and mode_attribute(policy, "like", None) is other)
        or mode_attribute(other, "like", None) is policy
    )
