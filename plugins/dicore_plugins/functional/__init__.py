"""Pure functions to process samples and to compute targets and losses.

They have no state and do not change their inputs. Public names import their module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.functional.advantage import gae
    from dicore_plugins.functional.collate import default_collate, default_decollate
    from dicore_plugins.functional.conversions import (
        same_shape,
        tensor_to_list,
        to_device,
        to_dtype,
        to_item,
        to_list,
        to_ndarray,
        to_tensor,
    )
    from dicore_plugins.functional.distributional import (
        c51_loss,
        c51_target,
        munchausen_bonus,
        qrdqn_loss,
        quantile_target,
        soft_target,
    )
    from dicore_plugins.functional.distributions import log_prob_entropy, squashed_gaussian
    from dicore_plugins.functional.exploration import (
        allowed,
        any_of,
        eps_greedy,
        get_epsilon_greedy_fn,
        greedy,
        proportional,
        softmax,
        uniform,
    )
    from dicore_plugins.functional.off_policy import VTrace, vtrace
    from dicore_plugins.functional.policy_gradient import (
        PolicyGradientLoss,
        PPOInfo,
        a2c_error,
        pg_error,
        ppo_error,
        ppo_policy_error,
        value_error,
    )
    from dicore_plugins.functional.preprocess import default_preprocess_learn
    from dicore_plugins.functional.samples import (
        flatten_time,
        get_nstep_return_data,
        next_obs_of,
        nstep_columns,
        nstep_samples,
        rows_after,
        sequences,
        to_batch,
        transitions,
    )
    from dicore_plugins.functional.td import (
        discounted_sum,
        dqn_td_target,
        nstep_td_error,
        q_nstep_target,
        q_nstep_td_loss,
    )
    from dicore_plugins.functional.unroll import get_train_sample

__all__ = [
    "PPOInfo",
    "PolicyGradientLoss",
    "VTrace",
    "a2c_error",
    "allowed",
    "any_of",
    "c51_loss",
    "c51_target",
    "default_collate",
    "default_decollate",
    "default_preprocess_learn",
    "discounted_sum",
    "dqn_td_target",
    "eps_greedy",
    "flatten_time",
    "gae",
    "get_epsilon_greedy_fn",
    "get_nstep_return_data",
    "get_train_sample",
    "greedy",
    "log_prob_entropy",
    "munchausen_bonus",
    "next_obs_of",
    "nstep_columns",
    "nstep_samples",
    "nstep_td_error",
    "pg_error",
    "ppo_error",
    "ppo_policy_error",
    "proportional",
    "q_nstep_target",
    "q_nstep_td_loss",
    "qrdqn_loss",
    "quantile_target",
    "rows_after",
    "same_shape",
    "sequences",
    "soft_target",
    "softmax",
    "squashed_gaussian",
    "tensor_to_list",
    "to_batch",
    "to_device",
    "to_dtype",
    "to_item",
    "to_list",
    "to_ndarray",
    "to_tensor",
    "transitions",
    "uniform",
    "value_error",
    "vtrace",
]

_HOMES = {
    ".distributional": (
        "c51_loss",
        "c51_target",
        "munchausen_bonus",
        "qrdqn_loss",
        "quantile_target",
        "soft_target",
    ),
    ".advantage": ("gae",),
    ".collate": (
        "default_collate",
        "default_decollate",
    ),
    ".conversions": (
        "same_shape",
        "tensor_to_list",
        "to_device",
        "to_dtype",
        "to_item",
        "to_list",
        "to_ndarray",
        "to_tensor",
    ),
    ".distributions": ("log_prob_entropy", "squashed_gaussian"),
    ".exploration": (
        "allowed",
        "any_of",
        "eps_greedy",
        "get_epsilon_greedy_fn",
        "greedy",
        "proportional",
        "softmax",
        "uniform",
    ),
    ".policy_gradient": (
        "PPOInfo",
        "PolicyGradientLoss",
        "a2c_error",
        "pg_error",
        "ppo_error",
        "ppo_policy_error",
        "value_error",
    ),
    ".preprocess": ("default_preprocess_learn",),
    ".samples": (
        "flatten_time",
        "get_nstep_return_data",
        "next_obs_of",
        "nstep_columns",
        "nstep_samples",
        "rows_after",
        "sequences",
        "to_batch",
        "transitions",
    ),
    ".td": (
        "discounted_sum",
        "dqn_td_target",
        "nstep_td_error",
        "q_nstep_target",
        "q_nstep_td_loss",
    ),
    ".unroll": ("get_train_sample",),
    ".off_policy": ("VTrace", "vtrace"),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
