"""Options of regularized behavioural cloning."""

from __future__ import annotations

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.imitation.sqil_config import SQILConfig
from dicore_plugins.policies.value.sqn_config import SQNLearnConfig


@frozen(kw_only=True)
class RBCLearnConfig(SQNLearnConfig):
    """Options of learning."""

    bellman_weight: float = option(
        1.0,
        "lambda, the weight of the squared soft Bellman error beside the loss of cloning; 0: plain"
        " behavioural cloning",
        ge=0,
    )


@frozen(kw_only=True)
class RBCConfig(SQILConfig):
    """Cloning by softmax(Q), regularized by the soft Bellman error (Reddy et al. 2019)."""

    learn: RBCLearnConfig = section(RBCLearnConfig, auto_temperature=False)

    build = builds("dicore_plugins.policies.imitation.rbc:RBCPolicy")
