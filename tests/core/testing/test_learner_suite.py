"""The learner contract: a good learner passes, and each check catches a planted fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.errors import HookError
from dicore.interfaces.hook import POSITIONS
from dicore.testing.learner import LearnerContract

from .faults import Fault, catches


class GoodLearner:
    """A learner as plainly as it can be written."""

    def __init__(self, policy: Any, options: Mapping[str, Any] | None = None) -> None:
        self.policy = policy
        self.train_iter = 0
        self.envstep = -1
        self.priority_info: dict[str, Any] = {}
        self.hooks: list[Any] = []
        self.limit = (options or {}).get("train_iterations", 10**9)
        self.get_data: Any = None

    @property
    def learn_info(self) -> dict[str, Any]:
        return {
            "learner_step": self.train_iter,
            "priority_info": self.priority_info,
            "learner_done": self.train_iter >= self.limit,
        }

    def train(self, data: Any, envstep: int = -1, policy_kwargs: Any = None) -> list[Any]:
        self.envstep = envstep
        self.call_hook("before_iter")
        output = self.policy.forward(data, **(policy_kwargs or {}))
        outputs = output if isinstance(output, list) else [output]
        self.note(data, outputs[-1])
        self.count(outputs)
        self.call_hook("after_iter")
        return outputs

    def count(self, outputs: list[Any]) -> None:
        self.train_iter += len(outputs)

    def note(self, data: Any, result: Any) -> None:
        self.priority_info = {}
        if "priority" in result:
            ids = {key: [row[key] for row in data] for key in data[0]}
            self.priority_info = {"priority": result["priority"], **ids}

    def start(self) -> None:
        self.call_hook("before_run")
        while self.train_iter < self.limit:
            self.train(self.get_data(self.policy.get_attribute("batch_size")))
        self.call_hook("after_run")

    def register_hook(self, hook: Any) -> None:
        if hook.position not in POSITIONS:
            raise HookError("no such position")
        self.hooks = sorted([*self.hooks, hook], key=lambda each: each.priority)

    def call_hook(self, position: str) -> None:
        if position not in POSITIONS:
            raise HookError("no such position")
        for hook in self.hooks:
            if hook.position == position:
                hook(self)

    def save_checkpoint(self, name: str | None = None) -> Path:
        path = Path(f"{name}.txt")
        path.write_text(str(self.train_iter))
        return path

    def state_dict(self) -> dict[str, Any]:
        return {"policy": self.policy.state_dict(), "train_iter": self.train_iter}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.train_iter = state["train_iter"]

    def close(self) -> None: ...


def copies_data(self: Any, data: Any, envstep: int = -1, policy_kwargs: Any = None) -> Any:
    return GoodLearner.train(self, [data], envstep, policy_kwargs)


def counts_calls(self: Any, outputs: list[Any]) -> None:
    self.train_iter += 1


def fetches(self: Any, data: Any, result: Any) -> None:
    float(result["total_loss"])


def replaces(self: Any, data: Any, envstep: int = -1, policy_kwargs: Any = None) -> Any:
    results = GoodLearner.train(self, data, envstep, policy_kwargs)
    return [{**each, "total_loss": 0.0} for each in results]


def counts_first(self: Any, data: Any, envstep: int = -1, policy_kwargs: Any = None) -> Any:
    self.train_iter += 1
    outputs = GoodLearner.train(self, data, envstep, policy_kwargs)
    self.train_iter -= 1
    return outputs


def appends(self: Any, hook: Any) -> None:
    if hook.position not in POSITIONS:
        raise HookError("no such position")
    self.hooks.append(hook)


def prepends_equal(self: Any, hook: Any) -> None:
    self.hooks = sorted([hook, *self.hooks], key=lambda each: each.priority)


def calls_all(self: Any, position: str) -> None:
    for hook in self.hooks:
        hook(self)


def any_position(self: Any, position: str) -> None:
    for hook in self.hooks:
        if hook.position == position:
            hook(self)


def swallows(self: Any, data: Any, envstep: int = -1, policy_kwargs: Any = None) -> Any:
    try:
        return GoodLearner.train(self, data, envstep, policy_kwargs)
    except ZeroDivisionError:
        self.train_iter += 1
        return []


def one_more(self: Any) -> None:
    GoodLearner.start(self)
    self.train(self.get_data(4))


def forgets_policy(self: Any, state: Mapping[str, Any]) -> None:
    self.train_iter = state["train_iter"]


def forgets_count(self: Any, state: Mapping[str, Any]) -> None:
    self.policy.load_state_dict(state["policy"])


def closes_once(self: Any) -> None:
    del self.policy


FAULTS: list[Fault] = [
    ("has_the_methods", {"save_checkpoint": None}),
    ("passes_data_to_the_learn_mode", {"train": copies_data}),
    ("counts_every_update", {"count": counts_calls}),
    ("results_stay_on_their_device", {"note": fetches}),
    ("results_stay_on_their_device", {"train": replaces}),
    ("hooks_run_around_each_iteration", {"train": counts_first}),
    ("hooks_run_by_priority", {"register_hook": appends}),
    ("hooks_run_by_priority", {"register_hook": prepends_equal}),
    ("call_hook_runs_one_position", {"call_hook": calls_all}),
    ("unknown_positions_raise", {"call_hook": any_position}),
    ("training_errors_propagate", {"train": swallows}),
    ("returns_priorities", {"note": lambda self, data, result: None}),
    ("start_trains_from_the_data_source", {"start": one_more}),
    ("state_round_trip", {"load_state_dict": forgets_policy}),
    ("state_round_trip", {"load_state_dict": forgets_count}),
    ("save_checkpoint_returns_the_path", {"save_checkpoint": lambda self, name=None: None}),
    ("close_can_be_repeated", {"close": closes_once}),
]
PLANTED = {LearnerContract: [check for check, _ in FAULTS]}


class TestGoodLearner(LearnerContract):
    def make(self, learn_mode: Any, options: Mapping[str, Any] | None = None) -> GoodLearner:
        return GoodLearner(learn_mode, options)


test_each_check_catches_its_fault = catches(LearnerContract, GoodLearner, FAULTS)
