"""Middleware that collects: sample collection, inference, rollout, exploration."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.config.sections import CollectConfig, RunConfig
from dicore.data import Batch, Columns, EnvBatch, Row, Tree, tree_map, tree_row
from dicore.errors import TaskError, UsageError
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.policy import CollectMode, CommandMode
from dicore.task import OnlineRLContext, StepInterrupted, Task, middleware
from dicore.task.middleware import MiddlewareSpec, Role
from dicore_plugins.collectors.base import mode_name
from dicore_plugins.collectors.budget import samples_within
from dicore_plugins.env_managers.episodes import AbnormalEpisodes
from dicore_plugins.functional.exploration import get_epsilon_greedy_fn

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector
    from dicore.run import Run
    from dicore_plugins.executors.versions import ActingPolicy


_LOG = logging.getLogger("dicore.collector")
_TELL_S = 0.5
"""Shortest time between two reports of progress."""


@middleware(
    reads=["env_step", "train_iter"],
    writes=["trajectories", "trajectory_end_idx", "env_step", "env_episode"],
    optional=["collect_kwargs"],
    role=Role.COLLECTOR,
)
class StepCollector:
    """Collects `n_sample` training samples per step, or `n_episode` whole episodes.

    A signal or the budget of env steps ends the task within a collect; when the run is resumed, it
    collects on from there. In async mode it acts by a copy of the policy, whose parameters are
    those after the step that `ctx.train_iter` is of.

    Args:
        cfg: The whole compiled config; `policy.collect` is used. None: `collector` knows how much.
        policy: Collect mode of the policy.
        env: Env manager of the collector.
        random_collect_size: Samples collected by a random policy in the first step (like
            `learning_starts`); they count as env steps. None: `policy.collect.random_collect_size`.
        run: Run that logs statistics and whose stop flag is obeyed; None: neither.
        collector: Collector to use; None: the configured one is created.
        reuse: The samples of a step may be overwritten in the next one.
    """

    def __init__(
        self,
        cfg: RunConfig | None,
        policy: CollectMode,
        env: IEnvManager,
        random_collect_size: int | None = 0,
        *,
        run: Run | None = None,
        collector: ISerialCollector | None = None,
        reuse: bool = False,
    ) -> None:
        log = None if run is None else run.log
        sections: Any = cfg  # it is needed if no collector is given
        self.collector: ISerialCollector = collector or sections.policy.collect.collector.build(
            None, env_manager=env, policy=policy, log=log
        )
        self._policy, self._env, self._run, self._reuse = policy, env, run, reuse
        self._max_env_step = None if cfg is None else cfg.pipeline.max_env_step
        collect: CollectConfig | dict[str, int] = {} if cfg is None else cfg.policy.collect
        if random_collect_size is None:
            random_collect_size = collect.get("random_collect_size", 0)
        self._warm_up = random_collect_size
        self._told, self._told_iter = time.monotonic(), 0
        self._task: Task | None = None
        self._executor: Any = None
        self._acting: ActingPolicy | None = None
        self._n_sample, self._n_episode = collect.get("n_sample"), collect.get("n_episode")

    @property
    def uses(self) -> tuple[object, ...]:
        """What it shares with other middleware; see `dicore.task.middleware`."""
        return self.collector, self._env, self._policy

    def join_task(self, task: Task) -> None:
        """In async mode, acts by a copy of the policy; takes turns if it cannot be copied."""
        self._task = task
        self._executor = task.executor
        if self._executor is None:
            return
        self._reuse = False
        self._acting = self._executor.acting(self._policy)
        if self._acting is None:
            _LOG.warning(
                "%s cannot be copied: collecting and training take turns", mode_name(self._policy)
            )
            return
        self._policy = self._acting.mode
        self.collector.reset_policy(self._policy)
        self._acting.restore_memory()

    def __call__(self, ctx: OnlineRLContext) -> None:
        if self._task is not None:  # the first step: all middleware are known now
            check_readers(self._task, self)
            self._task = None
        if self._acting is not None:
            self._acting.adopt(self._executor.version(ctx))
        self._told_iter = ctx.train_iter
        missing = self._missing_warm_up()
        if missing > 0:
            data = self._collect_randomly(missing)
        else:
            data = self.collector.collect_batch(
                **self._amount(self._n_sample),
                train_iter=ctx.train_iter,
                policy_kwargs=ctx.collect_kwargs,
                should_stop=self._should_stop,
                reuse=self._reuse,
            )
        if not data and self._should_stop():
            raise StepInterrupted
        self._count(ctx, data)

    def _missing_warm_up(self) -> int:
        """Returns how many samples are to be collected at random: at first all, later the rest.

        The budget of env steps may end a warm-up; a resumed run may have a larger one.
        """
        collector = self.collector
        found = getattr(collector, "total_train_sample_count", collector.envstep)
        return self._warm_up - int(found) if self._warm_up else 0

    def _collect_randomly(self, size: int) -> Batch:
        from dicore_plugins.policies.random import RandomPolicy

        random = RandomPolicy(action_space=self._env.action_space, like=self._policy)
        self.collector.reset_policy(random.collect_mode)
        samples: Batch = self.collector.collect_batch(
            n_sample=self._within_budget(size), random_collect=True, should_stop=self._should_stop
        )
        self.collector.reset_policy(self._policy)
        return samples

    def _amount(self, n_sample: int | None) -> dict[str, Any]:
        """Returns how much to collect; nothing: the collector knows."""
        if n_sample is None:
            return {} if self._n_episode is None else {"n_episode": self._n_episode}
        return {"n_sample": self._within_budget(n_sample)}

    def _within_budget(self, size: int) -> int:
        """Returns `size`, or fewer samples if the budget of env steps ends before."""
        if self._max_env_step is None:
            return size
        return samples_within(self.collector, size, self._max_env_step - self.collector.envstep)

    def _should_stop(self) -> bool:
        """Whether to end a collect, asked between env steps; also tells how far it is."""
        if self._run is not None:
            if self._run.stop_requested:
                return True
            now = time.monotonic()
            if now - self._told > _TELL_S:
                self._told = now
                self._run.log.log_progress(
                    env_step=self.collector.envstep, train_iter=self._told_iter
                )
        if self._executor is not None and self._executor.cancelled:
            return True
        return self._max_env_step is not None and self.collector.envstep >= self._max_env_step

    def _count(self, ctx: OnlineRLContext, data: Batch) -> None:
        if not data:  # would loop forever
            raise UsageError(
                f"{type(self.collector).__name__}.collect_batch returned no samples",
                hint="step the environments until there are n_sample samples",
            )
        ctx.trajectories = data
        ctx.trajectory_end_idx = self.collector.trajectory_end_idx.tolist()
        ctx.env_step = self.collector.envstep
        ctx.env_episode = self.collector.total_episode_count


def settings_handler(mode: CommandMode) -> Callable[[OnlineRLContext], None]:
    """Sets the annealed settings of acting for this step (`eps`, noise, …).

    Args:
        mode: Command mode of the policy; `get_setting_collect` returns the settings by env step
            (`envstep`) and update (`learner_step`).

    Returns:
        A middleware: env_step, train_iter -> collect_kwargs.
    """
    get_setting = mode.get_setting_collect

    @middleware(reads=["env_step", "train_iter"], writes=["collect_kwargs"], uses=[])
    def set_settings(ctx: OnlineRLContext) -> None:
        info = {"envstep": ctx.env_step, "learner_step": ctx.train_iter}
        ctx.collect_kwargs = {**ctx.collect_kwargs, **get_setting(info)}

    return set_settings


def inferencer(
    seed: int | None, policy: CollectMode, env: IEnvManager
) -> Callable[[OnlineRLContext], None]:
    """Runs the policy on ready observations and stores the actions in the context.

    Args:
        seed: Seed for the environments, set before their launch; None: no seed is set.
        policy: Collect mode of the policy.
        env: Env manager; it is launched if it is not running yet.

    Returns:
        A middleware: collect_kwargs -> obs, action, inference_output; each by env id.
    """
    if env.closed:
        if seed is not None:
            env.seed(seed)
        env.launch()

    @middleware(
        writes=["obs", "action", "inference_output"],
        optional=["collect_kwargs"],
        uses=[policy, env],
        role=Role.COLLECTOR,
    )
    def infer(ctx: OnlineRLContext) -> None:
        ctx.obs = env.ready_obs
        output = EnvBatch.of(policy.forward(ctx.obs, **ctx.collect_kwargs))
        ctx.inference_output = output
        ctx.action = output.with_value(output.value["action"])

    return infer


def rolloutor(
    policy: CollectMode, env: IEnvManager, transitions: TransitionList | None = None
) -> Callable[[OnlineRLContext], None]:
    """Steps the environments with the inferred actions and stores the transitions.

    Args:
        policy: Collect mode of the policy; its `process_transition` selects the columns.
        env: The env manager to step.
        transitions: Stores the transitions of all steps, besides `trajectories` of this step.

    Returns:
        A middleware: obs, action, inference_output -> trajectories, trajectory_end_idx, env_step,
        env_episode. An abnormal step drops its running episode from `transitions`.
    """
    steps, sent, abnormal = TransitionList(env.env_num), _Sent(), AbnormalEpisodes()
    joined: Task | None = None

    def join_task(task: Task) -> None:
        nonlocal joined
        joined = task

    @middleware(
        reads=["obs", "action", "inference_output"],
        writes=["trajectories", "trajectory_end_idx", "env_step", "env_episode"],
        uses=[policy, env, *([] if transitions is None else [transitions])],
        role=Role.COLLECTOR,
    )
    def roll_out(ctx: OnlineRLContext) -> None:
        nonlocal joined
        if joined is not None and transitions is None:
            check_readers(joined, roll_out)
        joined = None
        assert ctx.obs is not None
        assert ctx.inference_output is not None
        result = env.step(ctx.inference_output)
        timestep = result.value
        columns = policy.process_transition(
            *sent.answered(ctx.obs, ctx.inference_output, result.env_id), timestep
        )
        columns.setdefault("next_obs", timestep.obs)
        steps.clear()
        for row, env_id in enumerate(result.env_id.tolist()):
            done = bool(timestep.terminated[row] or timestep.truncated[row])
            if timestep.abnormal is not None and timestep.abnormal[row]:
                abnormal.add(env_id, timestep.info[row])
                if transitions is not None:
                    transitions.drop_episode(env_id)
                if not done:
                    env.reset({env_id: None})
                policy.reset([env_id])
                continue
            transition = _float_done(tree_row(columns, row))
            steps.append(env_id, transition, end=done)
            if transitions is not None:
                transitions.append(env_id, transition, end=done)
            ctx.env_step += 1
            abnormal.clear()
            if done:
                ctx.env_episode += 1
                policy.reset([env_id])
        ctx.trajectories, ctx.trajectory_end_idx = steps.to_trajectories()

    vars(roll_out)["join_task"] = join_task
    return roll_out


class _Sent:
    """What environments were sent that have not answered yet; some managers wait for a few."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Tree, Tree]] = {}

    def answered(
        self, obs: EnvBatch[Tree], output: EnvBatch[Columns], ids: npt.NDArray[np.int64]
    ) -> tuple[Tree, Columns]:
        """Returns what environments saw and were told before they answered, in their order.

        Args:
            obs: Observations of those that were just sent an action.
            output: Output of the policy for them.
            ids: int64 [K]; those that answered.
        """
        if not self._rows and np.array_equal(ids, obs.env_id):
            return obs.value, output.value
        for row, env_id in enumerate(obs.env_id.tolist()):
            at = output.position[env_id]
            kept = tree_row(obs.value, row), tree_row(output.value, at)
            self._rows[env_id] = tree_map(np.array, kept[0]), tree_map(np.array, kept[1])
        found = [self._rows.pop(env_id) for env_id in ids.tolist()]
        seen, told = (
            tree_map(lambda *rows: np.stack(rows), *each) for each in zip(*found, strict=True)
        )
        return seen, told


def _float_done(row: Mapping[str, Tree]) -> Row:
    return {key: np.float32(value) if key == "done" else value for key, value in row.items()}


def check_readers(task: Task, collector: object) -> None:
    """Checks that a task which learns does something with what a collector collects.

    Tasks with middleware that declare nothing are not checked: those may read any field.

    Raises:
        TaskError: no other middleware reads the samples or episodes.
    """
    parts = list(_single(task.parts))
    own = next((part for part in parts if part.fn is collector), None)
    others = [part for part in parts if part is not own]
    learner = next((part for part in others if getattr(part.fn, "role", "") == Role.LEARNER), None)
    declared = all(any(part.fields) or hasattr(part.fn, "uses") for part in others)
    if own is None or learner is None or not declared:
        return
    read = {name for part in others for name in _read_by(part)}
    unread = [name for name in ("trajectories", "episodes") if name in own.fields.writes]
    if unread and not read & {*unread}:
        raise TaskError(
            f"'{own.name}' writes ctx.{unread[0]}, which no other middleware reads:"
            f" '{learner.name}' never learns from it",
            hint="use data_pusher(cfg, buffer) between them",
        )


def _read_by(part: MiddlewareSpec) -> set[str]:
    """Returns the fields that a middleware uses, without those that it only changes."""
    fields = part.fields
    return {*fields.reads, *fields.optional, *fields.either} - {*fields.writes}


def _single(parts: Iterable[MiddlewareSpec]) -> Iterator[MiddlewareSpec]:
    """Yields the middleware of a task, and the members of combined ones in their place."""
    for part in parts:
        yield from _single(part.members) if part.members else (part,)


def eps_greedy_handler(cfg: Any) -> Callable[[OnlineRLContext], Generator[None, None, None]]:
    """Sets epsilon for this step from its schedule over env steps.

    Args:
        cfg: The whole compiled config; `policy.other.eps` is used.

    Returns:
        A middleware: env_step -> collect_kwargs['eps'], removed after the step.
    """
    eps = cfg.policy.other.eps
    schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    @middleware(reads=["env_step"], writes=["collect_kwargs"], uses=[], role=Role.COLLECTOR)
    def set_eps(ctx: OnlineRLContext) -> Generator[None, None, None]:
        ctx.collect_kwargs["eps"] = schedule(ctx.env_step)
        yield
        ctx.collect_kwargs.pop("eps", None)

    return set_eps


class TransitionList:
    """Stores the transitions of each environment, in order.

    Args:
        env_num: Number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._rows: list[list[Row]] = [[] for _ in range(env_num)]
        self._ends: list[list[int]] = [[] for _ in range(env_num)]

    def append(self, env_id: int, transition: Row, *, end: bool) -> None:
        """Adds a transition; `end` marks the last one of an episode."""
        self._rows[env_id].append(transition)
        if end:
            self._ends[env_id].append(len(self._rows[env_id]) - 1)

    def drop_episode(self, env_id: int) -> int:
        """Drops the running episode of an environment; returns its number of steps."""
        ends = self._ends[env_id]
        start = ends[-1] + 1 if ends else 0
        dropped = len(self._rows[env_id]) - start
        del self._rows[env_id][start:]
        return dropped

    def to_trajectories(self) -> tuple[list[Row], list[int]]:
        """Returns all transitions by environment, and the indices at which trajectories end."""
        rows: list[Row] = []
        ends: list[int] = []
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            pieces = {*env_ends, len(env_rows) - 1} if env_rows else set()
            ends += [len(rows) + index for index in sorted(pieces)]
            rows += env_rows
        return rows, ends

    def clear(self) -> None:
        """Drops all transitions."""
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            env_rows.clear()
            env_ends.clear()

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows)
