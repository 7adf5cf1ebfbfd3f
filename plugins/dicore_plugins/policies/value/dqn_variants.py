"""Variants of DQN by names of their own."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen
from dicore_plugins.policies.value.dqn_config import DQNConfig


@frozen(kw_only=True)
class DDQNConfig(DQNConfig):
    """Double DQN (van Hasselt et al. 2015, arXiv:1509.06461): `dqn` with learn.double, its default.

    The online network selects the action of the target, and the target network values it.
    """


@frozen(kw_only=True)
class DuelingConfig(DQNConfig):
    """Double DQN with dueling heads (Wang et al. 2015, arXiv:1511.06581): `dqn`, model.dueling."""

    model: ComponentConfig = component(
        "model",
        default={"type": "dqn", "dueling": True},
        help="Q network with streams of value and advantage",
    )
