"""Policies of which one optimizer updates the whole network."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from dicore.data import Batch, State, StateDict
from dicore_plugins.functional.samples import to_batch
from dicore_plugins.models.flat import Flat
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.base import Policy, Results

__all__ = ["OneOptimizerPolicy"]


class OneOptimizerPolicy(Policy):
    """Base class with the optimizer and its state.

    A subclass calls `_make_optimizer` in `_init_learn`; in `_forward_learn` it computes a loss of
    what `_rows` returns, and passes it to `_descend`.
    """

    attributes: ClassVar[tuple[str, ...]] = ("update_count",)

    def _make_optimizer(self, **options: Any) -> None:
        """Creates the optimizer that `learn` names; the options are those of `optimizer_of`."""
        self._model.to(self._device)
        self._flat = Flat(self._model)
        self._optimizer = optimizer_of(self._cfg.learn, self._flat, **options)
        self._update_count = 0

    def _rows(self, data: Any) -> Batch:
        """Returns B samples as tensors, for a loss of parameters that the optimizer has."""
        if not self._flat.intact():
            self._flat.rebind()
        return to_batch(data, self._device)

    def _descend(self, loss: Tensor) -> Results:
        """Runs one gradient update; returns `total_loss` and `cur_lr`."""
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._update_count += 1
        return {"total_loss": loss.detach(), "cur_lr": self._optimizer.learning_rate}

    def _get_skipped_updates(self) -> int:
        return int(self._optimizer.skipped)

    def _state_dict_learn(self) -> StateDict:
        return {
            **self._state_dict_model(),
            "optimizer": self._optimizer.state_dict(),
            "update_count": self._update_count,
        }

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._optimizer.load_state_dict(state["optimizer"])
        self._update_count = int(state["update_count"])
