"""Context: declared fields only, a fresh instance per step, kept values carried over."""

from __future__ import annotations

import copy
import dataclasses
import pickle  # noqa: TID251 - workers of a later mode are sent contexts
import warnings
from typing import Any

import numpy as np
import pytest

from dicore.errors import ContextError, DicoreError
from dicore.task import Context, OfflineRLContext, OnlineRLContext


@dataclasses.dataclass
class MyContext(Context):
    """The documents' example, `total_step` declared once more."""

    total_step: int = 0
    var1: int = 0
    var2: int = 0
    var3: dict[str, Any] | list[Any] | None = None
    var4: list[Any] | None = None

    def __post_init__(self) -> None:
        self.keep("var1", "var2")


@dataclasses.dataclass
class WithFactory(Context):
    seen: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class KeepsAnything(Context):
    held: Any = None

    def __post_init__(self) -> None:
        self.keep("held")


@dataclasses.dataclass
class WithoutDefault(Context):
    needed: int = dataclasses.field(kw_only=True)


class Undecorated(Context):
    forgotten: int = 0


def test_the_documents_own_context_keeps_what_it_names() -> None:
    ctx = MyContext(total_step=3, var1=1, var2=2, var3={"a": 1}, var4=[1])

    fresh = ctx.renew()

    assert type(fresh) is MyContext
    assert (fresh.total_step, fresh.var1, fresh.var2) == (4, 1, 2)
    assert (fresh.var3, fresh.var4) == (None, None)
    assert ctx == MyContext(total_step=3, var1=1, var2=2, var3={"a": 1}, var4=[1])


def test_every_step_has_a_collection_of_its_own() -> None:
    ctx = WithFactory()
    ctx.seen.append(1)

    fresh = ctx.renew()

    assert fresh.seen == []
    assert fresh.seen is not ctx.seen


def test_what_is_kept_later_stays_kept() -> None:
    """`keep` outside of `__post_init__` holds for all later steps, not for the next alone."""
    ctx = WithFactory(total_step=7)
    ctx.keep("total_step")
    mine = MyContext(var4=None)
    mine.keep("var4")

    assert ctx.renew().renew().total_step == 9
    assert mine.keeps("var4")
    assert mine.renew().renew().keeps("var4")
    assert not MyContext().keeps("var4")


@pytest.mark.parametrize(
    "use",
    [
        lambda ctx: setattr(ctx, "epsilon", 1),
        lambda ctx: ctx.epsilon,
        lambda ctx: ctx["epsilon"],
        lambda ctx: ctx.__setitem__("epsilon", 1),
        lambda ctx: ctx.keep("epsilon"),
    ],
    ids=["set", "read", "get item", "set item", "keep"],
)
def test_a_field_nobody_declared_is_refused(use: Any) -> None:
    ctx = OnlineRLContext()

    with pytest.raises(ContextError, match="epsilon") as raised:
        use(ctx)

    assert "OnlineRLContext" in str(raised.value)
    assert (
        "subclass" in raised.value.hint or "class MyContext(OnlineRLContext)" in raised.value.hint
    )
    assert "epsilon" not in vars(ctx)
    assert isinstance(raised.value, AttributeError | DicoreError)


def test_a_declared_field_has_no_items_either() -> None:
    with pytest.raises(ContextError, match=r"write ctx\.env_step"):
        OnlineRLContext()["env_step"]


def test_reading_by_default_value_still_works() -> None:
    """`ContextError` is an AttributeError, which is what getattr and hasattr look for."""
    assert getattr(OnlineRLContext(), "epsilon", None) is None
    assert not hasattr(OnlineRLContext(), "epsilon")
    assert OnlineRLContext().has_attr("env_step")
    assert not OnlineRLContext().has_attr("keep")
    assert not OnlineRLContext().has_attr("_kept")


def test_a_forgotten_decorator_is_named() -> None:
    with pytest.raises(ContextError, match=r"@dataclasses\.dataclass above 'class Undecorated'"):
        Undecorated().forgotten = 1


def test_a_field_without_default_is_named_on_renewal() -> None:
    with pytest.raises(ContextError, match=r"WithoutDefault\.needed has no default"):
        WithoutDefault(needed=1).renew()


def test_slots_are_refused_on_renewal() -> None:
    slotted = dataclasses.make_dataclass("Slotted", [("x", int, 0)], bases=(Context,), slots=True)
    with pytest.raises(ContextError, match="Slotted has slots"):
        slotted().renew()


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, np.zeros(3), object()], ids=lambda v: str(type(v))
)
def test_keeping_more_than_a_plain_value_warns_once(value: Any) -> None:
    ctx = KeepsAnything(held=None)
    ctx.held = value

    with pytest.warns(UserWarning, match=r"KeepsAnything\.held is kept .* holds a "):
        ctx = ctx.renew()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        later = ctx.renew().renew()

    assert later.held is value


def test_a_tensor_kept_warns() -> None:
    torch = pytest.importorskip("torch")
    with pytest.warns(UserWarning, match="holds a Tensor"):
        KeepsAnything(held=torch.zeros(()))


@pytest.mark.parametrize("value", [1, 1.5, True, "x", None, np.float32(2), np.int64(3)])
def test_plain_values_are_kept_quietly(value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KeepsAnything(held=value).renew().held == value


def test_a_copy_and_a_pickle_know_what_is_kept() -> None:
    ctx = MyContext(var1=5, var3=[1])
    ctx.keep("var4")
    for twin in (copy.deepcopy(ctx), pickle.loads(pickle.dumps(ctx))):
        assert twin == ctx
        assert twin.keeps("var4")
        assert twin.renew().var1 == 5


ONLINE_KEPT = {
    "total_step", "env_step", "env_episode", "train_iter", "last_eval_iter", "last_eval_value",
}  # fmt: skip
ONLINE_RENEWED = {
    "train_data", "train_output", "collect_kwargs", "obs", "action", "inference_output",
    "trajectories", "episodes", "trajectory_end_idx", "eval_value", "eval_output",
}  # fmt: skip
OFFLINE_KEPT = {
    "total_step", "env_step", "train_epoch", "train_iter", "last_eval_iter", "last_eval_value",
}  # fmt: skip
OFFLINE_RENEWED = {"train_data", "train_output", "eval_value", "eval_output"}


@pytest.mark.parametrize(
    ("cls", "kept", "renewed"),
    [
        (OnlineRLContext, ONLINE_KEPT, ONLINE_RENEWED),
        (OfflineRLContext, OFFLINE_KEPT, OFFLINE_RENEWED),
    ],
    ids=["online", "offline"],
)
def test_fields_of_the_documents(cls: type[Context], kept: set[str], renewed: set[str]) -> None:
    """Each field of the documents' tables is there, and is carried over or renewed as they say."""
    assert {field.name for field in dataclasses.fields(cls)} == kept | renewed
    ctx = cls()
    before = {name: getattr(ctx, name) for name in renewed}
    for name in kept - {"total_step"}:
        setattr(ctx, name, 41)
    for name in renewed:
        setattr(ctx, name, ["used"])

    fresh = ctx.renew()

    assert {name: getattr(fresh, name) for name in kept} == {
        name: 1 if name == "total_step" else 41 for name in kept
    }
    assert {name: getattr(fresh, name) for name in renewed} == before


def test_epochs_count_on() -> None:
    """The kept epoch is what lets an offline run end by epochs."""
    ctx = OfflineRLContext()
    for _ in range(3):
        ctx.train_epoch += 1
        ctx = ctx.renew()
    assert ctx.train_epoch == 3
