"""What all policies share: the shared model, modes as tuples of functions, attributes, device.

A policy writes `_init_<mode>`, `_forward_<mode>` and, where it learns from trajectories,
`_process_transition` and `_get_train_sample`; the modes are put together here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dicore.config.coerce import as_config
from dicore.config.sections import PolicyConfig
from dicore.data import Batch, EnvBatch, TimestepBatch, Tree, tree_map, tree_paths
from dicore.data.tree import is_tensor
from dicore.errors import ModeError, UsageError
from dicore.interfaces.policy import CollectMode, CommandMode, EvalMode, LearnMode

FIELDS = ("learn", "collect", "eval")


class Policy:
    """Base of policies: one model, shared by every mode.

    Args:
        cfg: The policy's section of a compiled config, or its options as a dict.
        model: A network to use instead of the configured one; used as it is, not copied.
        enable_field: Modes to build; None builds learn, collect and eval.

    Raises:
        ModeError: `enable_field` names a mode that this policy has not.
        UsageError: `model` is nothing that this policy can use.
    """

    config_class: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, Any] | None = None,
        model: Any | None = None,
        enable_field: Sequence[str] | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._enabled = tuple(FIELDS if enable_field is None else enable_field)
        self._modes: dict[str, Any] = {}
        self._device = self._choose_device()
        self._model = self._create_model() if model is None else self._checked_model(model)
        for field in self._enabled:
            setup = getattr(self, f"_init_{field}", None)
            if setup is None:
                raise ModeError(f"{self} has no mode '{field}'", hint="learn, collect, eval")
            setup()

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    def default_model(self) -> tuple[str, list[str]]:
        """Returns the registered name of the model built when none is passed, and no imports."""
        return self._cfg.model.type if self._cfg.model else "", []

    def _create_model(self) -> Any:
        return None

    def _checked_model(self, model: Any) -> Any:
        """Returns a model that was passed in, or raises UsageError."""
        if isinstance(model, type):
            raise UsageError(
                f"model: expected an object, got the class {model.__name__}",
                hint=f"{model.__name__}(…)",
            )
        return model

    def _choose_device(self) -> str:
        if not self._cfg.cuda:
            return "cpu"
        import torch

        if not torch.cuda.is_available():
            raise ModeError("policy.cuda: this machine has no CUDA device", hint="set cuda=False")
        return "cuda"

    # ---- modes

    @property
    def learn_mode(self) -> LearnMode:
        """Functions for training; see `LearnMode`."""
        return self._mode("learn", self._make_learn_mode)

    @property
    def collect_mode(self) -> CollectMode:
        """Functions for collecting; see `CollectMode`."""
        return self._mode("collect", self._make_collect_mode)

    @property
    def eval_mode(self) -> EvalMode:
        """Functions for evaluating; see `EvalMode`."""
        return self._mode("eval", self._make_eval_mode)

    @property
    def command_mode(self) -> CommandMode:
        """Functions that anneal settings; see `CommandMode`."""
        return CommandMode(
            self._get_setting_learn, self._get_setting_collect, self._get_setting_eval
        )

    def _mode(self, field: str, make: Callable[[], Any]) -> Any:
        if field not in self._enabled:
            raise ModeError(
                f"{self} was built without '{field}_mode'",
                hint=f"enable_field={[*self._enabled, field]}",
            )
        if field not in self._modes:
            self._modes[field] = make()
        return self._modes[field]

    def _make_learn_mode(self) -> LearnMode:
        return LearnMode(
            forward=self._forward_learn,
            reset=self._reset_learn,
            info=self.__repr__,
            monitor_vars=self._monitor_vars_learn,
            get_attribute=self.get_attribute,
            set_attribute=self.set_attribute,
            state_dict=self._state_dict_learn,
            load_state_dict=self._load_state_dict_learn,
        )

    def _make_collect_mode(self) -> CollectMode:
        return CollectMode(
            forward=self._forward_collect,
            process_transition=self._process_transition,
            get_train_sample=self._get_train_sample,
            reset=self._reset_collect,
            get_attribute=self.get_attribute,
            set_attribute=self.set_attribute,
            state_dict=self._state_dict_model,
            load_state_dict=self._load_state_dict_model,
        )

    def _make_eval_mode(self) -> EvalMode:
        return EvalMode(
            forward=self._forward_eval,
            reset=self._reset_eval,
            get_attribute=self.get_attribute,
            set_attribute=self.set_attribute,
            state_dict=self._state_dict_model,
            load_state_dict=self._load_state_dict_model,
        )

    # ---- what a policy fills in

    def _forward_learn(self, data: Any, **kwargs: Any) -> Any:
        raise ModeError(f"{self} does not learn")

    def _forward_collect(self, obs: Any, **kwargs: Any) -> Any:
        raise ModeError(f"{self} does not collect")

    def _forward_eval(self, obs: Any) -> Any:
        raise ModeError(f"{self} does not evaluate")

    def _process_transition(
        self, obs: Any, output: dict[str, Any], timestep: TimestepBatch
    ) -> dict[str, Any]:
        """Picks what off-policy learning needs of one step of K environments.

        `done` is the termination alone: a cut episode's last state still has a value.
        """
        return {
            "obs": obs,
            "next_obs": timestep.obs,
            "action": output["action"],
            "reward": timestep.reward,
            "done": getattr(timestep, "terminated", timestep.done),
        }

    def _get_train_sample(self, trajectory: Batch) -> Batch:
        return trajectory

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss"]

    def _reset_learn(self, data_id: Sequence[int] | None = None) -> None:
        """Clears per-row state of training; most policies have none."""

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        """Clears per-env state of collecting; most policies have none."""

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        """Clears per-env state of evaluating; most policies have none."""

    def _state_dict_model(self) -> dict[str, Any]:
        return {"model": dict(self._model.state_dict())}

    def _load_state_dict_model(self, state: Mapping[str, Any]) -> None:
        self._model.load_state_dict(dict(state["model"]))

    def _state_dict_learn(self) -> dict[str, Any]:
        return self._state_dict_model()

    def _load_state_dict_learn(self, state: Mapping[str, Any]) -> None:
        self._load_state_dict_model(state)

    def _get_setting_learn(self, command_info: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_collect(self, command_info: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_eval(self, command_info: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    # ---- attributes

    def get_attribute(self, name: str) -> Any:
        """Returns a fact of the policy: `cfg device model on_policy n_sample nstep priority …`.

        Raises:
            AttributeError: the policy has no fact of that name.
        """
        getter = getattr(self, f"_get_{name}", None)
        if getter is not None:
            return getter()
        if hasattr(self, f"_{name}"):
            return getattr(self, f"_{name}")
        for part in (self._cfg, self._cfg.learn, self._cfg.collect):
            if name in part:
                return part[name]
        raise AttributeError(f"{self} has no attribute '{name}'")

    def set_attribute(self, name: str, value: Any) -> None:
        """Sets a fact of the policy: by `_set_<name>` where there is one.

        Raises:
            AttributeError: the policy has no fact of that name.
        """
        setter = getattr(self, f"_set_{name}", None)
        if setter is not None:
            setter(value)
        elif hasattr(self, f"_{name}"):
            setattr(self, f"_{name}", value)
        else:
            raise AttributeError(f"{self} has no attribute '{name}' to set")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._enabled)})"


class Actor:
    """A model seen from the acting side: numpy in, numpy out, no gradient.

    Small MLPs on the CPU act by numpy views of their own parameters (`model.act_numpy()`): the
    weights are shared, so every update is seen at once. Everything else acts by the module.

    Args:
        model: The shared network; its attributes stay reachable through the actor.
        device: Where the module lives.
        by_numpy: Use the views where the model offers them.
    """

    def __init__(self, model: Any, device: str = "cpu", *, by_numpy: bool = True) -> None:
        self._model = model
        self._device = device
        self._by_numpy = by_numpy and device == "cpu" and hasattr(model, "act_numpy")
        self._act: Callable[[Any], Any] | None = None
        self.rebind()

    def rebind(self) -> None:
        """Takes the views anew; needed after the parameters moved in memory."""
        self._act = self._model.act_numpy() if self._by_numpy else None

    def forward(self, obs: Tree) -> dict[str, Any]:
        """Runs the model on K observations.

        Args:
            obs: Arrays [K, ...], nested as the model takes them.

        Returns:
            The model's outputs as arrays: `logit` [K, A] (a list of such for several heads), ….
        """
        try:
            if self._act is not None:
                return {"logit": self._act(obs)}
            return self._forward_module(obs)
        except Exception as error:
            shapes = {path: [*np.shape(leaf)] for path, leaf in tree_paths(obs).items()}
            seen = ", ".join(f"{path} {shape}" for path, shape in shapes.items())
            error.add_note(f"raised by {type(self._model).__name__} acting on observations: {seen}")
            raise

    __call__ = forward

    def _forward_module(self, obs: Tree) -> dict[str, Any]:
        import torch

        def tensor(leaf: Any) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

        with torch.inference_mode():
            output = as_outputs(self._model(tree_map(tensor, obs)))
            return {key: tree_map(_array, value) for key, value in output.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)


def as_outputs(output: Any) -> Mapping[str, Any]:
    """Returns what a network says by name; a bare tensor, or a list of one per head, is `logit`."""
    return output if isinstance(output, Mapping) else {"logit": output}


def _array(leaf: Any) -> Any:
    return leaf.cpu().numpy() if is_tensor(leaf) else leaf


def mode_attribute(mode: Any, name: str, default: Any) -> Any:
    """Returns `mode.get_attribute(name)`, or `default` where the mode cannot tell."""
    get_attribute = getattr(mode, "get_attribute", None)
    if get_attribute is None:
        return default
    try:
        return get_attribute(name)
    except (AttributeError, KeyError):
        return default


_FIRST = np.zeros(1, np.int64)


def single_env_forward(eval_mode: Any) -> Callable[[Any], Any]:
    """Makes a function of one environment's observation.

    Args:
        eval_mode: An eval mode; hand-made ones do.

    Returns:
        `fn(obs) -> action`: observations (nested ones too) as the environment gives them, or as a
        list of numbers; actions as it takes them: an int for one discrete choice, else an array.
    """

    def act(obs: Any) -> Any:
        if isinstance(obs, list):
            obs = np.asarray(obs)
        value = tree_map(lambda leaf: np.asarray(leaf)[None], obs)
        output = EnvBatch.of(eval_mode.forward(EnvBatch(_FIRST, value))).value
        action = np.asarray(output["action"])[0]
        return int(action) if action.ndim == 0 and action.dtype.kind in "iu" else action

    return act
