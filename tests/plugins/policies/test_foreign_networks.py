"""Networks from outside with wrong outputs: each is refused, none is broadcast in silence."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.errors import SchemaError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.policies import create_policy
from tests.plugins.policies.test_continuous_q import rows

OBS, BOX = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2, 2, (2,), np.float32)
HYBRID = spaces.Dict(action_type=spaces.Discrete(4), action_args=BOX)
Change = Callable[[Any], Any]


def column(each: Any) -> Any:
    return each.unsqueeze(-1)


def more(each: Any) -> Any:
    return torch.cat([each, each[..., -1:]], -1)


def first(each: Any) -> Any:
    return each[..., :1]


WRONG: dict[str, tuple[Any, str, Change, str]] = {
    "dqn": (spaces.Discrete(4), "forward", more, r"values \[2, 5\] for two obs.*\[2, 4\]"),
    "c51": (spaces.Discrete(4), "distribution", lambda each: each[:, :-1],
            r"distribution returns \[\[2, 3, 51\]\] for two.*\[2, 4, N\]"),
    "bc": (spaces.Discrete(4), "forward", more, r"returns logit \[2, 5\].* logit \[2, 4\]"),
    "ibc": (spaces.Discrete(4), "forward", more, r"returns logit \[2, 5\].* logit \[2, 4\]"),
    "ppo": (BOX, "forward", column, r"value \[2, 1\] for two.* value \[2\]"),
    "ddpg": (BOX, "q", column, r"q returns \[1, 3, 1\] instead of \[E, 3\] for 3"),
    "td3": (BOX, "q", lambda each: each[0], r"q returns \[3\] instead of \[E, 3\]"),
    "sac": (BOX, "policy", first, r"policy returns mean \[3, 1\] instead of \[3, 2\]"),
    "bcq": (BOX, "q", column, r"q returns \[2, 3, 1\] instead of"),
    "iql": (BOX, "v", column, r"v returns \[3, 1\] instead of \[3\]"),
    "tqc": (BOX, "outputs", lambda each: each[0], r"(q|outputs) returns .* instead of"),
    "discrete_sac": (spaces.Discrete(4), "q", first, r"\[2, 3, 1\] instead of \[E, 3, 4\]"),
    "paddpg": (HYBRID, "q", column, r"q returns \[1, 3, 1\] instead of \[E, 3\]"),
    "pdqn": (HYBRID, "q", more, r"q returns \[3, 5\] instead of \[3, 4\]"),
    "dt": (spaces.Discrete(4), "steps", more, r"steps returns .*\[2, 3, 5\].* \[2, 3, 4\]"),
}  # fmt: skip


def changed(output: Any, change: Change) -> Any:
    if isinstance(output, torch.Tensor):
        return change(output)
    if isinstance(output, dict):
        return {key: changed(each, change) for key, each in output.items()}
    return [changed(each, change) for each in output]


def mutant(model: Any, method: str, change: Change) -> Any:
    """Returns a copy of a network, of a subclass with another output of a method."""
    base = type(model)

    def overridden(self: Any, *args: Any, **kwargs: Any) -> Any:
        return changed(getattr(base, method)(self, *args, **kwargs), change)

    model = copy.deepcopy(model)
    model.__class__ = type("Mine", (base,), {method: overridden})
    return model


def policy_of(name: str, actions: Any, model: Any = None, observed: Any = OBS) -> Any:
    seed_everything(0)
    spaces_ = {"observation_space": observed, "action_space": actions}
    return create_policy({"type": name}, model=model, **spaces_)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_outputs_are_refused(name: str) -> None:
    actions, method, change, message = WRONG[name]
    model = policy_of(name, actions).get_attribute("model")
    same = policy_of(name, actions, mutant(model, method, lambda each: each))
    assert type(same.get_attribute("model")).__name__ == "Mine"
    with pytest.raises(UsageError, match=rf"^model: Mine.*{message}"):
        policy_of(name, actions, mutant(model, method, change))


def test_values_are_not_broadcast_where_the_shapes_are_not_known_before() -> None:
    """The observations are nested, so that no network is tried with zeros."""
    observed = spaces.Dict(x=OBS)
    model = policy_of("ddpg", BOX, observed=observed).get_attribute("model")
    policy = policy_of("ddpg", BOX, mutant(model, "q", column), observed)
    batch = rows()
    for key in ("obs", "next_obs"):
        batch.columns[key] = {"x": batch[key]}
    with pytest.raises(SchemaError, match=r"must have the same shape; got target"):
        policy.learn_mode.forward(batch)


NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, obs_shape: int | None = None, action_shape: int | None = None, more=0):
        super().__init__()
        self.layer = nn.Linear(obs_shape, action_shape + more)

    def forward(self, obs):
        return {"logit": self.layer(obs)}
"""


def test_a_network_of_a_file_is_refused_before_there_is_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NETWORK, encoding="utf-8")

    def train(*options: str) -> Any:
        given: dict[str, Any] = {"env": "cartpole", "policy": "dqn", "max_env_step": 16, "seed": 0}
        overrides = [f"policy.model.type={tmp_path}/net.py:Net", "pipeline.logger=[]",
                     "env.n_evaluator_episode=1", "env.evaluator_env_num=1", *options]  # fmt: skip
        return launch(exp_name=str(tmp_path / "run"), overrides=overrides, **given)

    with pytest.raises(UsageError, match=r"Net returns values \[2, 3\] for two observations"):
        train("policy.model.more=1")
    assert not (tmp_path / "run").exists()
    one = train().policy.get_attribute("model").state_dict()
    assert (tmp_path / "run").exists()
    seed_everything(0)
    plain = create_policy(
        {"type": "dqn", "model": {"type": f"{tmp_path}/net.py:Net"}},
        observation_space=spaces.Box(-1, 1, (4,), np.float32), action_space=spaces.Discrete(2),
    )  # fmt: skip
    assert torch.equal(one["layer.weight"], plain.get_attribute("model").layer.weight)
