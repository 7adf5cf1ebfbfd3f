"""TRPO and NPG: the step against dense matrices, the bound, what moves by what, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call

from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore_plugins.functional import kl_divergence, log_prob_entropy
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, policy_of, samples_of

ACTIONS = {"discrete": spaces.Discrete(3), "box": BOX}
TINY = ("policy.model.encoder_hidden_size_list=[3]", "policy.learn.adv_norm=false",
        "policy.learn.cg_iterations=200", "policy.learn.value_epoch=0")  # fmt: skip


def policy_and_samples(name: str, actions: Any, *options: str) -> Any:
    torch.manual_seed(0)
    policy = policy_of(name, actions, *options)
    return policy, samples_of(policy, seed=0)


def parameters(policy: Any) -> dict[str, torch.Tensor]:
    model = policy.get_attribute("model")
    return {name: each.detach().clone() for name, each in model.named_parameters()}


def dense_step(policy: Any, samples: Any, target_kl: float, damping: float) -> dict[str, Any]:
    """Returns the parameters after a whole step, by the Hessian of the divergence."""
    model, batch = policy.get_attribute("model"), samples.to_torch()
    obs, action = batch["obs"], policy._action_index(batch)
    before = parameters(policy)
    names = [name for name in before if name.partition(".")[0] not in ("critic", "value_norm")]
    old = {key: each.detach() for key, each in model(obs).items()}
    acted, _ = log_prob_entropy(old, action)

    def output(vector: torch.Tensor) -> Any:
        pieces = vector.split([before[name].numel() for name in names])
        new = {n: p.view_as(before[n]) for n, p in zip(names, pieces, strict=True)}
        return functional_call(model, {**before, **new}, (obs,))

    def gain(vector: torch.Tensor) -> torch.Tensor:
        log_prob, _ = log_prob_entropy(output(vector), action)
        return ((log_prob - acted).exp() * batch["advantage"]).mean()

    start = torch.cat([before[name].reshape(-1) for name in names])
    gradient = jacobian(gain, start)
    fisher = hessian(lambda vector: kl_divergence(old, output(vector)).mean(), start)
    fisher = fisher + damping * torch.eye(len(start))
    direction = torch.linalg.solve(fisher, gradient)
    step = (2 * target_kl / (direction @ fisher @ direction)).sqrt() * direction
    moved = (start + step).split([before[name].numel() for name in names])
    return {name: piece.view_as(before[name]) for name, piece in zip(names, moved, strict=True)}


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_a_natural_step_is_that_of_dense_matrices(actions: Any) -> None:
    options = (*TINY, "policy.learn.target_kl=0.001", "policy.learn.cg_damping=0.01")
    policy, samples = policy_and_samples("npg", actions, *options)
    twin, _ = policy_and_samples("npg", actions, *options)
    wanted = dense_step(twin, samples, 0.001, 0.01)
    before = parameters(policy)
    (result,) = policy.learn_mode.forward(samples)
    after = parameters(policy)
    assert result["line_search"] == 1
    assert 0.0005 < float(result["approx_kl"]) < 0.002
    for name, value in wanted.items():
        assert not torch.equal(after[name], before[name])
        torch.testing.assert_close(after[name], value, rtol=1e-2, atol=1e-4)
    for name in after.keys() - wanted.keys():
        assert torch.equal(after[name], before[name]), f"{name} is of the values"


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("target_kl", [0.003, 0.3])
def test_a_step_improves_the_objective_within_the_bound(actions: Any, target_kl: float) -> None:
    policy, samples = policy_and_samples("trpo", actions, f"policy.learn.target_kl={target_kl}")
    tensors = samples.to_torch()
    index = policy._action_index(tensors)
    model = policy.get_attribute("model")
    with torch.no_grad():
        old = tree_map(torch.clone, model(tensors["obs"]))
    result = policy.learn_mode.forward(samples)[0]
    with torch.no_grad():
        new = model(tensors["obs"])
    advantage = tensors["advantage"] - tensors["advantage"].mean()
    ratio = (log_prob_entropy(new, index)[0] - log_prob_entropy(old, index)[0]).exp()
    kl, entropy = kl_divergence(old, new).mean().item(), log_prob_entropy(old, index)[1].mean()
    assert 0 < kl <= target_kl * 1.001
    assert kl == pytest.approx(result["approx_kl"].item(), 1e-3)
    assert (ratio * advantage).mean().item() > 0
    assert result["entropy"].item() == pytest.approx(entropy.item(), rel=1e-4)


def test_a_policy_stays_where_no_step_is_good() -> None:
    options = ("policy.learn.line_search_steps=1", "policy.learn.target_kl=1000",
               "policy.learn.cg_damping=0", "policy.learn.value_epoch=0")  # fmt: skip
    policy, samples = policy_and_samples("trpo", spaces.Discrete(3), *options)
    before = parameters(policy)
    (result,) = policy.learn_mode.forward(samples)
    assert (result["line_search"], float(result["approx_kl"])) == (0, pytest.approx(0, abs=1e-6))
    assert all(torch.equal(before[name], each) for name, each in parameters(policy).items())


def test_a_step_does_not_depend_on_the_unit_of_the_rewards() -> None:
    found = []
    for unit in (1.0, 1e-6):
        options = ("policy.learn.adv_norm=false", "policy.learn.value_epoch=0")
        policy, samples = policy_and_samples("npg", spaces.Discrete(3), *options)
        samples.columns["advantage"] = samples["advantage"] * np.float32(unit)
        (result,) = policy.learn_mode.forward(samples)
        found.append(float(result["approx_kl"]))
    assert found[1] == pytest.approx(found[0], rel=0.02)
    assert found[0] > 0.001


@pytest.mark.parametrize("name", ["trpo", "npg"])
def test_advantages_that_are_not_finite_move_nothing(name: str) -> None:
    policy, samples = policy_and_samples(name, BOX, "policy.learn.value_epoch=0")
    samples.columns["advantage"] = np.full_like(samples["advantage"], np.nan)
    before = parameters(policy)
    (result,) = policy.learn_mode.forward(samples)
    assert result["line_search"] == 0
    assert all(torch.equal(before[key], each) for key, each in parameters(policy).items())


@pytest.mark.parametrize("shared", ["false", "true"])
def test_values_learn_and_leave_the_policy_alone(shared: str) -> None:
    options = (f"policy.model.share_encoder={shared}", "policy.learn.optimizer.weight_decay=0.1")
    one, samples = policy_and_samples("trpo", BOX, *options, "policy.learn.value_epoch=0")
    two, _ = policy_and_samples("trpo", BOX, *options, "policy.learn.value_epoch=5")
    one.learn_mode.forward(samples)
    results = two.learn_mode.forward(samples)[1:]
    assert float(results[-1]["value_loss"]) < float(results[0]["value_loss"])
    before, after = parameters(one), parameters(two)
    moved = {name.partition(".")[0] for name in before if not before[name].equal(after[name])}
    assert moved == {"critic"}


@pytest.mark.parametrize("name", ["trpo", "npg"])
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    options = ["policy.collect.n_sample=64", "policy.learn.batch_size=32",
               "policy.model.value_norm=true"]  # fmt: skip
    one, two = same_after_resume(name, "cartpole", options, tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_several_learners_are_refused() -> None:
    from dicore.config import bind, compile_config
    from dicore.interfaces.env import EnvSpec
    from dicore_dist.workers.learners import learner_problems

    given = {"env": {"type": "cartpole"}, "policy": {"type": "trpo"}}
    compiled = compile_config(
        {**given, "pipeline": {"type": "parallel", "system": {"learner_num": 2}}}
    )
    spec = EnvSpec(spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2))
    (found,) = learner_problems(bind(compiled, spec).cfg)
    assert found[0] == "policy.type"
    assert "expected learner_num 1" in found[1]


def test_a_shorter_step_that_is_never_tried_is_refused() -> None:
    with pytest.raises(ConfigError, match="line_search_shrink"):
        policy_of("npg", BOX, "policy.learn.line_search_shrink=0.5")


def test_what_it_does_not_do_is_refused() -> None:
    for option, problem in {
        "policy.learn.target_kl=0": "target_kl",
        "policy.learn.line_search_steps=0": "line_search_steps",
        "policy.model.rnn=lstm": "model.rnn",
        "policy.collect.n_episode=4": "n_sample",
        "policy.learn.compile=true": "compile",
        "policy.learn.value_weight=1": "value_weight",
    }.items():
        with pytest.raises(ConfigError, match=problem):
            policy_of("trpo", BOX, option)
