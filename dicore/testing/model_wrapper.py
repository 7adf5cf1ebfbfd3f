"""The contract of model wrappers (`IModelWrapper`): they share the model, without copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dicore.data import State, StateDict, Tree
from dicore.data.tree import to_tensor
from dicore.interfaces.model import IModel, IModelWrapper
from dicore.testing.compare import copied, difference
from dicore.testing.suite import Suite, expect, expect_members, refuses

__all__ = ["FakeModel", "ModelWrapperContract"]


class FakeModel:
    """A model of three logits that keeps its last output."""

    nickname = "fake"

    def __init__(self) -> None:
        self.weight = np.arange(12, dtype=np.float32).reshape(4, 3)
        self.returned: dict[str, Any] = {}

    def forward(self, obs: object) -> dict[str, Any]:
        self.returned = {"logit": np.asarray(obs) @ self.weight}
        return self.returned

    __call__ = forward

    def parameters(self) -> Iterator[Any]:
        yield self.weight

    def state_dict(self) -> StateDict:
        return {"weight": self.weight}

    def load_state_dict(self, state_dict: State) -> None:
        self.weight[...] = state_dict["weight"]


class ModelWrapperContract(Suite):
    """Conformance suite of model wrappers: subclass it and override `make`."""

    forward_kwargs: Mapping[str, object] = {}
    """Keyword arguments of `forward`."""

    def make(self, model: Any) -> Any:
        """Returns a wrapper (`IModelWrapper`) of this model."""
        return self.registered.build(model=model)

    def model(self) -> Any:
        """Returns a model to wrap: float32 [B, 4] in, `logit` [B, 3] among the outputs.

        Where models are registered, the first of them that takes such shapes.
        """
        if self.component is None:
            return FakeModel()
        from dicore.errors import DicoreError
        from dicore.testing.component import Component

        registry = self.component.registry
        for entry in registry.entries("model"):
            try:
                return Component(entry, registry).build({"obs_shape": 4, "action_shape": 3})
            except DicoreError:
                continue
        return FakeModel()

    def test_has_the_methods(self) -> None:
        """It satisfies `IModelWrapper`."""
        expect_members(self.make(self.model()), IModelWrapper)

    def test_attributes_pass_through(self) -> None:
        """Other attributes are those of the model, at any depth; unknown ones raise."""
        model = self.model()
        model.nickname = "the model"
        deep = self.make(self.make(self.make(model)))
        expect(deep.nickname == "the model", f"through three layers: {deep.nickname!r}")
        wrong = difference(dict(deep.state_dict()), dict(model.state_dict()))
        expect(not wrong, f"state_dict through three layers differs: {wrong}")
        with refuses(AttributeError, "an attribute that neither layer nor model has"):
            _ = deep.no_such_attribute

    def test_shares_the_model(self) -> None:
        """Its parameters are those of the model, not copies."""
        model = self.model()
        mine, its = list(self.make(self.make(model)).parameters()), list(model.parameters())
        same = len(mine) == len(its) and all(a is b for a, b in zip(mine, its, strict=True))
        expect(same, "its parameters are not the model's")

    def test_keeps_the_model_output(self) -> None:
        """Its output contains all outputs of the model, unchanged."""
        model = self.model()
        output = self._forward(self.make(model), _obs(model))
        bare = model(_obs(model))
        missing = bare.keys() - output.keys()
        expect(not missing, f"missing outputs of the model: {', '.join(sorted(missing))}")
        wrong = difference({key: output[key] for key in bare}, dict(bare))
        expect(not wrong, f"changed outputs of the model: {wrong}")

    def test_does_not_change_the_model_output(self) -> None:
        """It does not change the model's output in place."""
        returned: list[Tree] = []
        model = _Watched(self.model(), returned)
        self._forward(self.make(model), _obs(model))
        for output, before in returned:
            wrong = difference(dict(output), before)
            expect(not wrong, f"the model's output was changed in place: {wrong}")

    def test_does_not_change_observations(self) -> None:
        """`forward` does not change its input."""
        model = self.model()
        obs = _obs(model)
        before = copied(obs)
        self._forward(self.make(model), obs)
        expect(not difference(obs, before), "forward changed its input")

    def test_reset_accepts_ids(self) -> None:
        """`reset` accepts nothing or ids, even without state."""
        wrapper = self.make(self.model())
        expect(wrapper.reset() is None, "reset() must return None")
        expect(wrapper.reset([0, 2]) is None, "reset([0, 2]) must return None")

    def test_info_lists_the_layers(self) -> None:
        """`info` lists the layers that have an attribute, outermost first."""
        model = self.model()
        wrapper = self.make(self.make(model))
        text = wrapper.info("forward")
        expect(type(wrapper).__name__ in text, f"info('forward') does not name it: {text!r}")
        expect(
            text.rstrip().endswith(type(model).__name__),
            f"info does not end with the model: {text!r}",
        )

    def _forward(self, wrapper: IModelWrapper, obs: Tree) -> Any:
        return wrapper.forward(obs, **self.forward_kwargs)


class _Watched:
    """A model that records its outputs and copies of them."""

    def __init__(self, model: IModel, returned: list[object]) -> None:
        self._watched = model
        self._returned = returned

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        output = self._watched(*args, **kwargs)
        self._returned.append((output, copied(dict(output))))
        return output

    forward = __call__

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name in ("_watched", "_returned"):
            raise AttributeError(name)
        return getattr(self._watched, name)


def _obs(model: Any) -> Any:
    obs = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    parameters = list(model.parameters())
    return to_tensor(obs) if parameters and hasattr(parameters[0], "detach") else obs
