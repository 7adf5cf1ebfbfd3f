"""Options of the policy; imports nothing heavy, so that listing is fast."""

from __future__ import annotations

from dicore.config import frozen, option, section
from dicore_plugins.policies import DQNConfig, DQNLearnConfig, builds

__all__ = ["MellowDQNConfig"]


@frozen(kw_only=True)
class MellowLearnConfig(DQNLearnConfig):
    """Options of learning: those of DQN and `omega`."""

    omega: float = option(5.0, "how near the target is to the maximum; 0: the mean", ge=0)


@frozen(kw_only=True)
class MellowDQNConfig(DQNConfig):
    """DQN with the mellowmax operator (Kim et al. 2019, doi:10.24963/ijcai.2019/379)."""

    learn: MellowLearnConfig = section(MellowLearnConfig)

    build = builds("mellow_dqn.policy:MellowDQNPolicy")
