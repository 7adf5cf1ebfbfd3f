"""The contracts of models and wrappers: good ones pass, and each check catches a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dicore.errors import ConfigError
from dicore.run.random import seed_everything
from dicore.testing.model import ModelContract
from dicore.testing.model_wrapper import FakeModel, ModelWrapperContract

from .faults import Fault, catches, caught, names_of

torch = pytest.importorskip("torch")


class GoodModel(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A linear layer per head; images are averaged over their pixels."""

    def __init__(self, obs_shape: Any, action_shape: Any) -> None:
        super().__init__()
        features = obs_shape if isinstance(obs_shape, int) else obs_shape[0]
        self.several = not isinstance(action_shape, int)
        sizes = action_shape if self.several else (action_shape,)
        self.heads = torch.nn.ModuleList([self.layer(features, size) for size in sizes])

    def layer(self, features: int, size: int) -> Any:
        return torch.nn.Linear(features, size)

    def forward(self, obs: Any) -> Any:
        logits = [head(self.features(obs)) for head in self.heads]
        return {"logit": logits if self.several else logits[0]}

    def features(self, obs: Any) -> Any:
        obs = obs.float() / 255 if obs.dtype == torch.uint8 else obs
        return obs.mean((2, 3)) if obs.dim() == 4 else obs

    def act_numpy(self) -> Callable[[Any], Any]:
        return lambda obs: self(torch.from_numpy(obs))["logit"].detach().numpy()


def refuses_bytes(self: Any, obs: Any) -> Any:
    return obs.mean((2, 3)) if obs.dim() == 4 else obs


def joined(self: Any, obs: Any) -> Any:
    return {"logit": torch.cat([head(self.features(obs)) for head in self.heads], 1)}


def centred(self: Any, obs: Any) -> Any:
    return GoodModel.features(self, obs) - GoodModel.features(self, obs).mean(0)


def clamps(self: Any, obs: Any) -> Any:
    return obs.clamp_(-0.1, 0.1) if obs.dim() == 2 else GoodModel.features(self, obs)


def stopped(self: Any, obs: Any) -> Any:
    return {"logit": self.heads[0](obs) + self.heads[0].bias, "value": self.unused(obs).detach()}


def with_unused(self: Any, obs_shape: Any, action_shape: Any) -> None:
    GoodModel.__init__(self, obs_shape, action_shape)
    self.unused = torch.nn.Linear(4, 1)


def by_clock(self: Any, features: int, size: int) -> Any:
    layer = torch.nn.Linear(features, size)
    torch.nn.init.constant_(layer.bias, torch.seed() % 1000)
    return layer


def constant(self: Any, features: int, size: int) -> Any:
    layer = torch.nn.Linear(features, size)
    torch.nn.init.constant_(layer.weight, 0.5)
    torch.nn.init.constant_(layer.bias, 0.5)
    return layer


def frozen_views(self: Any) -> Callable[[Any], Any]:
    weight, bias = (each.detach().clone().numpy() for each in self.heads[0].parameters())
    return lambda obs: obs @ weight.T + bias


def other_name(self: Any) -> Callable[[Any], Any]:
    act = GoodModel.act_numpy(self)
    return lambda obs: {"logit": act(obs), "q": act(obs)}


def other_value(self: Any) -> Callable[[Any], Any]:
    act = GoodModel.act_numpy(self)
    return lambda obs: {"logit": act(obs) + 1}


def one_block(self: Any) -> Callable[[Any], Any]:
    act = GoodModel.act_numpy(self)

    def into_block(obs: Any) -> Any:
        block = self.__dict__.setdefault("block", act(obs))
        block[:] = act(obs)
        return block

    return into_block


MODEL_FAULTS: list[Fault] = [
    ("has_the_methods", {"parameters": lambda self, recurse=True: iter(())}),
    ("returns_named_outputs", {"forward": lambda self, obs: self.heads[0](obs)}),
    ("returns_named_outputs", {"forward": lambda self, obs: {"logit": self.heads[0](obs) / 0}}),
    ("returns_named_outputs", {"forward": lambda self, obs: {"logit": self.heads[0](obs).mean(0)}}),
    ("accepts_images", {"features": refuses_bytes}),
    ("has_several_heads", {"forward": joined}),
    ("samples_are_independent", {"features": centred}),
    ("does_not_change_its_input", {"features": clamps}),
    ("gradients_reach_every_parameter", {"__init__": with_unused, "forward": stopped}),
    ("same_seed_same_parameters", {"layer": by_clock}),
    ("same_seed_same_parameters", {"layer": constant}),
    ("state_round_trip", {"load_state_dict": lambda self, state: None}),
    ("act_numpy_matches_forward", {"act_numpy": frozen_views}),
    ("act_numpy_matches_forward", {"act_numpy": one_block}),
    ("act_numpy_matches_forward", {"act_numpy": other_name}),
    ("act_numpy_matches_forward", {"act_numpy": other_value}),
]


def make_model(cls: type[Any]) -> Any:
    def make(self: Any, obs_shape: Any, action_shape: Any, seed: int = 0) -> Any:
        seed_everything(seed)
        return cls(obs_shape, action_shape)

    return make


class TestGoodModel(ModelContract):
    make = make_model(GoodModel)


class TestModelOfVectors(ModelContract):
    """A model that takes neither images nor several heads skips these checks."""

    def make(self, obs_shape: Any, action_shape: Any, seed: int = 0) -> Any:
        if not (isinstance(obs_shape, int) and isinstance(action_shape, int)):
            raise ConfigError("vectors and one action only")
        seed_everything(seed)
        return GoodModel(obs_shape, action_shape)


test_each_check_of_models_catches_its_fault = catches(
    ModelContract, GoodModel, MODEL_FAULTS, make_model
)


class GoodWrapper:
    """Adds the greedy action."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self._model(*args, **kwargs)
        return {**output, "action": output["logit"].argmax(1)}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def reset(self, *args: Any) -> None: ...

    def info(self, name: str) -> str:
        below = self._model.info(name) if isinstance(self._model, GoodWrapper) else ""
        return f"{type(self).__name__} > {below or type(self._model).__name__}"

    def __getattr__(self, name: str) -> Any:
        if name == "_model":
            raise AttributeError(name)
        return getattr(self._model, name)


def everything(self: Any, name: str) -> Any:
    if name == "_model":
        raise AttributeError(name)
    return getattr(self._model, name, None)


def nothing(self: Any, name: str) -> Any:
    raise AttributeError(name)


def a_copy(self: Any, model: Any) -> None:
    import copy

    self._model = copy.deepcopy(model)


def action_only(self: Any, *args: Any, **kwargs: Any) -> Any:
    return {"action": self._model(*args, **kwargs)["logit"].argmax(1)}


def sharpens(self: Any, *args: Any, **kwargs: Any) -> Any:
    output = self._model(*args, **kwargs)
    return {**output, "logit": output["logit"] * 2}


def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
    output = self._model(*args, **kwargs)
    output["logit"] -= 1e8
    return output


def in_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
    output = self._model(*args, **kwargs)
    output["action"] = output["logit"].argmax(1)
    return output


def changes_input(self: Any, obs: Any, **kwargs: Any) -> Any:
    obs += 1
    return self._model(obs, **kwargs)


WRAPPER_FAULTS: list[Fault] = [
    ("has_the_methods", {"info": None}),
    ("attributes_pass_through", {"__getattr__": everything}),
    ("attributes_pass_through", {"__getattr__": nothing}),
    ("shares_the_model", {"__init__": a_copy}),
    ("keeps_the_model_output", {"forward": action_only}),
    ("keeps_the_model_output", {"forward": sharpens}),
    ("does_not_change_the_model_output", {"forward": in_place}),
    ("does_not_change_the_model_output", {"forward": in_dict}),
    ("does_not_change_observations", {"forward": changes_input}),
    ("reset_accepts_ids", {"reset": lambda self: None}),
    ("info_lists_the_layers", {"info": lambda self, name: type(self).__name__}),
]
PLANTED = {
    ModelContract: [check for check, _ in MODEL_FAULTS],
    ModelWrapperContract: [check for check, _ in WRAPPER_FAULTS],
}


class TestGoodWrapper(ModelWrapperContract):
    def make(self, model: Any) -> Any:
        return GoodWrapper(model)


class TestGoodWrapperOfTorch(TestGoodWrapper):
    def model(self) -> Any:
        return GoodModel(4, 3)


@pytest.mark.parametrize("model", [FakeModel, lambda: GoodModel(4, 3)], ids=["numpy", "torch"])
@pytest.mark.parametrize("fault", WRAPPER_FAULTS, ids=names_of(WRAPPER_FAULTS))
def test_each_check_of_wrappers_catches_its_fault(fault: Fault, model: Callable[[], Any]) -> None:
    contract = type("Contract", (ModelWrapperContract,), {"model": lambda self: model()})
    assert caught(contract, GoodWrapper, fault) is not None
