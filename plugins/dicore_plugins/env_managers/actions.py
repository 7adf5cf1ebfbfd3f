"""Actions of environments: checked before any environment is stepped, and recorded for resume.

Shapes: K environments.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from dicore.data import EnvBatch, Tree
from dicore.data.tree import Array
from dicore.errors import ActionError, EnvStateError, NonFiniteError, SchemaError

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["ActionCheck", "ActionLog", "action_check_of", "actions_of", "batch_of", "draw_actions"]

_LOG = logging.getLogger("dicore.env")

_INT64 = np.dtype(np.int64)
_ARRAYS = (np.ndarray, np.generic)
_LONGEST = 20_000
_MOST_ACTIONS = 2_000_000
_FEW = 32
"""Numbers that Python compares faster than NumPy does."""
_TRIM_FROM = 256
"""Steps in an action log from which on those of earlier episodes are removed."""


class ActionCheck(Protocol):
    """Checks the actions of K environments.

    Attributes:
        ragged: Actions, or parts of them, are not arrays and do not stack.
    """

    ragged: bool

    def __call__(self, actions: Tree, env_ids: Sequence[int]) -> Iterable[Tree]:
        """Returns the actions one by one; none shares memory with `actions`.

        Raises:
            ActionError: an action is not in the space.
        """

    def stacked(self, actions: Tree, env_ids: Sequence[int]) -> Tree:
        """Returns the actions [K, ...] that a vector env takes; raises as the call does."""

    def draw(self, count: int, rng: np.random.Generator) -> Tree:
        """Draws `count` legal actions, stacked."""


class DiscreteActions:
    """Checks actions of a Discrete space, and casts them to its dtype.

    Attributes:
        legal: The legal actions that need no cast, at most the first 65 536.
    """

    ragged = False

    def __init__(self, space: Any, *, clip: bool) -> None:
        self._low = int(getattr(space, "start", 0))
        self._n = int(space.n)
        self._dtype = np.dtype(getattr(space, "dtype", None) or np.int64)
        self._known = frozenset(range(self._low, self._low + min(self._n, 65_536)))
        self.legal = self._known if self._dtype == _INT64 else frozenset()

    def __call__(self, actions: Tree, env_ids: Sequence[int]) -> Iterable[Tree]:
        iterable: Iterable[Tree] = self.stacked(actions, env_ids)
        return iterable  # of np.int64: gymnasium checks them faster than ints

    def stacked(self, actions: Tree, env_ids: Sequence[int]) -> Tree:
        array = actions
        if array.__class__ is not ndarray or array.dtype is not _INT64 or array.ndim != 1:
            array = self._convert(np.asarray(actions), env_ids)
        values = array.tolist()
        if len(values) != len(env_ids):
            self._convert(array, env_ids)
        if not self._known.issuperset(values):
            self._refuse(array, env_ids)
        return array if array.dtype is self._dtype else array.astype(self._dtype)

    def _convert(self, array: Tree, env_ids: Sequence[int]) -> Tree:
        if array.dtype.kind in "iu" and array.shape in ((len(env_ids),), (len(env_ids), 1)):
            return array.reshape(-1)
        raise ActionError(
            f"actions {_form(array)} for {len(env_ids)} environments with discrete actions;"
            f" expected int64[{len(env_ids)}]",
            context={"env_ids": list(env_ids)},
        )

    def _refuse(self, array: Tree, env_ids: Sequence[int]) -> None:
        high = self._low + self._n - 1
        for env_id, action in zip(env_ids, array.tolist(), strict=True):
            if not self._low <= action <= high:
                raise ActionError(
                    f"env {env_id}: action {action} is not in {self._low}..{high}",
                    context={"env_id": env_id, "action": action},
                )

    def draw(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return rng.integers(self._low, self._low + self._n, count)


class ArrayActions:
    """Checks actions that are arrays.

    Args:
        space: Box, MultiDiscrete or MultiBinary.
        clip: Clip actions outside of a Box, and count them; False: refuse them.

    Attributes:
        clipped: Number of clipped actions so far.
    """

    ragged = False

    def __init__(self, space: Any, *, clip: bool) -> None:
        self._clip = clip
        self._shape = tuple(space.shape)
        self._dtype = np.dtype(space.dtype)
        name = type(space).__name__
        self._box = name == "Box"
        if self._box:
            self._low, self._high = space.low, space.high
        elif name == "MultiDiscrete":
            self._low = np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))
            self._high = self._low + space.nvec - 1
        else:
            self._low, self._high = np.zeros(self._shape, int), np.ones(self._shape, int)
        self._least, self._most = self._low, self._high
        if self._dtype.kind == "f":  # infinite actions are outside of them
            largest = np.finfo(self._dtype).max
            self._least = np.maximum(self._low, -largest)
            self._most = np.minimum(self._high, largest)
        ends = np.unique(self._least), np.unique(self._most)
        alike = all(len(each) == 1 for each in ends)
        self._ends = (ends[0].item(), ends[1].item()) if alike else None
        self.clipped = 0

    def __call__(self, actions: Tree, env_ids: Sequence[int]) -> Iterable[Tree]:
        iterable: Iterable[Tree] = self.stacked(actions, env_ids)
        return iterable

    def stacked(self, actions: Tree, env_ids: Sequence[int]) -> Tree:
        array = np.asarray(actions)
        kinds = "fiu" if self._dtype.kind == "f" else "iub"
        if array.shape != (len(env_ids), *self._shape) or array.dtype.kind not in kinds:
            expected = ", ".join(str(length) for length in (len(env_ids), *self._shape))
            raise ActionError(
                f"actions {_form(array)} for {len(env_ids)} environments;"
                f" expected {self._dtype}[{expected}]",
                context={"env_ids": list(env_ids)},
            )
        if not self._fit(array):
            array = self._inside(array, env_ids)
        if array.dtype != self._dtype:
            array = self._cast(array, env_ids)
        return array.copy()

    def _fit(self, array: Tree) -> bool:
        """Returns whether all actions are finite and in the space."""
        if self._ends is not None and 0 < array.size <= _FEW:
            values = array.ravel().tolist()
            total = sum(values)  # NaN if one of them is, which `min` and `max` may pass over
            least, most = self._ends
            return bool(least <= min(values) and max(values) <= most and not isnan(total))
        return bool(((array >= self._least) & (array <= self._most)).all())

    def _inside(self, array: Tree, env_ids: Sequence[int]) -> Tree:
        """Clips actions of which at least one is outside, or refuses them."""
        finite = np.isfinite(array)
        if not finite.all():
            self._refuse(array, ~finite, env_ids, "is not finite")
        outside = (array < self._low) | (array > self._high)
        if not outside.any():
            return array
        if not self._box or not self._clip:
            self._refuse(array, outside, env_ids, f"is not in {self._low}..{self._high}")
        rows = outside.reshape(len(array), -1).any(1)
        if self.clipped == 0:
            first = env_ids[int(np.argmax(rows))]
            _LOG.warning("actions outside of the action space are clipped (first in env %d)", first)
        self.clipped += int(rows.sum())
        return np.clip(array, self._low, self._high)

    def _cast(self, array: Tree, env_ids: Sequence[int]) -> Tree:
        with np.errstate(over="ignore"):
            cast = array.astype(self._dtype)
        finite = np.isfinite(cast)
        if not finite.all():
            self._refuse(array, ~finite, env_ids, f"is too large for {self._dtype}")
        return cast

    def _refuse(self, array: Tree, bad: Tree, env_ids: Sequence[int], what: str) -> None:
        row = int(np.argwhere(bad)[0][0])
        raise ActionError(
            f"env {env_ids[row]}: action {array[row].tolist()} {what}",
            context={"env_id": env_ids[row], "action": array[row].tolist()},
        )

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        if self._dtype.kind != "f":
            shape = (count, *self._shape)
            return rng.integers(self._low, self._high, shape, self._dtype, endpoint=True)
        has_low, has_high = np.isfinite(self._low), np.isfinite(self._high)
        low = np.where(has_low, self._low, np.where(has_high, self._high - 2.0, -1.0))
        high = np.where(has_high, self._high, low + 2.0)
        return rng.uniform(low, high, (count, *self._shape)).astype(self._dtype)


class NestedActions:
    """Checks actions of Dict and Tuple spaces, part by part."""

    def __init__(self, space: Any, *, clip: bool) -> None:
        self._dict = type(space).__name__ == "Dict"
        items = space.spaces.items() if self._dict else enumerate(space.spaces)
        self._parts = {key: action_check_of(part, clip=clip) for key, part in items}
        self.ragged = any(part.ragged for part in self._parts.values())

    def __call__(self, actions: Tree, env_ids: Sequence[int]) -> Iterable[Tree]:
        columns = self._columns(actions, lambda part, each: part(each, env_ids), env_ids)
        rows = zip(*columns, strict=True)
        if self._dict:
            return [dict(zip(self._parts, row, strict=True)) for row in rows]
        return list(rows)

    def stacked(self, actions: Tree, env_ids: Sequence[int]) -> Tree:
        columns = self._columns(actions, lambda part, each: part.stacked(each, env_ids), env_ids)
        return dict(zip(self._parts, columns, strict=True)) if self._dict else tuple(columns)

    def _columns(
        self, actions: Tree, check: Callable[[ActionCheck, Any], Any], env_ids: Sequence[int]
    ) -> list[Any]:
        try:
            return [check(part, actions[key]) for key, part in self._parts.items()]
        except (KeyError, IndexError, TypeError) as error:
            found = list(actions) if isinstance(actions, Mapping) else type(actions).__name__
            raise ActionError(
                f"actions have no {list(self._parts)}; they are {found}",
                context={"env_ids": list(env_ids)},
            ) from error

    def columns_of(self, rows: Sequence[Tree]) -> Tree:
        """Stacks each part of actions, as far as it does stack."""
        parts = self._parts.items()
        found = {key: _columns_of(part, [row[key] for row in rows]) for key, part in parts}
        return found if self._dict else tuple(found.values())

    @property
    def clipped(self) -> int:
        return sum(getattr(part, "clipped", 0) for part in self._parts.values())

    def draw(self, count: int, rng: np.random.Generator) -> Tree:
        actions = {key: part.draw(count, rng) for key, part in self._parts.items()}
        return actions if self._dict else tuple(actions.values())


class OtherActions:
    """Checks actions by the space itself; for spaces that are neither arrays nor nested arrays."""

    ragged = True

    def __init__(self, space: Space, *, clip: bool) -> None:
        self._space = space

    def __call__(self, actions: Tree, env_ids: Sequence[int]) -> Iterable[Tree]:
        rows = list(actions)
        for env_id, action in zip(env_ids, rows, strict=True):
            if not self._space.contains(action):
                raise ActionError(
                    f"env {env_id}: action {action!r} is not in {self._space}",
                    context={"env_id": env_id, "action": action},
                )
        return rows

    def stacked(self, actions: Tree, env_ids: Sequence[int]) -> Tree:
        return tuple(self(actions, env_ids))

    def draw(self, count: int, rng: np.random.Generator) -> Tree:
        self._space.seed(int(rng.integers(2**31)))
        return [self._space.sample() for _ in range(count)]


def action_check_of(space: object, *, clip: bool = True) -> ActionCheck:
    """Returns the check for a space's actions; a space is recognised by its class name.

    Args:
        space: Action space.
        clip: Clip actions outside of a Box, and count them; False: refuse them.
    """
    return _CHECKS.get(type(space).__name__, OtherActions)(space, clip=clip)


_CHECKS: dict[str, Callable[..., ActionCheck]] = {
    "Discrete": DiscreteActions,
    "Box": ArrayActions,
    "MultiDiscrete": ArrayActions,
    "MultiBinary": ArrayActions,
    "Dict": NestedActions,
    "Tuple": NestedActions,
}


def _columns_of(check: ActionCheck, rows: Sequence[Tree]) -> Tree:
    if isinstance(check, NestedActions):
        return check.columns_of(rows)
    return rows if check.ragged else EnvBatch.of(dict(enumerate(rows))).value


def batch_of(action: Mapping[int, Tree], check: ActionCheck) -> EnvBatch[Tree]:
    """Stacks the actions of a plain dict.

    Args:
        action: By env id: an action, or a dict of outputs with `action`.
        check: Of the action space.

    Raises:
        ActionError: the actions differ in form, or `action` is not a dict.
        EnvStateError: an env id is not an integer.
    """
    if not isinstance(action, Mapping):
        raise ActionError(
            f"expected a dict of actions by env id, got {type(action).__name__}",
            hint="call step({env_id: action})",
        )
    ids = ids_of(action)
    try:
        if not check.ragged:
            return EnvBatch.of(action)
        rows = [actions_of(row, nested=True) for row in action.values()]
        return EnvBatch(np.array(ids, np.int64), {"action": _columns_of(check, rows)})
    except NonFiniteError as error:
        raise ActionError(
            f"an action of the environments {ids} cannot be stored: {error.message}",
            context={"env_ids": ids},
        ) from error
    except (SchemaError, TypeError, LookupError) as error:
        raise ActionError(
            f"the actions of environments {list(action)} differ in form: {error}",
            context={"env_ids": list(action)},
        ) from error


def ids_of(env_ids: Any) -> list[int]:
    """Returns env ids as ints.

    Raises:
        EnvStateError: one is not an integer, or `env_ids` has none.
    """
    if isinstance(env_ids, str) or not isinstance(env_ids, Iterable):
        raise EnvStateError(f"{env_ids!r} are not env ids", hint="pass ints: [0, 1]")
    found = list(env_ids)
    for each in found:
        if each.__class__ is not int and not isinstance(each, np.integer):
            raise EnvStateError(f"env id {each!r} is not an integer", hint="see manager.ready_obs")
    return list(map(int, found))


def actions_of(value: Tree, *, nested: bool = False) -> Tree:
    """Returns the actions in a policy's outputs (`{'action': …}`); plain actions as they are.

    Args:
        value: Stacked outputs or actions.
        nested: The actions themselves are dicts.

    Raises:
        ActionError: the outputs have no actions.
    """
    if value.__class__ is not dict and not isinstance(value, Mapping):
        return value
    if "action" in value:
        return value["action"]
    if nested:
        return value
    raise ActionError(
        f"no 'action' in the outputs {sorted(value)}", hint="pass {env_id: {'action': …}}"
    )


def draw_actions(space: Space, count: int, rng: np.random.Generator) -> Tree:
    """Draws legal actions of a space: int64 [K] for Discrete, arrays [K, …], nested for Dict."""
    return action_check_of(space).draw(count, rng)


def _form(array: Tree) -> str:
    return f"{array.dtype}{list(array.shape)}"


class ActionLog:
    """The actions of every environment since its reset, from which an episode can be replayed.

    Arrays of actions are not copied: if one is changed later, the replayed episode differs, which
    resume detects.

    Args:
        env_num: Number of environments.
        longest: Steps of the manager that are kept; the actions of a longer episode are lost. None:
            20,000, and fewer if there are more than 100 environments.

    Attributes:
        steps: For each step of a running episode the env ids and their actions.
        count: Steps recorded so far.
    """

    def __init__(self, env_num: int, longest: int | None = None) -> None:
        if longest is None:
            longest = min(_LONGEST, max(1_000, _MOST_ACTIONS // env_num))
        self.steps: deque[tuple[Sequence[int], Sequence[Tree]]] = deque(maxlen=longest)
        self.count = 0
        self._began = [0] * env_num
        self._trim_at = _TRIM_FROM

    def begin(self, env_id: int) -> None:
        """Begins an episode of an environment; its earlier actions are not returned any more."""
        self._began[env_id] = self.count
        if len(self.steps) >= self._trim_at:
            oldest = min(self._began)
            while self.count - len(self.steps) < oldest:
                self.steps.popleft()
            self._trim_at = max(_TRIM_FROM, 2 * len(self.steps))

    def add(self, env_ids: Sequence[int], actions: Sequence[Tree]) -> None:
        """Records one step."""
        self.steps.append((env_ids, actions))
        self.count += 1

    def actions(self, env_id: int) -> Sequence[Tree] | Array | None:
        """Returns the actions of an environment's running episode, or None if they are lost.

        Arrays of the same dtype and shape are stacked to one array.
        """
        first = self._began[env_id] - (self.count - len(self.steps))
        if first < 0:
            return None
        steps = islice(self.steps, first, None)
        taken = [actions[ids.index(env_id)] for ids, actions in steps if env_id in ids]
        forms = {(each.dtype, each.shape) for each in taken if isinstance(each, _ARRAYS)}
        alike = len(forms) == 1 and all(isinstance(each, _ARRAYS) for each in taken)
        return np.stack(taken) if alike else taken
