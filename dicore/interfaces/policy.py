"""The policy role: one algorithm with modes (learn, collect, eval), which are tuples of functions.

Any object with functions of the same names can replace a mode.

Shapes: K ready environments, T steps, N environments, B samples, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from dicore.errors import UsageError
from dicore.values import Columns, State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dicore.data import Batch, EnvBatch, TimestepBatch

KIND = Kind(
    name="policy",
    summary="implements an RL algorithm: learn, collect and eval modes",
    contract="dicore.interfaces.policy:IPolicy",
    section="policy",
    suite="dicore.testing.policy:PolicyContract",
    use="dicore {verb} {env} -p {name}{needed}{data}",
)


class LearnMode(NamedTuple):
    """The functions for learners.

    `forward(data, **kwargs)` takes a `Batch` or a list of rows. It returns a dict of tensors
    (`total_loss`, `priority` float32 [B], …), or a list of dicts for several updates.
    """

    forward: Callable[..., Columns | list[Columns]]
    reset: Callable[..., None]
    info: Callable[[], str]
    monitor_vars: Callable[[], list[str]]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, object], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[State], None]


class Tail(NamedTuple):
    """What `get_train_sample` needs besides the rows of a block [T, N, ...].

    Args:
        obs: Observations [N, ...] after the last row: those that the policy acts on next.
        final_index: int64 [F]; the rows that end an episode, as `t * N + n`.
        final_obs: [F, ...]; the observations after these rows, the last ones of their episodes.
        starts: Samples begin at rows below this one; the next block begins with the others.
        carried: Leading rows that were in the previous block too.
        changed: The column `obs` is not what the environments showed, so it tells no `next_obs`.
    """

    obs: Tree
    final_index: npt.NDArray[np.int64]
    final_obs: Tree
    starts: int
    carried: int = 0
    changed: bool = False


class CollectMode(NamedTuple):
    """The functions for collectors.

    `forward(obs: EnvBatch, **kwargs) -> EnvBatch` returns columns [K, ...], including `action`.
    `process_transition(obs, output, timestep) -> columns` selects the columns for training.
    `get_train_sample(block: Batch, tail: Tail) -> Batch` converts time-major columns [T, N, ...] to
    samples [B, ...]: one per start, fewer or more, or none. The block has the additional columns
    `end` bool [T, N] (the last row of an episode), `valid` bool [T, N] (False for the rows of
    abnormal episodes, which give no samples) and `env_id` int64 [T, N].

    A sample bridges `sample_len` rows, and samples begin every `sample_stride` rows: (n, 1) are
    n-step returns; "episode" makes each block a whole episode [T, 1, ...]. Collectors read both
    from `PolicyFacts`, and save `collect_state`: the memory of running episodes, if there is any.
    """

    forward: Callable[..., EnvBatch[Columns]]
    process_transition: Callable[[Tree, Columns, TimestepBatch], Columns]
    get_train_sample: Callable[[Batch, Tail], Batch]
    reset: Callable[..., None]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, object], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[State], None]


class EvalMode(NamedTuple):
    """The functions for evaluators: `forward(obs: EnvBatch) -> EnvBatch`, without exploration."""

    forward: Callable[[EnvBatch[Tree]], EnvBatch[Columns]]
    reset: Callable[..., None]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, object], None]
    state_dict: Callable[[], StateDict]
    load_state_dict: Callable[[State], None]


class CommandMode(NamedTuple):
    """The functions that anneal settings by training progress (`learner_step`, `envstep`, …)."""

    get_setting_learn: Callable[[Mapping[str, int]], dict[str, float]]
    get_setting_collect: Callable[[Mapping[str, int]], dict[str, float]]
    get_setting_eval: Callable[[Mapping[str, int]], dict[str, float]]


class PolicyFacts(NamedTuple):
    """What collectors, learners and roles need to know of a policy: `get_attribute("facts")`.

    A sample bridges `sample_len` rows, and samples begin every `sample_stride` rows; "episode"
    makes each block a whole episode. The counts are what the config says; None: it does not.
    """

    sample_len: int | Literal["episode"] = 1
    sample_stride: int = 1
    on_policy: bool = False
    n_sample: int | None = None
    n_episode: int | None = None
    batch_size: int | None = None
    nstep: int = 1
    unroll_len: int = 1
    priority: bool = False


def facts_of(mode: object) -> PolicyFacts:
    """Returns the facts of a mode.

    Modes written by hand need not declare any: each is then asked for by its own name, and has its
    default if the mode does not know it.
    """
    get: Callable[[str], Any] | None = getattr(mode, "get_attribute", None)
    if get is None:
        return PolicyFacts()
    with suppress(AttributeError, KeyError):
        if isinstance(found := get("facts"), PolicyFacts):
            return found
    known: dict[str, Any] = {}
    for name in PolicyFacts._fields:
        with suppress(AttributeError, KeyError):
            if (value := get(name)) is not None:
                known[name] = value
    return PolicyFacts(**{"sample_len": known.get("nstep", 1), **known})


def check_mode(given: object, field: str, *functions: str) -> None:
    """Checks that an object has the functions of a mode.

    Args:
        given: The object.
        field: `learn`, `collect` or `eval`.
        *functions: The required functions.

    Raises:
        UsageError: it lacks one of them.
    """
    if not (missing := [name for name in functions if not callable(getattr(given, name, None))]):
        return
    what = given.__name__ if isinstance(given, type) else type(given).__name__
    has_it = hasattr(type(given), f"{field}_mode")
    raise UsageError(
        f"expected the {field} mode of a policy, got {what}, which has no {', '.join(missing)}",
        hint=f"pass policy.{field}_mode" + (", not the policy itself" if has_it else ""),
    )


@runtime_checkable
class IPolicy(Contract, Protocol):
    """An algorithm; all modes share one model."""

    @property
    def learn_mode(self) -> LearnMode:
        """A `LearnMode` or an object with the same fields."""

    @property
    def collect_mode(self) -> CollectMode:
        """A `CollectMode` or an object with the same fields."""

    @property
    def eval_mode(self) -> EvalMode:
        """An `EvalMode` or an object with the same fields."""

    @property
    def command_mode(self) -> CommandMode:
        """A `CommandMode` or an object with the same fields."""
