"""The pipeline role: builds the parts of a run and trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.interfaces.policy import IPolicy
    from dicore.run import Run

KIND = Kind(
    name="pipeline",
    summary="builds the components and runs the training loop",
    contract="dicore.interfaces.pipeline:IPipeline",
    section="pipeline",
    suite="dicore.testing.pipeline:PipelineContract",
    use="dicore train -m {name} -e cartpole -p dqn",
)


@runtime_checkable
class IPipeline(Contract, Protocol):
    """A training procedure; runs once per training."""

    def run(self, compiled: Compiled, run: Run, *, model: Any = None) -> IPolicy:
        """Builds the parts, trains and returns the policy.

        Args:
            compiled: A bound `dicore.config.Compiled`.
            run: The `dicore.run.Run` with folder, checkpoints, random streams and logs.
            model: A `torch.nn.Module` that replaces the configured network.
        """


@runtime_checkable
class SupportsCheck(Protocol):
    """A pipeline that checks a config before anything is created."""

    def check(self, compiled: Compiled) -> None:
        """Checks that the parts of a bound config fit this pipeline.

        Raises:
            ConfigError: they do not fit.
        """
