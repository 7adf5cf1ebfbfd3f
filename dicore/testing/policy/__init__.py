"""The contract of policies (`IPolicy`): modes that are plain tuples over one shared model."""

from dicore.testing.policy.acting import ActingChecks
from dicore.testing.policy.learning import LearningChecks
from dicore.testing.policy.modes import ModeChecks

__all__ = ["PolicyContract"]


class PolicyContract(ModeChecks, ActingChecks, LearningChecks):
    """Inherit it, override `make` (and `spaces`), and every check of a policy is collected."""
