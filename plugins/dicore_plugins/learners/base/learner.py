"""The base learner: one call of the learn mode per iteration, with hooks before and after.

Results stay tensors; only a hook that logs them copies them from the device.
"""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config.compiler import as_config
from dicore.data import Batch, Row, State, StateDict, Tree
from dicore.errors import HookError, UsageError
from dicore.interfaces.hook import POSITIONS, ILearnerHook
from dicore.interfaces.policy import CollectMode, EvalMode, LearnMode, check_mode, facts_of
from dicore.run.checkpoint_store import CheckpointStore
from dicore_plugins.hooks.hook_config import build_hooks
from dicore_plugins.learners.base.config import BaseLearnerConfig
from dicore_plugins.learners.base.log_buffer import FiniteCheck, LogBuffer
from dicore_plugins.loggers.heartbeat import beat

if TYPE_CHECKING:
    from dicore.run import Run
    from dicore_plugins.learners.base.dataloader import Dataloader
    from dicore_plugins.middleware.profiler import StepTimer


Data = Batch | Sequence[Row] | Mapping[str, Batch]
"""A batch, a list of samples, or batches by the name of their buffer."""


class BaseLearner:
    """Runs gradient updates by a policy's learn mode; implements `ILearner`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        policy: A learn mode.
        tb_logger: Object with `add_scalar(name, value, step)`; `log_show` uses it without a run.
        dist_info: `(rank, world_size)`; None for a single learner.
        exp_name: Folder for checkpoints without a run; None: it saves none by itself.
        instance_name: Name in logs and messages.
        run: The `dicore.run.Run` for checkpoints and logs.

    Attributes:
        name: Name of the instance in logs and messages.
        rank: Index of this learner among `world_size` learners.
        logger: Python logger of this learner.
        last_iter: Updates made so far.
        envstep: Env steps collected at the last call of `train`, or -1.
        log_buffer: Monitored variables since the last log line.
        monitor: Means of the monitored variables at the last log line.
        tick_time: Duration of the last iteration in seconds.
    """

    config_class = BaseLearnerConfig

    def __init__(
        self,
        cfg: BaseLearnerConfig | Mapping[str, object] | None = None,
        policy: LearnMode | None = None,
        tb_logger: Any | None = None,
        dist_info: tuple[int, int] | None = None,
        exp_name: str | None = "default_experiment",
        instance_name: str = "learner",
        *,
        run: Run | None = None,
    ) -> None:
        self._cfg = as_config(cfg, BaseLearnerConfig)
        self.exp_name = exp_name
        self.name = instance_name
        self.rank, self.world_size = (0, 1) if dist_info is None else dist_info
        self.tb_logger = tb_logger
        self.run = run
        self.logger = logging.getLogger(f"dicore.{instance_name}")
        self.last_iter = 0
        self.envstep = -1
        self.tick_time = 0.0
        self.monitor: dict[str, float] = {}
        self.log_buffer = LogBuffer()
        self._finite_check = FiniteCheck()
        self.get_data: Callable[[int], Data] | None = None
        self._latest: tuple[Data, Mapping[str, Tree]] = ({}, {})
        self._hooks: dict[str, list[ILearnerHook]] = {position: [] for position in POSITIONS}
        self._dataloader: Dataloader[Data] | None = None
        self._closed = False
        self._policy: Any = None
        for hook in build_hooks(self._cfg.hook):
            self.register_hook(hook)
        if policy is not None:
            self.policy = policy

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    @property
    def policy(self) -> LearnMode:
        """The learn mode."""
        mode: LearnMode = self._policy
        return mode

    @policy.setter
    def policy(self, policy: LearnMode) -> None:
        check_mode(policy, "learn", "forward")
        if isinstance(policy, CollectMode | EvalMode):
            raise UsageError(
                f"{self.name}: expected the learn mode of a policy, got {type(policy).__name__}",
                hint="pass policy.learn_mode",
            )
        self._policy = policy
        monitor_vars = getattr(policy, "monitor_vars", None)
        self.log_buffer.names = tuple(monitor_vars()) if monitor_vars else ("total_loss",)
        if self._cfg.log_policy and hasattr(policy, "info"):
            self.logger.debug("%s trains %s", self.name, policy.info())

    @property
    def train_iter(self) -> int:
        """Updates made so far."""
        return self.last_iter

    @property
    def priority_info(self) -> dict[str, Tree]:
        """Priorities of the last batch, as a buffer's `update` expects them; may be empty."""
        data, result = self._latest
        if "priority" not in result or isinstance(data, Mapping):  # batches by buffer name
            return {}
        info = {"priority": result["priority"]}
        for key in ("replay_buffer_idx", "replay_unique_id"):
            if isinstance(data, Batch):
                if key in data:
                    info[key] = data[key]
            elif data and key in data[0]:
                info[key] = [row[key] for row in data]
        return info

    @property
    def latest_data(self) -> Data:
        """The batch of the last update; its memory is recycled, so copy what you keep."""
        return self._latest[0]

    @property
    def latest_result(self) -> Mapping[str, Tree]:
        """The result of the last update, with its tensors; empty before the first."""
        result: Mapping[str, Tree] = self._latest[1]
        return result

    @property
    def learn_info(self) -> dict[str, object]:
        """`learner_step`, `priority_info` and `learner_done`."""
        return {
            "learner_step": self.last_iter,
            "priority_info": self.priority_info,
            "learner_done": self.last_iter >= self._cfg.train_iterations,
        }

    # ---- training

    def train(
        self, data: Data, envstep: int = -1, policy_kwargs: Mapping[str, object] | None = None
    ) -> list[dict[str, Tree]]:
        """Calls the learn mode once, with the iteration hooks before and after.

        Args:
            data: A Batch or a list of samples, as the learn mode expects.
            envstep: Env steps collected so far; -1 if unknown.
            policy_kwargs: Passed to the learn mode's forward.

        Returns:
            One dict of results per update; the values stay tensors.

        Raises:
            UsageError: there is no policy, or its result is not a dict or a list of dicts.
            NonFiniteError: loss or gradient of the last updates, three or more, are not finite.
        """
        if self._policy is None:
            raise UsageError(
                f"{self.name} has no policy", hint="set learner.policy to a learn mode"
            )
        start = time.perf_counter()
        self.envstep = envstep
        self._run_hooks("before_iter")
        output = self._policy.forward(data, **(policy_kwargs or {}))
        outputs = output if isinstance(output, list) else [output]
        for result in outputs:
            if not isinstance(result, Mapping):
                raise UsageError(
                    f"{self.name}: the learn mode's forward returned a {type(result).__name__}",
                    hint="return a dict of results, or a list of one dict per update",
                )
            self.log_buffer.add(result)
            self._finite_check.add(result)
            self._latest = data, result
        self.last_iter += len(outputs)
        beat()
        if self.last_iter >= self._finite_check.due:
            self._finite_check(self)
        self._run_hooks("after_iter")
        self.tick_time = time.perf_counter() - start
        return outputs

    def setup_dataloader(self) -> None:
        """Creates the dataloader of `start`, which calls `self.get_data(batch_size)`.

        With several workers, several threads call it at the same time. An on-policy algorithm
        without a batch size learns from whole collects: `get_data(0)`.

        Raises:
            UsageError: `get_data` is not set, or the policy does not say its batch size.
        """
        if self.get_data is None:
            raise UsageError("the learner has no data source", hint="set learner.get_data first")
        from dicore_plugins.learners.base.dataloader import Dataloader

        cfg, facts = self._cfg.dataloader, facts_of(self._policy)
        batch_size = 0 if facts.on_policy and facts.batch_size is None else facts.batch_size
        if batch_size is None:
            raise UsageError(
                "the policy does not say its batch size", hint="set policy.learn.batch_size"
            )
        self._dataloader = Dataloader(
            lambda: self.get_data(batch_size) if self.get_data else None,
            ahead=cfg.prefetch if cfg.num_workers else 0,
            workers=max(1, cfg.num_workers),
            device=cfg.device,
        )
        if self._closed:  # by another thread, while this one began
            self._dataloader.close()

    def start(self) -> None:
        """Trains on batches from the dataloader until `train_iterations`, or until closed.

        After an error, the learner without a run saves the checkpoint `exception`.
        """
        if self._dataloader is None:
            self.setup_dataloader()
        assert self._dataloader is not None
        try:
            self.call_hook("before_run")
            while self.last_iter < self._cfg.train_iterations and not self._closed:
                data = self._dataloader.next_batch()
                if data is None:
                    break
                self.train(data, self.envstep)
            self.call_hook("after_run")
        except (Exception, SystemExit):
            self._save_failed()
            raise

    def _save_failed(self) -> None:
        """Saves the checkpoint `exception`; with a run, the run does."""
        if self.run is not None or self.exp_name is None or not self.last_iter:
            return
        try:
            self.save_checkpoint("exception")
        except Exception as problem:  # the first error is the one to see
            self.logger.warning("no checkpoint after the error: %s", problem)

    # ---- hooks

    def register_hook(self, hook: ILearnerHook) -> None:
        """Adds a hook after those of the same or lower priority.

        Raises:
            HookError: the hook's position is unknown.
        """
        if hook.position not in self._hooks:
            raise HookError(
                f"hook '{hook.name}': unknown position '{hook.position}'",
                hint=f"use one of {', '.join(POSITIONS)}",
            )
        bisect.insort_right(self._hooks[hook.position], hook, key=lambda each: each.priority)

    def call_hook(self, position: str) -> None:
        """Runs all hooks of a position, lowest priority first.

        Raises:
            HookError: the position is unknown.
            NonFiniteError: at `after_run`, the last updates were not finite.
        """
        if position not in self._hooks:
            raise HookError(
                f"unknown hook position '{position}'", hint=f"use one of {', '.join(POSITIONS)}"
            )
        if position == "after_run":
            self._finite_check(self)
        self._run_hooks(position)

    def _run_hooks(self, position: str) -> None:
        for hook in tuple(self._hooks[position]):  # a hook may register others
            try:
                hook(self)
            except Exception as error:
                name = getattr(hook, "name", type(hook).__name__)
                error.add_note(f"raised in learner hook '{name}' ({position})")
                raise

    @property
    def hooks(self) -> dict[str, list[ILearnerHook]]:
        """The hooks by position, in the order in which they run."""
        return {position: list(hooks) for position, hooks in self._hooks.items()}

    # ---- checkpoints, profiling and close

    def save_checkpoint(self, name: str | None = None) -> Path | None:
        """Saves a checkpoint, called `iteration_N` by default.

        Returns:
            The checkpoint's folder; None if writing failed and the run continues.

        Raises:
            UsageError: there is neither a run nor `exp_name`.
        """
        name = f"iteration_{self.last_iter}" if name is None else name
        if self.run is not None:
            path: Path | None = self.run.save_checkpoint(name)
            return path
        if self.exp_name is None:
            raise UsageError(f"{self.name} has no folder for checkpoints", hint="set exp_name")
        store = CheckpointStore(Path(self.exp_name) / "ckpt")
        return store.save(
            name,
            {"learner": self.state_dict()},
            train_iter=self.last_iter,
            env_step=max(self.envstep, 0),
        )

    def state_dict(self) -> StateDict:
        """Returns the policy's learning state, the counters, and the state of hooks."""
        return {
            "policy": self._policy.state_dict(),
            "last_iter": self.last_iter,
            "last_step": self.envstep,
            "log": self.log_buffer.state_dict(),
            "finite_check": self._finite_check.state_dict(self),
            "hooks": {
                place: dict(hook.state_dict())
                for place, hook in self._placed_hooks()
                if hasattr(hook, "state_dict")
            },
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; hooks with `resume` continue from the counters."""
        self._policy.load_state_dict(state["policy"])
        self.last_iter = int(state["last_iter"])
        self.envstep = int(state["last_step"])
        self.log_buffer.load_state_dict(state.get("log", {}))
        self._finite_check.load_state_dict(state.get("finite_check", {}), self)
        hook_states = state.get("hooks", {})
        for place, hook in self._placed_hooks():
            if hasattr(hook, "resume"):
                hook.resume(self)
            if place in hook_states and hasattr(hook, "load_state_dict"):
                hook.load_state_dict(hook_states[place])

    def _placed_hooks(self) -> Iterator[tuple[str, ILearnerHook]]:
        """Yields each hook with a unique name: `after_iter.0.log_show`."""
        for position, hooks in self._hooks.items():
            for number, hook in enumerate(hooks):
                yield f"{position}.{number}.{hook.name}", hook

    def profile(self, timer: StepTimer) -> None:
        """Times iterations, updates and hooks, until `timer.end`."""
        from dicore_plugins.learners.base.profile import time_hooks, time_updates

        timer.patch(self, "train", "learner")
        timer.replace(self, "_policy", time_updates(timer, self._policy))
        timer.replace(self, "_hooks", time_hooks(timer, self._hooks))

    def close(self) -> None:
        """Ends `start` at the next iteration and closes the dataloader; may be called twice."""
        self._closed = True
        if self._dataloader is not None:
            self._dataloader.close()
