"""The base class of policies: modes, attributes, custom and hand-written modes, deployment."""

from __future__ import annotations

import types
from collections import namedtuple
from typing import Any, NamedTuple

import attrs
import gymnasium
import numpy as np
import pytest
import torch

from dicore.config import bind, compile_config
from dicore.config.schema import frozen, option, section
from dicore.config.signature import config_class
from dicore.data import Batch, EnvBatch
from dicore.deprecation import DicoreDeprecationWarning
from dicore.errors import ModeError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import PolicyFacts, facts_of
from dicore.run.env_factory import BuildContext
from dicore_plugins import policies
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.evaluators import BaseSerialEvaluator
from dicore_plugins.functional.samples import flatten_time
from dicore_plugins.learners import BaseLearner
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy, single_env_forward
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNLearnConfig
from dicore_registry import default

MODES = ("learn_mode", "collect_mode", "eval_mode")


def policy(**options: Any) -> DQNPolicy:
    return DQNPolicy(options, model=DQN(4, 2, (8,)))


@pytest.mark.parametrize("name", [*MODES, "command_mode"])
def test_modes_are_immutable_tuples_of_functions(name: str) -> None:
    mode = getattr(policy(), name)
    assert isinstance(mode, tuple)
    assert all(callable(each) for each in mode)
    with pytest.raises(AttributeError):
        setattr(mode, mode._fields[0], None)
    with pytest.raises(AttributeError):
        mode.something_else = 1


@pytest.mark.parametrize("name", MODES)
def test_only_the_modes_asked_for_are_built(name: str) -> None:
    """Acting alone needs no optimizer."""
    field = name.removesuffix("_mode")
    only = DQNPolicy({}, model=DQN(4, 2, (8,)), enable_field=[field])
    assert callable(getattr(only, name).forward)
    assert hasattr(only, "_optimizer") == (field == "learn")
    for other in set(MODES) - {name}:
        with pytest.raises(ModeError, match=f"'{other}'"):
            _ = getattr(only, other).forward
    with pytest.raises(ModeError, match="no mode 'dream'"):
        DQNPolicy({}, model=DQN(4, 2, (8,)), enable_field=["dream"])


@pytest.mark.parametrize("name", MODES)
def test_every_mode_gets_and_sets_attributes(name: str) -> None:
    made = policy(nstep=2)
    mode = getattr(made, name)
    get = mode.get_attribute
    assert get("cfg").nstep == 2
    assert (get("n_sample"), get("n_episode"), get("unroll_len")) == (8, None, 1)
    assert (get("on_policy"), get("batch_size"), get("priority")) == (False, 64, False)
    assert (get("device"), get("nstep")) == ("cpu", 2)
    assert isinstance(get("model"), DQN)
    mode.set_attribute("cfg", policy(nstep=3)._cfg)
    assert get("nstep") == 3
    mode.set_attribute("device", "elsewhere")
    assert made.eval_mode.get_attribute("device") == "elsewhere"
    for call in (lambda: get("no_such_name"), lambda: mode.set_attribute("no_such_name", 1)):
        with pytest.raises(AttributeError, match="no_such_name"):
            call()


def test_getters_and_setters_of_a_policy_go_first() -> None:
    class Own(DQNPolicy):
        _level = 1

        def _get_level(self) -> int:
            return self._level * 10

        def _set_level(self, value: int) -> None:
            self._level = value + 1

    mode = Own({}, model=DQN(4, 2, (8,))).collect_mode
    mode.set_attribute("level", 4)
    assert mode.get_attribute("level") == 50


def test_a_mode_of_ones_own() -> None:
    class BattleMode(NamedTuple):
        choose_opponent: Any

    class Own(DQNPolicy):
        fields = (*DQNPolicy.fields, "battle", "watch")

        def _init_battle(self) -> None:
            self._opponents = ["old", "new"]

        @property
        def battle_mode(self) -> BattleMode:
            return self.mode("battle", lambda: BattleMode(self._opponents.pop))

        @property
        def watch_mode(self) -> tuple[str]:
            return self.mode("watch", lambda: ("no preparation",))

        def _forward_eval(self, obs: Any) -> Any:
            answer = super()._forward_eval(obs)
            return answer.with_value({**answer.value, "by": "own"})

    model = DQN(4, 2, (8,))
    own = Own({}, model=model, enable_field=["eval", "battle"])
    assert own.battle_mode.choose_opponent() == "new"
    obs = EnvBatch(np.arange(2), np.zeros((2, 4), np.float32))
    assert own.eval_mode.forward(obs).value["by"] == "own"
    assert Own({}, model=model).battle_mode.choose_opponent() == "new"
    assert Own({}, model=model).watch_mode == ("no preparation",)
    with pytest.raises(ModeError, match="battle_mode"):
        _ = Own({}, model=model, enable_field=["eval"]).battle_mode


def test_the_command_mode_may_be_named_among_the_others() -> None:
    only = DQNPolicy({}, model=DQN(4, 2, (8,)), enable_field=["command"])
    assert only.command_mode.get_setting_collect({"envstep": 0})
    with pytest.raises(ModeError, match="learn_mode"):
        _ = only.learn_mode


def test_a_subclass_changes_one_default_and_keeps_the_others() -> None:
    @frozen(kw_only=True)
    class OwnLearn(DQNLearnConfig):
        batch_size: int = option(32, "samples per gradient update", ge=1)

    @frozen(kw_only=True)
    class OwnConfig(DQNConfig):
        learn: OwnLearn = section(OwnLearn)

    class Own(DQNPolicy):
        config_class = OwnConfig

    own, base = Own.default_config(), DQNPolicy.default_config()
    assert own["learn"].pop("batch_size") == 32
    assert base["learn"].pop("batch_size") == 64
    for config, name in ((own, "Own"), (base, "DQN")):
        assert config.pop("cfg_type") == f"{name}Config"
        config["learn"].pop("cfg_type")
    assert own == base


# ---- modes made by hand


def no_reset(data_id: Any = None) -> None:
    """A mode that has nothing to forget."""


def forward(obs: Any, eps: float = 0.0) -> dict[int, Any]:
    return {env_id: {"action": int(value[2] > 0), "eps": eps} for env_id, value in obs.items()}


def process(obs: Any, output: dict[str, Any], timestep: Any) -> dict[str, Any]:
    return {"obs": obs, "action": output["action"], "reward": timestep.reward, "eps": output["eps"]}


CollectMode = namedtuple("CollectMode", "forward process_transition get_train_sample reset")
HAND_MADE = [
    CollectMode(forward, process, lambda block, tail: block, no_reset),
    CollectMode(forward, process, lambda block, tail: flatten_time(block).rows(), no_reset),
    types.SimpleNamespace(
        forward=forward, process_transition=process, get_train_sample=flatten_time, reset=no_reset
    ),
]


def cartpoles(count: int) -> BaseEnvManager:
    manager = BaseEnvManager([lambda: gymnasium.make("CartPole-v1")] * count)
    manager.seed(0)
    return manager


@pytest.mark.parametrize("mode", HAND_MADE, ids=["block", "rows", "namespace"])
def test_a_hand_made_mode_collects(mode: Any) -> None:
    collector = SampleCollector({}, cartpoles(3), mode)
    rows = collector.collect(20, policy_kwargs={"eps": 0.25})
    collector.close()
    assert len(rows) == 20
    assert {float(row["eps"]) for row in rows} == {0.25}
    assert all(row["action"] == (row["obs"][2] > 0) for row in rows)


def test_a_hand_made_mode_evaluates() -> None:
    mode = types.SimpleNamespace(forward=forward, reset=no_reset)
    evaluator = BaseSerialEvaluator({"n_episode": 4}, cartpoles(2), mode)
    _, returns = evaluator.eval()
    evaluator.close()
    assert len(returns) == 4
    assert min(returns) > 15  # pushing after the pole beats falling over


def test_a_hand_made_mode_learns() -> None:
    seen: list[Any] = []

    def learn(data: Any) -> dict[str, Any]:
        seen.append(len(data))
        return {"total_loss": torch.tensor(float(len(data)))}

    engine = BaseLearner({"hook": []}, types.SimpleNamespace(forward=learn))
    engine.train(Batch({"reward": np.zeros(5, np.float32)}))
    engine.train([{"reward": 0.0}] * 7)
    assert (seen, engine.train_iter) == ([5, 7], 2)
    assert engine.log_buffer.means() == {"total_loss": 6.0}


# ---- deployment


def test_one_raw_observation_gives_a_bare_action() -> None:
    made = policy()
    act = single_env_forward(made.eval_mode)
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        action = act(obs)
        q = made.get_attribute("model").q(torch.as_tensor(obs)[None])
        assert type(action) is int
        assert action == int(q.argmax()) == act(obs.tolist())
        obs, *_ = env.step(action)
    env.close()


def test_nested_observations_and_several_choices() -> None:
    def nested(obs: Any) -> Any:
        return obs.with_value({"action": np.stack([obs.value["a"], obs.value["b"]["c"]], 1)})

    act = single_env_forward(types.SimpleNamespace(forward=nested))
    assert act({"a": 3, "b": {"c": np.int64(4)}}).tolist() == [3, 4]


def test_the_device_of_the_run_is_obeyed() -> None:
    model = DQN(4, 2)
    policy = DQNPolicy({}, model=model, enable_field=["eval"], device="meta")
    assert policy.get_attribute("device") == "meta"
    assert {each.device.type for each in model.parameters()} == {"meta"}
    spaces = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)
    cfg = bind(compile_config({"env": "cartpole", "policy": "dqn"}), EnvSpec(*spaces)).cfg.policy
    built = cfg.build(BuildContext(EnvSpec(*spaces), device="meta"), enable_field=["eval"])
    assert built.get_attribute("device") == "meta"


@pytest.mark.parametrize("name", ["collect_mode", "eval_mode"])
def test_networks_act_in_evaluation_mode(name: str) -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(), torch.nn.Linear(32, 2)
    )
    policy = DQNPolicy({"other": {"eps": {"end": 0.0}}}, model=net)
    obs = {0: np.ones(4, np.float32)}
    logits = [getattr(policy, name).forward(obs)[0]["logit"] for _ in range(3)]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[0], logits[2])
    assert all(each.training for each in net.modules())
    assert net[1].num_batches_tracked == 0
    assert not any(each.training for each in policy.get_attribute("target_model").modules())


def test_the_sections_of_all_policies_are_public() -> None:
    """A relative replaces a section by a subclass of its class."""
    for entry in default().entries("policy"):
        if entry.dist == "dicore-plugins":
            for field in attrs.fields(config_class(default().load(entry), "policy")):
                made = field.metadata.get("section")
                own = made is not None and made.__module__.startswith("dicore_plugins.policies")
                assert not own or made.__name__ in policies.__all__, made


class Declares(DQNPolicy):
    """A policy with an attribute of its own, and one that it does not declare."""

    attributes = ("level",)
    _level = 1
    _temper = 2


def test_attributes_are_declared_and_the_others_are_found_with_a_warning() -> None:
    mode = Declares({"nstep": 3}, model=DQN(4, 2, (8,))).collect_mode
    assert facts_of(mode) == mode.get_attribute("facts")
    assert (facts_of(mode).sample_len, facts_of(mode).nstep) == (3, 3)
    assert (mode.get_attribute("level"), mode.get_attribute("device")) == (1, "cpu")
    for name, instead, value in (
        ("temper", r"Declares\.attributes names 'temper'", 2),
        ("target_update_freq", r"get_attribute\('cfg'\)\.learn\.target_update_freq", 100),
    ):
        with pytest.warns(DicoreDeprecationWarning, match=instead):
            assert mode.get_attribute(name) == value


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ({}, PolicyFacts()),
        ({"nstep": 3}, PolicyFacts(sample_len=3, nstep=3)),
        ({"nstep": 3, "sample_len": "episode"}, PolicyFacts(sample_len="episode", nstep=3)),
        ({"n_sample": None, "on_policy": True}, PolicyFacts(on_policy=True)),
    ],
)
def test_the_facts_of_a_mode_written_by_hand_are_asked_for_one_by_one(
    known: dict[str, Any], wanted: PolicyFacts
) -> None:
    assert facts_of(types.SimpleNamespace(get_attribute=known.__getitem__)) == wanted
    assert facts_of(types.SimpleNamespace()) == PolicyFacts()
