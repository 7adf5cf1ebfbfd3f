"""The contract of env managers (`IEnvManager`): steps several environments, addressed by id.

Checks talk to a manager through the ids that are ready, so that synchronous and asynchronous ones
pass alike. What a manager cannot do it leaves out of `capabilities`; these checks are skipped.
"""

from dicore.testing.env_manager.episodes import EpisodeChecks
from dicore.testing.env_manager.faults import FaultChecks
from dicore.testing.env_manager.spaces import SpaceChecks
from dicore.testing.env_manager.stepping import SteppingChecks
from dicore.testing.env_manager.workers import WorkerChecks

__all__ = ["EnvManagerContract"]


class EnvManagerContract(SteppingChecks, EpisodeChecks, FaultChecks, SpaceChecks, WorkerChecks):
    """Conformance suite of env managers: subclass it and override `make`."""
