"""What all functions keep to: inputs stay as they are, NaN shows, dtypes and precision.

Each function has a call in `CALLS`; a new one without a call fails.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins import functional
from tests.plugins.functional.test_unroll import trajectory

B, A, N, T = 6, 4, 5, 7
Call = tuple[tuple[Any, ...], dict[str, Any]]


def floats(*shape: int, seed: int = 0) -> Tensor:
    """Numbers that half precision has exactly, so that its inputs are the same."""
    g = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-16, 17, shape, generator=g) / 8


def flags(*shape: int) -> Tensor:
    """Ends, none of them at the first step."""
    out = torch.zeros(shape, dtype=torch.bool)
    out[..., 2::3] = True
    return out


def probability(*shape: int, seed: int = 0) -> Tensor:
    out = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    return out / out.sum(-1, keepdim=True)


def actions() -> Tensor:
    return torch.arange(B) % A


def block() -> Batch:
    columns = {
        "obs": np.ones((T, 2, 3), np.float32),
        "action": np.zeros((T, 2), np.int64),
        "reward": np.ones((T, 2), np.float32),
        "done": flags(2, T).numpy().T.copy(),
        "end": flags(2, T).numpy().T.copy(),
        "valid": np.ones((T, 2), np.bool_),
        "env_id": np.tile(np.arange(2), (T, 1)),
    }
    return Batch(columns, T)


def tail() -> Tail:
    index = np.flatnonzero(block()["end"])
    return Tail(np.ones((2, 3), np.float32), index, np.ones((len(index), 3), np.float32), T)


def transitions() -> list[dict[str, Any]]:
    rows = trajectory(T)
    return [{**row, "value": 0.5, "next_obs": t + 1, "IS": 1.0} for t, row in enumerate(rows)]


def steps(*names: str) -> dict[str, Any]:
    """Columns [B, T] by name."""
    made: dict[str, Any] = {"done": flags(B, T), "end": flags(B, T)}
    return {name: made.get(name, floats(B, T, seed=i)) for i, name in enumerate(names)}


def arrays(*names: str) -> dict[str, Any]:
    return {name: each.numpy().T.copy() for name, each in steps(*names).items()}


rows = floats(B)
LOG_PI, LOG_MU = probability(B, A).log(), probability(B, A, seed=1).log()
WEIGHT = torch.linspace(0.5, 1.75, B)
BOUNDARY = torch.linspace(0, 1, N + 1).expand(B, N + 1).clone()
SUPPORT = torch.linspace(-2, 2, N)

LOSSES: dict[str, Callable[[], Call]] = {
    "a2c_error": lambda: (tuple(floats(B, seed=i) for i in range(5)), {"weight": WEIGHT}),
    "acer_policy_error": lambda: (
        (LOG_PI, LOG_MU, actions(), floats(B, A), floats(B), WEIGHT), {}
    ),
    "awr_error": lambda: ((floats(B), WEIGHT), {}),
    "cql_error": lambda: ((floats(2, B), floats(2, B, 3, seed=1), floats(B, 3), WEIGHT), {}),
    "discrete_cql_error": lambda: ((floats(B, A), actions(), WEIGHT), {}),
    "diversity_error": lambda: ((floats(2, B, A), WEIGHT), {}),
    "expectile_error": lambda: ((floats(B), floats(B, seed=1), 0.75, WEIGHT), {}),
    "gumbel_error": lambda: ((floats(B), floats(B, seed=1), 0.75, 7.0, WEIGHT), {}),
    "rebrac_error": lambda: ((floats(B), floats(B, A), floats(B, A, seed=1), 0.5, WEIGHT), {}),
    "td3_bc_error": lambda: ((floats(B), floats(B, A), floats(B, A, seed=1), 2.5, WEIGHT), {}),
    "bc_error": lambda: (({"logit": floats(B, A)}, actions(), WEIGHT), {}),
    "c51_loss": lambda: ((floats(B, N), probability(B, N), WEIGHT), {}),
    "fqf_fraction_loss": lambda: ((BOUNDARY, floats(B, N - 1), floats(B, N), WEIGHT), {}),
    "gail_error": lambda: ((floats(B), floats(B, seed=1), WEIGHT, WEIGHT), {}),
    "distillation_error": lambda: (
        ({"logit": floats(B, A)}, {"logit": floats(B, A, seed=1)}, WEIGHT), {}
    ),
    "info_nce_error": lambda: ((floats(B, A), WEIGHT), {}),
    "gaussian_nll_error": lambda: (
        (floats(2, B, A), floats(2, B, A, seed=1), floats(2, B, A, seed=2), WEIGHT), {}
    ),
    "large_margin_error": lambda: ((floats(B, A), actions(), WEIGHT), {}),
    "nstep_td_error": lambda: ((floats(B, A), actions(), floats(B), WEIGHT), {}),
    "pg_error": lambda: ((floats(B), floats(B, seed=1), WEIGHT), {}),
    "ppg_joint_error": lambda: (
        (floats(B), floats(B, seed=1), floats(B, seed=2), WEIGHT),
        {"auxiliary_value": floats(B, seed=3)},
    ),
    "ppo_error": lambda: (
        (floats(B), floats(B) + 0.125, *(floats(B, seed=i) for i in range(5)), WEIGHT),
        {"value_clip": 0.25, "dual_clip": 2.0},
    ),
    "ppo_policy_error": lambda: ((floats(B), floats(B) + 0.125, floats(B, seed=1), WEIGHT), {}),
    "q_nstep_td_loss": lambda: ((floats(B, A), actions(), floats(B), WEIGHT), {}),
    "qrdqn_loss": lambda: (
        (floats(B, N), floats(B, N, seed=1), torch.linspace(0.125, 0.875, N), WEIGHT), {}
    ),
    "td_loss": lambda: ((floats(2, B), floats(B), WEIGHT), {"criterion": "mse"}),
    "two_hot_loss": lambda: ((floats(B, N), floats(B), SUPPORT, WEIGHT), {}),
    "upgo_error": lambda: (
        (floats(B), floats(B, seed=1), floats(B, seed=2), floats(B, seed=3), WEIGHT), {}
    ),
    "value_error": lambda: (
        (floats(B), floats(B, seed=1), WEIGHT),
        {"old_value": floats(B, seed=2), "clip_range": 0.25},
    ),
}  # fmt: skip
"""Functions whose first result is a scalar to minimize."""

TARGETS: dict[str, Callable[[], Call]] = {
    "acer_trust_region": lambda: ((floats(B, A), floats(B, A, seed=1), -9.0), {}),
    "advantage_weight": lambda: ((floats(B), 0.5), {}),
    "soft_minimum": lambda: ((floats(2, B),), {}),
    "c51_target": lambda: ((probability(B, N), floats(B), flags(B) * 1.0, 0.875, SUPPORT), {}),
    "coma_advantage": lambda: ((floats(B, A), LOG_PI, actions()), {}),
    "discounted_sum": lambda: ((floats(B, 3), 0.875), {}),
    "dqn_td_target": lambda: (
        (floats(B, A), floats(B), flags(B) * 1.0, 0.875 + rows * 0), {}
    ),
    "expected_value": lambda: ((floats(B, A), LOG_PI, 0.5), {}),
    "fqf_value": lambda: ((BOUNDARY, floats(B, A, N)), {}),
    "gae": lambda: ((), arrays("reward", "value", "next_value", "done", "end")),
    "gail_reward": lambda: ((floats(B),), {}),
    "happo_factor": lambda: ((floats(B), floats(B, seed=1), floats(B, seed=2)), {}),
    "inv_symlog": lambda: ((floats(B),), {}),
    "inverted_gradient": lambda: ((floats(B, A), floats(B, A, seed=1)), {}),
    "log_probabilities": lambda: ((floats(B, A), torch.ones(B, A) > 0), {}),
    "kl_divergence": lambda: (({"logit": floats(B, A)}, {"logit": floats(B, A, seed=1)}), {}),
    "lambda_return": lambda: ((), steps("reward", "next_value", "done", "end")),
    "legal": lambda: ((floats(B, A), {"action_mask": flags(B).unsqueeze(1)}), {}),
    "by_head": lambda: ((torch.relu, floats(B, A)), {}),
    "categorical_and_pull": lambda: ((floats(B, A), actions()), {}),
    "ppo_slopes": lambda: (tuple(floats(B) for _ in range(6)), {}),
    "log_prob_entropy": lambda: (({"logit": floats(B, A)}, actions()), {}),
    "munchausen_bonus": lambda: ((floats(B, A) / 8, actions(), 0.5), {}),
    "nstep_return": lambda: ((), {**arrays("reward", "next_value", "done", "end"), "nstep": 3}),
    "q_nstep_target": lambda: (
        (floats(B, A), actions(), floats(B), flags(B) * 1.0, 0.875 + rows * 0), {}
    ),
    "quantile_target": lambda: ((floats(B, N), floats(B), flags(B) * 1.0, 0.875 + rows * 0), {}),
    "retrace": lambda: (
        (), {**steps("log_ratio", "reward", "q", "next_value", "done", "end"), "gamma": 0.875}
    ),
    "sequence_priority": lambda: ((floats(B, T), torch.ones(B, T) > 0), {}),
    "soft_expectation": lambda: ((floats(B, A), floats(B, A, seed=1), 0.5), {}),
    "soft_target": lambda: ((floats(B, A), floats(B), flags(B) * 1.0, 0.875 + rows * 0, 0.5), {}),
    "squashed_gaussian": lambda: ((floats(B, A), floats(B, A), floats(B, A, seed=1)), {}),
    "squashed_gaussian_and_pull": lambda: (
        (floats(B, A), floats(B, A), floats(B, A, seed=1)), {}
    ),
    "symlog": lambda: ((floats(B),), {}),
    "truncated_quantiles": lambda: ((floats(2, B, N), 1), {}),
    "two_hot": lambda: ((floats(B), SUPPORT), {}),
    "two_hot_value": lambda: ((floats(B, N), SUPPORT), {}),
    "upgo_return": lambda: ((), steps("reward", "value", "next_value", "done", "end")),
    "value_inv_transform": lambda: ((floats(B),), {}),
    "value_transform": lambda: ((floats(B),), {}),
    "vtrace": lambda: (
        (), {**steps("log_ratio", "reward", "value", "next_value", "done", "end"), "gamma": 0.875}
    ),
}  # fmt: skip
"""Functions of numbers that return numbers of the same dtype."""

NOISE = np.random.default_rng(0).random(B)
LOGIT = floats(B, A).numpy()
OTHERS: dict[str, Callable[[], Call]] = {
    "guided_cost_error": lambda: ((floats(B), floats(B, seed=1), floats(B, seed=2)), {}),
    "soft_clamp": lambda: ((floats(B, A), floats(A) - 4, floats(A, seed=1) + 4), {}),
    "allowed": lambda: ((np.ones((B, A)), LOGIT), {}),
    "any_of": lambda: ((LOGIT, NOISE), {}),
    "bridged": lambda: (
        (Batch({"reward": floats(B), "done": flags(B)}), 0.9, 3), {"ignore_done": True}
    ),
    "conjugate_gradient": lambda: ((torch.eye(A).mv, floats(A)), {"iterations": 3}),
    "create_noise_generator": lambda: (("ou", {"sigma": 0.5}), {}),
    "eps_greedy": lambda: ((LOGIT, 0.5, NOISE, NOISE, LOGIT > -9), {}),
    "flatten_time": lambda: ((block(), tail()), {}),
    "get_epsilon_greedy_fn": lambda: ((0.9, 0.1, 100), {}),
    "get_gae": lambda: ((transitions(), 0.5, 0.9, 0.9), {}),
    "get_gae_with_default_last_value": lambda: ((transitions(), False, 0.9, 0.9), {}),
    "get_nstep_return_data": lambda: ((transitions(), 3), {}),
    "get_piecewise_schedule": lambda: (([(0, 1.0), (9, 0.0)],), {}),
    "get_schedule": lambda: (("cosine", 1.0, 0.0, 9), {}),
    "get_train_sample": lambda: ((transitions(), 3, "null_padding", {"t": -1}), {}),
    "greedy": lambda: ((LOGIT, LOGIT > -9), {}),
    "mask_of": lambda: (({"action_mask": LOGIT > 0},), {}),
    "masks_of": lambda: ((np.ones((B, 2, A)), 2), {}),
    "next_mask_of": lambda: (({"action_mask": LOGIT > 0},), {}),
    "next_obs_of": lambda: ((block(), tail()), {}),
    "nstep_columns": lambda: (
        (), {**{{"done": "terminated"}.get(key, key): each
                for key, each in arrays("reward", "done", "end").items()},
             "next_obs": {"x": LOGIT[:, :1].repeat(B, 1)[: T].repeat(2, 0)[:T]},
             "nstep": 3, "gamma": 0.9}
    ),
    "nstep_samples": lambda: ((block(), 3, 0.9, tail()), {}),
    "nstep_sequences": lambda: (
        (functional.with_bridges(block(), 1, 0.9, (2,), tail()), 3, 2, 1, tail()), {}
    ),
    "proportional": lambda: ((np.exp(LOGIT), NOISE), {}),
    "rows_after": lambda: (
        (np.ones((T, 2)), np.ones(2), np.ones(len(tail().final_index)), tail()), {}
    ),
    "sequences": lambda: ((block(), 3, 2, tail()), {}),
    "softmax": lambda: ((LOGIT, 2.0, LOGIT > -9), {}),
    "to_batch": lambda: ((transitions(),), {}),
    "transitions": lambda: ((block(), tail()), {}),
    "uniform_entropy": lambda: ((torch.ones(B, A),), {}),
    "with_bridges": lambda: ((block(), 2, 0.9, (2,), tail()), {}),
    "uniform": lambda: ((np.random.default_rng(0), (2, B), LOGIT), {}),
}  # fmt: skip
CALLS = {**LOSSES, **TARGETS, **OTHERS}


def leaves(tree: Any) -> list[Any]:
    """Lists all values below dicts, lists, tuples and Batches."""
    if isinstance(tree, Batch):
        return leaves(dict(tree.columns))
    if isinstance(tree, dict):
        return [*tree.keys(), *(leaf for each in tree.values() for leaf in leaves(each))]
    if isinstance(tree, list | tuple):
        return [len(tree), *(leaf for each in tree for leaf in leaves(each))]
    return [tree]


def bits(tree: Any) -> list[Any]:
    """Makes leaves comparable to the last bit."""
    return [
        (each.dtype, each.shape, each.tolist()) if isinstance(each, np.ndarray | Tensor) else each
        for each in leaves(tree)
        if not isinstance(each, np.random.Generator)
    ]


def replaced(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to the tensors and arrays below dicts, lists and tuples."""
    if isinstance(tree, dict):
        return {key: replaced(each, change) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(replaced(each, change) for each in tree)
    return change(tree) if isinstance(tree, np.ndarray | Tensor) else tree


def is_float(each: Any) -> bool:
    kind = each.dtype.is_floating_point if isinstance(each, Tensor) else each.dtype.kind == "f"
    return isinstance(each, np.ndarray | Tensor) and bool(kind)


def result(name: str, args: Any, kwargs: Any) -> list[Any]:
    """Returns the tensors and arrays that a function returns."""
    found = leaves(getattr(functional, name)(*args, **kwargs))
    return [each for each in found if isinstance(each, np.ndarray | Tensor)]


def test_every_name_is_on_the_page_of_functions() -> None:
    text = (Path(__file__).parents[3] / "docs/functions.md").read_text(encoding="utf-8")
    results = {"ACERLoss", "GAILLoss", "PPOInfo", "PPOSlopes", "PolicyGradientLoss", "VTrace"}
    assert [name for name in functional.__all__ if f"`{name}`" not in text] == sorted(results)


def test_every_function_has_a_call() -> None:
    names = {name for name in functional.__all__ if inspect.isfunction(getattr(functional, name))}
    assert names == set(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_no_argument_is_changed(name: str) -> None:
    args, kwargs = CALLS[name]()
    before = copy.deepcopy(bits((args, kwargs)))
    getattr(functional, name)(*args, **kwargs)
    assert bits((args, kwargs)) == before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_of_half_precision_are_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    """They equal the losses of the same numbers in float32; those of float64 stay so."""

    def through(each: Any, last: torch.dtype) -> Any:
        return each.to(dtype).to(last) if is_float(each) else each

    args, kwargs = LOSSES[name]()
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    found = result(name, *replaced((args, kwargs), lambda each: through(each, dtype)))
    wanted = result(name, *replaced((args, kwargs), lambda each: through(each, wide)))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other)
    assert found[0].dtype == wide


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_targets_keep_their_dtype(name: str, dtype: torch.dtype) -> None:
    args, kwargs = TARGETS[name]()
    wanted = result(name, args, kwargs)

    def change(each: Any) -> Any:
        if not is_float(each):
            return each
        if isinstance(each, Tensor):
            return each.to(dtype)
        return (
            torch.from_numpy(each).to(dtype)
            if dtype == torch.bfloat16
            else each.astype({torch.float16: np.float16, torch.float64: np.float64}[dtype])
        )

    if name in ("gae", "nstep_return") and dtype == torch.bfloat16:
        kwargs = replaced(kwargs, torch.from_numpy)
        kwargs = replaced(kwargs, change)
    else:
        args, kwargs = replaced((args, kwargs), change)
    found = result(name, args, kwargs)
    loose = {torch.float16: 1e-2, torch.bfloat16: 1e-1}.get(dtype, 1e-5)
    for one, other in zip(found, wanted, strict=True):
        assert str(one.dtype).removeprefix("torch.") == str(dtype).removeprefix("torch.")
        torch.testing.assert_close(
            torch.as_tensor(one).double(), torch.as_tensor(other).double(), rtol=loose, atol=loose
        )


@pytest.mark.parametrize("name", sorted(LOSSES.keys() | TARGETS.keys()))
def test_nan_is_not_hidden(name: str) -> None:
    """NaN in any argument of floats is NaN in the result."""
    args, kwargs = CALLS[name]()
    columns = [each for each in leaves((args, kwargs)) if isinstance(each, np.ndarray | Tensor)]
    columns = [each for each in columns if is_float(each) and each is not SUPPORT]
    assert columns
    for column in columns:
        kept = column + 0
        column[...] = math.nan
        try:
            found = result(name, args, kwargs)
        finally:
            column[...] = kept
        shown = [bool(torch.as_tensor(each).isnan().any()) for each in found]
        assert any(shown), f"argument {column.shape}"


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_weights_multiply_before_the_mean(name: str) -> None:
    """A loss with weights 2 is twice the loss; a row of weight 0 counts in the mean only."""
    args, kwargs = LOSSES[name]()

    def loss(weight: Tensor) -> Tensor:
        def change(each: Any) -> Any:
            return weight if each is WEIGHT else each

        out: Tensor = result(name, *replaced((args, kwargs), change))[0]
        return out

    one, two = loss(torch.ones(B)), loss(torch.full((B,), 2.0))
    torch.testing.assert_close(two, 2 * one)
    parts = [loss(torch.eye(B)[row]) for row in range(B)]
    torch.testing.assert_close(torch.stack(parts).sum(), one, rtol=1e-4, atol=1e-5)
