"""Collecting as a step of training: whole samples, or inference and rollout apart; exploration."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from dicore.data import EnvBatch, Row, tree_row
from dicore.errors import UsageError
from dicore.task import OnlineRLContext, middleware
from dicore_plugins.functional.exploration import get_epsilon_greedy_fn


@middleware(
    reads=["env_step", "train_iter"],
    writes=["trajectories", "trajectory_end_idx", "env_step", "env_episode"],
    optional=["collect_kwargs"],
)
class StepCollector:
    """Collects exactly `n_sample` training samples per step.

    Args:
        cfg: The whole compiled config; `policy.collect` is used.
        policy: A collect mode.
        env: An env manager.
        random_collect_size: Samples by a random policy in the very first step, instead of the
            policy's; they count as env steps.
        run: Takes statistics; None: nowhere.
        collector: One that is made already.
    """

    def __init__(
        self,
        cfg: Any,
        policy: Any,
        env: Any,
        random_collect_size: int = 0,
        *,
        run: Any | None = None,
        collector: Any | None = None,
    ) -> None:
        log = None if run is None else run.log
        self.collector = collector or cfg.policy.collect.collector.build(
            None, env_manager=env, policy=policy, log=log
        )
        self._policy = policy
        self._env = env
        self._max_env_step = cfg.pipeline.max_env_step
        self._warm_up = random_collect_size
        self._n_sample = cfg.policy.collect.n_sample

    def __call__(self, ctx: OnlineRLContext) -> None:
        if self._warm_up > self.collector.envstep:
            self._collect_randomly(ctx)
            return
        ctx.trajectories = self.collector.collect_batch(
            self._within_budget(self._n_sample),
            train_iter=ctx.train_iter,
            policy_kwargs=ctx.collect_kwargs,
        )
        self._count(ctx)

    def _collect_randomly(self, ctx: OnlineRLContext) -> None:
        from dicore_plugins.policies.random import RandomPolicy

        random = RandomPolicy(action_space=self._env.action_space, like=self._policy)
        self.collector.reset_policy(random.collect_mode)
        size = self._within_budget(self._warm_up)
        ctx.trajectories = self.collector.collect_batch(size, random_collect=True)
        self.collector.reset_policy(self._policy)
        self._count(ctx)

    def _within_budget(self, size: int | None) -> int | None:
        """Returns a number of samples, or less where the budget of env steps ends before."""
        if self._max_env_step is None or size is None:
            return size
        left = self._max_env_step - self.collector.envstep
        within = getattr(self.collector, "samples_within", None)
        return max(1, min(size, left if within is None else within(left)))

    def _count(self, ctx: OnlineRLContext) -> None:
        if ctx.trajectories is None or not len(ctx.trajectories):  # no step would ever be the last
            raise UsageError(
                f"{type(self.collector).__name__}.collect_batch returned no samples",
                hint="a collector steps its environments until it has n_sample of them",
            )
        ctx.trajectory_end_idx = self.collector.trajectory_end_idx.tolist()
        ctx.env_step = self.collector.envstep
        ctx.env_episode = self.collector.total_episode_count


def inferencer(seed: int | None, policy: Any, env: Any) -> Callable[[OnlineRLContext], None]:
    """Shows the policy what is ready and notes what it does.

    Args:
        seed: Seeds the environments before their launch; None leaves them as they are.
        policy: A collect mode.
        env: An env manager, launched here if it is not yet.

    Returns:
        A middleware: collect_kwargs -> obs, action, inference_output; each by env id.
    """
    if env.closed:
        if seed is not None:
            env.seed(seed)
        env.launch()

    @middleware(writes=["obs", "action", "inference_output"], optional=["collect_kwargs"])
    def infer(ctx: OnlineRLContext) -> None:
        ctx.obs = env.ready_obs
        output = EnvBatch.of(policy.forward(ctx.obs, **ctx.collect_kwargs))
        ctx.inference_output = output
        ctx.action = output.with_value(output.value["action"])

    return infer


def rolloutor(
    policy: Any, env: Any, transitions: TransitionList | None = None
) -> Callable[[OnlineRLContext], None]:
    """Steps the environments with the chosen actions and gathers the transitions.

    Args:
        policy: A collect mode; `process_transition` picks the columns.
        env: The env manager that the actions are for.
        transitions: Where the transitions go, besides `trajectories` of the step.

    Returns:
        A middleware: obs, action, inference_output -> trajectories, trajectory_end_idx, env_step,
        env_episode. The running episode of an abnormal step is dropped from `transitions`.
    """
    steps = TransitionList(env.env_num)

    @middleware(
        reads=["obs", "action", "inference_output"],
        writes=["trajectories", "trajectory_end_idx", "env_step", "env_episode"],
    )
    def roll_out(ctx: OnlineRLContext) -> None:
        assert ctx.obs is not None
        assert ctx.inference_output is not None
        answer = env.step(ctx.inference_output)
        timestep = answer.value
        columns = policy.process_transition(ctx.obs.value, ctx.inference_output.value, timestep)
        steps.clear()
        for row, env_id in enumerate(answer.env_id.tolist()):
            done = bool(timestep.terminated[row] or timestep.truncated[row])
            if timestep.abnormal is not None and timestep.abnormal[row]:
                if transitions is not None:
                    transitions.drop_episode(env_id)
                if not done:
                    env.reset({env_id: None})
                policy.reset([env_id])
                continue
            transition = _plain_done(tree_row(columns, row))
            steps.append(env_id, transition, end=done)
            if transitions is not None:
                transitions.append(env_id, transition, end=done)
            ctx.env_step += 1
            if done:
                ctx.env_episode += 1
                policy.reset([env_id])
        ctx.trajectories, ctx.trajectory_end_idx = steps.to_trajectories()

    return roll_out


def _plain_done(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: np.float32(value) if key == "done" else value for key, value in row.items()}


def eps_greedy_handler(cfg: Any) -> Callable[[OnlineRLContext], Generator[None, None, None]]:
    """Sets epsilon by the env steps collected so far.

    Args:
        cfg: The whole compiled config; `policy.other.eps` is used.

    Returns:
        A middleware: env_step -> collect_kwargs['eps'], taken away again after the step.
    """
    eps = cfg.policy.other.eps
    schedule = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    @middleware(reads=["env_step"], writes=["collect_kwargs"])
    def set_eps(ctx: OnlineRLContext) -> Generator[None, None, None]:
        ctx.collect_kwargs["eps"] = schedule(ctx.env_step)
        yield
        ctx.collect_kwargs.pop("eps", None)

    return set_eps


class TransitionList:
    """Keeps the transitions of each environment in order.

    Args:
        env_num: How many environments there are.
    """

    def __init__(self, env_num: int) -> None:
        self._rows: list[list[Row]] = [[] for _ in range(env_num)]
        self._ends: list[list[int]] = [[] for _ in range(env_num)]

    def append(self, env_id: int, transition: Row, *, end: bool) -> None:
        """Adds a transition; `end` says that it is its episode's last."""
        self._rows[env_id].append(transition)
        if end:
            self._ends[env_id].append(len(self._rows[env_id]) - 1)

    def drop_episode(self, env_id: int) -> int:
        """Forgets the running episode of an environment; returns how many steps that were."""
        ends = self._ends[env_id]
        start = ends[-1] + 1 if ends else 0
        dropped = len(self._rows[env_id]) - start
        del self._rows[env_id][start:]
        return dropped

    def to_trajectories(self) -> tuple[list[Row], list[int]]:
        """Returns all transitions, environment after environment, and the rows that end a piece."""
        rows: list[Row] = []
        ends: list[int] = []
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            pieces = {*env_ends, len(env_rows) - 1} if env_rows else set()
            ends += [len(rows) + index for index in sorted(pieces)]
            rows += env_rows
        return rows, ends

    def clear(self) -> None:
        """Forgets everything."""
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            env_rows.clear()
            env_ends.clear()

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows)
