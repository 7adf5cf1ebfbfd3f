"""Losses and gradients that are not finite, in each part that an optimizer of its own updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ActionError, ConfigError, NonFiniteError
from dicore.run.random import seed_everything
from dicore_plugins.learners import BaseLearner, BaseLearnerConfig
from dicore_plugins.policies import create_policy
from dicore_registry import default
from tests.plugins.policies.test_changed_networks import policy_of, samples
from tests.plugins.policies.test_continuous_q import policy_of as continuous
from tests.plugins.policies.test_continuous_q import rows
from tests.soak import some

PARTS = {
    "actor": ("iql", "actor"),
    "value": ("iql", "value"),
    "delayed": ("td3", "actor"),
    "autoencoder": ("bcq", "vae"),
    "fractions": ("fqf", "fractions"),
}


def spoilt(policy: Any, part: str) -> None:
    """Makes all gradients of a part NaN."""

    def spoil(optimizer: Any, args: Any, kwargs: Any) -> None:
        optimizer.flat.grad.fill_(torch.nan)

    apart = getattr(policy, "_fraction_optimizer", None)
    (apart or policy._optimizers[part]).register_step_pre_hook(spoil)


def made(name: str) -> tuple[Any, Batch]:
    return (policy_of(name), samples(name)) if name == "fqf" else (continuous(name), rows())


def learner_of(policy: Any) -> BaseLearner:
    return BaseLearner(BaseLearnerConfig(hook=[]), policy.learn_mode)


def train(learner: BaseLearner, batches: list[Batch]) -> None:
    for each in batches:
        learner.train(each)


@pytest.mark.parametrize("case", PARTS)
def test_a_part_whose_gradient_stays_nan_ends_the_training(case: str) -> None:
    """Its loss is not `total_loss`: without an error, only this part would never learn."""
    name, part = PARTS[case]
    policy, batch = made(name)
    spoilt(policy, part)
    learner = learner_of(policy)
    wanted = rf"consecutive updates of the {part} is not finite"
    with pytest.raises(NonFiniteError, match=wanted):
        train(learner, [batch] * 12)
    assert learner.last_iter <= 8
    states = policy.learn_mode.state_dict()["model"].values()
    assert all(bool(torch.isfinite(each).all()) for each in states)


def test_the_count_of_a_part_goes_on_after_a_resume() -> None:
    engines = []
    for _ in range(2):
        policy, batch = made("iql")
        spoilt(policy, "actor")
        engines.append(learner_of(policy))
    train(engines[0], [batch] * 2)
    engines[1].load_state_dict(engines[0].state_dict())
    assert engines[1].policy.get_attribute("skipped_updates") == 2
    engines[1].train(batch)
    with pytest.raises(NonFiniteError, match="the gradient of 3 consecutive updates of the actor"):
        engines[1].call_hook("after_run")


def test_updates_between_good_ones_are_counted_only() -> None:
    policy, batch = made("iql")
    learner = learner_of(policy)
    bad = Batch({**batch.columns, "action": np.full_like(batch["action"], np.nan)}, len(batch))
    train(learner, [batch, batch, bad, batch, bad, bad, *[batch] * 8])
    learner.call_hook("after_run")
    assert policy.get_attribute("skipped_updates") == 3


SPACES: dict[str, Any] = {
    "discrete": spaces.Discrete(3),
    "heads": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "hybrid": spaces.Dict(
        {"action_type": spaces.Discrete(3), "action_args": spaces.Box(-1, 1, (2,), np.float32)}
    ),
}
WITHOUT_NETWORK = {"random", "expert"}
NAMES = sorted(
    {entry.name for entry in default().entries("policy") if entry.dist != "dicore-agents"}
    - WITHOUT_NETWORK
)


def built(name: str, space: str) -> Any:
    """Returns a policy, or None if it does not fit the space."""
    seed_everything(0)
    try:
        return create_policy(
            {"type": name},
            observation_space=spaces.Box(-1, 1, (4,), np.float32),
            action_space=SPACES[space],
        )
    except ConfigError:
        return None


@pytest.mark.parametrize("name", some(NAMES, 12, "nan"))
def test_a_network_of_nan_never_acts(name: str) -> None:
    """Action 0, as of an argmax, would look like a policy that has learned nothing."""
    tried = 0
    for space in SPACES:
        policy = built(name, space)
        if policy is None:
            continue
        networks = [value for value in vars(policy).values() if isinstance(value, torch.nn.Module)]
        for each in networks:
            for parameter in each.parameters():
                torch.nn.init.constant_(parameter, torch.nan)
        obs = dict(enumerate(np.ones((3, 4), np.float32)))
        for mode in (policy.collect_mode, policy.eval_mode):
            with pytest.raises((NonFiniteError, ActionError)):
                mode.forward(obs)
            tried += 1
    assert tried
