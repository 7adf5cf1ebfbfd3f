"""The model role (a network) and the model-wrapper role, which changes a network's behaviour.

Shapes: B samples (or K ready environments), A actions, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore.values import Columns, State, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data.tree import Array

__all__ = ["KIND", "WRAPPER_KIND", "IModel", "IModelWrapper", "SupportsNumpyActing"]

KIND = Kind(
    name="model",
    summary="maps observations to a dict of outputs (neural network)",
    contract="dicore.interfaces.model:IModel",
    section="policy.model",
    suite="dicore.testing.model:ModelContract",
    use="dicore train -e cartpole -p dqn policy.model={name}",
)

WRAPPER_KIND = Kind(
    name="model_wrapper",
    summary="changes how a shared model is used: action sampling, target network",
    contract="dicore.interfaces.model:IModelWrapper",
    suite="dicore.testing.model_wrapper:ModelWrapperContract",
)


@runtime_checkable
class IModel(Protocol):
    """The part of a network that policies use: a `torch.nn.Module` with this `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Columns: ...

    def forward(self, *args: Any, **kwargs: Any) -> Columns:
        """Computes the outputs of B samples.

        Args:
            *args: Observations [B, ...], then the state of a recurrent network, its `hidden`.
            **kwargs: See the network's docstring.

        Returns:
            Outputs by name: `logit` [B, A] (several heads: a list of such), `value` [B], ….
        """

    def parameters(self) -> Iterable[Tree]:
        """Returns the trainable parameters."""

    def state_dict(self) -> State:
        """Returns parameters and buffers by name."""

    def load_state_dict(self, state_dict: State) -> object:
        """Restores a state in place."""


@runtime_checkable
class SupportsNumpyActing(Protocol):
    """A model with a NumPy forward pass, which avoids the overhead of torch."""

    def act_numpy(self) -> Callable[[Array], Tree] | None:
        """Returns a function from float32 [K, ...] to the outputs as arrays, or None.

        An array alone is `logit`. It uses the current parameters; its results are copies.
        """


@runtime_checkable
class IModelWrapper(Contract, Protocol):
    """`Wrapper(model, **options)`; other attributes are those of the model."""

    def __call__(self, *args: Any, **kwargs: Any) -> Columns: ...

    def forward(self, *args: Any, **kwargs: Any) -> Columns:
        """Calls the wrapped model and changes a copy of its output."""

    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Clears the state of all environments, or of the given ids."""

    def info(self, name: str) -> str:
        """Lists the layers that have an attribute, outermost first."""
