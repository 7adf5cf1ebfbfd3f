"""The policy contract: a good policy passes, and each check catches a planted fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dicore.data import Batch, EnvBatch, TimestepBatch, tree_row
from dicore.errors import ModeError
from dicore.interfaces.policy import CollectMode, CommandMode, EvalMode, LearnMode, Tail
from dicore.run.random import seed_everything, stream
from dicore.testing.compare import array
from dicore.testing.policy import PolicyContract

from .faults import Fault, broken, catches


class GoodPolicy:
    """Linear Q-learning of three actions, as plainly as it can be written."""

    facts: Mapping[str, Any] = {
        "cfg": {}, "n_sample": 8, "on_policy": False, "batch_size": 4, "device": "cpu",
        "priority": False,
    }  # fmt: skip

    def __init__(self, enable_field: Sequence[str] | None = None) -> None:
        self.enabled = tuple(enable_field or ("learn", "collect", "eval"))
        self.weight = stream("model").standard_normal((4, 3)).astype(np.float32)
        self.momentum = np.zeros_like(self.weight)
        self.rng = stream("policy")
        self.values = dict(self.facts)
        self.modes = {name: make() for name, make in (
            ("learn", self.make_learn), ("collect", self.make_collect), ("eval", self.make_eval)
        )}  # fmt: skip

    def common(self) -> tuple[Any, ...]:
        return self.reset, self.get_attribute, self.set_attribute

    def make_learn(self) -> Any:
        reset, get, put = self.common()
        return LearnMode(
            self.learn, reset, self.info, lambda: ["total_loss"], get, put,
            self.learn_state, self.load_learn_state,
        )  # fmt: skip

    def make_collect(self) -> Any:
        return CollectMode(
            self.collect, self.process_transition, self.get_train_sample, *self.common(),
            self.model_state, self.load_model_state,
        )  # fmt: skip

    def make_eval(self) -> Any:
        return EvalMode(self.evaluate, *self.common(), self.model_state, self.load_model_state)

    def mode(self, name: str) -> Any:
        if name not in self.enabled:
            raise ModeError(f"no {name}")
        return self.modes[name]

    @property
    def learn_mode(self) -> Any:
        return self.mode("learn")

    @property
    def collect_mode(self) -> Any:
        return self.mode("collect")

    @property
    def eval_mode(self) -> Any:
        return self.mode("eval")

    @property
    def command_mode(self) -> Any:
        return CommandMode(*[lambda info: {}] * 3)

    # ---- acting

    def collect(self, obs: Mapping[int, Any], eps: float = 0.5, **_: Any) -> Any:
        batch = EnvBatch.of(obs)
        action = (batch.value @ self.weight).argmax(1)
        chance = self.rng.random(len(batch)) < eps
        action[chance] = self.rng.integers(0, 3, int(chance.sum()))
        return self.answer(batch, action)

    def evaluate(self, obs: Mapping[int, Any]) -> Any:
        batch = EnvBatch.of(obs)
        return self.answer(batch, (batch.value @ self.weight).argmax(1))

    def answer(self, batch: EnvBatch[Any], action: Any) -> Any:
        return batch.with_value({"action": action})

    def process_transition(self, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
        return {
            "obs": obs, "action": output["action"], "reward": timestep.reward,
            "next_obs": timestep.obs, "done": timestep.terminated,
        }  # fmt: skip

    def get_train_sample(self, block: Batch, tail: Tail) -> Any:
        flat = {key: column.reshape(-1, *column.shape[2:]) for key, column in block.items()}
        return Batch(flat)[np.flatnonzero(flat.pop("valid"))]

    # ---- learning

    def learn(self, data: Any, **_: Any) -> Any:
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        rows = np.arange(len(batch))
        alive = 1.0 - batch["done"]
        target = batch["reward"] + 0.9 * alive * (batch["next_obs"] @ self.weight).max(1)
        error = (batch["obs"] @ self.weight)[rows, batch["action"]] - target.astype(np.float32)
        gradient = np.zeros_like(self.weight)
        np.add.at(gradient.T, batch["action"], error[:, None] * batch["obs"])
        self.update(gradient / len(batch))
        return self.result(np.float32((error**2).mean()), np.abs(error))

    def update(self, gradient: Any) -> None:
        if np.isfinite(gradient).all():
            self.momentum[:] = 0.9 * self.momentum + gradient
            self.weight -= np.float32(0.1) * self.momentum

    def result(self, loss: Any, priority: Any) -> dict[str, Any]:
        return {"total_loss": loss, "priority": priority.astype(np.float32)}

    def model_state(self) -> dict[str, Any]:
        return {"weight": self.weight}

    def load_model_state(self, state: Mapping[str, Any]) -> None:
        self.weight[:] = state["weight"]

    def learn_state(self) -> dict[str, Any]:
        return {"weight": self.weight, "momentum": self.momentum}

    def load_learn_state(self, state: Mapping[str, Any]) -> None:
        self.weight[:], self.momentum[:] = state["weight"], state["momentum"]

    # ---- the rest

    def reset(self, data_id: Sequence[int] | None = None) -> None: ...

    def get_attribute(self, name: str) -> Any:
        if name == "model":
            return self.weight
        if name not in self.values:
            raise AttributeError(name)
        return self.values[name]

    def set_attribute(self, name: str, value: Any) -> None:
        self.get_attribute(name)
        self.values[name] = value

    def info(self) -> str:
        return "linear Q-learning"


class Attached(np.ndarray[Any, Any]):
    """An array that says that it belongs to a graph."""

    requires_grad = True


class OpenMode:
    """A mode that anybody can change, and that has no fields."""

    def __init__(self, mode: Any) -> None:
        self.__dict__.update(mode._asdict())


def open_mode(self: Any, name: str) -> Any:
    return OpenMode(GoodPolicy.mode(self, name))


class Half(NamedTuple):
    forward: Any


def half_mode(self: Any) -> Any:
    return Half(self.evaluate)


def by_position(self: Any, batch: EnvBatch[Any], action: Any) -> Any:
    return EnvBatch(np.arange(len(batch)), {"action": action})


def needs_stacked(self: Any, obs: Any) -> Any:
    return GoodPolicy.answer(self, obs, (obs.value @ self.weight).argmax(1))


def attached(self: Any, batch: EnvBatch[Any], action: Any) -> Any:
    return batch.with_value({"action": action.view(Attached)})


def normalises(self: Any, obs: Any) -> Any:
    batch = EnvBatch.of(obs)
    batch.value -= batch.value.mean()
    return GoodPolicy.evaluate(self, batch)


def explores(self: Any, obs: Any) -> Any:
    return self.collect(obs)


def draws_idly(self: Any, obs: Any) -> Any:
    self.rng.random()
    return GoodPolicy.evaluate(self, obs)


def one_row(self: Any, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
    columns = GoodPolicy.process_transition(self, obs, output, timestep)
    return {**columns, "reward": timestep.reward.mean()}


def ends(self: Any, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
    columns = GoodPolicy.process_transition(self, obs, output, timestep)
    return {**columns, "done": timestep.done}


def counted_done(self: Any, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
    columns = GoodPolicy.process_transition(self, obs, output, timestep)
    return {**columns, "done": timestep.terminated.astype(np.int64)}


def as_list(self: Any, block: Batch, tail: Tail) -> Any:
    return GoodPolicy.get_train_sample(self, block, tail).rows()


def invalid_too(self: Any, block: Batch, tail: Tail) -> Any:
    block["valid"][:] = True
    return GoodPolicy.get_train_sample(self, block, tail)


def idle(self: Any, gradient: Any) -> None: ...


def copied_model(self: Any) -> dict[str, Any]:
    return {"weight": self.__dict__.setdefault("copy", self.weight.copy())}


def with_graph(self: Any, loss: Any, priority: Any) -> Any:
    return {"total_loss": np.asarray(loss).view(Attached), "priority": priority}


def first_row(self: Any, data: Any, **kwargs: Any) -> Any:
    return GoodPolicy.learn(self, data if isinstance(data, Batch) else data[:1], **kwargs)


def clips_rewards(self: Any, data: Any, **kwargs: Any) -> Any:
    if isinstance(data, Batch):
        data["reward"][:] = np.clip(data["reward"], -0.5, 0.5)
    return GoodPolicy.learn(self, data, **kwargs)


def shuffles(self: Any, data: Any, **kwargs: Any) -> Any:
    result = GoodPolicy.learn(self, data, **kwargs)
    self.weight += np.random.default_rng().normal(0, 1e-3, (4, 3)).astype(np.float32)
    return result


def without_momentum(self: Any, state: Mapping[str, Any]) -> None:
    self.weight[:] = state["weight"]


def hides_momentum(self: Any) -> dict[str, Any]:
    return self.model_state()


def learns_anything(self: Any, gradient: Any) -> None:
    self.weight -= np.float32(0.1) * gradient


FAULTS: list[Fault] = [
    ("modes_are_immutable_tuples", {"mode": open_mode}),
    ("modes_are_immutable_tuples", {"make_collect": half_mode}),
    ("disabled_modes_raise", {"mode": lambda self, name: self.modes[name]}),
    ("get_attribute_has_the_usual_names", {"facts": {"cfg": {}}}),
    ("get_attribute_has_the_usual_names", {"get_attribute": lambda self, name: None}),
    ("reset_accepts_ids", {"reset": lambda self: None}),
    ("actions_have_the_env_ids", {"answer": by_position}),
    ("accepts_plain_dicts", {"evaluate": needs_stacked}),
    ("actions_are_legal", {"answer": lambda self, batch, action:
                           batch.with_value({"action": action + 1})}),
    ("actions_are_legal", {"answer": lambda self, batch, action:
                           batch.with_value({"action": action.astype(np.float32)})}),
    ("acting_results_are_detached", {"answer": attached}),
    ("acting_does_not_change_its_input", {"evaluate": normalises}),
    ("eval_is_deterministic", {"evaluate": explores}),
    ("eval_uses_no_random_numbers", {"evaluate": draws_idly}),
    ("transitions_are_columns", {"process_transition": one_row}),
    ("columns_are_as_declared", {"process_transition": counted_done}),
    ("truncation_is_not_terminal", {"process_transition": ends}),
    ("get_train_sample_returns_samples", {"get_train_sample": as_list}),
    ("invalid_rows_give_no_samples", {"get_train_sample": invalid_too}),
    ("learning_changes_the_shared_model", {"update": idle}),
    ("learning_changes_the_shared_model", {"model_state": copied_model}),
    ("results_are_named_and_detached", {"result": with_graph}),
    ("results_are_named_and_detached", {"result": lambda self, loss, priority: {"loss": loss}}),
    ("priorities_are_one_per_sample", {"result": lambda self, loss, priority:
                                    {"total_loss": loss, "priority": priority[:1]}}),
    ("priorities_are_one_per_sample", {"result": lambda self, loss, priority:
                                    {"total_loss": loss, "priority": -priority}}),
    ("list_and_batch_learn_equally", {"learn": first_row}),
    ("learning_does_not_change_its_input", {"learn": clips_rewards}),
    ("same_seed_same_learning", {"learn": shuffles}),
    ("learning_continues_from_its_state", {"load_learn_state": without_momentum}),
    ("learning_continues_from_its_state", {"learn_state": hides_momentum,
                                         "load_learn_state": without_momentum}),
    ("eval_policy_loads_the_trained_state", {"load_model_state": lambda self, state: None}),
    ("nan_loss_changes_nothing", {"update": learns_anything}),
    ("info_returns_a_text", {"info": lambda self: ""}),
]  # fmt: skip
PLANTED = {PolicyContract: [check for check, _ in FAULTS]}


class TestGoodPolicy(PolicyContract):
    def spaces(self) -> Any:
        return spaces()

    def make(self, enable_field: Sequence[str] | None = None) -> GoodPolicy:
        seed_everything(0)
        return GoodPolicy(enable_field)


class TestOneThatDoesNotLearn(TestGoodPolicy):
    """A policy without a learn mode skips what is about learning, and nothing else."""

    def make(self, enable_field: Sequence[str] | None = None) -> GoodPolicy:
        seed_everything(0)
        return GoodPolicy(enable_field or ("collect", "eval"))


def spaces() -> Any:
    from gymnasium.spaces import Box, Discrete

    return Box(-1.0, 1.0, (4,), np.float32), Discrete(3)


class Contract(PolicyContract):
    def spaces(self) -> Any:
        return spaces()


def maker(cls: type[Any]) -> Any:
    def make(self: Any, enable_field: Sequence[str] | None = None) -> Any:
        seed_everything(0)
        return cls(enable_field)

    return make


test_each_check_catches_its_fault = catches(Contract, GoodPolicy, FAULTS, maker)


def test_the_good_policy_learns() -> None:
    """The reference is worth its name: its error falls."""
    policy = broken(GoodPolicy, {})()
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(64, 4)).astype(np.float32)
    data = Batch({"obs": obs, "action": rng.integers(0, 3, 64), "reward": obs[:, 0],
                  "next_obs": obs, "done": np.ones(64, np.float32)})  # fmt: skip
    losses = [float(array(policy.learn_mode.forward(data)["total_loss"])) for _ in range(50)]
    assert losses[-1] < losses[0] / 2
    assert tree_row(data.columns, 0)["done"] == 1
