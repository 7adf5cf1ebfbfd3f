"""Probabilities of actions: beside torch's distributions, at bounds, masks, what has none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dicore.errors import UsageError
from dicore_tools.evaluation.offline.action_probabilities import (
    Bounds,
    action_log_prob,
    discrete_probabilities,
)
from tests.tools.offline_evaluation.mdp import Floats

LOGIT = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
MEAN, STD = np.array([[0.3, -0.8]]), np.array([[0.5, 1.5]])
OUTPUT = {"mean": MEAN, "log_std": np.log(STD)}
BOUNDS = Bounds(np.array([-2.0, 0.0]), np.array([2.0, 1.0]))


def test_a_softmax_is_torchs_categorical() -> None:
    action = np.array([0, 1, 2, 2, 1])
    found = action_log_prob("softmax", {"logit": LOGIT}, action + 4, start=4)
    wanted = torch.distributions.Categorical(logits=torch.from_numpy(LOGIT))
    np.testing.assert_allclose(found, wanted.log_prob(torch.from_numpy(action)), rtol=1e-5)


def test_epsilon_greedy_and_greedy() -> None:
    found = discrete_probabilities("eps_greedy", {"logit": LOGIT}, None, 0.3)
    best = LOGIT.argmax(1)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(found[np.arange(5), best], 0.7 + 0.1)
    taken = action_log_prob("greedy", {"action": best}, np.array([best[0], *((best[1:] + 1) % 3)]))
    assert taken.tolist() == [0.0] + [-np.inf] * 4


@pytest.mark.parametrize("kind", ["softmax", "eps_greedy"])
def test_masked_actions_have_no_probability(kind: str) -> None:
    mask = np.array([[1, 0, 1]] * 5)
    found = discrete_probabilities(kind, {"logit": LOGIT}, {"action_mask": mask}, 0.5)
    assert (found[:, 1] == 0).all()
    np.testing.assert_allclose(found.sum(1), 1)


def test_a_squashed_gaussian_is_torchs() -> None:
    action = np.array([[1.3, 0.2]])
    found = action_log_prob("squashed_gaussian", OUTPUT, action, bounds=BOUNDS)
    kinds = torch.distributions
    base = kinds.Normal(torch.from_numpy(MEAN), torch.from_numpy(STD))
    middle, half = (torch.from_numpy(each) for each in BOUNDS.units)
    steps = [kinds.TanhTransform(), kinds.AffineTransform(middle, half)]
    wanted = kinds.TransformedDistribution(base, steps).log_prob(torch.from_numpy(action)).sum()
    assert found[0] == pytest.approx(float(wanted))
    edge = action_log_prob("squashed_gaussian", OUTPUT, np.array([[2.0, 1.0]]), bounds=BOUNDS)
    assert np.isfinite(edge).all(), "rounding to the bound is no impossible action"


def test_a_clipped_gaussian_has_its_tails_at_the_bounds() -> None:
    """The density between the bounds and both probabilities at them sum up to 1."""
    one = Bounds(np.array([-2.0]), np.array([2.0]))
    output = {"mean": np.array([[0.3]]), "log_std": np.log([[0.9]])}

    def chance(x: Floats) -> Floats:
        outputs = {name: np.repeat(each, len(x), 0) for name, each in output.items()}
        return np.exp(action_log_prob("gaussian", outputs, x[:, None], bounds=one))

    inner = np.linspace(-2 + 1e-4, 2 - 1e-4, 2001)
    inside = np.trapezoid(chance(inner), inner)
    low, high = chance(np.array([-2.0, 2.0]))
    assert inside + low + high == pytest.approx(1, abs=1e-3)
    assert high == pytest.approx(0.5 * math.erfc((1 - 0.3) / 0.9 / math.sqrt(2)))


@pytest.mark.parametrize(("low", "high"), [(-2.0, 2.0), (0.0, 1000.0), (99.0, 101.0)])
@pytest.mark.parametrize(("acted", "wanted"), [(10.0, 8.5), (7.0, 6.5), (2.0, 1.5)])
def test_saturated_squashed_actions_are_as_probable_as_their_tail(
    low: float, high: float, acted: float, wanted: float
) -> None:
    """Ratios have the mean 1 under the policy that acted, also if tanh rounds to the bound."""
    one = Bounds(np.array([low]), np.array([high]))
    drawn = np.random.default_rng(0).normal(acted, 0.5, (50_000, 1)).astype(np.float32)
    action = np.tanh(drawn) * np.float32((high - low) / 2) + np.float32((high + low) / 2)

    def log_prob(mean: float) -> Floats:
        output = {"mean": np.full_like(action, mean), "log_std": np.log(np.full_like(action, 0.5))}
        return action_log_prob("squashed_gaussian", output, action, bounds=one)

    ratio = np.exp(log_prob(wanted) - log_prob(acted))
    assert ratio.mean() == pytest.approx(1, abs=0.06)


def test_a_far_tail_is_finite() -> None:
    output = {"mean": np.array([[-500.0]]), "log_std": np.zeros((1, 1))}
    one = Bounds(np.array([-2.0]), np.array([2.0]))
    found = action_log_prob("gaussian", output, np.array([[2.0]]), bounds=one)
    assert found[0] == pytest.approx(-0.5 * 501**2, rel=1e-3)


def test_unbounded_actions_keep_their_units() -> None:
    free = Bounds(np.array([-np.inf]), np.array([np.inf]))
    output = {"mean": np.array([[1.0]]), "log_std": np.zeros((1, 1))}
    found = action_log_prob("gaussian", output, np.array([[2.0]]), bounds=free)
    assert found[0] == pytest.approx(-0.5 - 0.5 * np.log(2 * np.pi))


@pytest.mark.parametrize(
    ("kind", "output", "action"),
    [
        ("softmax", {"logit": [LOGIT, LOGIT]}, np.zeros(5, np.int64)),
        ("softmax", {"logit": LOGIT}, np.zeros((5, 2), np.int64)),
        ("greedy", {"action": np.zeros((5, 2), np.int64)}, np.zeros((5, 2), np.int64)),
        ("gaussian", {"logit": LOGIT}, np.zeros((5, 2))),
    ],
)
def test_what_has_no_probabilities_is_refused(kind: str, output: object, action: object) -> None:
    with pytest.raises(UsageError):
        action_log_prob(kind, output, action, bounds=BOUNDS)  # type: ignore[arg-type]
