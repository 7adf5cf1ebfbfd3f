"""What model wrappers remember of each environment, and the wrapper for recurrent models.

Shapes: N environments, K observations, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import Columns, Tree, tree_map
from dicore.data.tree import is_tensor, loaded_torch, tree_len
from dicore.errors import UsageError
from dicore_plugins.model_wrappers.base import BaseWrapper, env_ids_for

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel, IModelWrapper

Ids = npt.NDArray[np.int64]


class EnvStates:
    """One value per environment, as a tree of arrays or tensors [N, ...] that grows with the ids.

    Args:
        initial: Value of an environment without history, a tree of arrays or tensors [...]; None:
            zeros, in the form of the first values that are written.
        limit: Number of environments; None: no limit.
    """

    def __init__(self, initial: Tree | None = None, limit: int | None = None) -> None:
        self._initial = initial
        self._limit = limit
        self._rows: Tree | None = None
        if initial is not None:
            self._rows = tree_map(lambda leaf: leaf[None], initial)

    def ids(self, env_id: Sequence[int] | None, count: int) -> Ids:
        """Returns the ids of K observations; None: 0 to K - 1.

        Raises:
            UsageError: there are more or fewer ids than observations, or one is out of range.
        """
        given = range(count) if env_id is None else env_id
        ids = np.asarray(given, np.int64).reshape(-1)
        if len(ids) != count:
            raise UsageError(f"{count} observations need as many env ids, got {ids.tolist()}")
        limit = np.inf if self._limit is None else self._limit
        if count and (ids.min() < 0 or ids.max() >= limit):
            raise UsageError(f"env ids must be from 0 to {limit} (excluded), got {ids.tolist()}")
        return ids

    def read(self, ids: Ids) -> Tree | None:
        """Returns the values [K, ...] in new memory; None if there are none yet."""
        if self._rows is None:
            return None
        self._grow(int(ids.max(initial=-1)) + 1)
        return tree_map(lambda leaf: leaf[_index(ids, leaf)], self._rows)

    def write(self, ids: Ids, values: Tree) -> None:
        """Stores values [K, ...], without their graph."""
        if self._rows is None:
            self._rows = tree_map(lambda leaf: zeros(leaf, 0), values)
        self._grow(int(ids.max(initial=-1)) + 1)

        def put(leaf: Tree, value: Tree) -> Tree:
            leaf[_index(ids, leaf)] = value.detach() if is_tensor(value) else value
            return leaf

        tree_map(put, self._rows, values)

    def reset(self, ids: Sequence[int] | None = None) -> None:
        """Restores the initial values: of the given environments, or of all."""
        if ids is None:
            self._rows = None
            if self._initial is not None:
                self._rows = tree_map(lambda leaf: leaf[None], self._initial)
        elif self._rows is not None and len(ids):
            self.write(np.asarray(ids, np.int64), self._fresh(len(ids)))

    def state(self) -> Tree | None:
        """Returns a copy of all values; None if there are none yet."""
        return None if self._rows is None else tree_map(_copy, self._rows)

    def load(self, state: Tree | None) -> None:
        """Restores what `state` returned."""
        self._rows = None if state is None else tree_map(_copy, state)

    def _fresh(self, count: int) -> Tree:
        """Returns the values of environments without history."""
        if self._initial is None:
            return tree_map(lambda leaf: zeros(leaf, count), self._rows)
        return tree_map(lambda leaf: _repeated(leaf, count), self._initial)

    def _grow(self, count: int) -> None:
        missing = count - tree_len(self._rows)
        if missing > 0:
            self._rows = tree_map(_joined, self._rows, self._fresh(missing))


class HiddenState(BaseWrapper):
    """Keeps the recurrent state of each environment: passes it to the model and stores the new one.

    The model is called as `model(obs, hidden)` and returns the next state as `hidden`, a tree of
    arrays or tensors [K, ...]; without a state, it starts from its initial one, which is zeros
    unless `init_fn` is given. Other wrappers may be above or below.

    Args:
        model: Recurrent model, such as `drqn`.
        state_num: Number of environments; None: any.
        save_prev_state: Add the states before the step to the output, as `prev_state`.
        init_fn: Returns the first state of one environment, a tree of [...]; None: zeros.
    """

    by_env = True
    _name, _hint = "hidden", "wrap a recurrent model, such as the one of policy.model.type=drqn"

    def __init__(
        self,
        model: IModel | IModelWrapper,
        state_num: int | None = None,
        save_prev_state: bool = False,
        init_fn: Callable[[], Tree] | None = None,
    ) -> None:
        super().__init__(model)
        self._save = save_prev_state
        self._states = EnvStates(None if init_fn is None else init_fn(), state_num)

    def forward(
        self, obs: Tree, *args: Tree, env_id: Sequence[int] | None = None, **kwargs: object
    ) -> Columns:
        """Runs the model from the states of the environments.

        Args:
            obs: [K, ...].
            *args: Further arguments of the model, after the state.
            env_id: Environment id of each observation; None: 0 to K - 1.
            **kwargs: Keyword arguments of the model.

        Raises:
            UsageError: the model returns no state, or an env id is out of range.
        """
        ids = self._states.ids(env_id, tree_len(obs))
        before = self._states.read(ids)
        kwargs |= env_ids_for(self._model, env_id)
        output = self._run(obs, before, args, kwargs)
        if self._name not in output:
            raise UsageError(
                f"{type(self).__name__}: the model returns {', '.join(output)}, but no"
                f" '{self._name}', the state after the step",
                hint=self._hint,
            )
        after = output[self._name]
        self._states.write(ids, after)
        if not self._save:
            return dict(output)
        if before is None:
            before = tree_map(lambda leaf: zeros(leaf, len(ids)), after)
        return {**output, "prev_state": before}

    def _run(
        self, obs: Tree, before: Tree, args: Sequence[object], kwargs: dict[str, object]
    ) -> Columns:
        """Calls the model with the states; None: none yet."""
        given = () if before is None and not args else (before,)
        output: Columns = self._model(obs, *given, *args, **kwargs)
        return output

    def reset(self, *args: object, **kwargs: object) -> None:
        """Forgets the states of all environments, or of the given ids."""
        reset_states(self._states, args, kwargs)
        super().reset(*args, **kwargs)

    def env_states(self) -> Tree | None:
        """Returns a copy of the states of all environments, by id: [N, ...]; None: none yet."""
        return self._states.state()

    def load_env_states(self, state: Tree | None) -> None:
        """Restores what `env_states` returned."""
        self._states.load(state)


def reset_states(states: EnvStates, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Resets states by the arguments of a wrapper's `reset`: the first one, or `data_id`."""
    states.reset(args[0] if args else kwargs.get("data_id"))


def _index(ids: Ids, leaf: Tree) -> Tree:
    if not is_tensor(leaf):
        return ids
    torch = loaded_torch()
    assert torch is not None
    return torch.from_numpy(ids).to(leaf.device)


def zeros(leaf: Tree, count: int) -> Tree:
    """Returns `count` rows of zeros like the rows of an array or tensor [N, ...]."""
    if not is_tensor(leaf):
        return np.zeros((count, *leaf.shape[1:]), leaf.dtype)
    torch = loaded_torch()
    assert torch is not None
    with torch.inference_mode(mode=False):  # else it could not be written to later
        return torch.zeros((count, *leaf.shape[1:]), dtype=leaf.dtype, device=leaf.device)


def _repeated(leaf: Tree, count: int) -> Tree:
    rows = zeros(leaf[None], count)
    rows[:] = leaf
    return rows


def _joined(one: Tree, other: Tree) -> Tree:
    rows = zeros(one, len(one) + len(other))
    rows[: len(one)], rows[len(one) :] = one, other
    return rows


def _copy(leaf: Tree) -> Tree:
    return leaf.clone() if is_tensor(leaf) else np.array(leaf)
