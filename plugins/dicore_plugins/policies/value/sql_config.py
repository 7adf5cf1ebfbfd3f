"""Options of SQL."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.required import NO_DOUBLE, Required
from dicore_plugins.policies.value.dqn_config import (
    NO_EPS,
    DQNConfig,
    DQNLearnConfig,
    DQNOtherConfig,
)


@frozen(kw_only=True)
class SQLLearnConfig(DQNLearnConfig):
    """Options of learning."""

    double: bool = option(False, "no effect: the target has no greedy action; keep it False")
    alpha: float = option(
        0.1, "temperature; the policy is softmax(Q / alpha); raise it to explore more", gt=0
    )


@frozen(kw_only=True)
class SQLConfig(DQNConfig):
    """Soft Q-learning with a fixed temperature (Haarnoja et al. 2017)."""

    requires: ClassVar[Required] = NO_DOUBLE

    learn: SQLLearnConfig = section(SQLLearnConfig)
    other: DQNOtherConfig = section(DQNOtherConfig, eps=NO_EPS)

    build = builds("dicore_plugins.policies.value.sql:SQLPolicy")
