"""RLPD: reinforcement learning with prior data (Ball et al. 2023, arXiv:2302.02948), over REDQ.

Half of each batch is drawn from a data set and half from own steps, with the rewards of both; ten
Q networks with normalised layers keep the values of actions that neither has tried from growing.
"""

from __future__ import annotations

from typing import ClassVar

from dicore.config.sections import PolicyConfig
from dicore_plugins.policies.continuous.redq import REDQPolicy
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations
from dicore_plugins.policies.imitation.rlpd_config import RLPDConfig


class RLPDPolicy(FromDemonstrations, REDQPolicy):
    """REDQ from a data set and from own steps."""

    config_class: ClassVar[type[PolicyConfig]] = RLPDConfig
    _cfg: RLPDConfig
