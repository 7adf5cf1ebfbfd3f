"""The collector contract: a good collector passes, and each check catches a planted fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, TimestepBatch, tree_stack
from dicore.errors import ClosedError
from dicore.interfaces.policy import Tail
from dicore.testing.collector import CollectorContract

from .faults import Fault, catches


class GoodCollector:
    """A collector as plainly as it can be written: one transition after the other."""

    def __init__(self, env: Any, policy: Any) -> None:
        self.env, self.policy = env, policy
        self.envstep = 0
        self.closed = False
        self.extra: list[dict[str, Any]] = []
        env.launch()

    total_episode_count = 0
    trajectory_end_idx = ()

    def collect(
        self, n_sample: int, train_iter: int = 0, policy_kwargs: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        if self.closed:
            raise ClosedError("closed")
        while len(self.extra) < n_sample:
            self.extra += self.step(dict(policy_kwargs or {}))
        rows, self.extra = self.extra[:n_sample], self.extra[n_sample:]
        return [{**row, "collect_iter": train_iter} for row in rows]

    def collect_batch(self, n_sample: int, **kwargs: Any) -> Batch:
        return Batch.from_rows(self.collect(n_sample, **kwargs))

    def step(self, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        obs = self.env.ready_obs
        output = EnvBatch.of(self.policy.forward(obs, **kwargs))
        answer = self.env.step(output)
        columns = self.policy.process_transition(obs.value, output.value, self.seen(answer.value))
        block = {key: tree_stack([column]) for key, column in columns.items()}
        block["valid"] = np.ones((1, len(answer)), np.bool_)
        samples = self.policy.get_train_sample(Batch(block, 1), Tail(None, None, None, 1)).rows()
        rows = []
        for row, env_id in enumerate(answer):
            timestep = answer[env_id]
            if timestep.done:
                self.ended(int(env_id))
            if self.keeps(timestep):
                self.count(1)
                rows.append({key: np.copy(value) for key, value in samples[row].items()})
        return rows

    def seen(self, timestep: TimestepBatch) -> TimestepBatch:
        return timestep

    def keeps(self, timestep: Any) -> bool:
        return not timestep.info.get("abnormal")

    def ended(self, env_id: int) -> None:
        self.policy.reset([env_id])

    def count(self, steps: int) -> None:
        self.envstep += steps

    def reset_env(self, env: Any = None) -> None:
        if env is not None:
            self.env = env
            self.env.launch()
        else:
            self.env.reset()
        self.extra = []

    def reset_policy(self, policy: Any = None) -> None:
        self.policy = policy or self.policy
        self.policy.reset()

    def reset(self, policy: Any = None, env: Any = None) -> None:
        self.reset_env(env)
        self.reset_policy(policy)
        self.envstep = 0

    def state_dict(self) -> dict[str, Any]:
        return {"envstep": self.envstep}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.envstep = state["envstep"]

    def close(self) -> None:
        self.closed = True
        self.env.close()


def with_extra(self: Any, n_sample: int, **kwargs: Any) -> list[dict[str, Any]]:
    rows = GoodCollector.collect(self, n_sample, **kwargs)
    rest, self.extra = self.extra, []
    return rows + rest


def other_batch(self: Any, n_sample: int, **kwargs: Any) -> Batch:
    batch = GoodCollector.collect_batch(self, n_sample, **kwargs)
    return batch[np.arange(len(batch))[::-1]]


def shows_the_reset(self: Any, timestep: TimestepBatch) -> TimestepBatch:
    timestep.obs = np.where(timestep.done[:, None], self.env.ready_obs.value, timestep.obs)
    return timestep


def forgets_which_end(self: Any, timestep: TimestepBatch) -> TimestepBatch:
    timestep.terminated = timestep.done
    return timestep


def loses_a_step(self: Any, n_sample: int, **kwargs: Any) -> list[dict[str, Any]]:
    self.step(dict(kwargs.get("policy_kwargs") or {}))
    return GoodCollector.collect(self, n_sample, **kwargs)


def counts_double(self: Any, steps: int) -> None:
    self.envstep += 2 * steps


def resets_all(self: Any, env_id: int) -> None:
    self.policy.reset([0, 1])


def unstamped(self: Any, n_sample: int, train_iter: int = 0, **kwargs: Any) -> Any:
    return GoodCollector.collect(self, n_sample, 0, **kwargs)


def sticky(self: Any, n_sample: int, train_iter: int = 0, policy_kwargs: Any = None) -> Any:
    self.kwargs = {**getattr(self, "kwargs", {}), **(policy_kwargs or {})}
    return GoodCollector.collect(self, n_sample, train_iter, self.kwargs)


def resets_envs_too(self: Any, policy: Any = None) -> None:
    GoodCollector.reset_policy(self, policy)
    self.env.reset()


def counts_on(self: Any, policy: Any = None, env: Any = None) -> None:
    self.reset_env(env)
    self.reset_policy(policy)


def keeps_the_env(self: Any, env: Any = None) -> None:
    self.env.reset()


def in_one_block(self: Any, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """Hands out rows of one block that is written again by the next step."""
    rows = GoodCollector.step(self, kwargs)
    block = self.__dict__.setdefault("block", Batch.from_rows(rows))
    for key, column in Batch.from_rows(rows).items():
        block[key][: len(column)] = column
    return block[: len(rows)].rows()


def closes_once(self: Any) -> None:
    self.env.close()
    self.env = None


FAULTS: list[Fault] = [
    ("has_the_methods", {"reset_policy": None}),
    ("returns_the_requested_number", {"collect": with_extra}),
    ("collect_and_collect_batch_agree", {"collect_batch": other_batch}),
    ("sample_fields_belong_to_one_step", {"seen": shows_the_reset}),
    ("truncated_episode_is_not_terminal", {"seen": forgets_which_end}),
    ("every_step_is_collected_once", {"collect": loses_a_step}),
    ("samples_have_collect_iter", {"collect": unstamped}),
    ("steps_are_counted", {"count": counts_double}),
    ("steps_are_counted", {"envstep": property(lambda self: sum(self.env.steps),
                                               lambda self, value: None)}),
    ("abnormal_steps_are_dropped", {"keeps": lambda self, timestep: True}),
    ("policy_kwargs_are_passed", {"collect": sticky}),
    ("policy_is_reset_at_episode_end", {"ended": resets_all}),
    ("reset_policy_replaces_the_policy", {"reset_policy": resets_envs_too}),
    ("reset_clears_all_state", {"reset": counts_on}),
    ("reset_env_replaces_the_env_manager", {"reset_env": keeps_the_env}),
    ("samples_share_no_memory", {"step": in_one_block}),
    ("state_round_trip", {"load_state_dict": lambda self, state: None}),
    ("close_is_final", {"close": closes_once}),
    ("close_is_final", {"close": lambda self: self.env.close(),
                                 "collect": lambda self, n_sample, **_: [] if self.env.closed
                                 else GoodCollector.collect(self, n_sample)}),
]  # fmt: skip
PLANTED = {CollectorContract: [check for check, _ in FAULTS]}


class TestGoodCollector(CollectorContract):
    def make(self, env_manager: Any, collect_mode: Any) -> GoodCollector:
        return GoodCollector(env_manager, collect_mode)


test_each_check_catches_its_fault = catches(CollectorContract, GoodCollector, FAULTS)
