"""Context: the data that middleware exchange; every step gets a new instance.

A dataclass declares the fields. Fields that its `__post_init__` names by `keep` are carried over to
the next step, all others start at their defaults.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Never, Self

from dicore.errors import ContextError
from dicore.values import Columns, Row, Tree

if TYPE_CHECKING:
    from dicore.data import Batch, EnvBatch

__all__ = ["Context", "OfflineRLContext", "OnlineRLContext"]

_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})

_NOTHING_KEPT: Mapping[str, bool] = {}
"""Kept fields, and whether a warning was given; shared by all contexts of a run."""

_Start = tuple[dict[str, object], tuple[tuple[str, Callable[[], object]], ...]]
"""The initial values of a context class, and the factories of others."""


@dataclasses.dataclass
class Context:
    """Base class of contexts; subclass it to declare your own fields.

    Accessing an undeclared field raises `ContextError`, and so does item access.
    """

    total_step: int = 0
    """Number of task steps before this one; always kept."""

    _kept = _NOTHING_KEPT

    def __post_init__(self) -> None:
        """Called after every construction and renewal; call `keep` here."""

    def keep(self, *names: str) -> None:
        """Carries declared fields over to all later steps; for plain numbers and strings."""
        new = [name for name in names if name not in self._kept]
        if not new:
            return
        for name in new:
            if name not in type(self).__dataclass_fields__:
                raise _undeclared(self, name)
        self.__dict__["_kept"] = {**self._kept, **dict.fromkeys(new, False)}
        for name in new:
            self._warn_if_unfit(name, self.__dict__.get(name))

    def keeps(self, name: str) -> bool:
        """Returns whether a field is carried over to the next step."""
        return name == "total_step" or name in self._kept

    def has_attr(self, name: str) -> bool:
        """Returns whether the class declares a field of this name."""
        return name in type(self).__dataclass_fields__

    def renew(self) -> Self:
        """Returns the context of the next step: kept values, `total_step` + 1, and defaults."""
        cls, old = type(self), self.__dict__
        values, factories = _STARTS.get(cls) or _start_of(cls)
        fresh = object.__new__(cls)
        new = fresh.__dict__  # bypasses the check of `__setattr__`
        new.update(values)
        for name, make in factories:
            new[name] = make()
        kept = self._kept
        new["_kept"] = kept
        fresh.__post_init__()
        for name in kept:
            value = new[name] = old[name]
            if value.__class__ not in _PLAIN:
                self._warn_if_unfit(name, value)
        new["total_step"] = old["total_step"] + 1
        return fresh

    def _warn_if_unfit(self, name: str, value: object) -> None:
        """Warns once for each kept field whose value is not a plain number or string."""
        if _is_plain(value) or self._kept[name]:
            return
        self.__dict__["_kept"][name] = True
        warnings.warn(
            f"{type(self).__name__}.{name} is kept from step to step and holds a "
            f"{type(value).__name__}; keep plain numbers, and store other data in a middleware",
            stacklevel=3,
        )

    if not TYPE_CHECKING:  # type checkers would accept any name otherwise

        def __setattr__(self, name: str, value: object) -> None:
            if name not in self.__dataclass_fields__:
                raise _undeclared(self, name)
            object.__setattr__(self, name, value)

        def __getattr__(self, name: str) -> Never:
            raise _undeclared(self, name)

        def __getitem__(self, name: object, *_: object) -> Never:
            cls = type(self).__name__
            raise ContextError(
                f"a context does not support item access: {cls}[{name!r}]",
                hint=f"write ctx.{name}; declare new fields in a subclass of {cls}",
            )

        __setitem__ = __getitem__


@dataclasses.dataclass
class _TrainingContext(Context):
    """The fields that online and offline training share."""

    env_step: int = 0
    """Env steps collected so far; 0 without collecting."""
    train_iter: int = 0
    """Gradient updates made so far."""
    train_data: Batch | list[Row] | Columns | None = None
    """The batch of the next gradient update."""
    train_output: list[Columns] | Columns | None = None
    """Results of this step's updates; values are tensors."""

    eval_value: float = float("-inf")
    """Mean return (or metric) of this step's evaluation."""
    last_eval_iter: int = -1
    """`train_iter` of the last evaluation."""
    last_eval_value: float = float("-inf")
    """Mean return (or metric) of the last evaluation."""
    eval_output: Tree = None
    """Complete result of this step's evaluation."""

    def __post_init__(self) -> None:
        self.keep("env_step", "train_iter", "last_eval_iter", "last_eval_value")


@dataclasses.dataclass
class OnlineRLContext(_TrainingContext):
    """Context of online training."""

    env_episode: int = 0
    """Episodes finished while collecting so far."""
    collect_kwargs: dict[str, object] = dataclasses.field(default_factory=dict)
    """Keyword arguments of `collect_mode.forward` in this step, such as `eps`."""
    obs: EnvBatch[Tree] | None = None
    """Observations that the policy received, by env id."""
    action: EnvBatch[Tree] | None = None
    """Actions of the policy, by env id."""
    inference_output: EnvBatch[Tree] | None = None
    """Complete output of the policy, by env id."""
    trajectories: Batch | list[Row] | None = None
    """Training samples collected in this step."""
    episodes: Sequence[Batch | list[Row]] | None = None
    """Whole episodes collected in this step."""
    trajectory_end_idx: list[int] = dataclasses.field(default_factory=list)
    """Indices in `trajectories` at which a trajectory segment ends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.keep("env_episode")


@dataclasses.dataclass
class OfflineRLContext(_TrainingContext):
    """Context of training on a dataset."""

    train_epoch: int = 0
    """Epochs started so far."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.keep("train_epoch")


_STARTS: dict[type[Context], _Start] = {}


def _start_of(cls: type[Context]) -> _Start:
    """Reads the defaults of a context class, once per class."""
    if any(vars(base).get("__slots__") for base in cls.__mro__):
        raise ContextError(
            f"{cls.__name__} has slots, which contexts do not support", hint="remove slots=True"
        )
    values: dict[str, object] = {}
    factories: list[tuple[str, Callable[[], object]]] = []
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            factories.append((field.name, field.default_factory))
        elif field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        else:
            raise ContextError(
                f"{cls.__name__}.{field.name} has no default, which every next step needs",
                hint=f"write '{field.name}: ... = <default>' in {cls.__name__}",
            )
    return _STARTS.setdefault(cls, (values, tuple(factories)))


def _is_plain(value: Tree) -> bool:
    """Returns whether a value is a number or a string, including numpy scalars."""
    if type(value) in _PLAIN or isinstance(value, int | float | str):
        return True
    return type(value).__module__ == "numpy" and hasattr(value, "item") and value.size == 1


def _undeclared(ctx: Context, name: str) -> ContextError:
    cls = type(ctx).__name__
    if name in type(ctx).__annotations__:
        return ContextError(
            f"{cls}.{name} is annotated, but {cls} is not a dataclass",
            hint=f"write @dataclasses.dataclass above 'class {cls}'",
        )
    return ContextError(
        f"{cls} declares no field '{name}'",
        hint=f"declare it: @dataclasses.dataclass class MyContext({cls}): {name}: ... = ...",
    )
