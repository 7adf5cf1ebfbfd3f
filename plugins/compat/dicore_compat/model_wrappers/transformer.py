"""Inputs of models that attend to earlier steps: windows, segments and memories.

Models receive sequences [T, K, ...], time first, and return `logit` [T, K, A].

Shapes: T steps, K observations, L steps of a window or segment, A actions, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dicore.data import Columns, Tree, tree_map, tree_row
from dicore.data.tree import is_tensor, loaded_torch, tree_len
from dicore.errors import UsageError
from dicore.interfaces.model import IModel, IModelWrapper
from dicore_plugins.model_wrappers.base import BaseWrapper, env_ids_for
from dicore_plugins.model_wrappers.by_env import EnvStates, HiddenState, reset_states, zeros


class TransformerInput(BaseWrapper):
    """Passes the model the last L observations of each environment, oldest first.

    The window of an environment fills up from its first place; places after the newest observation
    are zeros, or what `init_fn` returns. Adds `input_seq` [L, K, ...].

    Args:
        model: Model of sequences [L, K, ...], in which no step depends on later ones.
        seq_len: L.
        init_fn: Returns the observation [...] for empty places; None: zeros.

    Raises:
        UsageError: `seq_len` is below 1.
    """

    by_env = True

    def __init__(
        self,
        model: IModel | IModelWrapper,
        seq_len: int = 16,
        init_fn: Callable[[], Tree] | None = None,
    ) -> None:
        super().__init__(model)
        self._length = _checked("seq_len", seq_len)
        initial = None
        if init_fn is not None:
            window = tree_map(lambda leaf: _repeated(leaf, seq_len), init_fn())
            initial = {"window": window, "count": np.zeros((), np.int64)}
        self._states = EnvStates(initial)

    def forward(
        self,
        obs: Tree,
        *args: Tree,
        only_last_logit: bool = True,
        env_id: Sequence[int] | None = None,
        **kwargs: object,
    ) -> Columns:
        """Adds observations to the windows and runs the model on them.

        Args:
            obs: [K, ...].
            *args: Further arguments of the model.
            only_last_logit: Return the `logit` [K, A] of the newest observation alone.
            env_id: Environment id of each observation; None: 0 to K - 1.
            **kwargs: Keyword arguments of the model.
        """
        ids = self._states.ids(env_id, tree_len(obs))
        held = self._states.read(ids)
        if held is None:
            length, rows = self._length, len(ids)
            window = tree_map(lambda leaf: zeros(_repeated(leaf, length, 1), rows), obs)
            held = {"window": window, "count": np.zeros(len(ids), np.int64)}
        at = np.minimum(held["count"], self._length - 1)
        full = held["count"] == self._length
        window = tree_map(lambda old, new: _appended(old, new, at, full), held["window"], obs)
        self._states.write(ids, {"window": window, "count": at + 1})
        sequence = tree_map(lambda leaf: leaf.swapaxes(0, 1), window)
        output = self._model(sequence, *args, **env_ids_for(self._model, env_id), **kwargs)
        found = {**output, "input_seq": sequence}
        if only_last_logit:
            columns = np.arange(len(ids))
            found["logit"] = tree_map(lambda leaf: leaf[at, columns], output["logit"])
        return found

    def reset(self, *args: object, **kwargs: object) -> None:
        """Empties the windows of all environments, or of the given ids."""
        reset_states(self._states, args, kwargs)
        super().reset(*args, **kwargs)


class TransformerSegment(BaseWrapper):
    """Cuts long sequences into segments of L steps, runs the model on each and joins the outputs.

    Args:
        model: Model of sequences [L, K, ...].
        seq_len: L; the last segment may be shorter.

    Raises:
        UsageError: `seq_len` is below 1.
    """

    def __init__(self, model: IModel | IModelWrapper, seq_len: int = 16) -> None:
        super().__init__(model)
        self._length = _checked("seq_len", seq_len)

    def forward(self, obs: Tree, *args: Tree, **kwargs: object) -> Columns:
        """Runs the model on sequences [T, K, ...]; outputs are joined along their first axis."""
        starts = range(0, tree_len(obs), self._length)
        segments = [tree_row(obs, slice(start, start + self._length)) for start in starts]
        outputs = [self._model(each, *args, **kwargs) for each in segments]
        joined: Columns = tree_map(lambda *leaves: _joined(leaves), *map(dict, outputs))
        return joined


class TransformerMemory(HiddenState):
    """Keeps the memory of each environment: the model's output `memory` of the step before.

    The model is called as `model(obs, memory=memory)`, with None in the first step, and returns the
    next `memory` [K, ...].

    Args:
        model: Model with memory.
        batch_size: Number of environments; None: any.
        init_fn: Returns the first memory of one environment [...]; None: zeros.
    """

    _name, _hint = "memory", "return the memory [K, ...] after the step as the output 'memory'"

    def __init__(
        self,
        model: IModel | IModelWrapper,
        batch_size: int | None = None,
        init_fn: Callable[[], Tree] | None = None,
    ) -> None:
        super().__init__(model, batch_size, init_fn=init_fn)

    def _run(
        self, obs: Tree, before: Tree, args: Sequence[object], kwargs: dict[str, object]
    ) -> Columns:
        output: Columns = self._model(obs, *args, memory=before, **kwargs)
        return output


def _checked(name: str, value: int) -> int:
    if value < 1:
        raise UsageError(f"{name} must be >= 1, got {value!r}")
    return value


def _repeated(leaf: Tree, count: int, axis: int = 0) -> Tree:
    return _joined([leaf[None] if axis == 0 else leaf[:, None]] * count, axis)


def _joined(leaves: Sequence[Tree], axis: int = 0) -> Tree:
    if not is_tensor(leaves[0]):
        return np.concatenate(leaves, axis)
    torch = loaded_torch()
    assert torch is not None
    return torch.cat(tuple(leaves), axis)


def _appended(
    window: Tree, new: Tree, at: npt.NDArray[np.int64], full: npt.NDArray[np.bool_]
) -> Tree:
    """Writes observations [K, ...] to places of windows [K, L, ...]; full ones move on by one."""
    window[full, :-1] = window[full, 1:]
    window[np.arange(len(at)), at] = new
    return window
