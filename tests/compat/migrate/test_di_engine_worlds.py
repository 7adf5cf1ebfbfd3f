"""Configs of DI-engine with world models: `dreamer` compiles, the others are one error each."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError
from dicore_compat.migrate.di_engine import convert

DREAMER: dict[str, Any] = {
    "exp_name": "dmc2gym_cartpole_balance_dreamer",
    "env": {
        "env_id": "dmc2gym_cartpole_balance", "domain_name": "cartpole", "task_name": "balance",
        "frame_skip": 1, "warp_frame": True, "scale": True, "clip_rewards": False,
        "action_repeat": 2, "frame_stack": 1, "from_pixels": True, "resize": 64,
        "collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1,
        "stop_value": 1000,
    },
    "policy": {
        "cuda": False, "random_collect_size": 2500,
        "model": {"obs_shape": (3, 64, 64), "action_shape": 1, "actor_dist": "normal"},
        "learn": {
            "lambda_": 0.9, "learning_rate": 4e-5, "batch_size": 8, "batch_length": 32,
            "imag_sample": True, "discount": 0.99, "reward_EMA": True, "actor_entropy": 1e-3,
        },
        "collect": {"n_sample": 1, "unroll_len": 1, "action_size": 1, "collect_dyn_sample": True},
        "command": {}, "eval": {"evaluator": {"eval_freq": 5000}},
        "other": {"replay_buffer": {"replay_buffer_size": 500000}},
    },
    "world_model": {
        "pretrain": 100, "train_freq": 2, "cuda": False,
        "model": {
            "state_size": (3, 64, 64), "obs_type": "RGB", "action_size": 1,
            "action_type": "continuous", "reward_size": 1, "batch_size": 16, "dyn_deter": 256,
            "model_lr": 2e-4, "act": "SiLU",
        },
    },
}  # fmt: skip
CREATE: dict[str, Any] = {
    "env": {"type": "dmc2gym", "import_names": ["dizoo.dmc2gym.envs.dmc2gym_env"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "dreamer", "import_names": ["ding.policy.mbpolicy.dreamer"]},
    "replay_buffer": {"type": "sequence"},
    "world_model": {"type": "dreamer", "import_names": ["ding.world_model.dreamer"]},
}


def converted(main: Any, create: Any) -> tuple[dict[str, Any], dict[str, str]]:
    made, changes = convert(copy.deepcopy(main), copy.deepcopy(create), "serial_pipeline_dreamer")
    return made, {each.path: each.verdict for each in changes}


def test_a_dreamer_config_compiles_with_its_values() -> None:
    pytest.importorskip("dicore_contrib_envs")
    made, verdicts = converted(DREAMER, CREATE)
    compiled: Any = compile_config(made)
    policy, learn = compiled.policy, compiled.policy.learn
    assert (compiled.env.type, compiled.env.env_id) == (
        "dm_control", "dm_control/cartpole-balance-v0",
    )  # fmt: skip
    assert (policy.type, policy.discount_factor, policy.model.deter) == ("dreamer", 0.99, 256)
    assert (learn.td_lambda, learn.behaviour_learning_rate, learn.learning_rate) == (
        0.9, 4e-5, 2e-4,
    )  # fmt: skip
    assert (learn.update_per_step, learn.update_per_collect) == (0.5, None)
    assert (learn.batch_size, learn.entropy_weight) == (8, 1e-3)
    assert policy.collect.random_collect_size == 2500
    buffer = policy.other.replay_buffer
    assert (buffer.type, buffer.unroll_len, buffer.replay_buffer_size) == ("sequence", 32, 500_000)
    assert compiled.env.env_wrapper[0].type == "action_repeat"
    lost = {path for path, verdict in verdicts.items() if verdict == "lost"}
    assert lost == {"env.from_pixels", "world_model.pretrain", "world_model.model.act"}
    assert verdicts["world_model.train_freq"] == "moved"


def test_other_environments_stay_as_they_are() -> None:
    main = copy.deepcopy(DREAMER)
    main["env"] = {"collector_env_num": 1, "evaluator_env_num": 5, "stop_value": -250}
    made, _ = converted(main, {**CREATE, "env": {"type": "pendulum"}})
    compiled: Any = compile_config(made)
    assert (compiled.env.type, compiled.policy.type) == ("pendulum", "dreamer")


@pytest.mark.parametrize(
    ("policy", "model", "word"),
    [
        ("mbsac", "ddppo", "policy.type: 'mbsac' is SAC with gradients"),
        ("stevesac", "ddppo", r"policy.type: 'stevesac' .*STEVE"),
        ("sac", "ddppo", "world_model.type: 'ddppo'"),
    ],
)
def test_what_has_no_counterpart_is_one_error(policy: str, model: str, word: str) -> None:
    main = {"env": {"stop_value": -250}, "policy": {"learn": {"lambda_": 0.8}},
            "world_model": {"train_freq": 100, "model": {"ensemble_size": 5}}}  # fmt: skip
    create = {"env": {"type": "pendulum"}, "policy": {"type": policy},
              "world_model": {"type": model}}  # fmt: skip
    with pytest.raises(ConfigError, match=word) as caught:
        converted(main, create)
    assert "mbpo" in str(caught.value.hint)
    assert len(str(caught.value.message).splitlines()) == 1


@pytest.mark.parametrize("value", [0, "often", True])
def test_a_frequency_that_is_no_number_is_refused(value: Any) -> None:
    main = copy.deepcopy(DREAMER)
    main["world_model"]["train_freq"] = value
    with pytest.raises(ConfigError, match="train_freq"):
        converted(main, CREATE)
