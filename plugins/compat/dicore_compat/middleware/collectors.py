"""Middleware that collects without a config, after DI-engine's PPOF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.errors import UsageError
from dicore_plugins import collectors
from dicore_plugins.middleware.collect import StepCollector

if TYPE_CHECKING:
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.policy import CollectMode

__all__ = ["PPOFStepCollector"]


def PPOFStepCollector(  # noqa: N802 - DI-engine's name
    seed: int | None, policy: CollectMode, env: IEnvManager, n_sample: int, unroll_len: int = 1
) -> StepCollector:
    """Collects a number of samples per step, without a config (DI-engine's PPOF).

    Args:
        seed: Seed for the environments, set before their launch; None: no seed is set.
        policy: Collect mode of the policy.
        env: Env manager; it is launched if it is not running yet.
        n_sample: Samples per step.
        unroll_len: 1; longer sequences are an option of the policy.

    Returns:
        A middleware, see `StepCollector`.

    Raises:
        UsageError: `unroll_len` is not 1.
    """
    if unroll_len != 1:
        raise UsageError(
            f"PPOFStepCollector collects single steps, got unroll_len {unroll_len}",
            hint="set policy.collect.unroll_len and use StepCollector(cfg, policy, env)",
        )
    if seed is not None and env.closed:
        env.seed(seed)
    made = collectors.SampleCollector({"n_sample": n_sample}, env, policy)
    return StepCollector(None, policy, env, collector=made)
