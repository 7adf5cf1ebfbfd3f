"""Acting with networks that may remember: one state per environment, kept in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from dicore.data import State, StateDict, Tree
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.policies.base import Policy

__all__ = ["RecurrentPolicy"]


class RecurrentPolicy(Policy):
    """Part of policies whose network may have a recurrent layer, `rnn`.

    A subclass makes `_collect_model` and `_eval_model` from `_remembering(actor)`. Outputs then
    have the column `prev_state`: the states before the step, float32 [K, S].
    """

    _collect_model: Any
    _eval_model: Any

    @cached_property
    def _recurrent(self) -> bool:
        """Whether the network has a recurrent layer."""
        return getattr(self._model, "rnn", None) is not None

    def _remembering(self, actor: Tree) -> Tree:
        """Returns the actor, with the states of the environments if it is recurrent."""
        if not self._recurrent:
            return actor
        return model_wrap(actor, "hidden_state", save_prev_state=True)

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        if self._recurrent:
            self._collect_model.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        if self._recurrent:
            self._eval_model.reset(data_id)

    def _get_collect_state(self) -> StateDict:
        """Returns the recurrent states of the running episodes, which checkpoints keep."""
        state = self._collect_model.env_states() if self._recurrent else None
        return {} if state is None else {"hidden": state}

    def _set_collect_state(self, state: State) -> None:
        if self._recurrent:
            self._collect_model.load_env_states(state.get("hidden"))
