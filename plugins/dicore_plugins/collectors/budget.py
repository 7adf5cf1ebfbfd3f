"""What a collector may still collect when a budget of env steps ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector

__all__ = ["env_steps_of", "samples_within", "stopping_within"]


def samples_within(collector: ISerialCollector, n_sample: int, env_steps: int) -> int:
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


def env_steps_of(n_sample: int, stride: int, first: int, together: int) -> int:
    """Returns the most env steps of a collect; of whole episodes (`stride` 0), which vary, 0.

    Args:
        n_sample: Samples wanted.
        stride: Env steps per sample.
        first: Env steps of each environment before its first sample; 0 where it has begun.
        together: Environments that step together.
    """
    steps = n_sample * stride
    return steps and steps + first * together + -steps % together


def stopping_within(
    collector: ISerialCollector, amount: Mapping[str, Any], env_steps: int, stop: Callable[[], bool]
) -> tuple[dict[str, Any], Callable[[], bool]]:
    """Returns arguments of `collect_batch` that keep to the env steps that are left.

    Args:
        collector: Collects the samples.
        amount: Has `n_sample`.
        env_steps: Env steps that are left. If they complete no sample, it stops when they are made,
            and returns an empty batch.
        stop: Ends the collect, too.

    Returns:
        The amount with as many samples as they complete, and the new `should_stop`.
    """
    most = collector.envstep + env_steps
    count = samples_within(collector, amount["n_sample"], env_steps)
    return {**amount, "n_sample": count}, lambda: stop() or collector.envstep >= most
