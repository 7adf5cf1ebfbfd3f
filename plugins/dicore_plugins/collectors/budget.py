"""What a collector may still collect when a budget of env steps ends."""

from __future__ import annotations

from typing import Any

__all__ = ["samples_within"]


def samples_within(collector: Any, n_sample: int, env_steps: int) -> int:
    """Returns `n_sample`, or fewer samples if `env_steps` steps do not complete as many.

    Args:
        collector: Collects the samples; it may have a method `samples_within`.
        n_sample: Samples wanted.
        env_steps: Env steps that are left.

    Returns:
        At least 1: environments that step together may exceed the budget by their number.
    """
    within = getattr(collector, "samples_within", None)
    return max(1, min(n_sample, env_steps if within is None else within(env_steps)))
