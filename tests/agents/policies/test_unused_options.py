"""Options that would have no effect are refused, all at once; their defaults are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiDiscrete

from dicore.config import bind, compile_config
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec

SEEN = Dict(obs=Box(-1, 1, (2, 3), np.float32))
CHOICE, NUMBERS = MultiDiscrete([4, 4]), Box(-1, 1, (2, 2), np.float32)


def bound(name: str, actions: Any, options: dict[str, Any]) -> Any:
    cfg = {"env": {"type": "cartpole"}, "policy": {"type": name, **options}}
    return bind(compile_config(cfg), EnvSpec(SEEN, actions, agents=("one", "other"))).policy


@pytest.mark.parametrize(
    ("name", "actions", "options", "told"),
    [
        ("coma", CHOICE, {"learn": {"value_weight": 2.0}}, ["learn.value_weight: coma learns"]),
        ("ippo", CHOICE, {"model": {"log_std_init": -1.0}},
         ["model.log_std_init: has no effect without continuous actions; leave it out"]),
        *((name, CHOICE, {"model": {"rnn_hidden_size": 8}},
           ["model.rnn_hidden_size: has no effect without rnn; leave it out"])
          for name in ("coma", "qmix", "maddpg")),
        *((name, CHOICE, {"learn": {"huber_delta": 3.0}},
           ["learn.huber_delta: has no effect without value_loss=huber"])
          for name in ("ippo", "mappo", "happo")),
        *((name, CHOICE, {"learn": {"huber_delta": 3.0, "criterion": "mse"}},
           ["learn.huber_delta: has no effect without criterion=huber"])
          for name in ("independent_q", "vdn", "qmix", "wqmix", "qplex", "qtran")),
        *((name, CHOICE, {"learn": {"target_noise": 0.3, "target_noise_clip": 0.1},
                          "collect": {"noise": 0.5, "noise_end": 0.1, "noise_decay": 50}},
           [*(f"learn.{each}: has no effect without cont"
              for each in ("target_noise", "target_noise_clip")),
            *(f"collect.{each}: has no effect without cont"
              for each in ("noise", "noise_end", "noise_decay"))])
          for name in ("maddpg", "matd3")),
        *((name, NUMBERS, {"learn": {"gumbel_temperature": 0.5, "logit_penalty": 0.0}},
           [f"learn.{each}: has no effect without discrete actions"
            for each in ("gumbel_temperature", "logit_penalty")])
          for name in ("maddpg", "matd3")),
        *(("masac", CHOICE, {"learn": {"target_entropy": value}},
           ["learn.target_entropy: expected more than 0 and at most 1.386, the entropy of 4 eq"])
          for value in (-2.0, 0.0, 1.5)),
        ("masac", CHOICE, {"learn": {"target_entropy": 1.0, "target_entropy_end": -1.0}},
         ["learn.target_entropy_end: expected more than 0"]),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused(
    name: str, actions: Any, options: dict[str, Any], told: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        bound(name, actions, options)
    for each in told:
        assert f"policy.{each}" in str(refused.value)
    assert str(refused.value).count("policy.") == len(told)


@pytest.mark.parametrize(
    ("name", "actions", "options"),
    [
        ("mappo", NUMBERS, {"model": {"log_std_init": -1.0}}),
        ("mappo", CHOICE, {"learn": {"huber_delta": 3.0, "value_loss": "huber"}}),
        ("qmix", CHOICE, {"learn": {"huber_delta": 3.0}}),
        ("qmix", CHOICE, {"learn": {"huber_delta": 1.0, "criterion": "mse"}}),
        ("matd3", CHOICE, {"learn": {"target_noise": 0.2, "gumbel_temperature": 0.5}}),
        ("matd3", NUMBERS, {"learn": {"target_noise": 0.3}, "collect": {"noise": 0.5}}),
        ("masac", CHOICE, {"learn": {"target_entropy": 1.38}}),
        ("masac", NUMBERS, {"learn": {"target_entropy": -2.0}}),
    ],
)
def test_options_with_an_effect_and_defaults_are_taken(
    name: str, actions: Any, options: dict[str, Any]
) -> None:
    assert bound(name, actions, options).type == name
