"""Rules about exploration, entropy, divergence and evaluations, on evidence that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore_tools.diagnosis.finding import MissingEvidenceError
from dicore_tools.diagnosis.rules_evaluation import evaluation_noise
from dicore_tools.diagnosis.rules_policy import (
    actions_saturated,
    entropy_collapsed,
    entropy_dominates,
    exploration_ended,
    exploration_goes_on,
    kl_spikes,
    mostly_clipped,
)
from tests.tools.diagnosis.conftest import Recorded

LOSS = {"learner/total_loss": [1.0] * 20}
DISCRETE = {"policy.model.action_shape": 4}
MOST = float(np.log(4))


def epsilon(kind: str, decay: int, end: float = 0.0, **more: object) -> dict[str, object]:
    path = "policy.other.eps"
    return {
        f"{path}.type": kind, f"{path}.start": 1.0, f"{path}.end": end, f"{path}.decay": decay,
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "is_found"),
    [
        (epsilon("linear", 1), True),
        (epsilon("exp", 1), True),
        (epsilon("linear", 1_000), False),
        (epsilon("linear", 1, end=1.0), False),
    ],
)
def test_exploration_that_ends_before_the_first_updates_is_found(
    recorded: Recorded, options: dict[str, object], is_found: bool
) -> None:
    assert (exploration_ended(recorded(options, LOSS)) is not None) is is_found


@pytest.mark.parametrize(
    ("kind", "decay", "is_found"),
    [("linear", 100_000, True), ("exp", 100_000, True), ("linear", 1_000, False)],
)
def test_exploration_that_is_longer_than_the_budget_is_found(
    recorded: Recorded, kind: str, decay: int, is_found: bool
) -> None:
    assert (exploration_goes_on(recorded(epsilon(kind, decay))) is not None) is is_found


def test_an_epsilon_that_never_falls_is_found(recorded: Recorded) -> None:
    found = exploration_goes_on(recorded(epsilon("linear", 1, end=1.0)))
    assert found is not None
    assert found.change[0].option == "policy.other.eps.end"
    assert exploration_goes_on(recorded(epsilon("linear", 1, end=0.05))) is None


def test_noisy_layers_have_no_epsilon(recorded: Recorded) -> None:
    options = epsilon("linear", 1, **{"policy.model.noisy": True})
    with pytest.raises(MissingEvidenceError, match="noisy"):
        exploration_ended(recorded(options, LOSS))


@pytest.mark.parametrize(
    ("share", "weight", "is_found"), [(0.99, 1.0, True), (0.99, 0.0, False), (0.5, 1.0, False)]
)
def test_a_bonus_that_keeps_the_policy_random_is_found(
    recorded: Recorded, share: float, weight: float, is_found: bool
) -> None:
    options = {**DISCRETE, "policy.learn.entropy_weight": weight}
    run = recorded(options, {"learner/entropy": [share * MOST] * 8})
    assert (entropy_dominates(run) is not None) is is_found


@pytest.mark.parametrize(
    ("entropy", "returns", "is_found"),
    [
        ([1.0, 0.5, 0.01, 0.01, 0.0, 0.0], [9, 10, 9, 10], True),
        ([1.0, 0.5, 0.01, 0.01, 0.0, 0.0], [9, 10, 90, 100], False),
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5], [9, 10, 9, 10], False),
    ],
)
def test_a_policy_that_is_deterministic_too_early_is_found(
    recorded: Recorded, entropy: list[float], returns: list[float], is_found: bool
) -> None:
    run = recorded(DISCRETE, {"learner/entropy": entropy, "evaluator/return_mean": returns})
    assert (entropy_collapsed(run) is not None) is is_found


def test_the_entropy_of_real_actions_counts_by_number(recorded: Recorded) -> None:
    options: dict[str, object] = {"policy.action_low": (-1.0, -1.0), "policy.learn.alpha": 1e-6}
    found = entropy_collapsed(recorded(options, {"learner/entropy": [-9.0] * 4}))
    assert found is not None
    assert found.numbers["entropy_per_number"] == -4.5
    assert found.change[0].option == "policy.learn.auto_alpha"
    assert entropy_collapsed(recorded(options, {"learner/entropy": [-3.0] * 4})) is None


@pytest.mark.parametrize(
    ("values", "is_found"),
    [([0.01] * 20, False), ([0.3] * 20, True), ([0.01] * 17 + [2.0] * 3, True)],
)
def test_updates_that_change_the_policy_too_much_are_found(
    recorded: Recorded, values: list[float], is_found: bool
) -> None:
    found = kl_spikes(recorded(curves={"learner/approx_kl": values}))
    assert (found is not None) is is_found


def test_a_clip_that_leaves_no_gradient_is_found(recorded: Recorded) -> None:
    def clipped(share: float, divergence: float, count: int = 8) -> Any:
        curves = {"learner/clipfrac": [share] * count, "learner/approx_kl": [divergence] * count}
        return mostly_clipped(recorded({"policy.learn.clip_ratio": 1e-4}, curves))

    assert clipped(0.9, 0.001) is not None
    assert clipped(0.9, 0.001, 3) is not None
    assert clipped(0.2, 0.001) is None
    assert clipped(0.9, 0.3) is None  # the policy changes: kl_spikes says so


def test_actions_at_their_bounds_are_found(recorded: Recorded) -> None:
    rng = np.random.default_rng(0)
    bound = rng.choice([-2.0, 2.0], (400, 1)).astype(np.float32)
    spread = rng.uniform(-2, 2, (400, 1)).astype(np.float32)
    for action, is_found in ((bound, True), (spread, False)):
        run = recorded(state={"buffer": {"columns": {"action": action}}})
        assert (actions_saturated(run) is not None) is is_found


@pytest.mark.parametrize(
    ("returns", "episodes", "is_found"),
    [
        ([10, 90, 15, 80, 20, 85, 12, 88, 14], 1, True),
        ([10, 90, 15, 80, 20, 85, 12, 88, 14], 10, False),
        ([10, 20, 30, 40, 50, 60, 70, 80, 90], 1, False),
    ],
)
def test_evaluations_that_differ_more_than_they_rise_are_found(
    recorded: Recorded, returns: list[float], episodes: int, is_found: bool
) -> None:
    curves = {"evaluator/return_mean": returns, "evaluator/episode_count": [float(episodes)]}
    assert (evaluation_noise(recorded(curves=curves)) is not None) is is_found
