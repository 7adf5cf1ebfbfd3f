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
    from dicore_plugins.functional.samples import get_nstep_return_data
    from dicore_plugins.functional.unroll import get_train_sample

__all__ = [
    "default_collate",
    "default_decollate",
    "default_preprocess_learn",
    "get_epsilon_greedy_fn",
    "get_nstep_return_data",
    "get_train_sample",
    "same_shape",
    "tensor_to_list",
    "to_device",
    "to_dtype",
    "to_item",
    "to_list",
    "to_ndarray",
    "to_tensor",
]

__getattr__ = lazy(
    __name__,
    {
        "default_collate": ".collate",
        "default_decollate": ".collate",
        "default_preprocess_learn": ".preprocess",
        "get_epsilon_greedy_fn": ".exploration",
        "get_nstep_return_data": ".samples",
        "get_train_sample": ".unroll",
        "same_shape": ".conversions",
        "tensor_to_list": ".conversions",
        "to_device": ".conversions",
        "to_dtype": ".conversions",
        "to_item": ".conversions",
        "to_list": ".conversions",
        "to_ndarray": ".conversions",
        "to_tensor": ".conversions",
    },
)
