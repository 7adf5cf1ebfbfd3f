"""Networks of other packages and files: what is wrong with them is known before the run folder."""

from __future__ import annotations

from dicore.config.sections import PolicyConfig
from dicore.run.env_factory import BuildContext
from dicore.run.random import seeded
from dicore_plugins.policies.base import Policy

__all__ = ["check_model"]


def check_model(policy: PolicyConfig, seed: int) -> None:
    """Builds and checks the network that a policy's section names.

    Random numbers are afterwards as before.

    Args:
        policy: A bound section.
        seed: Of the run.

    Raises:
        UsageError: the policy cannot use the network.
    """
    policy_class = getattr(policy.build, "policy_class", None)
    if policy_class is not None and issubclass(policy_class(), Policy):
        with seeded(seed):
            policy.build(BuildContext(seed=seed), enable_field=())
