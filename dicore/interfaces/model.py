"""The model role, a network; and the model-wrapper role, a layer that changes how one behaves.

Shapes: B rows (or K ready environments), A actions, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

__all__ = ["KIND", "WRAPPER_KIND", "IModel", "IModelWrapper", "SupportsNumpyActing"]

KIND = Kind(
    name="model",
    summary="a network: observations in, a dict of outputs out",
    contract="dicore.interfaces.model:IModel",
    section="policy.model",
    suite="dicore.testing.model:ModelContract",
)

WRAPPER_KIND = Kind(
    name="model_wrapper",
    summary="a layer around a shared model that gives it another behaviour",
    contract="dicore.interfaces.model:IModelWrapper",
    suite="dicore.testing.model_wrapper:ModelWrapperContract",
)


@runtime_checkable
class IModel(Protocol):
    """What policies need of a network; a `torch.nn.Module` has all but the meaning of `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Computes the outputs of B rows.

        Args:
            *args: Observations [B, ...] first. Actor-critics take `mode` as well.
            **kwargs: What the network's own docstring names.

        Returns:
            Outputs by name: `logit` [B, A] (several heads: a list of such), `value` [B], ….
        """

    def parameters(self) -> Iterable[Any]:
        """Returns what is learned."""

    def state_dict(self) -> Mapping[str, Any]:
        """Returns parameters and buffers by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Restores what `state_dict` returned, in place."""


@runtime_checkable
class SupportsNumpyActing(Protocol):
    """What a model offers that can act without torch's overhead."""

    def act_numpy(self) -> Callable[[Any], Any] | None:
        """Returns a function from float32 [K, ...] to `logit` as arrays, or None.

        It reads the model's parameters where they are: every update is seen at once. What it
        returns has memory of its own.
        """


@runtime_checkable
class IModelWrapper(Protocol):
    """A layer around a model: `Wrapper(model, **options)`; all it lacks is the model's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs what is below and adds to its output; that output is not changed in place."""

    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Clears per-environment state: all of it, or that of the ids given."""

    def info(self, name: str) -> str:
        """Says which layers have an attribute, from the outermost inwards."""
