"""The collector contract: a good collector passes, and each check catches a planted fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, TimestepBatch, tree_map, tree_row, tree_stack
from dicore.errors import ClosedError, UsageError
from dicore.interfaces.policy import Tail
from dicore.testing.collector import CollectorContract

from .faults import Fault, catches


class GoodCollector:
    """A collector as plainly as it can be written: one environment and one row after the other."""

    total_episode_count = 0
    trajectory_end_idx: Any = ()

    def __init__(self, env: Any, policy: Any) -> None:
        self.env, self.policy = env, policy
        self.envstep = 0
        self.closed = self.interrupted = False
        env.launch()
        self.forget()

    def forget(self) -> None:
        self.extra: list[dict[str, Any]] = []
        self.rows: dict[int, list[Any]] = {each: [] for each in range(self.env.env_num)}
        self.finals: dict[int, Any] = {}
        self.acted: dict[int, Any] = {}
        self.left: dict[int, int] = {}
        self.partial, self.interrupted = False, False

    def fact(self, name: str, default: Any) -> Any:
        try:
            return self.policy.get_attribute(name)
        except AttributeError:
            return default

    def collect(self, n_sample: int | None = None, **options: Any) -> list[dict[str, Any]]:
        return self.collect_batch(n_sample=n_sample, **options).rows()

    def collect_batch(
        self,
        *,
        n_sample: int | None = None,
        n_episode: int | None = None,
        train_iter: int = 0,
        policy_kwargs: Mapping[str, Any] | None = None,
        should_stop: Any = None,
        reuse: bool = False,
    ) -> Batch:
        if self.closed:
            raise ClosedError("closed")
        self.check(n_sample, n_episode)
        whole = n_episode is not None
        if not self.interrupted:
            self.begin(n_episode)
        steps = 0
        while any(self.left.values()) if whole else len(self.extra) < (n_sample or 0):
            self.interrupted = should_stop is not None and should_stop()
            if self.interrupted:
                return Batch({}, 0)
            before = len(self.extra)
            self.step(dict(policy_kwargs or {}), whole)
            steps = 0 if len(self.extra) > before else steps + 1
            if steps > 100:
                raise UsageError(f"{self.named()} makes no samples for {type(self).__name__}")
        size = len(self.extra) if whole else n_sample
        taken, self.extra = self.extra[:size], self.extra[size:]
        data = Batch.from_rows([self.stamped(row, train_iter) for row in taken])
        last = {int(env_id): row for row, env_id in enumerate(data["env_id"])}
        self.trajectory_end_idx = sorted({*np.flatnonzero(data["end"]).tolist(), *last.values()})
        return data

    def named(self) -> str:
        return type(self.policy.reset.__closure__[0].cell_contents).__name__

    def check(self, n_sample: Any, n_episode: Any) -> None:
        given = n_episode if n_sample is None else n_sample
        if (n_sample is None) == (n_episode is None) or given < 1:
            raise UsageError("one number, at least 1")

    def stamped(self, row: dict[str, Any], train_iter: int) -> dict[str, Any]:
        return {**row, "collect_iter": train_iter}

    def begin(self, n_episode: int | None) -> None:
        if self.fact("on_policy", False):
            self.forget_rows()
        if n_episode is not None and self.partial:
            self.env.reset()
            self.forget()
        self.partial = n_episode is None
        if n_episode is not None:
            envs = self.env.env_num
            self.left = {each: (n_episode + envs - 1 - each) // envs for each in range(envs)}

    def forget_rows(self) -> None:
        self.rows = {each: [] for each in self.rows}
        self.extra, self.acted = [], {}

    def step(self, kwargs: dict[str, Any], whole: bool) -> None:
        ready = self.env.ready_obs
        ids = [int(each) for each in ready if not whole or self.left[int(each)]]
        output = {}
        if ids:
            obs = EnvBatch.stack({each: ready[each] for each in ids})
            output = dict(EnvBatch.of(self.policy.forward(obs, **kwargs)))
            self.acted |= {each: self.kept(ready[each], output[each]) for each in ids}
        answer = self.env.step(output)
        for row, env_id in enumerate(answer):
            timestep = answer.value
            one = TimestepBatch(
                tree_row(timestep.obs, [row]), timestep.reward[[row]], timestep.terminated[[row]],
                timestep.truncated[[row]], [timestep.info[row]],
            )  # fmt: skip
            self.answered(int(env_id), self.seen(one), whole)

    def kept(self, obs: Any, output: Any) -> Any:
        return tree_map(lambda leaf: np.array(leaf)[None], (obs, dict(output)))

    def answered(self, env_id: int, step: TimestepBatch, whole: bool) -> None:
        if env_id not in self.acted:
            return
        obs, output = self.acted.pop(env_id)
        columns = self.policy.process_transition(obs, output, step)
        columns |= {"end": step.done, "env_id": np.array([env_id])}
        self.count(1)
        rows = self.rows[env_id]
        rows.append((columns, step.obs))
        if step.done[0]:
            self.ended(env_id)
        if not self.keeps(step):
            self.dropped(env_id)
        elif whole:
            if step.done[0]:
                self.left[env_id] -= 1
                self.samples(env_id, len(rows), len(rows))
        else:
            self.windows(env_id, step)

    def dropped(self, env_id: int) -> None:
        for columns, _ in self.rows[env_id]:
            if not columns["end"][0]:
                self.count(-1)
        self.count(-1)
        self.rows[env_id].clear()

    def windows(self, env_id: int, step: TimestepBatch) -> None:
        length, stride = self.fact("sample_len", 1), self.fact("sample_stride", 1)
        if length == "episode":
            if step.done[0]:
                self.samples(env_id, len(self.rows[env_id]), len(self.rows[env_id]))
        elif len(self.rows[env_id]) >= length:
            self.samples(env_id, length, stride)

    def samples(self, env_id: int, length: int, starts: int) -> None:
        rows = self.rows[env_id]
        block = {key: tree_stack([columns[key] for columns, _ in rows[:length]])
                 for key in rows[0][0]}  # fmt: skip
        block["valid"] = np.ones((length, 1), np.bool_)
        ends = [t for t, (columns, _) in enumerate(rows[:length]) if columns["end"][0]]
        finals = [tree_row(rows[t][1], 0) for t in ends] or [tree_row(rows[0][1], 0)]
        final = tree_row(tree_stack(finals), slice(0, len(ends)))
        tail = Tail(self.after(rows[length - 1]), np.array(ends, np.int64), final, starts)
        made = self.policy.get_train_sample(Batch(block, length), tail)
        self.extra += [tree_map(np.copy, row) for row in made.rows()]
        del rows[:starts]

    def after(self, row: Any) -> Any:
        return row[1]

    def seen(self, timestep: TimestepBatch) -> TimestepBatch:
        return timestep

    def keeps(self, timestep: Any) -> bool:
        return not timestep.info[0].get("abnormal")

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
        self.forget()

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
    return [*rows, *rest, rows[0]]


def backwards(self: Any, n_sample: int, **kwargs: Any) -> list[dict[str, Any]]:
    return GoodCollector.collect(self, n_sample, **kwargs)[::-1]


def shows_the_reset(self: Any, timestep: TimestepBatch) -> TimestepBatch:
    env_id = int(timestep.obs[0, 0]) if isinstance(timestep.obs, np.ndarray) else 0
    if timestep.done[0]:
        timestep.obs = self.env.ready_obs[env_id][None]
    return timestep


def forgets_which_end(self: Any, timestep: TimestepBatch) -> TimestepBatch:
    timestep.terminated = timestep.done
    return timestep


def loses_a_step(self: Any, n_sample: int, **kwargs: Any) -> list[dict[str, Any]]:
    rows = GoodCollector.collect(self, n_sample, **kwargs)
    self.step({}, whole=False)
    self.extra.clear()
    return rows


def counts_double(self: Any, steps: int) -> None:
    self.envstep += 2 * steps


def resets_all(self: Any, env_id: int) -> None:
    self.policy.reset([0, 1])


def sticky(self: Any, kwargs: dict[str, Any], whole: bool) -> None:
    self.kwargs = {**getattr(self, "kwargs", {}), **kwargs}
    GoodCollector.step(self, self.kwargs, whole)


def resets_envs_too(self: Any, policy: Any = None) -> None:
    GoodCollector.reset_policy(self, policy)
    self.env.reset()


def counts_on(self: Any, policy: Any = None, env: Any = None) -> None:
    self.reset_env(env)
    self.reset_policy(policy)


def keeps_the_env(self: Any, env: Any = None) -> None:
    self.env.reset()


def in_one_block(self: Any, n_sample: int, **kwargs: Any) -> list[dict[str, Any]]:
    """Hands out rows of one block that is written again by the next call."""
    found = GoodCollector.collect_batch(self, n_sample=n_sample, **kwargs)
    block = self.__dict__.setdefault("block", found)
    for key, column in found.items():
        block[key][: len(column)] = column
    return block[: len(found)].rows()


def first_wins(self: Any, n_sample: Any, n_episode: Any) -> None:
    if (n_sample or n_episode) is None:
        raise UsageError("no number")


def any_episodes(self: Any, n_episode: int | None) -> None:
    GoodCollector.begin(self, n_episode)
    if n_episode is not None:
        self.left = {**dict.fromkeys(self.rows, 0), 0: n_episode}


def goes_on_within_episodes(self: Any, n_episode: int | None) -> None:
    self.partial = False
    GoodCollector.begin(self, n_episode)


def marks_nothing(self: Any, row: dict[str, Any], train_iter: int) -> dict[str, Any]:
    return {**row, "end": np.zeros_like(row["end"]), "collect_iter": train_iter}


def steps_only(self: Any, env_id: int, step: TimestepBatch) -> None:
    self.samples(env_id, len(self.rows[env_id]), len(self.rows[env_id]))


def stride_of_one(self: Any, env_id: int, step: TimestepBatch) -> None:
    length = self.fact("sample_len", 1)
    if len(self.rows[env_id]) >= length:
        self.samples(env_id, length, 1)


def at_least(self: Any, env_id: int, length: int, starts: int) -> None:
    """Takes each step for a sample."""
    before = len(self.extra)
    GoodCollector.samples(self, env_id, length, starts)
    del self.extra[before + starts :]


def leaves_rows(self: Any, env_id: int) -> None:
    self.rows[env_id].pop()


def never_stops(self: Any, **kwargs: Any) -> Batch:
    kwargs.pop("should_stop", None)
    return GoodCollector.collect_batch(self, **kwargs)


def begins_anew(self: Any, **kwargs: Any) -> Batch:
    data = GoodCollector.collect_batch(self, **kwargs)
    if not len(data):
        self.forget()
    return data


def stale_memory(self: Any, **kwargs: Any) -> Batch:
    data = GoodCollector.collect_batch(self, **kwargs)
    if kwargs.get("reuse"):
        data["reward"][0] = 77
    return data


def forgets_who_acted(self: Any, kwargs: dict[str, Any], whole: bool) -> None:
    GoodCollector.step(self, kwargs, whole)
    self.acted.clear()


def keeps_rows(self: Any) -> None:
    self.extra = []


def keeps_actions(self: Any) -> None:
    self.rows = {each: [] for each in self.rows}
    self.extra = []


def as_floats(self: Any, row: dict[str, Any], train_iter: int) -> dict[str, Any]:
    floats = tree_map(lambda leaf: np.asarray(leaf, np.float32), row["obs"])
    return {**row, "obs": floats, "collect_iter": train_iter}


def mean_reward(self: Any, timestep: TimestepBatch) -> TimestepBatch:
    timestep.reward = timestep.reward.reshape(1, -1).mean(1)
    return timestep


def last_for_next(self: Any, row: Any) -> Any:
    return row[0]["obs"]


def closes_once(self: Any) -> None:
    self.env.close()
    self.env = None


def arrays_only(self: Any, kwargs: dict[str, Any], whole: bool) -> None:
    if not isinstance(self.env.ready_obs.value, np.ndarray):
        raise TypeError("no array")
    GoodCollector.step(self, kwargs, whole)


FAULTS: list[Fault] = [
    ("has_the_methods", {"reset_policy": None}),
    ("returns_the_requested_number", {"collect": with_extra}),
    ("collect_and_collect_batch_agree", {"collect": backwards}),
    ("sample_fields_belong_to_one_step", {"seen": shows_the_reset}),
    ("truncated_episode_is_not_terminal", {"seen": forgets_which_end}),
    ("every_step_is_collected_once", {"collect": loses_a_step}),
    ("added_columns_are_those_of_the_table", {"stamped": lambda self, row, train_iter:
                                              {**row, "collect_iter": float(train_iter)}}),
    ("samples_have_collect_iter", {"stamped": lambda self, row, train_iter:
                                   {**row, "collect_iter": 0}}),
    ("steps_are_counted", {"count": counts_double}),
    ("steps_are_counted", {"envstep": property(lambda self: sum(self.env.steps),
                                               lambda self, value: None)}),
    ("abnormal_steps_are_dropped", {"keeps": lambda self, timestep: True}),
    ("policy_kwargs_are_passed", {"step": sticky}),
    ("array_like_observations", {"step": arrays_only}),
    ("policy_is_reset_at_episode_end", {"ended": resets_all}),
    ("reset_policy_replaces_the_policy", {"reset_policy": resets_envs_too}),
    ("reset_clears_all_state", {"reset": counts_on}),
    ("reset_env_replaces_the_env_manager", {"reset_env": keeps_the_env}),
    ("samples_share_no_memory", {"collect": in_one_block}),
    ("state_round_trip", {"load_state_dict": lambda self, state: None}),
    ("close_is_final", {"close": closes_once}),
    ("close_is_final", {"close": lambda self: self.env.close(),
                                 "collect": lambda self, n_sample, **_: [] if self.env.closed
                                 else GoodCollector.collect(self, n_sample)}),
    ("number_is_by_keyword", {"check": first_wins}),
    ("number_is_by_keyword", {"collect_batch": lambda self, n_sample=None, **more:
                              GoodCollector.collect_batch(self, n_sample=n_sample, **more)}),
    ("collects_whole_episodes", {"begin": any_episodes}),
    ("collects_whole_episodes", {"stamped": marks_nothing}),
    ("an_interrupted_call_goes_on", {"collect_batch": never_stops}),
    ("an_interrupted_call_goes_on", {"collect_batch": begins_anew}),
    ("ends_and_env_ids_are_told", {"stamped": marks_nothing}),
    ("ends_and_env_ids_are_told", {"trajectory_end_idx": property(lambda self: [],
                                                                  lambda self, value: None)}),
    ("windows_follow_each_other", {"windows": steps_only}),
    ("windows_follow_each_other", {"windows": stride_of_one}),
    ("episodes_as_samples", {"windows": lambda self, env_id, step:
                             self.samples(env_id, 1, 1)}),
    ("counts_what_the_policy_returns", {"samples": at_least}),
    ("policy_without_samples_is_named", {"named": lambda self: "it"}),
    ("windows_span_no_abnormal_step", {"dropped": leaves_rows}),
    ("reused_memory_holds_the_samples", {"collect_batch": stale_memory}),
    ("slow_environments_lose_nothing", {"step": forgets_who_acted}),
    ("on_policy_samples_are_new", {"forget_rows": keeps_rows}),
    ("on_policy_samples_are_new", {"forget_rows": keeps_actions}),
    ("keeps_shapes_and_dtypes", {"stamped": as_floats}),
    ("keeps_shapes_and_dtypes", {"seen": mean_reward}),
    ("tail_completes_the_block", {"after": last_for_next}),
]  # fmt: skip
PLANTED = {CollectorContract: [check for check, _ in FAULTS]}


class TestGoodCollector(CollectorContract):
    def make(self, env_manager: Any, collect_mode: Any) -> GoodCollector:
        return GoodCollector(env_manager, collect_mode)


test_each_check_catches_its_fault = catches(CollectorContract, GoodCollector, FAULTS)
