"""The contract of policies (`IPolicy`): modes are tuples of functions with a shared model."""

from dicore.testing.policy.acting import ActingChecks
from dicore.testing.policy.learning import LearningChecks
from dicore.testing.policy.modes import ModeChecks

__all__ = ["PolicyContract"]


class PolicyContract(ModeChecks, ActingChecks, LearningChecks):
    """Conformance suite of policies: subclass it and override `make` (and `spaces`)."""
