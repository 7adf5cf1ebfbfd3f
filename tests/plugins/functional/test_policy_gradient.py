"""Losses of policy gradients: by hand, and against float64 NumPy, sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ActionError, SchemaError, UsageError
from dicore_plugins.functional import (
    a2c_error,
    categorical_and_pull,
    coma_advantage,
    happo_factor,
    inverted_gradient,
    kl_divergence,
    log_prob_entropy,
    pg_error,
    ppg_joint_error,
    ppo_error,
    ppo_policy_error,
    ppo_slopes,
    squashed_gaussian,
    uniform_entropy,
    upgo_error,
    value_error,
)

B, A = 32, 3
NAMES = ("log_prob", "old_log_prob", "entropy", "value", "old_value", "advantage", "target")


def columns(seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    found = {name: torch.from_numpy(rng.normal(size=B).astype(np.float32)) for name in NAMES}
    found["old_log_prob"] = found["log_prob"] + 0.4 * found["old_log_prob"]
    for name in ("log_prob", "entropy", "value"):
        found[name].requires_grad_()
    return found


def weights(weighted: bool) -> torch.Tensor | None:
    return torch.linspace(0.1, 2, B) if weighted else None


def reference(
    given: dict[str, torch.Tensor],
    weight: torch.Tensor | None,
    clip: float,
    value_clip: float | None,
    dual: float | None,
) -> dict[str, float]:
    """PPO, one sample after the other, in doubles."""
    rows = {name: each.detach().double().numpy() for name, each in given.items()}
    w = np.ones(B) if weight is None else weight.double().numpy()
    sums = dict.fromkeys(("policy", "value", "entropy", "approx_kl", "clipfrac"), 0.0)
    for i in range(B):
        row = {name: each[i] for name, each in rows.items()}
        change = row["log_prob"] - row["old_log_prob"]
        ratio, adv = math.exp(change), row["advantage"]
        gain = min(ratio * adv, min(max(ratio, 1 - clip), 1 + clip) * adv)
        if dual is not None and adv < 0:
            gain = max(gain, dual * adv)
        error = (row["value"] - row["target"]) ** 2
        if value_clip is not None:
            moved = min(max(row["value"] - row["old_value"], -value_clip), value_clip)
            error = max(error, (row["old_value"] + moved - row["target"]) ** 2)
        sums["policy"] -= w[i] * gain
        sums["value"] += w[i] * error
        sums["entropy"] += w[i] * row["entropy"]
        sums["approx_kl"] += ratio - 1 - change
        sums["clipfrac"] += abs(ratio - 1) > clip
    return {name: total / B for name, total in sums.items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("value_clip", [None, 0.3])
@pytest.mark.parametrize("dual", [None, 1.2])
def test_ppo_equals_the_formula(weighted: bool, value_clip: Any, dual: Any) -> None:
    given, weight = columns(), weights(weighted)
    before = {name: each.detach().clone() for name, each in given.items()}
    loss, info = ppo_error(
        **given, weight=weight, clip_ratio=0.2, value_clip=value_clip, dual_clip=dual
    )
    wanted = reference(given, weight, 0.2, value_clip, dual)
    found = {**loss._asdict(), **info._asdict()}
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.item() == pytest.approx(wanted[name], rel=1e-5, abs=1e-6), name
    assert not info.approx_kl.requires_grad
    assert not info.clipfrac.requires_grad
    assert all(torch.equal(each.detach(), before[name]) for name, each in given.items())


def test_ppo_by_hand() -> None:
    """Ratios 1.5 and 0.5, advantages 1 and -1: gains min(1.5, 1.2) and min(-0.5, -0.8)."""
    log_prob = torch.tensor([1.5, 0.5]).log().requires_grad_()
    loss, info = ppo_policy_error(log_prob, torch.zeros(2), torch.tensor([1.0, -1.0]))
    assert loss.item() == pytest.approx(-(1.2 - 0.8) / 2)
    assert info.clipfrac.item() == 1
    assert info.approx_kl.item() == pytest.approx((-math.log(1.5) - math.log(0.5)) / 2)
    loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [0, 0]


def test_a_dual_clip_bounds_the_loss_of_bad_actions() -> None:
    log_prob = torch.tensor([10.0, 10.0]).log()
    loss, _ = ppo_policy_error(log_prob, torch.zeros(2), torch.tensor([-1.0, 1.0]), dual_clip=3.0)
    assert loss.item() == pytest.approx((3 - 1.2) / 2)


def test_a2c_and_reinforce_by_hand() -> None:
    """log pi = -1 and -2, A = 2 and 3: the loss is (2 + 6) / 2; V = 1 and 1, R = 0 and 3."""
    log_prob = torch.tensor([-1.0, -2.0], requires_grad=True)
    value = torch.tensor([1.0, 1.0], requires_grad=True)
    advantage = torch.tensor([2.0, 3.0])
    assert pg_error(log_prob, advantage).item() == 4
    assert pg_error(log_prob, advantage, torch.tensor([1.0, 0.0])).item() == 1
    entropy = torch.tensor([0.5, 1.5])
    loss = a2c_error(log_prob, entropy, value, advantage, torch.tensor([0.0, 3.0]))
    assert [each.item() for each in loss] == [4, 2.5, 1]
    (loss.policy + loss.value).backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [-1, -1.5]
    assert value.grad is not None
    assert value.grad.tolist() == [1, -2]


def test_no_gradient_flows_through_advantages_and_targets() -> None:
    given = {name: each.detach().clone().requires_grad_() for name, each in columns().items()}
    loss, _ = ppo_error(**given, value_clip=0.3)
    (loss.policy + loss.value + loss.entropy).backward()
    assert {name for name, each in given.items() if each.grad is not None} == {
        "log_prob", "value", "entropy",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: ppo_policy_error(one, one, one, dual_clip=1.0), "dual_clip must be > 1"),
        (lambda one: value_error(one, one, clip_range=0.2), "needs old_value"),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(torch.ones(2))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_auxiliary_phase_of_ppg(weighted: bool) -> None:
    """0.5 (V_aux - R)^2 + beta KL, and (V - R)^2, sample by sample."""
    given, weight = columns(), weights(weighted)
    value, aux, target, kl = (
        given[name].detach() for name in ("value", "old_value", "target", "advantage")
    )
    w = np.ones(B) if weight is None else weight.double().numpy()
    v, a, r, k = (each.double().numpy() for each in (value, aux, target, kl))
    wanted = ((0.5 * (a - r) ** 2 + 2.0 * k) * w).mean(), ((v - r) ** 2 * w).mean(), 0.0
    found = ppg_joint_error(value, target, kl, weight, auxiliary_value=aux, clone_weight=2.0)
    assert [each.item() for each in found] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    shared = ppg_joint_error(value, target, kl, weight)
    assert shared.policy.item() == pytest.approx(((0.5 * (v - r) ** 2 + k) * w).mean(), rel=1e-5)


def test_the_factors_of_happo_by_hand() -> None:
    """Ratios 2 and 1/2 of the first agent, 3 and 3 of the second; PPO with M times A."""
    old, new = torch.zeros(2), torch.tensor([2.0, 0.5]).log().requires_grad_()
    first = happo_factor(new, old)
    second = happo_factor(torch.tensor([3.0, 3.0]).log(), old, first)
    assert first.tolist() == [2, 0.5]
    assert second.tolist() == pytest.approx([6, 1.5])
    assert not first.requires_grad
    advantage = torch.tensor([1.0, -1.0])
    by_weight, _ = ppo_policy_error(new, old, advantage, first)
    by_advantage, _ = ppo_policy_error(new, old, first * advantage)
    assert by_weight.item() == by_advantage.item() == pytest.approx(-(2 * 1.2 - 0.5 * 0.8) / 2)


def test_counterfactual_advantages_by_hand() -> None:
    """Q = 1, 5 with pi = 3/4, 1/4: the baseline is 2; a masked action has no share."""
    q = torch.tensor([[1.0, 5.0, torch.inf]] * 2, requires_grad=True)
    log_policy = torch.tensor([[0.75, 0.25, 0.0]] * 2).log()
    found = coma_advantage(q, log_policy, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([-1, 3])
    assert not found.requires_grad


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_upgo(weighted: bool) -> None:
    given, weight = columns(), weights(weighted)
    found = upgo_error(given["log_prob"], given["old_log_prob"], given["value"], given["target"],
                       weight, rho_clip=1.5)  # fmt: skip
    x = {name: each.detach().double().numpy() for name, each in given.items()}
    rho = np.minimum(np.exp(x["old_log_prob"]), 1.5)
    w = 1.0 if weight is None else weight.double().numpy()
    wanted = -(rho * (x["target"] - x["value"]) * x["log_prob"] * w).mean()
    assert found.item() == pytest.approx(wanted, rel=1e-5)
    found.backward()  # type: ignore[no-untyped-call]
    assert given["value"].grad is None


@pytest.mark.parametrize(
    "call",
    [
        pg_error,
        lambda one, two: pg_error(one, one, two),
        value_error,
        lambda one, two: value_error(one, one, old_value=two, clip_range=0.1),
        lambda one, two: ppo_policy_error(one, two, one),
        lambda one, two: ppg_joint_error(one, one, two),
        lambda one, two: upgo_error(one, one, two, one),
    ],
)
def test_columns_that_would_be_broadcast_are_refused(call: Any) -> None:
    with pytest.raises(SchemaError, match=r"\[4\].*\[4, 1\]"):
        call(torch.ones(4), torch.ones(4, 1))


# ---- distributions


def by_hand(logit: Any, action: Any, mask: Any = None) -> tuple[float, float]:
    """Log-probability and entropy of one row, in doubles."""
    weight = np.exp(np.asarray(logit, np.float64))
    weight = weight if mask is None else weight * mask
    p = weight / weight.sum()
    return math.log(p[action]), -sum(x * math.log(x) for x in p if x)


def test_the_masks_of_equal_heads_may_be_one_array() -> None:
    logit, other = ([torch.randn(4, 3), torch.randn(4, 3)] for _ in range(2))
    mask = torch.tensor([[[1, 1, 0], [0, 1, 1]]] * 4)
    action, masks = torch.tensor([[0, 1]] * 4), [mask[:, 0], mask[:, 1]]
    one, two = (log_prob_entropy({"logit": logit}, action, each) for each in (mask, masks))
    torch.testing.assert_close(one, two)
    pair = {"logit": logit}, {"logit": other}
    torch.testing.assert_close(kl_divergence(*pair, mask), kl_divergence(*pair, masks))
    wanted = [math.log(2), (math.log(3) + math.log(1)) / 2]
    given = [mask[:, 0], torch.tensor([[1, 1, 1], [0, 0, 0]])]
    assert [uniform_entropy(each).item() for each in given] == pytest.approx(wanted)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [None, (3, 2)])
def test_discrete_log_probabilities(heads: Any, masked: bool) -> None:
    rng = np.random.default_rng(0)
    logit = [rng.normal(size=(B, n)).astype(np.float32) for n in heads or (A,)]
    mask = [rng.random(each.shape) < 0.6 for each in logit]
    action = np.stack([rng.integers(0, each.shape[1], B) for each in logit], 1)
    for each, taken in zip(mask, action.T, strict=True):
        each[np.arange(B), taken] = True
    tensors: Any = [torch.from_numpy(each) for each in logit]
    masks: Any = [torch.from_numpy(each) for each in mask]
    if heads is None:
        tensors, masks, action = tensors[0], masks[0], action[:, 0]
    found = log_prob_entropy(
        {"logit": tensors}, torch.from_numpy(action), masks if masked else None
    )
    for row in range(B):
        pairs = [
            by_hand(each[row], np.atleast_1d(action[row])[i], mask[i][row] if masked else None)
            for i, each in enumerate(logit)
        ]
        wanted = [sum(values) for values in zip(*pairs, strict=True)]
        assert [each[row].item() for each in found] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_gaussian_log_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_std, action = torch.randn((3, B, A), generator=generator)
    log_prob, entropy = log_prob_entropy({"mean": mean, "log_std": log_std}, action)
    mu, sigma, x = (each.double().numpy() for each in (mean, log_std.double().exp(), action))
    density = np.exp(-(((x - mu) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(log_prob.numpy(), np.log(density).sum(1), rtol=1e-5)
    wanted = (0.5 * np.log(2 * math.pi * math.e * sigma**2)).sum(1)
    np.testing.assert_allclose(entropy.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_masked_actions_get_no_gradient_and_no_nan() -> None:
    logit = torch.zeros((1, 3), requires_grad=True)
    mask = torch.tensor([[1, 0, 0]])
    log_prob, entropy = log_prob_entropy({"logit": logit}, torch.tensor([0]), mask)
    assert (log_prob.item(), entropy.item()) == (0, 0)
    (log_prob + entropy).sum().backward()
    assert logit.grad is not None
    assert logit.grad.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_in_half_precision(dtype: torch.dtype) -> None:
    logit = torch.tensor([[0.0, 0.0, 5.0]], dtype=dtype)
    pair = log_prob_entropy({"logit": logit}, torch.tensor([0]), torch.tensor([[1, 1, 0]]))
    assert [each.item() for each in pair] == pytest.approx([-math.log(2), math.log(2)], rel=1e-2)


def test_outputs_and_masks_that_do_not_fit_are_refused() -> None:
    two = [torch.zeros((2, 3)), torch.zeros((2, 2))]
    action = torch.zeros((2, 2), dtype=torch.int64)
    with pytest.raises(UsageError, match="2 heads need actions"):
        log_prob_entropy({"logit": two}, action[:, :1])
    with pytest.raises(UsageError, match="2 masks"):
        log_prob_entropy({"logit": two}, action, [torch.ones((2, 3))])
    with pytest.raises(ActionError, match="row 1 of action_mask allows no action"):
        log_prob_entropy({"logit": two[0]}, action[:, 0], torch.tensor([[1, 0, 0], [0, 0, 0]]))
    with pytest.raises(UsageError, match="returns value; expected logit, or mean and log_std"):
        log_prob_entropy({"value": two[0]}, action)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [None, (3, 2)])
def test_divergences_of_discrete_policies(heads: Any, masked: bool) -> None:
    rng = np.random.default_rng(0)
    pair = [[rng.normal(size=(B, n)).astype(np.float32) for n in heads or (A,)] for _ in "pq"]
    mask = [rng.random(each.shape) < 0.6 for each in pair[0]]
    for each in mask:
        each[:, 0] = True
    outputs: Any = [[torch.from_numpy(each) for each in logit] for logit in pair]
    masks: Any = [torch.from_numpy(each) for each in mask] if masked else None
    if heads is None:
        outputs, masks = [each[0] for each in outputs], masks and masks[0]
    outputs[1] = outputs[1].requires_grad_() if heads is None else outputs[1]
    found = kl_divergence({"logit": outputs[0]}, {"logit": outputs[1]}, masks)
    wanted = np.zeros(B)
    for old, new, allowed in zip(*pair, mask, strict=True):
        weight = [np.exp(each.astype(float)) * (allowed if masked else 1) for each in (old, new)]
        p, q = (each / each.sum(1, keepdims=True) for each in weight)
        ratio = np.where(p > 0, p, 1) / np.where(p > 0, q, 1)
        wanted += (p * np.log(ratio)).sum(1)
    np.testing.assert_allclose(found.detach(), wanted, rtol=1e-4, atol=1e-5)
    assert found.requires_grad == (heads is None)


def test_divergences_of_gaussians() -> None:
    """By hand in one dimension; the same policy has none; sums over dimensions."""
    zero = {"mean": torch.zeros(1, 1), "log_std": torch.zeros(1, 1)}
    wide = {"mean": torch.ones(1, 1), "log_std": torch.full((1, 1), math.log(2))}
    assert kl_divergence(zero, wide).item() == pytest.approx(math.log(2) + 2 / 8 - 0.5)
    assert kl_divergence(wide, zero).item() == pytest.approx(-math.log(2) + 5 / 2 - 0.5)
    g = torch.Generator().manual_seed(0)
    old, new = ({"mean": torch.randn(B, A, generator=g), "log_std": torch.randn(B, A, generator=g)}
                for _ in "ab")  # fmt: skip
    normals = [torch.distributions.Normal(x["mean"], x["log_std"].exp()) for x in (old, new)]
    wanted = torch.distributions.kl_divergence(*normals).sum(1)
    torch.testing.assert_close(kl_divergence(old, new), wanted)
    assert kl_divergence(old, old).abs().max() < 1e-6


def test_outputs_of_different_forms_have_no_divergence() -> None:
    two = torch.zeros((2, 3))
    gaussian = {"mean": two, "log_std": two}
    with pytest.raises(UsageError, match="one output has logit and the other does not"):
        kl_divergence({"logit": two}, gaussian)
    with pytest.raises(UsageError, match="returns value; expected logit"):
        kl_divergence(gaussian, {"value": two})
    with pytest.raises(UsageError, match="outputs of 2 and 1 heads"):
        kl_divergence({"logit": [two, two]}, {"logit": [two]})


def test_the_gradient_of_a_squashed_gaussian_is_that_of_its_formula() -> None:
    g = torch.Generator().manual_seed(0)
    mean, log_std, noise = torch.randn((3, 4, 2), generator=g, dtype=torch.float64)
    given = mean.requires_grad_(), log_std.requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: squashed_gaussian(m, s, noise), given)
    assert torch.autograd.gradgradcheck(lambda m, s: squashed_gaussian(m, s, noise), given)
    action, log_prob = squashed_gaussian(mean, log_std, noise)
    normal = torch.distributions.Normal(mean, log_std.exp())
    squashed = torch.distributions.TransformedDistribution(
        normal, [torch.distributions.TanhTransform()]
    )
    torch.testing.assert_close(squashed.log_prob(action).sum(1), log_prob)


def test_means_that_are_not_those_of_the_actions_are_refused() -> None:
    """They would be broadcast: [B, 1] against [B, A]."""
    mean, action = torch.zeros(B, 1), torch.zeros(B, A)
    with pytest.raises(SchemaError, match=r"action \[32, 3\], mean \[32, 1\]"):
        log_prob_entropy({"mean": mean, "log_std": mean}, action)
    wide = {"mean": action, "log_std": torch.zeros(A)}
    assert log_prob_entropy(wide, action)[0].shape == (B,)


def test_a_hybrid_policy_is_the_sum_of_its_parts() -> None:
    g = torch.Generator().manual_seed(0)
    outputs = [
        {name: torch.randn(B, A, generator=g) for name in ("logit", "mean", "log_std")}
        for _ in "ab"
    ]
    halves = [({"logit": each["logit"]}, {"mean": each["mean"], "log_std": each["log_std"]})
              for each in outputs]  # fmt: skip
    index, args = torch.randint(A, (B,), generator=g), torch.randn(B, A, generator=g)
    found = log_prob_entropy(outputs[0], {"action_type": index, "action_args": args})
    parts = log_prob_entropy(halves[0][0], index), log_prob_entropy(halves[0][1], args)
    for whole, one, other in zip(found, *parts, strict=True):
        torch.testing.assert_close(whole, one + other)
    torch.testing.assert_close(
        kl_divergence(*outputs),
        sum(kl_divergence(old, new) for old, new in zip(*halves, strict=True)),
    )


def test_an_action_that_neither_policy_takes_has_no_divergence() -> None:
    logit = torch.tensor([[0.0, 1.0, -torch.inf]])
    assert kl_divergence({"logit": logit}, {"logit": logit}).item() == 0


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_derivatives_of_ppo_by_formula_are_those_of_autograd(weight: float) -> None:
    given, rng = columns(), np.random.default_rng(1)
    logit = torch.from_numpy(rng.normal(size=(B, A)).astype(np.float32)).requires_grad_()
    action = torch.from_numpy(rng.integers(0, A, B))
    log_prob, entropy = log_prob_entropy({"logit": logit}, action)
    old, value = log_prob.detach() + 0.4 * given["old_value"], given["value"]
    wanted, told = ppo_error(
        log_prob, old, entropy, value, given["old_value"], given["advantage"], given["target"]
    )
    (wanted.policy + wanted.value - weight * wanted.entropy).backward()
    found_log_prob, found_entropy, pull = categorical_and_pull(logit, action)
    found, info, slopes = ppo_slopes(
        found_log_prob, found_entropy, value, old, given["advantage"], given["target"]
    )
    assert 0 < told.clipfrac < 1
    for one, other in zip((*found, *info), (*wanted, *told), strict=True):
        torch.testing.assert_close(one, other.detach())
        assert not one.requires_grad
    torch.testing.assert_close(pull(slopes.log_prob, -weight / B), logit.grad)
    torch.testing.assert_close(slopes.value, value.grad)
    with pytest.raises(SchemaError, match="same shape"):
        ppo_slopes(found_log_prob, found_entropy, value[1:], old, old, old)


def test_inverted_gradients_lead_to_the_bounds_and_back() -> None:
    value = torch.tensor([0.5, 0.5, 1.0, 1.0, 1.5, -3.0])
    gradient = torch.tensor([-2.0, 2.0, -2.0, 2.0, -2.0, 2.0])
    found = inverted_gradient(gradient, value)
    torch.testing.assert_close(found, torch.tensor([-0.5, 1.5, 0.0, 2.0, 0.5, -2.0]))
