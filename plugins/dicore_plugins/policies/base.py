"""Base class of policies, and helpers to save a network and to query a mode.

A policy implements `_init_<mode>`, `_forward_<mode>` and, if it learns from trajectories,
`_process_transition` and `_get_train_sample`; the base class builds the modes from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from torch import nn

from dicore.config.compiler import as_config
from dicore.config.schema import fields_of
from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, State, StateDict, TimestepBatch, Tree
from dicore.errors import DicoreError, ModeError, SchemaError, UsageError
from dicore.interfaces.policy import (
    CollectMode,
    CommandMode,
    EvalMode,
    LearnMode,
    PolicyFacts,
    Tail,
)
from dicore.run.env_factory import BuildContext
from dicore.run.random import torch_stream
from dicore_plugins.functional.samples import flatten_time, next_obs_of, sequences

if TYPE_CHECKING:
    from torch import Tensor

FIELDS = ("learn", "collect", "eval", "command")

T = TypeVar("T")
ModeT = TypeVar("ModeT")
Samples = Batch | Sequence[Mapping[str, Tree]]
"""What a learn mode takes: B samples as columns, or a list of rows."""
Results = dict[str, "Tensor | float | dict[str, Tensor] | None"]
"""What one update returns, by name."""


def _nothing() -> None:
    """Prepares a mode that needs no preparation."""


_RAW = (TypeError, ValueError, RuntimeError, LookupError, StopIteration)
"""What networks raise for arrays that they cannot compute with."""
_COMPILED = "_orig_mod."
"""What `torch.compile` puts into the names of parameters."""


def model_state(model: Any) -> dict[str, Any]:
    """Returns the state of a network by plain names, also of one that `torch.compile` returned."""
    return {name.replace(_COMPILED, ""): value for name, value in model.state_dict().items()}


def load_model_state(model: Any, state: State) -> None:
    """Loads the state of a network, compiled or not, into one that may be the other."""
    own = {name.replace(_COMPILED, ""): name for name in model.state_dict()}
    plain = {name.replace(_COMPILED, ""): value for name, value in state.items()}
    model.load_state_dict({own.get(name, name): value for name, value in plain.items()})


class Policy:
    """Base class of policies: all modes share one model.

    Args:
        cfg: The policy's section of a compiled config, or its options as a dict.
        model: Network to use instead of the configured one; it is not copied.
        enable_field: Modes to build; None: all. `command` needs no part and is always there.
        device: Device of the run (`BuildContext.device`); None or `cpu`: `policy.cuda` decides.

    Raises:
        ModeError: `enable_field` names a mode that this policy does not have.
        UsageError: this policy cannot use `model`.
    """

    config_class: ClassVar[type[PolicyConfig]] = PolicyConfig
    fields: ClassVar[tuple[str, ...]] = FIELDS
    """Names of the modes; a subclass adds its own, and returns each by `mode(…)`."""
    columns: ClassVar[tuple[object, ...] | None] = None
    """Own columns of its transitions, see `dicore.interfaces.columns`; None: not declared."""
    attributes: ClassVar[tuple[str, ...]] = ("cfg", "device", "model", "like")
    """What `get_attribute` and `set_attribute` know besides facts; a subclass names its own."""
    network_class: ClassVar[type | None] = None
    """Class of its networks, if they need one: others are refused; a subclass names its own."""
    network_has: ClassVar[tuple[str, ...]] = ()
    """What a network must have beside `forward`, else it is refused; a subclass names its own."""
    _declared: ClassVar[frozenset[str]] = frozenset(attributes)
    _like: Any = None
    """The collect mode whose samples have the same columns, if it stands in for one."""

    def __init_subclass__(cls) -> None:
        """Adds the attributes that a subclass declares to those of its bases."""
        super().__init_subclass__()
        cls._declared = frozenset().union(*(vars(c).get("attributes", ()) for c in cls.__mro__))

    def __init__(
        self,
        cfg: PolicyConfig | Mapping[str, object] | None = None,
        model: nn.Module | None = None,
        enable_field: Sequence[str] | None = None,
        *,
        device: str | None = None,
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._enabled = tuple(self.fields if enable_field is None else enable_field)
        self._modes: dict[str, Any] = {}
        self._device = self._choose_device() if device in (None, "cpu") else str(device)
        self._model: Any = self._create_model() if model is None else self._checked_model(model)
        for field in self._enabled:
            if field not in (*self.fields, "command"):
                raise ModeError(
                    f"{self} has no mode '{field}'", hint=f"choose from {', '.join(self.fields)}"
                )
            getattr(self, f"_init_{field}", _nothing)()

    def _init_command(self) -> None:
        """Builds nothing."""

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    def default_model(self) -> tuple[str, list[str]]:
        """Returns the registered name of the default model, and an empty list of imports."""
        return self._cfg.model.type if self._cfg.model else "", []

    def _create_model(self) -> nn.Module | None:
        """Builds the network of the config, from the stream `model`; None: it has none."""
        if self._cfg.model is None:
            return None
        with torch_stream("model"):
            model = self._cfg.model.build(BuildContext())
        return self._checked_model(model)

    def _checked_model(self, model: nn.Module) -> nn.Module:
        """Returns the model that was passed in, or raises UsageError."""
        if isinstance(model, type):
            raise UsageError(
                f"model: expected an instance, got the class {model.__name__}",
                hint=f"pass {model.__name__}(…)",
            )
        self._check_network(model)
        return model

    def _check_network(self, model: object) -> None:
        """Refuses a network of another class than `network_class`, or without `network_has`."""
        wanted = self.network_class
        if wanted is not None and not isinstance(model, wanted):
            raise UsageError(
                f"model: {self} needs a network of class {wanted.__name__}, got"
                f" {type(model).__name__}",
                hint=f"derive it from {wanted.__module__.partition('.')[0]}.{wanted.__name__}",
            )
        lacking = [f"`{name}`" for name in self.network_has if not hasattr(model, name)]
        if lacking:
            own: Any = fields_of(self.config_class)["model"].metadata["component_default"]
            own = own["type"] if isinstance(own, Mapping) else own
            raise UsageError(
                f"model: {type(model).__name__} has no {' and no '.join(lacking)}, which {self}"
                " needs",
                hint=f"choose policy.model.type={own}, or derive from that network",
            )

    def _choose_device(self) -> str:
        if not self._cfg.cuda:
            return "cpu"
        import torch

        if not torch.cuda.is_available():
            raise ModeError(
                "policy.cuda: no CUDA device is available",
                hint="set policy.cuda=False (--device cpu)",
            )
        return "cuda"

    # ---- modes

    @property
    def learn_mode(self) -> LearnMode:
        """Functions to train; see `LearnMode`."""
        return self.mode("learn", self._make_learn_mode)

    @property
    def collect_mode(self) -> CollectMode:
        """Functions to collect; see `CollectMode`."""
        return self.mode("collect", self._make_collect_mode)

    @property
    def eval_mode(self) -> EvalMode:
        """Functions to evaluate; see `EvalMode`."""
        return self.mode("eval", self._make_eval_mode)

    @property
    def command_mode(self) -> CommandMode:
        """Functions that compute annealed settings; see `CommandMode`."""
        settings = self._get_setting_learn, self._get_setting_collect, self._get_setting_eval
        return CommandMode(*map(_with_counters, settings))

    def mode(self, field: str, make: Callable[[], ModeT]) -> ModeT:
        """Returns a mode, which is created when it is first asked for.

        Args:
            field: Its name, one of `fields`.
            make: Creates it: a tuple of functions such as `EvalMode`.

        Raises:
            ModeError: the policy was built without it.
        """
        if field not in self._enabled:
            raise ModeError(
                f"{self} was built without '{field}_mode'",
                hint=f"pass enable_field={[*self._enabled, field]}",
            )
        if field not in self._modes:
            self._modes[field] = make()
        found: ModeT = self._modes[field]
        return found

    def _make_learn_mode(self) -> LearnMode:
        return LearnMode(
            forward=self._guarded_learn,
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
            forward=self._guarded_collect,
            process_transition=self._process_transition,
            get_train_sample=self._samples_of_block,
            reset=self._reset_collect,
            get_attribute=self.get_attribute,
            set_attribute=self.set_attribute,
            state_dict=self._state_dict_model,
            load_state_dict=self._load_state_dict_model,
        )

    def _make_eval_mode(self) -> EvalMode:
        return EvalMode(
            forward=self._guarded_eval,
            reset=self._reset_eval,
            get_attribute=self.get_attribute,
            set_attribute=self.set_attribute,
            state_dict=self._state_dict_model,
            load_state_dict=self._load_state_dict_model,
        )

    def _guarded_learn(self, data: Any, **kwargs: object) -> Any:
        try:
            return self._forward_learn(data, **kwargs)
        except _RAW as error:
            self._diagnose(error, "problem_of_samples", data)
            raise

    def _guarded_collect(self, obs: Tree, **kwargs: object) -> Any:
        try:
            return self._forward_collect(obs, **kwargs)
        except _RAW as error:
            self._diagnose(error, "problem_of_obs", obs)
            raise

    def _guarded_eval(self, obs: Tree, **kwargs: object) -> Any:
        try:
            return self._forward_eval(obs, **kwargs)
        except _RAW as error:
            self._diagnose(error, "problem_of_obs", obs)
            raise

    def _diagnose(self, error: Exception, finder: str, given: Any) -> None:
        """Raises the error that says what is wrong with the arguments, if that is found."""
        from dicore_plugins.policies import diagnosis

        if isinstance(error, DicoreError):
            return
        problem: DicoreError | None = getattr(diagnosis, finder)(self, given)
        if problem is not None:
            raise problem from error

    # ---- overridden by policies

    def _forward_learn(self, data: Samples, **kwargs: Any) -> Tree:
        raise ModeError(f"{self} does not learn")

    def _forward_collect(self, obs: Tree, **kwargs: Any) -> Tree:
        raise ModeError(f"{self} does not collect")

    def _forward_eval(self, obs: Tree) -> Tree:
        raise ModeError(f"{self} does not evaluate")

    def _process_transition(
        self, obs: Tree, output: Columns, timestep: TimestepBatch
    ) -> dict[str, Any]:
        """Selects the columns of one step of K environments that learning needs.

        `done` is the termination only: after a truncation the last state still has a value. The
        next observation is not among them: samples get it from the following row.
        """
        return {
            "obs": obs,
            "action": output["action"],
            "reward": timestep.reward,
            "done": getattr(timestep, "terminated", timestep.done),
        }

    def _samples_of_block(self, block: Batch, tail: Tail | None = None) -> Any:
        if not isinstance(block, Batch):
            raise SchemaError(
                f"get_train_sample: expected a block of columns [T, N, ...] (a Batch with 'end'),"
                f" got {type(block).__name__}",
                hint="n-step samples of a list of transitions: get_nstep_return_data (functional)",
            )
        return self._get_train_sample(block, tail)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Returns single steps, or sequences of `unroll_len` steps; off-policy with `next_obs`."""
        if not self._cfg.on_policy and "next_obs" not in block:
            block = Batch({**block.columns, "next_obs": next_obs_of(block, tail)}, len(block))
        unroll_len = self._cfg.collect.unroll_len
        if unroll_len > 1:
            return sequences(block, self._get_unroll_steps(), unroll_len, tail)
        return flatten_time(block)

    def _need_one_reward(self, block: Batch) -> None:
        """Raises UsageError if rewards are vectors, which losses take for those of n steps."""
        if (reward := block.get("reward")) is not None and reward.ndim > 2:
            from dicore_plugins.policies.fitting import refuse_rewards

            refuse_rewards(self._cfg.type, reward.shape[2:])

    def _get_unroll_steps(self) -> int:
        return int(self._cfg.collect.unroll_len + self._cfg.nstep - 1)

    def _get_facts(self) -> PolicyFacts:
        """What collectors, learners and roles need to know."""
        cfg = self._cfg
        return PolicyFacts(
            sample_len=self._get_sample_len(),
            sample_stride=self._get_sample_stride(),
            on_policy=cfg.on_policy,
            n_sample=getattr(cfg.collect, "n_sample", None),
            n_episode=getattr(cfg.collect, "n_episode", None),
            batch_size=getattr(cfg.learn, "batch_size", None),
            nstep=cfg.nstep,
            unroll_len=cfg.collect.unroll_len,
            priority=cfg.priority,
        )

    def _get_sample_len(self) -> int | Literal["episode"]:
        """Rows that one sample bridges, or "episode"; see `CollectMode`."""
        return "episode" if self._cfg.traj_len_inf else self._get_unroll_steps()

    def _get_sample_stride(self) -> int:
        """Rows between the starts of two samples; see `CollectMode`."""
        return int(self._cfg.collect.unroll_len)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss"]

    def _reset_learn(self, data_id: Sequence[int] | None = None) -> None:
        """Clears the state of rows, or of environments; most policies have none."""

    _reset_collect = _reset_eval = _reset_learn

    def _state_dict_model(self) -> StateDict:
        return {"model": model_state(self._model)}

    def _load_state_dict_model(self, state: State) -> None:
        load_model_state(self._model, state["model"])

    def _state_dict_learn(self) -> StateDict:
        return self._state_dict_model()

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)

    def _get_setting_learn(self, command_info: Mapping[str, int]) -> dict[str, float]:
        return {}

    _get_setting_collect = _get_setting_eval = _get_setting_learn

    def _get_decayed_rate(self) -> float:
        """Computes the learning rate of this update, of policies with `learning_rate_end`."""
        learn = self._cfg.learn
        progress = min(getattr(self, "_update_count", 0) / learn.learning_rate_decay, 1.0)
        rate: float = learn.learning_rate * (1 + (learn.learning_rate_end - 1) * progress)
        return rate

    # ---- attributes

    def get_attribute(self, name: str) -> Any:
        """Returns an attribute by name: a field of `facts`, or what the policy declares.

        Declared are the names in `attributes` of its classes and the methods `_get_<name>`.

        Raises:
            AttributeError: the policy has no attribute of that name.
        """
        getter = getattr(self, f"_get_{name}", None)
        if getter is not None:
            return getter()
        if name in self._declared:
            return getattr(self, f"_{name}")
        if name in PolicyFacts._fields:
            return getattr(self._get_facts(), name)
        from dicore_plugins.policies.undeclared import undeclared

        return undeclared(self, name)

    def set_attribute(self, name: str, value: Tree) -> None:
        """Sets an attribute by name, through `_set_<name>` if the policy defines it.

        Raises:
            AttributeError: the policy has no attribute of that name.
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


def _with_counters(setting: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Returns the function, with an error that names a counter that is not given to it."""

    def computed(command_info: Mapping[str, int]) -> dict[str, float]:
        try:
            return setting(command_info)
        except KeyError as error:
            raise UsageError(
                f"{setting.__name__.lstrip('_')}: the counter {error} is missing; got"
                f" {', '.join(map(str, command_info)) or 'none'}",
                hint="pass {'envstep': env steps, 'learner_step': updates}",
            ) from error

    return computed


def mode_attribute(mode: Any, name: str, default: Any) -> Any:
    """Returns `mode.get_attribute(name)`, or `default` if the mode does not have it."""
    get_attribute = getattr(mode, "get_attribute", None)
    if get_attribute is None:
        return default
    try:
        return get_attribute(name)
    except (AttributeError, KeyError):
        return default


def returned(found: T | None, policy: object, method: str) -> T:
    """Returns what a method returned.

    Args:
        found: What it returned.
        policy: Whose method it is.
        method: Its name.

    Raises:
        UsageError: it returned nothing.
    """
    if found is None:
        raise UsageError(
            f"{type(policy).__name__}.{method} returned None",
            hint="end the method by return, with what the one that it overrides returns",
        )
    return found
