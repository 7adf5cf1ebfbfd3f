"""The policy role: one algorithm, seen through modes that are plain tuples of functions.

A mode is not a policy: whoever has functions of the same names and shapes can stand for one.

Shapes: K ready environments, T steps, N environments, B rows, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from dicore.errors import UsageError
from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch, EnvBatch, TimestepBatch

KIND = Kind(
    name="policy",
    summary="an algorithm in several modes: learn, collect, eval",
    contract="dicore.interfaces.policy:IPolicy",
    section="policy",
    suite="dicore.testing.policy:PolicyContract",
)

StateDict = dict[str, Any]


class LearnMode(NamedTuple):
    """Functions that a learner calls.

    `forward(data, **kwargs)` takes a `Batch` or a list of rows and returns a dict of tensors
    (`total_loss`, `priority` float32 [B], …), or a list of such dicts when it made several updates.
    """

    forward: Callable[..., Any]
    reset: Callable[..., None]
    info: Callable[[], str]
    monitor_vars: Callable[[], list[str]]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, Any], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[Mapping[str, Any]], None]


class CollectMode(NamedTuple):
    """Functions that a collector calls.

    `forward(obs: EnvBatch, **kwargs) -> EnvBatch` of columns [K, ...], `action` among them;
    `process_transition(obs, output, timestep) -> columns` picks what training needs for K
    environments; `get_train_sample(trajectory: Batch) -> Batch` turns a time-major block of such
    columns [T, N, ...], which has `end` bool [T, N] beside them, into samples [B, ...].
    """

    forward: Callable[..., Any]
    process_transition: Callable[[Any, dict[str, Any], TimestepBatch], dict[str, Any]]
    get_train_sample: Callable[[Batch], Batch]
    reset: Callable[..., None]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, Any], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[Mapping[str, Any]], None]


class EvalMode(NamedTuple):
    """Functions that an evaluator calls: `forward(obs: EnvBatch) -> EnvBatch`, no exploration."""

    forward: Callable[[EnvBatch[Any]], Any]
    reset: Callable[..., None]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, Any], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[Mapping[str, Any]], None]


class CommandMode(NamedTuple):
    """Functions that anneal settings from facts of the training (`learner_step`, `envstep`, …)."""

    get_setting_learn: Callable[[Mapping[str, Any]], dict[str, Any]]
    get_setting_collect: Callable[[Mapping[str, Any]], dict[str, Any]]
    get_setting_eval: Callable[[Mapping[str, Any]], dict[str, Any]]


def check_mode(given: Any, field: str, *functions: str) -> None:
    """Refuses what cannot stand for a mode: a whole policy, another mode, another part.

    Args:
        given: What somebody passed as a mode.
        field: `learn`, `collect` or `eval`.
        *functions: What of the mode is called.

    Raises:
        UsageError: it lacks one of them.
    """
    missing = [name for name in functions if not callable(getattr(given, name, None))]
    if not missing:
        return
    what = given.__name__ if isinstance(given, type) else type(given).__name__
    has_it = hasattr(type(given), f"{field}_mode")
    raise UsageError(
        f"expected the {field} mode of a policy, got {what}, which has no {', '.join(missing)}",
        hint=f"pass policy.{field}_mode" + (", not the policy itself" if has_it else ""),
    )


@runtime_checkable
class IPolicy(Protocol):
    """An algorithm; each mode is a tuple of functions over the one shared model."""

    @property
    def learn_mode(self) -> Any:
        """A `LearnMode`, or a duck-typed tuple of the same fields."""

    @property
    def collect_mode(self) -> Any:
        """A `CollectMode`, or a duck-typed tuple of the same fields."""

    @property
    def eval_mode(self) -> Any:
        """An `EvalMode`, or a duck-typed tuple of the same fields."""
