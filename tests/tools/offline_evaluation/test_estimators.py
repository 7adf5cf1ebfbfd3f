"""Sums of off-policy evaluation: expectations over all episodes of a small MDP, and bad weights."""

from __future__ import annotations

import numpy as np
import pytest

from dicore.errors import NonFiniteError, UsageError
from dicore_tools.evaluation.offline.estimators import (
    bootstrap_interval,
    discounted_returns,
    doubly_robust,
    effective_episodes,
    importance_sampling,
    lengths_of,
    log_weights,
    observed,
    of_episodes,
    weighted_importance_sampling,
)
from tests.tools.offline_evaluation.mdp import (
    GAMMA,
    MU,
    PI,
    STATES,
    STEPS,
    Floats,
    every_episode,
    exact_q,
    exact_value,
)

ALL = every_episode()
TRUE = exact_value()[0, 0]


def doubly(q: Floats, value: Floats) -> Floats:
    at = np.broadcast_to(np.arange(STEPS), ALL.state.shape)
    taken, states = q[at, ALL.state, ALL.action], value[at, ALL.state]
    last = np.zeros(len(ALL.chance))
    return doubly_robust(ALL.reward, ALL.log_ratio, taken, states, last, ALL.length, GAMMA)


def test_the_episodes_are_all_of_the_behaviour() -> None:
    assert ALL.chance.sum() == pytest.approx(1)
    assert len(ALL.chance) == 42
    behaviour = ALL.chance @ discounted_returns(ALL.reward, GAMMA)
    assert behaviour == pytest.approx(exact_value(MU)[0, 0])
    assert abs(behaviour - TRUE) > 0.1, "else an estimator that ignores the policy would pass"


def test_importance_sampling_has_the_exact_value_as_its_mean() -> None:
    found = importance_sampling(ALL.reward, log_weights(ALL.log_ratio), GAMMA)
    assert ALL.chance @ found == pytest.approx(TRUE)


def test_weighted_importance_sampling_converges_to_the_exact_value() -> None:
    weights = log_weights(ALL.log_ratio)
    (found,) = weighted_importance_sampling(ALL.reward, weights, GAMMA, ALL.chance[None])
    assert found == pytest.approx(TRUE)
    (once,) = weighted_importance_sampling(ALL.reward, weights, GAMMA)
    ones = np.ones((1, len(ALL.chance)))
    assert weighted_importance_sampling(ALL.reward, weights, GAMMA, ones)[0] == once
    assert once != pytest.approx(TRUE)


def test_weighted_importance_sampling_of_the_behaviour_is_the_mean_return() -> None:
    none = np.zeros_like(ALL.log_ratio)
    (found,) = weighted_importance_sampling(ALL.reward, none, GAMMA)
    assert found == pytest.approx(discounted_returns(ALL.reward, GAMMA).mean())


def test_weights_stay_after_the_end_of_an_episode() -> None:
    """A short episode counts as long as the others: it has earned nothing more."""
    reward = np.array([[1.0, 0.0], [1.0, 10.0]])
    ratio = np.log(np.array([[3.0, 1.0], [1.0, 1.0]]))
    (found,) = weighted_importance_sampling(reward, log_weights(ratio), 1.0)
    assert found == pytest.approx(1 + 10 * 1 / (3 + 1))


def test_episodes_that_were_cut_off_count_until_then() -> None:
    """Half of all episodes are recorded for one step only, whatever would have followed."""
    first = np.arange(STEPS) < 1
    length = np.concatenate([ALL.length, np.minimum(ALL.length, 1)])
    cut = np.concatenate([np.zeros_like(ALL.length, np.bool_), ALL.length > 1])
    reward = np.concatenate([ALL.reward, ALL.reward * first])
    weights = log_weights(np.concatenate([ALL.log_ratio, ALL.log_ratio * first]))
    count = np.tile(ALL.chance, 2)[None] / 2
    known = weights + observed(length, cut)
    (found,) = weighted_importance_sampling(reward, known, GAMMA, count)
    assert found == pytest.approx(TRUE)
    assert (observed(ALL.length, ALL.length == STEPS) == 0).all()


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_doubly_robust_has_the_exact_value_as_its_mean_whatever_q_is(scale: float) -> None:
    q = scale * np.random.default_rng(0).normal(size=PI.shape)
    value = (PI * q).sum(-1)
    assert ALL.chance @ doubly(q, value) == pytest.approx(TRUE)


def test_doubly_robust_without_q_is_importance_sampling() -> None:
    none = np.zeros_like(PI)
    plain = importance_sampling(ALL.reward, log_weights(ALL.log_ratio), GAMMA)
    np.testing.assert_allclose(doubly(none, none[..., 0]), plain)


def test_the_exact_q_lowers_the_variance() -> None:
    value, none = exact_value(), np.zeros((STEPS, STATES))
    found, plain = doubly(exact_q(value), value), doubly(np.zeros_like(PI), none)
    variance = [ALL.chance @ np.square(each - TRUE) for each in (found, plain)]
    assert variance[0] < 0.5 * variance[1]


def test_doubly_robust_goes_on_from_a_truncation() -> None:
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    found = doubly_robust(one, none, one, 2 * one, np.array([5.0]), np.array([1]), 0.5)
    assert found == pytest.approx([2 + (1 + 0.5 * 5 - 1)])


def test_columns_of_steps_become_rows_of_episodes() -> None:
    end = np.array([False, True, True, False, False, True])
    found = of_episodes(np.arange(6) + 1, end)
    np.testing.assert_array_equal(found, [[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    np.testing.assert_array_equal(lengths_of(end), [2, 1, 3])


def test_weights_that_overflow_are_one_error_with_episode_and_step() -> None:
    ratio = np.zeros((3, 4))
    ratio[1, :3] = 300.0
    ones, none = np.ones_like(ratio), np.zeros_like(ratio)
    with pytest.raises(NonFiniteError, match=r"episode 1: exp\(900\) at step 2") as plain:
        importance_sampling(ones, log_weights(ratio), 1.0)
    assert "wis" in plain.value.hint
    with pytest.raises(NonFiniteError, match="overflow in episode 1"):
        doubly_robust(ones, ratio, none, none, np.zeros(3), np.full(3, 4), 1.0)
    (found,) = weighted_importance_sampling(ones, log_weights(ratio), 1.0)
    assert found == pytest.approx(4), "normalised weights do not overflow"


def test_an_action_that_the_policy_never_takes_ends_what_is_learnt() -> None:
    ratio = np.array([[0.0, -np.inf], [0.0, 0.0]])
    reward = np.array([[1.0, 100.0], [1.0, 2.0]])
    (found,) = weighted_importance_sampling(reward, log_weights(ratio), 1.0)
    assert found == pytest.approx(1 + 2)
    never = np.full((2, 2), -np.inf)
    assert np.isnan(weighted_importance_sampling(reward, log_weights(never), 1.0)).all()
    assert effective_episodes(log_weights(never)) == 0
    none = np.zeros((2, 2))
    plain = doubly_robust(reward, ratio, none, none, np.zeros(2), np.full(2, 2), 1.0)
    assert plain == pytest.approx([1.0, 3.0])


def test_effective_episodes() -> None:
    assert effective_episodes(np.zeros((5, 2))) == pytest.approx(5)
    assert effective_episodes(np.array([[900.0], [0.0]])) == pytest.approx(1)


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(3, 2, 400)
    found = bootstrap_interval(
        lambda count: count @ values / count.sum(1), 400, np.random.default_rng(0)
    )
    assert found is not None
    half = 1.96 * values.std() / 20
    assert found == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


def test_no_interval_without_two_episodes_or_without_estimates() -> None:
    rng = np.random.default_rng(0)
    assert bootstrap_interval(lambda count: count[:, 0], 1, rng) is None
    assert bootstrap_interval(lambda count: np.full(len(count), np.nan), 5, rng) is None


def test_a_discount_out_of_range_is_refused() -> None:
    with pytest.raises(UsageError, match="discount"):
        discounted_returns(np.ones((1, 2)), 1.5)
