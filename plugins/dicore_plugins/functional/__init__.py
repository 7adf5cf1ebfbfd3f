"""Pure functions to process samples and to compute targets and losses.

They have no state and do not change their inputs. Public names import their module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
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
    from dicore_plugins.functional.exploration import get_epsilon_greedy_fn
    from dicore_plugins.functional.preprocess import default_preprocess_learn
    from dicore_plugins.functional.samples import (
        flatten_time,
        get_nstep_return_data,
        next_obs_of,
        nstep_samples,
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
    "default_collate",
    "default_decollate",
    "default_preprocess_learn",
    "discounted_sum",
    "dqn_td_target",
    "flatten_time",
    "get_epsilon_greedy_fn",
    "get_nstep_return_data",
    "get_train_sample",
    "next_obs_of",
    "nstep_samples",
    "nstep_td_error",
    "q_nstep_target",
    "q_nstep_td_loss",
    "same_shape",
    "sequences",
    "tensor_to_list",
    "to_batch",
    "to_device",
    "to_dtype",
    "to_item",
    "to_list",
    "to_ndarray",
    "to_tensor",
    "transitions",
]

__getattr__ = lazy(
    __name__,
    {
        "default_collate": ".collate",
        "default_decollate": ".collate",
        "default_preprocess_learn": ".preprocess",
        "discounted_sum": ".td",
        "dqn_td_target": ".td",
        "flatten_time": ".samples",
        "get_epsilon_greedy_fn": ".exploration",
        "get_nstep_return_data": ".samples",
        "get_train_sample": ".unroll",
        "next_obs_of": ".samples",
        "nstep_samples": ".samples",
        "nstep_td_error": ".td",
        "q_nstep_target": ".td",
        "q_nstep_td_loss": ".td",
        "same_shape": ".conversions",
        "sequences": ".samples",
        "tensor_to_list": ".conversions",
        "to_batch": ".samples",
        "to_device": ".conversions",
        "to_dtype": ".conversions",
        "to_item": ".conversions",
        "to_list": ".conversions",
        "to_ndarray": ".conversions",
        "to_tensor": ".conversions",
        "transitions": ".samples",
    },
)
