"""Rules about gradient updates, on evidence that is made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore_tools.diagnosis.finding import MissingEvidenceError
from dicore_tools.diagnosis.rules_updates import (
    buffer_small,
    dead_units,
    gradients_clipped,
    gradients_vanish,
    hardly_any_updates,
    learning_rate_ended,
    learning_rate_high,
    learning_rate_low,
    loss_explodes,
    replay_ratio_high,
    replay_ratio_low,
    updates_skipped,
)
from tests.tools.diagnosis.conftest import Recorded

LENGTH = "collector/avg_envstep_per_episode"


def learner(
    rate: float = 1e-3,
    gradient: float = 1e-3,
    weight: float = 0.06,
    dead: int = 0,
    steps: int = 2_000,
) -> dict[str, Any]:
    """Returns the state of a layer of 100 inputs and 32 units, and its Adam."""
    shape, rng = (32, 100), np.random.default_rng(0)
    mean = rng.normal(size=32) + 3.0
    mean[:dead] = 0.0
    moments = {
        0: {"step": steps, "exp_avg": np.ones(shape), "exp_avg_sq": np.full(shape, gradient**2)},
        1: {"step": steps, "exp_avg": mean, "exp_avg_sq": np.full(32, gradient**2)},
    }
    optimizer = {"state": moments, "param_groups": [{"lr": rate, "eps": 1e-8}]}
    model = {"weight": np.full(shape, weight), "bias": np.zeros(32)}
    return {"learner": {"policy": {"model": model, "optimizer": optimizer}}}


def test_a_warm_up_as_long_as_the_budget_is_found(recorded: Recorded) -> None:
    path = "policy.collect.random_collect_size"
    found = hardly_any_updates(recorded({path: 1_900}, env_step=2_000))
    assert found is not None
    assert found.change[0].option == path
    assert hardly_any_updates(recorded({path: 512}, env_step=2_000)) is None


@pytest.mark.parametrize(
    ("updates", "on_policy", "is_high", "is_low"),
    [(2_000, False, False, False), (40_000, False, True, False), (3, False, False, True),
     (600, True, False, False), (4_000, True, True, False)],
)  # fmt: skip
def test_how_often_a_sample_is_used(
    recorded: Recorded, updates: int, on_policy: bool, is_high: bool, is_low: bool
) -> None:
    options = {"policy.on_policy": on_policy, "policy.learn.batch_size": 64}
    run = recorded(options, env_step=2_000, updates=updates)
    assert (replay_ratio_high(run) is not None) is is_high
    assert (replay_ratio_low(run) is not None) is is_low


def test_the_warm_up_counts_no_updates(recorded: Recorded) -> None:
    options = {"policy.learn.batch_size": 64, "policy.collect.random_collect_size": 1_900}
    found = replay_ratio_high(recorded(options, env_step=2_000, updates=2_000))
    assert found is not None
    assert found.numbers["updates_per_env_step"] == 20


def test_the_option_is_the_one_that_is_set(recorded: Recorded) -> None:
    options = {"policy.learn.batch_size": 64, "policy.learn.update_per_step": 20.0}
    found = replay_ratio_high(recorded(options, env_step=100, updates=2_000))
    assert found is not None
    assert found.change[0].option == "policy.learn.update_per_step"


@pytest.mark.parametrize(("size", "is_found"), [(256, True), (50_000, False)])
def test_a_buffer_of_a_few_batches_is_found(recorded: Recorded, size: int, is_found: bool) -> None:
    options = {"policy.other.replay_buffer.replay_buffer_size": size, "policy.learn.batch_size": 64}
    state = {"learner": {"policy": {"target_model": {}}}}
    assert (buffer_small(recorded(options, {LENGTH: [100.0]}, state)) is not None) is is_found


def test_a_capacity_in_episodes_is_not_compared_with_a_batch(recorded: Recorded) -> None:
    options = {
        "policy.other.replay_buffer.replay_buffer_size": 1_000, "policy.learn.batch_size": 256,
        "policy.other.replay_buffer.max_episode_len": 100,
    }  # fmt: skip
    with pytest.raises(MissingEvidenceError, match="number of episodes"):
        buffer_small(recorded(options, {LENGTH: [100.0]}, learner(), env_step=3_000))


def test_a_run_without_an_update_is_found(recorded: Recorded) -> None:
    found = hardly_any_updates(recorded({"policy.learn.batch_size": 64}, env_step=60, updates=0))
    assert found is not None
    assert "no update was made in 60 env steps" in found.what


def test_an_algorithm_of_new_samples_needs_no_large_buffer(recorded: Recorded) -> None:
    options = {"policy.other.replay_buffer.replay_buffer_size": 64, "policy.learn.batch_size": 32}
    with pytest.raises(MissingEvidenceError, match="target_model"):
        buffer_small(recorded(options, {LENGTH: [100.0]}, learner()))


def test_a_rate_that_moves_weights_by_their_size_is_found(recorded: Recorded) -> None:
    found = learning_rate_high(recorded(state=learner(rate=0.1, weight=1.0)))
    assert found is not None
    assert found.numbers["jump"] == pytest.approx(0.1 * 300**0.5)
    assert learning_rate_high(recorded(state=learner(rate=0.1))) is None  # they have not grown
    assert learning_rate_high(recorded(state=learner(weight=1.0))) is None


@pytest.mark.parametrize(("option", "unit"), [("anneal", "env_step"), ("learning_rate_decay", "u")])
def test_a_rate_that_fell_long_ago_is_found(recorded: Recorded, option: str, unit: str) -> None:
    def run(end: float, length: int) -> Any:
        options = {"policy.learn.learning_rate_end": end, f"policy.learn.{option}": length}
        return recorded(options, {LENGTH: [100.0]}, learner())

    made = run(0.0, 1).env_steps if option == "anneal" else run(0.0, 1).updates
    found = learning_rate_ended(run(0.0, made // 4))
    assert found is not None
    assert [each.option.rpartition(".")[2] for each in found.change] == [
        option, "learning_rate_end",
    ]  # fmt: skip
    assert learning_rate_ended(run(0.0, made // 3)) is None
    assert learning_rate_ended(run(0.05, made // 4)) is None


def test_a_rate_that_moves_nothing_is_found(recorded: Recorded) -> None:
    assert learning_rate_low(recorded(state=learner(rate=1e-7))) is not None
    assert learning_rate_low(recorded(state=learner())) is None
    assert learning_rate_low(recorded(state=learner(rate=1e-7), updates=100)) is None


def test_an_optimizer_that_was_begun_anew_tells_nothing_of_the_rate(recorded: Recorded) -> None:
    with pytest.raises(MissingEvidenceError, match="no optimizer"):
        learning_rate_low(recorded(state=learner(rate=1e-7, steps=10)))


def test_networks_side_by_side_have_their_own_shape(recorded: Recorded) -> None:
    state = learner(rate=0.1)
    shape = (2, 100, 32)  # [networks, inputs, units]
    state["learner"]["policy"]["model"] = {"weights.0": np.ones(shape)}
    part = state["learner"]["policy"]["optimizer"]["state"][0]
    part |= {"exp_avg": np.ones(shape), "exp_avg_sq": np.ones(shape)}
    found = learning_rate_high(recorded(state=state))
    assert found is not None
    assert found.numbers["growth"] == pytest.approx(300**0.5)


def test_a_tiny_clip_that_cuts_all_gradients_is_found(recorded: Recorded) -> None:
    numbers = 32 * 101
    options = {"policy.learn.max_grad_norm": 1e-4}
    state = learner(gradient=1e-4 / numbers**0.5)
    assert gradients_clipped(recorded(options, state=state)) is not None
    rare = learner(gradient=1e-5 / numbers**0.5)
    assert gradients_clipped(recorded(options, state=rare)) is None
    usual = recorded({"policy.learn.max_grad_norm": 0.5}, state=learner(gradient=0.01))
    assert gradients_clipped(usual) is None


def test_gradients_of_zero_are_found(recorded: Recorded) -> None:
    assert gradients_vanish(recorded(state=learner(gradient=1e-10))) is not None
    assert gradients_vanish(recorded(state=learner())) is None


@pytest.mark.parametrize(("dead", "is_found"), [(31, True), (18, False), (32, False)])
def test_units_without_gradient_are_found(recorded: Recorded, dead: int, is_found: bool) -> None:
    found = dead_units(recorded(state=learner(dead=dead)))
    assert (found is not None) is is_found
    if found is not None:
        assert found.numbers == {"share": dead / 32, "units": 32}


def test_several_optimizers_are_looked_at(recorded: Recorded) -> None:
    state = learner(dead=31)
    policy = state["learner"]["policy"]
    fine = learner()["learner"]["policy"]["optimizer"]
    policy["optimizers"] = {"actor": fine, "critic": policy.pop("optimizer")}
    assert dead_units(recorded(state=state)) is not None


def test_another_optimizer_is_no_evidence(recorded: Recorded) -> None:
    state = learner()
    for part in state["learner"]["policy"]["optimizer"]["state"].values():
        del part["exp_avg_sq"]
    with pytest.raises(MissingEvidenceError, match="no state of Adam"):
        dead_units(recorded(state=state))


def test_skipped_updates_are_found(recorded: Recorded) -> None:
    found = updates_skipped(recorded(curves={"learner/skipped_updates": [0, 3, 12]}))
    assert found is not None
    assert found.numbers["skipped"] == 12
    assert updates_skipped(recorded()) is None


def test_a_loss_without_end_is_found(recorded: Recorded) -> None:
    growing = [10.0**power for power in range(12)]
    assert loss_explodes(recorded(curves={"learner/total_loss": growing})) is not None
    assert loss_explodes(recorded(curves={"learner/total_loss": [1.0, 2.0] * 6})) is None
