"""IQL: implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169).

V(s) is an expectile of the target network's min_e Q'_e(s, a) over the recorded actions, and
V'(s') = V(s') in the target of Q: no value of an action that the data lacks is used. The actor
imitates with the weights exp((Q'(s, a) - V(s)) / lambda).

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_plugins.functional.offline import expectile_error
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.offline.awac import AWACPolicy
from dicore_plugins.policies.offline.iql_config import IQLConfig
from dicore_plugins.policies.outputs import Signature


class IQLPolicy(AWACPolicy):
    """Actor, Q networks and a value network, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = IQLConfig
    _cfg: IQLConfig
    needed: ClassVar[tuple[str, ...]] = (*AWACPolicy.needed, "value", "v")
    shapes: ClassVar[Mapping[str, Signature]] = {
        **AWACPolicy.shapes, "v": ("", "B")
    }  # fmt: skip

    def _init_learn(self) -> None:
        super()._init_learn()
        self._flats["value"] = Flat(self._model.value)
        self._optimizers["value"] = self._optimizer_of(self._flats["value"])

    def _next_value(self, next_obs: Tree) -> Tensor:
        value: Tensor = self._model.v(next_obs)
        return value

    def _update_actor(self, batch: Batch) -> Results:
        with torch.no_grad():
            q = self._target_model.q(batch["obs"], self._unit_action(batch["action"])).amin(0)
        value = self._model.v(batch["obs"])
        loss = self._value_loss(value, q)
        self._step("value", loss)
        return {**self._imitate(batch, q - value), "value_loss": loss.detach()}

    def _value_loss(self, value: Tensor, q: Tensor) -> Tensor:
        """Computes the loss of V(s) [B], a scalar, from Q'(s, a) [B]."""
        return expectile_error(value, q, self._cfg.learn.expectile)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "value_loss"]
