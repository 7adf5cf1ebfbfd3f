"""The pipeline role: a short list of middleware that makes a whole training out of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.interfaces.policy import IPolicy

KIND = Kind(
    name="pipeline",
    summary="puts the parts together and trains",
    contract="dicore.interfaces.pipeline:IPipeline",
    section="pipeline",
    suite="dicore.testing.pipeline:PipelineContract",
)


@runtime_checkable
class IPipeline(Protocol):
    """A way of training; chosen by name, run once per training."""

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> IPolicy:
        """Binds nothing and writes nothing of its own: builds parts, loops, returns the policy.

        Args:
            compiled: A bound `dicore.config.Compiled`.
            run: The `dicore.run.Run` that holds folder, store, streams and logs.
            model: A network to use instead of the configured one.
        """


@runtime_checkable
class SupportsCheck(Protocol):
    """A pipeline that looks at a config before anything is made."""

    def check(self, compiled: Any) -> None:
        """Looks whether the parts of a bound config fit this way of training.

        Raises:
            ConfigError: they do not.
        """
