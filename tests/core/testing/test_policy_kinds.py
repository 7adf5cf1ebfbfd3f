"""The policy contract on other kinds of algorithms: on-policy, continuous, recurrent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from dicore.data import Batch, EnvBatch, TimestepBatch
from dicore.errors import ContractError
from dicore.interfaces.policy import Tail
from dicore.run.random import seed_everything, stream
from dicore.testing.compare import copied
from dicore.testing.policy import PolicyContract
from dicore.testing.policy.spaces import draw, expect_legal, pairs
from dicore.testing.suite import Suite

from .faults import Fault, broken, catches, error_of
from .test_policy_suite import GoodPolicy

VECTOR = Box(-1.0, 1.0, (4,), np.float32)
GAMMA, LAMBDA = np.float32(0.9), np.float32(0.8)


def softmax(logit: Any) -> Any:
    exp = np.exp(logit - logit.max(1, keepdims=True))
    return exp / exp.sum(1, keepdims=True)


def flat(block: Batch, more: Mapping[str, Any]) -> Batch:
    columns = {**block.columns, **more}
    valid = columns.pop("valid").reshape(-1)
    made = {key: each.reshape(-1, *each.shape[2:]) for key, each in columns.items()}
    return Batch(made)[np.flatnonzero(valid)]


class Learner(GoodPolicy):
    """A policy with several parameters, which one function updates with momentum."""

    def __init__(self, enable_field: Sequence[str] | None = None) -> None:
        super().__init__(enable_field)
        self.noise = self.learn_noise()
        self.parameters = self.made()
        self.moments = {key: np.zeros_like(each) for key, each in self.parameters.items()}

    def learn_noise(self) -> np.random.Generator:
        return stream("policy/learn")

    def made(self) -> dict[str, Any]:
        raise NotImplementedError

    def drawn(self, *shape: int) -> Any:
        return stream("model").normal(0, 0.5, shape).astype(np.float32)

    def change(self, gradients: Mapping[str, Any]) -> None:
        if not all(np.isfinite(each).all() for each in gradients.values()):
            return
        for key, each in gradients.items():
            self.moments[key][...] = 0.9 * self.moments[key] + each
            self.parameters[key] -= np.float32(0.05) * self.moments[key]

    def model_state(self) -> dict[str, Any]:
        return dict(self.parameters)

    def load_model_state(self, state: Mapping[str, Any]) -> None:
        for key, each in self.parameters.items():
            each[...] = state[key]

    def learn_state(self) -> dict[str, Any]:
        return {"model": self.model_state(), "moments": dict(self.moments)}

    def load_learn_state(self, state: Mapping[str, Any]) -> None:
        self.load_model_state(state["model"])
        for key, each in self.moments.items():
            each[...] = state["moments"][key]


class OnPolicy(Learner):
    """PPO with a linear model: GAE from the tail, epochs of shuffled minibatches."""

    facts: Mapping[str, Any] = {**GoodPolicy.facts, "on_policy": True}

    def made(self) -> dict[str, Any]:
        return {"actor": self.drawn(4, 3), "critic": self.drawn(4)}

    def collect(self, obs: Mapping[int, Any], **_: Any) -> Any:
        batch = EnvBatch.of(obs)
        chance = softmax(batch.value @ self.parameters["actor"])
        drawn = self.rng.random((len(batch), 1))
        action = np.minimum((chance.cumsum(1) < drawn).sum(1), 2)
        logp = np.log(chance[np.arange(len(batch)), action])
        value = batch.value @ self.parameters["critic"]
        return batch.with_value({"action": action, "logp": logp, "value": value})

    def evaluate(self, obs: Mapping[int, Any]) -> Any:
        batch = EnvBatch.of(obs)
        return batch.with_value({"action": (batch.value @ self.parameters["actor"]).argmax(1)})

    def process_transition(self, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
        return {"obs": obs, **output, "reward": timestep.reward, "done": timestep.terminated}

    def get_train_sample(self, block: Batch, tail: Tail) -> Any:
        value, going = block["value"], ~block["end"]
        after = np.empty_like(value)
        after[:-1], after[-1] = value[1:], tail.obs @ self.parameters["critic"]
        if len(tail.final_index):
            after.reshape(-1)[tail.final_index] = tail.final_obs @ self.parameters["critic"]
        delta = block["reward"] + GAMMA * after * ~block["done"] - value
        gain = self.advantages(delta, going)
        return flat(block, {"gain": gain, "wanted": gain + value})

    def advantages(self, delta: Any, going: Any) -> Any:
        gain, running = np.zeros_like(delta), np.zeros_like(delta[0])
        for t in reversed(range(len(delta))):
            running = delta[t] + GAMMA * LAMBDA * running * going[t]
            gain[t] = running
        return gain

    def learn(self, data: Any, **_: Any) -> Any:
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        orders = [self.noise.permutation(len(batch)) for _epoch in range(2)]
        rows = [each for order in orders for each in np.array_split(order, 2)]
        return [self.one_update(batch[each]) for each in rows]

    def one_update(self, batch: Batch) -> dict[str, Any]:
        obs, gain = batch["obs"], batch["gain"]
        chance = softmax(obs @ self.parameters["actor"])
        chosen = np.eye(3, dtype=np.float32)[batch["action"]]
        ratio = (chance * chosen).sum(1) / np.exp(batch["logp"])
        free = np.where(gain > 0, ratio < 1.2, ratio > 0.8)
        error = obs @ self.parameters["critic"] - batch["wanted"]
        weight = (ratio * gain * free)[:, None]
        self.change({"actor": -obs.T @ (weight * (chosen - chance)) / len(batch),
                     "critic": obs.T @ error / len(batch)})  # fmt: skip
        loss = np.float32((error**2).mean() - (ratio * gain).mean())
        return {"total_loss": loss, "value_loss": np.float32((error**2).mean())}


LOW, HIGH = np.array([-2, 0], np.float32), np.array([2, 1], np.float32)


class Continuous(Learner):
    """An actor-critic with squashed Gaussian actions, whose targets sample actions (like SAC)."""

    def made(self) -> dict[str, Any]:
        critic = self.drawn(9)
        return {"actor": self.drawn(4, 2), "critic": critic, "target": critic.copy()}

    def squashed(self, obs: Any, noise: Any) -> Any:
        return np.tanh(obs @ self.parameters["actor"] + noise)

    def scaled(self, action: Any) -> Any:
        return (LOW + (action + 1) / 2 * (HIGH - LOW)).astype(np.float32)

    def collect(self, obs: Mapping[int, Any], **_: Any) -> Any:
        batch = EnvBatch.of(obs)
        noise = self.rng.normal(0, 0.3, (len(batch), 2))
        return batch.with_value({"action": self.scaled(self.squashed(batch.value, noise))})

    def evaluate(self, obs: Mapping[int, Any]) -> Any:
        batch = EnvBatch.of(obs)
        return batch.with_value({"action": self.scaled(self.squashed(batch.value, 0))})

    def features(self, obs: Any, action: Any) -> Any:
        ones = np.ones((len(obs), 1), np.float32)
        return np.concatenate([obs, action, action**2, ones], 1).astype(np.float32)

    def learn(self, data: Any, **_: Any) -> Any:
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        obs, after, made = batch["obs"], batch["next_obs"], self.parameters
        noise = self.noise.normal(0, 0.3, (2, len(batch), 2))
        bootstrap = self.features(after, self.squashed(after, noise[0])) @ made["target"]
        wanted = batch["reward"] + GAMMA * (1 - batch["done"]) * bootstrap
        seen = self.features(obs, (batch["action"] - LOW) / (HIGH - LOW) * 2 - 1)
        error = (seen @ made["critic"] - wanted).astype(np.float32)
        action = self.squashed(obs, noise[1])
        slope = (made["critic"][4:6] + 2 * made["critic"][6:8] * action) * (1 - action**2)
        lag = made["target"] - made["critic"]
        self.change({"critic": seen.T @ error / len(batch), "target": lag,
                     "actor": -(obs.T @ slope).astype(np.float32) / len(batch)})  # fmt: skip
        return {"total_loss": np.float32((error**2).mean()), "priority": np.abs(error)}


class Recurrent(Learner):
    """Q-learning of sequences with a hidden state, which goes on from env step to env step."""

    facts: Mapping[str, Any] = {**GoodPolicy.facts, "sample_len": 4, "sample_stride": 3}

    def made(self) -> dict[str, Any]:
        self.hidden: dict[str, dict[int, Any]] = {"collect": {}, "eval": {}}
        return {"input": self.drawn(4, 5), "kept": self.drawn(5, 5), "q": self.drawn(5, 3)}

    def step(self, obs: Any, hidden: Any) -> Any:
        return np.tanh(obs @ self.parameters["input"] + hidden @ self.parameters["kept"])

    def remember(self, name: str, batch: EnvBatch[Any]) -> tuple[Any, Any]:
        kept, ids = self.hidden[name], self.places(batch)
        before = np.stack([kept.get(each, np.zeros(5, np.float32)) for each in ids])
        after = self.step(batch.value, before)
        kept.update(zip(ids, after, strict=True))
        return before, after

    def places(self, batch: EnvBatch[Any]) -> list[int]:
        return [int(each) for each in batch.env_id]

    def collect(self, obs: Mapping[int, Any], **_: Any) -> Any:
        batch = EnvBatch.of(obs)
        before, after = self.remember("collect", batch)
        action = (after @ self.parameters["q"]).argmax(1)
        chance = self.rng.random(len(batch)) < 0.3
        action[chance] = self.rng.integers(0, 3, len(batch))[chance]
        return batch.with_value({"action": action, "hidden": before})

    def evaluate(self, obs: Mapping[int, Any]) -> Any:
        batch = EnvBatch.of(obs)
        q = self.remember("eval", batch)[1] @ self.parameters["q"]
        return batch.with_value({"action": q.argmax(1), "logit": q})

    def reset(self, data_id: Sequence[int] | None = None) -> None:
        for kept in self.hidden.values():
            for each in list(kept) if data_id is None else data_id:
                kept.pop(int(each), None)

    def process_transition(self, obs: Any, output: Any, timestep: TimestepBatch) -> dict[str, Any]:
        return {"obs": obs, **output, "reward": timestep.reward, "done": timestep.terminated}

    def get_train_sample(self, block: Batch, tail: Tail) -> Any:
        pieces = []
        for start in range(0, min(len(block) - 3, tail.starts), 3):
            part = {key: each[start : start + 4].swapaxes(0, 1) for key, each in block.items()}
            rows = np.flatnonzero(part.pop("valid").all(1))
            part["env_id"], part["hidden"] = part["env_id"][:, 0], part["hidden"][:, 0]
            pieces.append(Batch(part)[rows])
        return Batch.concat(pieces) if pieces else Batch({}, 0)

    def learn(self, data: Any, **_: Any) -> Any:
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        states, hidden = [], batch["hidden"]
        for t in range(4):
            hidden = self.step(batch["obs"][:, t], hidden)
            states.append(hidden)
            hidden = hidden * ~batch["end"][:, t, None]
        h = np.stack(states, 1)
        q = h @ self.parameters["q"]
        wanted = batch["reward"][:, :3] + GAMMA * ~batch["done"][:, :3] * q[:, 1:].max(2)
        chosen = np.eye(3, dtype=np.float32)[batch["action"][:, :3]]
        error = ((q[:, :3] * chosen).sum(2) - wanted) * ~batch["end"][:, :3]
        blame = error[..., None] * chosen
        inner = blame @ self.parameters["q"].T * (1 - h[:, :3] ** 2)
        axes = ([0, 1], [0, 1])
        obs = batch["obs"][:, :3]
        self.change({"q": np.tensordot(h[:, :3], blame, axes) / len(batch),
                     "input": np.tensordot(obs, inner, axes) / len(batch),
                     "kept": np.tensordot(h[:, :3], inner, axes) / len(batch)})  # fmt: skip
        priority = np.abs(error).max(1).astype(np.float32)
        return {"total_loss": np.float32((error**2).mean()), "priority": priority}


class Whole(OnPolicy):
    """Learns from whole episodes."""

    facts: Mapping[str, Any] = {**OnPolicy.facts, "sample_len": "episode"}


class Wide(GoodPolicy):
    """Linear Q-learning for any number of actions."""

    actions = 3

    def __init__(self, enable_field: Sequence[str] | None = None) -> None:
        super().__init__(enable_field)
        self.weight = stream("wide").standard_normal((4, self.actions)).astype(np.float32)
        self.momentum = np.zeros_like(self.weight)

    def collect(self, obs: Mapping[int, Any], eps: float = 0.5, **_: Any) -> Any:
        return self.evaluate(obs)


class Contract(PolicyContract):
    action_space: Any = Discrete(3)

    def spaces(self) -> Any:
        return self.pair or (VECTOR, self.action_space)


def maker(cls: type[Any]) -> Any:
    def make(self: Any, enable_field: Sequence[str] | None = None) -> Any:
        seed_everything(0)
        return cls(enable_field)

    return make


class TestOnPolicy(Contract):
    make = maker(OnPolicy)


class TestWholeEpisodes(Contract):
    make = maker(Whole)


class TestContinuous(Contract):
    action_space = Box(LOW, HIGH)
    make = maker(Continuous)


class TestRecurrent(Contract):
    make = maker(Recurrent)


class TestSeveralSpaces(Contract):
    """Each number of actions is one pair of spaces."""

    policy: type[Any] = Wide

    def space_pairs(self) -> Any:
        return [(VECTOR, Discrete(3)), (VECTOR, Discrete(2)), (VECTOR, Discrete(5))]

    def make(self, enable_field: Sequence[str] | None = None) -> Any:
        seed_everything(0)
        count = int(self.spaces()[1].n)
        return type("Wide", (self.policy,), {"actions": count})(enable_field)


class Unseeded(GoodPolicy):
    def __init__(self, enable_field: Sequence[str] | None = None) -> None:
        super().__init__(enable_field)
        self.rng = np.random.default_rng()


def by_row(self: Any, batch: EnvBatch[Any]) -> list[int]:
    return list(range(len(batch)))


def forgets_all(self: Any, data_id: Any = None) -> None:
    for kept in self.hidden.values():
        kept.clear()


def flat_gains(self: Any, delta: Any, going: Any) -> Any:
    shape = delta.shape
    return OnPolicy.advantages(self, delta.reshape(-1, 1), going.reshape(-1, 1)).reshape(shape)


def shifted(self: Any, block: Batch, tail: Tail) -> Any:
    return GoodPolicy.get_train_sample(
        self, Batch({**block.columns, "next_obs": block["obs"]}), tail
    )


def centred(self: Any, obs: Any, output: Any, timestep: TimestepBatch) -> Any:
    columns = GoodPolicy.process_transition(self, obs, output, timestep)
    return {**columns, "obs": obs - np.float32(0.5)}


def without_last(self: Any, block: Batch, tail: Tail) -> Any:
    return GoodPolicy.get_train_sample(self, block[: len(block) - 1], tail)


def ignores_starts(self: Any, block: Batch, tail: Tail) -> Any:
    return Recurrent.get_train_sample(self, block, tail._replace(starts=1))


def frozen_for_two(self: Any, gradient: Any) -> None:
    if self.actions != 2:
        GoodPolicy.update(self, gradient)


def private_noise(self: Any) -> np.random.Generator:
    return np.random.default_rng(7)


ON_POLICY: list[Fault] = [
    ("learning_continues_from_its_state", {"learn_noise": private_noise}),
    ("environments_are_apart_in_samples", {"advantages": flat_gains}),
]
CONTINUOUS: list[Fault] = [
    ("learning_continues_from_its_state", {"learn_noise": private_noise}),
    ("actions_are_legal", {"scaled": lambda self, action: action.astype(np.float32)}),
]
RECURRENT: list[Fault] = [
    ("memory_is_kept_by_env_id", {"places": by_row}),
    ("reset_forgets_the_given_environments", {"reset": forgets_all}),
    ("reset_forgets_the_given_environments", {"reset": lambda self, data_id=None: None}),
    ("sample_facts_fit_together", {"facts": {**Recurrent.facts, "sample_stride": 5}}),
    ("small_blocks_give_the_samples_of_a_large_one", {"get_train_sample": ignores_starts}),
]
PLAIN: list[Fault] = [
    ("collecting_uses_the_random_streams_of_the_run", {"__init__": Unseeded.__init__}),
    ("next_obs_is_the_observation_after_the_step", {"get_train_sample": shifted}),
    ("next_obs_is_the_observation_after_the_step", {"process_transition": centred}),
    ("small_blocks_give_the_samples_of_a_large_one", {"get_train_sample": without_last}),
]
SEVERAL: list[Fault] = [
    ("acts_in_all_spaces_that_it_accepts", {"answer": lambda self, batch, action:
        batch.with_value({"action": action + (self.actions == 2)})}),
    ("learns_in_all_spaces_that_it_accepts", {"update": frozen_for_two}),
]  # fmt: skip
ALL = [*ON_POLICY, *CONTINUOUS, *RECURRENT, *PLAIN, *SEVERAL]
PLANTED: dict[type[Suite], list[str]] = {PolicyContract: [check for check, _ in ALL]}

test_on_policy_faults = catches(Contract, OnPolicy, ON_POLICY, maker)
test_continuous_faults = catches(TestContinuous, Continuous, CONTINUOUS, maker)
test_recurrent_faults = catches(Contract, Recurrent, RECURRENT, maker)
test_plain_faults = catches(Contract, GoodPolicy, PLAIN, maker)


@pytest.mark.parametrize(("check", "members"), SEVERAL, ids=[check for check, _ in SEVERAL])
def test_faults_with_some_spaces(check: str, members: dict[str, Any]) -> None:
    suite = type("Several", (TestSeveralSpaces,), {"policy": broken(Wide, members)})
    assert "Discrete(" in str(error_of(suite, check))


@pytest.mark.parametrize("pair", list(pairs()), ids=str)
def test_legal_is_what_the_space_says(pair: tuple[Any, Any]) -> None:
    obs, space = draw(pair[0], 5, np.random.default_rng(0)), pair[1]
    assert obs is not None
    drawn = [space.sample() for _ in range(3)]
    stacked = EnvBatch.stack(dict(enumerate(drawn))).value
    for row in range(3):
        expect_legal(space, stacked, row, "here")
    first = next(iter(stacked.values())) if isinstance(stacked, dict) else stacked
    far = copied(first[0] if isinstance(first, tuple) else first)
    for wrong in (far + 100, far.astype(np.complex64), {"other": far}):
        with pytest.raises(ContractError, match="here"):
            expect_legal(space, wrong, 0, "here")
