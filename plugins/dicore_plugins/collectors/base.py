"""Base class of serial collectors: env manager, collect mode, counters and statistics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_paths, tree_row
from dicore.errors import (
    ActionError,
    ClosedError,
    EnvError,
    NonFiniteError,
    SchemaError,
    UsageError,
)
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode, PolicyFacts, Tail, check_mode, facts_of
from dicore_plugins.env_managers.episodes import AbnormalEpisodes
from dicore_plugins.policies.base import mode_attribute

_PATIENCE = 128
"""Rows without a sample after which a policy is taken not to make any."""
_MOST = 100_000

if TYPE_CHECKING:
    from dicore.run import LogHub
    from dicore_plugins.middleware.profiler import StepTimer


class EpisodeStatistics:
    """Returns and lengths of finished episodes, and the number of samples collected meanwhile.

    Attributes:
        train_sample_count: Samples in this window.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Starts a new window."""
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self.train_sample_count = 0
        self._start = time.perf_counter()

    @property
    def episode_count(self) -> int:
        """Episodes in this window."""
        return len(self._returns)

    def add(self, info: Mapping[str, Any]) -> None:
        """Adds the last info of an episode.

        Args:
            info: `eval_episode_return` and `episode_length` of dicore's managers, or `episode`
                with `r` and `l` of gymnasium's `RecordEpisodeStatistics`; an unknown length counts
                as 0. Of several returns (agents, objectives), the sum counts, as in evaluators.
        """
        episode = info.get("episode")
        recorded = {} if episode is None or not isinstance(episode, Mapping) else episode
        total = info.get("eval_episode_return", recorded.get("r", np.nan))
        self._returns.append(total if total.__class__ is float else float(np.sum(total)))
        self._lengths.append(int(info.get("episode_length", recorded.get("l", 0))))
        del self._returns[:-_MOST], self._lengths[:-_MOST]  # where nobody asks for a report

    def state_dict(self) -> StateDict:
        """Returns the episodes and the number of samples in this window."""
        return {
            "returns": list(self._returns),
            "lengths": [float(each) for each in self._lengths],
            "train_sample_count": self.train_sample_count,
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; the clock of the window starts now."""
        self.clear()
        self._returns = [float(each) for each in state["returns"]]
        self._lengths = [int(each) for each in state["lengths"]]
        self.train_sample_count = int(state.get("train_sample_count", 0))

    def summary(self) -> dict[str, float]:
        """Returns counts, rates per second, and mean, std, max and min of the returns."""
        seconds = max(time.perf_counter() - self._start, 1e-9)
        returns = np.asarray(self._returns)
        steps, samples = sum(self._lengths), self.train_sample_count
        return {
            "episode_count": float(len(returns)),
            "envstep_count": float(steps),
            "train_sample_count": float(samples),
            "avg_envstep_per_episode": steps / len(returns),
            "avg_train_sample_per_episode": samples / len(returns),
            "avg_envstep_per_sec": steps / seconds,
            "avg_train_sample_per_sec": samples / seconds,
            "avg_episode_per_sec": len(returns) / seconds,
            "collect_time": seconds,
            "reward_mean": float(returns.mean()),
            "reward_std": float(returns.std()),
            "reward_max": float(returns.max()),
            "reward_min": float(returns.min()),
        }

    def report(self, log: Any, totals: Mapping[str, float], train_iter: int) -> None:
        """Logs the statistics and `totals` of this window as scalars and as a line of text.

        Args:
            log: Receives `log_scalars(scalars, env_step=…, train_iter=…)`.
            totals: Counters since the start of the run; `total_envstep_count` is required.
            train_iter: Gradient updates so far.
        """
        scalars = {**self.summary(), **totals}
        env_step = int(totals["total_envstep_count"])
        log.log_scalars(
            {key if "/" in key else f"collector/{key}": value for key, value in scalars.items()},
            env_step=env_step,
            train_iter=train_iter,
        )
        if hasattr(log, "log_text"):
            log.log_text(
                f"update {train_iter}, env step {env_step}: {scalars['episode_count']:.0f}"
                f" episodes, mean return {scalars['reward_mean']:.6g}"
                f" (std {scalars['reward_std']:.4g}),"
                f" {scalars['avg_envstep_per_episode']:.1f} steps each,"
                f" {scalars['avg_envstep_per_sec']:.0f} env steps/s",
                channel="collector",
            )


class SerialCollector:
    """Base class of collectors that step an env manager in the calling process.

    A subclass implements `collect_batch` (see `ISerialCollector`) and `_forget`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Steps the environments; launched here if it is closed.
        policy: Collect mode of the policy.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.

    Attributes:
        envstep: Env steps collected so far.
        total_episode_count: Episodes collected so far.
        total_train_sample_count: Samples returned so far.
        statistics: The episodes since the last report.
    """

    config_class: ClassVar[type[ComponentConfig]]
    shown_as = ""
    """Its name in messages, if that is not its class."""

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        env_manager: IEnvManager | None = None,
        policy: CollectMode | None = None,
        *,
        log: LogHub | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._log = log
        self._closed = False
        self.statistics = EpisodeStatistics()
        self._policy: Any = None
        self._env: Any = None
        self._barren = self._weight = 0.0
        self._marks: tuple[Any, Any] = (None, None)
        self._abnormal = AbnormalEpisodes()
        self._schema: tuple[object, ...] | None = None
        self._reset_counters()
        if policy is not None:
            self.reset_policy(policy)
        if env_manager is not None:
            self.reset_env(env_manager)

    @classmethod
    def default_config(cls) -> Columns:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Resets the current environments, or launches a new manager and uses it from now on."""
        if env is None:
            self._env.reset()
        else:
            self._env = env
            if env.closed:
                env.launch()
            else:
                env.reset()
        self._num_envs = self._env.env_num
        self._lockstep = "lockstep" in getattr(self._env, "capabilities", ())
        self._step = getattr(self._env, "step_into", self._env.step)
        self._forget()

    def reset_policy(self, policy: CollectMode | None = None) -> None:
        """Uses `policy` (a collect mode) from the next step on, and clears its per-env state.

        The environments are not reset. Unfinished samples of the previous policy are dropped, as
        their columns may differ.

        Raises:
            UsageError: the policy's `sample_len` and `sample_stride` do not fit together.
        """
        if policy is not None:
            if policy.__class__ is not CollectMode:
                check_mode(
                    policy, "collect", "forward", "process_transition", "get_train_sample", "reset"
                )
            if self._env is not None and not _same_samples(policy, self._policy):
                self._forget()
            self._policy = policy
            facts = mode_attribute(policy, "facts", None) or facts_of(policy)
            self._sample_len, self._stride = _window(policy, facts)
            self._on_policy = facts.on_policy
            self._n_sample = getattr(self._cfg, "n_sample", None) or facts.n_sample
            self._n_episode = facts.n_episode
        self._policy.reset()

    def reset(self, policy: CollectMode | None = None, env: IEnvManager | None = None) -> None:
        """Resets policy, environments and counters, and drops partial trajectories."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._reset_counters()

    def _reset_counters(self) -> None:
        self.envstep = self.total_episode_count = self.total_train_sample_count = 0
        self._last_log_iter = -1
        self.statistics.clear()

    def _forget(self) -> None:
        """Drops all rows and samples that were not returned yet."""
        raise NotImplementedError

    def _samples(self, block: Batch, tail: Tail) -> Any:
        """Returns the samples of a block."""
        return self._policy.get_train_sample(block, tail)

    def _check_ready(self) -> None:
        """Raises an error if the collector is closed, or has no policy or env manager."""
        if self._closed:
            raise ClosedError("the collector is closed", hint="create a new collector")
        if self._env is None or self._policy is None:
            missing = "policy" if self._env is not None else "env"
            hint = f"call reset_{missing}(…) first"
            raise UsageError(f"the collector has no {missing}", hint=hint)

    def _wanted(self, n_sample: int | None, n_episode: int | None) -> tuple[str, int]:
        """Returns the unit and the number of a call: those given, or the configured ones."""
        self._check_ready()
        if n_sample is not None and n_episode is not None:
            raise UsageError("n_sample and n_episode are both given", hint="pass one of them")
        if n_sample is None and n_episode is None:
            n_sample = self._n_sample
            n_episode = self._n_episode if n_sample is None else None
        unit = "n_sample" if n_episode is None else "n_episode"
        wanted: Tree = n_sample if n_episode is None else n_episode
        if not isinstance(wanted, Integral) or int(wanted) < 1:
            raise UsageError(
                f"cannot collect {wanted!r} {unit[2:]}s",
                hint=f"pass {unit}, an int >= 1, or set policy.collect.{unit}",
            )
        return unit, int(wanted)

    def _finished(self, data: Batch, train_iter: int, *, count: bool) -> Batch:
        """Stamps, counts and reports the samples of a call; subclasses return the result."""
        columns = data.columns
        number = len(data)
        stamp = columns["collect_iter"] = np.empty(number, np.int64)
        stamp.fill(train_iter)
        data.schema = self._known_schema(data)
        self._marks = columns.get("end"), columns.get("env_id")
        if count:
            self.total_train_sample_count += number
            self.statistics.train_sample_count += number
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
        if np.ndim(env_id) > 1:  # rows [T, N], each of all environments
            marked[-1:] = True
            return np.flatnonzero(marked)
        num_envs = self._num_envs
        if len(env_id) >= num_envs and (env_id[-num_envs:] == np.arange(num_envs)).all():
            marked[-num_envs:] = True  # all environments together, as almost always
        else:
            last_first = np.unique(env_id[::-1], return_index=True)[1]
            marked[len(env_id) - 1 - last_first] = True
        return np.flatnonzero(marked)

    def _known_schema(self, data: Batch) -> tuple[object, ...]:
        """Returns the same object for batches with the same keys, dtypes and sample shapes."""
        columns = data.columns
        try:
            schema = tuple([(key, leaf.dtype, leaf.shape[1:]) for key, leaf in columns.items()])
        except AttributeError:  # some are nested
            leaves = tree_paths(columns).items()
            schema = tuple([(key, leaf.dtype, leaf.shape[1:]) for key, leaf in leaves])
        if schema != self._schema:
            self._schema = schema
        return self._schema

    def _see_rows(self, count: int, *, valid: bool = True) -> None:
        """Counts rows that a policy was asked to make samples of; abnormal ones hardly count."""
        self._weight += count if valid else count / 50

    def _check_progress(self, found: int) -> None:
        """Raises an error if blocks in a row, at least two, gave no samples of many rows."""
        if found:
            self._barren = self._weight = 0.0
            return
        self._barren += min(self._weight / _PATIENCE, 0.5)
        self._weight = 0.0
        if self._barren >= 1:
            raise self._no_samples("many rows in a row")

    def _no_samples(self, what: str) -> UsageError:
        """Returns the error of a policy that makes no samples."""
        last = self._abnormal.last
        return UsageError(
            f"{mode_name(self._policy)}: get_train_sample returned no samples of {what}, which"
            f" {self.shown_as or type(self).__name__} collected for it"
            f" (sample_len {self._sample_len!r}, sample_stride {self._stride})"
            + (f"; abnormal steps give none, the latest of {last}" if last else ""),
            hint="return samples, or declare another sample_len and sample_stride; steps with"
            " info['abnormal'] give none",
        )

    def profile(self, timer: StepTimer) -> None:
        """Times the steps of the environments, until `timer.end`."""
        timer.patch(self, "_step", "env step")

    def _report(self, train_iter: int) -> None:
        """Logs the statistics, every `collect_print_freq` updates."""
        last = self._last_log_iter
        if last >= 0 and train_iter < last + self._cfg.collect_print_freq:
            return
        self._last_log_iter = train_iter
        totals = {
            "total_envstep_count": float(self.envstep),
            "total_episode_count": float(self.total_episode_count),
            "total_train_sample_count": float(self.total_train_sample_count),
        }
        if hasattr(self._env, "restarts"):
            totals["env/restarts"] = float(self._env.restarts)
        self.statistics.report(self._log, totals, train_iter)
        self.statistics.clear()

    def state_dict(self) -> StateDict:
        """Returns the counters, the statistics, and the policy's memory of running episodes."""
        return {
            "envstep": self.envstep,
            "total_episode_count": self.total_episode_count,
            "total_train_sample_count": self.total_train_sample_count,
            "last_log_iter": self._last_log_iter,
            "statistics": self.statistics.state_dict(),
            "policy": mode_attribute(self._policy, "collect_state", None),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        The policy's memory of running episodes is cleared if the manager, whose state is loaded
        first, could not restore these episodes.
        """
        self.envstep = int(state["envstep"])
        self.total_episode_count = int(state["total_episode_count"])
        self.total_train_sample_count = int(state["total_train_sample_count"])
        self._last_log_iter = int(state["last_log_iter"])
        self.statistics.load_state_dict(state["statistics"])
        if state.get("policy") is None or self._env is None:
            return
        if getattr(self._env, "brought_back", None) is False:
            self._policy.reset()
        else:
            self._policy.set_attribute("collect_state", state["policy"])

    def close(self) -> None:
        """Closes the environments; later calls do nothing."""
        if not self._closed and self._env is not None:
            self._env.close()
        self._closed = True


def _window(policy: CollectMode, facts: PolicyFacts) -> tuple[int | str, int]:
    """Returns `sample_len` and `sample_stride` of a collect mode."""
    length, stride = facts.sample_len, facts.sample_stride
    if length != "episode" and not 1 <= stride <= length:
        raise UsageError(
            f"{mode_name(policy)}: sample_len {length!r} and sample_stride {stride!r} do not fit",
            hint="sample_len is 'episode' or an int; sample_stride is from 1 to sample_len",
        )
    return length, stride


def mode_name(mode: object) -> str:
    """Returns the class of the policy of a mode, or that of the mode."""
    owner = getattr(getattr(mode, "forward", None), "__self__", mode)
    return type(owner).__name__


def add_place(error: BaseException, mode: Any, when: str) -> None:
    """Adds policy and time to an error about what its network returned for one row."""
    if isinstance(error, ActionError | NonFiniteError) and "row" in error.context:
        error.message = f"{mode_name(mode)} at {when}: {error.message}"


def _same_samples(policy: CollectMode, other: object) -> bool:
    """Returns whether the samples of two collect modes have the same columns (warm-up policies)."""
    return (
        policy is other
        or (other is not None and mode_attribute(policy, "like", None) is other)
        or mode_attribute(other, "like", None) is policy
    )


def check_lockstep(obs: EnvBatch[Tree], answer: EnvBatch[Tree], num_envs: int) -> Tree:
    """Returns the env ids of a step of all environments, in order; else raises EnvError."""
    for what, ids in (("are ready", obs.env_id), ("returned a timestep", answer.env_id)):
        if not np.array_equal(ids, np.arange(num_envs)):
            raise EnvError(
                f"of {num_envs} environments, {ids.tolist()} {what}, but the manager declares"
                " 'lockstep'",
                hint="remove 'lockstep' from its capabilities, or use auto_reset=True",
            )
    return answer.env_id


def chosen_actions(obs: EnvBatch[Tree], output: Mapping[int, Tree]) -> EnvBatch[Tree]:
    """Returns the output of a collect mode's forward in the order of the observations.

    Raises:
        SchemaError: it is not a mapping from the env ids of `obs` to columns.
    """
    chosen = EnvBatch.of(output)
    if not isinstance(chosen.value, Mapping):
        raise SchemaError(
            "the collect mode's forward must return a dict of columns with 'action'; got"
            f" {type(chosen.value).__name__}",
            hint="{env_id: {'action': …}}",
        )
    if chosen.env_id is obs.env_id or np.array_equal(chosen.env_id, obs.env_id):
        return chosen
    if sorted(chosen.env_id.tolist()) != sorted(obs.env_id.tolist()):
        raise SchemaError(
            f"the collect mode's forward got observations of envs {obs.env_id.tolist()} and"
            f" returned actions for {chosen.env_id.tolist()}",
            hint="return one action for each observation",
        )
    rows = np.array([chosen.position[env_id] for env_id in obs.env_id.tolist()])
    return EnvBatch(obs.env_id, tree_row(chosen.value, rows))
