"""Acting with a model: arrays in, arrays out, also for the observation of one environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Columns, EnvBatch, Tree, tree_map, tree_paths
from dicore.data.tree import is_tensor

if TYPE_CHECKING:
    import torch

__all__ = ["Actor", "as_outputs", "evaluating", "single_env_forward", "switched_modules"]


class Actor:
    """Runs a model for acting: arrays in, arrays out, without gradients.

    Small MLPs on the CPU run their NumPy forward pass (`model.act_numpy()`) on views of the
    parameters, so each gradient update takes effect at once. Other models run as torch modules.

    Args:
        model: The shared network; the actor forwards its attributes.
        device: Device of the module.
        by_numpy: Use the NumPy forward pass if the model has one.
    """

    def __init__(self, model: Any, device: str = "cpu", *, by_numpy: bool = True) -> None:
        self._model, self._device = model, device
        self._by_numpy = by_numpy and device == "cpu" and hasattr(model, "act_numpy")
        self._switched = switched_modules(model)
        self._act: Callable[[Any], Any] | None = None
        self.rebind()

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        return type(self)(copy.deepcopy(self._model, memo), self._device, by_numpy=self._by_numpy)

    def rebind(self) -> None:
        """Renews the views; call it after the parameters moved in memory."""
        self._act = self._model.act_numpy() if self._by_numpy else None

    def forward(self, obs: Tree, *state: Tree) -> Columns:
        """Runs the model on K observations.

        Args:
            obs: Arrays [K, ...]; nested if the model takes nested observations.
            *state: State [K, ...] of a recurrent model; none: its first one.

        Returns:
            The model's outputs as arrays: `logit` [K, A] (a list of such for several heads), ….
        """
        try:
            if self._act is not None:
                output = self._act(obs)
                bare = output.__class__ is np.ndarray
                return {"logit": output} if bare else dict(as_outputs(output))
            return self._forward_module(obs, *state)
        except Exception as error:
            shapes = {path: [*np.shape(leaf)] for path, leaf in tree_paths(obs).items()}
            seen = ", ".join(f"{path} {shape}" for path, shape in shapes.items())
            error.add_note(f"raised by {type(self._model).__name__} acting on observations: {seen}")
            raise

    __call__ = forward

    def _forward_module(self, *inputs: Tree) -> Columns:
        import torch

        def tensor(leaf: Tree) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

        with evaluating(self._switched), torch.inference_mode():
            output = as_outputs(self._model(*(tree_map(tensor, each) for each in inputs)))
            return {key: tree_map(_array, value) for key, value in output.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)


def switched_modules(model: Any) -> list[Any]:
    """Returns the modules of a network that are in evaluation mode where it does not learn.

    Noisy layers, which have `reset_noise`, are not among them: their noise explores.
    """
    modules = getattr(model, "modules", None)
    found = [] if modules is None else modules()
    return [each for each in found if not hasattr(each, "reset_noise")]


@contextmanager
def evaluating(modules: list[Any]) -> Iterator[None]:
    """Puts modules into evaluation mode for a while, those of `switched_modules`."""
    training = [each for each in modules if each.training]
    for each in training:
        each.__dict__["training"] = False  # a tenth of the time of `each.training = False`
    try:
        yield
    finally:
        for each in training:
            each.__dict__["training"] = True


def as_outputs(output: Tree) -> Mapping[str, Any]:
    """Returns the outputs by name; a bare tensor, or a list with one per head, becomes `logit`."""
    return output if isinstance(output, Mapping) else {"logit": output}


def _array(leaf: Tree) -> Tree:
    return leaf.cpu().numpy() if is_tensor(leaf) else leaf


_FIRST = np.zeros(1, np.int64)


def single_env_forward(eval_mode: Any) -> Callable[[Any], Any]:
    """Returns a function that acts in a single environment.

    Args:
        eval_mode: An eval mode, of a policy or written by hand.

    Returns:
        `fn(obs) -> action`. The observation is what the environment returns (nested ones too) or a
        list of numbers; the action is an int for one discrete choice, otherwise an array.
    """

    def act(obs: Tree) -> Tree:
        if isinstance(obs, list):
            obs = np.asarray(obs)
        value = tree_map(lambda leaf: np.asarray(leaf)[None], obs)
        output = EnvBatch.of(eval_mode.forward(EnvBatch(_FIRST, value))).value
        action = np.asarray(output["action"])[0]
        return int(action) if action.ndim == 0 and action.dtype.kind in "iu" else action

    return act
