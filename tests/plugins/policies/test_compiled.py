"""Updates of Q networks that are compiled or in reduced precision."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.run.random import seed_everything
from dicore_plugins.policies import ContinuousQPolicy, DQNPolicy, create_policy, get_policy_cls
from dicore_registry import default

OBS = spaces.Box(-1, 1, (4,), np.float32)
ROWS = 32
NAMES = [
    each.name
    for each in default().entries("policy")
    if each.dist != "dicore-agents"  # whose policies have samples of their own
    and issubclass(get_policy_cls(each.name), DQNPolicy | ContinuousQPolicy)
    and each.name not in ("paddpg", "pdqn", "r2d2")  # hybrid actions; not trained so
    and not getattr(default().resolve("policy", each.name).target, "demonstrations", False)
    and "learn.autocast" not in default().resolve("policy", each.name).target.requires
]


def updated(name: str, **learn: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Returns a policy after three updates on random samples, and their results."""
    discrete = issubclass(get_policy_cls(name), DQNPolicy) or name == "discrete_sac"
    actions = spaces.Discrete(3) if discrete else spaces.Box(-2, 2, (2,), np.float32)
    seed_everything(0)
    rng = np.random.default_rng(0)
    options = {"type": name, "learn": learn}
    policy = create_policy(options, observation_space=OBS, action_space=actions)
    results = []
    for _ in range(3):
        action: Any = rng.integers(0, 3, ROWS) if discrete else rng.uniform(-2, 2, (ROWS, 2))
        columns = {
            "obs": rng.standard_normal((ROWS, 4), np.float32),
            "action": action if discrete else action.astype(np.float32),
            "reward": rng.standard_normal(ROWS).astype(np.float32),
            "next_obs": rng.standard_normal((ROWS, 4), np.float32),
            "done": rng.random(ROWS) < 0.1,
        }
        results.append(policy.learn_mode.forward(Batch(columns, ROWS)))
    return policy, results


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if number % 3 == 0 else pytest.mark.soak)
        for number, name in enumerate(NAMES)
    ],
)
def test_updates_in_bfloat16_are_near_those_in_float32(name: str) -> None:
    policy, reduced = updated(name, autocast="bfloat16")
    _, wanted = updated(name)
    for one, other in zip(reduced[:2], wanted[:2], strict=True):
        near = pytest.approx(float(other["total_loss"]), rel=0.05, abs=0.02)
        assert float(one["total_loss"]) == near
        assert one["priority"].dtype == torch.float32
    assert reduced[0]["total_loss"] != wanted[0]["total_loss"]
    assert all(each.dtype == torch.float32 for each in policy.get_attribute("model").parameters())


@pytest.mark.parametrize("name", ["dqn", "sac", "ppo"])
def test_a_copy_of_a_policy_updates_its_own_networks(name: str) -> None:
    """As a copy of a policy without these options does."""
    finals = []
    for copied in (False, True):
        policy, samples = created(name, autocast="bfloat16")
        start = policy.learn_mode.state_dict()["model"]
        start = {key: value.clone() for key, value in start.items()}
        used = copy.deepcopy(policy) if copied else policy
        seed_everything(1)
        used.learn_mode.forward(samples)
        finals.append(used.learn_mode.state_dict()["model"])
        if copied:
            torch.testing.assert_close(policy.learn_mode.state_dict()["model"], start)
    torch.testing.assert_close(*finals, rtol=0, atol=0)
    assert any(not torch.equal(value, start[key]) for key, value in finals[1].items())


def created(name: str, **learn: Any) -> tuple[Any, Batch]:
    """Returns a policy and random samples that it learns from."""
    seed_everything(0)
    actions = spaces.Box(-2, 2, (2,), np.float32) if name == "sac" else spaces.Discrete(3)
    options = {"type": name, "learn": learn}
    policy = create_policy(options, observation_space=OBS, action_space=actions)
    rng = np.random.default_rng(0)
    names = ("reward", "value", "advantage", "target", "log_prob")
    columns = {each: rng.standard_normal(ROWS).astype(np.float32) for each in names}
    columns |= {each: rng.standard_normal((ROWS, 4), np.float32) for each in ("obs", "next_obs")}
    given: Any = rng.uniform(-2, 2, (ROWS, 2)).astype(np.float32)
    columns["action"] = given if name == "sac" else rng.integers(0, 3, ROWS)
    return policy, Batch({**columns, "done": rng.random(ROWS) < 0.1}, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "edac"])
def test_compiled_updates_are_those_of_the_networks(name: str) -> None:
    """Up to a minute of compilation, in a process of its own: threads of the compiler stay."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, name],
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]


def compare(name: str) -> None:
    """Compares compiled updates with plain ones; random numbers are the same."""
    compiled, results = updated(name, compile=True)
    plain, wanted = updated(name)
    for one, other in zip(results, wanted, strict=True):
        torch.testing.assert_close(one["total_loss"], other["total_loss"], rtol=1e-3, atol=1e-4)
    states = [policy.learn_mode.state_dict()["model"] for policy in (compiled, plain)]
    torch.testing.assert_close(*states, rtol=1e-2, atol=1e-3)


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    for name in ("dqn", "sac"):
        with pytest.raises(UsageError, match=r"policy\.learn\.compile: no C\+\+ compiler"):
            updated(name, compile=True)


def test_gradients_of_gradients_are_not_compiled() -> None:
    with pytest.raises(ConfigError, match=r"learn\.compile: gradients of gradients"):
        updated("edac", compile=True)


def test_sequences_are_not_trained_so() -> None:
    overrides = ["policy.learn.compile=true", "policy.learn.autocast=bfloat16"]
    with pytest.raises(ConfigError, match=r"(?s)autocast: r2d2 is not.*compile: r2d2 is not"):
        compile_config(
            {"env": {"type": "cartpole"}, "policy": {"type": "r2d2"}}, overrides=overrides
        )


if __name__ == "__main__":
    compare(sys.argv[1])
