"""Options of BDQ."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import component, frozen
from dicore_plugins.policies.dqn.config import DQNConfig


@frozen(kw_only=True)
class BDQConfig(DQNConfig):
    """Branching DQN for multi-discrete actions: one target for all parts (Tavakoli et al. 2018)."""

    model: Any = component("model", default="bdq", help="Q network with a head per part")

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy; `model` replaces the configured network."""
        from dicore_plugins.policies.bdq.policy import BDQPolicy

        device = None if ctx is None else ctx.device
        return BDQPolicy(self, model=model, **{"device": device, **parts})
