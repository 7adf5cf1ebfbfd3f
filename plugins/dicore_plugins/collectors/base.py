"""Base class of serial collectors: env manager, collect mode, counters and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.errors import ClosedError, SchemaError, UsageError
from dicore.interfaces.policy import check_mode
from dicore_plugins.collectors.statistics import EpisodeStatistics
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore_plugins.middleware.profiler import StepTimer


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

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        env_manager: Any = None,
        policy: Any = None,
        *,
        log: Any | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._log = log
        self._closed = False
        self.statistics = EpisodeStatistics()
        self._policy: Any = None
        self._env: Any = None
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

    def reset_env(self, env: Any | None = None) -> None:
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

    def reset_policy(self, policy: Any | None = None) -> None:
        """Uses `policy` (a collect mode) from the next step on, and clears its per-env state.

        The environments are not reset. Unfinished samples of the previous policy are dropped, as
        their columns may differ.

        Raises:
            UsageError: the policy's `sample_len` and `sample_stride` do not fit together.
        """
        if policy is not None:
            check_mode(
                policy, "collect", "forward", "process_transition", "get_train_sample", "reset"
            )
            if self._env is not None and not _same_samples(policy, self._policy):
                self._forget()
            self._policy = policy
            self._sample_len, self._stride = _window(policy)
            self._on_policy = bool(mode_attribute(policy, "on_policy", default=False))
            self._n_sample = self._cfg.n_sample or mode_attribute(policy, "n_sample", None)
            self._n_episode = mode_attribute(policy, "n_episode", None)
        self._policy.reset()

    def reset(self, policy: Any | None = None, env: Any | None = None) -> None:
        """Resets policy, environments and counters, and drops partial trajectories."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._reset_counters()

    def _reset_counters(self) -> None:
        self.envstep = 0
        self.total_episode_count = 0
        self.total_train_sample_count = 0
        self._last_log_iter = -1
        self.statistics.clear()

    def _reset_counters(self) -> None:
        self.envstep = 0
        self.total_episode_count = 0
        self.total_train_sample_count = 0
        self._last_log_iter = -1
        self.statistics.clear()

    def _forget(self) -> None:
        """Drops all rows and samples that were not returned yet."""
        raise NotImplementedError

    def _check_ready(self) -> None:
        """Raises an error if the collector is closed, or has no policy or env manager."""
        if self._closed:
            raise ClosedError("the collector is closed", hint="create a new collector")
        if self._env is None or self._policy is None:
            missing = "policy" if self._env is not None else "env"
            hint = f"call reset_{missing}(…) first"
            raise UsageError(f"the collector has no {missing}", hint=hint)

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
        self.statistics.report(self._log, totals, train_iter)
        self.statistics.clear()

    def state_dict(self) -> dict[str, Any]:
        """Returns the counters and the statistics."""
        return {
            "envstep": self.envstep,
            "total_episode_count": self.total_episode_count,
            "total_train_sample_count": self.total_train_sample_count,
            "last_log_iter": self._last_log_iter,
            "statistics": self.statistics.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.envstep = int(state["envstep"])
        self.total_episode_count = int(state["total_episode_count"])
        self.total_train_sample_count = int(state["total_train_sample_count"])
        self._last_log_iter = int(state["last_log_iter"])
        self.statistics.load_state_dict(state["statistics"])

    def close(self) -> None:
        """Closes the environments; later calls do nothing."""
        if not self._closed:
            self._closed = True
            if self._env is not None:
                self._env.close()


def _window(policy: Any) -> tuple[int | str, int]:
    """Returns `sample_len` and `sample_stride` of a collect mode."""
    nstep = mode_attribute(policy, "nstep", 1)
    length = mode_attribute(policy, "sample_len", nstep)
    stride = mode_attribute(policy, "sample_stride", 1)
    if length != "episode" and not 1 <= stride <= length:
        raise UsageError(
            f"{mode_name(policy)}: sample_len {length!r} and sample_stride {stride!r} do not fit",
            hint="sample_len is 'episode' or an int; sample_stride is from 1 to sample_len",
        )
    return length, stride


def mode_name(mode: Any) -> str:
    """Returns the class of the policy of a mode, or that of the mode."""
    owner = getattr(getattr(mode, "forward", None), "__self__", mode)
    return type(owner).__name__


def _same_samples(policy: Any, other: Any) -> bool:
    """Returns whether the samples of two collect modes have the same columns (warm-up policies)."""
    return (
        policy is other
        or (other is not None and mode_attribute(policy, "like", None) is other)
        or mode_attribute(other, "like", None) is policy
    )


def no_columns(value: Any) -> SchemaError:
    """Returns the error of a collect mode whose forward returns no columns."""
    return SchemaError(
        "the collect mode's forward must return a dict of columns with 'action'; got"
        f" {type(value).__name__}",
        hint="{env_id: {'action': …}}",
    )
